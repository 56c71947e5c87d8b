/* Prints the report of `syntorch astra-sim`, as text or as members of an object. */
#include "tools/commands/astra_sim_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tools/cli_json.h"

static void print_argument(const char *name, const char *value) {
    printf(" \\\n    --%s=", name);
    cli_print_escaped(stdout, value, strlen(value));
}

/* Times that differ by more than this fraction are explained. */
#define NOTED 0.05
/* Why the collectives of a kind of group take longer in ASTRA-sim than predicted. */
static const char *reason(const syn_hardware *hw, astra_where where, const astra_times *t) {
    if (2 * t->switched_ns > t->simulated_ns - t->predicted_ns)
        return "the prediction uses switches that reduce; ASTRA-sim has only rings of ranks";
    if (hw->collectives.name[0] && (where == ASTRA_SEVERAL || where == ASTRA_ALL))
        return "in ASTRA-sim, the hops of a part within nodes and between nodes take place one "
               "after\n      the other; in a library, they overlap";
    return "ASTRA-sim adds the time to move each part through memory";
}

static const char *const where_names[] = {
    [ASTRA_WITHIN] = "within nodes",
    [ASTRA_BETWEEN] = "between nodes",
    [ASTRA_SEVERAL] = "between nodes, several ranks per node",
    [ASTRA_ALL] = "all ranks",
};

/* Prints simulated and predicted times of the collectives in a kind of group. */
static void print_times(const astra_times *t, astra_where where) {
    printf("%s: %" PRIu64 " collective%s of rank 0, %.3g ms predicted, %.3g ms simulated",
           where_names[where], t->n, cli_plural(t->n), t->predicted_ns / 1e6,
           t->simulated_ns / 1e6);
    if (t->most > 0) printf(" (ratio of each: %.2f to %.2f)", t->least, t->most);
    putchar('\n');
}

/* If the collectives in a kind of group take longer in ASTRA-sim, notes the reason. */
static void note_longer(cli_notes *notes, const syn_hardware *hw, const astra_times *t,
                        astra_where where) {
    if (t->n > 0 && t->simulated_ns > (1 + NOTED) * t->predicted_ns)
        cli_note(notes, "note", "%s", reason(hw, where, t));
}

/* If collectives are faster in ASTRA-sim than predicted, notes the reason. */
static void note_startup(cli_notes *notes, const astra_network *net) {
    double startup_ns = 0;
    bool shorter = false;
    for (int i = 0; i < ASTRA_ASTRAY; i++) {
        const astra_times *t = &net->times[i];
        startup_ns += t->startup_ns;
        shorter |= t->simulated_ns < (1 - NOTED) * t->predicted_ns;
    }
    if (shorter)
        cli_note(notes, "note",
                 "collectives in ASTRA-sim have no startup time (%.3g ms of the predicted times), "
                 "and\n      reach the full bandwidth of the links",
                 fmax(0, startup_ns) / 1e6);
}

static const char *detour_text(const astra_times *d, const char *one, const char *more, char *buf,
                               size_t bytes) {
    buf[0] = '\0';
    if (d->n > 0)
        snprintf(buf, bytes, ":\n      %" PRIu64 " %s, %.3g ms predicted, %.3g ms simulated", d->n,
                 d->n == 1 ? one : more, d->predicted_ns / 1e6, d->simulated_ns / 1e6);
    return buf;
}

/* Notes the communication that misses the network between nodes. ASTRA-sim uses this network only
   between ranks with the same index on their nodes. */
static void note_detours(cli_notes *notes, const astra_network *net) {
    char text[128];
    if (net->n_astray > 0)
        cli_note(notes, "note",
                 "in ASTRA-sim, %" PRIu32 " group%s of several nodes never use%s the network "
                 "between nodes, as no two\n      ranks of the group have the same index on their "
                 "nodes%s",
                 net->n_astray, cli_plural(net->n_astray), net->n_astray == 1 ? "s" : "",
                 detour_text(&net->times[ASTRA_ASTRAY], "collective of rank 0",
                             "collectives of rank 0", text, sizeof text));
    if (net->messages.n > 0)
        cli_note(notes, "note",
                 "in ASTRA-sim, messages to another index on another node do not use the network "
                 "between nodes%s",
                 detour_text(&net->messages, "message", "messages", text, sizeof text));
}

static void note_pools(cli_notes *notes, const astra_result *r) {
    if (r->mixed)
        cli_note(
            notes, "note",
            "in ASTRA-sim, a node has ranks of both pools, whose messages then use the network "
            "within nodes;\n      the prediction uses that between nodes: give a --node_ranks "
            "that divides the ranks of each pool");
}

/* The options of ASTRA-sim, and the files that they name. */
static const struct {
    const char *name;
    int file; /* -1: the trace set */
} astra_options[] = {{"workload-configuration", -1},
                     {"comm-group-configuration", ASTRA_GROUPS},
                     {"system-configuration", ASTRA_SYSTEM},
                     {"network-configuration", ASTRA_NETWORK},
                     {"remote-memory-configuration", ASTRA_MEMORY}};
enum { ASTRA_OPTIONS = sizeof astra_options / sizeof astra_options[0] };
#define ASTRA_SIM "AstraSim_Analytical_Congestion_Unaware"

