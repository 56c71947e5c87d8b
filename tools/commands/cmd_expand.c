/* syntorch expand: replaces the collectives of a set by messages, as a trace set or as a GOAL
   schedule. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "export/simulate.h"
#include "syntorch/base/types.h"
#include "tools/cli_json.h"
#include "tools/commands/command.h"
#include "tools/inputs.h"

static struct arguments {
    const char *input, *groups, *out;
    int algorithm, format;
    int64_t node_ranks;
    uint64_t max_unpacked_bytes;
    bool json;
} args;

enum { FORMAT_ET, FORMAT_GOAL, FORMAT_GOAL_BINARY };

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "PREFIX", "set PREFIX.<rank>.et; --input may be omitted", 0,
     0},
    {"out", CLI_TEXT, &args.out, "PREFIX|FILE",
     "write the set PREFIX.<rank>.et, or the schedule FILE", 0, 0},
    {"format", CLI_CHOICE, &args.format, "et|goal|goal-binary",
     "et: Chakra execution traces; goal: the text form of GOAL, for LogGOPSim and ATLAHS; "
     "goal-binary: what LogGOPSim's txt2bin makes of it",
     0, 0},
    {"algorithm", CLI_CHOICE, &args.algorithm, "ring|doubling|tree|hierarchical",
     "all-reduce, all-gather and reduce-scatter: rings, recursive doubling and halving (rings if "
     "the number of ranks is no power of two), all-reduces as binomial trees, or rings within and "
     "between nodes",
     0, 0},
    {"node_ranks", CLI_INT, &args.node_ranks, "N",
     "hierarchical: ranks per node; default: those of the machine that the set names", 1,
     SYN_MAX_WORLD},
    {"groups", CLI_TEXT, &args.groups, "FILE",
     "file with the ranks of each group; default: PREFIX.comm_group.json if it exists", 0, 0},
    CLI_JSON(&args.json),
    CLI_MAX_UNPACKED(&args.max_unpacked_bytes),
    CLI_END};

static const char *const examples[] = {
    "syntorch expand out/trace --out messages/trace",
    "syntorch expand out/trace --format goal --out trace.goal",
    "syntorch expand out/trace --algorithm hierarchical --node-ranks 4 --out messages/trace", NULL};

static const cli_program program = {
    "syntorch expand",
    "Replaces each collective of a set of Chakra execution traces by the sends and receives of an "
    "algorithm, for simulators that run only messages.",
    options, examples, false};

static syn_status write_set(syn_expanded *done, const char *prefix, const syn_expand_options *how,
                            const syn__input_files *inputs, syn_error *err) {
    output_lock lock = {.path = NULL};
    SYN_TRY(cli_inputs_keep_set(inputs, args.out, err));
    SYN_TRY(cli_lock_set(&lock, args.out, "--out", &program, err));
    const syn_status s = syn_expand_set(done, prefix, args.out, how, err);
    output_lock_release(&lock);
    return s;
}

static syn_status write_goal(syn_expanded *done, const char *prefix, const syn_expand_options *how,
                             const syn__input_files *inputs, syn_error *err) {
    syn_sink *sink;
    SYN_TRY(syn__input_files_keep(inputs, args.out, err));
    SYN_TRY(syn_sink_open_file(&sink, args.out, err));
    const syn_status s = syn_export_goal(done, prefix, sink, how, err);
    const syn_status closed = syn_sink_close(sink, s == SYN_OK, err);
    return s != SYN_OK ? s : closed;
}

static syn_status expand(syn_expanded *done, const char *prefix, syn_error *err) {
    const syn_expand_options how = {.algorithm = (syn_expansion)args.algorithm,
                                    .node_ranks = (int32_t)args.node_ranks,
                                    .groups = args.groups,
                                    .binary = args.format == FORMAT_GOAL_BINARY,
                                    .max_unpacked_bytes = args.max_unpacked_bytes};
    syn__input_files inputs = {0};
    syn_status s = cli_inputs_add_set(&inputs, prefix, err);
    if (s == SYN_OK) s = syn__input_files_add(&inputs, args.groups, err);
    if (s == SYN_OK)
        s = args.format == FORMAT_ET ? write_set(done, prefix, &how, &inputs, err)
                                     : write_goal(done, prefix, &how, &inputs, err);
    syn__input_files_free(&inputs);
    return s;
}

static void put_notes(const syn_expanded *done, syn_sink *json) {
    cli_notes notes = cli_notes_begin(json, stdout);
    if (done->n_uneven > 0)
        cli_note(&notes, "note",
                 "rings replace the collectives of %" PRIu32 " group%s with different numbers of "
                 "ranks per node",
                 done->n_uneven, cli_plural(done->n_uneven));
    cli_notes_end(&notes);
}

static void print_text(const syn_expanded *done) {
    char shown[CLI_SHOWN_BYTES], bytes[32];
    if (strcmp(args.out, "-") == 0) return;
    printf("written: %s, %" PRIu32 " rank%s, %" PRIu64 " nodes from %" PRIu64 ", %" PRIu64
           " collective%s replaced, %s sent\n",
           cli_shown(args.out, shown, sizeof shown), done->n_ranks, cli_plural(done->n_ranks),
           done->n_written, done->n_nodes, done->n_collectives, cli_plural(done->n_collectives),
           cli_bytes_text((double)done->bytes, bytes, sizeof bytes));
    put_notes(done, NULL);
}

static syn_status print_json(const syn_expanded *done, const char *input, syn_error *err) {
    syn_sink *json;
    syn_status s = SYN_OK;
    SYN_TRY(cli_json_open(&json, &program, err));
    cli_json_text(json, "input", input);
    cli_json_count(json, "ranks", done->n_ranks);
    cli_json_count(json, "nodes", done->n_nodes);
    cli_json_count(json, "written_nodes", done->n_written);
    cli_json_count(json, "collectives", done->n_collectives);
    cli_json_count(json, "sent_bytes", done->bytes);
    if (args.format == FORMAT_ET) s = cli_json_written_set(json, args.out, err);
    else cli_json_written(json, args.out);
    put_notes(done, json);
    return cli_json_close(json, s, err);
}

int command_expand(int argc, char **argv) {
    syn_error err = {0};
    const char *const *paths;
    size_t n;
    syn_expanded done;
    int code = cli_parse_inputs(&program, argc, argv, &args.input, "a prefix is", &paths, &n);
    if (code != CLI_RUN) return code;
    const cli_rule rules[] = {{args.algorithm != SYN_EXPAND_HIERARCHICAL,
                               {"node_ranks"},
                               "applies only to --algorithm hierarchical; omit it"}};
    code = cli_check_rules(&program, argc, argv, rules, sizeof rules / sizeof *rules);
    if (code != CLI_RUN) return code;
    if (n != 1) return cli_fail(&program, CLI_USAGE, "one prefix is needed, not %zu", n);
    code = cli_refuse_standard_input(&program, paths[0], "a set of files");
    if (code != CLI_RUN) return code;
    if (args.out == NULL)
        return cli_fail(&program, CLI_USAGE, "--out PREFIX is missing: where to write the set");
    code = cli_json_check_output(&program, "out", args.out);
    if (code != CLI_RUN) return code;
    syn_status status = expand(&done, paths[0], &err);
    if (status == SYN_OK && args.json) status = print_json(&done, paths[0], &err);
    else if (status == SYN_OK) print_text(&done);
    return cli_done(&program, status, &err);
}
