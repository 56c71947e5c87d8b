/* syntorch json: converts an execution trace to JSON, and back. */
#include <inttypes.h>
#include <string.h>

#include "export/chakra/chakra_json.h"
#include "export/chakra/file_kind.h"
#include "export/chakra/wire/et_files.h"
#include "syntorch/base/types.h"
#include "tools/cli_json.h"
#include "tools/commands/command.h"
#include "tools/inputs.h"

static struct arguments {
    const char *input, *output;
    int64_t rank;
    uint64_t max_unpacked_bytes;
    bool compat, json;
} args = {.rank = -1};

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "FILE",
     ".et file (gzip allowed), or JSON converted from one; - = standard input", 0, 0},
    {"output", CLI_TEXT, &args.output, "FILE", "file to write; - = standard output", 0, 0},
    {"rank", CLI_INT, &args.rank, "R",
     "JSON with several ranks: rank to write; .et: its rank if the metadata lacks it; default: "
     "from the file name",
     -1, SYN_MAX_WORLD - 1},
    {"compat", CLI_FLAG, &args.compat, NULL,
     "write what chakra_jsonizer writes: objects without separators, which is not valid JSON and "
     "cannot be converted back",
     0, 0},
    CLI_JSON(&args.json),
    CLI_MAX_UNPACKED(&args.max_unpacked_bytes),
    CLI_END};

static const char *const examples[] = {
    "syntorch json --input out/trace.0.et --output trace.0.json",
    "syntorch json --input trace.0.json --output trace.0.et",
    "syntorch json --input out/tensor_trace_chakra.json --rank 1 --output trace.1.et", NULL};

static const cli_program program = {"syntorch json",
                                    "Converts a Chakra execution trace to one JSON document, or "
                                    "such a document back to a trace with the same bytes.",
                                    options, examples, false};

/* Returns the rank in a file name: 12 for "trace.12.et", 0 for names without a rank. */
static int32_t rank_of_name(const char *path) {
    size_t unused;
    const int32_t rank = syn__et_rank_of(path, &unused);
    return rank < 0 || rank >= SYN_MAX_WORLD ? 0 : rank;
}

static syn_status convert(const syn__file_text *in, bool json, syn_sink *out,
                          syn_chakra_json_stats *stats, syn_error *err) {
    const char *data = in->data;
    const size_t bytes = in->bytes;
    const int32_t rank = (int32_t)args.rank;
    if (json) return syn_chakra_json_to_et(in->name, data, bytes, rank, out, stats, err);
    if (args.compat) return syn_chakra_et_to_json_compat(in->name, data, bytes, out, stats, err);
    return syn_chakra_et_to_json(in->name, data, bytes, rank >= 0 ? rank : rank_of_name(args.input),
                                 out, stats, err);
}

static syn_status run(bool *json, syn_chakra_json_stats *stats, syn_error *err) {
    cli_files files;
    SYN_TRY(cli_keep_input(args.input, args.output, err));
    SYN_TRY(cli_files_open(&files, args.input, args.output, args.max_unpacked_bytes, err));
    *json = syn_chakra_is_json(files.in.data, files.in.bytes);
    syn_status status = SYN_OK;
    if (*json && args.compat)
        status = SYN_FAIL(err, SYN_E_INVALID, "--compat writes JSON, but %.200s is JSON already",
                          files.in.name);
    if (status == SYN_OK && !*json)
        status = syn__require_et(files.in.name, files.in.data, files.in.bytes, err);
    if (status == SYN_OK) status = convert(&files.in, *json, files.out, stats, err);
    return cli_files_close(&files, status, err);
}

/* Prints to standard error, because the JSON or the trace may be written to standard output. */
static void report(bool json, const syn_chakra_json_stats *stats) {
    char name[CLI_SHOWN_BYTES];
    fprintf(stderr, "%s: %" PRIu64 " node%s", cli_shown(args.output, name, sizeof name),
            stats->n_nodes, cli_plural(stats->n_nodes));
    if (stats->n_wire != 0)
        fprintf(stderr, "; %" PRIu64 " message%s not in protobuf's canonical form%s", stats->n_wire,
                cli_plural(stats->n_wire), json ? ", written as \"@wire\" says" : "");
    if (stats->n_wire != 0 && !json)
        fprintf(stderr, " (the first at byte %zu), kept in \"@wire\"", stats->first_wire);
    if (stats->omitted_bytes != 0)
        fprintf(stderr,
                "; %" PRIu64 " bytes after an empty message omitted, as chakra_jsonizer does",
                stats->omitted_bytes);
    fputc('\n', stderr);
}

static syn_status print_json(bool json, const syn_chakra_json_stats *stats, syn_error *err) {
    syn_sink *out;
    SYN_TRY(cli_json_open(&out, &program, err));
    cli_json_text(out, "input", args.input);
    cli_json_text(out, "input_format", json ? "json" : "et");
    cli_json_count(out, "nodes", stats->n_nodes);
    cli_json_count(out, "noncanonical_messages", stats->n_wire);
    cli_json_count(out, "omitted_bytes", stats->omitted_bytes);
    cli_json_written(out, args.output);
    return cli_json_close(out, SYN_OK, err);
}

int command_json(int argc, char **argv) {
    syn_chakra_json_stats stats = {0};
    syn_error err = {0};
    bool json = false;
    int code = cli_parse(&program, argc, argv);
    if (code != CLI_RUN) return code;
    if (!args.input || !args.output)
        return cli_fail(&program, CLI_USAGE, "--input and --output are needed (--help explains)");
    code = cli_json_check_output(&program, "output", args.output);
    if (code != CLI_RUN) return code;
    syn_status s = run(&json, &stats, &err);
    if (s == SYN_OK && args.json) s = print_json(json, &stats, &err);
    else if (s == SYN_OK) report(json, &stats);
    return cli_done(&program, s, &err);
}
