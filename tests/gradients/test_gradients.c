/* Compares each gradient rule of the op table with finite differences. This program and its copy of
   the library are built with doubles instead of floats (tests/CMakeLists.txt). The differences are
   therefore exact to nine digits, and every wrong term is detected. */
#include <math.h>

#include "ops/ops.h"
#include "ops/rules.h"
#include "syntorch/base/half.h"
#include "syntorch/base/memory.h"
#include "syntorch/gradient.h"
#include "tests/support/random.h"
#include "tests/support/test.h"

/* This build has no 16-bit types, so conversions must never be called. */
void syn_half_widen(const uint16_t *in, float *out, size_t n_elems, syn_dtype dtype) {
    (void)in, (void)out, (void)n_elems, (void)dtype;
    abort();
}

void syn_half_narrow(const float *in, uint16_t *out, size_t n_elems, syn_dtype dtype) {
    (void)in, (void)out, (void)n_elems, (void)dtype;
    abort();
}

enum { MOST = 4, ROUNDS = 25, ELEMS = 4096 };

/* The inputs of a case: its leaves, one element of which may be shifted for a finite difference. */
typedef struct inputs {
    syn_ctx *ctx;
    uint64_t state; /* state of the random numbers; the same for each evaluation */
    syn_tensor leaf[MOST];
    int n, moved_leaf; /* moved_leaf: the leaf with the shifted element; -1: none */
    int64_t moved_at;
    double by;
    bool ask; /* leaves require gradients */
} inputs;

static int64_t number(inputs *in, int64_t low, int64_t high) {
    return low + (int64_t)(random_u32(&in->state) % (uint64_t)(high - low + 1));
}

static double real(inputs *in) {
    return (double)random_u32(&in->state) / 4294967296.0 * 4 - 2;
}

static syn_tensor fresh(inputs *in, const syn_spec *spec) {
    static float values[ELEMS];
    const int64_t n = syn_spec_elems(spec);
    for (int64_t i = 0; i < n; i++) values[i] = (float)real(in);
    if (in->n == in->moved_leaf) values[in->moved_at] += (float)in->by;
    const syn_tensor t = syn_input(in->ctx, "leaf", spec, values);
    if (in->ask) syn_require_grad(in->ctx, t);
    return in->leaf[in->n++] = t;
}

/* A tensor of the given shape: either a leaf or a random view of one. */
static syn_tensor some(inputs *in, int rank, const int64_t *dims) {
    syn_spec spec = {SYN_F32, rank, {0}};
    int order[SYN_MAX_RANK], back[SYN_MAX_RANK];
    const int64_t kind = number(in, 0, 2);
    for (int d = 0; d < rank; d++) order[d] = d;
    for (int d = rank - 1; d > 0 && kind == 1; d--) {
        const int other = (int)number(in, 0, d), was = order[d];
        order[d] = order[other];
        order[other] = was;
    }
    for (int d = 0; d < rank; d++) back[order[d]] = d;
    for (int d = 0; d < rank; d++) spec.dims[d] = dims[order[d]];
    if (kind != 2 || rank == 0) {
        const syn_tensor t = fresh(in, &spec);
        return kind == 1 ? syn_permute(in->ctx, t, back, rank) : t;
    }
    const int axis = (int)number(in, 0, rank - 1);
    const int64_t before = number(in, 0, 2);
    spec.dims[axis] += before + number(in, 0, 2);
    return syn_slice(in->ctx, fresh(in, &spec), axis, before, dims[axis]);
}

