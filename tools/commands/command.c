/* The `syntorch` command: calls the function of the subcommand. */
#include "tools/commands/command.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/base/nearest.h"
#include "tools/calibrate/calibrate.h"
#include "tools/cli.h"
#include "tools/doctor/doctor.h"
#include "tools/inference/inference.h"
#include "tools/pretrain/pretrain.h"
#include "tools/serve/serve_run.h"
#include "tools/synth/synth.h"

#define RUN     "Run and predict"
#define SETS    "Sets of traces"
#define CONVERT "Convert"
#define INSPECT "Inspect"
#define OTHER   "Help"

const command syntorch_commands[] = {
    {RUN, "inference", "run a GPT or BERT and trace it", inference_program, true},
    {RUN, "pretrain", "train a GPT or BERT and trace a step", pretrain_program, true},
    {RUN, "synth", "write the Chakra traces of all ranks of a cluster", synth_program, true},
    {RUN, "serve", "simulate an LLM server under load", serve_program, true},
    {RUN, "calibrate", "compare predicted with measured times, fit constants", calibrate_program,
     true},
    {SETS, "simulate", "simulate a set of Chakra execution traces", command_simulate, true},
    {SETS, "what-if", "simulate a set of Chakra traces with changed times", command_what_if, true},
    {SETS, "validate", "check Chakra execution traces for errors and deadlocks", command_validate,
     true},
    {SETS, "diff", "compare two sets of Chakra execution traces", command_diff, true},
    {SETS, "stamp", "write further ranks of a trace set that synth wrote", command_stamp, true},
    {SETS, "expand", "replace collectives with messages; write GOAL schedules", command_expand,
     true},
    {SETS, "astra-sim", "write ASTRA-sim's input files for a trace set", command_astra_sim, true},
    {CONVERT, "export", "convert a recorded trace to a picture or another format", command_export,
     true},
    {CONVERT, "json", "convert a Chakra execution trace to JSON, or back", command_json, true},
    {CONVERT, "convert pytorch", "convert PyTorch's host and device traces to Chakra",
     command_convert_pytorch, true},
    {CONVERT, "convert text", "convert ASTRA-sim's text workloads to Chakra", command_convert_text,
     true},
    {CONVERT, "convert-all", "convert all PyTorch traces of a folder", command_convert_all, true},
    {CONVERT, "link", "merge a PyTorch device trace into its host trace", command_link, true},
    {CONVERT, "repair", "rewrite a damaged PyTorch trace as valid JSON", command_repair, true},
    {INSPECT, "stat", "print statistics of Chakra execution traces", command_stat, true},
    {INSPECT, "view", "open the HTML report of a trace in the browser", command_view, true},
    {INSPECT, "weights", "list the tensors of a checkpoint", command_weights, true},
    {INSPECT, "tokenize", "print the tokens of a text, or the text of ids", command_tokenize, true},
    {INSPECT, "doctor", "check this build and this machine for missing parts", doctor_program,
     true},
    {OTHER, "help", "list all commands, or describe one", command_help, false},
    {OTHER, "man", "print the man page of a command", command_man, false},
    {OTHER, "completion", "print a completion script for bash, zsh or fish", command_completion,
     false},
    {NULL, NULL, NULL, NULL, false},
};

bool syntorch_is_family(const char *name) {
    const size_t n = strlen(name);
    for (const command *c = syntorch_commands; c->name; c++)
        if (strncmp(c->name, name, n) == 0 && c->name[n] == ' ') return true;
    return false;
}

void syntorch_list_family(const char *name, FILE *out) {
    const size_t n = strlen(name);
    fprintf(out, "Usage: syntorch %s FORMAT [options]\n\n", name);
    for (const command *c = syntorch_commands; c->name; c++)
        if (strncmp(c->name, name, n) == 0 && c->name[n] == ' ')
            fprintf(out, "  %-8s  %s\n", c->name + n + 1, c->summary);
    fprintf(out, "\n`syntorch %s FORMAT --help` describes the options.\n", name);
}

const command *syntorch_find(int argc, char **argv, int *n_words) {
    for (const command *c = syntorch_commands; c->name; c++) {
        const char *second = strchr(c->name, ' ');
        const size_t n = second ? (size_t)(second - c->name) : strlen(c->name);
        *n_words = second ? 2 : 1;
        if (argc >= *n_words && strlen(argv[0]) == n && memcmp(argv[0], c->name, n) == 0 &&
            (!second || strcmp(argv[1], second + 1) == 0))
            return c;
    }
    return NULL;
}

/* `syntorch convert` without a format that exists. */
static int family_usage(int argc, char **argv) {
    const bool help = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    char shown[CLI_SHOWN_BYTES];
    if (argc > 1 && !help) {
        fprintf(stderr, "syntorch %s: unknown format '%s' (--help lists all)\n", argv[0],
                cli_shown(argv[1], shown, sizeof shown));
        return CLI_USAGE;
    }
    syntorch_list_family(argv[0], help ? stdout : stderr);
    return help ? CLI_OK : CLI_USAGE;
}

static int unknown(const char *given) {
    char name[CLI_SHOWN_BYTES];
    syn__nearest near = {NULL, 0};
    for (const command *c = syntorch_commands; c->name; c++)
        syn__nearest_try(&near, given, c->name);
    fprintf(stderr, "syntorch: unknown command '%s'%s%s%s (--help lists all)\n",
            cli_shown(given, name, sizeof name), near.name ? "; did you mean " : "",
            near.name ? near.name : "", near.name ? "?" : "");
    return CLI_USAGE;
}

/* Runs the command. argv[0] becomes its name in messages. */
static int run_command(const command *c, const char *prefix, int argc, char **argv) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", prefix, c->name);
    argv[0] = name;
    return c->run(argc, argv);
}

int syntorch_program(int argc, char **argv) {
    /* A link to this program with the name of a command, with or without "syntorch-", runs the
       command. */
    const char *self = cli_base_name(argc > 0 ? argv[0] : "syntorch");
    const char *prefix = strncmp(self, "syntorch-", 9) == 0 ? "syntorch-" : "";
    for (const command *c = syntorch_commands; c->name; c++)
        if (strcmp(self + strlen(prefix), c->name) == 0) return run_command(c, prefix, argc, argv);
    if (argc < 2) return syntorch_usage(stderr, CLI_USAGE);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return syntorch_usage(stdout, CLI_OK);
    if (strcmp(argv[1], "--version") == 0) {
        printf("syntorch %s\n", SYN_VERSION);
        return CLI_OK;
    }
    int n;
    const command *c = syntorch_find(argc - 1, argv + 1, &n);
    if (c) return run_command(c, "syntorch ", argc - n, argv + n);
    return syntorch_is_family(argv[1]) ? family_usage(argc - 1, argv + 1) : unknown(argv[1]);
}
