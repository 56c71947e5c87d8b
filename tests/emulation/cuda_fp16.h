/* The parts of NVIDIA's cuda_fp16.h that kernels use: the types, and conversions that round to
   nearest even. */
#ifndef TESTS_EMULATION_CUDA_FP16_H
#define TESTS_EMULATION_CUDA_FP16_H

#include "cuda_runtime.h"

struct __half {
    unsigned short bits;
};
struct alignas(4) __half2 {
    __half x, y;
};

static inline float __half2float(__half h) {
    const unsigned sign = (unsigned)(h.bits & 0x8000) << 16, exponent = h.bits >> 10 & 31;
    const unsigned fraction = h.bits & 0x3ff;
    if (exponent == 31) return emulated_bits<float>(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) {
        const float small = (float)fraction * 0x1p-24f;
        return sign ? -small : small;
    }
    return emulated_bits<float>(sign | (exponent + 112) << 23 | fraction << 13);
}
static inline __half __float2half_rn(float x) {
    const unsigned all = emulated_bits<unsigned>(x), sign = all >> 16 & 0x8000;
    const unsigned absolute = all & 0x7fffffff;
    unsigned bits;
    if (absolute > 0x7f800000u) bits = 0x7fff;
    else if (absolute >= 0x477ff000u) bits = 0x7c00; /* 65520 or more becomes infinity */
    /* Numbers below 2^-14 become multiples of 2^-24. */
    else if (absolute < 0x38800000u)
        bits = (unsigned)nearbyintf(emulated_bits<float>(absolute) * 0x1p24f);
    else bits = (absolute - 0x38000000u + 0xfff + (absolute >> 13 & 1)) >> 13;
    return {(unsigned short)(sign | bits)};
}
static inline __half __float2half(float x) {
    return __float2half_rn(x);
}
static inline unsigned short __half_as_ushort(__half h) {
    return h.bits;
}
static inline __half __ushort_as_half(unsigned short bits) {
    return {bits};
}
static inline __half2 __floats2half2_rn(float x, float y) {
    return {__float2half_rn(x), __float2half_rn(y)};
}
static inline float2 __half22float2(__half2 h) {
    return {__half2float(h.x), __half2float(h.y)};
}

#endif
