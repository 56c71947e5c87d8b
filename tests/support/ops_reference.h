/* Shared by the op tests: small reference tensors in double, independent of the kernels; tensors of
   a context with the same elements in any layout; comparison. */
#ifndef TESTS_OPS_REFERENCE_H
#define TESTS_OPS_REFERENCE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "syntorch/base/memory.h"
#include "tests/support/device.h"

#define REF_MAX 4096

/* The value of a finite f16 or bf16, from the definition of the formats. */
double ref_half(uint16_t bits, syn_dtype dtype);

/* Row-major values. Tensors with 2-byte dtypes store bit patterns as numbers, because the tested
   ops do not compute with them. */
typedef struct ref {
    syn_spec spec;
    double v[REF_MAX];
} ref;

/* Random numbers from low to high, both included. Each thread has its own state. */
extern _Thread_local uint64_t ref_state;
void ref_seed(uint64_t seed);
int64_t ref_int(int64_t low, int64_t high);
double ref_real(double low, double high);

syn_spec ref_spec(syn_dtype dtype, int rank, const int64_t *dims);

/* A random spec. Dimensions of 1 are frequent; dimensions of 0 are rare, and only with `zeros`. */
syn_spec ref_random_spec(syn_dtype dtype, int min_rank, int max_rank, bool zeros);

void ref_fill(ref *r, syn_spec spec, double low, double high);

/* Row-major position of an index and back. */
int64_t ref_at(const syn_spec *s, const int64_t *index);

void ref_index(const syn_spec *s, int64_t at, int64_t *index);

void ref_encode(int32_t dtype, double value, unsigned char *to);

/* A dense input with these elements. */
syn_tensor ref_dense(syn_ctx *ctx, const ref *r);

/* A view with these elements: an input with the dimensions in random order and with random margins,
   sliced and permuted back. The margins are NaN (or another conspicuous number), so that reads
   outside the view change the result. */
syn_tensor ref_wild(syn_ctx *ctx, const ref *r);

/* Reads t and compares it: shapes exactly, values with tolerance tol * (1 + |want|). Prints the
   first difference. */
bool ref_check(syn_ctx *ctx, syn_tensor t, const ref *want, double tol);

/* A group for rows without communication; no communicator has it. */
extern const syn_group ref_pair;

syn_ctx *ref_ctx(syn_device device, syn_comm *comm);

syn_tensor ref_scalar(syn_ctx *ctx);

/* Number of nodes of an op in the trace so far. */
int ref_count(const syn_ctx *ctx, syn_op op);

/* An input whose values do not matter: ZEROS(ctx, SYN_F32, 2, 3) */
#define ZEROS(ctx, dtype, ...)                            \
    ref_zeros(ctx, dtype, (const int64_t[]){__VA_ARGS__}, \
              (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
syn_tensor ref_zeros(syn_ctx *ctx, syn_dtype dtype, const int64_t *dims, int rank);

#endif