static const char *option_value(const astra_result *r, int i) {
    return astra_options[i].file < 0 ? r->prefix : r->paths[astra_options[i].file];
}

void astra_print(const astra_result *r) {
    const syn__sim_dimension *d = r->net->machine.dimensions;
    char title[160], traced[32], astra[32];
    cli_notes notes = cli_notes_begin(NULL, stdout);
    printf("%s: %s%s, %" PRId64 " ranks, %.4g GB/s, %.4g us per message", r->paths[ASTRA_NETWORK],
           syn_hardware_title(r->hw, title, sizeof title),
           r->assumed ? " (the set names no machine; --hw chooses one)" : "", d[0].ranks,
           d[0].bytes_per_ns, r->net->latency_ns[0] / 1e3);
    if (r->net->machine.n_dimensions > 1)
        printf("; %" PRId64 " nodes, %.4g GB/s, %.4g us", d[1].ranks, d[1].bytes_per_ns,
               r->net->latency_ns[1] / 1e3);
    printf("\n%s: compute times are %s\n", r->paths[ASTRA_SYSTEM],
           r->roofline ? "computed from flops and bytes at the machine's rates"
                       : "those of the trace");
    for (int i = 0; i < ASTRA_ASTRAY; i++) {
        const astra_times *t = &r->net->times[i];
        if (t->n > 0) print_times(t, (astra_where)i);
        note_longer(&notes, r->hw, t, (astra_where)i);
    }
    note_startup(&notes, r->net);
    note_detours(&notes, r->net);
    note_pools(&notes, r);
    if (r->astra_ns > 0)
        printf("the set takes %s with the times of the traces, %s in ASTRA-sim\n",
               cli_time_text((double)r->traced_ns, traced, sizeof traced),
               cli_time_text((double)r->astra_ns, astra, sizeof astra));
    printf("\n" ASTRA_SIM);
    for (int i = 0; i < ASTRA_OPTIONS; i++)
        print_argument(astra_options[i].name, option_value(r, i));
    printf("\n");
}

static void put_dimensions(syn_sink *json, const astra_network *net) {
    syn_sink_text(json, ", \"dimensions\": [");
    for (int i = 0; i < net->machine.n_dimensions; i++) {
        const syn__sim_dimension *d = &net->machine.dimensions[i];
        syn_sink_printf(json, "%s{\"ranks\": %" PRId64, i ? ", " : "", d->ranks);
        cli_json_real(json, "bytes_per_ns", d->bytes_per_ns);
        cli_json_real(json, "latency_ns", net->latency_ns[i]);
        syn_sink_char(json, '}');
    }
    syn_sink_char(json, ']');
}

static void put_times(syn_sink *json, const astra_network *net) {
    const char *comma = "";
    syn_sink_text(json, ", \"collectives\": [");
    for (int i = 0; i < ASTRA_ASTRAY; i++) {
        const astra_times *t = &net->times[i];
        if (t->n == 0) continue;
        syn_sink_printf(json, "%s{\"where\": \"%s\"", comma, where_names[i]);
        cli_json_count(json, "count", t->n);
        cli_json_real(json, "predicted_ns", t->predicted_ns);
        cli_json_real(json, "simulated_ns", t->simulated_ns);
        cli_json_real(json, "smallest_ratio", t->least);
        cli_json_real(json, "largest_ratio", t->most);
        syn_sink_char(json, '}');
        comma = ", ";
    }
    syn_sink_char(json, ']');
}

static void put_command(syn_sink *json, const astra_result *r) {
    char argument[FOLDER_PATH_BYTES + 64];
    syn_sink_text(json, ", \"command\": [\"" ASTRA_SIM "\"");
    for (int i = 0; i < ASTRA_OPTIONS; i++) {
        snprintf(argument, sizeof argument, "--%s=%s", astra_options[i].name, option_value(r, i));
        syn_sink_text(json, ", ");
        syn_sink_json_string(json, argument);
    }
    syn_sink_char(json, ']');
}

void astra_put_json(const astra_result *r, syn_sink *json) {
    bool first = true;
    cli_json_text(json, "input", r->prefix);
    cli_json_text(json, "hardware", r->hw->name);
    cli_json_text(json, "stack", r->hw->stack.name);
    cli_json_bool(json, "hardware_assumed", r->assumed);
    put_dimensions(json, r->net);
    put_times(json, r->net);
    if (r->astra_ns > 0) {
        cli_json_count(json, "traced_ns", r->traced_ns);
        cli_json_count(json, "simulated_ns", r->astra_ns);
    }
    put_command(json, r);
    cli_json_begin_written(json);
    for (int i = 0; i < ASTRA_FILES; i++) cli_json_add_written(json, r->paths[i], &first);
    syn_sink_char(json, ']');
    cli_notes notes = cli_notes_begin(json, NULL);
    for (int i = 0; i < ASTRA_ASTRAY; i++)
        note_longer(&notes, r->hw, &r->net->times[i], (astra_where)i);
    note_startup(&notes, r->net);
    note_detours(&notes, r->net);
    note_pools(&notes, r);
    cli_notes_end(&notes);
}
