/* Measures the CPU seconds of drawing a rank's execution trace, as `syntorch export --input
   trace.0.et --output b.svg` does it: reading, layout, folding and text. */
#include <stdlib.h>

#include "export/export.h"
#include "tests/support/bench.h"
#include "tests/support/gpt_graph.h"

enum { ROUNDS = 3 };

/* Returns an .et file of rank 0 of a tensor-parallel pair of GPT-3 175B that runs `steps` decode
   steps. */
static syn_sink *record(int steps, uint32_t *nodes) {
    const gpt_shape shape = {96, 96, 2, steps, 12288, 16, 51200};
    const int32_t first = 0;
    const syn_export_options options = {.rank = &first};
    syn_error err = {0};
    syn_sink *sink;
    syn_graph *graph = gpt_graph(&shape, true);
    *nodes = graph->ranks[0].n_nodes;
    if (syn_export_memory(&sink, graph, &syn_export_et, &options, &err) != SYN_OK) die(err.text);
    syn_graph_free(graph);
    return sink;
}

static double draw(syn_sink *trace) {
    size_t bytes;
    const char *data = syn_sink_data(trace, &bytes);
    syn_error err = {0};
    syn_graph *graph;
    syn_sink *svg;
    const double start = cpu_s();
    if (syn_import_et_memory(&graph, "bench", data, bytes, &err) != SYN_OK ||
        syn_export_memory(&svg, graph, &syn_export_svg, NULL, &err) != SYN_OK ||
        syn_sink_close(svg, false, &err) != SYN_OK)
        die(err.text);
    syn_graph_free(graph);
    return cpu_s() - start;
}

static void measure(int steps, double limit_s) {
    double took[ROUNDS];
    char what[64];
    uint32_t nodes;
    syn_error err = {0};
    syn_sink *trace = record(steps, &nodes);
    for (int i = 0; i < ROUNDS; i++) took[i] = draw(trace);
    if (syn_sink_close(trace, false, &err) != SYN_OK) die(err.text);
    snprintf(what, sizeof what, "%u nodes as SVG, from an .et", (unsigned)nodes);
    line(what, median(took, ROUNDS), "s of CPU", limit_s, true);
}

int main(void) {
    measure(6, 0.1);
    measure(183, 2);
    return missed > 0;
}
