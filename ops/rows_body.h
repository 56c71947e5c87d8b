/* Row kernels with SIMD lanes (ops/lanes.h), included by rows_avx2.c and rows_avx512.c. They use
   the formulas of ops/rows_scalar.c unless a comment says otherwise. */
#ifndef OPS_ROWS_BODY_H
#define OPS_ROWS_BODY_H

#include "ops/dropout_lanes.h"
#include "ops/lanes_math.h"
#include "ops/rows.h"

#if SYN_LANES > 0
#include <math.h>

/* Iterates over a row. load and store mask the lanes after the row's end. */
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

/* Uses 0.5 (1 + tanh u) = 1 / (1 + exp(-2u)), which loses no precision where tanh u is near -1. */
LANE_FN vec gelu_tanh_lanes(vec x) {
    const vec slope = vec_fma(vec_mul(x, x), vec_set(-0.0713548162726f), vec_set(-1.59576912161f));
    return vec_div(x, vec_add(vec_set(1.0f), vec_exp(vec_mul(x, slope))));
}

LANE_FN vec gelu_erf_lanes(vec x) {
    vec bell;
    const vec tail = vec_normal_tail(vec_abs(x), &bell);
    const vec_mask negative = vec_less(x, vec_set(0.0f));
    return vec_mul(x, vec_select(negative, tail, vec_sub(vec_set(1.0f), tail)));
}

/* The derivative s + x s (1 - s) 2u' with s = 0.5 (1 + tanh u). x is clamped to 16, beyond which
   the derivative is 0 or 1, because the square of a large x overflows. */
LANE_FN vec gelu_tanh_slope(vec x) {
    x = vec_min(vec_set(16.0f), vec_max(vec_set(-16.0f), x));
    const vec square = vec_mul(x, x), one = vec_set(1.0f);
    const vec minus_2u =
        vec_mul(x, vec_fma(square, vec_set(-0.0713548162726f), vec_set(-1.59576912161f)));
    const vec s = vec_div(one, vec_add(one, vec_exp(minus_2u)));
    const vec du = vec_fma(square, vec_set(0.214064448818f), vec_set(1.59576912161f));
    return vec_fma(vec_mul(vec_mul(x, s), vec_sub(one, s)), du, s);
}

LANE_FN vec gelu_erf_slope(vec x) {
    vec bell;
    const vec tail = vec_normal_tail(vec_abs(x), &bell);
    const vec_mask negative = vec_less(x, vec_set(0.0f));
    const vec below = vec_select(negative, tail, vec_sub(vec_set(1.0f), tail));
    return vec_fma(vec_mul(x, vec_set(0.398942280401f)), bell, below);
}

LANE_FN vec gelu_tanh_back(vec x, vec dy) {
    return vec_mul(dy, gelu_tanh_slope(x));
}

LANE_FN vec gelu_erf_back(vec x, vec dy) {
    return vec_mul(dy, gelu_erf_slope(x));
}

LANE_FN vec tanh_back(vec y, vec dy) {
    return vec_mul(dy, vec_sub(vec_set(1.0f), vec_mul(y, y)));
}

/* 1 / (1 + exp(-x)), computed with exp(-|x|), which cannot overflow. */
LANE_FN vec sigmoid_lanes(vec x) {
    const vec one = vec_set(1.0f), zero = vec_set(0.0f);
    const vec e = vec_exp(vec_sub(zero, vec_abs(x)));
    return vec_div(vec_select(vec_less(x, zero), e, one), vec_add(one, e));
}

LANE_FN vec silu_lanes(vec x) {
    return vec_mul(x, sigmoid_lanes(x));
}

LANE_FN vec silu_slope(vec x) {
    x = vec_min(vec_set(100.0f), vec_max(vec_set(-100.0f), x));
    const vec s = sigmoid_lanes(x);
    return vec_fma(vec_mul(x, s), vec_sub(vec_set(1.0f), s), s);
}

LANE_FN vec silu_back(vec x, vec dy) {
    return vec_mul(dy, silu_slope(x));
}

LANE_FN vec swiglu_lanes(vec gate, vec up) {
    return vec_mul(silu_lanes(gate), up);
}

#define UNARY_ROW(name, f)                                  \
    static void name(const float *x, float *y, int64_t n) { \
        FOR_LANES(i, n) store(y, i, n, f(load(x, i, n)));   \
    }
