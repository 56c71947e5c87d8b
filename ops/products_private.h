/* Kernels of matrix products, one a level. For products.c, products_*.c and their tests. */
#ifndef OPS_PRODUCTS_PRIVATE_H
#define OPS_PRODUCTS_PRIVATE_H

#include "ops/products.h"

/* The whole product, of f32 but for w, and nothing to add to, on the caller's thread;
   m, n, k > 0. */
void syn__product_scalar(const syn_product *p);
void syn__product_avx2(const syn_product *p);
void syn__product_avx512(const syn_product *p);

/* Any product of many rows on the caller's thread; m, n, k > 0. room: floats of memory that it
   needs, at most about a third of a million. The second: x and w are bf16, by instructions that
   multiply pairs of them, which take numbers below 2^-126 for 0. */
int64_t syn__packed_room_avx512(const syn_product *p);
void syn__packed_avx512(const syn_product *p, float *memory);
int64_t syn__packed_room_avx512bf16(const syn_product *p);
void syn__packed_avx512bf16(const syn_product *p, float *memory);
/* The same for one row and w (n, k), with nothing to add to. */
void syn__pairs_avx512bf16(const syn_product *p);

/* With the kernel of a level that runs here (syn_simd_runs), on these threads; and what
   syn_product_run does at that level. */
void syn__product_own(const syn_product *p, syn_simd level, syn_workers *workers);
void syn__product_run_at(const syn_product *p, syn_simd level, syn_workers *workers);

#endif
