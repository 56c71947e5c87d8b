/* Kernels of matrix products, one per SIMD level. For products.c, the kernel files and tests. */
#ifndef OPS_PRODUCTS_PRIVATE_H
#define OPS_PRODUCTS_PRIVATE_H

#include "ops/products.h"

/* Compute a whole product on the caller's thread. x, bias and out are f32; w has any of the three
   dtypes; add is false; m, n, k > 0. */
void syn__product_scalar(const syn_product *p);
void syn__product_avx2(const syn_product *p);
void syn__product_avx512(const syn_product *p);

/* Compute any product of many rows on the caller's thread; m, n, k > 0. `memory` has
   syn__packed_room_*(p) floats, at most about a third of a million. The avx512bf16 version
   requires x and w in bf16 and uses bf16 dot products, which treat numbers below 2^-126 as 0. */
int64_t syn__packed_buffer_floats_avx512(const syn_product *p);
void syn__packed_avx512(const syn_product *p, float *memory);
int64_t syn__packed_buffer_floats_avx512bf16(const syn_product *p);
void syn__packed_avx512bf16(const syn_product *p, float *memory);
/* The same for one row of x and w stored as (n, k), with add false; needs no memory. */
void syn__pairs_avx512bf16(const syn_product *p);

/* syn__product_run_own_kernels uses the library's kernels of a supported level (syn_simd_supported)
   only. syn__product_run_at also uses OpenBLAS where syn_product_run would at that level. */
void syn__product_run_own_kernels(const syn_product *p, syn_simd level, syn_workers *workers);
void syn__product_run_at(const syn_product *p, syn_simd level, syn_workers *workers);

#endif
