/* Kernels of matrix products, one set a level. For products.c, products_*.c and their tests. */
#ifndef OPS_PRODUCTS_PRIVATE_H
#define OPS_PRODUCTS_PRIVATE_H

#include "ops/products.h"

typedef struct syn__product_kernels {
    void (*product)(const syn_product *p); /* m, n, k > 0 */
    int64_t many_rows;                     /* of f32 from which on OpenBLAS is faster */
} syn__product_kernels;

/* Of a level that runs here (syn_simd_runs). */
const syn__product_kernels *syn__product_kernels_of(syn_simd level);
extern const syn__product_kernels syn__product_scalar, syn__product_avx2, syn__product_avx512;

/* The product with these kernels alone, on these threads; and as syn_product_run would at a level.
 */
void syn__product_own(const syn_product *p, const syn__product_kernels *kernels,
                      syn_workers *workers);
void syn__product_run_at(const syn_product *p, syn_simd level, syn_workers *workers);

#endif
