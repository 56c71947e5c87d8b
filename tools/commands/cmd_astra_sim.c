/* syntorch astra-sim: what ASTRA-sim needs besides a set, and the command that runs it. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "export/export.h"
#include "export/validate.h"
#include "syntorch/hardware.h"
#include "syntorch/memory.h"
#include "syntorch/sink.h"
#include "tools/cli.h"
#include "tools/commands/command.h"
#include "tools/folders.h"

static struct arguments {
    const char *input, *hw, *out;
    int roofline; /* the index of the word: 0 for none */
} args = {.out = "astra-sim"};

static const syn_dtype roofline_dtypes[] = {SYN_DTYPE_COUNT, SYN_F32, SYN_F16, SYN_BF16};

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "PREFIX",
     "the set PREFIX.<rank>.et; without the option, too: PREFIX", 0, 0},
    {"hw", CLI_TEXT, &args.hw, "NAME|FILE",
     "the machine whose links and memory the files describe; default: that of the set's times, or "
     "a100-80g",
     0, 0},
    {"out", CLI_TEXT, &args.out, "DIR", "the folder for the files; default: astra-sim", 0, 0},
    {"roofline", CLI_CHOICE, &args.roofline, "no|f32|f16|bf16",
     "no: computation takes the trace's own times; else the larger of its ops by the peak of that "
     "type and its bytes by the memory's rate",
     0, 0},
    CLI_END};

static const char *const examples[] = {"syntorch astra-sim out/trace",
                                       "syntorch astra-sim out/trace --hw h100 --out sim", NULL};

static const cli_program program = {
    "syntorch astra-sim",
    "Checks that a set of Chakra execution traces runs in ASTRA-sim, writes the files that "
    "describe "
    "the machine\n"
    "(network.yml, system.json, memory.json) and prints the command that simulates it.",
    options, examples, false};

/* ---- The set ---- */

/* That it runs at all, and how many ranks it has. */
static syn_status check(const char *prefix, int32_t *ranks, syn_error *err) {
    syn_validation v;
    syn_status s = syn_validate(&v, &prefix, 1, &(syn_validate_options){.any_node = false}, err);
    if (s == SYN_OK && v.n_problems > 0)
        s = SYN_FAIL(err, SYN_E_FORMAT,
                     "ASTRA-sim does not run this set: `syntorch validate` tells its %" PRIu64
                     " problem%s",
                     v.n_problems, cli_plural(v.n_problems));
    if (s == SYN_OK && v.n_files < 2)
        s = SYN_FAIL(err, SYN_E_UNSUPPORTED,
                     "'%.300s' is one rank, and ASTRA-sim has no network of one", prefix);
    *ranks = (int32_t)v.n_files;
    syn_validation_free(&v);
    return s;
}

static const char *fact(const syn_graph *graph, const char *name) {
    const syn_attribute *a = syn_graph_meta(graph, name);
    return a && a->type == SYN_VALUE_TEXT ? a->text : NULL;
}

static bool is_preset(const char *name) {
    for (const char *const *p = syn_hardware_presets(); *p; p++)
        if (strcmp(*p, name) == 0) return true;
    return false;
}

/* The machine that is asked for, else that of the set's times, under the set's stack. *assumed:
   neither is there, as of a recording. */
static syn_status choose_hardware(syn_hardware *hw, bool *assumed, const syn_graph *first,
                                  syn_error *err) {
    const char *name = fact(first, "hardware"), *stack = fact(first, "stack");
    *assumed = !args.hw && !name;
    if (args.hw) name = args.hw;
    else if (name && !is_preset(name))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the times of this set are of '%.200s', which is no preset: --hw names its "
                        "file",
                        name);
    return syn_hardware_load(hw, name ? name : "a100-80g", stack, err);
}

/* ---- A dimension of the network ---- */

typedef struct dimension {
    int32_t ranks;
    double latency_ns, bytes_per_ns;
} dimension;

/* Sums over all-reduces, each by one over its time, which is taken as
       steps * latency + bytes on a link / bandwidth */
typedef struct sums {
    double steps2, steps_bytes, bytes2, steps_time, bytes_time, steps, bytes, time;
} sums;

#define ENDPOINT_NS 10.0 /* what ASTRA-sim adds to each step of a sub-group's ring */

