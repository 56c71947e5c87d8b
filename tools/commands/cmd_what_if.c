/* syntorch what-if: simulates a set of execution traces with changes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/simulate.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"
#include "tools/cli.h"
#include "tools/commands/command.h"

static struct arguments {
    const char *input, *groups, *network, *system, *scale, *drop;
    uint64_t max_unpacked_bytes;
    bool json;
} args;

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "PREFIX",
     "set PREFIX.<rank>.et; --input may be omitted, then also several files", 0, 0},
    {"scale", CLI_TEXT, &args.scale, "NODES=FACTOR,...",
     "these nodes take FACTOR times as long. NODES is a pattern of names such as *attn*, the name "
     "of a collective such as ALL_REDUCE, or COMPUTE, COLLECTIVES or MESSAGES",
     0, 0},
    {"drop", CLI_TEXT, &args.drop, "NODES,...", "these nodes take no time", 0, 0},
    {"groups", CLI_TEXT, &args.groups, "FILE",
     "file with the ranks of each group; default: PREFIX.comm_group.json if it exists", 0, 0},
    {"network", CLI_TEXT, &args.network, "FILE",
     "ASTRA-sim's network file; default: the times in the traces", 0, 0},
    {"system", CLI_TEXT, &args.system, "FILE", "ASTRA-sim's system file, needed with --network", 0,
     0},
    {"json", CLI_FLAG, &args.json, NULL, "print one JSON object", 0, 0},
    CLI_MAX_UNPACKED(&args.max_unpacked_bytes),
    CLI_END};

static const char *const examples[] = {
    "syntorch what-if outputs/trace --scale '*attn*=0.5'",
    "syntorch what-if outputs/trace --scale COLLECTIVES=0.5,MESSAGES=0.5 --drop '*dropout*'", NULL};

static const cli_program program = {"syntorch what-if",
                                    "Simulates a set of Chakra execution traces twice, unchanged "
                                    "and with changed times, and prints "
                                    "what the changes save. Dependencies stay as they are.",
                                    options, examples, false};

/* ---- Changes ---- */

typedef struct changes {
    char *text; /* patterns, separated by NUL */
    syn_scaled_nodes *list;
    size_t n, cap;
} changes;

static syn_status add(changes *c, const char *pattern, double factor, syn_error *err) {
    if (c->n == SYN_MAX_SCALED)
        return SYN_FAIL(err, SYN_E_INVALID, "--scale and --drop have more than %d patterns",
                        SYN_MAX_SCALED);
    SYN_TRY(syn_grow(&c->list, &c->cap, c->n + 1, sizeof *c->list, err));
    c->list[c->n++] = (syn_scaled_nodes){pattern, factor};
    return SYN_OK;
}

/* Reads "a=0.5,b=2", or with has_factors false "a,b". */
static syn_status read_list(changes *c, char *text, bool has_factors, syn_error *err) {
    for (char *at = text, *next; at != NULL; at = next) {
        char *end = strchr(at, ','), *equals = strrchr(at, '=');
        double factor = 0;
        next = end != NULL ? end + 1 : NULL;
        if (end != NULL) {
            *end = '\0';
            equals = strrchr(at, '=');
        }
        if (has_factors) {
            char *rest = NULL;
            if (equals != NULL) factor = strtod(equals + 1, &rest);
            if (equals == NULL || equals == at || rest == equals + 1 || *rest != '\0' ||
                !(factor >= 0) || factor > 1e6)
                return SYN_FAIL(err, SYN_E_INVALID,
                                "--scale '%.60s' is not of the form NODES=FACTOR, with a factor "
                                "from 0 to 1000000",
                                at);
            *equals = '\0';
        }
        if (*at == '\0')
            return SYN_FAIL(err, SYN_E_INVALID, "--%s has an empty name",
                            has_factors ? "scale" : "drop");
        SYN_TRY(add(c, at, factor, err));
    }
    return SYN_OK;
}

static syn_status read_changes(changes *c, syn_error *err) {
    const size_t n_scale = args.scale != NULL ? strlen(args.scale) + 1 : 0;
    const size_t n_drop = args.drop != NULL ? strlen(args.drop) + 1 : 0;
    c->text = syn_malloc(n_scale + n_drop + 1);
    if (c->text == NULL) return SYN_FAIL_NOMEM(err, n_scale + n_drop, "--scale and --drop");
    if (n_scale > 0) {
        memcpy(c->text, args.scale, n_scale);
        SYN_TRY(read_list(c, c->text, true, err));
    }
    if (n_drop == 0) return SYN_OK;
    memcpy(c->text + n_scale, args.drop, n_drop);
    return read_list(c, c->text + n_scale, false, err);
}

/* ---- Output ---- */

/* Sums over ranks, divided by their number. */
typedef struct sums {
    double end_ns, compute_ns, exposed_ns, wait_ns;
} sums;

