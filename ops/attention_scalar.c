/* Attention for one query at a time, written like its definition. The code documents what the SIMD
   kernels compute, is their test reference, and runs on processors that do not support them. Also
   selects the kernels of a level. */
#include <math.h>
#include <string.h>

#include "ops/attention.h"
#include "ops/rows.h"
#include "syntorch/base/half.h"

enum { TILE = 16, GRAD_TILE = 16 };

static float dot(const float *x, const float *y, int64_t n) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* The key or value i, `depth` elements; 16-bit rows are converted to scratch memory behind
   the weights. */
static const float *row_of(const syn_attention_tile *a, const void *x, int64_t stride, int64_t i,
                           int64_t depth) {
    const int64_t at = syn__key_row(a, i) * stride;
    if (a->dtype == SYN_F32) return (const float *)x + at;
    float *buffer = a->scratch + a->keys + 1;
    syn_half_widen((const uint16_t *)x + at, buffer, (size_t)depth, a->dtype);
    return buffer;
}

static float score(const syn_attention_tile *a, int64_t query, int64_t key) {
    const float *k = row_of(a, a->k, a->k_stride, key, a->depth);
    float x = dot(a->q + query * a->q_stride, k, a->depth) * a->scale;
    if (a->cap > 0) x = a->cap * tanhf(x / a->cap);
    return a->mask ? x + a->mask[key] : x;
}

/* Dropout's factor of a weight. */
static float kept(const syn_attention_tile *a, int64_t query, int64_t key) {
    if (!a->drop) return 1;
    return syn__drops(&a->drop[query], a->column + (uint32_t)key) ? 0 : a->drop[query].keep;
}

/* The logarithm of the sum of e^w; -infinity if the query attends to no key. */
static float log_sum(const float *w, int64_t n) {
    float max = -INFINITY, sum = 0;
    for (int64_t s = 0; s < n; s++) max = w[s] > max ? w[s] : max;
    const float top = max == -INFINITY ? 0 : max;
    for (int64_t s = 0; s < n; s++) sum += expf(w[s] - top);
    return top + logf(sum);
}

/* Computes the scores in `w`, then their softmax, then the weighted sum of value rows. */
static void attend_one(const syn_attention_tile *a, int64_t query) {
    const int64_t visible = syn__visible_end(a, query), depth = a->value_depth;
    const int64_t first = syn__first_visible_key(a, query);
    const int64_t scores = visible - first + a->has_sink;
    float *w = a->scratch, *out = a->out + query * a->out_stride;
    for (int64_t s = first; s < visible; s++) w[s] = score(a, query, s);
    if (a->has_sink) w[visible] = a->sink;
    if (a->log_sum) a->log_sum[query] = log_sum(w + first, scores);
    syn__rows_scalar.softmax(w + first, w + first, scores);
    for (int64_t s = first; s < visible; s++) w[s] *= kept(a, query, s);
    memset(out, 0, (size_t)depth * sizeof *out);
    for (int64_t s = first; s < visible; s++) {
        const float *v = row_of(a, a->v, a->v_stride, s, depth);
        for (int64_t d = 0; d < depth; d++) out[d] += w[s] * v[d];
    }
}

static void attend(const syn_attention_tile *a) {
    for (int64_t i = 0; i < a->queries; i++) attend_one(a, i);
}

static size_t scratch_floats(int64_t depth, int64_t value_depth, int64_t keys) {
    return (size_t)(keys + 1 + (depth > value_depth ? depth : value_depth));
}

/* out = p v, so dv = p' dout and dp = dout v'. p is a softmax, so the gradient of a score is p (dp
   - the row's sum of p dp), and that sum equals out dout. Scores are scale q k'. Dropout multiplies
   p by a factor in `out`; therefore p in dv and dp have the same factor. */
static void attend_grad_one(const syn_attention_grad_tile *g, int64_t query) {
    const syn_attention_tile *a = &g->of;
    const int64_t visible = syn__visible_end(a, query), depth = a->depth, values = a->value_depth;
    const float *q = a->q + query * a->q_stride, *dout = g->dout + query * g->dout_stride;
    const float mean = dot(a->out + query * a->out_stride, dout, values);
    const float sum = a->log_sum[query] == -INFINITY ? 0 : a->log_sum[query];
    float *dq = g->dq ? g->dq + query * g->dq_stride : NULL;
    for (int64_t d = 0; d < depth && dq && !g->add; d++) dq[d] = 0;
    for (int64_t s = syn__first_visible_key(a, query); s < visible; s++) {
        const float *k = row_of(a, a->k, a->k_stride, s, depth),
                    *v = row_of(a, a->v, a->v_stride, s, values);
        const float p = expf(score(a, query, s) - sum);
        const float by = kept(a, query, s);
        const float dscore = p * (by * dot(dout, v, values) - mean) * a->scale;
        for (int64_t d = 0; d < values && g->dv; d++)
            g->dv[s * g->dk_stride + d] += p * by * dout[d];
        for (int64_t d = 0; d < depth; d++) {
            if (g->dk) g->dk[s * g->dk_stride + d] += dscore * q[d];
            if (dq) dq[d] += dscore * k[d];
        }
    }
}

static void attend_grad(const syn_attention_grad_tile *g) {
    for (int64_t i = 0; i < g->of.queries; i++) attend_grad_one(g, i);
}

static size_t grad_scratch_floats(int64_t depth, int64_t value_depth) {
    (void)depth;
    (void)value_depth;
    return 0;
}

const syn_attention_kernels syn__attention_scalar = SYN__ATTENTION_TABLE;

const syn_attention_kernels *syn__attention_kernels_at(syn_simd level) {
    return SYN__AT_LEVEL(&syn__attention, level);
}
