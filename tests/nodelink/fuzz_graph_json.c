/* Fuzz target for the node-link reader. If it accepts the input, writing the graph and reading it
   again must give the same text, and the other text exporters and the predictions must handle the
   graph. */
#include "export/export.h"
#include "syntorch/base/sink.h"
#include "syntorch/hardware/hardware.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static syn_sink *write_text(const syn_exporter *exporter, const syn_graph *graph,
                            syn_copies copies) {
    const syn_export_options options = {.copies = copies};
    syn_error err = {0};
    syn_sink *sink = NULL;
    if (syn_export_memory(&sink, graph, exporter, &options, &err) != SYN_OK) abort();
    return sink;
}

static void check_same(const syn_graph *a, const syn_graph *b, syn_copies copies) {
    size_t bytes_a = 0, bytes_b = 0;
    syn_sink *in_a = write_text(&syn_export_json, a, copies);
    syn_sink *in_b = write_text(&syn_export_json, b, copies);
    const char *text_a = syn_sink_data(in_a, &bytes_a), *text_b = syn_sink_data(in_b, &bytes_b);
    if (bytes_a != bytes_b || memcmp(text_a, text_b, bytes_a) != 0) abort();
    (void)syn_sink_close(in_a, false, NULL);
    (void)syn_sink_close(in_b, false, NULL);
}

/* Checks that the graph is the same after writing and reading it. */
static void check_again(const syn_graph *graph, syn_copies copies) {
    syn_error err = {0};
    syn_graph *again = NULL;
    size_t bytes = 0;
    syn_sink *first = write_text(&syn_export_json, graph, copies);
    const char *text = syn_sink_data(first, &bytes);
    if (syn_import_json_memory(&again, "again", text, bytes, &err) != SYN_OK) abort();
    check_same(graph, again, SYN_COPIES_FULL);
    check_same(graph, again, SYN_COPIES_ONCE);
    (void)syn_sink_close(first, false, NULL);
    syn_graph_free(again);
}

/* Predicts the graph's times, and frees the graph. */
static void predict(syn_graph *graph) {
    syn_error err = {0};
    syn_hardware hw;
    syn_graph *predicted;
    if (syn_hardware_load(&hw, "h100+serving", NULL, &err) != SYN_OK) abort();
    if (syn_graph_predict(&predicted, graph, &hw, &err) != SYN_OK) {
        syn_graph_free(graph);
        return;
    }
    (void)syn_sink_close(write_text(&syn_export_chrome, predicted, SYN_COPIES_ONCE), false, NULL);
    syn_graph_free(predicted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    syn_error err = {0};
    syn_graph *graph = NULL;
    if (syn_import_json_memory(&graph, "fuzz", (const char *)data, size, &err) != SYN_OK) {
        if (graph != NULL || err.text[0] == '\0') abort();
        return 0;
    }
    check_again(graph, SYN_COPIES_FULL);
    check_again(graph, SYN_COPIES_ONCE);
    (void)syn_sink_close(write_text(&syn_export_graphml, graph, SYN_COPIES_AUTO), false, NULL);
    (void)syn_sink_close(write_text(&syn_export_chrome, graph, SYN_COPIES_ONCE), false, NULL);
    predict(graph);
    return 0;
}
