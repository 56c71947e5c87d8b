/* syntorch view: writes the HTML report of one or two traces and opens it in a browser. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/chakra/et_import.h"
#include "export/chakra/wire/et_files.h"
#include "export/export.h"
#include "tools/cli.h"
#include "tools/cli_json.h"
#include "tools/commands/browser.h"
#include "tools/commands/command.h"
#include "tools/folders.h"
#include "tools/inputs.h"

static struct arguments {
    const char *input, *out;
    bool json;
} args;

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "FILE|PREFIX",
     "trace (.et or JSON), or set PREFIX.<rank>.et; --input may be omitted, then also two traces",
     0, 0},
    {"out", CLI_TEXT, &args.out, "FILE.html",
     "file to write; default: a file in a new folder in $TMPDIR or /tmp", 0, 0},
    CLI_JSON(&args.json),
    CLI_END};

static const char *const examples[] = {
    "syntorch view out/tensor_trace_graph.json", "syntorch view out/trace",
    "syntorch view out/trace outputs/trace", "syntorch view trace.0.et --out page.html", NULL};

static const cli_program program = {
    "syntorch view",
    "Writes the HTML report of a trace, or of two traces that it compares, and opens it in the "
    "browser: $BROWSER, otherwise the desktop's. Without $BROWSER and without a display it only "
    "prints the report's path.",
    options, examples, false};

static syn_status import(syn_graph **graph, const char *path, syn_error *err) {
    if (access(path, F_OK) == 0) return syn_import_any(graph, path, err);
    return syn__et_import_set(graph, path, syn__et_prefix_bytes(path), err);
}

/* Writes the path of a new file: in a new folder that only the user can read, and named after the
   trace, because the browser shows the name. */
static syn_status temporary_path(const char *input, char path[FOLDER_PATH_BYTES], syn_error *err) {
    const char *parent = getenv("TMPDIR"), *slash = strrchr(input, '/');
    char folder[FOLDER_PATH_BYTES], name[256];
    if (parent == NULL || parent[0] == '\0') parent = "/tmp";
    SYN_TRY(folder_path(folder, err, parent, "syntorch-XXXXXX"));
    if (mkdtemp(folder) == NULL)
        return SYN_FAIL(err, SYN_E_IO, "cannot create a folder in %s: %s", parent, strerror(errno));
    snprintf(name, sizeof name, "%.200s.html", slash ? slash + 1 : input);
    return folder_path(path, err, folder, name);
}

/* paths: one or two inputs. */
static syn_status write_report(const char *const *paths, size_t n, const char *out,
                               syn_error *err) {
    syn__input_files inputs = {0};
    syn_graph *graphs[2] = {NULL, NULL};
    syn_status s = SYN_OK;
    for (size_t i = 0; i < n && s == SYN_OK; i++) s = cli_inputs_add_set(&inputs, paths[i], err);
    if (s == SYN_OK) s = syn__input_files_keep(&inputs, out, err);
    for (size_t i = 0; i < n && s == SYN_OK; i++) s = import(&graphs[i], paths[i], err);
    const syn_export_options how = {.version = "syntorch " SYN_VERSION,
                                    .source = n > 1 ? paths[0] : NULL,
                                    .compare = graphs[1],
                                    .compare_source = n > 1 ? paths[1] : NULL};
    if (s == SYN_OK) s = syn_export_file(graphs[0], &syn_export_html, &how, out, err);
    for (size_t i = 0; i < n; i++) syn_graph_free(graphs[i]);
    syn__input_files_free(&inputs);
    return s;
}

static int print_json(const char *const *paths, size_t n, const char *out) {
    syn_sink *json;
    syn_error err = {0};
    syn_status s = cli_json_open(&json, &program, &err);
    if (s != SYN_OK) return cli_done(&program, s, &err);
    cli_json_text(json, "input", paths[0]);
    cli_json_text(json, "compare", n > 1 ? paths[1] : NULL);
    cli_json_written(json, out);
    s = cli_json_close(json, SYN_OK, &err);
    return cli_done(&program, s, &err);
}

int command_view(int argc, char **argv) {
    const char *const *paths;
    char path[FOLDER_PATH_BYTES];
    size_t n;
    syn_error err = {0};
    const int code = cli_parse_inputs(&program, argc, argv, &args.input, "a trace is", &paths, &n);
    if (code != CLI_RUN) return code;
    if (n > 2) return cli_fail(&program, CLI_USAGE, "got %zu traces but compares at most 2", n);
    if (args.out && strcmp(args.out, "-") == 0)
        return cli_fail(&program, CLI_USAGE,
                        "--out - is not a file that a browser opens; use syntorch export");
    if (args.out) snprintf(path, sizeof path, "%s", args.out);
    syn_status s =
        args.out ? folder_check_output(args.out, &err) : temporary_path(paths[0], path, &err);
    const bool made = !args.out && s == SYN_OK;
    if (s == SYN_OK) s = write_report(paths, n, path, &err);
    if (s != SYN_OK) {
        if (made) {
            *strrchr(path, '/') = '\0';
            folder_remove(path);
        }
        return cli_done(&program, s, &err);
    }
    if (!args.json) printf("%s\n", path);
    fflush(stdout);
    if (browser_open(path, &err) != SYN_OK) return cli_done(&program, err.code, &err);
    return args.json ? print_json(paths, n, path) : CLI_OK;
}