#define SOME(in, ...)                                                         \
    some(in, (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
         (const int64_t[]){__VA_ARGS__})

static syn_tensor some_ids(inputs *in, int64_t n, int64_t low, int64_t high, int64_t ignored) {
    int32_t ids[64];
    const syn_spec spec = {SYN_I32, 1, {n}};
    for (int64_t i = 0; i < n; i++) {
        ids[i] = (int32_t)number(in, low, high);
        if (ignored && number(in, 0, 3) == 0) ids[i] = (int32_t)ignored;
    }
    return syn_input(in->ctx, "ids", &spec, ids);
}

/* ---- cases: each returns one tensor that depends on all leaves ---- */

static syn_tensor embedding(inputs *in) {
    const int64_t rows = number(in, 1, 6), width = number(in, 1, 5), first = number(in, 0, 2);
    const syn_tensor ids = some_ids(in, number(in, 1, 9), first - 1, first + rows, 0);
    const syn_tensor table = SOME(in, rows, width);
    return syn_embedding(in->ctx, table, ids, first);
}

static syn_tensor layernorm(inputs *in) {
    const int64_t n = number(in, 2, 9);
    const syn_tensor x = SOME(in, number(in, 1, 40), number(in, 1, 3), n);
    const syn_tensor w = SOME(in, n), b = SOME(in, n);
    return syn_layernorm(in->ctx, x, w, b, 1e-3);
}

static syn_tensor rmsnorm(inputs *in) {
    const int64_t n = number(in, 1, 9);
    const syn_tensor x = SOME(in, number(in, 1, 40), number(in, 1, 3), n);
    return syn_rmsnorm_offset(in->ctx, x, SOME(in, n), 1e-3, (double)number(in, 0, 1));
}

static syn_tensor rope(inputs *in) {
    const int64_t b = number(in, 1, 2), h = number(in, 1, 3), t = number(in, 1, 3),
                  half = number(in, 0, 3), rest = number(in, half ? 0 : 1, 2),
                  first = number(in, 0, rest);
    const int64_t ids[2] = {number(in, 0, 1) ? b : 1, t};
    float values[3];
    for (int i = 0; i < 3; i++) values[i] = (float)real(in);
    const syn_spec spec = {SYN_F32, 1, {half}};
    const syn_tensor at = syn_reshape(in->ctx, some_ids(in, ids[0] * t, 0, 50, 0), ids, 2);
    const syn_tensor frequencies = syn_input(in->ctx, "frequencies", &spec, values);
    return syn_rope_at(in->ctx, SOME(in, b, h, t, 2 * half + rest), at, frequencies, 1.25, first,
                       number(in, 0, 1));
}

static syn_tensor linear(inputs *in) {
    const int64_t k = number(in, 1, 6), n = number(in, 1, 6);
    const bool t = number(in, 0, 1), bias = number(in, 0, 1);
    const syn_tensor x = SOME(in, number(in, 1, 3), number(in, 1, 4), k);
    const syn_tensor w = t ? SOME(in, n, k) : SOME(in, k, n);
    return syn_linear(in->ctx, x, w, bias ? SOME(in, n) : SYN_NO_BIAS, t);
}

static syn_tensor matmul(inputs *in) {
    const int64_t b = number(in, 1, 3), m = number(in, 1, 5), k = number(in, 1, 5),
                  n = number(in, 1, 5);
    const bool ta = number(in, 0, 1), tb = number(in, 0, 1);
    const syn_tensor x = ta ? SOME(in, b, k, m) : SOME(in, b, m, k);
    return syn_matmul(in->ctx, x, tb ? SOME(in, b, n, k) : SOME(in, b, k, n), ta, tb);
}

static syn_tensor any(inputs *in) {
    return SOME(in, number(in, 1, 4), number(in, 1, 3), number(in, 1, 6));
}

static syn_tensor gelu(inputs *in) {
    return syn_gelu(in->ctx, any(in), number(in, 0, 1));
}

static syn_tensor tanh_(inputs *in) {
    return syn_tanh(in->ctx, any(in));
}

static syn_tensor relu(inputs *in) {
    return syn_relu(in->ctx, any(in));
}

static syn_tensor silu(inputs *in) {
    return syn_silu(in->ctx, any(in));
}

static syn_tensor swiglu(inputs *in) {
    const int64_t dims[2] = {number(in, 1, 4), number(in, 1, 6)};
    const syn_tensor gate = some(in, 2, dims);
    return syn_swiglu(in->ctx, gate, some(in, 2, dims));
}

static syn_tensor swiglu_clamped(inputs *in) {
    const int64_t dims[2] = {number(in, 1, 4), number(in, 1, 6)};
    const syn_tensor gate = some(in, 2, dims);
    return syn_swiglu_clamped(in->ctx, gate, some(in, 2, dims), 1.7, 0.8);
}

/* Two random tensors that broadcast with each other. */
static void pair(inputs *in, syn_tensor out[2]) {
    const int64_t dims[3] = {number(in, 1, 4), number(in, 1, 3), number(in, 1, 6)};
    for (int i = 0; i < 2; i++) {
        int64_t of[3];
        const int lead = (int)number(in, 0, 3);
        for (int d = lead; d < 3; d++) of[d - lead] = number(in, 0, 2) == 0 ? 1 : dims[d];
        out[i] = some(in, 3 - lead, of);
    }
}

static syn_tensor add(inputs *in) {
    syn_tensor x[2];
    pair(in, x);
    return syn_add(in->ctx, x[0], x[1]);
}

static syn_tensor mul(inputs *in) {
    syn_tensor x[2];
    pair(in, x);
    return syn_mul(in->ctx, x[0], x[1]);
}

/* A leaf that several ops use; one of them uses it twice. */
static syn_tensor shared(inputs *in) {
    const syn_tensor x = any(in), y = syn_tanh(in->ctx, x);
    return syn_add(in->ctx, syn_mul(in->ctx, y, y), syn_add(in->ctx, x, syn_scale(in->ctx, y, 3)));
}

/* A table that is used for a lookup and for a product, like the table of a tied head. */
static syn_tensor tied(inputs *in) {
    const int64_t rows = number(in, 2, 6);
    const syn_tensor table = SOME(in, rows, number(in, 1, 5));
    const syn_tensor ids = some_ids(in, number(in, 1, 9), 0, rows - 1, 0);
    const syn_tensor x = syn_embedding(in->ctx, table, ids, 0);
    return syn_linear(in->ctx, x, table, SYN_NO_BIAS, true);
}

/* Slices of one tensor, like queries, keys and values. */
static syn_tensor parts(inputs *in) {
    const int64_t n = number(in, 1, 4);
    const syn_tensor x = syn_tanh(in->ctx, SOME(in, number(in, 1, 4), 3 * n));
    const syn_tensor q = syn_slice(in->ctx, x, 1, 0, n), k = syn_slice(in->ctx, x, 1, n, n);
    return syn_mul(in->ctx, q, syn_mul(in->ctx, k, syn_slice(in->ctx, x, 1, 2 * n, n)));
}

static syn_tensor scale(inputs *in) {
    return syn_scale(in->ctx, any(in), -1.5);
}

static syn_tensor dropout(inputs *in) {
    const syn_tensor x = any(in);
    const syn_dropout_options how = {.p = 0.4, .seed = 7, .sample = 1000, .row = 3, .column = 5};
    const bool keys = number(in, 0, 1);
    return syn_dropout(in->ctx, x,
                       keys ? some_ids(in, syn_tensor_dim(in->ctx, x, 0), -9, 9, 0) : SYN_NO_KEYS,
                       &how);
}

static syn_tensor softmax(inputs *in) {
    return syn_softmax(in->ctx, any(in));
}

/* A causal mask with -infinity, followed by softmax. */
static syn_tensor masked(inputs *in) {
    const int64_t t = number(in, 1, 4);
    const syn_tensor x = SOME(in, number(in, 1, 2), number(in, 1, 2), t, t + number(in, 0, 2));
    const int64_t s = syn_tensor_dim(in->ctx, x, 3);
    return syn_softmax(in->ctx, syn_scale_mask(in->ctx, x, SYN_NO_MASK, 0.7, true, s - t));
}

/* A padding mask, which may hide all keys of a sequence or none of them. */
static syn_tensor some_mask(inputs *in, int64_t b, int64_t s) {
    float mask[512];
    const syn_spec spec = {SYN_F32, 2, {b, s}};
    if (number(in, 0, 1)) return SYN_NO_MASK;
    for (int64_t i = 0; i < b * s; i++) {
        mask[i] = (float)real(in);
        if (number(in, 0, 2) == 0) mask[i] = (float)-INFINITY;
    }
    return syn_input(in->ctx, "mask", &spec, mask);
}

/* With or without grouped keys. Some sizes need several tiles of queries and several parts of
   keys. */
static syn_tensor attention(inputs *in) {
    const bool large = number(in, 0, 9) == 0;
    const int64_t b = large ? 1 : number(in, 1, 2), g = large ? 1 : number(in, 1, 2),
                  h = g * number(in, 1, 2), t = large ? 18 : number(in, 1, 5),
                  d = large ? 1 : number(in, 1, 4), values = number(in, 1, d + 1);
    const int64_t s = t + (large ? 250 : 0) + number(in, 0, 3);
    const syn_tensor q = SOME(in, b, h, t, d), k = SOME(in, b, g, s, d),
                     v = SOME(in, b, g, s, values);
    syn_attention_options how = {
        .mask = some_mask(in, b, s),
        .scale = 0.6,
        .causal = number(in, 0, 1),
        .offset = s - t,
        .dropout = {.p = number(in, 0, 1) ? 0.4 : 0, .seed = 3, .row = 11, .column = 2}};
    if (how.causal && number(in, 0, 1)) how.window = number(in, 1, s + 1);
    if (number(in, 0, 1)) how.keys = some_ids(in, b, 0, 1000, 0);
    if (number(in, 0, 1)) how.sinks = SOME(in, h);
    return syn_attention_train(in->ctx, q, k, v, &how);
}

static syn_tensor reshape(inputs *in) {
    const int64_t a = number(in, 1, 3), b = number(in, 1, 4), dims[2] = {2 * b, -1};
    return syn_reshape(in->ctx, SOME(in, a, b, 2), dims, 2);
}

static syn_tensor permute(inputs *in) {
    const int order[3] = {2, 0, 1};
    return syn_permute(in->ctx, any(in), order, 3);
}

static syn_tensor slice(inputs *in) {
    const syn_tensor x = any(in);
    const int64_t n = syn_tensor_dim(in->ctx, x, 2), start = number(in, 0, n - 1);
    return syn_slice(in->ctx, x, 2, start, number(in, 1, n - start));
}

static syn_tensor contiguous(inputs *in) {
    const int order[2] = {1, 0};
    const syn_tensor x = SOME(in, number(in, 2, 4), number(in, 2, 5));
    return syn_contiguous(in->ctx, syn_permute(in->ctx, x, order, 2));
}

static syn_tensor concat(inputs *in) {
    const int64_t n = number(in, 1, 4);
    const syn_tensor x[3] = {SOME(in, number(in, 1, 3), n), SOME(in, number(in, 1, 3), n),
                             SOME(in, number(in, 1, 3), n)};
    return syn_concat(in->ctx, x, 3, 0);
}

static syn_tensor sum_to(inputs *in) {
    const int64_t a = number(in, 1, 70), b = number(in, 1, 4), c = number(in, 1, 5);
    const int64_t dims[3] = {number(in, 0, 1) ? 1 : a, number(in, 0, 1) ? 1 : b,
                             number(in, 0, 1) ? 1 : c};
    const int lead = (int)number(in, 0, 3);
    return syn_sum_to(in->ctx, SOME(in, a, b, c), dims + lead, 3 - lead);
}

static syn_tensor expand(inputs *in) {
    const int64_t a = number(in, 1, 4), b = number(in, 1, 4), dims[3] = {number(in, 1, 3), a, b};
    return syn_expand(in->ctx, number(in, 0, 1) ? SOME(in, a, 1) : SOME(in, b), dims, 3);
}

static syn_tensor cross_entropy(inputs *in) {
    const int64_t n = number(in, 1, 9), v = number(in, 2, 7), classes = number(in, 1, v);
    const syn_spec one = {SYN_F32, 1, {1}};
    const float weight = (float)0.3;
    /* A new tensor, because the op overwrites it. */
    const syn_tensor x = syn_scale(in->ctx, SOME(in, n, v), 1.5);
    const syn_tensor ids = some_ids(in, n, 0, classes - 1, SYN_IGNORED_TARGET);
    const bool mean = number(in, 0, 1);
    return syn_cross_entropy(
        in->ctx, x, ids, mean ? SYN_MEAN : syn_input(in->ctx, "weight", &one, &weight), classes);
}

/* Runs as if on one rank that has all classes. */
static syn_tensor cross_entropy_join(inputs *in) {
    const int64_t n = number(in, 1, 9), v = number(in, 2, 7), classes = number(in, 1, v);
    const syn_attr attr[2] = {{.i = classes}, {.i = 0}};
    syn_tensor x[5] = {syn_scale(in->ctx, SOME(in, n, v), 1.5)}, out[2];
    x[1] = some_ids(in, n, 0, classes - 1, SYN_IGNORED_TARGET);
    syn__call_op(in->ctx, SYN_OP_CROSS_ENTROPY_PART, x, 2, attr, 2, NULL, x + 2);
    syn__call_op(in->ctx, SYN_OP_CROSS_ENTROPY_JOIN, x, 5, attr, 2, NULL, out);
    return out[1];
}

static syn_tensor cross_entropy_unfused(inputs *in) {
    const int64_t n = number(in, 1, 9), v = number(in, 2, 7), classes = number(in, 1, v);
    const syn_spec one = {SYN_F32, 1, {1}};
    const float weight = (float)0.3;
    const syn_tensor x = SOME(in, n, v), ids = some_ids(in, n, 0, classes - 1, SYN_IGNORED_TARGET);
    const bool mean = number(in, 0, 1);
    const syn_tensor loss = syn_cross_entropy_unfused(
        in->ctx, x, ids, mean ? SYN_MEAN : syn_input(in->ctx, "weight", &one, &weight), classes, 0,
        classes, NULL);
    const int64_t dims[1] = {1};
    return number(in, 0, 1) ? syn_reshape(in->ctx, loss, dims, 1) : loss;
}

/* The logits of a token are far apart, so that shifts do not change the choice. */
static syn_tensor route(inputs *in) {
    const int64_t groups = number(in, 0, 1) ? 1 : number(in, 1, 3), each = number(in, 1, 5),
                  n = groups * each, rows = number(in, 1, 4);
    syn_routing how = {.groups = groups, .top_groups = number(in, 1, groups)};
    how.k = number(in, 1, each * how.top_groups);
    how.score = number(in, 0, 1) ? SYN_SCORE_SOFTMAX : SYN_SCORE_SIGMOID;
    how.normalize = number(in, 0, 1);
    how.scale = number(in, 0, 1) ? 1 : 1.75;
    const bool with_bias = number(in, 0, 1);
    float levels[4 * 15], bias[15];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) { /* a permutation of 0 to n - 1 */
            const int64_t other = number(in, 0, j);
            levels[i * n + j] = levels[i * n + other];
            levels[i * n + other] = (float)j;
        }
    for (int64_t j = 0; j < n; j++) bias[j] = (float)(real(in) / 10);
    const syn_spec shape = {SYN_F32, 2, {rows, n}}, bias_shape = {SYN_F32, 1, {n}};
    const syn_tensor near = syn_scale(in->ctx, SOME(in, rows, n), 0.2),
                     far = syn_scale(in->ctx, syn_input(in->ctx, "levels", &shape, levels), 0.9);
    syn_tensor experts;
    return syn_route(in->ctx, syn_add(in->ctx, near, far),
                     with_bias ? syn_input(in->ctx, "bias", &bias_shape, bias) : SYN_NO_BIAS, &how,
                     &experts);
}