/* The simulator's ring of n ranks lasts, for an all-reduce of s bytes,
       2 (n - 1) (latency + s / (n bandwidth) + 10 ns) + 3 (n - 1) s / (n memory)
   (its sources; `memory` is local-mem-bw); here is what we predict for it. */
static void add_one(sums *to, const syn_hardware *hw, const syn_graph_group *group,
                    const syn_node *node) {
    const double n = group->n_ranks, steps = 2 * (n - 1);
    const double on_link = steps / n * (double)node->comm_bytes;
    const double all = syn_hardware_predict_ns(hw, node, group, group->ranks[0]);
    const double others = steps * ENDPOINT_NS + 1.5 * on_link / hw->memory_bytes_per_ns;
    const double time = all - others > all / 10 ? all - others : all / 10, weight = 1 / time;
    to->steps2 += weight * steps * steps;
    to->steps_bytes += weight * steps * on_link;
    to->bytes2 += weight * on_link * on_link;
    to->steps_time += steps;
    to->bytes_time += on_link;
    to->steps += steps;
    to->bytes += on_link;
    to->time += time;
}

/* Least squares, neither below 0. False: all are of one size, which says nothing of the two. */
static bool split(const sums *s, double *latency, double *per_byte) {
    const double det = s->steps2 * s->bytes2 - s->steps_bytes * s->steps_bytes;
    if (!(det > 1e-9 * s->steps2 * s->bytes2)) return false;
    *latency = fmax(0, (s->steps_time * s->bytes2 - s->bytes_time * s->steps_bytes) / det);
    *per_byte = (s->bytes_time * s->steps2 - s->steps_time * s->steps_bytes) / det;
    return true;
}

/* The simulator's times are linear in the bytes, ours need not be: both its constants are scaled so
   that the set's all-reduces last as long in sum. Where these are of one size, the two are to each
   other as they are for `others`, of all sizes. */
static dimension fit(const sums *s, const sums *others, int32_t ranks) {
    double latency = 0, per_byte = 0;
    if (!split(s, &latency, &per_byte)) split(others, &latency, &per_byte);
    const double least = 1e-3 * s->time / s->bytes; /* a bandwidth there must be */
    per_byte = fmax(per_byte, least);
    const double scale = s->time / (latency * s->steps + per_byte * s->bytes);
    return (dimension){ranks, latency * scale, 1 / (per_byte * scale)};
}

/* Rank 0's all-reduces within a node and between nodes; and that its computation has times. */
static syn_status add_all(sums on[2], const syn_hardware *hw, const syn_graph *first,
                          syn_error *err) {
    syn_cursor cursor = {.deps = NULL};
    syn_status s = SYN_OK;
    bool timed = args.roofline != 0;
    for (uint32_t i = 0; i < first->ranks[0].n_nodes && s == SYN_OK; i++) {
        const syn_node *node = syn_graph_node(first, 0, i, &cursor);
        if (!node) s = SYN_FAIL(err, cursor.error.code, "%s", cursor.error.text);
        timed |=
            node && node->kind == SYN_NODE_COMPUTE && (node->wall_ns > 0 || node->predicted_ns > 0);
        if (!node || node->kind != SYN_NODE_COLLECTIVE || node->comm != SYN_COMM_ALL_REDUCE)
            continue;
        const syn_graph_group *group = syn_graph_group_by_id(first, node->group);
        bool far = false;
        for (uint32_t k = 0; group && k < group->n_ranks; k++)
            far |= group->ranks[k] / hw->node_ranks != group->ranks[0] / hw->node_ranks;
        if (group && group->n_ranks > 1 && node->comm_bytes > 0) add_one(&on[far], hw, group, node);
    }
    syn_cursor_free(&cursor);
    if (s == SYN_OK && !timed)
        s = SYN_FAIL(err, SYN_E_INVALID,
                     "the set has no times of computation; --roofline f32|f16|bf16 computes them");
    return s;
}

