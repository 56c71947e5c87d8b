/* Product kernels as plain loops. They document what the SIMD kernels compute, and run where
   neither the SIMD kernels nor OpenBLAS are available. */
#include "ops/products_private.h"
#include "syntorch/base/half.h"

#define PIECE 256 /* elements of w that are converted at a time */

static const float *widened(const syn_product *p, int64_t at, int64_t n, float *buffer) {
    if (p->w_dtype == SYN_F32) return (const float *)p->w + at;
    syn_half_widen((const uint16_t *)p->w + at, buffer, (size_t)n, p->w_dtype);
    return buffer;
}

static float x_at(const syn_product *p, int64_t i, int64_t k) {
    const float *x = p->x;
    return x[p->transpose_x ? k * p->ldx + i : i * p->ldx + k];
}

/* Columns j .. j + n - 1 of w (k, n). */
static void across(const syn_product *p, int64_t j, int64_t n) {
    float buffer[PIECE], *all = p->out;
    const float *bias = p->bias;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t c = j; c < j + n; c++) all[i * p->ldo + c] = bias ? bias[c] : 0.0f;
    for (int64_t k = 0; k < p->k; k++) {
        const float *w = widened(p, k * p->ldw + j, n, buffer);
        for (int64_t i = 0; i < p->m; i++) {
            const float x = x_at(p, i, k);
            float *out = all + i * p->ldo + j;
            for (int64_t c = 0; c < n; c++) out[c] += x * w[c];
        }
    }
}

/* Column j of w stored as (n, k). */
static void along(const syn_product *p, int64_t j) {
    float buffer[PIECE], *out = p->out;
    const float *bias = p->bias;
    for (int64_t i = 0; i < p->m; i++) out[i * p->ldo + j] = bias ? bias[j] : 0.0f;
    for (int64_t k = 0, n; k < p->k; k += n) {
        n = p->k - k < PIECE ? p->k - k : PIECE;
        const float *w = widened(p, j * p->ldw + k, n, buffer);
        for (int64_t i = 0; i < p->m; i++) {
            float sum = 0;
            for (int64_t c = 0; c < n; c++) sum += x_at(p, i, k + c) * w[c];
            out[i * p->ldo + j] += sum;
        }
    }
}

void syn__product_scalar(const syn_product *p) {
    if (p->transpose_w)
        for (int64_t j = 0; j < p->n; j++) along(p, j);
    else
        for (int64_t j = 0; j < p->n; j += PIECE) across(p, j, p->n - j < PIECE ? p->n - j : PIECE);
}
