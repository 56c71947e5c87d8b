/* syntorch validate: checks execution traces, and whether a simulator can run them. */
#include <inttypes.h>
#include <string.h>

#include "export/validate.h"
#include "tools/cli_json.h"
#include "tools/commands/command.h"
#include "tools/inputs.h"

static struct arguments {
    const char *input, *groups;
    uint64_t max_unpacked_bytes;
    bool any_node, single, json, strict;
} args;

static const cli_option options[] = {
    {"input", CLI_TEXT, &args.input, "PREFIX|FILE",
     "set PREFIX.<rank>.et, or one .et file; - = standard input; --input may be omitted, then also "
     "several files",
     0, 0},
    {"groups", CLI_TEXT, &args.groups, "FILE",
     "file with the ranks of each group; default: PREFIX.comm_group.json if it exists", 0, 0},
    {"any_node", CLI_FLAG, &args.any_node, NULL,
     "accept CPU, memory and metadata nodes, gzip files and unknown groups, as traces of real runs "
     "have",
     0, 0},
    {"single", CLI_FLAG, &args.single, NULL,
     "check one rank's file of a real run: --any_node without checks across ranks", 0, 0},
    CLI_JSON(&args.json),
    {"strict", CLI_FLAG, &args.strict, NULL, "fail on warnings, too", 0, 0},
    CLI_MAX_UNPACKED(&args.max_unpacked_bytes),
    CLI_END};

static const char *const examples[] = {"syntorch validate out/trace",
                                       "syntorch validate out/trace.0.et out/trace.1.et --json",
                                       "syntorch validate --single converted.et", NULL};

static const cli_program program = {
    "syntorch validate",
    "Checks Chakra execution traces: files, ids, dependencies, attributes and groups; that all "
    "ranks of a group call the same collectives in the same order; that every send has a receive; "
    "and that simulators with one communication slot per rank finish. The exit code is 1 if there "
    "are problems. All nodes of a real run are a problem unless --any_node or --single is given.",
    options, examples, false};

/* ---- Text ---- */

static void print_place(const syn_finding *f) {
    if (f->rank >= 0) printf("rank %" PRId32, f->rank);
    if (f->has_node) printf("%snode %" PRIu64, f->rank >= 0 ? ", " : "", f->node);
    if (f->has_offset)
        printf("%sbyte %" PRIu64, f->rank >= 0 || f->has_node ? ", " : "", f->offset);
    if (f->rank >= 0 || f->has_node || f->has_offset) printf(": ");
}

/* Prints a line per kind of finding: problem or warning, name, count, first occurrence. */
static void print_kinds(const syn_validation *v, bool problems) {
    for (size_t i = 0; i < v->n_findings; i++) {
        const syn_finding *f = &v->findings[i];
        if (syn_finding_is_problem(f->kind) != problems) continue;
        if (i > 0 && f[-1].kind == f->kind) continue;
        printf("%-8s %-23s %8" PRIu64 "  ", problems ? "problem" : "warning",
               syn_finding_name(f->kind), v->counts[f->kind]);
        print_place(f);
        cli_print_escaped(stdout, f->text, strlen(f->text));
        putchar('\n');
    }
}

static void print_text(const syn_validation *v, const char *name) {
    print_kinds(v, true);
    print_kinds(v, false);
    cli_print_escaped(stdout, name, strlen(name));
    printf(": %" PRIu32 " file%s, %" PRIu64 " node%s, %" PRIu64 " collective%s, %" PRIu64
           " send%s, %" PRIu64 " receive%s: ",
           v->n_files, cli_plural(v->n_files), v->n_nodes, cli_plural(v->n_nodes), v->n_collectives,
           cli_plural(v->n_collectives), v->n_sends, cli_plural(v->n_sends), v->n_recvs,
           cli_plural(v->n_recvs));
    if (v->n_problems == 0) printf("no problem");
    else printf("%" PRIu64 " problem%s", v->n_problems, cli_plural(v->n_problems));
    if (v->n_warnings != 0)
        printf(", %" PRIu64 " warning%s", v->n_warnings, cli_plural(v->n_warnings));
    printf("%s\n", v->counts[SYN_FINDING_DEADLOCK] > 0 ? "; a simulation does not finish"
                   : v->executed                       ? "; a simulation finishes"
                   : !v->across && v->n_problems == 0  ? "; nothing was compared across ranks"
                                                       : "");
}

/* ---- The command ---- */

static syn_status print_json(const syn_validation *v, syn_error *err) {
    syn_sink *json;
    SYN_TRY(cli_json_open(&json, &program, err));
    syn_sink_text(json, ", ");
    syn_validation_json_members(v, json);
    return cli_json_close(json, SYN_OK, err);
}

int command_validate(int argc, char **argv) {
    syn_error err = {0};
    syn_validation v = {.n_findings = 0};
    const char *const *paths;
    size_t n;
    const int code = cli_parse_set(&program, argc, argv, &args.input, &paths, &n);
    if (code != CLI_RUN) return code;
    if (args.single && n > 1)
        return cli_fail(&program, CLI_USAGE, "--single checks one file, not %zu", n);
    const syn_validate_options how = {args.any_node, args.single, args.groups,
                                      args.max_unpacked_bytes};
    syn_status s = cli_take_standard_input(paths, n, &err);
    if (s == SYN_OK) s = syn_validate(&v, paths, n, &how, &err);
    const bool bad = v.n_problems != 0 || (args.strict && v.n_warnings != 0);
    if (s == SYN_OK && args.json) s = print_json(&v, &err);
    else if (s == SYN_OK) print_text(&v, syn_input_name(paths[0]));
    syn_validation_free(&v);
    if (s != SYN_OK) return cli_fail(&program, CLI_FAILED, "%s", err.text);
    return bad ? CLI_FAILED : CLI_OK;
}
