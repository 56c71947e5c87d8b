/* softmax, fused attention, the KV cache. */
#include <math.h>
#include <string.h>

#include "ops/ops.h"
#include "ops/rules.h"
#include "syntorch/memory.h"

/* ---- softmax --------------------------------------------------------------------------------- */

/* subtract, exponential, sum, divide */
SYN__COST(softmax) {
    *cost = (syn_cost){4 * syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

/* A row of nothing but -infinity gives zeros; a NaN spreads to its whole row. */
static void softmax_row(const float *in, float *out, int64_t n) {
    float max = -INFINITY, sum = 0, nan = 0;
    for (int64_t i = 0; i < n; i++) max = in[i] > max ? in[i] : max;
    if (max == -INFINITY) {
        for (int64_t i = 0; i < n; i++) nan = isnan(in[i]) ? in[i] : nan;
        for (int64_t i = 0; i < n; i++) out[i] = nan;
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = in[i] == -INFINITY ? 0.0f : expf(in[i] - max);
        sum += out[i];
    }
    const float inverse = 1.0f / sum;
    for (int64_t i = 0; i < n; i++) out[i] *= inverse;
}

SYN__CPU(softmax) {
    const syn_spec *shape = &c->in[0].spec;
    const int64_t n = shape->dims[shape->rank - 1];
    const syn_operand *operands[1] = {&c->in[0]};
    const float *in = c->in[0].data;
    float *out = c->out[0].data;
    for (syn_rows r = {0}; syn__next_row(&r, shape, operands, 1); out += n)
        softmax_row(in + r.at[0], out, n);
    return SYN_OK;
}

syn_tensor syn_softmax(syn_ctx *ctx, syn_tensor x) {
    syn_tensor out;
    const syn_tensor in[1] = {syn__dense_rows(ctx, x)};
    syn__dispatch(ctx, SYN_OP_SOFTMAX, in, 1, NULL, 0, NULL, &out);
    return out;
}

/* ---- fused attention ------------------------------------------------------------------------- */

SYN__INFER(attention) {
    for (int i = 0; i < 3; i++) {
        SYN_TRY(syn__want_dtype(c, i, SYN_F32));
        if (c->in[i].spec.rank != 4) return syn__bad_input(c, i, "(B, H, T, D)");
    }
    const int64_t *q = c->in[0].spec.dims, *k = c->in[1].spec.dims;
    if (k[0] != q[0] || k[1] != q[1] || k[3] != q[3])
        return syn__bad_input(c, 1, "keys (B, H, S, D) like the queries");
    if (!syn_spec_equal(&c->in[1].spec, &c->in[2].spec))
        return syn__bad_input(c, 2, "values shaped like the keys");
    c->out[0].spec = c->in[0].spec;
    return SYN_OK;
}

/* The sum of what the separate ops count: 4 B H T S D of products, and 5 an entry of the T x S
 * square. */
SYN__COST(attention) {
    const int64_t *q = c->in[0].spec.dims;
    const uint64_t square = (uint64_t)(q[0] * q[1] * q[2]) * (uint64_t)c->in[1].spec.dims[2];
    *cost =
        (syn_cost){square * (4 * (uint64_t)q[3] + 5), syn__input_bytes(c), syn__output_bytes(c)};
}

/* One query row: scores in `w` (S), softmax, weighted sum of the value rows. */
static void attend(const float *q, const float *k, const float *v, float *out, float *w,
                   int64_t visible, int64_t depth, int64_t k_stride, int64_t v_stride,
                   float scale) {
    for (int64_t s = 0; s < visible; s++) {
        float dot = 0;
        for (int64_t d = 0; d < depth; d++) dot += q[d] * k[s * k_stride + d];
        w[s] = dot * scale;
    }
    softmax_row(w, w, visible);
    memset(out, 0, (size_t)depth * sizeof *out);
    for (int64_t s = 0; s < visible; s++)
        for (int64_t d = 0; d < depth; d++) out[d] += w[s] * v[s * v_stride + d];
}

SYN__CPU(attention) {
    const int64_t depth = c->out[0].spec.dims[3], keys = c->in[1].spec.dims[2];
    const syn_operand *q = &c->in[0], *k = &c->in[1], *v = &c->in[2];
    float *w = syn_malloc((size_t)keys * sizeof *w + 1);
    if (!w) return SYN_FAIL_NOMEM(c->err, (size_t)keys * sizeof *w, "attention scores");
    float *out = c->out[0].data;
    const int64_t *n = c->out[0].spec.dims;
    for (int64_t b = 0; b < n[0]; b++)
        for (int64_t h = 0; h < n[1]; h++)
            for (int64_t t = 0; t < n[2]; t++, out += depth) {
                int64_t visible = c->attr[1].i && c->attr[2].i < keys ? t + c->attr[2].i + 1 : keys;
                if (visible > keys) visible = keys;
                attend((const float *)q->data + b * q->strides[0] + h * q->strides[1] +
                           t * q->strides[2],
                       (const float *)k->data + b * k->strides[0] + h * k->strides[1],
                       (const float *)v->data + b * v->strides[0] + h * v->strides[1], out, w,
                       visible < 0 ? 0 : visible, depth, k->strides[2], v->strides[2],
                       (float)c->attr[0].f);
            }
    syn_free(w);
    return SYN_OK;
}

syn_tensor syn_attention(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v, double scale,
                         bool causal, int64_t offset) {
    syn_tensor out;
    const syn_tensor in[3] = {syn__dense_rows(ctx, q), syn__dense_rows(ctx, k),
                              syn__dense_rows(ctx, v)};
    const syn_attr attr[3] = {{.f = scale}, {.i = causal}, {.i = offset}};
    syn__dispatch(ctx, SYN_OP_ATTENTION, in, 3, attr, 3, NULL, &out);
    return out;
}

/* ---- KV cache -------------------------------------------------------------------------------- */

SYN__INFER(kv_append) {
    const syn_spec *cache = &c->in[0].spec, *x = &c->in[1].spec;
    if (cache->rank != 4) return syn__bad_input(c, 0, "a cache (B, H, Smax, D)");
    bool ok = x->rank == 4 && x->dtype == cache->dtype;
    for (int d = 0; ok && d < 4; d++) ok = d == 2 || x->dims[d] == cache->dims[d];
    if (!ok) return syn__bad_input(c, 1, "(B, H, T, D) like the cache");
    const int64_t position = c->attr[0].i;
    if (position < 0 || position > cache->dims[2] - x->dims[2])
        return SYN_FAIL(c->err, SYN_E_SHAPE,
                        "%lld rows at position %lld do not fit a cache of %lld rows",
                        (long long)x->dims[2], (long long)position, (long long)cache->dims[2]);
    c->out[0].spec = *cache;
    return SYN_OK;
}

SYN__COST(kv_append) {
    const uint64_t bytes = syn_spec_bytes(&c->in[1].spec);
    *cost = (syn_cost){0, bytes, bytes};
}

SYN__CPU(kv_append) {
    const syn_spec *shape = &c->in[1].spec;
    const size_t elem = syn_dtype_bytes((syn_dtype)shape->dtype);
    const size_t row = (size_t)shape->dims[3] * elem;
    const syn_operand *operands[2] = {&c->in[1], &c->out[0]};
    const char *in = c->in[1].data;
    char *out = (char *)c->out[0].data + c->attr[0].i * c->out[0].strides[2] * (int64_t)elem;
    for (syn_rows r = {0}; syn__next_row(&r, shape, operands, 2);)
        memcpy(out + r.at[1] * (int64_t)elem, in + r.at[0] * (int64_t)elem, row);
    return SYN_OK;
}

syn_tensor syn_kv_append(syn_ctx *ctx, syn_tensor cache, syn_tensor x, int64_t position) {
    syn_tensor out;
    const syn_tensor in[2] = {cache, syn__dense_rows(ctx, x)};
    const syn_attr attr[1] = {{.i = position}};
    syn__dispatch(ctx, SYN_OP_KV_APPEND, in, 2, attr, 1, NULL, &out);
    return out;
}
