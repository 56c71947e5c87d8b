/* One row of bf16 times a bf16 w stored as (n, k). Memory bandwidth is the limit, so w is not
   packed: columns are processed one after the other, and w is read in memory order. */
#include "ops/lanes.h"
#include "ops/products_private.h"

#if defined(__AVX512BF16__)
#include "syntorch/base/half.h"

#define LANES   32   /* bf16 elements per vector */
#define SUMS    4    /* sums per column; an instruction must wait for the previous one on its sum */
#define COLUMNS 4    /* columns whose sums are reduced together */
#define NEAR    4096 /* prefetch distance in w, in bytes */

LANE_FN __m512 pairs(__m512 sum, __m512i x, __m512i w) {
    return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)w);
}

/* The partial sums of x times one column. */
LANE_FN __m512 column(const uint16_t *x, const uint16_t *w, int64_t k) {
    __m512 sum[SUMS];
    LANE_UNROLL
    for (int s = 0; s < SUMS; s++) sum[s] = _mm512_setzero_ps();
    int64_t p = 0;
    for (; p + SUMS * LANES <= k; p += SUMS * LANES) LANE_UNROLL
    for (int s = 0; s < SUMS; s++) {
        const int64_t at = p + s * LANES;
        _mm_prefetch((const char *)(w + at) + NEAR, _MM_HINT_T0);
        sum[s] = pairs(sum[s], _mm512_loadu_si512(x + at), _mm512_loadu_si512(w + at));
    }
    for (; p < k; p += LANES) {
        const __mmask32 left = k - p >= LANES ? 0xffffffffu : (1u << (k - p)) - 1u;
        sum[0] = pairs(sum[0], _mm512_maskz_loadu_epi16(left, x + p),
                       _mm512_maskz_loadu_epi16(left, w + p));
    }
    return _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3]));
}

/* Adds the bias to column j's sum and stores it. */
static void put(const syn_product *p, int64_t j, float sum) {
    float bias = 0;
    if (p->bias) syn_half_widen((const uint16_t *)p->bias + j, &bias, 1, SYN_BF16);
    sum += bias;
    if (p->out_dtype == SYN_F32) ((float *)p->out)[j] = sum;
    else syn_half_narrow(&sum, (uint16_t *)p->out + j, 1, SYN_BF16);
}

void syn__pairs_avx512bf16(const syn_product *p) {
    for (int64_t j = 0; j < p->n; j++)
        put(p, j, _mm512_reduce_add_ps(column(p->x, (const uint16_t *)p->w + j * p->ldw, p->k)));
}
#endif
