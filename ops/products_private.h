/* Declares the kernels of matrix products, one per SIMD level. For products.c, the kernel files and
   tests. */
#ifndef OPS_PRODUCTS_PRIVATE_H
#define OPS_PRODUCTS_PRIVATE_H

#include "ops/products.h"

/* These kernels compute a whole product on the caller's thread. x, bias and out are f32, w is f32,
   f16 or bf16, add is false, and m, n, k > 0. */
void syn__product_scalar(const syn_product *p);
void syn__product_avx2(const syn_product *p);
void syn__product_avx512(const syn_product *p);

/* These kernels compute any product of many rows on the caller's thread; m, n, k > 0. `memory` has
   syn__packed_buffer_floats_*(p) floats, at most about half a million. The avx512bf16 version
   requires bf16 x and w, and uses bf16 dot products, which treat numbers below 2^-126 as 0. */
int64_t syn__packed_buffer_floats_avx512(const syn_product *p);
void syn__packed_avx512(const syn_product *p, float *memory);
int64_t syn__packed_buffer_floats_avx512bf16(const syn_product *p);
void syn__packed_avx512bf16(const syn_product *p, float *memory);
/* The same for one row of x and a w stored as (n, k), with add false. It needs no memory. */
void syn__pairs_avx512bf16(const syn_product *p);

/* Both compute a product at a supported level (syn_simd_supported). syn__product_run_own_kernels
   uses only the library's kernels. syn__product_run_at also uses OpenBLAS, where syn_product_run
   would at that level. */
void syn__product_run_own_kernels(const syn_product *p, syn_simd level, syn_workers *workers);
void syn__product_run_at(const syn_product *p, syn_simd level, syn_workers *workers);

#endif
