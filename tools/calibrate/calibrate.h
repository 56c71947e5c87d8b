/* The calibrate program: options, and what it prints. */
#ifndef TOOLS_CALIBRATE_H
#define TOOLS_CALIBRATE_H

#include "tools/cli.h"

typedef struct calibrate_args {
    cli_texts rows, fix;
    const char *hw, *rows_stack, *output, *predictions;
    bool check, json, measure;
    int64_t rounds;
    int device; /* of --measure; 0: the CPU, 1: CUDA */
} calibrate_args;

extern calibrate_args calibrate_given; /* the options' values */
extern cli_program calibrate_cli;

int calibrate_program(int argc, char **argv);

#endif
