/* The row kernels as they are defined: documentation, and the oracle of the vectorised ones. */
#include <math.h>

#include "ops/rows.h"

static void row_gelu_tanh(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        y[i] =
            0.5f * x[i] * (1.0f + tanhf(0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}

static void row_gelu_erf(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.7071067812f));
}

static void row_tanh(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = tanhf(x[i]);
}

/* A row of nothing but -infinity gives zeros; a NaN spreads to its whole row. */
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

static void row_scale_mask(const float *x, const float *mask, float factor, int64_t visible,
                           float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        y[i] = i >= visible ? -INFINITY : mask ? x[i] * factor + mask[i] : x[i] * factor;
}

/* Sums in double: a float mean of a wide row far from zero loses half its digits. */
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

const syn_row_kernels syn__rows_scalar = SYN__ROW_TABLE;
