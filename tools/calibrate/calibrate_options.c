/* Options and --help of calibrate. */
#include "tools/calibrate/calibrate.h"

calibrate_args calibrate_given = {.hw = "a100-80g+serving", .rounds = 60};

#define args calibrate_given

static const cli_option options[] = {
    {"rows", CLI_TEXTS, &args.rows, "FILE.csv",
     "measured times of GPT inference, training steps or collectives (docs/hardware.md)", 0, 0},
    {"hw", CLI_TEXT, &args.hw, "MACHINE[+STACK]", "hardware to check, or to start the fit from", 0,
     0},
    {"rows_stack", CLI_TEXT, &args.rows_stack, "NAME",
     "use only rows with this value in column stack; default: all rows", 0, 0},
    {"fix", CLI_TEXTS, &args.fix, "KEY",
     "keep these constants: launch_us, kernels.attention, ...; default: fit all constants of the "
     "stack that are not 0",
     0, 0},
    {"measure", CLI_FLAG, &args.measure, NULL,
     "measure this machine, which takes less than two minutes; nothing else should run. Over MPI: "
     "measure MPI's all-reduces and add them to the file --hw",
     0, 0},
    {"device", CLI_CHOICE, &args.device, "cpu|cuda",
     "device that --measure measures; cuda: the GPUs; links between nodes (with one GPU: all "
     "links) are copied from --hw",
     0, 0},
    {"check", CLI_FLAG, &args.check, NULL, "print the prediction errors of --hw without fitting", 0,
     0},
    {"rounds", CLI_INT, &args.rounds, "N", "maximum number of fit rounds", 1, 1000},
    {"predictions", CLI_TEXT, &args.predictions, "FILE.csv",
     "write line number, measured and predicted milliseconds of each row", 0, 0},
    CLI_JSON(&args.json),
    {"output", CLI_TEXT, &args.output, "FILE.json", "write the fitted or measured hardware file", 0,
     0},
    CLI_END};

static const char *const examples[] = {
    "syntorch calibrate --check --hw a100-80g+megatron --rows tests/measured/training_a100.csv",
    "syntorch calibrate --hw a100-80g+pytorch-eager --rows tests/measured/all_reduce_a100.csv",
    NULL};

cli_program calibrate_cli = {
    "syntorch calibrate",
    "Compares predicted with measured times for each row of CSV files and fits the constants of "
    "a\nstack to them. Prints the errors on the fitted rows and on rows left out of the fit.\nWith "
    "--measure it measures this machine instead.",
    options, examples, false};
