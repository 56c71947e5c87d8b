/* Random programs of ops. A program depends only on its seed, so it records the same rows on every
   device and communicator. */
#ifndef TESTS_OPS_PROGRAM_H
#define TESTS_OPS_PROGRAM_H

#include "comm/comm.h"
#include "tests/support/ops_reference.h"

typedef struct program program;
struct program {
    syn_ctx *ctx;
    const syn_group *group; /* NULL: no communication */
    syn_tensor live[64];    /* f32 tensors that later ops may use */
    int n_live;             /* number of these tensors */
    /* Number of parameters so far, which makes their names unique. */
    int n_params;
    syn_tensor cache;                      /* current version of a cache of shape (2, 2, 8, 4) */
    uint64_t seed;                         /* seed for dropout and sampling */
    void (*between)(program *p, int step); /* called after each random step, if not NULL */
};

/* Records `length` random steps. */
void program_run(program *p, uint64_t seed, int length);

#endif