static sums sums_of(const syn_simulation *sim) {
    sums s = {.end_ns = (double)sim->end_ns};
    for (size_t i = 0; i < sim->n_ranks; i++) {
        s.compute_ns += (double)sim->ranks[i].compute_ns / (double)sim->n_ranks;
        s.exposed_ns += (double)sim->ranks[i].exposed_ns / (double)sim->n_ranks;
        s.wait_ns += (double)sim->ranks[i].wait_ns / (double)sim->n_ranks;
    }
    return s;
}

static void print_row(const char *what, double before, double after) {
    char a[32], b[32];
    printf("%-24s %10s %10s", what, cli_time_text(before, a, sizeof a),
           cli_time_text(after, b, sizeof b));
    if (before > 0) printf(" %+8.1f %%", 100 * (after / before - 1));
    printf("\n");
}

static syn_status print_json(const syn_simulation *before, const syn_simulation *after,
                             syn_error *err) {
    const sums sides[2] = {sums_of(before), sums_of(after)};
    static const char *const names[2] = {"before", "after"};
    syn_sink *out;
    SYN_TRY(syn_sink_open_file(&out, "-", err));
    syn_sink_printf(out, "{\"changed_nodes\": %" PRIu64, after->n_scaled);
    for (int i = 0; i < 2; i++)
        syn_sink_printf(out,
                        ", \"%s\": {\"end_ns\": %.0f, \"compute_ns\": %.0f, \"exposed_ns\": %.0f, "
                        "\"waiting_ns\": %.0f}",
                        names[i], sides[i].end_ns, sides[i].compute_ns, sides[i].exposed_ns,
                        sides[i].wait_ns);
    syn_sink_text(out, "}\n");
    return syn_sink_close(out, true, err);
}

static void print_text(const syn_simulation *before, const syn_simulation *after) {
    const sums a = sums_of(before), b = sums_of(after);
    printf("%" PRIu64 " of %" PRIu64 " nodes are changed\n\n", after->n_scaled, after->n_nodes);
    printf("%-24s %10s %10s\n", "", "before", "after");
    print_row("end", a.end_ns, b.end_ns);
    print_row("compute, mean of ranks", a.compute_ns, b.compute_ns);
    print_row("exposed communication", a.exposed_ns, b.exposed_ns);
    print_row("waiting", a.wait_ns, b.wait_ns);
}

/* ---- The command ---- */

static syn_status check(const syn_simulation *sim, syn_error *err) {
    if (sim->deadlock == NULL) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT, "the set deadlocks: %s", sim->deadlock);
}

static syn_status compare(const char *const *paths, size_t n, const changes *c, syn_error *err) {
    syn_simulation before = {.n_nodes = 0}, after = {.n_nodes = 0};
    syn_simulate_options how = {.groups = args.groups,
                                .network = args.network,
                                .system = args.system,
                                .threads = cli_cores(),
                                .max_unpacked_bytes = args.max_unpacked_bytes};
    syn_status s = syn_simulate(&before, paths, n, &how, err);
    if (s == SYN_OK) s = check(&before, err);
    how.scaled = c->list;
    how.n_scaled = c->n;
    if (s == SYN_OK) s = syn_simulate(&after, paths, n, &how, err);
    if (s == SYN_OK) s = check(&after, err);
    if (s == SYN_OK && after.n_scaled == 0)
        s = SYN_FAIL(err, SYN_E_INVALID, "no node matches the patterns of --scale and --drop");
    for (size_t i = 0; i < c->n && s == SYN_OK; i++)
        if ((after.matched >> i & 1) == 0)
            fprintf(stderr, "note: no node matches '%s'\n", c->list[i].pattern);
    if (s == SYN_OK && args.json) s = print_json(&before, &after, err);
    else if (s == SYN_OK) print_text(&before, &after);
    syn_simulation_free(&before);
    syn_simulation_free(&after);
    return s;
}

int command_what_if(int argc, char **argv) {
    syn_error err = {0};
    changes c = {.text = NULL};
    const char *const *paths;
    size_t n;
    const int code =
        cli_parse_inputs(&program, argc, argv, &args.input, "a prefix or files are", &paths, &n);
    if (code != CLI_RUN) return code;
    if (args.scale == NULL && args.drop == NULL)
        return cli_fail(&program, CLI_USAGE, "--scale or --drop says what to change");
    if ((args.network == NULL) != (args.system == NULL))
        return cli_fail(&program, CLI_USAGE,
                        "--network and --system describe one machine; give both or none");
    syn_status s = read_changes(&c, &err);
    if (s == SYN_OK) s = compare(paths, n, &c, &err);
    syn_free(c.text);
    syn_free(c.list);
    return cli_done(&program, s, &err);
}
