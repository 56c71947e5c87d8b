/* Random programs of collectives and messages, whose results are compared with a simple
   computation. */
#ifndef TESTS_COMM_PROGRAM_H
#define TESTS_COMM_PROGRAM_H

#include "syntorch/communicator.h"

/* A program is a list of operations of several groups and pairs of ranks, the same on all ranks.
   Each rank starts its operations in its own random order. Only operations of the same group, and
   messages with the same source, destination and tag, keep the list's order. A rank blocks only
   when it has started all earlier operations, so that programs always finish. */
typedef struct comm_program {
    uint64_t seed;
    int n_steps;
    bool in_order; /* all operations start in the list's order */
    bool any_sum;  /* the communicator may add floats in any order, so the program adds none */
} comm_program;

/* Runs a program; at most 8 ranks. Programs of the same communicator need different seeds, because
   the names of groups contain the seed. */
syn_status comm_program_run(syn_comm *comm, const comm_program *program, syn_error *err);

#endif
