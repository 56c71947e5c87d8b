/* What the tests of the text writers do with exporters: into memory, into files, and with memory
 * running out. */
#ifndef TESTS_TEXT_EXPORT_H
#define TESTS_TEXT_EXPORT_H

#include "export/export.h"
#include "syntorch/memory.h"
#include "syntorch/sink.h"
#include "tests/support/test.h"

/* What an exporter writes, as text for free(); NULL (and err) if it fails. */
static inline char *export_with(const syn_exporter *exporter, const syn_graph *graph,
                                const syn_export_options *options, syn_error *err) {
    syn_sink *sink = NULL;
    char *text = NULL;
    if (syn_sink_open_memory(&sink, err) != SYN_OK) return NULL;
    if (exporter->write(graph, options, sink, err) == SYN_OK) {
        size_t bytes = 0;
        const char *data = syn_sink_data(sink, &bytes);
        text = data != NULL ? malloc(bytes + 1) : NULL;
        if (text != NULL) memcpy(text, data, bytes + 1);
        if (text != NULL && strlen(text) != bytes) text[0] = '\0'; /* binary: by length only */
    }
    if (syn_sink_close(sink, false, err) != SYN_OK) {
        free(text);
        return NULL;
    }
    return text;
}

static inline char *export_text(const syn_exporter *exporter, const syn_graph *graph,
                                syn_error *err) {
    const syn_export_options options = SYN_EXPORT_DEFAULTS;
    return export_with(exporter, graph, &options, err);
}

/* Puts what an exporter writes into $SYN_TEST_OUT. */
static inline syn_status export_save(const syn_exporter *exporter, const syn_graph *graph,
                                     const char *name, syn_error *err) {
    const syn_export_options options = SYN_EXPORT_DEFAULTS;
    char path[512];
    syn_sink *sink = NULL;
    snprintf(path, sizeof path, "%s/%s", getenv("SYN_TEST_OUT"), name);
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    const syn_status status = exporter->write(graph, &options, sink, err);
    const syn_status closed = syn_sink_close(sink, status == SYN_OK, err);
    return status != SYN_OK ? status : closed;
}

/* Runs `step` with the first, second, ... allocation failing until it succeeds. */
static inline void fail_everywhere(syn_status (*step)(void *, syn_error *), void *arg) {
    for (uint64_t n = 0; n < 100000; n++) {
        syn_error err = {0};
        syn_memory_fail_after(n);
        const syn_status status = step(arg, &err);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        if (status == SYN_OK) {
            CHECK(n > 3);
            return;
        }
        CHECK_INT(status, SYN_E_NOMEM);
        CHECK_HAS(err.text, "memory");
    }
    CHECK_MSG(0, "never succeeded");
}
#endif
