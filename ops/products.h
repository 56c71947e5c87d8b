/* Matrix products of the CPU backend: f32, f16 or bf16 matrices with f32 sums, computed by a pool
   of threads. Products with few rows use kernels of this library, which read the matrix once, as it
   is stored, and convert it in registers. Products with many f32 rows use packing kernels or
   OpenBLAS. */
#ifndef OPS_PRODUCTS_H
#define OPS_PRODUCTS_H

#include "ops/simd.h"
#include "syntorch/base/types.h"
#include "syntorch/base/workers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out (m, n) = x (m, k) w (k, n) + bias. ldx, ldw, ldo: row strides as stored, in elements. out
   must not overlap the other matrices. k and strides are at most INT32_MAX. */
typedef struct syn_product {
    int64_t m, n, k;
    const void *x;
    int64_t ldx;
    syn_dtype x_dtype; /* SYN_F32, SYN_F16 or SYN_BF16 */
    bool transpose_x;  /* x is stored as (k, m) */
    const void *w;
    int64_t ldw;
    syn_dtype w_dtype; /* the same as x_dtype; any of the three if x_dtype is SYN_F32 */
    bool transpose_w;  /* w is stored as (n, k) */
    const void *bias;  /* (n) of x_dtype, or NULL */
    bool add;          /* add to `out`, which is f32; bias is NULL then */
    void *out;
    int64_t ldo;
    syn_dtype out_dtype; /* SYN_F32 or x_dtype; results are rounded once, to nearest */
} syn_product;

/* Computes a product with the threads of `workers`. workers NULL: the caller's thread, or
   OpenBLAS's threads if it has several (ops/blas.h). The result is reproducible for the same
   number of threads and the same SIMD level. */
void syn_product_run(const syn_product *p, syn_workers *workers);

/* Part i of a product that is split into `parts` parts. A part may be empty (m or n is 0). The
   parts form a grid, which is chosen so that the largest part takes little time and little of w is
   read twice. */
syn_product syn_product_part(const syn_product *p, int64_t i, int64_t parts);
/* Whether `count` such products take less time than waking a second thread. */
bool syn_product_is_small(const syn_product *p, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
