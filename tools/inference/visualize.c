/* Writes the files of --visualize_trace one after another. If graphviz or protobuf is missing, it
   still writes the files that do not need it. */
#include "tools/inference/visualize.h"

#include <string.h>

#include "syntorch/base/memory.h"
#include "tools/cli.h"
#include "tools/cli_json.h"

static char *join(const char *folder, const char *name, syn_error *err) {
    const size_t bytes = strlen(folder) + strlen(name) + 2;
    char *path = syn_malloc(bytes);
    if (path) snprintf(path, bytes, "%s/%s", folder, name);
    else SYN_FAIL_NOMEM(err, bytes, "a file name");
    return path;
}

static syn_status write_one(const syn_graph *graph, const syn_exporter *exporter,
                            const syn_export_options *options, const char *folder, const char *name,
                            FILE *list, syn_error *err) {
    char *path = join(folder, name, err);
    if (!path) return SYN_E_NOMEM;
    const syn_status s = syn_export_file(graph, exporter, options, path, err);
    char shown[CLI_SHOWN_BYTES];
    if (s == SYN_OK && list) fprintf(list, "  %s\n", cli_shown(path, shown, sizeof shown));
    syn_free(path);
    return s;
}

static syn_status write_et_set(const syn_graph *graph, const syn_export_options *options,
                               const char *folder, FILE *list, syn_error *err) {
    char *prefix = join(folder, "trace", err);
    if (!prefix) return SYN_E_NOMEM;
    const syn_status s = syn_export_et_set(graph, options, prefix, err);
    if (s == SYN_OK && list) {
        char shown[CLI_SHOWN_BYTES];
        const uint32_t last = graph->n_ranks - 1;
        cli_shown(prefix, shown, sizeof shown);
        fprintf(list, "  %s.%s%d.et, %s.comm_group.json\n", shown, last ? "0.et .. " : "",
                graph->ranks[last].rank, shown);
    }
    syn_free(prefix);
    return s;
}

/* What a file needs that may be missing in this build or on this machine. */
typedef enum need { NEEDS_NOTHING, NEEDS_PROTOBUF, NEEDS_GRAPHVIZ, N_NEEDS } need;

static const struct {
    const char *name;
    const syn_exporter *exporter;
    bool comm_graph;
    need need;
} files[] = {
    {"tensor_trace_graph.json", &syn_export_json, false, NEEDS_NOTHING},
    {"tensor_trace_chakra.json", &syn_export_chakra, false, NEEDS_PROTOBUF},
    {"timeline.json", &syn_export_chrome, false, NEEDS_NOTHING},
    {"trace.html", &syn_export_html, false, NEEDS_NOTHING},
    {"tensor_trace_graph.svg", &syn_export_svg, false, NEEDS_GRAPHVIZ},
    {"tensor_trace_graph.png", &syn_export_png, false, NEEDS_GRAPHVIZ},
    {"tensor_comm_graph.svg", &syn_export_svg, true, NEEDS_GRAPHVIZ},
    {"tensor_comm_graph.png", &syn_export_png, true, NEEDS_GRAPHVIZ},
};

/* Fails with one error that names everything that is missing; succeeds if nothing is missing. */
static syn_status report_missing(const syn_error missing[N_NEEDS], syn_error *err) {
    const syn_error *first = NULL;
    for (int i = 0; i < N_NEEDS; i++) {
        if (missing[i].code == SYN_OK) continue;
        if (first != NULL)
            return SYN_FAIL(err, first->code, "%.240s; and %.240s", first->text, missing[i].text);
        first = &missing[i];
    }
    return first != NULL ? SYN_FAIL(err, first->code, "%s", first->text) : SYN_OK;
}

/* Whether the file files[i] is written for this graph. */
static bool is_wanted(const syn_graph *graph, size_t i) {
    if (files[i].comm_graph && graph->n_ranks < 2) return false;
    return files[i].exporter != &syn_export_chakra || !syn_graph_is_large(graph);
}

