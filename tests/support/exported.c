/* Implements exported.h with sinks to memory. */
#include "tests/support/exported.h"
#include "export/chakra/wire/et_schema.h"

#include "tests/support/test.h"

bool can_export(const syn_exporter *exporter) {
    return (exporter != &syn_export_et && exporter != &syn_export_chakra) ||
           syn__et_supported(NULL) == SYN_OK;
}

char *export_bytes(const syn_exporter *exporter, const syn_graph *graph,
                   const syn_export_options *options, size_t *bytes) {
    syn_error err = {0};
    syn_sink *sink;
    NEED_OK(syn_export_memory(&sink, graph, exporter, options, &err), err);
    const char *data = syn_sink_data(sink, bytes);
    char *copy = malloc(*bytes + 1);
    NEED(copy != NULL, "out of memory");
    memcpy(copy, data, *bytes + 1);
    (void)syn_sink_close(sink, false, NULL);
    return copy;
}

char *export_text(const syn_exporter *exporter, const syn_graph *graph,
                  const syn_export_options *options) {
    size_t bytes;
    return export_bytes(exporter, graph, options, &bytes);
}

syn_graph *read_json(const char *text) {
    syn_error err = {0};
    syn_graph *g = NULL;
    NEED_OK(syn_import_json_memory(&g, "g.json", text, strlen(text), &err), err);
    NEED_OK(syn_graph_verify(g, &err), err);
    return g;
}

syn_graph *read_et(const char *data, size_t bytes) {
    syn_error err = {0};
    syn_graph *g = NULL;
    NEED_OK(syn_import_et_memory(&g, "x.et", data, bytes, &err), err);
    NEED_OK(syn_graph_verify(g, &err), err);
    return g;
}

syn_status export_forget(const syn_exporter *exporter, const syn_graph *graph,
                         const syn_export_options *options, syn_error *err) {
    syn_sink *sink;
    SYN_TRY(syn_export_memory(&sink, graph, exporter, options, err));
    return syn_sink_close(sink, false, err);
}

typedef struct job {
    const syn_exporter *exporter;
    const syn_graph *graph;
    const syn_export_options *options;
    const char *text;
} job;

static syn_status write_once(void *arg, syn_error *err) {
    const job *j = arg;
    return export_forget(j->exporter, j->graph, j->options, err);
}

static syn_status read_once(void *arg, syn_error *err) {
    const job *j = arg;
    syn_graph *g = NULL;
    const syn_status s = syn_import_json_memory(&g, "g.json", j->text, strlen(j->text), err);
    NEED((g != NULL) == (s == SYN_OK), "a graph that was refused, or none that was not");
    syn_graph_free(g);
    return s;
}

uint64_t export_without_memory(const syn_exporter *exporter, const syn_graph *graph,
                               const syn_export_options *options) {
    return test_without_memory(write_once, &(job){exporter, graph, options, NULL});
}

uint64_t read_json_without_memory(const char *text) {
    return test_without_memory(read_once, &(job){.text = text});
}

char *export_copies(const syn_exporter *exporter, const syn_graph *graph, syn_copies copies) {
    const syn_export_options options = {.copies = copies};
    return export_text(exporter, graph, &options);
}

void copies_without_memory(const syn_graph *graph, const syn_exporter *const *exporters, size_t n) {
    const syn_export_options options = {.copies = SYN_COPIES_ONCE};
    char *once = export_copies(&syn_export_json, graph, SYN_COPIES_ONCE);
    for (size_t i = 0; i < n; i++)
        if (can_export(exporters[i]))
            CHECK(export_without_memory(exporters[i], graph, &options) > 3);
    CHECK(read_json_without_memory(once) > 3);
    free(once);
}

syn_status export_save(const syn_exporter *exporter, const syn_graph *graph, const char *name,
                       syn_error *err) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", getenv("SYN_TEST_OUT"), name);
    return syn_export_file(graph, exporter, NULL, path, err);
}
