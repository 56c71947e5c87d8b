/* syntorch export: converts a graph file to another format. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "export/chakra/wire/et_files.h"
#include "export/export.h"
#include "tools/cli_json.h"
#include "tools/commands/command.h"
#include "tools/commands/export_predict.h"
#include "tools/folders.h"
#include "tools/inputs.h"

static struct arguments {
    const char *input, *output, *format, *title, *compare, *hw;
    int64_t rank;
    int nx_key, copies, view, page, detail; /* syn_nx_key, syn_copies, syn_view, ... */
    bool comm, no_fold, all_ranks, profile_memory, with_stack, json;
} args = {.rank = -1};

enum { PREFIX_BYTES = 4096 };

static char format_help[256];

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "FILE",
     "node-link JSON (tensor_trace_graph.json), Chakra JSON or .et file to read; - = standard "
     "input",
     0, 0},
    {"output", CLI_TEXT, &args.output, "FILE",
     "file to write; - = standard output. et with several ranks: FILE.<rank>.et; kineto, unless "
     "FILE ends in .json: FILE.<rank>_kineto.json and _host.json, FILE_stacks.txt, FILE_memory.csv",
     0, 0},
    {"format", CLI_TEXT, &args.format, "NAME", format_help, 0, 0},
    {"rank", CLI_INT, &args.rank, "R",
     "write only this rank; -1 = all, or the first for formats of one rank", -1, 2147483647.0},
    {"all_ranks", CLI_FLAG, &args.all_ranks, NULL,
     "input trace.<rank>.et: read all ranks of the set", 0, 0},
    {"comm", CLI_FLAG, &args.comm, NULL,
     "pictures: draw each rank as a column, joined by collectives", 0, 0},
    {"view", CLI_CHOICE, &args.view, "auto|graph|timeline",
     "pictures: draw dependencies (graph) or times (timeline); auto: timeline for PyTorch traces, "
     "else graph",
     0, 0},
    {"page", CLI_CHOICE, &args.page, "none|a4|slide",
     "pictures: fit a sheet of paper or a slide; reduce detail if the text would be too small", 0,
     0},
    {"detail", CLI_CHOICE, &args.detail, "auto|tensors|ops|modules|layers",
     "pictures: what a box represents; auto: as much detail as is readable. A fixed level keeps "
     "pictures comparable",
     0, 0},
    {"no_fold", CLI_FLAG, &args.no_fold, NULL,
     "pictures: draw repeated layers and steps one by one while the picture stays readable", 0, 0},
    {"title", CLI_TEXT, &args.title, "TEXT", "pictures: title; default: from the trace's metadata",
     0, 0},
    {"compare", CLI_TEXT, &args.compare, "FILE",
     "html: second trace in the same report, compared with the first", 0, 0},
    {"hw", CLI_TEXT, &args.hw, "MACHINE[+STACK]",
     "replace the file's times by predictions for this machine (docs/hardware.md); the file must "
     "have shapes (tensor_trace_graph.json)",
     0, 0},
    {"profile_memory", CLI_FLAG, &args.profile_memory, NULL,
     "kineto: record memory allocation events", 0, 0},
    {"with_stack", CLI_FLAG, &args.with_stack, NULL,
     "kineto, stacks, memory: record each op's modules", 0, 0},
    {"nx_key", CLI_CHOICE, &args.nx_key, "both|links|edges",
     "json: key of the edge list: links for networkx before 3.6, edges since", 0, 0},
    {"copies", CLI_CHOICE, &args.copies, "auto|full|once",
     "json, chakra, chrome, html: write identical ranks in full, or once with their differences; "
     "auto: once above 100,000 ops",
     0, 0},
    CLI_JSON(&args.json),
    CLI_END};

static const char *const examples[] = {
    "syntorch export --input out/tensor_trace_graph.json --output graph.svg",
    "syntorch export --input out/tensor_trace_graph.json --output comm.png --comm",
    "syntorch export --input out/tensor_trace_graph.json --output time.svg --view timeline",
    "syntorch export --input out/tensor_trace_graph.json --output page.svg --page a4",
    "syntorch export --input out/tensor_trace_graph.json --output page.html",
    "syntorch export --input out/tensor_trace_graph.json --hw h100 --output h100.svg",
    "syntorch export --input out/trace.0.et --all_ranks --format chakra --output all.json",
    "syntorch export --input out/tensor_trace_graph.json --format kineto --output out/run",
    "syntorch export --input run/gpt3.0.et --format simai --output gpt3.txt",
    NULL};

