/* syntorch stamp: writes further ranks of a trace set that has one rank of each program. */
#include <stdio.h>

#include "export/stamp.h"
#include "syntorch/base/memory.h"
#include "tools/cli.h"
#include "tools/commands/command.h"
#include "tools/rank_list.h"

static struct arguments { const char *input, *ranks; } args;

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "PREFIX",
     "set PREFIX.<rank>.et, written by `synth --ranks one-per-program`; --input may be omitted", 0,
     0},
    {"ranks", CLI_TEXT, &args.ranks, "LIST", "ranks to write, such as 17 or 0-7,16", 0, 0},
    {"rank", CLI_ALIAS, NULL, "ranks", NULL, 0, 0},
    CLI_END};

static const char *const examples[] = {
    "synth --model gpt2 --dp 4 --pp 2 --ranks one-per-program --out run/gpt2",
    "syntorch stamp run/gpt2 --ranks 3,5-7", NULL};

static const cli_program program = {
    "syntorch stamp",
    "Writes the files of further ranks of a trace set that has one rank of each program.", options,
    examples, false};

static syn_status stamp(syn_stamp_counts *written, size_t *n, syn_error *err) {
    int32_t *ranks;
    SYN_TRY(rank_list(&ranks, n, args.ranks, SYN_MAX_WORLD, err));
    const syn_status s = syn_stamp_more(args.input, ranks, *n, written, err);
    syn_free(ranks);
    return s;
}

int command_stamp(int argc, char **argv) {
    syn_error err = {0};
    char shown[CLI_SHOWN_BYTES], bytes[32];
    syn_stamp_counts written;
    size_t n;
    const char *const *prefixes;
    size_t n_prefixes;
    const int code =
        cli_parse_inputs(&program, argc, argv, &args.input, "a prefix is", &prefixes, &n_prefixes);
    if (code != CLI_RUN) return code;
    if (n_prefixes > 1)
        return cli_fail(&program, CLI_USAGE, "stamp accepts one prefix, not %zu", n_prefixes);
    args.input = prefixes[0];
    if (!args.ranks) return cli_fail(&program, CLI_USAGE, "--ranks is required");
    if (stamp(&written, &n, &err) != SYN_OK) return cli_fail(&program, CLI_FAILED, "%s", err.text);
    printf("written: %s.*, %llu more ranks with %llu nodes, %s\n",
           cli_shown(args.input, shown, sizeof shown), (unsigned long long)written.files,
           (unsigned long long)written.nodes,
           cli_bytes_text((double)written.bytes, bytes, sizeof bytes));
    if (written.files < n) printf("note: files that exist are not checked and not written again\n");
    return CLI_OK;
}
