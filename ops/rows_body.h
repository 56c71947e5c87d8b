/* The row kernels for the lanes of ops/lanes.h, included by rows_avx2.c and rows_avx512.c. The
   formulas are those of ops/rows_scalar.c but where it is said. */
#ifndef OPS_ROWS_BODY_H
#define OPS_ROWS_BODY_H

#include "ops/lanes_math.h"
#include "ops/rows.h"

#if SYN_LANES > 0
#include <math.h>

/* Steps through a row; load and store take what is left at the end through a mask. */
#define FOR_LANES(i, n) for (int64_t i = 0; i < (n); i += SYN_LANES)

LANE_FN bool whole(int64_t i, int64_t n) {
    return n - i >= SYN_LANES;
}

LANE_FN vec load(const float *p, int64_t i, int64_t n) {
    return whole(i, n) ? vec_load(p + i) : vec_load_mask(vec_first(n - i), p + i);
}

LANE_FN void store(float *p, int64_t i, int64_t n, vec x) {
    if (whole(i, n)) vec_store(p + i, x);
    else vec_store_mask(p + i, vec_first(n - i), x);
}

/* 0.5 (1 + tanh u) = 1 / (1 + exp(-2u)), which loses nothing where tanh u is near -1. */
LANE_FN vec gelu_tanh_lanes(vec x) {
    const vec slope = vec_fma(vec_mul(x, x), vec_set(-0.0713548162726f), vec_set(-1.59576912161f));
    return vec_div(x, vec_add(vec_set(1.0f), vec_exp(vec_mul(x, slope))));
}

LANE_FN vec gelu_erf_lanes(vec x) {
    const vec tail = vec_normal_tail(vec_abs(x));
    const vec_mask negative = vec_less(x, vec_set(0.0f));
    return vec_mul(x, vec_select(negative, tail, vec_sub(vec_set(1.0f), tail)));
}

#define UNARY_ROW(name, f)                                  \
    static void name(const float *x, float *y, int64_t n) { \
        FOR_LANES(i, n) store(y, i, n, f(load(x, i, n)));   \
    }
UNARY_ROW(row_gelu_tanh, gelu_tanh_lanes)
UNARY_ROW(row_gelu_erf, gelu_erf_lanes)
UNARY_ROW(row_tanh, vec_tanh)

#define BINARY_ROW(name, f)                                                 \
    static void name(const float *a, const float *b, float *y, int64_t n) { \
        FOR_LANES(i, n) store(y, i, n, f(load(a, i, n), load(b, i, n)));    \
    }
BINARY_ROW(row_add, vec_add)
BINARY_ROW(row_mul, vec_mul)

static void row_scale(const float *x, float factor, float *y, int64_t n) {
    FOR_LANES(i, n) store(y, i, n, vec_mul(load(x, i, n), vec_set(factor)));
}

static void row_scale_mask(const float *x, const float *mask, float factor, int64_t visible,
                           float *y, int64_t n) {
    const vec by = vec_set(factor), nothing = vec_set(-INFINITY);
    const int64_t seen = visible < 0 ? 0 : visible < n ? visible : n;
    if (mask) {
        FOR_LANES(i, seen)
        store(y, i, seen, vec_add(vec_mul(load(x, i, seen), by), load(mask, i, seen)));
    } else {
        FOR_LANES(i, seen) store(y, i, seen, vec_mul(load(x, i, seen), by));
    }
    FOR_LANES(i, n - seen) store(y + seen, i, n - seen, nothing);
}

/* The largest element, NaN aside. */
static float largest(const float *x, int64_t n) {
    vec a = vec_set(-INFINITY), b = a;
    int64_t i = 0;
    for (; i + 2 * SYN_LANES <= n; i += 2 * SYN_LANES) {
        a = vec_max(vec_load(x + i), a);
        b = vec_max(vec_load(x + i + SYN_LANES), b);
    }
    for (; i < n; i += SYN_LANES) {
        const vec_mask m = vec_first(whole(i, n) ? SYN_LANES : n - i);
        a = vec_max(vec_select(m, vec_load_mask(m, x + i), a), a);
    }
    return vec_largest(vec_max(a, b));
}

static void row_softmax(const float *x, float *y, int64_t n) {
    const float max = largest(x, n);
    if (max == -INFINITY) {
        syn__rows_scalar.softmax(x, y, n);
        return;
    }
    const vec top = vec_set(max);
    vec a = vec_set(0.0f), b = a;
    int64_t i = 0;
    for (; i + 2 * SYN_LANES <= n; i += 2 * SYN_LANES) {
        const vec e = vec_exp(vec_sub(vec_load(x + i), top));
        const vec f = vec_exp(vec_sub(vec_load(x + i + SYN_LANES), top));
        vec_store(y + i, e);
        vec_store(y + i + SYN_LANES, f);
        a = vec_add(a, e);
        b = vec_add(b, f);
    }
    for (; i < n; i += SYN_LANES) {
        const vec_mask m = vec_first(whole(i, n) ? SYN_LANES : n - i);
        const vec e = vec_exp(vec_sub(vec_load_mask(m, x + i), top));
        vec_store_mask(y + i, m, e);
        a = vec_add(a, vec_select(m, e, vec_set(0.0f)));
    }
    row_scale(y, 1.0f / vec_sum(vec_add(a, b)), y, n);
}

/* Sum of x - mean, or of its square; in double as in the scalar kernel. */
LANE_FN double moment(bool square, const float *x, int64_t n, double mean) {
    const vec_wide minus = wide_set(-mean);
    vec_wide sum[2] = {wide_set(0.0), wide_set(0.0)};
    int64_t i = 0;
    for (; whole(i, n); i += SYN_LANES) {
        const vec v = vec_load(x + i);
        const vec_wide half[2] = {wide_add(wide_of(vec_lower(v)), minus),
                                  wide_add(wide_of(vec_upper(v)), minus)};
        for (int j = 0; j < 2; j++)
            sum[j] = square ? wide_fma(half[j], half[j], sum[j]) : wide_add(sum[j], half[j]);
    }
    double rest = 0;
    for (; i < n; i++)
        rest += square ? ((double)x[i] - mean) * ((double)x[i] - mean) : (double)x[i] - mean;
    return wide_sum(wide_add(sum[0], sum[1])) + rest;
}

/* The mean is subtracted in two parts, so that a row far from zero keeps its digits. */
static void row_layernorm(const float *x, const float *weight, const float *bias, double eps,
                          float *y, int64_t n) {
    const double mean = moment(false, x, n, 0.0) / (double)n;
    const double variance = moment(true, x, n, mean) / (double)n;
    const vec most = vec_set((float)mean), rest = vec_set((float)(mean - (double)(float)mean));
    const vec inverse = vec_set((float)(1.0 / sqrt(variance + eps)));
    FOR_LANES(i, n) {
        const vec d = vec_sub(vec_sub(load(x, i, n), most), rest);
        store(y, i, n, vec_fma(vec_mul(d, inverse), load(weight, i, n), load(bias, i, n)));
    }
}
#endif

#endif