static const cli_program program = {
    "syntorch export",
    "Converts a recorded trace to a picture, an HTML report, a graph for NetworkX, yEd or Gephi, a "
    "timeline for Perfetto, Chakra execution traces, files in the format of PyTorch's profiler, "
    "or a workload for SimAI.",
    options, examples, false};

static syn_status import(syn_graph **graph, const char *path, syn_hardware *hw, syn_error *err) {
    const size_t n = strlen(path);
    if (args.all_ranks && n > 3 && strcmp(path + n - 3, ".et") == 0)
        SYN_TRY(syn_import_et(graph, path, true, err));
    else SYN_TRY(syn_import_any(graph, path, err));
    return args.hw ? export_predict(graph, args.hw, hw, err) : SYN_OK;
}

/* Writes the prefix of the trace set that a path names; the path may end in ".et" or ".<rank>.et".
   Returns false if it is too long. */
static bool prefix_of(const char *path, char prefix[PREFIX_BYTES]) {
    const size_t n = syn__et_prefix_bytes(path);
    snprintf(prefix, PREFIX_BYTES, "%.*s", (int)n, path);
    return n < PREFIX_BYTES;
}

/* Writes several ranks as a set of .et files. */
static syn_status write_set(const syn_graph *graph, const syn_export_options *how,
                            const syn__input_files *inputs, syn_error *err) {
    char prefix[PREFIX_BYTES];
    if (!prefix_of(args.output, prefix))
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the output's name is too long; give a shorter --output");
    SYN_TRY(cli_inputs_keep_set(inputs, prefix, err));
    output_lock lock = {.path = NULL};
    SYN_TRY(cli_lock_set(&lock, prefix, "--output", &program, err));
    const syn_status s = syn_export_et_set(graph, how, prefix, err);
    output_lock_release(&lock);
    return s;
}

/* Adds the input file, or all files of the input set, to the inputs. */
static syn_status note_input(syn__input_files *inputs, const char *path, syn_error *err) {
    char prefix[PREFIX_BYTES];
    if (!args.all_ranks || !prefix_of(path, prefix)) return cli_inputs_add_set(inputs, path, err);
    SYN_TRY(syn__input_files_add(inputs, path, err));
    return cli_inputs_add_set(inputs, prefix, err);
}

/* Whether the output is a set of files in the format of PyTorch's profiler, for which --output is a
   prefix. */
static bool is_recording(const syn_exporter *exporter) {
    const size_t n = strlen(args.output);
    return exporter == &syn_export_kineto && strcmp(args.output, "-") != 0 &&
           (n < 5 || strcmp(args.output + n - 5, ".json") != 0);
}

static syn_status keep_named(const syn__input_files *inputs, const char *name, const char *suffix,
                             syn_error *err) {
    char path[PREFIX_BYTES];
    if ((size_t)snprintf(path, sizeof path, "%s%s%s", args.output, name, suffix) >= sizeof path)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the output's name is too long; give a shorter --output");
    return syn__input_files_keep(inputs, path, err);
}

static syn_status write_recording(const syn_graph *graph, const syn_export_options *how,
                                  const syn__input_files *inputs, syn_error *err) {
    for (uint32_t r = 0; r < graph->n_ranks; r++) {
        char rank[16];
        snprintf(rank, sizeof rank, ".%d", (int)graph->ranks[r].rank);
        SYN_TRY(keep_named(inputs, rank, "_kineto.json", err));
        SYN_TRY(keep_named(inputs, rank, "_host.json", err));
    }
    SYN_TRY(keep_named(inputs, "", "_stacks.txt", err));
    SYN_TRY(keep_named(inputs, "", "_memory.csv", err));
    output_lock lock = {.path = NULL};
    SYN_TRY(cli_lock_set(&lock, args.output, "--output", &program, err));
    const syn_status s = syn_export_kineto_set(graph, how, args.output, err);
    output_lock_release(&lock);
    return s;
}

