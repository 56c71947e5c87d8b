/* The parts of NVIDIA's cuda_bf16.h that kernels use: the types, and conversions that round to
   nearest even. */
#ifndef TESTS_EMULATION_CUDA_BF16_H
#define TESTS_EMULATION_CUDA_BF16_H

#include "cuda_runtime.h"

struct __nv_bfloat16 {
    unsigned short bits;
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

static inline float __bfloat162float(__nv_bfloat16 b) {
    return emulated_bits<float>((unsigned)b.bits << 16);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float x) {
    const unsigned all = emulated_bits<unsigned>(x);
    if ((all & 0x7fffffff) > 0x7f800000u) return {0x7fff};
    return {(unsigned short)((all + 0x7fff + (all >> 16 & 1)) >> 16)};
}
static inline __nv_bfloat16 __float2bfloat16(float x) {
    return __float2bfloat16_rn(x);
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 b) {
    return b.bits;
}
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    return {bits};
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
static inline float2 __bfloat1622float2(__nv_bfloat162 b) {
    return {__bfloat162float(b.x), __bfloat162float(b.y)};
}

#endif
