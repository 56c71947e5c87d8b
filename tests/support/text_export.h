/* What the tests of the text writers do with exporters: into memory, into files, and with memory
 * running out. */
#ifndef TESTS_TEXT_EXPORT_H
#define TESTS_TEXT_EXPORT_H

#include "syntorch/memory.h"
#include "tests/support/exported.h"
#include "tests/support/test.h"

/* Puts what an exporter writes into $SYN_TEST_OUT. */
static inline syn_status export_save(const syn_exporter *exporter, const syn_graph *graph,
                                     const char *name, syn_error *err) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", getenv("SYN_TEST_OUT"), name);
    return syn_export_file(graph, exporter, NULL, path, err);
}

/* One that writes into memory and forgets it. */
static inline syn_status export_forget(const syn_exporter *exporter, const syn_graph *graph,
                                       const syn_export_options *options, syn_error *err) {
    syn_sink *sink;
    SYN_TRY(syn_export_memory(&sink, graph, exporter, options, err));
    return syn_sink_close(sink, false, err);
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