/* `n` different numbers below `all`, in a random order. */
static syn_tensor places(inputs *in, int64_t n, int64_t all) {
    int32_t at[64];
    const syn_spec spec = {SYN_I32, 1, {n}};
    for (int32_t i = 0; i < all; i++) {
        const int64_t other = number(in, 0, i);
        at[i] = at[other];
        at[other] = i;
    }
    return syn_input(in->ctx, "places", &spec, at);
}

static syn_tensor zigzag(inputs *in) {
    const int64_t ranks = number(in, 1, 3), length = number(in, 1, 2);
    const int axis = (int)number(in, 0, 1);
    const syn_tensor x = axis ? SOME(in, number(in, 1, 3), 2 * ranks * length)
                              : SOME(in, 2 * ranks * length, number(in, 1, 3));
    const syn_tensor y = syn_zigzag_split(in->ctx, x, axis, ranks);
    return number(in, 0, 1) ? y : syn_zigzag_join(in->ctx, syn_mul(in->ctx, y, y), axis);
}

static syn_tensor moe_permute(inputs *in) {
    const int64_t tokens = number(in, 1, 5), copies = number(in, 1, 3), all = tokens * copies;
    const syn_tensor x = SOME(in, tokens, number(in, 1, 5));
    return syn_moe_permute(in->ctx, x, places(in, number(in, 1, all), all), copies);
}

