/* Implements comm_reference.h without the library's conversions and reductions. */
#include "tests/support/comm_reference.h"
#include "tests/support/random.h"

double reference_widen(uint16_t h, syn_dtype dtype) {
    const int fraction_bits = dtype == SYN_F16 ? 10 : 7, top = dtype == SYN_F16 ? 31 : 255;
    const int bias = top / 2, exponent = (h & 0x7fff) >> fraction_bits;
    const int fraction = h & ((1 << fraction_bits) - 1);
    const double sign = h & 0x8000 ? -1 : 1;
    if (exponent == top) return fraction ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

uint16_t reference_narrow(double v, syn_dtype dtype) {
    const int fraction_bits = dtype == SYN_F16 ? 10 : 7, top = dtype == SYN_F16 ? 31 : 255;
    const int bias = top / 2;
    const unsigned sign = signbit(v) ? 0x8000 : 0;
    if (isnan(v)) return (uint16_t)(sign | 0x7fff);
    if (v == 0) return (uint16_t)sign;
    int exponent = isinf(v) ? top : ilogb(v);
    if (exponent < 1 - bias) exponent = 1 - bias;
    /* Rounds only here, ties to even. */
    double units = nearbyint(ldexp(fabs(v), fraction_bits - exponent));
    if (units >= ldexp(1, fraction_bits + 1)) {
        units /= 2;
        exponent++;
    }
    if (exponent > bias) return (uint16_t)(sign | (unsigned)top << fraction_bits);
    const int hidden = 1 << fraction_bits, n = (int)units;
    if (n < hidden) return (uint16_t)(sign | (unsigned)n);
    return (uint16_t)(sign | (unsigned)(exponent + bias) << fraction_bits | (unsigned)(n - hidden));
}

void reference_fill(void *to, size_t n_elems, syn_dtype dtype, uint64_t seed) {
    uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
    for (size_t i = 0; i < n_elems; i++) {
        const uint64_t dice = random_u64(&state);
        const double v = (double)(int64_t)(dice >> 40) / 1048576.0 - 8;
        if (dtype == SYN_F32) ((float *)to)[i] = (float)v;
        if (dtype == SYN_F16 || dtype == SYN_BF16) ((uint16_t *)to)[i] = reference_narrow(v, dtype);
        if (dtype == SYN_I32) ((int32_t *)to)[i] = dice & 1 ? (int32_t)(dice >> 32) : (int32_t)v;
        if (dtype == SYN_I64) ((int64_t *)to)[i] = dice & 1 ? (int64_t)dice : (int64_t)v;
    }
}

static float reference_float(float a, float b, syn_reduce reduce) {
    if (reduce == SYN_REDUCE_MIN) return a < b ? a : b;
    if (reduce == SYN_REDUCE_MAX) return a > b ? a : b;
    return reduce == SYN_REDUCE_PROD ? a * b : a + b;
}

static uint64_t reference_integer(uint64_t a, uint64_t b, syn_reduce reduce) {
    if (reduce == SYN_REDUCE_MIN) return (int64_t)a < (int64_t)b ? a : b;
    if (reduce == SYN_REDUCE_MAX) return (int64_t)a > (int64_t)b ? a : b;
    return reduce == SYN_REDUCE_PROD ? a * b : a + b;
}

void reference_reduce(const void *const *ins, int32_t n_ins, size_t offset, void *out,
                      size_t n_elems, syn_dtype dtype, syn_reduce reduce) {
    for (size_t i = 0; i < n_elems; i++) {
        float f = 0;
        uint64_t u = 0;
        for (int32_t k = 0; k < n_ins; k++) {
            const size_t at = offset + i;
            float x = 0;
            uint64_t y = 0;
            if (dtype == SYN_F32) x = ((const float *)ins[k])[at];
            if (dtype == SYN_F16 || dtype == SYN_BF16)
                x = (float)reference_widen(((const uint16_t *)ins[k])[at], dtype);
            if (dtype == SYN_I32) y = (uint64_t)(int64_t)((const int32_t *)ins[k])[at];
            if (dtype == SYN_I64) y = ((const uint64_t *)ins[k])[at];
            f = k == 0 ? x : reference_float(f, x, reduce);
            u = k == 0 ? y : reference_integer(u, y, reduce);
        }
        if (reduce == SYN_REDUCE_AVG) {
            f /= (float)n_ins;
            u = (uint64_t)((int64_t)u / n_ins);
        }
        if (dtype == SYN_F32) ((float *)out)[i] = f;
        if (dtype == SYN_F16 || dtype == SYN_BF16)
            ((uint16_t *)out)[i] = reference_narrow((double)f, dtype);
        if (dtype == SYN_I32) ((uint32_t *)out)[i] = (uint32_t)u;
        if (dtype == SYN_I64) ((uint64_t *)out)[i] = u;
    }
}
