/* The list of exporters, the lookups in it, and the functions that run an exporter. */
#include "export/export.h"

#include <stdio.h>
#include <string.h>

static const syn_exporter *const exporters[] = {
    /* pictures */
    &syn_export_png,
    &syn_export_svg,
    &syn_export_pdf,
    &syn_export_dot,
    &syn_export_html,
    /* graphs */
    &syn_export_graphml,
    &syn_export_json,
    &syn_export_chakra,
    &syn_export_et,
    /* times */
    &syn_export_gantt,
    &syn_export_chrome,
    &syn_export_kineto,
    &syn_export_host,
    &syn_export_stacks,
    &syn_export_memory_csv,
    /* simulators */
    &syn_export_simai,
    NULL,
};

const syn_exporter *const *syn_exporters(void) {
    return exporters;
}

const syn_exporter *syn_exporter_by_name(const char *name) {
    for (size_t i = 0; exporters[i] != NULL; i++) {
        if (strcmp(exporters[i]->name, name) == 0) return exporters[i];
    }
    return NULL;
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool ends_with(const char *text, const char *end) {
    const size_t n_text = strlen(text), n_end = strlen(end);
    if (n_end > n_text) return false;
    text += n_text - n_end;
    for (size_t i = 0; i < n_end; i++) {
        if (lower(text[i]) != lower(end[i])) return false;
    }
    return true;
}

/* Several formats have the extension .json. The end of the file name selects one of them, for
   example ".timeline.json"; any other .json is node-link JSON. */
const syn_exporter *syn_exporter_by_path(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *file = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(file, '.');
    if (dot == NULL) return NULL;
    if (ends_with(file, "chakra.json")) return &syn_export_chakra;
    if (ends_with(file, "timeline.json") || ends_with(file, ".trace.json") ||
        ends_with(file, "chrome.json"))
        return &syn_export_chrome;
    if (ends_with(file, "gantt.svg")) return &syn_export_gantt;
    if (ends_with(file, "kineto.json")) return &syn_export_kineto;
    if (ends_with(file, "_host.json")) return &syn_export_host;
    if (ends_with(file, "stacks.txt")) return &syn_export_stacks;
    if (ends_with(file, "memory.csv")) return &syn_export_memory_csv;
    if (ends_with(file, "simai.txt")) return &syn_export_simai;
    for (size_t i = 0; exporters[i] != NULL; i++) {
        if (ends_with(dot + 1, exporters[i]->extension) &&
            strlen(dot + 1) == strlen(exporters[i]->extension))
            return exporters[i];
    }
    return NULL;
}

static syn_status no_format(const char *path, syn_error *err) {
    char names[256] = "";
    size_t n = 0;
    for (size_t i = 0; exporters[i] != NULL; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "",
                              exporters[i]->name);
    return SYN_FAIL(err, SYN_E_INVALID, "'%.300s' has no extension that names a format (%s)", path,
                    names);
}

syn_status syn_export_file(const syn_graph *graph, const syn_exporter *exporter,
                           const syn_export_options *options, const char *path, syn_error *err) {
    syn_sink *sink;
    if (exporter == NULL) exporter = syn_exporter_by_path(path);
    if (exporter == NULL) return no_format(path, err);
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    const syn_status status = exporter->write(graph, options, sink, err);
    const syn_status closed = syn_sink_close(sink, status == SYN_OK, err);
    return status != SYN_OK ? status : closed;
}

syn_status syn_export_memory(syn_sink **out, const syn_graph *graph, const syn_exporter *exporter,
                             const syn_export_options *options, syn_error *err) {
    SYN_TRY(syn_sink_open_memory(out, err));
    const syn_status status = exporter->write(graph, options, *out, err);
    if (status == SYN_OK && syn_sink_status(*out) == SYN_OK) return SYN_OK;
    const syn_status closed = syn_sink_close(*out, status == SYN_OK, err);
    *out = NULL;
    return status != SYN_OK ? status : closed;
}