static void report_workload(const syn_simai_summary *done, FILE *out) {
    char time[32], bytes[32];
    fprintf(out, "rank %d: %" PRIu64 " layers, %" PRIu64 " collectives, %s of computation\n",
            (int)done->rank, done->n_layers, done->n_collectives,
            cli_time_text((double)done->compute_ns, time, sizeof time));
    for (int k = 0; k < SYN_COMM_KIND_COUNT; k++)
        if (done->left_out[k].calls > 0)
            fprintf(out, "note: left out, as SimAI has no such group or kind: %" PRIu64 " %s, %s\n",
                    done->left_out[k].calls, syn_comm_kind_name((syn_comm_kind)k),
                    cli_bytes_text((double)done->left_out[k].bytes, bytes, sizeof bytes));
}

static syn_status write_workload(syn_simai_summary *done, const syn_graph *graph,
                                 const syn_export_options *how, syn_error *err) {
    syn_sink *sink;
    SYN_TRY(syn_sink_open_file(&sink, args.output, err));
    const syn_status s = syn_export_simai_workload(done, graph, how, sink, err);
    const syn_status closed = syn_sink_close(sink, s == SYN_OK, err);
    return s != SYN_OK ? s : closed;
}

/* Whether the output is a trace set, for which --output is a prefix. */
static bool is_set(const syn_graph *graph, const syn_exporter *exporter,
                   const syn_export_options *how) {
    return exporter == &syn_export_et && graph->n_ranks > 1 && !how->rank &&
           strcmp(args.output, "-") != 0;
}

/* done: set for the format simai. */
static syn_status write_output(syn_simai_summary *done, const syn_graph *graph,
                               const syn_exporter *exporter, const syn_export_options *how,
                               syn_error *err) {
    syn__input_files inputs = {0};
    syn_status s = note_input(&inputs, args.input, err);
    if (s == SYN_OK && args.compare) s = note_input(&inputs, args.compare, err);
    if (s != SYN_OK) {
        syn__input_files_free(&inputs);
        return s;
    }
    if (is_recording(exporter)) {
        s = write_recording(graph, how, &inputs, err);
    } else if (is_set(graph, exporter, how)) {
        s = write_set(graph, how, &inputs, err);
    } else {
        s = syn__input_files_keep(&inputs, args.output, err);
        if (s == SYN_OK)
            s = exporter == &syn_export_simai
                    ? write_workload(done, graph, how, err)
                    : syn_export_file(graph, exporter, how, args.output, err);
    }
    syn__input_files_free(&inputs);
    return s;
}

/* ---- The report ---- */

static void put_named(syn_sink *json, const char *name, const char *suffix, bool *first) {
    char path[PREFIX_BYTES];
    const int n = snprintf(path, sizeof path, "%s%s%s", args.output, name, suffix);
    if (n < (int)sizeof path) cli_json_add_written(json, path, first);
}

static syn_status put_written(syn_sink *json, const syn_graph *graph, const syn_exporter *exporter,
                              const syn_export_options *how, syn_error *err) {
    char text[PREFIX_BYTES];
    bool first = true;
    if (is_set(graph, exporter, how) && prefix_of(args.output, text))
        return cli_json_written_set(json, text, err);
    cli_json_begin_written(json);
    for (uint32_t r = 0; is_recording(exporter) && r < graph->n_ranks; r++) {
        if (how->rank && graph->ranks[r].rank != *how->rank) continue;
        snprintf(text, sizeof text, ".%d", (int)graph->ranks[r].rank);
        put_named(json, text, "_kineto.json", &first);
        put_named(json, text, "_host.json", &first);
    }
    if (is_recording(exporter)) {
        put_named(json, "", "_stacks.txt", &first);
        put_named(json, "", "_memory.csv", &first);
    } else {
        cli_json_add_written(json, args.output, &first);
    }
    syn_sink_char(json, ']');
    return SYN_OK;
}

