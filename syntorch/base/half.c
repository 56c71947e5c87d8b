/* Conversion of 16-bit floats (half.h). Inner loops have a constant trip count, so that compilers
   vectorise them at any optimisation level. */
#include "syntorch/base/half.h"

#include <string.h>

#define LANES 16

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* binary16 has 5 exponent bits (bias 15) and 10 fraction bits; binary32 has 8 (bias 127) and 23.
   Infinities and NaN have all exponent bits set. Subnormals are converted by an exact
   subtraction. */
static float widen_f16(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000U) << 16;
    const uint32_t shifted = (uint32_t)(h & 0x7fffU) << 13;
    const uint32_t exponent = shifted & 0x0f800000U;
    const uint32_t normal = shifted + (112U << 23);
    const uint32_t special = shifted + (224U << 23);
    const uint32_t tiny = bits_of(float_of(shifted + (113U << 23)) - float_of(113U << 23));
    const uint32_t magnitude = exponent == 0x0f800000U ? special : (exponent == 0 ? tiny : normal);
    return float_of(sign | magnitude);
}

/* f16 values below 2^-14 are multiples of 2^-24. Adding 0.5 rounds an f32 value to such a multiple,
   because f32 values just above 0.5 are 2^-24 apart. Values of 65520 and above become infinity. */
static uint16_t narrow_f16(float f) {
    const uint32_t bits = bits_of(f);
    const uint32_t sign = bits >> 16 & 0x8000U;
    const uint32_t u = bits & 0x7fffffffU;
    const uint32_t normal = (u - (112U << 23) + 0xfffU + (u >> 13 & 1U)) >> 13;
    const uint32_t tiny = bits_of(float_of(u) + 0.5F) - (126U << 23);
    const uint32_t nan = 0x7e00U | (u >> 13 & 0x1ffU);
    const uint32_t finite = u < (113U << 23) ? tiny : normal;
    const uint32_t large = u > (255U << 23) ? nan : 0x7c00U;
    return (uint16_t)(sign | (u >= 0x477ff000U ? large : finite));
}

static float widen_bf16(uint16_t h) {
    return float_of((uint32_t)h << 16);
}

static uint16_t narrow_bf16(float f) {
    const uint32_t u = bits_of(f);
    const uint32_t rounded = (u + 0x7fffU + (u >> 16 & 1U)) >> 16;
    const uint32_t nan = u >> 16 | 0x40U;
    return (uint16_t)((u & 0x7fffffffU) > (255U << 23) ? nan : rounded);
}

#define DEFINE_MAP(NAME, FROM, TO, FUNCTION)                                    \
    static void NAME(const FROM *in, TO *out, size_t n) {                       \
        size_t i = 0;                                                           \
        for (; i + LANES <= n; i += LANES) {                                    \
            TO r[LANES];                                                        \
            for (int j = 0; j < LANES; j++) r[j] = FUNCTION(in[i + (size_t)j]); \
            memcpy(out + i, r, sizeof r);                                       \
        }                                                                       \
        for (; i < n; i++) out[i] = FUNCTION(in[i]);                            \
    }

DEFINE_MAP(widen_f16_block, uint16_t, float, widen_f16)
DEFINE_MAP(widen_bf16_block, uint16_t, float, widen_bf16)
DEFINE_MAP(narrow_f16_block, float, uint16_t, narrow_f16)
DEFINE_MAP(narrow_bf16_block, float, uint16_t, narrow_bf16)

void syn_half_widen(const uint16_t *in, float *out, size_t n_elems, syn_dtype dtype) {
    if (dtype == SYN_F16) widen_f16_block(in, out, n_elems);
    else widen_bf16_block(in, out, n_elems);
}

void syn_half_narrow(const float *in, uint16_t *out, size_t n_elems, syn_dtype dtype) {
    if (dtype == SYN_F16) narrow_f16_block(in, out, n_elems);
    else narrow_bf16_block(in, out, n_elems);
}
