/* Random programs of collectives and messages, checked against a plain computation. */
#ifndef TESTS_COMM_PROGRAM_H
#define TESTS_COMM_PROGRAM_H

#include "syntorch/communicator.h"

/* A program is one list of operations of several groups and pairs of ranks, the same on all ranks.
   Each starts what is its own in an order of its own, but for what belongs to one group or to
   messages of one source, destination and tag; and blocks only where all before it was started, so
   that programs end. */
typedef struct comm_program {
    uint64_t seed;
    int n_steps;
    bool in_order; /* starts are in the list's order */
    bool any_sum;  /* floats may be added in any order: none are */
} comm_program;

/* For worlds of at most 8 ranks. Programs of a communicator have seeds of their own, which name
   their groups. */
syn_status comm_program_run(syn_comm *comm, const comm_program *program, syn_error *err);

#endif
