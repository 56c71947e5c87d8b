/* What the op tests share: small tensors of doubles, written without looking at the kernels;
   tensors of a context that hold the same elements in every kind of layout; comparison. */
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

/* What the 16 bits of an f16 or bf16 mean, from the formats' definitions. Finite ones only. */
double ref_half(uint16_t bits, syn_dtype dtype);

/* Row-major values. 2-byte types hold their bit patterns as numbers: nothing tested
   computes in them. */
typedef struct ref {
    syn_spec spec;
    double v[REF_MAX];
} ref;

/* Random numbers; low and high are both included. Each thread has its own. */
extern _Thread_local uint64_t ref_state;
void ref_seed(uint64_t seed);
int64_t ref_int(int64_t low, int64_t high);
double ref_real(double low, double high);

syn_spec ref_spec(syn_dtype dtype, int rank, const int64_t *dims);

/* Dimensions of 1 are frequent, of 0 rare (and only when asked for). */
syn_spec ref_random_spec(syn_dtype dtype, int min_rank, int max_rank, bool zeros);

void ref_fill(ref *r, syn_spec spec, double low, double high);

/* Row-major position of an index and back. */
int64_t ref_at(const syn_spec *s, const int64_t *index);

void ref_index(const syn_spec *s, int64_t at, int64_t *index);

void ref_encode(int32_t dtype, double value, unsigned char *to);

/* An input with these elements, side by side. */
syn_tensor ref_dense(syn_ctx *ctx, const ref *r);

/* A view with these elements: an input with the dimensions in random order and longer by random
   margins, cut and permuted back. What lies between is NaN (or another number that shows), so that
   a kernel that reads beside the view gives itself away. */
syn_tensor ref_wild(syn_ctx *ctx, const ref *r);

/* Reads t and compares: shapes exactly, values to tol * (1 + |want|); says where they differ. */
bool ref_check(syn_ctx *ctx, syn_tensor t, const ref *want, double tol);

/* A group for rows alone: no communicator has it. */
extern const syn_group ref_pair;

syn_ctx *ref_ctx(syn_device device, syn_comm *comm);

syn_tensor ref_scalar(syn_ctx *ctx);

/* Nodes of an op in the trace so far. */
int ref_count(const syn_ctx *ctx, syn_op op);

/* An input of any contents: ZEROS(ctx, SYN_F32, 2, 3) */
#define ZEROS(ctx, dtype, ...)                            \
    ref_zeros(ctx, dtype, (const int64_t[]){__VA_ARGS__}, \
              (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
syn_tensor ref_zeros(syn_ctx *ctx, syn_dtype dtype, const int64_t *dims, int rank);

#endif
