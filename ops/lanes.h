/* A vector of f32 lanes and its operations. SYN_LANES is 16 (AVX-512) or 8 (AVX2), depending on the
   instructions that the including file is compiled for. If that file has neither, SYN_LANES is 0
   and nothing else is defined. Masked loads and stores do not access memory outside the mask. */
#ifndef OPS_LANES_H
#define OPS_LANES_H

#include "syntorch/base/types.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define SYN_LANES 16
#elif defined(__AVX2__) && defined(__FMA__)
#define SYN_LANES 8
#else
#define SYN_LANES 0
#endif

#if SYN_LANES > 0
#include <immintrin.h>

#define LANE_FN static inline __attribute__((always_inline, unused))
#if defined(__clang__)
#define LANE_UNROLL _Pragma("unroll")
#else
#define LANE_UNROLL _Pragma("GCC unroll 16")
#endif
#endif

#if SYN_LANES == 16
typedef __m512 vec;
typedef __mmask16 vec_mask;

LANE_FN vec vec_set(float x) {
    return _mm512_set1_ps(x);
}
LANE_FN vec vec_load(const float *p) {
    return _mm512_loadu_ps(p);
}
LANE_FN void vec_store(float *p, vec x) {
    _mm512_storeu_ps(p, x);
}
LANE_FN vec vec_add(vec a, vec b) {
    return _mm512_add_ps(a, b);
}
LANE_FN vec vec_sub(vec a, vec b) {
    return _mm512_sub_ps(a, b);
}
LANE_FN vec vec_mul(vec a, vec b) {
    return _mm512_mul_ps(a, b);
}
LANE_FN vec vec_div(vec a, vec b) {
    return _mm512_div_ps(a, b);
}
LANE_FN vec vec_sqrt(vec x) {
    return _mm512_sqrt_ps(x);
}
LANE_FN vec vec_fma(vec a, vec b, vec c) {
    return _mm512_fmadd_ps(a, b, c);
}
/* If a or b is NaN, vec_max and vec_min return b. */
LANE_FN vec vec_max(vec a, vec b) {
    return _mm512_max_ps(a, b);
}
LANE_FN vec vec_min(vec a, vec b) {
    return _mm512_min_ps(a, b);
}
LANE_FN vec vec_round(vec x) {
    return _mm512_cvtepi32_ps(_mm512_cvtps_epi32(x)); /* not roundscale, which makes gcc -O0 warn */
}
LANE_FN vec vec_abs(vec x) {
    return _mm512_andnot_ps(vec_set(-0.0f), x);
}
/* x with the sign of s; x must be >= 0 */
LANE_FN vec vec_with_sign(vec x, vec s) {
    return _mm512_or_ps(x, _mm512_and_ps(vec_set(-0.0f), s));
}
/* x 2^n for integral n in [-160, 160]; underflows and overflows correctly */
LANE_FN vec vec_power(vec x, vec n) {
    return _mm512_scalef_ps(x, n);
}
LANE_FN vec vec_lane_number(void) {
    return _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}
