/* Kernels of matrix products, one a level. For products.c, products_*.c and their tests. */
#ifndef OPS_PRODUCTS_PRIVATE_H
#define OPS_PRODUCTS_PRIVATE_H

#include "ops/products.h"

/* The whole product, of f32 but for w, and nothing to add to, on the caller's thread;
   m, n, k > 0. */
void syn__product_scalar(const syn_product *p);
void syn__product_avx2(const syn_product *p);
void syn__product_avx512(const syn_product *p);

/* With the kernel of a level that runs here (syn_simd_runs), on these threads; and what
   syn_product_run does at that level. */
void syn__product_own(const syn_product *p, syn_simd level, syn_workers *workers);
void syn__product_run_at(const syn_product *p, syn_simd level, syn_workers *workers);

#endif
