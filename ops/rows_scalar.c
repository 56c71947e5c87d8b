/* Row kernels written like their definitions. They document what the SIMD kernels compute and
   serve as their test reference. */
#include <math.h>

#include "ops/rows.h"
#include "syntorch/base/half.h"

static void row_gelu_tanh(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        y[i] =
            0.5f * x[i] * (1.0f + tanhf(0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}

static void row_gelu_erf(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.7071067812f));
}

static void row_relu(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] < 0 ? 0 : x[i];
}

static void row_tanh(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = tanhf(x[i]);
}

/* The derivative of 0.5 x (1 + tanh u) with u = sqrt(2 / pi) (x + 0.044715 x^3). x is clamped to
   16, beyond which the derivative is 0 or 1, because the square of a large x overflows. */
static void row_gelu_tanh_grad(const float *x, const float *dy, float *dx, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i] > 16 ? 16 : x[i] < -16 ? -16 : x[i];
        const float t = tanhf(0.7978845608f * (v + 0.044715f * v * v * v));
        const float du = 0.7978845608f * (1.0f + 0.134145f * v * v);
        dx[i] = dy[i] * (0.5f * (1.0f + t) + 0.5f * v * (1.0f - t * t) * du);
    }
}

static void row_gelu_erf_grad(const float *x, const float *dy, float *dx, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        dx[i] = dy[i] * (0.5f * (1.0f + erff(x[i] * 0.7071067812f)) +
                         x[i] * 0.3989422804f * expf(-0.5f * x[i] * x[i]));
}

static void row_tanh_grad(const float *y, const float *dy, float *dx, int64_t n) {
    for (int64_t i = 0; i < n; i++) dx[i] = dy[i] * (1.0f - y[i] * y[i]);
}

static void row_softmax_grad(const float *y, const float *dy, float *dx, int64_t n) {
    double dot = 0;
    for (int64_t i = 0; i < n; i++) dot += (double)y[i] * (double)dy[i];
    for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - (float)dot);
}

static void row_exp_sum(const float *x, float *max, float *sum, int64_t n) {
    double all = 0;
    *max = -INFINITY;
    for (int64_t i = 0; i < n; i++) *max = x[i] > *max ? x[i] : *max;
    for (int64_t i = 0; i < n; i++) all += (double)expf(x[i] - *max);
    *sum = (float)all;
}

static void row_exp_scale(const float *x, float shift, float scale, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = scale * expf(x[i] - shift);
}

static void row_softmax_log(const float *x, float scale, float *log_sum, float *y, int64_t n) {
    float max = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    for (int64_t i = 0; i < n; i++) {
        y[i] = expf(x[i] - max);
        sum += (double)y[i];
    }
    for (int64_t i = 0; i < n; i++) y[i] *= (float)((double)scale / sum);
    *log_sum = (float)((double)max + log(sum));
}

static float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

static void row_silu(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * sigmoid(x[i]);
}

/* The derivative of x * sigmoid(x). x is clamped to 100, beyond which the derivative is 0 or 1. */
static float silu_slope(float x) {
    x = x > 100 ? 100 : x < -100 ? -100 : x;
    const float s = sigmoid(x);
    return s + x * s * (1.0f - s);
}

static void row_silu_grad(const float *x, const float *dy, float *dx, int64_t n) {
    for (int64_t i = 0; i < n; i++) dx[i] = dy[i] * silu_slope(x[i]);
}

static void row_swiglu(const float *gate, const float *up, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

static void row_swiglu_grad(const float *gate, const float *up, const float *dy, float *dgate,
                            float *dup, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float g = gate[i], d = dy[i];
        dgate[i] = d * up[i] * silu_slope(g);
        dup[i] = d * (g * sigmoid(g));
    }
}

static float at_most(float x, float limit) {
    return x > limit ? limit : x;
}

static float clamped(float x, float limit) {
    return x < -limit ? -limit : at_most(x, limit);
}

static void row_swiglu_clamped(const float *gate, const float *up, float alpha, float limit,
                               float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float g = at_most(gate[i], limit);
        y[i] = (clamped(up[i], limit) + 1) * (g * sigmoid(alpha * g));
    }
}

/* The derivative of g sigmoid(alpha g) is that of silu at alpha g. */
static void row_swiglu_clamped_grad(const float *gate, const float *up, const float *dy,
                                    float alpha, float limit, float *dgate, float *dup, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float g = at_most(gate[i], limit), u = clamped(up[i], limit), d = dy[i];
        dgate[i] = gate[i] > limit ? 0 : d * (u + 1) * silu_slope(alpha * g);
        dup[i] = up[i] > limit || up[i] < -limit ? 0 : d * (g * sigmoid(alpha * g));
    }
}

