/* syntorch convert text: converts a text workload of ASTRA-sim to a set of execution traces. */
#include <inttypes.h>

#include "export/workload/text_workload.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/types.h"
#include "tools/cli_json.h"
#include "tools/commands/command.h"
#include "tools/inputs.h"

#define MAX_FILE_BYTES ((size_t)1 << 30)

static struct arguments {
    const char *input, *output;
    int64_t npus, passes;
    bool compat, json;
} args = {.passes = 1};

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "FILE", "text workload to read; - = standard input", 0, 0},
    {"output", CLI_TEXT, &args.output, "PREFIX",
     "prefix of the files to write: PREFIX.<npu>.et and PREFIX.comm_group.json", 0, 0},
    {"num_npus", CLI_INT, &args.npus, "N", "number of NPUs, one .et file each", 1, SYN_MAX_WORLD},
    {"num_passes", CLI_INT, &args.passes, "P", "number of training steps", 1, 1e9},
    {"compat", CLI_FLAG, &args.compat, NULL,
     "write byte for byte what chakra_converter Text writes; simulators may not run it: its "
     "collectives have no size and no order",
     0, 0},
    CLI_JSON(&args.json),
    CLI_END};

static const char *const examples[] = {
    "syntorch convert text --input resnet.txt --output out/resnet --num_npus 8",
    "syntorch convert text --input dlrm.txt --output out/dlrm --num_npus 64 --num_passes 2", NULL};

static const cli_program program = {
    "syntorch convert text",
    "Converts ASTRA-sim's text workload (MICRO, DATA, MODEL, HYBRID_DATA_MODEL, HYBRID_MODEL_DATA, "
    "HYBRID_DLRM) to Chakra execution traces, one file per NPU. Times are read as microseconds.",
    options, examples, false};

static syn_status convert(syn_text_workload *w, const char *data, size_t bytes, syn_error *err) {
    const syn_text_options how = {(uint32_t)args.npus, (uint32_t)args.passes,
                                  "syntorch " SYN_VERSION};
    SYN_TRY(syn_text_workload_read(w, syn_input_name(args.input), data, bytes, args.compat, err));
    output_lock lock = {.path = NULL};
    SYN_TRY(cli_lock_set(&lock, args.output, "--output", &program, err));
    const syn_status s = syn_text_workload_write(w, &how, args.output, err);
    output_lock_release(&lock);
    return s;
}

static syn_status check_output(syn_error *err) {
    syn__input_files inputs = {0};
    syn_status s = syn__input_files_add(&inputs, args.input, err);
    if (s == SYN_OK) s = cli_inputs_keep_set(&inputs, args.output, err);
    syn__input_files_free(&inputs);
    return s;
}

static void put_warnings(const syn_text_workload *w, syn_sink *json) {
    char name[CLI_SHOWN_BYTES];
    cli_notes notes = cli_notes_begin(json, stderr);
    if (w->n_unused != 0)
        cli_note(&notes, "warning",
                 "%s: %" PRIu64 " collective%s, the first in line %zu, %s omitted: this kind of "
                 "parallelism does not have %s",
                 cli_shown(syn_input_name(args.input), name, sizeof name), w->n_unused,
                 cli_plural(w->n_unused), w->unused_line, w->n_unused == 1 ? "is" : "are",
                 w->n_unused == 1 ? "it" : "them");
    if (args.npus == 1 && !args.compat)
        cli_note(&notes, "warning", "one NPU does not communicate: the trace has no collectives");
    cli_notes_end(&notes);
}

static void report(const syn_text_workload *w) {
    char name[CLI_SHOWN_BYTES];
    printf("%s.<npu>.et: %" PRId64 " file%s of %" PRIu64 " nodes, %" PRIu64
           " of them collectives\n",
           cli_shown(args.output, name, sizeof name), args.npus, cli_plural((uint64_t)args.npus),
           w->n_nodes, w->n_collectives);
    put_warnings(w, NULL);
}

static syn_status print_json(const syn_text_workload *w, syn_error *err) {
    syn_sink *json;
    SYN_TRY(cli_json_open(&json, &program, err));
    cli_json_text(json, "input", args.input);
    cli_json_count(json, "npus", (uint64_t)args.npus);
    cli_json_count(json, "nodes", w->n_nodes);
    cli_json_count(json, "collectives", w->n_collectives);
    const syn_status s = cli_json_written_set(json, args.output, err);
    put_warnings(w, json);
    return cli_json_close(json, s, err);
}

int command_convert_text(int argc, char **argv) {
    syn_text_workload workload = {0};
    syn_error err = {0};
    char *data;
    size_t bytes;
    const int code = cli_parse(&program, argc, argv);
    if (code != CLI_RUN) return code;
    if (!args.input || !args.output || args.npus == 0)
        return cli_fail(&program, CLI_USAGE,
                        "--input, --output and --num_npus are needed (--help explains)");
    syn_status status = check_output(&err);
    if (status == SYN_OK) status = syn_read_file(args.input, MAX_FILE_BYTES, &data, &bytes, &err);
    if (status == SYN_OK) {
        status = convert(&workload, data, bytes, &err);
        syn_free(data);
    }
    if (status == SYN_OK && args.json) status = print_json(&workload, &err);
    else if (status == SYN_OK) report(&workload);
    syn_text_workload_free(&workload);
    return cli_done(&program, status, &err);
}
