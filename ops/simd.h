/* Selects the vector instructions of the CPU kernels. Each kernel family (ops/rows.h,
   ops/products.h, ops/attention.h) is compiled once per level, in files named *_scalar.c, *_avx2.c
   and *_avx512.c with the matching compiler flags. The level AVX512_BF16 adds only products of
   bf16. The scalar kernels document what the others compute, and tests compare against them. */
#ifndef OPS_SIMD_H
#define OPS_SIMD_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn_simd {
    SYN_SIMD_SCALAR,
    SYN_SIMD_AVX2,        /* with FMA and F16C */
    SYN_SIMD_AVX512,      /* F, BW, DQ and VL */
    SYN_SIMD_AVX512_BF16, /* adds bf16 products; otherwise the same as AVX512 */
    SYN_SIMD_COUNT
} syn_simd;

/* A family's symbol for a level: x_scalar, x_avx2 or x_avx512. */
#if defined(__x86_64__) && !defined(SYN_DOUBLE)
#define SYN__AT_LEVEL(x, level) \
    ((level) >= SYN_SIMD_AVX512 ? x##_avx512 : (level) == SYN_SIMD_AVX2 ? x##_avx2 : x##_scalar)
#else
#define SYN__AT_LEVEL(x, level) ((void)(level), x##_scalar)
#endif

const char *syn_simd_name(syn_simd level); /* "scalar", "avx2", "avx512", "avx512bf16" */
/* Whether this processor and this build support the level. */
bool syn_simd_supported(syn_simd level);
/* The highest supported level, or the supported level named by the environment variable
   SYNTORCH_SIMD. */
syn_simd syn_simd_level(void);
/* Whether bf16 dot-product instructions are faster than f32 FMAs on this processor. On Intel they
   are not: these processors issue one 512-bit bf16 dot product every other cycle but two f32 FMAs
   per cycle. There, products of 512 rows took 0.6 times as long when bf16 was widened to f32. */
bool syn_simd_bf16_dot_is_faster(void);

#ifdef __cplusplus
}
#endif
#endif
