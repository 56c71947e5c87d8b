/* syntorch astra-sim: writes the input files that ASTRA-sim needs in addition to a trace set, and
   prints the command that runs it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "export/export.h"
#include "export/simulate.h"
#include "export/validate.h"
#include "syntorch/base/sink.h"
#include "syntorch/hardware/hardware.h"
#include "tools/cli.h"
#include "tools/commands/astra_sim_links.h"
#include "tools/commands/command.h"
#include "tools/folders.h"
#include "tools/output_lock.h"

static struct arguments {
    const char *input, *hw, *out_dir;
    int roofline; /* index of the word in --roofline; 0: no */
} args = {.out_dir = "astra-sim"};

static const syn_dtype roofline_dtypes[] = {SYN_DTYPE_COUNT, SYN_F32, SYN_F16, SYN_BF16};

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "PREFIX",
     "prefix of the trace set PREFIX.<rank>.et; --input may be omitted", 0, 0},
    {"hw", CLI_TEXT, &args.hw, "MACHINE[+STACK]",
     "machine whose links and memory the files describe; default: the machine of the set's times, "
     "else a100-80g",
     0, 0},
    {"out_dir", CLI_TEXT, &args.out_dir, "DIR", "folder for the files", 0, 0},
    {"roofline", CLI_CHOICE, &args.roofline, "no|f32|f16|bf16",
     "no: use compute times of the trace; else compute them from flops at the peak of this dtype "
     "or bytes at memory bandwidth, whichever is longer",
     0, 0},
    {"out", CLI_ALIAS, NULL, "out_dir", NULL, 0, 0},
    CLI_END};

static const char *const examples[] = {
    "syntorch astra-sim out/trace", "syntorch astra-sim out/trace --hw h100 --out_dir sim", NULL};

static const cli_program program = {
    "syntorch astra-sim",
    "Checks that ASTRA-sim can run a set of Chakra execution traces, writes files that describe "
    "the machine (network.yml, system.json, memory.json) and the ranks of each group in ring order "
    "(comm_group.json), and prints the command that simulates it.",
    options, examples, false};

/* ---- The trace set ---- */

typedef struct trace_set {
    const char *prefix;
    int32_t ranks;
    bool has_messages;
} trace_set;

/* Checks that ASTRA-sim can run the trace set, and fills in *set. */
static syn_status check(trace_set *set, syn_error *err) {
    const char *prefix = set->prefix;
    syn_validation v;
    syn_status s = syn_validate(&v, &prefix, 1, &(syn_validate_options){.any_node = false}, err);
    if (s == SYN_OK && v.n_problems > 0)
        s = SYN_FAIL(err, SYN_E_FORMAT,
                     "ASTRA-sim cannot run this set: `syntorch validate` prints its %" PRIu64
                     " problem%s",
                     v.n_problems, cli_plural(v.n_problems));
    if (s == SYN_OK && v.n_files < 2)
        s = SYN_FAIL(err, SYN_E_UNSUPPORTED,
                     "'%.300s' has one rank, but ASTRA-sim needs at least two", prefix);
    set->ranks = (int32_t)v.n_files;
    set->has_messages = v.n_sends > 0;
    syn_validation_free(&v);
    return s;
}

static const char *metadata_text(const syn_graph *graph, const char *name) {
    const syn_attribute *a = syn_graph_meta(graph, name);
    return a && a->type == SYN_VALUE_TEXT ? a->text : NULL;
}

static bool is_preset(const char *name) {
    for (const char *const *p = syn_hardware_presets(); *p; p++)
        if (strcmp(*p, name) == 0) return true;
    return false;
}

/* Loads the machine of --hw, or else the machine that the set's times were predicted for, with the
   set's stack. If neither is known, for example for a PyTorch trace, uses the default and sets
   `*assumed`. */
static syn_status choose_hardware(syn_hardware *hw, bool *assumed, const syn_graph *first,
                                  syn_error *err) {
    const char *name = metadata_text(first, "hardware"), *stack = metadata_text(first, "stack");
    *assumed = !args.hw && !name;
    if (args.hw) name = args.hw;
    else if (name && (!is_preset(name) || metadata_text(first, "hardware_constants")))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "this set was timed with the hardware file of '%.80s+%.40s', not with a "
                        "preset: give the file with --hw",
                        name, stack ? stack : "?");
    return syn_hardware_load(hw, name ? name : "a100-80g", stack, err);
}

