/* Measures writing and reading node-link JSON and GraphML of 100,000 nodes: 50,000 ops and 50,000
   tensors with 150,000 edges. The writers may take at most 1 s of CPU time. */
#include "export/export.h"
#include "syntorch/base/sink.h"
#include "tests/support/graphs.h"
#include "tests/support/sample_graphs.h"

#include <time.h>

#define N_OPS 50000

/* CPU time, which does not include that of other programs on the machine. */
static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Adds an op as in a transformer: it reads the outputs of its predecessor and of an older op, and
   depends on one more op. */
static syn_status add_op(syn_graph *g, uint32_t i, syn_error *err) {
    char scope[64], name[96];
    const uint32_t in[2] = {i > 0 ? i - 1 : 0, i > 7 ? i - 7 : 0}, out[1] = {i};
    const syn_dep deps[3] = {
        {i - 8, SYN_DEP_CONTROL}, {i - 7, SYN_DEP_DATA}, {i - 1, SYN_DEP_DATA}};
    const syn_attribute attributes[2] = {{"axis", SYN_VALUE_I64, -1, 0, NULL},
                                         {"scale", SYN_VALUE_F64, 0, 0.125, NULL}};
    snprintf(scope, sizeof scope, "h.%u.attn", (unsigned)(i / 25));
    snprintf(name, sizeof name, "%s/c_attn:0", scope);
    syn_node n = plain_node((uint64_t)i + 1, "linear");
    n.category = SYN_CATEGORY_MATMUL;
    n.label = "c_attn";
    n.scope = scope;
    n.flops = 123456789ull + i;
    n.bytes_read = 1234567;
    n.bytes_written = 98765;
    n.start_ns = i * 1234.567;
    n.wall_ns = 1200.25;
    n.cpu_ns = 1100.75;
    n.predicted_ns = 1000.5 + i;
    n.attributes = attributes;
    n.n_attributes = 2;
    n.outputs = out;
    n.n_outputs = 1;
    if (i >= 8) {
        n.inputs = in;
        n.n_inputs = 2;
        n.deps = deps;
        n.n_deps = 3;
    }
    SYN_TRY(add_tensor(g, 0, name, 0, i, i, 1024, err));
    return syn_graph_add_node(g, 0, &n, err);
}

static syn_status write_timed(const syn_exporter *exporter, const syn_graph *graph, syn_sink **sink,
                              double limit_s, syn_error *err) {
    const double start = seconds();
    SYN_TRY(syn_export_memory(sink, graph, exporter, NULL, err));
    const double took = seconds() - start;
    printf("%-8s write, 100,000 nodes %6.0f ms   (limit %.0f ms) %6.1f MB\n", exporter->name,
           took * 1e3, limit_s * 1e3, (double)syn_sink_bytes(*sink) * 1e-6);
    return SYN_OK;
}

static syn_status run(syn_graph *g, syn_error *err) {
    syn_sink *json = NULL, *other = NULL;
    syn_graph *again = NULL;
    size_t bytes = 0;
    for (uint32_t i = 0; i < N_OPS; i++) SYN_TRY(add_op(g, i, err));
    SYN_TRY(syn_graph_verify(g, err));
    SYN_TRY(write_timed(&syn_export_graphml, g, &other, 1, err));
    SYN_TRY(syn_sink_close(other, false, err));
    SYN_TRY(write_timed(&syn_export_chrome, g, &other, 1, err));
    SYN_TRY(syn_sink_close(other, false, err));
    SYN_TRY(write_timed(&syn_export_json, g, &json, 1, err));
    const char *text = syn_sink_data(json, &bytes);
    const double start = seconds();
    SYN_TRY(syn_import_json_memory(&again, "bench", text, bytes, err));
    printf("json     read,  100,000 nodes %6.0f ms\n", (seconds() - start) * 1e3);
    const char *difference = graph_difference(g, again);
    if (difference != NULL)
        return SYN_FAIL(err, SYN_E_FORMAT, "what was read differs in %s", difference);
    syn_graph_free(again);
    return syn_sink_close(json, false, err);
}

int main(void) {
    static const int32_t rank[1] = {0};
    syn_error err = {0};
    syn_graph *g = NULL;
    if (syn_graph_new(&g, rank, 1, 1, &err) != SYN_OK || run(g, &err) != SYN_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    syn_graph_free(g);
    return 0;
}