static syn_tensor moe_unpermute(inputs *in) {
    const int64_t tokens = number(in, 1, 5), copies = number(in, 1, 3), all = tokens * copies,
                  rows = number(in, 1, all);
    const syn_tensor x = SOME(in, rows, number(in, 1, 5));
    return syn_moe_unpermute(in->ctx, x, places(in, rows, all), tokens, copies);
}

/* Some experts have no rows. */
static syn_tensor grouped_linear(inputs *in) {
    const int64_t experts = number(in, 1, 4), rows = number(in, 1, 6), k = number(in, 1, 5),
                  n = number(in, 1, 5);
    const bool t = number(in, 0, 1);
    int64_t sizes[4] = {0};
    const syn_spec spec = {SYN_I64, 1, {experts}};
    for (int64_t i = 0; i < rows; i++) sizes[number(in, 0, experts - 1)]++;
    const syn_tensor x = SOME(in, rows, k);
    const syn_tensor w = t ? SOME(in, experts, n, k) : SOME(in, experts, k, n);
    const syn_tensor bias =
        number(in, 0, 1) ? syn_contiguous(in->ctx, SOME(in, experts, n)) : SYN_NO_BIAS;
    return syn_grouped_linear(in->ctx, x, w, syn_input(in->ctx, "sizes", &spec, sizes), bias, t);
}

