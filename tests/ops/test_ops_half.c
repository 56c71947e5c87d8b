/* Compares row ops in f16 and bf16 with the same ops in f32 on the widened values. The 16-bit ops
   compute in f32 and round once, so their results must be the rounded results of f32. Covers random
   shapes and layouts, including empty and broadcast ones, and threads. */
#include "syntorch/base/half.h"

#include "ops/rules.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

/* Each call is made twice with the same random numbers. wide: this is the call whose 16-bit values
   are converted to f32. */
typedef struct half_call {
    syn_ctx *ctx;
    syn_dtype dtype;
    bool wide;
    syn_tensor out[3];
    int n_out;
} half_call;

/* A tensor of 16-bit values in [low, high], in a random layout. */
static syn_tensor some(half_call *c, syn_spec spec, double low, double high) {
    static ref values;
    spec.dtype = SYN_F32;
    ref_fill(&values, spec, low, high);
    for (int64_t i = 0; i < syn_spec_elems(&spec); i++) {
        const float value = (float)values.v[i];
        uint16_t bits;
        syn_half_narrow(&value, &bits, 1, c->dtype);
        values.v[i] = c->wide ? ref_half(bits, c->dtype) : bits;
    }
    if (!c->wide) values.spec.dtype = (int32_t)c->dtype;
    return ref_wild(c->ctx, &values);
}

/* The same with f32 or integer values, which are equal in both calls. */
static syn_tensor number(half_call *c, syn_dtype dtype, syn_spec spec, double low, double high) {
    static ref values;
    spec.dtype = (int32_t)dtype;
    ref_fill(&values, spec, low, high);
    return ref_dense(c->ctx, &values);
}

#define SHAPE(...) \
    ref_spec(SYN_F32, COUNT(((int64_t[]){__VA_ARGS__})), (const int64_t[]){__VA_ARGS__})
#define SOME(...) some(c, SHAPE(__VA_ARGS__), -3, 3)

static void give(half_call *c, syn_tensor y) {
    c->out[c->n_out++] = y;
}

static void build(half_call *c, syn_op op, const syn_tensor *in, int n_in, const syn_attr *attr,
                  int n_attr) {
    syn__call_op(c->ctx, op, in, n_in, attr, n_attr, NULL, c->out);
    c->n_out = syn_op_table[op].n_out;
}

static syn_tensor dense(half_call *c, syn_tensor x) {
    return syn_contiguous(c->ctx, x);
}

static syn_spec any(int least) {
    return ref_random_spec(SYN_F32, least, 5, true);
}

/* A random row length. Some rows are longer than the block of elements that is widened in one
   piece. */
static int64_t width(void) {
    return ref_int(0, 4) ? ref_int(1, 40) : ref_int(1000, 2100);
}

