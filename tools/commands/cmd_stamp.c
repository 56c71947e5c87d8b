/* syntorch stamp: writes further ranks of a trace set that has one rank of each program. */
#include <stdio.h>

#include "export/chakra/wire/et_files.h"
#include "export/stamp.h"
#include "syntorch/base/memory.h"
#include "tools/cli_json.h"
#include "tools/commands/command.h"
#include "tools/inputs.h"
#include "tools/rank_list.h"

static struct arguments {
    const char *input, *ranks;
    bool json;
} args;

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "PREFIX",
     "set PREFIX.<rank>.et, written by `synth --ranks one-per-program`; --input may be omitted", 0,
     0},
    {"ranks", CLI_TEXT, &args.ranks, "LIST", "ranks to write, such as 17 or 0-7,16", 0, 0},
    {"rank", CLI_ALIAS, NULL, "ranks", NULL, 0, 0},
    CLI_JSON(&args.json),
    CLI_END};

static const char *const examples[] = {
    "synth --model gpt2 --dp 4 --pp 2 --ranks one-per-program --out run/gpt2",
    "syntorch stamp run/gpt2 --ranks 3,5-7", NULL};

static const cli_program program = {
    "syntorch stamp",
    "Writes the files of further ranks of a trace set that has one rank of each program.", options,
    examples, false};

/* The ranks of --ranks. */
typedef struct stamping {
    int32_t *ranks;
    bool *existed; /* whether the rank's file existed, so that it is not written */
    size_t n;
    syn_stamp_counts written;
} stamping;

static syn_status find_existing(stamping *s, syn_error *err) {
    syn__et_names names;
    s->existed = syn_calloc(s->n, sizeof *s->existed);
    if (s->existed == NULL) return SYN_FAIL_NOMEM(err, s->n, "the ranks");
    SYN_TRY(syn__et_names_open(&names, args.input, err));
    for (size_t i = 0; i < s->n; i++)
        s->existed[i] = syn_file_exists(syn__et_rank_path(&names, (uint32_t)s->ranks[i]));
    syn__et_names_close(&names);
    return SYN_OK;
}

static void put_notes(const stamping *s, syn_sink *json) {
    cli_notes notes = cli_notes_begin(json, stdout);
    if (s->written.files < s->n)
        cli_note(&notes, "note", "files that exist are not checked and not written again");
    cli_notes_end(&notes);
}

static void print_text(const stamping *s) {
    char shown[CLI_SHOWN_BYTES], bytes[32];
    printf("written: %s.*, %llu more ranks with %llu nodes, %s\n",
           cli_shown(args.input, shown, sizeof shown), (unsigned long long)s->written.files,
           (unsigned long long)s->written.nodes,
           cli_bytes_text((double)s->written.bytes, bytes, sizeof bytes));
    put_notes(s, NULL);
}

static syn_status print_json(const stamping *s, syn_error *err) {
    bool first = true;
    syn__et_names names;
    syn_sink *json;
    SYN_TRY(cli_json_open(&json, &program, err));
    cli_json_text(json, "input", args.input);
    cli_json_count(json, "ranks", s->written.files);
    cli_json_count(json, "nodes", s->written.nodes);
    const syn_status status = syn__et_names_open(&names, args.input, err);
    cli_json_begin_written(json);
    for (size_t i = 0; status == SYN_OK && i < s->n; i++)
        if (!s->existed[i])
            cli_json_add_written(json, syn__et_rank_path(&names, (uint32_t)s->ranks[i]), &first);
    syn_sink_char(json, ']');
    put_notes(s, json);
    syn__et_names_close(&names);
    return cli_json_close(json, status, err);
}

static syn_status stamp(stamping *s, syn_error *err) {
    SYN_TRY(rank_list(&s->ranks, &s->n, args.ranks, SYN_MAX_WORLD, err));
    SYN_TRY(find_existing(s, err));
    SYN_TRY(syn_stamp_more(args.input, s->ranks, s->n, &s->written, err));
    if (args.json) return print_json(s, err);
    print_text(s);
    return SYN_OK;
}

int command_stamp(int argc, char **argv) {
    syn_error err = {0};
    stamping s = {.n = 0};
    const char *const *prefixes;
    size_t n_prefixes;
    int code =
        cli_parse_inputs(&program, argc, argv, &args.input, "a prefix is", &prefixes, &n_prefixes);
    if (code != CLI_RUN) return code;
    if (n_prefixes > 1)
        return cli_fail(&program, CLI_USAGE, "stamp accepts one prefix, not %zu", n_prefixes);
    args.input = prefixes[0];
    code = cli_refuse_standard_input(&program, args.input, "a set of files");
    if (code != CLI_RUN) return code;
    if (!args.ranks) return cli_fail(&program, CLI_USAGE, "--ranks is required");
    const syn_status status = stamp(&s, &err);
    syn_free(s.ranks);
    syn_free(s.existed);
    return cli_done(&program, status, &err);
}
