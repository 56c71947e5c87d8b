/* Speed of writing and reading execution traces: 100,000 nodes of a synthetic rank. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "export/export.h"
#include "tests/support/bench.h"

#define N_NODES 100000u
#define LIMIT_S 0.3 /* for writing */
#define ROUNDS  5

/* Blocks of ten: seven ops on stream 0, a view, two all-reduces on stream 1. */
static syn_status fill(syn_graph *g, syn_error *err) {
    char scope[32];
    for (uint32_t i = 0; i < N_NODES; i++) {
        const uint32_t k = i % 10;
        const bool comm = k == 4 || k == 9;
        const syn_dep deps[2] = {{i > 2 ? i - 3 : 0, SYN_DEP_DATA}, {i - 1, SYN_DEP_DATA}};
        snprintf(scope, sizeof scope, "h.%u.%s", i / 10 % 96, k < 5 ? "attn" : "mlp");
        const syn_node node = {.id = i + 1,
                               .kind = comm ? SYN_NODE_COLLECTIVE : SYN_NODE_COMPUTE,
                               .flags = k == 2 ? SYN_NODE_VIRTUAL : 0,
                               .phase = i % 3 == 0 ? SYN_PHASE_FORWARD : SYN_PHASE_BACKWARD,
                               .stream = comm ? 1 : 0,
                               .op = comm ? "all_reduce" : "linear",
                               .label = comm ? "all_reduce" : "c_fc",
                               .scope = scope,
                               .deps = i > 2 ? deps : deps + 1,
                               .n_deps = i > 2 ? 2 : i > 0,
                               .flops = comm ? 0 : 1ull << 36,
                               .bytes_read = 1 << 24,
                               .bytes_written = 1 << 22,
                               .comm = comm ? SYN_COMM_ALL_REDUCE : SYN_COMM_NONE,
                               .reduce = comm ? (int32_t)SYN_REDUCE_SUM : -1,
                               .group = comm ? 1 : 0,
                               .comm_bytes = comm ? 1 << 22 : 0,
                               .comm_index = i / 10 * 2 + (k == 9),
                               .peer = -1,
                               .root = -1,
                               .wall_ns = 1e5 + i};
        SYN_TRY(syn_graph_add_node(g, 0, &node, err));
    }
    return SYN_OK;
}

/* Seconds of the fastest of a few runs; *out is the last run's text. */
static double time_export(const syn_exporter *exporter, const syn_graph *g, char **out,
                          size_t *bytes) {
    double best = 1e9;
    *out = NULL;
    for (int i = 0; i < ROUNDS; i++) {
        syn_error err = {0};
        syn_sink *sink;
        const double start = now_s();
        if (syn_export_memory(&sink, g, exporter, NULL, &err) != SYN_OK) return -1;
        const double took = now_s() - start;
        if (took < best) best = took;
        const char *data = syn_sink_data(sink, bytes);
        free(*out);
        *out = data != NULL ? (char *)malloc(*bytes + 1) : NULL;
        if (*out != NULL) memcpy(*out, data, *bytes);
        if (syn_sink_close(sink, false, &err) != SYN_OK) return -1;
    }
    return best;
}

static int run(syn_graph *g) {
    size_t bytes = 0;
    char *data;
    syn_error err = {0};
    const double json_s = time_export(&syn_export_chakra, g, &data, &bytes);
    free(data);
    printf("Chakra JSON of %u nodes: %.3f s, %.1f MB\n", N_NODES, json_s, (double)bytes / 1e6);
    const double et_s = time_export(&syn_export_et, g, &data, &bytes);
    printf("ET export of %u nodes: %.3f s (limit %.1f s), %.1f bytes a node\n", N_NODES, et_s,
           LIMIT_S, (double)bytes / N_NODES);
    if (data == NULL) return 1;
    syn_graph *back = NULL;
    const double start = now_s();
    const syn_status status = syn_import_et_memory(&back, "bench", data, bytes, &err);
    printf("ET import: %.3f s\n", now_s() - start);
    if (status != SYN_OK) fprintf(stderr, "%s\n", err.text);
    syn_graph_free(back);
    free(data);
    return status != SYN_OK || et_s < 0 || et_s > LIMIT_S;
}

int main(void) {
    static const int32_t pair[] = {0, 1};
    const syn_graph_group group = {1, "tp0", pair, 2};
    syn_error err = {0};
    syn_graph *g;
    if (syn_graph_new(&g, pair, 1, 2, &err) != SYN_OK ||
        syn_graph_add_group(g, &group, &err) != SYN_OK || fill(g, &err) != SYN_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const int failed = run(g);
    syn_graph_free(g);
    return failed;
}