/* One matrix for two products, whose gradients are added. */
static syn_tensor grouped_twice(inputs *in) {
    const int64_t experts = number(in, 1, 3), rows = number(in, 1, 6), n = number(in, 1, 5);
    int64_t sizes[3] = {0};
    const syn_spec spec = {SYN_I64, 1, {experts}};
    for (int64_t i = 0; i < rows; i++) sizes[number(in, 0, experts - 1)]++;
    const syn_tensor x = SOME(in, rows, n), w = SOME(in, experts, n, n),
                     of = syn_input(in->ctx, "sizes", &spec, sizes);
    const syn_tensor y = syn_grouped_linear(in->ctx, x, w, of, SYN_NO_BIAS, false);
    return syn_grouped_linear(in->ctx, syn_tanh(in->ctx, y), w, of, SYN_NO_BIAS, true);
}

/* ---- the check ---- */

static unsigned char seen[SYN_OP_COUNT];

/* The sum of the elements of the case's result, each multiplied by its own weight. A scalar result
   is the loss itself, which also tests ops that compute a loss. */
static syn_tensor loss_of(syn_tensor (*build)(inputs *in), inputs *in) {
    const syn_tensor y = build(in);
    const syn_spec spec = *syn_tensor_spec(in->ctx, y);
    if (spec.rank == 0) return y;
    static float weights[ELEMS];
    for (int64_t i = 0; i < syn_spec_elems(&spec); i++) weights[i] = (float)real(in);
    const syn_tensor w = syn_input(in->ctx, "weights", &spec, weights);
    return syn_sum_to(in->ctx, syn_mul(in->ctx, y, w), NULL, 0);
}

