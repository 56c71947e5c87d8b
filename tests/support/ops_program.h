/* Random programs of ops. A program only depends on its seed, so it has the same rows on every
   device and communicator. */
#ifndef TESTS_OPS_PROGRAM_H
#define TESTS_OPS_PROGRAM_H

#include "comm/comm.h"
#include "tests/support/ops_reference.h"

typedef struct program program;
struct program {
    syn_ctx *ctx;
    const syn_group *group; /* NULL: no communication */
    syn_tensor live[64];    /* f32 tensors made so far */
    int n_live;
    int n_params;                          /* made so far; the number ends a parameter's name */
    syn_tensor cache;                      /* current version, (2, 2, 8, 4) */
    uint64_t seed;                         /* seed for dropout and sampling */
    void (*between)(program *p, int step); /* called after each random step; NULL: nothing */
};

/* Records `length` random steps. */
void program_run(program *p, uint64_t seed, int length);

#endif