/* Without --roofline, ASTRA-sim uses the compute times in the set. The set must have such times,
   for the same machine whose links are described. */
static syn_status check_times(const syn_hardware *hw, const syn_graph *first, syn_error *err) {
    const char *name = metadata_text(first, "hardware"), *stack = metadata_text(first, "stack");
    syn_cursor cursor = {.deps = NULL};
    syn_status s = SYN_OK;
    bool timed = false;
    if (args.roofline) return SYN_OK;
    for (uint32_t i = 0; i < first->ranks[0].n_nodes && s == SYN_OK && !timed; i++) {
        const syn_node *node = syn_graph_node(first, 0, i, &cursor);
        if (!node) s = SYN_FAIL(err, cursor.error.code, "%s", cursor.error.text);
        timed =
            node && node->kind == SYN_NODE_COMPUTE && (node->wall_ns > 0 || node->predicted_ns > 0);
    }
    syn_cursor_free(&cursor);
    SYN_TRY(s);
    if (!timed)
        return SYN_FAIL(
            err, SYN_E_INVALID,
            "the set has no compute times; give --roofline f32|f16|bf16 to compute them");
    if (!name || (strcmp(name, hw->name) == 0 && (!stack || strcmp(stack, hw->stack.name) == 0)))
        return SYN_OK;
    const char *asked = args.hw ? args.hw : hw->name;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "compute times in this set are those of %.80s+%.40s, not of %.80s+%.40s: trace "
                    "the run with --hw %.80s, export the set again (`syntorch export --input "
                    "GRAPH.json --hw %.80s --format et`), or use --roofline f32|f16|bf16",
                    name, stack ? stack : "?", hw->name, hw->stack.name, asked, asked);
}

/* ---- The files ---- */

/* Writes "key: [ a, b ]" with one value per dimension. */
static void put_list(syn_sink *sink, const char *key, const syn__sim_machine *m,
                     double (*value)(const syn__sim_dimension *d)) {
    syn_sink_printf(sink, "%s: [ ", key);
    for (int i = 0; i < m->n_dimensions; i++)
        syn_sink_printf(sink, "%s%.9g", i ? ", " : "", value(&m->dimensions[i]));
    syn_sink_text(sink, " ]\n");
}

static double ranks_of(const syn__sim_dimension *d) {
    return (double)d->ranks;
}

static double bandwidth_of(const syn__sim_dimension *d) { /* in GB/s of 2^30 bytes */
    return d->bytes_per_ns * 1e9 / 1073741824.0;
}

static double latency_of(const syn__sim_dimension *d) {
    return d->latency_ns;
}

static const char *const topologies[] = {
    [SYN__SIM_RING] = "Ring",
    [SYN__SIM_FULLY_CONNECTED] = "FullyConnected",
    [SYN__SIM_SWITCH] = "Switch",
};

static void put_network(syn_sink *sink, const syn_hardware *hw, const syn__sim_machine *m) {
    syn_sink_printf(sink,
                    "# Links of %s, within nodes first: bandwidth in GB/s (2^30 bytes) per rank, "
                    "latency in ns per hop;\n# a message makes two hops through a Switch.\n"
                    "topology: [ ",
                    hw->name);
    for (int i = 0; i < m->n_dimensions; i++)
        syn_sink_printf(sink, "%s%s", i ? ", " : "", topologies[m->dimensions[i].topology]);
    syn_sink_text(sink, " ]\n");
    put_list(sink, "npus_count", m, ranks_of);
    put_list(sink, "bandwidth", m, bandwidth_of);
    put_list(sink, "latency", m, latency_of);
}