UNARY_ROW(row_gelu_tanh, gelu_tanh_lanes)
UNARY_ROW(row_gelu_erf, gelu_erf_lanes)
UNARY_ROW(row_tanh, vec_tanh)
UNARY_ROW(row_silu, silu_lanes)

LANE_FN vec relu_lanes(vec x) {
    return vec_max(vec_set(0.0f), x); /* NaN for NaN */
}
UNARY_ROW(row_relu, relu_lanes)

#define BINARY_ROW(name, f)                                                 \
    static void name(const float *a, const float *b, float *y, int64_t n) { \
        FOR_LANES(i, n) store(y, i, n, f(load(a, i, n), load(b, i, n)));    \
    }
BINARY_ROW(row_add, vec_add)
BINARY_ROW(row_mul, vec_mul)
BINARY_ROW(row_gelu_tanh_grad, gelu_tanh_back)
BINARY_ROW(row_gelu_erf_grad, gelu_erf_back)
BINARY_ROW(row_tanh_grad, tanh_back)
BINARY_ROW(row_silu_grad, silu_back)
BINARY_ROW(row_swiglu, swiglu_lanes)

static void row_swiglu_grad(const float *gate, const float *up, const float *dy, float *dgate,
                            float *dup, int64_t n) {
    FOR_LANES(i, n) {
        const vec g = load(gate, i, n), d = load(dy, i, n), du = vec_mul(d, silu_lanes(g));
        store(dgate, i, n, vec_mul(vec_mul(d, load(up, i, n)), silu_slope(g)));
        store(dup, i, n, du);
    }
}

static void row_swiglu_clamped(const float *gate, const float *up, float alpha, float limit,
                               float *y, int64_t n) {
    const vec most = vec_set(limit), least = vec_set(-limit), one = vec_set(1.0f);
    FOR_LANES(i, n) {
        const vec g = vec_min(most, load(gate, i, n));
        const vec u = vec_max(least, vec_min(most, load(up, i, n)));
        const vec s = sigmoid_lanes(vec_mul(g, vec_set(alpha)));
        store(y, i, n, vec_mul(vec_add(u, one), vec_mul(g, s)));
    }
}

static void row_swiglu_clamped_grad(const float *gate, const float *up, const float *dy,
                                    float alpha, float limit, float *dgate, float *dup, int64_t n) {
    const vec most = vec_set(limit), least = vec_set(-limit), one = vec_set(1.0f);
    const vec zero = vec_set(0.0f);
    FOR_LANES(i, n) {
        const vec a = load(gate, i, n), b = load(up, i, n), d = load(dy, i, n);
        const vec g = vec_min(most, a), u = vec_max(least, vec_min(most, b));
        const vec z = vec_mul(g, vec_set(alpha)), du = vec_mul(d, vec_mul(g, sigmoid_lanes(z)));
        const vec dg = vec_mul(vec_mul(d, vec_add(u, one)), silu_slope(z));
        store(dgate, i, n, vec_select(vec_less(most, a), zero, dg));
        store(dup, i, n, vec_select(vec_less(most, vec_abs(b)), zero, du));
    }
}

static void row_scale(const float *x, float factor, float *y, int64_t n) {
    FOR_LANES(i, n) store(y, i, n, vec_mul(load(x, i, n), vec_set(factor)));
}