static void gelu(half_call *c) {
    const bool form = ref_int(0, 1) != 0;
    give(c, syn_gelu(c->ctx, some(c, any(1), -9, 9), form));
}
static void tanh_of(half_call *c) {
    give(c, syn_tanh(c->ctx, some(c, any(1), -4, 4)));
}
static void relu(half_call *c) {
    give(c, syn_relu(c->ctx, some(c, any(1), -9, 9)));
}
static void scale(half_call *c) {
    const double by = ref_real(-3, 3);
    give(c, syn_scale(c->ctx, SOME(ref_int(0, 2), width()), by));
}
static void dropout(half_call *c) {
    const syn_dropout_options how = {.p = 0.4, .seed = (uint64_t)ref_int(0, 1000)};
    give(c, syn_dropout(c->ctx, SOME(ref_int(1, 3), 2, ref_int(1, 300)), SYN_NO_KEYS, &how));
}
static void scale_mask(half_call *c) {
    const int64_t b = ref_int(1, 3), s = ref_int(1, 20);
    const syn_tensor x = SOME(b, 2, ref_int(1, 5), s);
    const syn_tensor mask = ref_int(0, 1) ? number(c, SYN_F32, SHAPE(b, s), -5, 0) : SYN_NO_MASK;
    const bool causal = ref_int(0, 1) != 0;
    give(c, syn_scale_mask(c->ctx, x, mask, 0.3, causal, ref_int(-2, 6)));
}
static syn_spec shrunk(syn_spec s) {
    for (int d = 0; d < s.rank; d++) s.dims[d] = ref_int(0, 3) ? s.dims[d] : 1;
    return s;
}
static void add(half_call *c) {
    const syn_spec shape = any(0);
    const syn_tensor a = some(c, shrunk(shape), -3, 3), b = some(c, shrunk(shape), -3, 3);
    give(c, syn_add(c->ctx, a, b));
}
static void mul(half_call *c) {
    const int64_t rows = ref_int(1, 2), n = width();
    const syn_tensor a = SOME(rows, n), b = SOME(ref_int(0, 1) ? rows : 1, ref_int(0, 1) ? n : 1);
    give(c, syn_mul(c->ctx, a, b));
}
static void softmax(half_call *c) {
    give(c, syn_softmax(c->ctx, SOME(ref_int(0, 2), width())));
}
static void layernorm(half_call *c) {
    const int64_t n = width();
    const syn_tensor x = SOME(ref_int(0, 2), n), weight = SOME(n), bias = SOME(n);
    give(c, syn_layernorm(c->ctx, x, weight, bias, 1e-5));
}
static void rmsnorm(half_call *c) {
    const int64_t n = width();
    const syn_tensor x = SOME(ref_int(0, 2), n), weight = SOME(n);
    give(c, syn_rmsnorm_offset(c->ctx, x, weight, 1e-5, (double)ref_int(0, 1)));
}
static void rope(half_call *c) {
    const int64_t b = ref_int(1, 3), t = ref_int(0, 4), half = ref_int(0, 20);
    const syn_tensor x = SOME(b, ref_int(1, 3), t, 2 * half + ref_int(0, 3));
    const syn_tensor at = number(c, SYN_I32, SHAPE(ref_int(0, 1) ? b : 1, t), 0, 5000);
    give(c, syn_rope(c->ctx, x, at, number(c, SYN_F32, SHAPE(half), 0, 1), 1.25));
}
static void silu(half_call *c) {
    give(c, syn_silu(c->ctx, some(c, any(1), -9, 9)));
}
static void swiglu(half_call *c) {
    const syn_spec shape = any(1);
    const syn_tensor gate = some(c, shape, -9, 9), up = some(c, shape, -3, 3);
    give(c, ref_int(0, 1) ? syn_swiglu(c->ctx, gate, up)
                          : syn_swiglu_clamped(c->ctx, gate, up, 1.7, 2));
}
static void embedding(half_call *c) {
    const int64_t first = ref_int(-2, 3);
    const syn_tensor table = SOME(ref_int(1, 6), ref_int(1, 30));
    give(c, syn_embedding(c->ctx, table, number(c, SYN_I32, SHAPE(3, ref_int(0, 5)), 0, 6), first));
}
static void moved(half_call *c) {
    const int64_t rows = ref_int(0, 4);
    const syn_tensor a = SOME(rows, 3), b = SOME(rows, 2), pair[2] = {a, b};
    give(c, syn_contiguous(c->ctx, a));
    give(c, syn_concat(c->ctx, pair, 2, 1));
    give(c, syn_reshape(c->ctx, c->out[1], (const int64_t[]){5, rows}, 2));
}
static void kv_append(half_call *c) {
    const syn_tensor cache = dense(c, SOME(2, 3, 9, 4));
    give(c, syn_kv_append(c->ctx, cache, SOME(2, 3, ref_int(0, 4), 4), ref_int(0, 5)));
}
static void paged(half_call *c) {
    static const int32_t slots[3] = {7, 0, 2}, table[4] = {2, 1, 0, 3}, queries[2] = {2, 1},
                         keys[2] = {5, 3};
    const syn_spec three = {SYN_I32, 1, {3}}, blocks = {SYN_I32, 2, {2, 2}};
    const int64_t depth = ref_int(1, 9);
    const syn_tensor cache = dense(c, SOME(1, 2, 12, depth));
    const syn_paged_options how = {.scale = 0.5,
                                   .block_tokens = 3,
                                   .sinks = SOME(4),
                                   .n = 2,
                                   .queries = queries,
                                   .keys = keys,
                                   .blocks = syn_input(c->ctx, "blocks", &blocks, table)};
    const syn_tensor now = syn_paged_append(c->ctx, cache, SOME(1, 2, 3, depth),
                                            syn_input(c->ctx, "slots", &three, slots));
    give(c, now);
    give(c, syn_paged_attention(c->ctx, SOME(1, 4, 3, depth), now, now, &how));
}
static void selection(half_call *c) {
    const int64_t n = width();
    /* Some values are equal, so that there are ties. */
    const syn_tensor x = some(c, SHAPE(ref_int(1, 2), n), -1, 1);
    const syn_sampling how = {0.7, ref_int(0, 5), 0.9, 3, 0};
    syn_tensor where;
    give(c, syn_argmax(c->ctx, x));
    give(c, syn_sample(c->ctx, x, &how, ref_int(0, 9)));
    syn_top_k(c->ctx, x, 1, &where);
    give(c, where);
}
static void repetition_penalty(half_call *c) {
    const int64_t n = ref_int(1, 40);
    const syn_spec seen = {SYN_I32, 2, {3, 2}};
    const int32_t ids[6] = {0, (int32_t)(n - 1), -1, (int32_t)(n / 2), 0, 0};
    give(c, syn_repetition_penalty(c->ctx, SOME(3, n), syn_input(c->ctx, "seen", &seen, ids), 1.3));
}
static void top_k(half_call *c) {
    const int64_t n = width();
    syn_tensor where;
    give(c, syn_top_k(c->ctx, SOME(ref_int(1, 2), n), ref_int(1, n), &where));
    give(c, where);
}
static void sum_to(half_call *c) {
    const syn_spec from = any(0), to = shrunk(from);
    const syn_tensor x = some(c, from, -3, 3);
    const syn_attr attr[7] = {{.i = to.rank},    {.i = to.dims[0]}, {.i = to.dims[1]},
                              {.i = to.dims[2]}, {.i = to.dims[3]}, {.i = to.dims[4]}};
    build(c, SYN_OP_SUM_TO, &x, 1, attr, 7);
}
static void gelu_grad(half_call *c) {
    const int64_t n = width();
    const syn_attr form = {.i = ref_int(0, 1)};
    const syn_tensor in[2] = {dense(c, SOME(2, n)), dense(c, SOME(2, n))};
    build(c, SYN_OP_GELU_GRAD, in, 2, &form, 1);
}
static void relu_grad(half_call *c) {
    const int64_t n = width();
    const syn_tensor in[2] = {dense(c, SOME(2, n)), dense(c, SOME(2, n))};
    build(c, SYN_OP_RELU_GRAD, in, 2, NULL, 0);
}
static void tanh_grad(half_call *c) {
    const int64_t n = width();
    const syn_tensor in[2] = {dense(c, SOME(2, n)), dense(c, SOME(2, n))};
    build(c, SYN_OP_TANH_GRAD, in, 2, NULL, 0);
}
/* A tensor to which 16-bit values are added. It is f32 or also 16-bit. */
static syn_tensor sum(half_call *c, syn_spec shape) {
    return ref_int(0, 1) ? number(c, SYN_F32, shape, -3, 3) : some(c, shape, -3, 3);
}
static void accumulate(half_call *c) {
    const syn_spec shape = any(0);
    const syn_tensor in[2] = {dense(c, sum(c, shape)), some(c, shape, -3, 3)};
    build(c, SYN_OP_ACCUMULATE, in, 2, NULL, 0);
}
static void slice_add(half_call *c) {
    const int64_t n = ref_int(1, 40), start = ref_int(0, 3);
    const syn_tensor in[2] = {dense(c, sum(c, SHAPE(3, n + 3, 2))), SOME(3, n, 2)};
    build(c, SYN_OP_SLICE_ADD, in, 2, (const syn_attr[]){{.i = 1}, {.i = start}}, 2);
}
static void slice_grad(half_call *c) {
    const int64_t n = ref_int(0, 40);
    const syn_tensor x = SOME(3, n, 2);
    build(c, SYN_OP_SLICE_GRAD, &x, 1, (const syn_attr[]){{.i = 1}, {.i = 2}, {.i = n + 3}}, 3);
}
static void embedding_grad(half_call *c) {
    const int64_t n = ref_int(0, 5), columns = width();
    const syn_tensor ids = number(c, SYN_I32, SHAPE(n), 0, 6),
                     dy = SOME(n, columns < 500 ? columns : 500);
    give(c, syn_embedding_grad(c->ctx, ids, dy, 1, 4, 2));
    give(c, syn_embedding_grad_add(c->ctx, c->out[0], ids, dy, 1, -1));
    c->out[0] = c->out[1];
    c->n_out = 1;
}
static void rmsnorm_grad(half_call *c) {
    const int64_t rows = ref_int(0, 3), n = width();
    const syn_tensor x = SOME(rows, n), weight = SOME(n), dy = SOME(rows, n);
    build(c, SYN_OP_RMSNORM_GRAD, (const syn_tensor[]){dense(c, x), dense(c, weight), dense(c, dy)},
          3, (const syn_attr[]){{.f = 1e-5}, {.f = (double)ref_int(0, 1)}}, 2);
}
static void silu_grad(half_call *c) {
    const int64_t rows = ref_int(0, 3), n = width();
    const syn_tensor x = SOME(rows, n), dy = SOME(rows, n);
    build(c, SYN_OP_SILU_GRAD, (const syn_tensor[]){dense(c, x), dense(c, dy)}, 2, NULL, 0);
}
static void swiglu_grad(half_call *c) {
    const int64_t rows = ref_int(0, 3), n = width();
    const syn_tensor gate = SOME(rows, n), up = SOME(rows, n), dy = SOME(rows, n);
    build(c, SYN_OP_SWIGLU_GRAD, (const syn_tensor[]){dense(c, gate), dense(c, up), dense(c, dy)},
          3, (const syn_attr[]){{.f = 1.7}, {.f = 0.5}}, ref_int(0, 1) ? 2 : 0);
}
static void layernorm_grad(half_call *c) {
    const int64_t n = width(), rows = ref_int(0, 2) ? ref_int(0, 1) : 70;
    const syn_attr eps = {.f = 1e-5};
    const int64_t fit = rows > 1 && n > 50 ? 50 : n;
    const syn_tensor in[3] = {dense(c, SOME(rows, fit)), dense(c, SOME(fit)),
                              dense(c, SOME(rows, fit))};
    build(c, SYN_OP_LAYERNORM_GRAD, in, 3, &eps, 1);
}

