/* Which vector instructions the CPU kernels use. The kernels of a family (ops/rows.h,
   ops/products.h) exist once for each level, in files *_scalar.c, *_avx2.c and *_avx512.c, the last
   two compiled for those instructions (a last level has products of bf16 alone); the scalar ones
   are the documentation and the oracle. */
#ifndef OPS_SIMD_H
#define OPS_SIMD_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn_simd {
    SYN_SIMD_SCALAR,
    SYN_SIMD_AVX2,        /* with FMA and F16C */
    SYN_SIMD_AVX512,      /* F, BW, DQ, VL */
    SYN_SIMD_AVX512_BF16, /* and products of bf16; all else as AVX512 */
    SYN_SIMD_COUNT
} syn_simd;

/* What a family has for a level: x_scalar, x_avx2 or x_avx512. */
#if defined(__x86_64__) && !defined(SYN_DOUBLE)
#define SYN__AT_LEVEL(x, level) \
    ((level) >= SYN_SIMD_AVX512 ? x##_avx512 : (level) == SYN_SIMD_AVX2 ? x##_avx2 : x##_scalar)
#else
#define SYN__AT_LEVEL(x, level) ((void)(level), x##_scalar)
#endif

const char *syn_simd_name(syn_simd level); /* "scalar", "avx2", "avx512", "avx512bf16" */
/* Whether this processor and this build can run it. */
bool syn_simd_runs(syn_simd level);
/* The widest level that runs here, or a lesser one that the environment
   variable SYNTORCH_SIMD names. */
syn_simd syn_simd_level(void);
/* Whether this processor multiplies pairs of bf16 faster than it does f32. Intel's do 512 bits of
   pairs every other cycle, and two of f32 in each: bf16 widened to f32 takes 0.6 of the time of
   pairs there, measured for products of 512 rows. */
bool syn_simd_pairs_pay(void);

#ifdef __cplusplus
}
#endif
#endif
