/* Runs a computation on the CPU and on CUDA and compares the results. It is for sizes at which GPU
   kernels split work into blocks, packs and tiles. Such sizes are too large for the simple
   references of the op tests. */
#ifndef TESTS_BOTH_DEVICES_H
#define TESTS_BOTH_DEVICES_H

#include "ops/ops.h"

typedef struct both_run {
    syn_ctx *ctx;
    syn_tensor out[4]; /* tensors to compare */
    int n;             /* number of outputs */
    double tol;        /* allowed difference: tol * (1 + |CPU result|); 0: results must be equal */
} both_run;

/* A test case: creates inputs with the random numbers of ops_reference.h, which are the same on
   both devices, and computes run->out from them. */
typedef void (*both_case)(both_run *run);

/* Returns whether both devices give the same results. Prints the first difference. */
bool both_agree(both_case f, uint64_t seed);

/* Checks both_agree for n different seeds. If the environment has SYN_TEST_FEW=1, only for n / 10
   seeds. */
void both_rounds(both_case f, int n);

/* A dense input of random numbers from low to high (integers for i32). */
syn_tensor both_dense(syn_ctx *ctx, syn_spec spec, double low, double high);
/* The same in a random layout: dimensions in a different order, with margins around them. Margins
   are often 8 elements wide, so that packs are aligned. */
syn_tensor both_wild(syn_ctx *ctx, syn_spec spec, double low, double high);
/* One of f32, f16 and bf16, chosen randomly. */
syn_dtype both_float(void);
/* A random size, at most `most`, often near the size of a tile, a warp or a pack. */
int64_t both_size(int64_t most);

#endif
