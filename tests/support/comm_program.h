/* Random programs of collectives and messages. Every result is compared with a simple computation
   in one thread, so the programs test any communicator. */
#ifndef TESTS_COMM_PROGRAM_H
#define TESTS_COMM_PROGRAM_H

#include "syntorch/communicator.h"

/* A program is a list of operations of several groups and pairs of ranks. All ranks have the same
   list, but each rank starts its operations in its own random order. Only operations of the same
   group, and messages with the same source, destination and tag, are started in the order of the
   list. A rank blocks only after it has started all earlier operations of the list, so programs
   always finish. */
typedef struct comm_program {
    uint64_t seed;
    int n_steps;
    bool in_order; /* start all operations in the order of the list */
    /* The communicator may add floats in any order, so the program has no sums of floats. */
    bool any_sum;
} comm_program;

/* Runs a program on at most 8 ranks. Programs that use the same communicator need different seeds,
   because the names of groups contain the seed. */
syn_status comm_program_run(syn_comm *comm, const comm_program *program, syn_error *err);

#endif
