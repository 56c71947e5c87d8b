/* Shared by the op tests: small reference tensors in double, which do not use the library's
   kernels; tensors of a context with the same elements in any layout; and comparison of both. */
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

/* The value of a finite f16 or bf16 number, by the definition of the formats. */
double ref_half(uint16_t bits, syn_dtype dtype);

/* A reference tensor with row-major values. If the dtype has 2 bytes, the values are the bit
   patterns as integers, because the ops tested with them only move data. */
typedef struct ref {
    syn_spec spec;
    double v[REF_MAX];
} ref;

/* State of the random numbers below, one per thread. ref_int and ref_real return numbers from low
   to high, both included. */
extern _Thread_local uint64_t ref_state;
void ref_seed(uint64_t seed);
int64_t ref_int(int64_t low, int64_t high);
double ref_real(double low, double high);

syn_spec ref_spec(syn_dtype dtype, int rank, const int64_t *dims);

/* A random spec. Many dimensions are 1. With `zeros`, a few are 0. */
syn_spec ref_random_spec(syn_dtype dtype, int min_rank, int max_rank, bool zeros);

/* Sets the spec and fills the values with random numbers (integers, except for f32). */
void ref_fill(ref *r, syn_spec spec, double low, double high);

/* ref_at returns the row-major position of an index, and ref_index the index of a position. */
int64_t ref_at(const syn_spec *s, const int64_t *index);

void ref_index(const syn_spec *s, int64_t at, int64_t *index);

/* Stores a value as one element of the dtype (16-bit floats: the value is the bit pattern). */
void ref_encode(int32_t dtype, double value, unsigned char *to);

/* A dense input with the elements of r. */
syn_tensor ref_dense(syn_ctx *ctx, const ref *r);

/* A view with the elements of r. Its storage is an input with the dimensions in random order and
   with random margins; the view slices and permutes it back. The margins are NaN (or another
   conspicuous number), so that reading outside the view changes the result. */
syn_tensor ref_wild(syn_ctx *ctx, const ref *r);

/* Reads t and compares it with `want`. Shapes must be equal, and values may differ by tol * (1 +
   |want|). Prints the first difference. */
bool ref_check(syn_ctx *ctx, syn_tensor t, const ref *want, double tol);

/* A group for recording rows of collectives without communication. No communicator has this
   group. */
extern const syn_group ref_pair;

syn_ctx *ref_ctx(syn_device device, syn_comm *comm);

syn_tensor ref_scalar(syn_ctx *ctx);

/* The number of nodes with this op in the trace. */
int ref_count(const syn_ctx *ctx, syn_op op);

/* An input of zeros, for ops whose values do not matter: ZEROS(ctx, SYN_F32, 2, 3) has shape (2,
   3). */
#define ZEROS(ctx, dtype, ...)                            \
    ref_zeros(ctx, dtype, (const int64_t[]){__VA_ARGS__}, \
              (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
syn_tensor ref_zeros(syn_ctx *ctx, syn_dtype dtype, const int64_t *dims, int rank);

#endif