static void row_dropout(const float *x, const syn_dropout_row *how, uint32_t column, float *y,
                        int64_t n) {
    const vec keep = vec_set(how->keep), zero = vec_set(0.0f);
    FOR_LANES(i, n) {
        const vec_mask drops = vec_drops(how, column + (uint32_t)i);
        store(y, i, n, vec_select(drops, zero, vec_mul(load(x, i, n), keep)));
    }
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

/* The largest element, ignoring NaN. */
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

/* Sets y = exp(x - max) and returns the sum of y. */
LANE_FN float exponentials(const float *x, float max, float *y, int64_t n) {
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
    return vec_sum(vec_add(a, b));
}

static void row_softmax(const float *x, float *y, int64_t n) {
    const float max = largest(x, n);
    if (max == -INFINITY) syn__rows_scalar.softmax(x, y, n);
    else row_scale(y, 1.0f / exponentials(x, max, y, n), y, n);
}

static void row_exp_sum(const float *x, float *max, float *sum, int64_t n) {
    const float top = *max = largest(x, n);
    const vec shift = vec_set(top);
    vec a = vec_set(0.0f), b = a;
    int64_t i = 0;
    for (; i + 2 * SYN_LANES <= n; i += 2 * SYN_LANES) {
        a = vec_add(a, vec_exp(vec_sub(vec_load(x + i), shift)));
        b = vec_add(b, vec_exp(vec_sub(vec_load(x + i + SYN_LANES), shift)));
    }
    for (; i < n; i += SYN_LANES) {
        const vec_mask m = vec_first(whole(i, n) ? SYN_LANES : n - i);
        const vec e = vec_exp(vec_sub(vec_load_mask(m, x + i), shift));
        a = vec_add(a, vec_select(m, e, vec_set(0.0f)));
    }
    *sum = vec_sum(vec_add(a, b));
}

static void row_exp_scale(const float *x, float shift, float scale, float *y, int64_t n) {
    const vec minus = vec_set(-shift), by = vec_set(scale);
    FOR_LANES(i, n) store(y, i, n, vec_mul(by, vec_exp(vec_add(load(x, i, n), minus))));
}

static void row_softmax_log(const float *x, float scale, float *log_sum, float *y, int64_t n) {
    const float max = largest(x, n);
    const float sum = exponentials(x, max, y, n);
    row_scale(y, scale / sum, y, n);
    *log_sum = max + logf(sum);
}

static void row_softmax_grad(const float *y, const float *dy, float *dx, int64_t n) {
    vec sum = vec_set(0.0f);
    FOR_LANES(i, n) sum = vec_fma(load(y, i, n), load(dy, i, n), sum);
    const vec dot = vec_set(vec_sum(sum));
    FOR_LANES(i, n) store(dx, i, n, vec_mul(load(y, i, n), vec_sub(load(dy, i, n), dot)));
}

/* The sum of x - mean, or of its squares, in double like the scalar kernel. */
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

/* Subtracts the mean in two parts, so that rows whose mean is far from zero keep their
   precision. */
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

/* Sums are float here, because their terms are near zero on average. */
static void row_layernorm_grad(const float *x, const float *weight, const float *dy, double eps,
                               float *dx, float *dweight, float *dbias, int64_t n) {
    const double mean = moment(false, x, n, 0.0) / (double)n;
    const double variance = moment(true, x, n, mean) / (double)n;
    const vec most = vec_set((float)mean), rest = vec_set((float)(mean - (double)(float)mean));
    const vec inverse = vec_set((float)(1.0 / sqrt(variance + eps)));
    vec g = vec_set(0.0f), gx = g;
    FOR_LANES(i, n) {
        const vec h = vec_mul(vec_sub(vec_sub(load(x, i, n), most), rest), inverse);
        const vec d = load(dy, i, n), w = vec_mul(d, load(weight, i, n));
        g = vec_add(g, w);
        gx = vec_fma(w, h, gx);
        store(dweight, i, n, vec_fma(d, h, load(dweight, i, n)));
        store(dbias, i, n, vec_add(d, load(dbias, i, n)));
    }
    const vec mean_g = vec_set(vec_sum(g) / (float)n), mean_gx = vec_set(vec_sum(gx) / (float)n);
    FOR_LANES(i, n) {
        const vec h = vec_mul(vec_sub(vec_sub(load(x, i, n), most), rest), inverse);
        const vec w = vec_mul(load(dy, i, n), load(weight, i, n));
        store(dx, i, n, vec_mul(inverse, vec_sub(vec_sub(w, mean_g), vec_mul(h, mean_gx))));
    }
}

static void row_rmsnorm(const float *x, const float *weight, double eps, float *y, int64_t n) {
    const double squares = moment(true, x, n, 0.0) / (double)n;
    const vec inverse = vec_set((float)(1.0 / sqrt(squares + eps)));
    FOR_LANES(i, n)
    store(y, i, n, vec_mul(vec_mul(load(x, i, n), inverse), load(weight, i, n)));
}

static void row_rmsnorm_grad(const float *x, const float *weight, const float *dy, double eps,
                             float *dx, float *dweight, int64_t n) {
    const double squares = moment(true, x, n, 0.0) / (double)n;
    const vec inverse = vec_set((float)(1.0 / sqrt(squares + eps)));
    vec gx = vec_set(0.0f);
    FOR_LANES(i, n) {
        const vec h = vec_mul(load(x, i, n), inverse), d = load(dy, i, n);
        gx = vec_fma(vec_mul(d, load(weight, i, n)), h, gx);
        store(dweight, i, n, vec_fma(d, h, load(dweight, i, n)));
    }
    const vec mean_gx = vec_set(vec_sum(gx) / (float)n);
    FOR_LANES(i, n) {
        const vec h = vec_mul(load(x, i, n), inverse);
        const vec w = vec_mul(load(dy, i, n), load(weight, i, n));
        store(dx, i, n, vec_mul(inverse, vec_sub(w, vec_mul(h, mean_gx))));
    }
}

static void row_angles(const float *frequencies, float position, float factor, float sine_factor,
                       float *cosines, float *sines, int64_t n) {
    const vec at = vec_set(position);
    FOR_LANES(i, n) {
        vec cosine;
        const vec sine = vec_sine(vec_mul(load(frequencies, i, n), at), &cosine);
        store(cosines, i, n, vec_mul(vec_set(factor), cosine));
        store(sines, i, n, vec_mul(vec_set(sine_factor), sine));
    }
}

static void row_rotate(const float *x, const float *cosines, const float *sines, float *y,
                       int64_t n) {
    FOR_LANES(i, n) {
        const vec a = load(x, i, n), b = load(x + n, i, n);
        const vec c = load(cosines, i, n), s = load(sines, i, n);
        store(y, i, n, vec_sub(vec_mul(a, c), vec_mul(b, s)));
        store(y + n, i, n, vec_add(vec_mul(b, c), vec_mul(a, s)));
    }
}

static void row_square_sum(const float *x, double *sum, int64_t n) {
    enum { BLOCK = 64 * SYN_LANES };
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t some = n - at < BLOCK ? n - at : BLOCK;
        vec a = vec_set(0.0f), b = a;
        int64_t i = 0;
        for (; i + 2 * SYN_LANES <= some; i += 2 * SYN_LANES) {
            const vec c = vec_load(x + at + i), d = vec_load(x + at + i + SYN_LANES);
            a = vec_fma(c, c, a);
            b = vec_fma(d, d, b);
        }
        for (; i < some; i += SYN_LANES) {
            const vec c = load(x + at, i, some);
            a = vec_fma(c, c, a);
        }
        *sum += (double)vec_sum(vec_add(a, b));
    }
}