static double value(syn_tensor (*build)(inputs *in), inputs in) {
    syn_error err = {0};
    float loss = (float)NAN;
    if (syn_ctx_new(&in.ctx, SYN_DEVICE_CPU, NULL, &err) != SYN_OK) abort();
    const syn_tensor t = loss_of(build, &in);
    if (syn_tensor_read(in.ctx, t, &loss, sizeof loss) != SYN_OK)
        fprintf(stderr, "%s\n", syn_ctx_error(in.ctx)->text);
    syn_ctx_free(in.ctx);
    return (double)loss;
}

static void note(const syn_ctx *ctx) {
    const syn_trace *t = syn_ctx_trace(ctx);
    for (size_t i = 1; i < t->n_nodes; i++)
        if (t->nodes[i].phase == SYN_PHASE_FORWARD) seen[t->nodes[i].op] = 1;
}

static void check_case(const char *name, syn_tensor (*build)(inputs *in), uint64_t seed) {
    const double step = 1e-5;
    inputs in = {.state = seed * 7919 + 1, .moved_leaf = -1, .ask = true};
    const inputs plain = {.state = in.state, .moved_leaf = -1};
    syn_error err = {0};
    CHECK_OK(syn_ctx_new(&in.ctx, SYN_DEVICE_CPU, NULL, &err), err);
    const syn_tensor loss = loss_of(build, &in);
    CHECK_MSG(syn_backward(in.ctx, loss) == SYN_OK, "%s: %s", name, syn_ctx_error(in.ctx)->text);
    note(in.ctx);
    for (int l = 0; l < in.n; l++) {
        static float got[ELEMS];
        const syn_spec spec = *syn_tensor_spec(in.ctx, in.leaf[l]);
        const int64_t n = syn_spec_elems(&spec);
        const syn_tensor g = syn_grad(in.ctx, in.leaf[l]);
        CHECK_MSG(g.id && syn_spec_equal(syn_tensor_spec(in.ctx, g), &spec), "%s: leaf %d", name,
                  l);
        CHECK(syn_tensor_read(in.ctx, g, got, (size_t)n * sizeof *got) == SYN_OK);
        for (int64_t i = 0; i < n; i++) {
            inputs up = plain, down = plain;
            up.moved_leaf = down.moved_leaf = l;
            up.moved_at = down.moved_at = i;
            up.by = step;
            down.by = -step;
            const double want = (value(build, up) - value(build, down)) / (2 * step);
            CHECK_MSG(fabs((double)got[i] - want) <= 1e-7 * (1 + fabs(want)),
                      "%s, seed %llu, leaf %d, element %lld: %.12g, differences %.12g", name,
                      (unsigned long long)seed, l, (long long)i, (double)got[i], want);
        }
    }
    CHECK_OK(syn_trace_verify(syn_ctx_trace(in.ctx), &err), err);
    syn_ctx_free(in.ctx);
}

