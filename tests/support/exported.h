/* What an exporter writes, in memory. */
#ifndef TESTS_EXPORTED_H
#define TESTS_EXPORTED_H

#include <stdlib.h>
#include <string.h>

#include "export/export.h"

/* Ended by a NUL, for free(); NULL (and err) if it fails. */
static inline char *export_bytes(const syn_exporter *exporter, const syn_graph *graph,
                                 const syn_export_options *options, size_t *bytes, syn_error *err) {
    syn_sink *sink;
    if (syn_export_memory(&sink, graph, exporter, options, err) != SYN_OK) return NULL;
    const char *data = syn_sink_data(sink, bytes);
    char *copy = (char *)malloc(*bytes + 1);
    if (copy != NULL) memcpy(copy, data, *bytes + 1);
    (void)syn_sink_close(sink, false, NULL);
    return copy;
}

/* The same of text. */
static inline char *export_text(const syn_exporter *exporter, const syn_graph *graph,
                                const syn_export_options *options, syn_error *err) {
    size_t bytes;
    return export_bytes(exporter, graph, options, &bytes, err);
}

#endif