static syn_status write_files(const syn_graph *graph, const syn_export_options *how,
                              const char *folder, FILE *list, syn_error *err) {
    syn_error missing[N_NEEDS] = {{0}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        syn_export_options options = *how;
        options.comm_graph = files[i].comm_graph;
        if (!is_wanted(graph, i)) continue;
        syn_error *why = &missing[files[i].need];
        if (why->code != SYN_OK) continue; /* would fail for the same reason */
        const syn_status s =
            write_one(graph, files[i].exporter, &options, folder, files[i].name, list, why);
        const bool is_optional = files[i].need == NEEDS_GRAPHVIZ ||
                                 (files[i].need == NEEDS_PROTOBUF && s == SYN_E_UNSUPPORTED);
        if (s != SYN_OK && !is_optional) return SYN_FAIL(err, s, "%s", why->text);
    }
    if (missing[NEEDS_PROTOBUF].code == SYN_OK)
        (void)write_et_set(graph, how, folder, list, &missing[NEEDS_PROTOBUF]);
    return report_missing(missing, err);
}

/* For a large run, prints what its files omit, and the commands that write it. */
static void report_omitted(const syn_graph *graph, const syn_copied_ranks *copies,
                           const char *folder, FILE *list) {
    const uint32_t n = syn_copies_count(copies);
    char shown[CLI_SHOWN_BYTES];
    if (!list || !syn_graph_is_large(graph)) return;
    cli_shown(folder, shown, sizeof shown);
    if (n > 0)
        fprintf(list,
                "  %u of %u ranks are identical to another one: JSON has them once, with their "
                "differences. In full:\n    syntorch export --input %s/tensor_trace_graph.json "
                "--copies full --output all.json\n",
                n, graph->n_ranks, shown);
    fprintf(list,
            "  Not written, as the .et files have the same content: tensor_trace_chakra.json. To "
            "write it:\n    syntorch export --input %s/trace.%d.et --all_ranks --output "
            "tensor_trace_chakra.json\n",
            shown, graph->ranks[0].rank);
}

syn_status visualize_run(const syn_graph *graph, const char *folder, const char *version,
                         FILE *list, syn_error *err) {
    syn_export_options how = {.version = version};
    syn_copied_ranks *copies;
    SYN_TRY(syn_make_folder(folder, err));
    SYN_TRY(syn_copies_find(&copies, graph, &how, err));
    how.known_copies = copies;
    report_omitted(graph, copies, folder, list);
    const syn_status s = write_files(graph, &how, folder, list, err);
    syn_copies_free(copies);
    return s;
}

syn_status visualize_keep(const syn__input_files *inputs, const char *folder, syn_error *err) {
    syn_status s = SYN_OK;
    for (size_t i = 0; i <= sizeof files / sizeof files[0] && s == SYN_OK; i++) {
        const bool is_set = i == sizeof files / sizeof files[0];
        char *path = join(folder, is_set ? "trace" : files[i].name, err);
        if (!path) return SYN_E_NOMEM;
        s = is_set ? cli_inputs_keep_set(inputs, path, err)
                   : syn__input_files_keep(inputs, path, err);
        syn_free(path);
    }
    return s;
}

syn_status visualize_json(const syn_graph *graph, const char *folder, syn_sink *json, bool *first,
                          syn_error *err) {
    syn_status s = SYN_OK;
    for (size_t i = 0; i <= sizeof files / sizeof files[0] && s == SYN_OK; i++) {
        const bool is_set = i == sizeof files / sizeof files[0];
        if (!is_set && !is_wanted(graph, i)) continue;
        char *path = join(folder, is_set ? "trace" : files[i].name, err);
        if (!path) return SYN_E_NOMEM;
        if (is_set) s = cli_json_add_written_set(json, path, first, err);
        else cli_json_add_written(json, path, first);
        syn_free(path);
    }
    return s;
}