static void softmax_grad(half_call *c) {
    const int64_t rows = ref_int(0, 2), n = width();
    const syn_tensor in[2] = {dense(c, SOME(rows, n)), dense(c, SOME(rows, n))};
    build(c, SYN_OP_SOFTMAX_GRAD, in, 2, NULL, 0);
}
static syn_tensor targets(half_call *c, int64_t rows, int64_t classes) {
    const int64_t ignored = ref_int(0, rows);
    static ref ids;
    ref_fill(&ids, (syn_spec){SYN_I32, 1, {rows}}, 0, (double)classes - 1);
    if (ignored < rows) ids.v[ignored] = SYN_IGNORED_TARGET;
    return ref_dense(c->ctx, &ids);
}
static void cross_entropy(half_call *c) {
    const int64_t rows = ref_int(1, 2), n = width() + 1, classes = ref_int(1, n);
    const syn_tensor in[2] = {dense(c, SOME(rows, n)), targets(c, rows, classes)};
    const syn_attr attr = {.i = classes};
    build(c, SYN_OP_CROSS_ENTROPY, in, 2, &attr, 1);
}
static void cross_entropy_part(half_call *c) {
    const int64_t rows = ref_int(1, 2), n = width() + 1, classes = ref_int(0, n);
    const syn_tensor in[2] = {dense(c, SOME(rows, n)), targets(c, rows, n + 9)};
    build(c, SYN_OP_CROSS_ENTROPY_PART, in, 2, (const syn_attr[]){{.i = classes}, {.i = 4}}, 2);
}
static void cross_entropy_join(half_call *c) {
    const int64_t rows = ref_int(1, 2), n = width() + 1, classes = ref_int(0, n);
    const syn_tensor max = number(c, SYN_F32, SHAPE(rows), 3, 4),
                     sum_of = number(c, SYN_F32, SHAPE(rows), 5, 9),
                     in[5] = {dense(c, SOME(rows, n)), targets(c, rows, n + 9), max, sum_of, max};
    build(c, SYN_OP_CROSS_ENTROPY_JOIN, in, 5, (const syn_attr[]){{.i = classes}, {.i = 4}}, 2);
}