/* Of n ranks, `stride` apart. Without all-reduces of the set: by some of all its ranks. */
static syn_status dimension_of(const syn_hardware *hw, const sums *s, int32_t n, int32_t stride,
                               dimension *out, syn_error *err) {
    sums others = {.time = 0};
    int32_t *ranks = syn_malloc((size_t)n * sizeof *ranks);
    if (!ranks) return SYN_FAIL_NOMEM(err, (size_t)n * sizeof *ranks, "a dimension's ranks");
    for (int32_t i = 0; i < n; i++) ranks[i] = i * stride;
    const syn_graph_group group = {.ranks = ranks, .n_ranks = (uint32_t)n};
    syn_node node = {SYN_NODE_UNKNOWN, .kind = SYN_NODE_COLLECTIVE, .comm = SYN_COMM_ALL_REDUCE,
                     .op = "all_reduce", .comm_bytes = 65536};
    for (int i = 0; i < 6; i++, node.comm_bytes *= 4) add_one(&others, hw, &group, &node);
    syn_free(ranks);
    *out = fit(s->time > 0 ? s : &others, &others, n);
    return SYN_OK;
}

/* One dimension within a node, and one between nodes if there are several: *n of them. */
static syn_status dimensions(const syn_hardware *hw, const syn_graph *first, int32_t ranks,
                             dimension out[2], int *n, syn_error *err) {
    const int32_t node = hw->node_ranks < ranks ? hw->node_ranks : ranks;
    sums on[2] = {{.time = 0}, {.time = 0}};
    *n = 0;
    if (ranks % node != 0)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%d ranks do not fill nodes of %d, and ASTRA-sim's networks are regular",
                        (int)ranks, (int)node);
    SYN_TRY(add_all(on, hw, first, err));
    if (node > 1) SYN_TRY(dimension_of(hw, &on[0], node, 1, &out[(*n)++], err));
    if (node < ranks) SYN_TRY(dimension_of(hw, &on[1], ranks / node, node, &out[(*n)++], err));
    return SYN_OK;
}

/* ---- The files ---- */

/* The part of a key's list that each dimension has: text, or a number. */
static void put_list(syn_sink *sink, const char *key, const dimension *d, int n,
                     double (*value)(const dimension *d)) {
    syn_sink_printf(sink, "%s: [ ", key);
    for (int i = 0; i < n; i++) syn_sink_printf(sink, "%s%.9g", i ? ", " : "", value(&d[i]));
    syn_sink_text(sink, " ]\n");
}

static double ranks_of(const dimension *d) {
    return d->ranks;
}

static double bandwidth_of(const dimension *d) { /* its GB are 2^30 bytes */
    return d->bytes_per_ns * 1e9 / 1073741824.0;
}

static double latency_of(const dimension *d) {
    return d->latency_ns;
}

static void put_network(syn_sink *sink, const syn_hardware *hw, const dimension *d, int n) {
    syn_sink_printf(sink, "# Links of %s, from the inside out: GB/s (of 2^30 bytes) and ns.\n",
                    hw->name);
    syn_sink_text(sink, n > 1 ? "topology: [ FullyConnected, FullyConnected ]\n"
                              : "topology: [ FullyConnected ]\n");
    put_list(sink, "npus_count", d, n, ranks_of);
    put_list(sink, "bandwidth", d, n, bandwidth_of);
    put_list(sink, "latency", d, n, latency_of);
}

