/* Runs a computation on the CPU and on CUDA and compares the results. Used for sizes at which GPU
   kernels split work into blocks, packs and tiles; these are too large for the simple references of
   the op tests. */
#ifndef TESTS_BOTH_DEVICES_H
#define TESTS_BOTH_DEVICES_H

#include "ops/ops.h"

typedef struct both_run {
    syn_ctx *ctx;
    syn_tensor out[4]; /* tensors to compare */
    int n;
    double tol; /* allowed difference: tol * (1 + |CPU result|); 0: must be equal */
} both_run;

/* Computes run->out from inputs that it makes with the random numbers of ops_reference.h, which are
   the same on both devices. */
typedef void (*both_case)(both_run *run);

/* Whether both devices get the same results; prints the first difference. */
bool both_agree(both_case f, uint64_t seed);

/* A test of n rounds with different seeds. If the environment has SYN_TEST_FEW=1, runs a tenth of
   them. */
void both_rounds(both_case f, int n);

/* A dense input of random numbers from low to high (integers for i32). */
syn_tensor both_dense(syn_ctx *ctx, syn_spec spec, double low, double high);
/* The same in a random layout: dimensions in a different order, with margins around them, which are
   often 8 elements, so that packs are aligned. */
syn_tensor both_wild(syn_ctx *ctx, syn_spec spec, double low, double high);
/* Randomly f32, f16 or bf16. */
syn_dtype both_float(void);
/* A random size, at most `most`, often near the size of a tile, a warp or a pack. */
int64_t both_size(int64_t most);

#endif