LANE_FN vec_mask vec_first(int64_t n) { /* mask of the first n lanes */
    return (vec_mask)((1u << n) - 1u);
}
LANE_FN vec_mask vec_less(vec a, vec b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
LANE_FN vec vec_select(vec_mask m, vec yes, vec no) {
    return _mm512_mask_blend_ps(m, no, yes);
}
LANE_FN vec vec_load_mask(vec_mask m, const float *p) { /* lanes outside the mask become 0 */
    return _mm512_maskz_loadu_ps(m, p);
}
LANE_FN void vec_store_mask(float *p, vec_mask m, vec x) {
    _mm512_mask_storeu_ps(p, m, x);
}
typedef __m512i vec_int; /* 32-bit lanes; sums and products wrap modulo 2^32 */
LANE_FN vec_int int_set(uint32_t x) {
    return _mm512_set1_epi32((int32_t)x);
}
LANE_FN vec_int int_load(const uint32_t *p) {
    return _mm512_loadu_si512(p);
}
LANE_FN vec_int int_lane_number(void) {
    return _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}
LANE_FN vec_int int_add(vec_int a, vec_int b) {
    return _mm512_add_epi32(a, b);
}
LANE_FN vec_int int_mul(vec_int a, vec_int b) {
    return _mm512_mullo_epi32(a, b);
}
LANE_FN vec_int int_xor(vec_int a, vec_int b) {
    return _mm512_xor_si512(a, b);
}
#define int_shift_right(x, bits) _mm512_srli_epi32(x, bits) /* logical shift */
LANE_FN vec_mask int_less(vec_int a, vec_int b) {           /* signed comparison */
    return _mm512_cmplt_epi32_mask(a, b);
}
/* Conversion from and to 16-bit floats, one per lane; rounds as syn_half_narrow does. */
LANE_FN vec vec_f16(const void *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
}
LANE_FN vec vec_bf16(const void *from) {
    const __m256i bits = _mm256_loadu_si256((const __m256i *)from);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
LANE_FN void vec_store_f16(void *to, vec x) {
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
LANE_FN void vec_store_bf16(void *to, vec x) {
    const __m512i bits = _mm512_castps_si512(x), half = _mm512_set1_epi32(0x7fff);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, half));
    const __m512i nan = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i rounded = _mm512_srli_epi32(_mm512_mask_mov_epi32(up, is_nan, nan), 16);
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtepi32_epi16(rounded));
}
typedef __m256 vec_half;
LANE_FN vec_half vec_upper(vec x) {
    return _mm512_extractf32x8_ps(x, 1);
}
LANE_FN vec_half vec_lower(vec x) {
    return _mm512_castps512_ps256(x);
}
/* Vectors of doubles, with half as many lanes. */
typedef __m512d vec_wide;
LANE_FN vec_wide wide_set(double x) {
    return _mm512_set1_pd(x);
}
LANE_FN vec_wide wide_of(vec_half x) {
    return _mm512_cvtps_pd(x);
}
LANE_FN vec_wide wide_add(vec_wide a, vec_wide b) {
    return _mm512_add_pd(a, b);
}
LANE_FN vec_wide wide_fma(vec_wide a, vec_wide b, vec_wide c) {
    return _mm512_fmadd_pd(a, b, c);
}
LANE_FN double wide_sum(vec_wide x) {
    return _mm512_reduce_add_pd(x);
}

#elif SYN_LANES == 8
typedef __m256 vec;
typedef __m256 vec_mask;