static void put_workload(syn_sink *json, const syn_simai_summary *done) {
    const char *comma = "";
    syn_sink_printf(json, ", \"workload\": {\"rank\": %d", (int)done->rank);
    cli_json_count(json, "layers", done->n_layers);
    cli_json_count(json, "collectives", done->n_collectives);
    cli_json_count(json, "compute_ns", (uint64_t)done->compute_ns);
    syn_sink_text(json, ", \"left_out\": [");
    for (int k = 0; k < SYN_COMM_KIND_COUNT; k++) {
        if (done->left_out[k].calls == 0) continue;
        syn_sink_printf(json,
                        "%s{\"kind\": \"%s\", \"calls\": %" PRIu64 ", \"bytes\": %" PRIu64 "}",
                        comma, syn_comm_kind_name((syn_comm_kind)k), done->left_out[k].calls,
                        (uint64_t)done->left_out[k].bytes);
        comma = ", ";
    }
    syn_sink_text(json, "]}");
}

static syn_status print_json(const syn_graph *graph, const syn_exporter *exporter,
                             const syn_export_options *how, const syn_simai_summary *done,
                             const syn_hardware *hw, syn_error *err) {
    syn_sink *json;
    uint64_t nodes = 0;
    SYN_TRY(cli_json_open(&json, &program, err));
    for (uint32_t r = 0; r < graph->n_ranks; r++) nodes += graph->ranks[r].n_nodes;
    cli_json_text(json, "input", args.input);
    cli_json_text(json, "format", exporter->name);
    cli_json_count(json, "ranks", graph->n_ranks);
    cli_json_count(json, "nodes", nodes);
    if (exporter == &syn_export_simai) put_workload(json, done);
    syn_status s = args.hw ? export_report_json(graph, hw, json, err) : SYN_OK;
    if (s == SYN_OK) s = put_written(json, graph, exporter, how, err);
    return cli_json_close(json, s, err);
}

static syn_status print_text(const syn_graph *graph, const syn_exporter *exporter,
                             const syn_simai_summary *done, const syn_hardware *hw,
                             syn_error *err) {
    FILE *out = strcmp(args.output, "-") == 0 ? stderr : stdout;
    if (exporter == &syn_export_simai) report_workload(done, out);
    return args.hw ? export_report(graph, hw, out, err) : SYN_OK;
}

/* ---- The command ---- */

/* Lists all formats: "png, svg and dot". */
static const char *formats(const char *before_last) {
    static char text[sizeof format_help / 2];
    const syn_exporter *const *e = syn_exporters();
    size_t n = 0;
    for (size_t i = 0; e[i]; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s",
                              i == 0     ? ""
                              : e[i + 1] ? ", "
                                         : before_last,
                              e[i]->name);
    return text;
}

static int choose_format(const syn_exporter **out) {
    *out = args.format ? syn_exporter_by_name(args.format) : syn_exporter_by_path(args.output);
    if (*out) return CLI_RUN;
    if (args.format)
        return cli_fail(&program, CLI_USAGE, "unknown format '%s'; formats are %s", args.format,
                        formats(" and "));
    return cli_fail(&program, CLI_USAGE, "'%s' has no extension of a format; give --format %s",
                    args.output, formats(" or "));
}

/* Whether the exporter is in the list, which ends with NULL. */
static bool is_one_of(const syn_exporter *exporter, const syn_exporter *const *of) {
    while (*of && *of != exporter) of++;
    return *of != NULL;
}

static bool is_picture(const syn_exporter *exporter) {
    static const syn_exporter *const pictures[] = {&syn_export_svg, &syn_export_png,
                                                   &syn_export_pdf, &syn_export_dot, NULL};
    return is_one_of(exporter, pictures);
}