static void put_system(syn_sink *sink, const syn_hardware *hw, const syn__sim_machine *m) {
    static const char *const kinds[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all"};
    const syn_dtype dtype = roofline_dtypes[args.roofline];
    const double *peaks = hw->peak_flops_per_ns;
    const double peak = args.roofline && peaks[dtype] > 0 ? peaks[dtype] : peaks[SYN_F32];
    syn_sink_printf(sink,
                    "{\n  \"scheduling-policy\": \"LIFO\",\n  \"endpoint-delay\": %.9g,\n"
                    "  \"active-chunks-per-dimension\": %" PRId64 ",\n"
                    "  \"preferred-dataset-splits\": %" PRId64 ",\n",
                    m->endpoint_ns, m->active, m->splits);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        syn_sink_printf(sink, "  \"%s-implementation\": [\"ring\"%s],\n", kinds[i],
                        m->n_dimensions > 1 ? ", \"ring\"" : "");
    syn_sink_printf(sink,
                    "  \"collective-optimization\": \"%s\",\n"
                    "  \"local-mem-bw\": %.9g,\n  \"boost-mode\": 0,\n"
                    "  \"roofline-enabled\": %d,\n  \"peak-perf\": %.9g\n}\n",
                    m->local_first ? "localBWAware" : "baseline", m->memory_bytes_per_ns,
                    args.roofline != 0, peak / 1e3);
}

static syn_status open_in(const char *name, char path[FOLDER_PATH_BYTES], syn_sink **sink,
                          syn_error *err) {
    SYN_TRY(folder_path(path, err, args.out_dir, name));
    return syn_sink_open_file(sink, path, err);
}

enum { NETWORK, SYSTEM, MEMORY, GROUPS, FILES };
static const char *const file_names[FILES] = {"network.yml", "system.json", "memory.json",
                                              "comm_group.json"};

static syn_status write_files(const syn_hardware *hw, const astra_network *net,
                              const syn_graph *first, char paths[FILES][FOLDER_PATH_BYTES],
                              syn_error *err) {
    for (int i = 0; i < FILES; i++) {
        syn_status s = SYN_OK;
        syn_sink *sink;
        SYN_TRY(open_in(file_names[i], paths[i], &sink, err));
        if (i == NETWORK) put_network(sink, hw, &net->machine);
        else if (i == SYSTEM) put_system(sink, hw, &net->machine);
        else if (i == GROUPS) s = syn_export_comm_group(first, hw->node_ranks, sink, err);
        else syn_sink_text(sink, "{\"memory-type\": \"NO_MEMORY_EXPANSION\"}\n");
        const syn_status closed = syn_sink_close(sink, s == SYN_OK, err);
        if (s != SYN_OK || closed != SYN_OK) return s != SYN_OK ? s : closed;
    }
    return SYN_OK;
}

/* ---- The command ---- */

static void put_argument(const char *name, const char *value) {
    printf(" \\\n    --%s=", name);
    cli_print_escaped(stdout, value, strlen(value));
}

/* Times that differ by more than this fraction are explained. */
#define NOTED 0.05
/* A set that takes this many times as long as with the times of its traces gets a note. */

/* Why the collectives of a kind of group take longer in ASTRA-sim than predicted. */
static const char *reason(const syn_hardware *hw, astra_where where, const astra_times *t) {
    if (2 * t->switched_ns > t->simulated_ns - t->predicted_ns)
        return "the prediction uses switches that reduce; ASTRA-sim has only rings of ranks";
    if (hw->collectives.name[0] && (where == ASTRA_SEVERAL || where == ASTRA_ALL))
        return "in ASTRA-sim, the hops of a part within nodes and between nodes take place one "
               "after\n      the other; in a library, they overlap";
    return "ASTRA-sim adds the time to move each part through memory";
}

/* Prints simulated and predicted times of the collectives in a kind of group and, if ASTRA-sim's
   are longer, the reason. */
static void report_times(const syn_hardware *hw, const astra_network *net, astra_where where) {
    static const char *const names[] = {
        [ASTRA_WITHIN] = "within nodes",
        [ASTRA_BETWEEN] = "between nodes",
        [ASTRA_SEVERAL] = "between nodes, several ranks per node",
        [ASTRA_ALL] = "all ranks",
    };
    const astra_times *t = &net->times[where];
    if (t->n == 0) return;
    printf("%s: %" PRIu64 " collective%s of rank 0, %.3g ms predicted, %.3g ms simulated "
           "(ratio of each: %.2f to %.2f)\n",
           names[where], t->n, cli_plural(t->n), t->predicted_ns / 1e6, t->simulated_ns / 1e6,
           t->least, t->most);
    if (t->simulated_ns > (1 + NOTED) * t->predicted_ns) printf("note: %s\n", reason(hw, where, t));
}

/* If collectives are faster in ASTRA-sim than predicted, prints the reason. */
static void report_startup(const astra_network *net) {
    double startup_ns = 0;
    bool shorter = false;
    for (int i = 0; i < ASTRA_ASTRAY; i++) {
        const astra_times *t = &net->times[i];
        startup_ns += t->startup_ns;
        shorter |= t->simulated_ns < (1 - NOTED) * t->predicted_ns;
    }
    if (shorter)
        printf("note: collectives in ASTRA-sim have no startup time (%.3g ms of the predicted "
               "times), and\n      reach the full bandwidth of the links\n",
               fmax(0, startup_ns) / 1e6);
}

static void print_detour(const astra_times *d, const char *one, const char *more) {
    if (d->n > 0)
        printf(":\n      %" PRIu64 " %s, %.3g ms predicted, %.3g ms simulated", d->n,
               d->n == 1 ? one : more, d->predicted_ns / 1e6, d->simulated_ns / 1e6);
    printf("\n");
}

/* Prints the communication that misses the network between nodes. ASTRA-sim uses this network only
   between ranks with the same index on their nodes. */
static void report_detours(const astra_network *net) {
    if (net->n_astray > 0) {
        printf("note: in ASTRA-sim, %" PRIu32
               " group%s of several nodes never use%s the network between "
               "nodes, as no two\n      ranks of the group have the same index on their nodes",
               net->n_astray, cli_plural(net->n_astray), net->n_astray == 1 ? "s" : "");
        print_detour(&net->times[ASTRA_ASTRAY], "collective of rank 0", "collectives of rank 0");
    }
    if (net->messages.n > 0) {
        printf("note: in ASTRA-sim, messages to another index on another node do not use the "
               "network between nodes");
        print_detour(&net->messages, "message", "messages");
    }
}

/* The end of the set in ns, with ASTRA-sim's files or else with the times of the traces; 0:
 * unknown. */
static uint64_t end_of(const char *prefix, const syn_simulate_options *how) {
    syn_simulation sim;
    syn_error unused = {0};
    const syn_status s = syn_simulate(&sim, &prefix, 1, how, &unused);
    const uint64_t end_ns = s == SYN_OK && sim.deadlock == NULL ? sim.end_ns : 0;
    syn_simulation_free(&sim);
    return end_ns;
}

/* Prints the time of the whole set in ASTRA-sim beside that of the traces. */
static void report_step(const char *prefix, char paths[FILES][FOLDER_PATH_BYTES]) {
    const syn_simulate_options traced = {.groups = paths[GROUPS], .threads = cli_cores()};
    syn_simulate_options astra = traced;
    char before[32], after[32];
    astra.network = paths[NETWORK];
    astra.system = paths[SYSTEM];
    const uint64_t traced_ns = args.roofline ? 0 : end_of(prefix, &traced);
    const uint64_t astra_ns = traced_ns > 0 ? end_of(prefix, &astra) : 0;
    if (astra_ns == 0) return;
    printf("the set takes %s with the times of the traces, %s in ASTRA-sim\n",
           cli_time_text((double)traced_ns, before, sizeof before),
           cli_time_text((double)astra_ns, after, sizeof after));
}

static void report(const char *prefix, const syn_hardware *hw, bool assumed,
                   const astra_network *net, char paths[FILES][FOLDER_PATH_BYTES]) {
    const syn__sim_dimension *d = net->machine.dimensions;
    char title[160];
    printf("%s: %s%s, %" PRId64 " ranks, %.4g GB/s, %.4g us per message", paths[NETWORK],
           syn_hardware_title(hw, title, sizeof title),
           assumed ? " (the set names no machine; --hw chooses one)" : "", d[0].ranks,
           d[0].bytes_per_ns, net->latency_ns[0] / 1e3);
    if (net->machine.n_dimensions > 1)
        printf("; %" PRId64 " nodes, %.4g GB/s, %.4g us", d[1].ranks, d[1].bytes_per_ns,
               net->latency_ns[1] / 1e3);
    printf("\n%s: compute times are %s\n", paths[SYSTEM],
           args.roofline ? "computed from flops and bytes at the machine's rates"
                         : "those of the trace");
    for (int i = 0; i < ASTRA_ASTRAY; i++) report_times(hw, net, (astra_where)i);
    report_startup(net);
    report_detours(net);
    report_step(prefix, paths);
    printf("\nAstraSim_Analytical_Congestion_Unaware");
    put_argument("workload-configuration", prefix);
    put_argument("comm-group-configuration", paths[GROUPS]);
    put_argument("system-configuration", paths[SYSTEM]);
    put_argument("network-configuration", paths[NETWORK]);
    put_argument("remote-memory-configuration", paths[MEMORY]);
    printf("\n");
}

static syn_status import(syn_graph **out, const trace_set *set, int32_t rank, syn_error *err) {
    char path[FOLDER_PATH_BYTES];
    if ((size_t)snprintf(path, sizeof path, "%s.%" PRId32 ".et", set->prefix, rank) >= sizeof path)
        return SYN_FAIL(err, SYN_E_INVALID, "the prefix is too long");
    return syn_import_et(out, path, false, err); /* includes the groups of all ranks */
}

static syn_status add_messages(astra_network *net, const syn_hardware *hw, const trace_set *set,
                               syn_error *err) {
    syn_status s = SYN_OK;
    for (int32_t rank = 0; rank < set->ranks && set->has_messages && s == SYN_OK; rank++) {
        syn_graph *graph = NULL;
        s = import(&graph, set, rank, err);
        if (s == SYN_OK) s = astra_add_messages(net, hw, graph, err);
        syn_graph_free(graph);
    }
    return s;
}

static syn_status simulate(const trace_set *set, const char *prefix_out, const syn_graph *first,
                           syn_error *err) {
    static char paths[FILES][FOLDER_PATH_BYTES];
    output_lock lock = {.path = NULL};
    syn_hardware hw;
    astra_network net;
    bool assumed;
    SYN_TRY(choose_hardware(&hw, &assumed, first, err));
    SYN_TRY(check_times(&hw, first, err));
    SYN_TRY(astra_network_of(&hw, first, set->ranks, &net, err));
    SYN_TRY(add_messages(&net, &hw, set, err));
    SYN_TRY(syn_make_folder(args.out_dir, err));
    SYN_TRY(output_lock_take(&lock, prefix_out, program.name, "name another --out_dir", err));
    const syn_status s = write_files(&hw, &net, first, paths, err);
    output_lock_release(&lock);
    if (s != SYN_OK) return s;
    report(set->prefix, &hw, assumed, &net, paths);
    return SYN_OK;
}

static syn_status run(const char *prefix, syn_error *err) {
    char prefix_out[FOLDER_PATH_BYTES];
    trace_set set = {.prefix = prefix};
    syn_graph *first = NULL;
    SYN_TRY(folder_path(prefix_out, err, args.out_dir, ""));
    SYN_TRY(folder_check_prefix(prefix_out, err));
    SYN_TRY(check(&set, err));
    SYN_TRY(import(&first, &set, 0, err));
    const syn_status s = simulate(&set, prefix_out, first, err);
    syn_graph_free(first);
    return s;
}

int command_astra_sim(int argc, char **argv) {
    syn_error err = {0};
    const char *const *paths;
    size_t n;
    const int code = cli_parse_inputs(&program, argc, argv, &args.input, "a prefix is", &paths, &n);
    if (code != CLI_RUN) return code;
    if (n > 1) return cli_fail(&program, CLI_USAGE, "astra-sim accepts one prefix, not %zu", n);
    if (run(paths[0], &err) != SYN_OK) return cli_fail(&program, CLI_FAILED, "%s", err.text);
    return CLI_OK;
}