static void put_system(syn_sink *sink, const syn_hardware *hw, int n) {
    static const char *const kinds[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all"};
    const syn_dtype dtype = roofline_dtypes[args.roofline];
    const double *peaks = hw->peak_flops_per_ns;
    const double peak = args.roofline && peaks[dtype] > 0 ? peaks[dtype] : peaks[SYN_F32];
    syn_sink_text(sink, "{\n  \"scheduling-policy\": \"LIFO\",\n  \"endpoint-delay\": 10,\n"
                        "  \"active-chunks-per-dimension\": 1,\n"
                        "  \"preferred-dataset-splits\": 1,\n");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        syn_sink_printf(sink, "  \"%s-implementation\": [\"ring\"%s],\n", kinds[i],
                        n > 1 ? ", \"ring\"" : "");
    syn_sink_printf(sink,
                    "  \"collective-optimization\": \"baseline\",\n"
                    "  \"local-mem-bw\": %.9g,\n  \"boost-mode\": 0,\n"
                    "  \"roofline-enabled\": %d,\n  \"peak-perf\": %.9g\n}\n",
                    hw->memory_bytes_per_ns, args.roofline != 0, peak / 1e3);
}

static syn_status open_in(const char *name, char path[FOLDER_PATH_BYTES], syn_sink **sink,
                          syn_error *err) {
    SYN_TRY(folder_path(path, err, args.out, name));
    return syn_sink_open_file(sink, path, err);
}

enum { NETWORK, SYSTEM, MEMORY, FILES };
static const char *const file_names[FILES] = {"network.yml", "system.json", "memory.json"};

static syn_status write_files(const syn_hardware *hw, const dimension *d, int n,
                              char paths[FILES][FOLDER_PATH_BYTES], syn_error *err) {
    SYN_TRY(syn_make_folder(args.out, err));
    for (int i = 0; i < FILES; i++) {
        syn_sink *sink;
        SYN_TRY(open_in(file_names[i], paths[i], &sink, err));
        if (i == NETWORK) put_network(sink, hw, d, n);
        else if (i == SYSTEM) put_system(sink, hw, n);
        else syn_sink_text(sink, "{\"memory-type\": \"NO_MEMORY_EXPANSION\"}\n");
        SYN_TRY(syn_sink_close(sink, true, err));
    }
    return SYN_OK;
}

/* ---- The command ---- */

static void put_argument(const char *name, const char *value, const char *more) {
    printf(" \\\n    --%s=", name);
    cli_print_escaped(stdout, value, strlen(value));
    cli_print_escaped(stdout, more, strlen(more));
}

static void report(const char *prefix, const syn_hardware *hw, bool assumed, const dimension *d,
                   int n, char paths[FILES][FOLDER_PATH_BYTES]) {
    char title[160];
    printf("%s: %s%s, %" PRId32 " ranks, %.4g GB/s, %.4g us a message", paths[NETWORK],
           syn_hardware_title(hw, title, sizeof title),
           assumed ? " (the set names no machine; --hw does)" : "", d[0].ranks, d[0].bytes_per_ns,
           d[0].latency_ns / 1e3);
    if (n > 1)
        printf("; %" PRId32 " times that, %.4g GB/s, %.4g us", d[1].ranks, d[1].bytes_per_ns,
               d[1].latency_ns / 1e3);
    printf("\n%s: computation takes %s\n\n", paths[SYSTEM],
           args.roofline ? "its ops and bytes at the machine's rates" : "the trace's times");
    printf("AstraSim_Analytical_Congestion_Unaware");
    put_argument("workload-configuration", prefix, "");
    put_argument("comm-group-configuration", prefix, ".comm_group.json");
    put_argument("system-configuration", paths[SYSTEM], "");
    put_argument("network-configuration", paths[NETWORK], "");
    put_argument("remote-memory-configuration", paths[MEMORY], "");
    printf("\n");
}

static syn_status look_at(const char *prefix, syn_hardware *hw, bool *assumed, dimension d[2],
                          int *n, syn_error *err) {
    char path[FOLDER_PATH_BYTES];
    syn_graph *first = NULL;
    int32_t ranks;
    SYN_TRY(check(prefix, &ranks, err));
    if ((size_t)snprintf(path, sizeof path, "%s.0.et", prefix) >= sizeof path)
        return SYN_FAIL(err, SYN_E_INVALID, "the prefix is too long");
    SYN_TRY(syn_import_et(&first, path, false, err));
    syn_status s = choose_hardware(hw, assumed, first, err);
    if (s == SYN_OK) s = dimensions(hw, first, ranks, d, n, err);
    syn_graph_free(first);
    return s;
}

static syn_status run(const char *prefix, syn_error *err) {
    static char paths[FILES][FOLDER_PATH_BYTES];
    syn_hardware hw;
    dimension d[2];
    bool assumed = false;
    int n = 0;
    SYN_TRY(look_at(prefix, &hw, &assumed, d, &n, err));
    SYN_TRY(write_files(&hw, d, n, paths, err));
    report(prefix, &hw, assumed, d, n, paths);
    return SYN_OK;
}

int command_astra_sim(int argc, char **argv) {
    syn_error err = {0};
    const char *const *paths;
    size_t n;
    const int code = cli_parse_inputs(&program, argc, argv, &args.input, "a prefix is", &paths, &n);
    if (code != CLI_RUN) return code;
    if (n > 1) return cli_fail(&program, CLI_USAGE, "one prefix is needed, not %zu", n);
    if (run(paths[0], &err) != SYN_OK) return cli_fail(&program, CLI_FAILED, "%s", err.text);
    return CLI_OK;
}