/* Queries, keys and values, with or without grouping, mask and dropout. */
typedef struct heads {
    syn_tensor q, k, v;
    syn_attention_options how;
} heads;

static heads some_heads(half_call *c) {
    const int64_t b = ref_int(1, 2), g = ref_int(1, 2), h = g * ref_int(1, 2),
                  d = ref_int(0, 2) ? ref_int(1, 6) : ref_int(15, 34), few = ref_int(0, 2),
                  t = few ? ref_int(1, 9) : ref_int(40, 60) / h / b + 1,
                  s = t + (ref_int(0, 1) ? ref_int(0, 5)
                           : few         ? 200 / g / d
                                         : 0);
    heads x;
    x.q = syn_contiguous(c->ctx, SOME(b, h, t, d <= 4096 / b / h / t ? d : 1));
    const int64_t depth = syn_tensor_dim(c->ctx, x.q, 3);
    x.k = SOME(b, g, s, depth);
    x.v = SOME(b, g, s, ref_int(0, 1) ? depth : few ? 2 * depth : depth / 2 + 1);
    x.how = (syn_attention_options){.scale = 0.4, .causal = ref_int(0, 1) != 0, .offset = s - t};
    x.how.mask = ref_int(0, 1) ? number(c, SYN_F32, SHAPE(b, s), -4, 0) : SYN_NO_MASK;
    x.how.dropout = (syn_dropout_options){.p = ref_int(0, 1) ? 0.3 : 0, .seed = 5};
    return x;
}
static syn_tensor some_sinks(half_call *c, const heads *x) {
    return SOME(syn_tensor_dim(c->ctx, x->q, 1));
}
static void attention(half_call *c) {
    const heads x = some_heads(c);
    give(c, ref_int(0, 1) ? syn_attention(c->ctx, x.q, x.k, x.v, x.how.mask, x.how.scale,
                                          x.how.causal, x.how.offset)
                          : syn_attention_sinks(c->ctx, x.q, x.k, x.v, x.how.mask,
                                                some_sinks(c, &x), x.how.scale, x.how.offset, 0));
}
static void attention_train(half_call *c) {
    heads x = some_heads(c);
    if (ref_int(0, 1)) x.how.sinks = some_sinks(c, &x);
    give(c, syn_attention_train(c->ctx, x.q, x.k, x.v, &x.how));
    give(c, syn_current_version(c->ctx,
                                /* The log-sum-exp. */
                                (syn_tensor){c->out[0].id + 1, c->out[0].tag}));
}
/* The gradient for an arbitrary result, with log-sum-exps that make the softmax small. */
static void grad_of(half_call *c, heads x) {
    const syn_attention_options *how = &x.how;
    const int64_t b = syn_tensor_dim(c->ctx, x.q, 0), h = syn_tensor_dim(c->ctx, x.q, 1),
                  t = syn_tensor_dim(c->ctx, x.q, 2), d = syn_tensor_dim(c->ctx, x.v, 3);
    const syn_tensor in[7] = {x.q,
                              dense(c, x.k),
                              dense(c, x.v),
                              dense(c, SOME(b, t, h, d)),
                              number(c, SYN_F32, SHAPE(b, h, t), 3, 9),
                              dense(c, SOME(b, t, h, d)),
                              how->mask};
    const syn_attr attr[9] = {
        {.f = how->scale}, {.i = how->causal}, {.i = how->offset}, {.f = how->dropout.p}, {.i = 5},
        {.i = 0},          {.i = 0},           {.i = 0},           {.i = ref_int(1, 6)}};
    build(c, SYN_OP_ATTENTION_GRAD, in, how->mask.id ? 7 : 6, attr, ref_int(0, 1) ? 8 : 9);
}
static void attention_grad(half_call *c) {
    grad_of(c, some_heads(c));
}
static void sinks_grad(half_call *c) {
    const int64_t b = ref_int(1, 2), t = ref_int(1, 20), h = ref_int(1, 4), d = ref_int(1, 30);
    const syn_tensor in[4] = {dense(c, SOME(b, t, h, d)), number(c, SYN_F32, SHAPE(b, h, t), 0, 4),
                              dense(c, SOME(b, t, h, d)), SOME(h)};
    build(c, SYN_OP_SINKS_GRAD, in, 4, NULL, 0);
}
/* Keys are split into several parts, each with several chunks. */
static void attention_grad_parts(half_call *c) {
    heads x = {.how = {.scale = 0.5, .causal = true, .offset = 1300}};
    x.q = dense(c, SOME(1, 1, 3, 2));
    x.k = SOME(1, 1, 1303, 2);
    x.v = SOME(1, 1, 1303, 2);
    grad_of(c, x);
}

