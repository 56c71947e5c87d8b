/* softmax, fused attention, the KV cache. */
#include <string.h>

#include "ops/attention.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/rules.h"
#include "syntorch/memory.h"

/* ---- softmax ---- */

/* subtract, exponential, sum, divide */
SYN__COST(softmax) {
    *cost = (syn_cost){4 * syn__elems(&c->out[0]), syn__input_bytes(c), syn__output_bytes(c)};
}

static void softmax_row(const syn_call *c, const float *in, float *out, int64_t n, int64_t first) {
    (void)c;
    (void)first;
    syn__row_kernels()->softmax(in, out, n);
}

SYN__CPU(softmax) {
    syn__each_row(c, softmax_row, SYN__GRAIN_MATH, false);
    return SYN_OK;
}

syn_tensor syn_softmax(syn_ctx *ctx, syn_tensor x) {
    syn_tensor out;
    const syn_tensor in[1] = {syn__dense_rows(ctx, x)};
    syn__dispatch(ctx, SYN_OP_SOFTMAX, in, 1, NULL, 0, NULL, &out);
    return out;
}

/* ---- Fused attention ---- */

SYN__INFER(attention) {
    for (int i = 0; i < c->n_in; i++) SYN_TRY(syn__want_dtype(c, i, SYN_F32));
    for (int i = 0; i < 3; i++) {
        if (c->in[i].spec.rank != 4) return syn__bad_input(c, i, "(B, H, T, D)");
    }
    const int64_t *q = c->in[0].spec.dims, *k = c->in[1].spec.dims;
    const bool grouped = k[1] > 0 && q[1] % k[1] == 0;
    if (k[0] != q[0] || (k[1] != q[1] && !grouped) || k[3] != q[3])
        return syn__bad_input(c, 1, "keys (B, H, S, D) like the queries");
    if (!syn_spec_equal(&c->in[1].spec, &c->in[2].spec))
        return syn__bad_input(c, 2, "values shaped like the keys");
    const syn_spec *mask = &c->in[3].spec;
    if (c->n_in > 3 && (mask->rank != 2 || mask->dims[0] != k[0] || mask->dims[1] != k[2]))
        return syn__bad_input(c, 3, "a mask (B, S) like the keys");
    c->out[0].spec = c->in[0].spec;
    return SYN_OK;
}

/* The sum of what the separate ops count: 4 B H T S D of products, and 5 an entry of the T
   x S square. */
SYN__COST(attention) {
    const int64_t *q = c->in[0].spec.dims;
    const uint64_t square = (uint64_t)(q[0] * q[1] * q[2]) * (uint64_t)c->in[1].spec.dims[2];
    *cost =
        (syn_cost){square * (4 * (uint64_t)q[3] + 5), syn__input_bytes(c), syn__output_bytes(c)};
}

struct heads {
    const syn_call *c;
    const syn_attention_kernels *kernels;
    float *scratch; /* of all workers */
    size_t scratch_floats;
    int64_t tile, tiles; /* queries of a task, tasks of a head */
};

/* One tile of queries of one head; the last tiles, which see most, first. */
static void attend_task(void *arg, int64_t i, int worker) {
    const struct heads *t = arg;
    const syn_operand *q = &t->c->in[0], *k = &t->c->in[1], *v = &t->c->in[2];
    const int64_t *n = q->spec.dims, keys = k->spec.dims[2], depth = n[3];
    const int64_t head = i / t->tiles, b = head / n[1], h = head % n[1];
    const int64_t shared = h / (n[1] / k->spec.dims[1]); /* head of the keys and values */
    const int64_t first = (t->tiles - 1 - i % t->tiles) * t->tile;
    const bool causal = t->c->attr[1].i != 0;
    const int64_t offset = t->c->attr[2].i;
    syn_attend a = {
        .q = (const float *)q->data + b * q->strides[0] + h * q->strides[1] + first * q->strides[2],
        .k = (const float *)k->data + b * k->strides[0] + shared * k->strides[1],
        .v = (const float *)v->data + b * v->strides[0] + shared * v->strides[1],
        .out = (float *)t->c->out[0].data + (head * n[2] + first) * depth,
        .q_stride = q->strides[2],
        .k_stride = k->strides[2],
        .v_stride = v->strides[2],
        .queries = n[2] - first < t->tile ? n[2] - first : t->tile,
        .keys = keys,
        .depth = depth,
        .visible = keys,
        .scale = (float)t->c->attr[0].f,
        .scratch = t->scratch + (size_t)worker * t->scratch_floats,
    };
    if (causal && offset < keys) {
        a.visible = offset + first + 1;
        a.step = 1;
    }
    if (t->c->n_in > 3) a.mask = (const float *)t->c->in[3].data + b * t->c->in[3].strides[0];
    t->kernels->attend(&a);
}

SYN__CPU(attention) {
    const int64_t *n = c->out[0].spec.dims, keys = c->in[1].spec.dims[2];
    const int64_t elems = syn_spec_elems(&c->out[0].spec);
    struct heads t = {.c = c, .kernels = syn__attention_kernels_at(syn_simd_level())};
    if (elems == 0) return SYN_OK;
    t.tile = n[2] < t.kernels->tile ? n[2] : t.kernels->tile;
    t.tiles = (n[2] + t.tile - 1) / t.tile;
    /* whole cache lines, so that workers do not share one */
    t.scratch_floats = (t.kernels->scratch_floats(n[3], keys) + 31) / 32 * 32;
    /* a product over so few elements ends before other threads have begun */
    syn_workers *workers = keys > 0 && elems > 131072 / keys ? c->workers : NULL;
    const size_t bytes = (size_t)syn_workers_count(workers) * t.scratch_floats * sizeof *t.scratch;
    t.scratch = syn_aligned_malloc(bytes);
    if (!t.scratch) return SYN_FAIL_NOMEM(c->err, bytes, "attention scores");
    syn_workers_run(workers, n[0] * n[1] * t.tiles, attend_task, &t);
    syn_aligned_free(t.scratch);
    return SYN_OK;
}

syn_tensor syn_attention(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v, syn_tensor mask,
                         double scale, bool causal, int64_t offset) {
    syn_tensor out,
        in[4] = {syn__dense_rows(ctx, q), syn__dense_rows(ctx, k), syn__dense_rows(ctx, v), mask};
    if (mask.id) in[3] = syn__dense_rows(ctx, mask);
    const syn_attr attr[3] = {{.f = scale}, {.i = causal}, {.i = offset}};
    syn__dispatch(ctx, SYN_OP_ATTENTION, in, mask.id ? 4 : 3, attr, 3, NULL, &out);
    return out;
}

/* ---- KV cache ---- */

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
    const syn_operand *cache = &c->out[0];
    const int64_t elem = (int64_t)syn_dtype_bytes((syn_dtype)cache->spec.dtype);
    char *out = (char *)cache->data + c->attr[0].i * cache->strides[2] * elem;
    syn__copy_rows(c, &c->in[1], cache, out);
    return SYN_OK;
}

syn_tensor syn_kv_append(syn_ctx *ctx, syn_tensor cache, syn_tensor x, int64_t position) {
    syn_tensor out;
    const syn_tensor in[2] = {cache, syn__dense_rows(ctx, x)};
    const syn_attr attr[1] = {{.i = position}};
    syn__dispatch(ctx, SYN_OP_KV_APPEND, in, 2, attr, 1, NULL, &out);
    return out;
}
