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
#include "tools/cli_json.h"
#include "tools/commands/astra_sim_links.h"
#include "tools/commands/astra_sim_report.h"
#include "tools/commands/command.h"
#include "tools/folders.h"
#include "tools/inputs.h"
#include "tools/output_lock.h"

static struct arguments {
    const char *input, *hw, *out_dir;
    int64_t node_ranks;
    int roofline; /* index of the word in --roofline; 0: no */
    bool json;
} args = {.out_dir = "astra-sim"};

static const syn_dtype roofline_dtypes[] = {SYN_DTYPE_COUNT, SYN_F32, SYN_F16, SYN_BF16};

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "PREFIX",
     "prefix of the trace set PREFIX.<rank>.et; --input may be omitted", 0, 0},
    {"hw", CLI_TEXT, &args.hw, "MACHINE[+STACK]",
     "machine whose links and memory the files describe; default: the machine of the set's times, "
     "else a100-80g",
     0, 0},
    {"node_ranks", CLI_INT, &args.node_ranks, "N",
     "ranks per node, if the ranks do not fill whole nodes; default: those of the machine", 1,
     SYN_MAX_WORLD},
    {"out_dir", CLI_TEXT, &args.out_dir, "DIR", "folder for the files", 0, 0},
    {"roofline", CLI_CHOICE, &args.roofline, "no|f32|f16|bf16",
     "no: use compute times of the trace; else compute them from flops at the peak of this dtype "
     "or bytes at memory bandwidth, whichever is longer",
     0, 0},
    CLI_JSON(&args.json),
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
    int32_t prefill_ranks; /* of a server that computes prompts on ranks of their own */
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

static const char *const file_names[ASTRA_FILES] = {"network.yml", "system.json", "memory.json",
                                                    "comm_group.json"};

static syn_status write_files(const syn_hardware *hw, const astra_network *net,
                              const syn_graph *first, char paths[ASTRA_FILES][FOLDER_PATH_BYTES],
                              syn_error *err) {
    for (int i = 0; i < ASTRA_FILES; i++) {
        syn_status s = SYN_OK;
        syn_sink *sink;
        SYN_TRY(open_in(file_names[i], paths[i], &sink, err));
        if (i == ASTRA_NETWORK) put_network(sink, hw, &net->machine);
        else if (i == ASTRA_SYSTEM) put_system(sink, hw, &net->machine);
        else if (i == ASTRA_GROUPS) s = syn_export_comm_group(first, hw->node_ranks, sink, err);
        else syn_sink_text(sink, "{\"memory-type\": \"NO_MEMORY_EXPANSION\"}\n");
        const syn_status closed = syn_sink_close(sink, s == SYN_OK, err);
        if (s != SYN_OK || closed != SYN_OK) return s != SYN_OK ? s : closed;
    }
    return SYN_OK;
}

/* ---- The command ---- */

/* The end of the set in ns, with ASTRA-sim's files or else with the times of the traces; 0:
   unknown. */
static uint64_t end_of(const char *prefix, const syn_simulate_options *how) {
    syn_simulation sim;
    syn_error unused = {0};
    const syn_status s = syn_simulate(&sim, &prefix, 1, how, &unused);
    const uint64_t end_ns = s == SYN_OK && sim.deadlock == NULL ? sim.end_ns : 0;
    syn_simulation_free(&sim);
    return end_ns;
}

static void simulate_step(astra_result *r) {
    const syn_simulate_options traced = {.groups = r->paths[ASTRA_GROUPS], .threads = cli_cores()};
    syn_simulate_options astra = traced;
    astra.network = r->paths[ASTRA_NETWORK];
    astra.system = r->paths[ASTRA_SYSTEM];
    r->traced_ns = args.roofline ? 0 : end_of(r->prefix, &traced);
    r->astra_ns = r->traced_ns > 0 ? end_of(r->prefix, &astra) : 0;
}

static syn_status import(syn_graph **out, const trace_set *set, int32_t rank, syn_error *err) {
    char path[FOLDER_PATH_BYTES];
    if ((size_t)snprintf(path, sizeof path, "%s.%" PRId32 ".et", set->prefix, rank) >= sizeof path)
        return SYN_FAIL(err, SYN_E_INVALID, "the prefix is too long");
    return syn_import_et(out, path, false, err); /* includes the groups of all ranks */
}

/* Reads the ranks of a set that has messages. */
static syn_status add_messages(astra_network *net, const syn_hardware *hw, trace_set *set,
                               syn_error *err) {
    syn_status s = SYN_OK;
    for (int32_t rank = 0; rank < set->ranks && set->has_messages && s == SYN_OK; rank++) {
        syn_graph *graph = NULL;
        s = import(&graph, set, rank, err);
        const char *pool = s == SYN_OK ? metadata_text(graph, "pool") : NULL;
        if (pool && strcmp(pool, "prefill") == 0) set->prefill_ranks++;
        if (s == SYN_OK) s = astra_add_messages(net, hw, graph, err);
        syn_graph_free(graph);
    }
    return s;
}

static syn_status simulate(trace_set *set, const char *prefix_out, const syn_graph *first,
                           syn_error *err) {
    static char paths[ASTRA_FILES][FOLDER_PATH_BYTES];
    output_lock lock = {.path = NULL};
    syn_hardware hw;
    astra_network net;
    bool assumed;
    SYN_TRY(choose_hardware(&hw, &assumed, first, err));
    SYN_TRY(check_times(&hw, first, err));
    if (args.node_ranks > 0) hw.node_ranks = (int32_t)args.node_ranks;
    SYN_TRY(astra_network_of(&hw, first, set->ranks, &net, err));
    SYN_TRY(add_messages(&net, &hw, set, err));
    SYN_TRY(syn_make_folder(args.out_dir, err));
    SYN_TRY(output_lock_take(&lock, prefix_out, program.name, "name another --out_dir", err));
    const syn_status s = write_files(&hw, &net, first, paths, err);
    output_lock_release(&lock);
    if (s != SYN_OK) return s;
    astra_result r = {.roofline = args.roofline != 0,
                      .prefix = set->prefix,
                      .hw = &hw,
                      .assumed = assumed,
                      .mixed = set->prefill_ranks % net.machine.dimensions[0].ranks != 0,
                      .net = &net,
                      .paths = paths};
    simulate_step(&r);
    if (!args.json) {
        astra_print(&r);
        return SYN_OK;
    }
    syn_sink *json;
    SYN_TRY(cli_json_open(&json, &program, err));
    astra_put_json(&r, json);
    return cli_json_close(json, SYN_OK, err);
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
    int code = cli_parse_inputs(&program, argc, argv, &args.input, "a prefix is", &paths, &n);
    if (code != CLI_RUN) return code;
    if (n > 1) return cli_fail(&program, CLI_USAGE, "astra-sim accepts one prefix, not %zu", n);
    code = cli_refuse_standard_input(&program, paths[0], "a set of files");
    return code == CLI_RUN ? cli_done(&program, run(paths[0], &err), &err) : code;
}