static const struct rule_case {
    const char *name;
    syn_tensor (*build)(inputs *in);
} rule_cases[] = {
    {"embedding", embedding},
    {"layernorm", layernorm},
    {"rmsnorm", rmsnorm},
    {"rope", rope},
    {"linear", linear},
    {"matmul", matmul},
    {"gelu", gelu},
    {"silu", silu},
    {"relu", relu},
    {"swiglu", swiglu},
    {"tanh", tanh_},
    {"swiglu_clamped", swiglu_clamped},
    {"add", add},
    {"mul", mul},
    {"shared", shared},
    {"tied", tied},
    {"parts", parts},
    {"scale", scale},
    {"dropout", dropout},
    {"softmax", softmax},
    {"masked", masked},
    {"attention", attention},
    {"reshape", reshape},
    {"permute", permute},
    {"slice", slice},
    {"contiguous", contiguous},
    {"concat", concat},
    {"sum_to", sum_to},
    {"expand", expand},
    {"cross_entropy", cross_entropy},
    {"cross_entropy_join", cross_entropy_join},
    {"cross_entropy_unfused", cross_entropy_unfused},
    {"route", route},
    {"zigzag", zigzag},
    {"moe_permute", moe_permute},
    {"moe_unpermute", moe_unpermute},
    {"grouped_linear", grouped_linear},
    {"grouped_twice", grouped_twice},
};

static void test_rules(void) {
    for (size_t i = 0; i < sizeof rule_cases / sizeof *rule_cases; i++)
        for (uint64_t seed = 1; seed <= ROUNDS && test_failures == 0; seed++)
            check_case(rule_cases[i].name, rule_cases[i].build, seed);
}

/* Ops that only convert between float types. This build has one float type; test_ops_half tests the
   gradients of casts. */
static bool of_types(syn_op op) {
    return op == SYN_OP_CAST;
}

/* Ops whose gradient is that of a loss which is not their output; test_ops_experts tests it. */
static bool adds_losses(syn_op op) {
    return op == SYN_OP_ROUTER_LOSS;
}

/* Ops whose gradient communicates, and therefore needs several ranks. */
static bool communicates_in_backward(syn_op op) {
    return op == SYN_OP_TP_ENTER || op == SYN_OP_CUT_TOKENS || op == SYN_OP_CONTEXT_ATTENTION ||
           (syn_op_table[op].flags & SYN_OPF_COMM);
}

static void test_every_rule_has_a_case(void) {
    for (syn_op op = SYN_OP_NONE; op < SYN_OP_COUNT; op++)
        CHECK_MSG(!syn_op_table[op].grad || seen[op] || communicates_in_backward(op) ||
                      of_types(op) || adds_losses(op),
                  "no case differentiates '%s'", syn_op_table[op].name);
}

static const test_case cases[] = {
    {"rules", test_rules},
    {"every rule has a case", test_every_rule_has_a_case},
};
TEST_MAIN(cases)