/* A row that is all -infinity gives zeros; a NaN spreads to its whole row. */
static void row_softmax(const float *x, float *y, int64_t n) {
    float max = -INFINITY, sum = 0, nan = 0;
    for (int64_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    if (max == -INFINITY) {
        for (int64_t i = 0; i < n; i++) nan = isnan(x[i]) ? x[i] : nan;
        for (int64_t i = 0; i < n; i++) y[i] = nan;
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[i] == -INFINITY ? 0.0f : expf(x[i] - max);
        sum += y[i];
    }
    const float inverse = 1.0f / sum;
    for (int64_t i = 0; i < n; i++) y[i] *= inverse;
}

static void row_add(const float *a, const float *b, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

static void row_mul(const float *a, const float *b, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = a[i] * b[i];
}

static void row_scale(const float *x, float factor, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * factor;
}

static void row_dropout(const float *x, const syn_dropout_row *how, uint32_t column, float *y,
                        int64_t n) {
    for (int64_t i = 0; i < n; i++)
        y[i] = syn__drops(how, column + (uint32_t)i) ? 0.0f : x[i] * how->keep;
}

static void row_scale_mask(const float *x, const float *mask, float factor, int64_t visible,
                           float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        y[i] = i >= visible ? -INFINITY : mask ? x[i] * factor + mask[i] : x[i] * factor;
}

/* Sums in double: in float, the mean of a wide row far from zero would lose half its digits. */
static void row_layernorm(const float *x, const float *weight, const float *bias, double eps,
                          float *y, int64_t n) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    const double mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    const double inverse = 1.0 / sqrt(squares / (double)n + eps);
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(((double)x[i] - mean) * inverse) * weight[i] + bias[i];
}

/* With x^ = (x - mean) / deviation and g = dy weight: dx = (g - mean(g) - x^ mean(g x^)) /
   deviation (Ba et al. 2016). */
static void row_layernorm_grad(const float *x, const float *weight, const float *dy, double eps,
                               float *dx, float *dweight, float *dbias, int64_t n) {
    double sum = 0, squares = 0, g = 0, gx = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    const double mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    const double inverse = 1.0 / sqrt(squares / (double)n + eps);
    for (int64_t i = 0; i < n; i++) {
        const double w = (double)dy[i] * (double)weight[i];
        g += w / (double)n;
        gx += w * ((double)x[i] - mean) * inverse / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        const double h = ((double)x[i] - mean) * inverse;
        dweight[i] += (float)((double)dy[i] * h);
        dbias[i] += dy[i];
        dx[i] = (float)(((double)dy[i] * (double)weight[i] - g - h * gx) * inverse);
    }
}

/* x / sqrt(mean(x^2) + eps) * weight (Zhang and Sennrich 2019). */
static void row_rmsnorm(const float *x, const float *weight, double eps, float *y, int64_t n) {
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    const double inverse = 1.0 / sqrt(squares / (double)n + eps);
    for (int64_t i = 0; i < n; i++) y[i] = (float)((double)x[i] * inverse) * weight[i];
}

/* With x^ = x / root and g = dy weight: dx = (g - x^ mean(g x^)) / root. */
static void row_rmsnorm_grad(const float *x, const float *weight, const float *dy, double eps,
                             float *dx, float *dweight, int64_t n) {
    double squares = 0, gx = 0;
    for (int64_t i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    const double inverse = 1.0 / sqrt(squares / (double)n + eps);
    for (int64_t i = 0; i < n; i++)
        gx += (double)dy[i] * (double)weight[i] * (double)x[i] * inverse / (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double h = (double)x[i] * inverse, g = (double)dy[i] * (double)weight[i];
        dweight[i] += (float)((double)dy[i] * h);
        dx[i] = (float)((g - h * gx) * inverse);
    }
}

static void row_angles(const float *frequencies, float position, float factor, float sine_factor,
                       float *cosines, float *sines, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float angle = frequencies[i] * position;
        cosines[i] = factor * (float)cos((double)angle);
        sines[i] = sine_factor * (float)sin((double)angle);
    }
}

static void row_rotate(const float *x, const float *cosines, const float *sines, float *y,
                       int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float a = x[i], b = x[n + i];
        y[i] = a * cosines[i] - b * sines[i];
        y[n + i] = b * cosines[i] + a * sines[i];
    }
}

static void row_square_sum(const float *x, double *sum, int64_t n) {
    for (int64_t i = 0; i < n; i++) *sum += (double)x[i] * (double)x[i];
}

static void row_adamw(float *p, float *m, float *v, const float *g, const syn_adamw *how,
                      int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float d = how->scale * g[i];
        m[i] = how->beta1 * m[i] + how->rest1 * d;
        v[i] = how->beta2 * v[i] + how->rest2 * d * d;
        p[i] = how->shrink * p[i] - how->rate * m[i] / (how->root * sqrtf(v[i]) + how->eps);
    }
}

static void row_widen(const uint16_t *x, syn_dtype dtype, float *y, int64_t n) {
    syn_half_widen(x, y, (size_t)n, dtype);
}

static void row_narrow(const float *x, syn_dtype dtype, uint16_t *y, int64_t n) {
    syn_half_narrow(x, y, (size_t)n, dtype);
}

const syn_row_kernels syn__rows_scalar = SYN__ROW_TABLE;