/* Integers, so that sums are exact in any order. */
static syn_tensor whole(half_call *c, syn_spec spec) {
    static ref values;
    spec.dtype = SYN_I32;
    ref_fill(&values, spec, -3, 3);
    values.spec.dtype = (int32_t)(c->wide ? SYN_F32 : c->dtype);
    for (int64_t i = 0; !c->wide && i < syn_spec_elems(&spec); i++) {
        const float value = (float)values.v[i];
        uint16_t bits;
        syn_half_narrow(&value, &bits, 1, c->dtype);
        values.v[i] = bits;
    }
    return ref_wild(c->ctx, &values);
}
#define WHOLE(...) whole(c, SHAPE(__VA_ARGS__))
/* Integers 0 to n - 1 in a random order. */
static syn_tensor shuffled(half_call *c, int64_t n) {
    static ref ids;
    ids.spec = (syn_spec){SYN_I32, 1, {n}};
    for (int64_t i = 0; i < n; i++) {
        const int64_t other = ref_int(0, i);
        ids.v[i] = ids.v[other];
        ids.v[other] = (double)i;
    }
    return ref_dense(c->ctx, &ids);
}
static syn_tensor sizes_of(half_call *c, int64_t experts, int64_t rows) {
    static ref sizes;
    sizes.spec = (syn_spec){SYN_I64, 1, {experts}};
    for (int64_t e = 0; e < experts; e++) {
        const int64_t some = e + 1 < experts ? ref_int(0, rows) : rows;
        sizes.v[e] = (double)some;
        rows -= some;
    }
    return ref_dense(c->ctx, &sizes);
}
static void route(half_call *c) {
    const int64_t n = 4 * ref_int(1, 9);
    const syn_routing how = {ref_int(1, n / 2),
                             ref_int(0, 1) ? SYN_SCORE_SOFTMAX : SYN_SCORE_SIGMOID,
                             ref_int(0, 1) != 0,
                             4,
                             2,
                             1.5};
    const bool bias = ref_int(0, 1) != 0;
    const syn_tensor x = SOME(ref_int(0, 9), n);
    syn_tensor experts;
    give(c, syn_route(c->ctx, x, bias ? number(c, SYN_F32, SHAPE(n), -1, 1) : SYN_NO_BIAS, &how,
                      &experts));
    give(c, experts);
}
static void route_grad(half_call *c) {
    const int64_t n = ref_int(2, 40), rows = ref_int(0, 9);
    const syn_attr attr[6] = {
        {.i = 2}, {.i = ref_int(0, 1)}, {.i = ref_int(0, 1)}, {.i = 1}, {.i = 1}, {.f = 1.5}};
    const syn_tensor x = dense(c, SOME(rows, n)), turn[1] = {shuffled(c, 2)};
    const syn_tensor experts =
        syn_contiguous(c->ctx, syn_expand(c->ctx, turn[0], (const int64_t[]){rows, 2}, 2));
    const syn_tensor in[3] = {x, experts, number(c, SYN_F32, SHAPE(rows, 2), -3, 3)};
    build(c, SYN_OP_ROUTE_GRAD, in, 3, attr, 6);
}
static void router_losses(half_call *c) {
    const int64_t n = ref_int(2, 40), rows = ref_int(0, 9);
    const syn_router_losses how = {ref_int(0, 1) ? SYN_SCORE_SOFTMAX : SYN_SCORE_SIGMOID, 0.01,
                                   ref_int(0, 1) ? 0.5 : 0};
    const syn_attr attr[3] = {{.i = how.score}, {.f = how.balance}, {.f = how.z}};
    const syn_spec spec = {SYN_I64, 1, {n}};
    int64_t counts[40];
    for (int64_t e = 0; e < n; e++) counts[e] = ref_int(0, 9);
    const syn_tensor in[2] = {dense(c, SOME(rows, n)), syn_input(c->ctx, "counts", &spec, counts)};
    build(c, SYN_OP_ROUTER_LOSS_GRAD, in, 2, attr, 3);
    const syn_tensor sum = dense(c, number(c, SYN_F32, SHAPE(1), 1, 2));
    give(c, syn_router_loss_add(c->ctx, sum, in[0], in[1], &how));
}
static void attention_merge(half_call *c) {
    const int64_t t = ref_int(1, 4), n = ref_int(0, t), columns = width();
    const int64_t depth = columns < 400 ? columns : 400;
    syn_tensor out = dense(c, number(c, SYN_F32, SHAPE(1, t, 2, depth), -3, 3)),
               log_sum = dense(c, number(c, SYN_F32, SHAPE(1, 2, t), -9, 9));
    const syn_tensor part = SOME(1, n, 2, depth);
    syn_attention_merge(c->ctx, &out, &log_sum, part, number(c, SYN_F32, SHAPE(1, 2, n), -9, 9),
                        ref_int(0, t - n));
    give(c, out);
    give(c, log_sum);
}
static void zigzag(half_call *c) {
    const int64_t n = ref_int(1, 3), rows = ref_int(0, 3);
    give(c, syn_zigzag_split(c->ctx, SOME(2, 2 * n * rows, 3), 1, n));
    give(c, syn_zigzag_join(c->ctx, c->out[0], 1));
}
static void moe_permute(half_call *c) {
    const int64_t rows = ref_int(1, 9), columns = width();
    const syn_tensor x = SOME(rows, columns < 400 ? columns : 400);
    give(c, syn_moe_permute(c->ctx, x, shuffled(c, 2 * rows), 2));
}
static void moe_unpermute(half_call *c) {
    const int64_t tokens = ref_int(0, 6), columns = width();
    const syn_tensor x = SOME(3 * tokens, columns < 200 ? columns : 200);
    give(c, syn_moe_unpermute(c->ctx, x, shuffled(c, 3 * tokens), tokens, 3));
}
static void grouped_linear(half_call *c) {
    const int64_t experts = ref_int(1, 4), rows = ref_int(0, 1) ? ref_int(0, 9) : ref_int(40, 60),
                  k = ref_int(1, 30), n = ref_int(1, 30);
    const bool t = ref_int(0, 1) != 0;
    const syn_tensor x = WHOLE(rows, k), w = t ? WHOLE(experts, n, k) : WHOLE(experts, k, n);
    const syn_tensor bias = ref_int(0, 1) ? dense(c, WHOLE(experts, n)) : SYN_NO_BIAS;
    give(c, syn_grouped_linear(c->ctx, x, w, sizes_of(c, experts, rows), bias, t));
}
static void grouped_product(half_call *c) {
    const int64_t experts = ref_int(1, 3), rows = ref_int(0, 60), m = ref_int(1, 36),
                  n = ref_int(1, 30);
    const syn_tensor a = WHOLE(rows, m), b = WHOLE(rows, n), sizes = sizes_of(c, experts, rows);
    const syn_tensor sum_of = number(c, SYN_F32, SHAPE(experts, m, n), -1, 1);
    give(c, syn_grouped_product(c->ctx, a, b, sizes));
    give(c, syn_grouped_product_add(c->ctx, syn_scale(c->ctx, sum_of, 0), a, b, sizes));
    give(c, syn_grouped_sum(c->ctx, b, sizes));
}