/* Rejects options that apply only to other formats. */
static int check_options(const syn_exporter *exporter, int argc, char **argv) {
    static const syn_exporter *const once[] = {&syn_export_json, &syn_export_chakra,
                                               &syn_export_chrome, &syn_export_html, NULL};
    static const syn_exporter *const titled[] = {&syn_export_json, &syn_export_chrome,
                                                 &syn_export_gantt, &syn_export_html, NULL};
    const size_t n = strlen(args.input);
    const bool picture = is_picture(exporter), kineto = exporter == &syn_export_kineto;
    const bool timeline = picture && args.view == SYN_VIEW_TIMELINE;
    const cli_rule rules[] = {
        {exporter != &syn_export_html, {"compare"}, "applies only to html; omit it"},
        {!picture, {"page", "view", "comm", "no_fold"}, "applies only to pictures; omit it"},
        {!picture || timeline, {"detail"}, "applies only to pictures of a graph; omit it"},
        {timeline, {"comm"}, "draws a graph, but --view timeline draws times; omit one"},
        {!picture && !is_one_of(exporter, titled),
         {"title"},
         "applies only to pictures, json, chrome, gantt and html; omit it"},
        {exporter != &syn_export_json, {"nx_key"}, "applies only to json; omit it"},
        {!is_one_of(exporter, once),
         {"copies"},
         "applies only to json, chakra, chrome and html; omit it"},
        {!kineto, {"profile_memory"}, "applies only to kineto; omit it"},
        {!kineto && exporter != &syn_export_stacks && exporter != &syn_export_memory_csv,
         {"with_stack"},
         "applies only to kineto, stacks and memory; omit it"},
        {n > 5 && strcmp(args.input + n - 5, ".json") == 0,
         {"all_ranks"},
         "applies only to an input trace.<rank>.et; a JSON file has all ranks"},
        {exporter == &syn_export_simai,
         {"all_ranks"},
         "does not apply to simai, whose workload is that of one rank; omit it"},
    };
    return cli_check_rules(&program, argc, argv, rules, sizeof rules / sizeof *rules);
}

/* Checks the output before a large input is read. The output of trace sets is locked later, when
   the number of ranks is known. */
static syn_status check_output(const syn_exporter *exporter, syn_error *err) {
    if (strcmp(args.output, "-") == 0) return SYN_OK;
    if (exporter == &syn_export_et || is_recording(exporter))
        return folder_check_prefix(args.output, err);
    return folder_check_output(args.output, err);
}

int command_export(int argc, char **argv) {
    syn_error err = {0};
    const syn_exporter *exporter = NULL;
    snprintf(format_help, sizeof format_help, "%s; default: from the output's extension",
             formats(" or "));
    int code = cli_parse(&program, argc, argv);
    if (code != CLI_RUN) return code;
    if (!args.input || !args.output)
        return cli_fail(&program, CLI_USAGE, "--input and --output are needed (--help explains)");
    code = choose_format(&exporter);
    if (code != CLI_RUN) return code;
    code = check_options(exporter, argc, argv);
    if (code == CLI_RUN) code = cli_json_check_output(&program, "output", args.output);
    if (code != CLI_RUN) return code;
    const int32_t rank = (int32_t)args.rank;
    syn_export_options how = {.title = args.title,
                              .rank = rank >= 0 ? &rank : NULL,
                              .version = "syntorch " SYN_VERSION,
                              .comm_graph = args.comm,
                              .no_fold = args.no_fold,
                              .profile_memory = args.profile_memory,
                              .with_stack = args.with_stack,
                              .nx_key = (syn_nx_key)args.nx_key,
                              .copies = (syn_copies)args.copies,
                              .view = (syn_view)args.view,
                              .page = (syn_page)args.page,
                              .detail = (syn_detail)args.detail,
                              .source = args.compare ? args.input : NULL,
                              .compare_source = args.compare};
    syn_simai_summary done;
    syn_graph *graph = NULL, *other = NULL;
    syn_hardware hw;
    syn_status s = check_output(exporter, &err);
    if (s == SYN_OK) s = import(&graph, args.input, &hw, &err);
    if (s == SYN_OK && args.compare) s = import(&other, args.compare, &hw, &err);
    how.compare = other;
    if (s == SYN_OK && how.rank) {
        uint32_t r = 0;
        while (r < graph->n_ranks && graph->ranks[r].rank != rank) r++;
        if (r == graph->n_ranks)
            s = SYN_FAIL(&err, SYN_E_INVALID, "%s does not have rank %d",
                         syn_input_name(args.input), rank);
    }
    if (s == SYN_OK) s = write_output(&done, graph, exporter, &how, &err);
    if (s == SYN_OK)
        s = args.json ? print_json(graph, exporter, &how, &done, &hw, &err)
                      : print_text(graph, exporter, &done, &hw, &err);
    syn_graph_free(graph);
    syn_graph_free(other);
    return cli_done(&program, s, &err);
}
