/* syntorch repair: rewrites a damaged PyTorch trace as valid JSON. */
#include <inttypes.h>
#include <string.h>

#include "export/pytorch/read/pt_repair.h"
#include "tools/cli_json.h"
#include "tools/commands/command.h"
#include "tools/inputs.h"
#include "tools/pytorch/pytorch_options.h"

static struct arguments {
    const char *input, *output, *object;
    uint64_t max_unpacked_bytes;
    bool json;
} args = {.object = "last"};

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "FILE",
     "host or device trace (gzip allowed); - = standard input", 0, 0},
    {"output", CLI_TEXT, &args.output, "FILE",
     "file to write, different from the input; - = standard output", 0, 0},
    {"object", CLI_TEXT, &args.object, "last|all|N",
     "if the file has several JSON objects: write the last complete one, all merged into one, or "
     "number N, counted from 0",
     0, 0},
    CLI_JSON(&args.json),
    CLI_MAX_UNPACKED(&args.max_unpacked_bytes),
    CLI_END};

static const char *const examples[] = {
    "syntorch repair --input host.0.json --output host.0.repaired.json",
    "syntorch repair --input host.0.json --output merged.json --object all", NULL};

static const cli_program program = {
    "syntorch repair",
    "Writes a damaged PyTorch trace (truncated, missing commas, NaN, several objects, ...) as "
    "valid JSON. Valid parts stay byte for byte; unreadable nodes are omitted. Reports each repair "
    "on standard error.",
    options, examples, false};

static void report(const syn__pt_repaired *repaired, uint64_t bytes) {
    char in[CLI_SHOWN_BYTES], out[CLI_SHOWN_BYTES];
    const char *name = cli_shown(syn_input_name(args.input), in, sizeof in);
    uint64_t found = 0;
    for (int i = 0; i < SYN__FIX_KINDS; i++) {
        const syn__fix_note *note = &repaired->notes[i];
        if (note->count == 0) continue;
        found++;
        fprintf(stderr, "%s: %s: %" PRIu64 ", %s (first at byte %zu)\n", name,
                syn__fix_met((syn__fix_kind)i), note->count, syn__fix_done((syn__fix_kind)i),
                note->first);
    }
    fprintf(stderr, "%s: %s%" PRIu64 " nodes or events, %" PRIu64 " bytes\n",
            cli_shown(args.output, out, sizeof out), found == 0 ? "nothing to repair; " : "",
            repaired->n_kept, bytes);
}

static syn_status print_json(const syn__pt_repaired *repaired, syn_error *err) {
    const char *comma = "";
    syn_sink *json;
    SYN_TRY(cli_json_open(&json, &program, err));
    cli_json_text(json, "input", args.input);
    cli_json_count(json, "kept", repaired->n_kept);
    syn_sink_text(json, ", \"repairs\": [");
    for (int i = 0; i < SYN__FIX_KINDS; i++) {
        const syn__fix_note *note = &repaired->notes[i];
        if (note->count == 0) continue;
        syn_sink_printf(json, "%s{\"count\": %" PRIu64, comma, note->count);
        cli_json_text(json, "found", syn__fix_met((syn__fix_kind)i));
        cli_json_text(json, "repair", syn__fix_done((syn__fix_kind)i));
        cli_json_count(json, "first_byte", note->first);
        syn_sink_char(json, '}');
        comma = ", ";
    }
    syn_sink_char(json, ']');
    cli_json_written(json, args.output);
    return cli_json_close(json, SYN_OK, err);
}

static syn_status run(syn_pytorch_object object, syn__pt_repaired *repaired, uint64_t *bytes,
                      syn_error *err) {
    cli_files files;
    SYN_TRY(cli_files_open(&files, args.input, args.output, args.max_unpacked_bytes, err));
    const syn_status status = syn__pt_repair(repaired, &files.in, object, files.out, err);
    *bytes = syn_sink_bytes(files.out);
    return cli_files_close(&files, status, err);
}

int command_repair(int argc, char **argv) {
    syn_error err = {0};
    syn__pt_repaired repaired;
    syn_pytorch_object object;
    uint64_t bytes = 0;
    int code = cli_parse(&program, argc, argv);
    if (code != CLI_RUN) return code;
    if (!args.input || !args.output)
        return cli_fail(&program, CLI_USAGE, "--input and --output are needed (--help explains)");
    if (!pytorch_read_object(args.object, &object))
        return cli_fail(&program, CLI_USAGE,
                        "--object must be last, all or a number of at least 0, not '%s'",
                        args.object);
    code = cli_json_check_output(&program, "output", args.output);
    if (code != CLI_RUN) return code;
    syn_status s = cli_keep_input(args.input, args.output, &err);
    if (s == SYN_OK) s = run(object, &repaired, &bytes, &err);
    if (s == SYN_OK && args.json) s = print_json(&repaired, &err);
    else if (s == SYN_OK) report(&repaired, bytes);
    return cli_done(&program, s, &err);
}