LANE_FN vec vec_set(float x) {
    return _mm256_set1_ps(x);
}
LANE_FN vec vec_load(const float *p) {
    return _mm256_loadu_ps(p);
}
LANE_FN void vec_store(float *p, vec x) {
    _mm256_storeu_ps(p, x);
}
LANE_FN vec vec_add(vec a, vec b) {
    return _mm256_add_ps(a, b);
}
LANE_FN vec vec_sub(vec a, vec b) {
    return _mm256_sub_ps(a, b);
}
LANE_FN vec vec_mul(vec a, vec b) {
    return _mm256_mul_ps(a, b);
}
LANE_FN vec vec_div(vec a, vec b) {
    return _mm256_div_ps(a, b);
}
LANE_FN vec vec_sqrt(vec x) {
    return _mm256_sqrt_ps(x);
}
LANE_FN vec vec_fma(vec a, vec b, vec c) {
    return _mm256_fmadd_ps(a, b, c);
}
LANE_FN vec vec_max(vec a, vec b) {
    return _mm256_max_ps(a, b);
}
LANE_FN vec vec_min(vec a, vec b) {
    return _mm256_min_ps(a, b);
}
LANE_FN vec vec_round(vec x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
LANE_FN vec vec_abs(vec x) {
    return _mm256_andnot_ps(vec_set(-0.0f), x);
}
LANE_FN vec vec_with_sign(vec x, vec s) {
    return _mm256_or_ps(x, _mm256_and_ps(vec_set(-0.0f), s));
}
LANE_FN vec vec_power(vec x, vec n) { /* in two steps, because 2^n alone may overflow */
    const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i rest = _mm256_add_epi32(_mm256_sub_epi32(whole, half), bias);
    const __m256i b = _mm256_slli_epi32(rest, 23);
    return vec_mul(vec_mul(x, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
}
LANE_FN vec vec_lane_number(void) {
    return _mm256_set_ps(7, 6, 5, 4, 3, 2, 1, 0);
}
LANE_FN vec_mask vec_less(vec a, vec b) {
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
LANE_FN vec_mask vec_first(int64_t n) {
    return vec_less(vec_lane_number(), vec_set((float)n));
}
LANE_FN vec vec_select(vec_mask m, vec yes, vec no) {
    return _mm256_blendv_ps(no, yes, m);
}
LANE_FN vec vec_load_mask(vec_mask m, const float *p) {
    return _mm256_maskload_ps(p, _mm256_castps_si256(m));
}
LANE_FN void vec_store_mask(float *p, vec_mask m, vec x) {
    _mm256_maskstore_ps(p, _mm256_castps_si256(m), x);
}
typedef __m256i vec_int;
LANE_FN vec_int int_set(uint32_t x) {
    return _mm256_set1_epi32((int32_t)x);
}
LANE_FN vec_int int_load(const uint32_t *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}
LANE_FN vec_int int_lane_number(void) {
    return _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
}
LANE_FN vec_int int_add(vec_int a, vec_int b) {
    return _mm256_add_epi32(a, b);
}
LANE_FN vec_int int_mul(vec_int a, vec_int b) {
    return _mm256_mullo_epi32(a, b);
}
LANE_FN vec_int int_xor(vec_int a, vec_int b) {
    return _mm256_xor_si256(a, b);
}
#define int_shift_right(x, bits) _mm256_srli_epi32(x, bits)
LANE_FN vec_mask int_less(vec_int a, vec_int b) {
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(b, a));
}
LANE_FN vec vec_f16(const void *from) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}
LANE_FN vec vec_bf16(const void *from) {
    const __m128i bits = _mm_loadu_si128((const __m128i *)from);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
LANE_FN void vec_store_f16(void *to, vec x) {
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
LANE_FN void vec_store_bf16(void *to, vec x) {
    const __m256i bits = _mm256_castps_si256(x), half = _mm256_set1_epi32(0x7fff);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, half));
    const __m256i nan = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i rounded = _mm256_srli_epi32(_mm256_blendv_epi8(up, nan, is_nan), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(rounded, rounded), 0x08);
    _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(packed));
}
typedef __m128 vec_half;
LANE_FN vec_half vec_upper(vec x) {
    return _mm256_extractf128_ps(x, 1);
}
LANE_FN vec_half vec_lower(vec x) {
    return _mm256_castps256_ps128(x);
}
typedef __m256d vec_wide;
LANE_FN vec_wide wide_set(double x) {
    return _mm256_set1_pd(x);
}
LANE_FN vec_wide wide_of(vec_half x) {
    return _mm256_cvtps_pd(x);
}
LANE_FN vec_wide wide_add(vec_wide a, vec_wide b) {
    return _mm256_add_pd(a, b);
}
LANE_FN vec_wide wide_fma(vec_wide a, vec_wide b, vec_wide c) {
    return _mm256_fmadd_pd(a, b, c);
}
LANE_FN double wide_sum(vec_wide x) {
    const __m128d y = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_add_sd(y, _mm_unpackhi_pd(y, y)));
}
#endif

#if SYN_LANES > 0
LANE_FN float vec_sum(vec x) {
#if SYN_LANES == 16
    const __m256 y = _mm256_add_ps(vec_lower(x), vec_upper(x));
#else
    const __m256 y = x;
#endif
    __m128 z = _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_add_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_add_ss(z, _mm_movehdup_ps(z)));
}

LANE_FN float vec_largest(vec x) {
#if SYN_LANES == 16
    const __m256 y = _mm256_max_ps(vec_lower(x), vec_upper(x));
#else
    const __m256 y = x;
#endif
    __m128 z = _mm_max_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1));
    z = _mm_max_ps(z, _mm_movehl_ps(z, z));
    return _mm_cvtss_f32(_mm_max_ss(z, _mm_movehdup_ps(z)));
}
#endif

#endif
