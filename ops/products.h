/* Matrix products of the CPU backend, of matrices of f32, f16 or bf16, shared by a pool of threads.
   Sums are f32. Few rows go through kernels of our own, which read the matrix once, as stored, and
   widen it in registers; many rows of f32 through OpenBLAS where the build has it. */
#ifndef OPS_PRODUCTS_H
#define OPS_PRODUCTS_H

#include "ops/simd.h"
#include "syntorch/base/types.h"
#include "syntorch/base/workers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out (m, n) = x (m, k) w (k, n) + bias. ld: elements from row to row as stored; out overlaps
   nothing else. k and ld at most INT32_MAX. */
typedef struct syn_product {
    int64_t m, n, k;
    const void *x;
    int64_t ldx;
    syn_dtype x_dtype; /* SYN_F32, SYN_F16 or SYN_BF16 */
    bool transpose_x;  /* x is stored (k, m) */
    const void *w;
    int64_t ldw;
    syn_dtype w_dtype; /* likewise; x_dtype unless that is SYN_F32 */
    bool transpose_w;  /* w is stored (n, k) */
    const void *bias;  /* (n) of x_dtype, or NULL */
    bool add;          /* to what `out` holds, f32; without a bias then */
    void *out;
    int64_t ldo;
    syn_dtype out_dtype; /* SYN_F32 or x_dtype: rounded once, to nearest */
} syn_product;

/* Without workers, a product that OpenBLAS has threads for (ops/blas.h) is left to it. The result
   is the same in every run with as many threads and the same level of ops/simd.h. */
void syn_product_run(const syn_product *p, syn_workers *workers);

/* Part i of `parts` of a product, which may be empty (m or n 0). The cut is a grid, so that the
   largest part is small and little of w is read twice. */
syn_product syn_product_part(const syn_product *p, int64_t i, int64_t parts);
/* Whether `count` such products are done before a second thread has woken up. */
bool syn_product_is_small(const syn_product *p, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
