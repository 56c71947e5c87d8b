/* Options and --help of calibrate. */
#include "tools/calibrate/calibrate.h"

calibrate_args calibrate_given = {.hw = "a100-80g+serving", .rounds = 60};

#define args calibrate_given

static const cli_option options[] = {
    {"rows", CLI_TEXTS, &args.rows, "FILE.csv",
     "measured times: GPT inference, training steps or all-reduces (docs/hardware.md)", 0, 0},
    {"hw", CLI_TEXT, &args.hw, "MACHINE[+STACK]", "where the fit begins, and what is not fitted", 0,
     0},
    {"rows_stack", CLI_TEXT, &args.rows_stack, "NAME",
     "only rows with this in their column stack; default: all", 0, 0},
    {"fix", CLI_TEXTS, &args.fix, "KEY",
     "constants that stay as they are: launch_us, kernels.attention, ...; default: all of the "
     "stack that are not 0 are fitted",
     0, 0},
    {"measure", CLI_FLAG, &args.measure, NULL,
     "measure this machine, in less than two minutes in which nothing else should run; over MPI "
     "what MPI takes, for the file --hw",
     0, 0},
    {"device", CLI_CHOICE, &args.device, "cpu|cuda",
     "what --measure measures; cuda: the GPUs, with links to other nodes (of one GPU, all links) "
     "as "
     "--hw has them",
     0, 0},
    {"check", CLI_FLAG, &args.check, NULL, "fit nothing: print the errors of --hw", 0, 0},
    {"rounds", CLI_INT, &args.rounds, "N", "of the fit, at most", 1, 1000},
    {"predictions", CLI_TEXT, &args.predictions, "FILE.csv",
     "write each row's line, measured and predicted milliseconds", 0, 0},
    {"json", CLI_FLAG, &args.json, NULL, "print one JSON object, errors as fractions", 0, 0},
    {"output", CLI_TEXT, &args.output, "FILE.json", "write the fitted or measured hardware file", 0,
     0},
    CLI_END};

static const char *const examples[] = {
    "calibrate --check --hw a100-80g+megatron --rows tests/measured/training_a100.csv",
    "calibrate --hw a100-80g+pytorch-eager --rows tests/measured/all_reduce_a100.csv", NULL};

cli_program calibrate_cli = {
    "calibrate",
    "Compares predicted with measured times, row by row of CSV files, and fits the constants of a\n"
    "stack to them; prints errors on the rows it was fitted to, and on rows that were left out.\n"
    "With --measure it measures this machine instead.",
    options, examples, false};