typedef struct half_case {
    const char *name;
    void (*call)(half_call *c);
} half_case;

#define CASE(name) \
    { #name, name }
static const half_case half_cases[] = {
    CASE(gelu),
    CASE(relu),
    CASE(tanh_of),
    CASE(scale),
    CASE(dropout),
    CASE(scale_mask),
    CASE(add),
    CASE(mul),
    CASE(softmax),
    CASE(layernorm),
    CASE(rmsnorm),
    CASE(rope),
    CASE(silu),
    CASE(swiglu),
    CASE(embedding),
    CASE(moved),
    CASE(kv_append),
    CASE(paged),
    CASE(selection),
    CASE(repetition_penalty),
    CASE(top_k),
    CASE(sum_to),
    CASE(gelu_grad),
    CASE(tanh_grad),
    CASE(relu_grad),
    CASE(accumulate),
    CASE(slice_add),
    CASE(slice_grad),
    CASE(layernorm_grad),
    CASE(rmsnorm_grad),
    CASE(silu_grad),
    CASE(swiglu_grad),
    CASE(embedding_grad),
    CASE(softmax_grad),
    CASE(cross_entropy),
    CASE(cross_entropy_part),
    CASE(cross_entropy_join),
    CASE(attention),
    CASE(attention_train),
    CASE(attention_grad),
    CASE(attention_grad_parts),
    CASE(sinks_grad),
    CASE(route),
    CASE(route_grad),
    CASE(router_losses),
    CASE(attention_merge),
    CASE(zigzag),
    CASE(moe_permute),
    CASE(moe_unpermute),
    CASE(grouped_linear),
    CASE(grouped_product),
};

static half_call run(const half_case *one, syn_dtype dtype, bool wide, uint64_t seed) {
    half_call c = {.ctx = ref_ctx(SYN_DEVICE_CPU, NULL), .dtype = dtype, .wide = wide};
    syn_error err = {0};
    ref_seed(seed);
    if (seed % 4 == 0 && syn_ctx_set_threads(c.ctx, 3, &err) != SYN_OK) abort();
    one->call(&c);
    return c;
}

/* Whether two results match. They must be bit-identical after the f32 result is rounded, if the
   other is 16-bit. On CUDA they may differ by one unit: kernels process as many elements together
   as fit in 16 bytes, so sums of 16-bit values have another order. */
static bool nearly(float want, uint16_t bits, float got, syn_dtype narrow) {
    float step = 1e-5f;
    if (!ref_on_cuda()) return false;
    if (narrow != SYN_F32) {
        syn_half_widen(&bits, &got, 1, narrow);
        step += narrow == SYN_BF16 ? 0x1p-7f : 0x1p-10f;
    }
    return fabsf(got - want) <= step * fabsf(want) + 1e-5f;
}

static bool same_tensor(const half_call *wide, const half_call *half, int i) {
    const syn_spec a = *syn_tensor_spec(wide->ctx, wide->out[i]),
                   b = *syn_tensor_spec(half->ctx, half->out[i]);
    const size_t n = (size_t)syn_spec_elems(&a), elem = syn_dtype_bytes((syn_dtype)b.dtype);
    const bool narrow = b.dtype == (int32_t)wide->dtype;
    void *x = malloc(n * 4 + 1), *y = malloc(n * elem + 1);
    bool same = a.rank == b.rank && memcmp(a.dims, b.dims, sizeof a.dims) == 0 &&
                (narrow ? a.dtype == SYN_F32 : a.dtype == b.dtype) &&
                syn_tensor_read(wide->ctx, wide->out[i], x, n * 4) == SYN_OK &&
                syn_tensor_read(half->ctx, half->out[i], y, n * elem) == SYN_OK;
    for (size_t k = 0; same && k < n; k++) {
        uint32_t want;
        memcpy(&want, (const char *)x + k * 4, 4);
        if (narrow) {
            uint16_t bits;
            float value;
            memcpy(&value, &want, 4);
            syn_half_narrow(&value, &bits, 1, wide->dtype);
            uint16_t got;
            memcpy(&got, (const char *)y + k * 2, 2);
            same = bits == got || nearly(value, got, 0, wide->dtype);
        } else {
            float value, got;
            memcpy(&value, &want, 4);
            memcpy(&got, (const char *)y + k * 4, 4);
            same = memcmp(&value, &got, 4) == 0 || nearly(value, 0, got, SYN_F32);
        }
        if (!same) fprintf(stderr, "element %zu of %zu\n", k, n);
    }
    free(x);
    free(y);
    return same;
}

/* Cases in which CUDA may give other bits. Attention there rounds probabilities to 16 bits before
   multiplying by v (test_cuda_attention). */
static bool other_bits(const char *name) {
    return ref_on_cuda() && strstr(name, "attention") != NULL;
}

static bool seen[SYN_OP_COUNT]; /* ops with a kernel that were called with a 16-bit input */

static void note_ops(const syn_ctx *ctx) {
    const syn_trace *t = syn_ctx_trace(ctx);
    for (uint32_t i = 1; i < t->n_nodes; i++)
        for (int k = 0; k < t->nodes[i].n_in; k++) {
            syn_operand o;
            syn_trace_operand(t, t->inputs[t->nodes[i].first_in + (uint32_t)k], &o);
            if (syn_dtype_is_half((syn_dtype)o.spec.dtype)) seen[t->nodes[i].op] = true;
        }
}

static void test_against_f32(void) {
    const uint64_t rounds = ref_on_cuda() ? 10 : 40;
    for (size_t i = 0; i < COUNT(half_cases); i++)
        for (uint64_t seed = 1; seed <= rounds && test_failures == 0; seed++) {
            const syn_dtype dtype = seed & 1 ? SYN_F16 : SYN_BF16;
            half_call wide = run(&half_cases[i], dtype, true, seed),
                      half = run(&half_cases[i], dtype, false, seed);
            CHECK_MSG(syn_ctx_status(wide.ctx) == SYN_OK && syn_ctx_status(half.ctx) == SYN_OK,
                      "%s: %s%s", half_cases[i].name, syn_ctx_error(wide.ctx)->text,
                      syn_ctx_error(half.ctx)->text);
            CHECK_INT(half.n_out, wide.n_out);
            for (int k = 0; k < half.n_out && test_failures == 0; k++)
                CHECK_MSG(other_bits(half_cases[i].name) || same_tensor(&wide, &half, k),
                          "%s, output %d, seed %llu", half_cases[i].name, k,
                          (unsigned long long)seed);
            note_ops(half.ctx);
            syn_ctx_free(wide.ctx);
            syn_ctx_free(half.ctx);
        }
}

/* Each allocation of each case fails once. On meta, the recorded rows must equal those of the
   CPU. */
static void test_out_of_memory(void) {
    for (size_t i = 0; i < COUNT(half_cases); i++) {
        uint64_t hashes[2];
        for (int device = 0; device < 2; device++) {
            bool done = false;
            for (uint64_t n = 0; !done; n++) {
                syn_error err = {0};
                half_call c = {.ctx = ref_ctx(device ? SYN_DEVICE_META : SYN_DEVICE_CPU, NULL),
                               .dtype = SYN_BF16};
                ref_seed(9);
                syn_memory_fail_after(n);
                half_cases[i].call(&c);
                syn_memory_fail_after(SYN_MEMORY_NEVER);
                done = syn_ctx_status(c.ctx) == SYN_OK;
                if (!done) CHECK_INT(syn_ctx_status(c.ctx), SYN_E_NOMEM);
                CHECK_OK(syn_trace_verify(syn_ctx_trace(c.ctx), &err), err);
                hashes[device] = syn_trace_hash(syn_ctx_trace(c.ctx));
                syn_ctx_free(c.ctx);
                CHECK(n < 100);
            }
        }
        CHECK_MSG(hashes[0] == hashes[1], "%s", half_cases[i].name);
    }
}

/* Ops that accept 16-bit inputs must be tested above. The ops listed here are tested elsewhere. */
static bool elsewhere(syn_op op) {
    return syn_op_table[op].comm != SYN_COMM_NONE ||              /* test_ops_comm */
           op == SYN_OP_LINEAR || op == SYN_OP_MATMUL ||          /* test_ops_half_products */
           op == SYN_OP_MATMUL_ADD || op == SYN_OP_ADAMW ||       /* test_ops_training */
           op == SYN_OP_SQUARE_SUM || op == SYN_OP_CLIP_FACTOR || /* f32 only */
           op == SYN_OP_LOG_SOFTMAX_LOSS || op == SYN_OP_NLL_GRAD ||
           op == SYN_OP_LOG_SOFTMAX_GRAD || /* f32 only */
           op == SYN_OP_EXPERT_CAPACITY || op == SYN_OP_COUNT_ADD ||
           op == SYN_OP_ROUTER_BIAS_UPDATE || op == SYN_OP_SORT_BY_EXPERT ||
           op == SYN_OP_EXPERT_ORDER ||                   /* integers only */
           op == SYN_OP_EXP_RESCALE || op == SYN_OP_CAST; /* test_ops_half_types */
}

static void test_every_kernel(void) {
    for (syn_op op = SYN_OP_NONE + 1; op < SYN_OP_COUNT; op++)
        CHECK_MSG(!syn_op_table[op].cpu || seen[op] || elsewhere(op),
                  "no case runs '%s' with 16 bits", syn_op_table[op].name);
}

static const test_case cases[] = {
    {"beside f32", test_against_f32},
    {"out of memory", test_out_of_memory},
    {"every kernel", test_every_kernel},
};
TEST_MAIN(cases)