static void row_adamw(float *p, float *m, float *v, const float *g, const syn_adamw *how,
                      int64_t n) {
    const vec scale = vec_set(how->scale), beta1 = vec_set(how->beta1), beta2 = vec_set(how->beta2);
    const vec rest1 = vec_set(how->rest1), rest2 = vec_set(how->rest2);
    const vec eps = vec_set(how->eps), root = vec_set(how->root), shrink = vec_set(how->shrink);
    const vec rate = vec_set(-how->rate);
    FOR_LANES(i, n) {
        const vec d = vec_mul(scale, load(g, i, n));
        const vec first = vec_fma(beta1, load(m, i, n), vec_mul(rest1, d));
        const vec second = vec_fma(beta2, load(v, i, n), vec_mul(rest2, vec_mul(d, d)));
        const vec by = vec_fma(root, vec_sqrt(second), eps);
        store(m, i, n, first);
        store(v, i, n, second);
        store(p, i, n, vec_fma(vec_div(first, by), rate, vec_mul(shrink, load(p, i, n))));
    }
}

static void row_widen(const uint16_t *x, syn_dtype dtype, float *y, int64_t n) {
    const int64_t most = n - n % SYN_LANES;
    if (dtype == SYN_F16)
        for (int64_t i = 0; i < most; i += SYN_LANES) vec_store(y + i, vec_f16(x + i));
    else
        for (int64_t i = 0; i < most; i += SYN_LANES) vec_store(y + i, vec_bf16(x + i));
    syn__rows_scalar.widen(x + most, dtype, y + most, n - most);
}

static void row_narrow(const float *x, syn_dtype dtype, uint16_t *y, int64_t n) {
    const int64_t most = n - n % SYN_LANES;
    if (dtype == SYN_F16)
        for (int64_t i = 0; i < most; i += SYN_LANES) vec_store_f16(y + i, vec_load(x + i));
    else
        for (int64_t i = 0; i < most; i += SYN_LANES) vec_store_bf16(y + i, vec_load(x + i));
    syn__rows_scalar.narrow(x + most, dtype, y + most, n - most);
}
#endif

#endif
