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
#include "tools/synth/synth.h"

/* convert: converts traces of other tools to Chakra execution traces. */
static int convert_usage(FILE *out, int code) {
    fprintf(out, "Usage: syntorch convert pytorch|text [options]\n\n"
                 "  pytorch  PyTorch's host and device traces (torch.profiler)\n"
                 "  text     ASTRA-sim's text workloads\n\n"
                 "`syntorch convert pytorch --help` describes the options.\n");
    return code;
}

static int convert(int argc, char **argv) {
    if (argc < 2) return convert_usage(stderr, CLI_USAGE);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return convert_usage(stdout, CLI_OK);
    if (strcmp(argv[1], "pytorch") == 0) return command_convert_pytorch(argc - 1, argv + 1);
    if (strcmp(argv[1], "text") == 0) return command_convert_text(argc - 1, argv + 1);
    char name[CLI_SHOWN_BYTES];
    fprintf(stderr, "syntorch convert: unknown format '%s'; use pytorch or text\n",
            cli_shown(argv[1], name, sizeof name));
    return CLI_USAGE;
}

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"astra-sim", "write ASTRA-sim's input files for a trace set", command_astra_sim},
    {"convert", "convert PyTorch traces or text workloads to Chakra traces", convert},
    {"convert-all", "convert all PyTorch traces of a folder", command_convert_all},
    {"diff", "compare two sets of Chakra execution traces", command_diff},
    {"doctor", "report what this build and this machine have and miss", doctor_program},
    {"expand", "replace the collectives of a set by messages; GOAL schedules", command_expand},
    {"export", "convert a recorded trace to a picture or another format", command_export},
    {"inference", "run a GPT or BERT and trace it", inference_program},
    {"json", "convert a Chakra execution trace to JSON, or back", command_json},
    {"link", "merge a PyTorch device trace into its host trace", command_link},
    {"pretrain", "train a GPT or BERT and trace a step", pretrain_program},
    {"repair", "rewrite a damaged PyTorch trace as valid JSON", command_repair},
    {"simulate", "simulate a set of Chakra execution traces", command_simulate},
    {"stamp", "write further ranks of a trace set that synth wrote", command_stamp},
    {"stat", "print statistics of Chakra execution traces", command_stat},
    {"synth", "write the Chakra traces of all ranks of a cluster", synth_program},
    {"tokenize", "print the tokens of a text, or the text of ids", command_tokenize},
    {"validate", "check Chakra execution traces for errors and deadlocks", command_validate},
    {"calibrate", "compare predicted with measured times, fit constants", calibrate_program},
    {"weights", "list the tensors of a checkpoint", command_weights},
    {"what-if", "simulate a set of Chakra traces with changed times", command_what_if},
};

static int usage(FILE *out, int code) {
    fprintf(out, "Usage: syntorch COMMAND [options]\n\nCommands:\n");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\n`syntorch COMMAND --help` describes a command.\n");
    return code;
}

/* Runs commands[i]. argv[0] becomes its name in messages. */
static int run_command(size_t i, const char *prefix, int argc, char **argv) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", prefix, commands[i].name);
    argv[0] = name;
    return commands[i].run(argc, argv);
}

int syntorch_program(int argc, char **argv) {
    /* A link to this program with the name of a command, with or without "syntorch-", runs the
       command. */
    const char *self = cli_base_name(argc > 0 ? argv[0] : "syntorch");
    const char *prefix = strncmp(self, "syntorch-", 9) == 0 ? "syntorch-" : "";
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(self + strlen(prefix), commands[i].name) == 0)
            return run_command(i, prefix, argc, argv);
    if (argc < 2) return usage(stderr, CLI_USAGE);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return usage(stdout, CLI_OK);
    if (strcmp(argv[1], "--version") == 0) {
        printf("syntorch %s\n", SYN_VERSION);
        return CLI_OK;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return run_command(i, "syntorch ", argc - 1, argv + 1);
    char name[CLI_SHOWN_BYTES];
    syn__nearest near = {NULL, 0};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        syn__nearest_try(&near, argv[1], commands[i].name);
    fprintf(stderr, "syntorch: unknown command '%s'%s%s%s (--help lists all)\n",
            cli_shown(argv[1], name, sizeof name), near.name ? "; did you mean " : "",
            near.name ? near.name : "", near.name ? "?" : "");
    return CLI_USAGE;
}
