/* The calibrate program: its options and entry point. */
#ifndef TOOLS_CALIBRATE_H
#define TOOLS_CALIBRATE_H

#include "tools/cli.h"

typedef struct calibrate_args {
    cli_texts rows, fix; /* CSV files with measured runs; names of constants that are not fitted */
    const char *hw, *rows_stack, *output, *predictions;
    bool check, json, measure;
    int64_t rounds; /* maximum iterations of a fit */
    int device;     /* for --measure; 0: CPU, 1: CUDA */
} calibrate_args;

extern calibrate_args calibrate_given; /* values of the program's options */
extern cli_program calibrate_cli;

/* The whole program. argv[0] is the name in its messages, such as "syntorch calibrate". Returns the
   exit code. It can be called again, but not concurrently. */
int calibrate_program(int argc, char **argv);

#endif
