/* A computation on the CPU and on CUDA, compared: for sizes at which kernels of a GPU are cut into
   blocks, packs and tiles, which the plain references of the op tests do not reach. */
#ifndef TESTS_BOTH_DEVICES_H
#define TESTS_BOTH_DEVICES_H

#include "ops/ops.h"

typedef struct both_run {
    syn_ctx *ctx;
    syn_tensor out[4]; /* what is compared */
    int n;
    double tol; /* to tol * (1 + |of the CPU|); 0: the same */
} both_run;

/* Makes inputs from random numbers of ops_reference.h, which begin alike on both devices. */
typedef void (*both_case)(both_run *run);

/* Whether both devices find the same; says where not. */
bool both_agree(both_case f, uint64_t seed);

/* A test of n rounds, each with a seed of its own; SYN_TEST_FEW=1 in the environment: of a tenth of
   them. */
void both_rounds(both_case f, int n);

/* An input of random numbers from low to high (i32: whole ones), dense. */
syn_tensor both_dense(syn_ctx *ctx, syn_spec spec, double low, double high);
/* The same in a random layout: dimensions in another order, and margins about them, often of 8
   elements, so that packs fit. */
syn_tensor both_wild(syn_ctx *ctx, syn_spec spec, double low, double high);
/* f32, f16 or bf16. */
syn_dtype both_float(void);
/* Random, but often about the size of a tile, a warp or a pack; at most `most`. */
int64_t both_size(int64_t most);

#endif
