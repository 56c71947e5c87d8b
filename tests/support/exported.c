#include "tests/support/exported.h"

#include <stdio.h>

char *export_bytes(const syn_exporter *exporter, const syn_graph *graph,
                   const syn_export_options *options, size_t *bytes, syn_error *err) {
    syn_sink *sink;
    if (syn_export_memory(&sink, graph, exporter, options, err) != SYN_OK) return NULL;
    const char *data = syn_sink_data(sink, bytes);
    char *copy = (char *)malloc(*bytes + 1);
    if (copy != NULL) memcpy(copy, data, *bytes + 1);
    (void)syn_sink_close(sink, false, NULL);
    return copy;
}

char *export_text(const syn_exporter *exporter, const syn_graph *graph,
                  const syn_export_options *options, syn_error *err) {
    size_t bytes;
    return export_bytes(exporter, graph, options, &bytes, err);
}

syn_status export_forget(const syn_exporter *exporter, const syn_graph *graph,
                         const syn_export_options *options, syn_error *err) {
    syn_sink *sink;
    SYN_TRY(syn_export_memory(&sink, graph, exporter, options, err));
    return syn_sink_close(sink, false, err);
}

syn_status export_save(const syn_exporter *exporter, const syn_graph *graph, const char *name,
                       syn_error *err) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", getenv("SYN_TEST_OUT"), name);
    return syn_export_file(graph, exporter, NULL, path, err);
}
