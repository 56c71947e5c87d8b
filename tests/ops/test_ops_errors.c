/* Tests which calls each op rejects. The message must name the op, the scope and the shapes. */
#include "comm/comm.h"
#include "ops/rules.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

#define F(...)  ZEROS(c, SYN_F32, __VA_ARGS__)
#define I(...)  ZEROS(c, SYN_I32, __VA_ARGS__)
#define L(...)  ZEROS(c, SYN_I64, __VA_ARGS__)
#define NOBODYS ((syn_tensor){999, 1})
#define DIMS(...)       \
    (const int64_t[]) { \
        __VA_ARGS__     \
    }

static const double not_a_number = (double)NAN;

static void top(syn_ctx *c, syn_tensor x, int64_t k) {
    syn_tensor where = {77, 1};
    syn_top_k(c, x, k, &where);
    if (where.id != 0) abort(); /* on failure, both results are the invalid tensor */
}

static void least(syn_ctx *c, syn_tensor x, double min_p) {
    syn_sample(c, x, &(syn_sampling){1, 0, 1, 1, min_p}, 0);
}

static void sample(syn_ctx *c, syn_tensor x, double temperature, int64_t top_k, double top_p) {
    const syn_sampling how = {temperature, top_k, top_p, 1, 0};
    syn_sample(c, x, &how, 0);
}

static void permute(syn_ctx *c, syn_tensor x, int a, int b, int rank) {
    syn_permute(c, x, (const int[]){a, b}, rank);
}

static void concat(syn_ctx *c, syn_tensor a, syn_tensor b, int n, int axis) {
    syn_tensor xs[17];
    for (size_t i = 0; i < COUNT(xs); i++) xs[i] = i % 2 ? b : a;
    syn_concat(c, xs, n, axis);
}

static void attend(syn_ctx *c, syn_tensor mask, syn_tensor keys, double p) {
    const syn_attention_options how = {.mask = mask, .keys = keys, .dropout = {.p = p}};
    const syn_tensor q = F(2, 2, 3, 4), k = F(2, 1, 5, 4);
    syn_attention_train(c, q, k, k, &how);
}

/* Attention of two sequences, with 2 of 5 and 1 of `keys` tokens. */
static void serve(syn_ctx *c, syn_tensor q, syn_tensor k, syn_tensor v, syn_tensor blocks,
                  int64_t block, int32_t keys, syn_tensor sinks) {
    const int32_t queries[2] = {2, 1}, both[2] = {5, keys};
    const syn_paged_options how = {.block_tokens = block,
                                   .window = block == 1 ? -1 : 0,
                                   .n = 2,
                                   .queries = queries,
                                   .keys = both,
                                   .blocks = blocks,
                                   .sinks = sinks};
    syn_paged_attention(c, q, k, v, &how);
}

/* Calls attention_grad with a result y, a log-sum-exp `sums` and a result's gradient dy of any
   shape. */
static void attend_grad(syn_ctx *c, syn_tensor y, syn_tensor sums, syn_tensor dy) {
    const syn_tensor q = F(2, 2, 3, 4), k = F(2, 1, 5, 4), in[6] = {q, k, k, y, sums, dy};
    const syn_attr attr[8] = {{0}};
    syn_tensor out[3];
    syn__call_op(c, SYN_OP_ATTENTION_GRAD, in, 6, attr, 8, NULL, out);
}

static void drop(syn_ctx *c, syn_tensor x, syn_tensor keys, double p) {
    syn_dropout(c, x, keys, &(syn_dropout_options){.p = p});
}

static void recv(syn_ctx *c, int dtype, int rank, int64_t dim, int peer, int tag) {
    const syn_spec spec = {dtype, rank, {dim, 2}};
    syn_recv(c, &spec, peer, tag);
}

static syn_tensor turned(syn_ctx *c, syn_tensor x) {
    return syn_permute(c, x, (const int[]){1, 0}, 2);
}

/* Calls an op that only gradient rules build. */
static void built(syn_ctx *c, syn_op op, syn_tensor a, syn_tensor b, syn_tensor third, int64_t i0,
                  int64_t i1, int64_t i2) {
    const syn_tensor in[3] = {a, b, third};
    const syn_attr attr[3] = {{.i = i0}, {.i = i1}, {.i = i2}};
    syn_tensor out[3];
    syn__call_op(c, op, in, third.id ? 3 : b.id ? 2 : 1, attr, 3, NULL, out);
}
#define NONE ((syn_tensor){0, 0})

static void onto_itself(syn_ctx *c, syn_tensor x) {
    syn_matmul_add(c, x, x, F(3, 3), false, false);
}

static void clip(syn_ctx *c, syn_tensor squares) {
    syn_tensor norm;
    syn_clip_factor(c, squares, 1, &norm);
}

static void step(syn_ctx *c, int n, syn_tensor p, syn_tensor g, int64_t moments, int64_t rates) {
    syn_tensor params[1] = {p}, m = F(moments), v = F(moments);
    const syn_adamw_call call = {
        .params = params, .grads = &g, .n = n, .m = &m, .v = &v, .rates = F(rates), .scale = F(1)};
    syn_adamw_step(c, &call);
}

static void together(syn_ctx *c, syn_tensor a, syn_tensor b, int n, int root, const syn_group *g) {
    syn_tensor xs[2] = {a, b};
    if (root >= 0) syn_broadcast_coalesced(c, xs, n, root, g);
    else syn_all_reduce_coalesced(c, xs, n, root == -1 ? SYN_REDUCE_SUM : (syn_reduce)9, g);
}

static void gather_list(syn_ctx *c, syn_tensor a, syn_tensor b, int n, syn_tensor part,
                        const syn_group *g) {
    syn_tensor xs[2] = {a, b};
    syn_all_gather_coalesced(c, xs, n, part, g);
}

static syn_tensor released(syn_ctx *c) {
    const syn_tensor t = F(2, 2);
    syn_release(c, (syn_mark){t.id, 0, t.tag}, NULL, 0);
    return t;
}

static void param(syn_ctx *c, syn_dtype dtype, int64_t rows, syn_shard shard) {
    const syn_spec spec = {(int32_t)dtype, 2, {rows, 4}};
    syn_param(c, "wte.weight", &spec, shard, SYN_INIT_ZERO, 0, -1, 0);
}

static void routed(syn_ctx *c, syn_tensor logits, syn_tensor bias, syn_routing how) {
    syn_tensor experts;
    syn_route(c, logits, bias, &how, &experts);
}
#define HOW(...) ((syn_routing){__VA_ARGS__})

/* Calls route_grad for k = 2. */
static void route_grad(syn_ctx *c, syn_tensor logits, syn_tensor experts, syn_tensor dw,
                       int64_t groups) {
    const syn_attr attr[6] = {{.i = 2}, {.i = 0}, {.i = 1}, {.i = groups}, {.i = 1}, {.f = 1}};
    const syn_tensor in[3] = {logits, experts, dw};
    syn_tensor out;
    syn__call_op(c, SYN_OP_ROUTE_GRAD, in, 3, attr, 6, NULL, &out);
}

static syn_tensor counts_of(syn_ctx *c, int64_t n) {
    static const int64_t counts[4] = {1, 2, 3, 4};
    const syn_spec spec = {SYN_I64, 1, {n}};
    return syn_input(c, "counts", &spec, counts);
}
#define LOSSES(...) (&(syn_router_losses){__VA_ARGS__})

static void moved_bias(syn_ctx *c, syn_tensor bias, syn_tensor counts, double rate) {
    syn_router_bias_update(c, &bias, &counts, rate);
}

static void merged(syn_ctx *c, syn_tensor out, syn_tensor log_sum, syn_tensor part,
                   syn_tensor part_log_sum, int64_t first) {
    syn_attention_merge(c, &out, &log_sum, part, part_log_sum, first);
}

static void limited(syn_ctx *c, syn_tensor places, syn_tensor sizes, int64_t capacity) {
    syn_expert_capacity(c, places, capacity, &sizes);
}

static void ordered(syn_ctx *c, syn_tensor counts, int64_t first, int64_t n, int64_t rows) {
    syn_tensor sizes;
    syn_expert_order(c, counts, first, n, rows, &sizes);
}

static void exchanged(syn_ctx *c, syn_tensor x, int64_t to, int64_t from, const syn_group *g) {
    int64_t all[2][8];
    for (int i = 0; i < 8; i++) all[0][i] = to, all[1][i] = from;
    syn_all_to_all(c, x, all[0], all[1], 7, g);
}

static void sorted(syn_ctx *c, syn_tensor experts, int64_t n) {
    syn_tensor sizes;
    syn_sort_by_expert(c, experts, n, &sizes);
}

/* A view of one row that has n rows. */
static syn_tensor tall(syn_ctx *c, int64_t n, int64_t columns) {
    return syn_expand(c, I(1, columns), DIMS(n, columns), 2);
}

static void grouped(syn_ctx *c, syn_tensor x, syn_tensor w, syn_tensor sizes, bool t) {
    syn_grouped_linear(c, x, w, sizes, SYN_NO_BIAS, t);
}

static void grouped_bias(syn_ctx *c, syn_tensor bias) {
    syn_grouped_linear(c, F(4, 2), F(3, 2, 5), L(3), bias, false);
}

static void sink(syn_ctx *c, syn_tensor sinks) {
    syn_attention_sinks(c, F(1, 2, 3, 4), F(1, 1, 5, 4), F(1, 1, 5, 4), SYN_NO_MASK, sinks, 1, 2,
                        0);
}

static void sinks_grad(syn_ctx *c, syn_tensor y, syn_tensor sums, syn_tensor dy, syn_tensor sinks) {
    syn_tensor out;
    syn__call_op(c, SYN_OP_SINKS_GRAD, (const syn_tensor[]){y, sums, dy, sinks}, 4, NULL, 0, NULL,
                 &out);
}

/* Each line has a call and a part of the expected message. */
#define REFUSED(X)                                                                                 \
    X(syn_embedding(c, F(5, 4), F(2), 0), "embedding in h.0: input 1 must be i32, but is f32[2]")  \
    X(syn_embedding(c, I(5, 4), I(2), 0), "input 0 must be f32, f16 or bf16, but is i32[5,4]")     \
    X(syn_embedding(c, F(5), I(2), 0), "a table (V, C), but is f32[5]")                            \
    X(syn_embedding(c, F(5, 4), I(1, 1, 1, 1, 1, 1), 0), "fewer dimensions")                       \
    X(syn_layernorm(c, F(2, 3), F(4), F(3), 1e-5), "layernorm in h.0: input 1 must be (C)")        \
    X(syn_layernorm(c, F(2, 3), F(3), F(1, 3), 1e-5), "input 2 must be (C)")                       \
    X(syn_layernorm(c, I(2, 3), F(3), F(3), 1e-5), "f32, f16 or bf16, but is i32[2,3]")            \
    X(syn_layernorm(c, ref_scalar(c), F(1), F(1), 1e-5), "(..., C) with C > 0, but is f32[]")      \
    X(syn_layernorm(c, F(2, 0), F(0), F(0), 1e-5), "C > 0")                                        \
    X(syn_rmsnorm(c, F(2, 3), F(4), 1e-5), "rmsnorm in h.0: input 1 must be (C)")                  \
    X(syn_rope(c, F(2, 3), I(1, 3), F(1), 1), "rope in h.0: input 0 must be heads (B, H, T, D)")   \
    X(syn_rope(c, F(2, 1, 3, 4), F(1, 3), F(1), 1), "input 1 must be i32")                         \
    X(syn_rope_at(c, F(2, 1, 3, 4), I(1, 3), F(1), 1, 3, false),                                   \
      "input 2 must be at most one frequency per two elements of a head")                          \
    X(syn_rope_at(c, F(2, 1, 3, 4), I(1, 3), F(1), 1, 5, false),                                   \
      "heads of 4 elements have no element 5")                                                     \
    X(syn_rope(c, F(2, 1, 3, 4), I(1, 4), F(1), 1), "input 1 must be positions (B, T) or (1, T)")  \
    X(syn_rope(c, F(2, 1, 3, 4), I(3, 3), F(1), 1), "positions (B, T) or (1, T)")                  \
    X(syn_rope(c, F(2, 1, 3, 4), I(2, 3), F(3), 1),                                                \
      "input 2 must be at most one frequency per two")                                             \
    X(syn_swiglu(c, F(2, 3), F(3, 2)), "swiglu in h.0: input 1 must be like input 0")              \
    X(syn_scale_mask_window(c, F(2, 3), SYN_NO_MASK, 1, 0, -1),                                    \
      "invalid window: -1 keys at offset 0")                                                       \
    X(syn_attention_window(c, F(1, 1, 2, 2), F(1, 1, 2, 2), F(1, 1, 2, 2), SYN_NO_MASK, 1,         \
                           INT64_MAX, 3),                                                          \
      "invalid window: 3 keys at offset 9223372036854775807, causal 1")                            \
    X(syn_linear(c, F(2, 3), F(4, 5), SYN_NO_BIAS, false),                                         \
      "linear in h.0: the inner dimensions of f32[2,3] and f32[4,5] differ")                       \
    X(syn_linear(c, F(2, 3), F(4, 5), SYN_NO_BIAS, true), "f32[4,5] transposed differ")            \
    X(syn_linear(c, F(2, 3), F(3), SYN_NO_BIAS, false), "input 1 must be a matrix")                \
    X(syn_linear(c, F(2, 3), F(3, 5), F(4), false), "input 2 must be a bias (N), but is f32[4]")   \
    X(syn_linear(c, F(2, 3), F(3, 5), I(5), false), "input 2 must be f32, but is i32[5]")          \
    X(syn_linear(c, ref_scalar(c), F(1, 5), SYN_NO_BIAS, false), "input 0 must be (..., K)")       \
    X(syn_matmul(c, F(2, 3), F(2, 3), false, false),                                               \
      "matmul in h.0: cannot multiply f32[2,3] and f32[2,3]")                                      \
    X(syn_matmul(c, F(2, 3), F(2, 4), true, true), "f32[2,3] transposed and f32[2,4] transposed")  \
    X(syn_matmul(c, F(2, 3, 4), F(3, 4, 5), false, false),                                         \
      "cannot multiply f32[2,3,4] and f32[3,4,5]")                                                 \
    X(syn_matmul(c, F(2, 3, 4), F(4, 5), false, false), "cannot multiply")                         \
    X(syn_matmul(c, F(3), F(3), false, false), "input 0 must be (..., M, K)")                      \
    X(syn_matmul(c, F(3, 3), I(3, 3), false, false), "input 1 must be f32")                        \
    X(syn_gelu(c, I(3), true), "gelu in h.0: input 0 must be f32, f16 or bf16, but is i32[3]")     \
    X(syn_scale(c, ref_scalar(c), 2), "of at least one dimension, but is f32[]")                   \
    X(syn_add(c, F(2, 3), F(2, 4)),                                                                \
      "add in h.0: the shapes f32[2,3] and f32[2,4] do not broadcast")                             \
    X(syn_mul(c, F(0), F(3)), "mul in h.0: the shapes f32[0] and f32[3] do not broadcast")         \
    X(syn_add(c, F(2), I(2)), "input 1 must be f32 like input 0, but is i32[2]")                   \
    X(drop(c, F(2, 3), SYN_NO_KEYS, 1.0), "dropout in h.0: the probability 1 is not in [0, 1)")    \
    X(drop(c, F(2, 3), SYN_NO_KEYS, -0.1), "the probability -0.1 is not in [0, 1)")                \
    X(drop(c, F(2, 3), SYN_NO_KEYS, not_a_number), "is not in [0, 1)")                             \
    X(drop(c, F(2), SYN_NO_KEYS, 0.1), "dropout in h.0: input 0 must be (B, ..., C)")              \
    X(drop(c, F(2, 3), F(2), 0.1), "input 1 must be i32, but is f32[2]")                           \
    X(drop(c, F(2, 3), I(3), 0.1), "input 1 must be one key per sample (B), but is i32[3]")        \
    X(drop(c, F(2, 3), I(2, 1), 0.1), "input 1 must be one key per sample (B)")                    \
    X(syn_softmax(c, I(2, 2)), "softmax in h.0: input 0 must be f32")                              \
    X(syn_attention(c, F(2, 3, 4), F(2, 3, 4), F(2, 3, 4), SYN_NO_MASK, 1, true, 0),               \
      "attention in h.0: input 0 must be (B, H, T, D)")                                            \
    X(syn_attention(c, F(1, 2, 3, 4), F(1, 2, 5, 3), F(1, 2, 5, 3), SYN_NO_MASK, 1, true, 0),      \
      "input 1 must be keys")                                                                      \
    X(syn_attention(c, F(1, 2, 3, 4), F(1, 2, 5, 4), F(1, 2, 6, 4), SYN_NO_MASK, 1, true, 0),      \
      "input 2 must be values")                                                                    \
    X(syn_attention(c, F(1, 2, 3, 4), F(1, 2, 5, 4), F(1, 2, 5, 4), F(1, 3), 1, true, 0),          \
      "attention in h.0: input 3 must be a mask (B, S) like the keys, but is f32[1,3]")            \
    X(syn_attention(c, F(1, 2, 3, 4), F(1, 2, 5, 4), F(1, 2, 5, 4), F(2, 5), 1, true, 0),          \
      "input 3 must be a mask")                                                                    \
    X(syn_attention(c, F(1, 2, 3, 4), F(1, 2, 5, 4), F(1, 2, 5, 4), I(1, 5), 1, true, 0),          \
      "input 3 must be f32, but is i32[1,5]")                                                      \
    X(attend(c, F(2, 4), SYN_NO_KEYS, 0),                                                          \
      "attention_train in h.0: input 3 must be a mask (B, S) like the keys, but is f32[2,4]")      \
    X(attend(c, SYN_NO_MASK, I(3), 0), "input 3 must be one key per sample (B), but is i32[3]")    \
    X(attend(c, F(2, 5), F(2), 0), "input 4 must be i32, but is f32[2]")                           \
    X(attend(c, SYN_NO_MASK, I(2), 1), "attention_train in h.0: the probability 1 is not in [0")   \
    X(attend_grad(c, F(2, 2, 3, 4), F(2, 2, 3), F(2, 3, 2, 4)),                                    \
      "attention_grad in h.0: input 3 must be attention_train's output (B, T, H, Dv)")             \
    X(attend_grad(c, F(2, 3, 2, 4), F(2, 3, 2), F(2, 3, 2, 4)),                                    \
      "input 4 must be attention_train's output (B, H, T), but is f32[2,3,2]")                     \
    X(attend_grad(c, F(2, 3, 2, 4), F(2, 2, 3), F(2, 3, 8)),                                       \
      "input 5 must be a gradient (B, T, H, D), but is f32[2,3,8]")                                \
    X(syn_tanh(c, I(3)), "tanh in h.0: input 0 must be f32, f16 or bf16, but is i32[3]")           \
    X(syn_scale_mask(c, F(3, 3), F(3, 3), 1, true, 0),                                             \
      "scale_mask in h.0: input 0 must be scores (B, H, T, S) to be masked, but is f32[3,3]")      \
    X(syn_scale_mask(c, F(2, 1, 3, 4), F(4), 1, true, 0), "input 1 must be a mask (B, S)")         \
    X(syn_scale_mask(c, F(2, 1, 3, 4), F(1, 4), 1, true, 0), "input 1 must be a mask (B, S)")      \
    X(syn_scale_mask(c, F(2, 1, 3, 4), F(2, 3), 1, true, 0), "but is f32[2,3]")                    \
    X(syn_scale_mask(c, F(2, 1, 3, 4), I(2, 4), 1, true, 0), "input 1 must be f32")                \
    X(syn_kv_append(c, F(1, 2, 8, 4), F(1, 2, 3, 4), 6),                                           \
      "kv_append in h.0: 3 rows at position 6 do not fit into a cache of 8 rows")                  \
    X(syn_kv_append(c, F(1, 2, 8, 4), F(1, 2, 3, 4), -1), "position -1")                           \
    X(syn_kv_append(c, F(1, 2, 8, 4), F(1, 2, 9, 4), 0), "9 rows at position 0")                   \
    X(syn_kv_append(c, F(1, 2, 8, 4), F(1, 3, 3, 4), 0),                                           \
      "input 1 must be (B, H, T, D) like the cache")                                               \
    X(syn_kv_append(c, F(1, 2, 8, 4), I(1, 2, 3, 4), 0), "like the cache, but is i32[1,2,3,4]")    \
    X(syn_kv_append(c, F(2, 8, 4), F(2, 3, 4), 0), "input 0 must be a cache")                      \
    X(syn_kv_append(c, syn_permute(c, F(1, 2, 4, 8), (const int[]){0, 1, 3, 2}, 4), F(1, 2, 3, 4), \
                    0),                                                                            \
      "the last dimension of input 0 is not contiguous")                                           \
    X(syn_paged_append(c, F(2, 2, 8, 4), F(2, 2, 3, 4), I(3)),                                     \
      "paged_append in h.0: input 0 must be a cache (1, G, N, D), but is f32[2,2,8,4]")            \
    X(syn_paged_append(c, F(1, 2, 8, 4), F(1, 3, 3, 4), I(3)), "input 1 must be (1, G, T, D)")     \
    X(syn_paged_append(c, F(1, 2, 8, 4), F(1, 2, 3, 4), I(2)), "input 2 must be a slot per token") \
    X(syn_paged_append(c, F(1, 2, 8, 4), F(1, 2, 3, 4), F(3)), "input 2 must be i32")              \
    X(serve(c, F(2, 4, 3, 4), F(1, 2, 8, 4), F(1, 2, 8, 4), I(2, 2), 4, 3, SYN_NO_MASK),           \
      "paged_attention in h.0: input 0 must be queries (1, H, T, D), but is f32[2,4,3,4]")         \
    X(serve(c, F(1, 4, 3, 4), F(1, 3, 8, 4), F(1, 3, 8, 4), I(2, 2), 4, 3, SYN_NO_MASK),           \
      "input 1 must be a cache (1, G, N, D) like the queries")                                     \
    X(serve(c, F(1, 4, 3, 4), F(1, 2, 8, 4), F(1, 2, 9, 4), I(2, 2), 4, 3, SYN_NO_MASK),           \
      "input 2 must be a cache (1, G, N, Dv) like that of the keys")                               \
    X(serve(c, F(1, 4, 3, 4), F(1, 2, 8, 4), F(1, 2, 8, 4), I(2, 2), 3, 3, SYN_NO_MASK),           \
      "blocks of 3 slots do not divide a cache of 8")                                              \
    X(serve(c, F(1, 4, 3, 4), F(1, 2, 8, 4), F(1, 2, 8, 4), I(2, 8), 1, 3, SYN_NO_MASK),           \
      "the window -1 is negative")                                                                 \
    X(serve(c, F(1, 4, 3, 4), F(1, 2, 8, 4), F(1, 2, 8, 4), I(1, 2), 4, 3, SYN_NO_MASK),           \
      "input 3 must be the blocks of each sequence (n, max_blocks)")                               \
    X(serve(c, F(1, 4, 3, 4), F(1, 2, 8, 4), F(1, 2, 8, 4), I(2, 2), 4, 9, SYN_NO_MASK),           \
      "sequence 1 has 1 new tokens of 9 tokens, but 2 blocks of 4")                                \
    X(serve(c, F(1, 4, 3, 4), F(1, 2, 8, 4), F(1, 2, 8, 4), I(2, 2), 4, 0, SYN_NO_MASK),           \
      "sequence 1 has 1 new tokens of 0 tokens")                                                   \
    X(serve(c, F(1, 4, 4, 4), F(1, 2, 8, 4), F(1, 2, 8, 4), I(2, 2), 4, 3, SYN_NO_MASK),           \
      "the sequences have 3 new tokens instead of 4")                                              \
    X(serve(c, F(1, 4, 3, 4), F(1, 2, 8, 4), F(1, 2, 8, 4), I(2, 2), 4, 3, F(3)),                  \
      "input 4 must be one sink per query head (H), of the same dtype")                            \
    X(syn_reshape(c, F(2, 3), DIMS(4), 1), "reshape in h.0: f32[2,3] cannot become f32[4]")        \
    X(syn_reshape(c, F(2, 3), DIMS(4, -1), 2), "f32[2,3] cannot become f32[4,1]")                  \
    X(syn_reshape(c, F(2, 3), DIMS(-1, -1), 2),                                                    \
      "more than one open dimension, or is too large (in h.0)")                                    \
    X(syn_reshape(c, F(2, 3), DIMS(-6), 1), "reshape: the new shape has a negative")               \
    X(syn_reshape(c, F(2, 3), DIMS(INT64_MAX, INT64_MAX), 2), "too large")                         \
    X(syn_reshape(c, F(2, 3), DIMS(6), 7),                                                         \
      "reshape got 7 dimensions but accepts at most 6 (in h.0)")                                   \
    X(syn_reshape(c, F(2, 3), DIMS(6), -1), "reshape got -1 dimensions")                           \
    X(permute(c, F(2, 3), 0, 0, 2),                                                                \
      "permute in h.0: the order is not a permutation of 2 dimensions")                            \
    X(permute(c, F(2, 3), 0, 2, 2), "not a permutation")                                           \
    X(permute(c, F(2, 3), -1, 0, 2), "not a permutation")                                          \
    X(permute(c, F(2, 3), 0, 1, 1), "permute got an order of 1 dimensions for a tensor of 2")      \
    X(syn_slice(c, F(4, 3), 0, 2, 3),                                                              \
      "slice in h.0: 3 elements from 2 on are outside dimension 0 of length 4")                    \
    X(syn_slice(c, F(4, 3), 0, -1, 3), "3 elements from -1 on")                                    \
    X(syn_slice(c, F(4, 3), 1, 0, -1), "-1 elements from 0 on")                                    \
    X(syn_slice(c, F(4, 3), 1, INT64_MAX, 1), "are outside dimension 1 of length 3")               \
    X(syn_slice(c, F(4, 3), 2, 0, 1), "dimension 2 does not exist: the tensor has 2")              \
    X(syn_slice(c, F(4, 3), -3, 0, 1), "dimension -1 does not exist: the tensor has 2")            \
    X(concat(c, F(2, 3), F(3, 3), 2, 1), "concat in h.0: input 1 must be like input 0 except in "  \
                                         "the concatenated dimension, but is f32[3,3]")            \
    X(concat(c, F(2, 3), I(2, 3), 2, 1), "but is i32[2,3]")                                        \
    X(concat(c, F(2, 3), F(2), 2, 1), "input 1 must be like input 0")                              \
    X(concat(c, F(2, 3), F(2, 3), 2, 2), "dimension 2 does not exist: the tensor has 2")           \
    X(concat(c, F(2, 3), F(2, 3), 0, 0), "concat in h.0: accepts 1 to 16 inputs, not 0")           \
    X(concat(c, F(2, 3), F(2, 3), 17, 0), "accepts 1 to 16 inputs, not 17")                        \
    X(concat(c, F(INT64_MAX / 4, 0), F(INT64_MAX / 4, 0), 16, 0), "too large")                     \
    X(syn_embedding_grad(c, F(2), F(2, 4), 0, 5, -1),                                              \
      "embedding_grad in h.0: input 0 must be i32, but is f32[2]")                                 \
    X(syn_embedding_grad(c, I(2), F(3, 4), 0, 5, -1),                                              \
      "input 1 must be (..., C) for ids (...), but is f32[3,4]")                                   \
    X(syn_embedding_grad(c, I(2), F(2, 4), 0, -5, -1), "shape is negative or too large")           \
    X(syn_embedding_grad_add(c, F(5, 3), I(2), F(2, 4), 0, -1),                                    \
      "embedding_grad_add in h.0: input 0 must be a table (V, C), but is f32[5,3]")                \
    X(built(c, SYN_OP_LAYERNORM_GRAD, F(2, 3), F(4), F(2, 3), 0, 0, 0),                            \
      "layernorm_grad in h.0: input 1 must be (C) like the last dimension of input 0")             \
    X(built(c, SYN_OP_LAYERNORM_GRAD, F(2, 3), F(3), F(3, 3), 0, 0, 0),                            \
      "input 2 must be like input 0, but is f32[3,3]")                                             \
    X(built(c, SYN_OP_RMSNORM_GRAD, F(2, 3), F(4), F(2, 3), 0, 0, 0),                              \
      "rmsnorm_grad in h.0: input 1 must be (C) like the last dimension of input 0")               \
    X(built(c, SYN_OP_SWIGLU_GRAD, F(2, 3), F(2, 3), F(2), 0, 0, 0),                               \
      "swiglu_grad in h.0: input 2 must be like input 0")                                          \
    X(built(c, SYN_OP_GELU_GRAD, F(2, 3), F(3), NONE, 1, 0, 0),                                    \
      "gelu_grad in h.0: input 1 must be like input 0, but is f32[3]")                             \
    X(built(c, SYN_OP_TANH_GRAD, I(2), I(2), NONE, 0, 0, 0), "tanh_grad in h.0: input 0 must be")  \
    X(built(c, SYN_OP_SOFTMAX_GRAD, F(2), F(3), NONE, 0, 0, 0),                                    \
      "softmax_grad in h.0: input 1 must be like input 0")                                         \
    X(syn_sum_to(c, F(2, 3), DIMS(4), 1), "sum_to in h.0: f32[2,3] cannot be summed to f32[4]")    \
    X(syn_sum_to(c, F(2), DIMS(1, 2), 2), "f32[2] cannot be summed to f32[1,2]")                   \
    X(syn_sum_to(c, F(2), DIMS(3, 3, 3, 3, 3, 2), 6), "f32[2] cannot be summed to f32[3,3,3,")     \
    X(syn_sum_to(c, F(2), DIMS(2), 7), "sum_to got 7 dimensions but accepts at most 6 (in h.0)")   \
    X(syn_sum_to(c, I(2), DIMS(1), 1), "input 0 must be f32")                                      \
    X(syn_expand(c, F(2), DIMS(3), 1), "expand in h.0: f32[2] does not broadcast to f32[3]")       \
    X(syn_expand(c, F(1, 2), DIMS(2), 1), "f32[1,2] does not broadcast to f32[2]")                 \
    X(syn_expand(c, F(1), DIMS(-1), 1), "f32[1] does not broadcast to")                            \
    X(built(c, SYN_OP_SLICE_GRAD, F(2, 3), NONE, NONE, 0, 3, 4),                                   \
      "slice_grad in h.0: the slice is outside dimension 0 of length 4")                           \
    X(built(c, SYN_OP_SLICE_GRAD, F(2, 3), NONE, NONE, 2, 0, 4),                                   \
      "dimension 2 does not exist: the tensor has 2")                                              \
    X(built(c, SYN_OP_SLICE_ADD, F(4, 3), F(2, 3), NONE, 0, 3, 0),                                 \
      "slice_add in h.0: input 1 must be a part of input 0, but is f32[2,3]")                      \
    X(built(c, SYN_OP_SLICE_ADD, F(4, 3), F(2, 2), NONE, 0, 0, 0), "must be a part of input 0")    \
    X(built(c, SYN_OP_ACCUMULATE, F(4, 3), F(3), NONE, 0, 0, 0),                                   \
      "accumulate in h.0: input 1 must be like input 0, but is f32[3]")                            \
    X(syn_matmul_add(c, F(3, 4), F(3, 4), F(4, 5), false, false),                                  \
      "matmul_add in h.0: input 0 must be f32, contiguous and shaped like the product, but is "    \
      "f32[3,4]")                                                                                  \
    X(syn_matmul_add(c, F(3, 5), F(3, 4), F(3, 5), false, false), "cannot multiply f32[3,4]")      \
    X(onto_itself(c, F(3, 3)),                                                                     \
      "matmul_add in h.0: input 0 would be overwritten, but input 1 shares its storage")           \
    X(syn_cross_entropy(c, F(2, 5), I(3), SYN_MEAN, 5),                                            \
      "cross_entropy in h.0: input 1 must be (...) for logits (..., V), but is i32[3]")            \
    X(syn_cross_entropy(c, F(2, 5), F(2), SYN_MEAN, 5), "input 1 must be i32")                     \
    X(syn_cross_entropy(c, F(2, 5), I(2), SYN_MEAN, 6), "6 classes, but the logits have 5")        \
    X(syn_cross_entropy(c, F(2, 5), I(2), F(2), 5), "input 2 must be one number, but is f32[2]")   \
    X(built(c, SYN_OP_CROSS_ENTROPY_PART, F(2, 5), I(2), NONE, 6, 0, 0),                           \
      "cross_entropy_part in h.0: 6 classes, but the logits have 5")                               \
    X(syn_cross_entropy_unfused(c, F(2, 5), I(2), SYN_MEAN, 6, 0, 6, NULL),                        \
      "cross_entropy_part in h.0: 6 classes, but the logits have 5")                               \
    X(built(c, SYN_OP_NLL_GRAD, F(2), F(1), NONE, 4, 0, 5),                                        \
      "nll_grad in h.0: input 0 must be i32")                                                      \
    X(built(c, SYN_OP_NLL_GRAD, I(2), F(2), NONE, 4, 0, 5), "input 1 must be one number")          \
    X(built(c, SYN_OP_EXP_RESCALE, F(2), F(2), F(3), 0, 0, 0),                                     \
      "exp_rescale in h.0: input 2 must be contiguous and like input 0, but is f32[3]")            \
    X(syn_square_sum(c, (const syn_tensor[]){F(2), I(2)}, 2),                                      \
      "square_sum in h.0: input 1 must be f32, but is i32[2]")                                     \
    X(syn_square_sum(c, NULL, 0), "square_sum in h.0: accepts 1 to ")                              \
    X(syn_square_sum_divided(c, (const syn_tensor[]){F(2)}, 1, 0),                                 \
      "square_sum in h.0: the divisor must be at least 1, not 0")                                  \
    X(clip(c, F(2)), "clip_factor in h.0: input 0 must be of 1 element, but is f32[2]")            \
    X(step(c, 0, F(2), F(2), 2, 3), "adamw got 0 parameters but accepts 1 to ")                    \
    X(step(c, 1, F(2), F(3), 2, 3), "adamw in h.0: input 3 must be of 2 elements, but is f32[3]")  \
    X(step(c, 1, F(2), F(2), 3, 3), "input 1 must be of 2 elements, but is f32[3]")                \
    X(step(c, 1, F(2), F(2), 2, 2), "input 4 must be of 3 elements, but is f32[2]")                \
    X(step(c, 1, I(2), I(2), 2, 3), "input 0 must be f32")                                         \
    X(together(c, F(2), I(2), 2, -1, g),                                                           \
      "all_reduce_coalesced in h.0: input 1 must be f32, but is i32[2]")                           \
    X(together(c, F(2), F(2), 2, -2, g), "all_reduce_coalesced in h.0: unknown reduction 9")       \
    X(together(c, F(2), F(2), 0, -1, g), "all_reduce_coalesced got 0 tensors but accepts 1 to ")   \
    X(together(c, F(2), F(2), 2, 2, g), "broadcast_coalesced in h.0: root 2 is not in a group")    \
    X(together(c, F(2), F(2), 2, 0, NULL), "broadcast_coalesced needs a group")                    \
    X(syn_reduce_scatter_coalesced(c, (const syn_tensor[]){F(2), F(3)}, 2, SYN_REDUCE_SUM, 1, g),  \
      "coalesced in h.0: 2 parts of 1 elements are shorter than the list of 5 elements")           \
    X(syn_reduce_scatter_coalesced(c, (const syn_tensor[]){F(2), I(3)}, 2, SYN_REDUCE_SUM, 4, g),  \
      "reduce_scatter_coalesced in h.0: input 1 must be f32, but is i32[3]")                       \
    X(gather_list(c, F(2), F(3), 2, F(1), g),                                                      \
      "coalesced in h.0: 2 parts of 1 elements are shorter than the list of 5 elements")           \
    X(gather_list(c, F(2), F(3), 2, I(9), g),                                                      \
      "all_gather_coalesced in h.0: input 2 must be f32, but is i32[9]")                           \
    X(gather_list(c, F(2), F(3), 0, F(9), g), "all_gather_coalesced got 0 tensors but accepts 1")  \
    X(gather_list(c, F(2), F(3), 2, F(9), NULL), "all_gather_coalesced needs a group")             \
    X(syn_argmax(c, F(2, 0)), "argmax in h.0: input 0 must be (..., V) with V from 1")             \
    X(syn_argmax(c, I(2, 2)), "input 0 must be f32")                                               \
    X(syn_argmax(c, ref_scalar(c)), "with V from 1")                                               \
    X(top(c, F(2, 3), 4), "top_k in h.0: k = 4 is not between 1 and 3")                            \
    X(top(c, F(2, 3), 0), "k = 0 is not between 1 and 3")                                          \
    X(sample(c, F(2, 3), -1, 0, 1),                                                                \
      "sample in h.0: the temperature -1 is not a finite number >= 0")                             \
    X(sample(c, F(2, 3), not_a_number, 0, 1), "the temperature nan is not a finite number")        \
    X(sample(c, F(2, 3), (double)INFINITY, 0, 1), "the temperature inf is not a finite number")    \
    X(sample(c, F(2, 3), 1, -1, 1), "top_k = -1 is negative")                                      \
    X(sample(c, F(2, 3), 1, 0, 0), "top_p = 0 is not in (0, 1]")                                   \
    X(sample(c, F(2, 3), 1, 0, 1.5), "top_p = 1.5 is not in (0, 1]")                               \
    X(sample(c, F(2, 3), 1, 0, not_a_number), "top_p = nan is not in (0, 1]")                      \
    X(sample(c, F(2, 2, 3), 1, 0, 1), "logits (B, V), but is f32[2,2,3]")                          \
    X(sample(c, F(2, 0), 1, 0, 1), "with V from 1")                                                \
    X(least(c, F(2, 3), -0.5), "min_p = -0.5 is not in [0, 1]")                                    \
    X(least(c, F(2, 3), 1.5), "min_p = 1.5 is not in [0, 1]")                                      \
    X(least(c, F(2, 3), not_a_number), "min_p = nan is not in [0, 1]")                             \
    X(syn_repetition_penalty(c, I(2, 3), I(2, 1), 2),                                              \
      "repetition_penalty in h.0: input 0 must be f32")                                            \
    X(syn_repetition_penalty(c, F(3), I(3, 1), 2), "input 0 must be logits (B, V)")                \
    X(syn_repetition_penalty(c, F(2, 3), F(2, 1), 2), "input 1 must be i32")                       \
    X(syn_repetition_penalty(c, F(2, 3), I(3, 1), 2),                                              \
      "input 1 must be ids (B, N) for logits (B, V), but is i32[3,1]")                             \
    X(syn_repetition_penalty(c, F(2, 3), I(2), 2), "input 1 must be ids (B, N)")                   \
    X(syn_repetition_penalty(c, F(2, 3), I(2, 1), 0),                                              \
      "the penalty 0 is not a finite number above 0")                                              \
    X(syn_repetition_penalty(c, F(2, 3), I(2, 1), not_a_number),                                   \
      "the penalty nan is not a finite")                                                           \
    X(routed(c, I(2, 4), SYN_NO_BIAS, HOW(1, 0, 0, 1, 1, 1)),                                      \
      "route in h.0: input 0 must be f32, f16 or bf16, but is i32[2,4]")                           \
    X(routed(c, F(4), SYN_NO_BIAS, HOW(1, 0, 0, 1, 1, 1)),                                         \
      "input 0 must be logits (N, E) with E from 1 to 2^31 - 1, but is f32[4]")                    \
    X(routed(c, F(4, 0), SYN_NO_BIAS, HOW(1, 0, 0, 1, 1, 1)),                                      \
      "input 0 must be logits (N, E) with E from 1")                                               \
    X(routed(c, F(0, 1LL << 31), SYN_NO_BIAS, HOW(1, 0, 0, 1, 1, 1)),                              \
      "with E from 1 to 2^31 - 1, but is")                                                         \
    X(routed(c, F(2, 4), I(4), HOW(1, 0, 0, 1, 1, 1)), "input 1 must be f32, but is i32[4]")       \
    X(routed(c, F(2, 4), F(3), HOW(1, 0, 0, 1, 1, 1)),                                             \
      "input 1 must be a bias (E), but is f32[3]")                                                 \
    X(routed(c, F(2, 4), F(1, 4), HOW(1, 0, 0, 1, 1, 1)), "input 1 must be a bias (E)")            \
    X(routed(c, F(2, 4), SYN_NO_BIAS, HOW(1, (syn_score)2, 0, 1, 1, 1)),                           \
      "route in h.0: unknown score 2")                                                             \
    X(routed(c, F(2, 4), SYN_NO_BIAS, HOW(1, 0, 0, 1, 1, not_a_number)),                           \
      "the scale is not finite")                                                                   \
    X(routed(c, F(2, 4), SYN_NO_BIAS, HOW(1, 0, 0, 3, 1, 1)),                                      \
      "1 of 3 groups cannot be chosen from 4 experts")                                             \
    X(routed(c, F(2, 4), SYN_NO_BIAS, HOW(1, 0, 0, 2, 3, 1)), "3 of 2 groups cannot be chosen")    \
    X(routed(c, F(2, 4), SYN_NO_BIAS, HOW(1, 0, 0, 2, 0, 1)), "0 of 2 groups cannot be chosen")    \
    X(routed(c, F(2, 4), SYN_NO_BIAS, HOW(1, 0, 0, 0, 0, 1)), "0 of 0 groups cannot be chosen")    \
    X(routed(c, F(2, 4), SYN_NO_BIAS, HOW(0, 0, 0, 1, 1, 1)),                                      \
      "cannot choose 0 experts per token: there are 4")                                            \
    X(routed(c, F(2, 4), SYN_NO_BIAS, HOW(3, 0, 0, 2, 1, 1)),                                      \
      "cannot choose 3 experts per token: there are 2")                                            \
    X(route_grad(c, I(3, 4), I(3, 2), F(3, 2), 1),                                                 \
      "route_grad in h.0: input 0 must be f32, f16 or bf16")                                       \
    X(route_grad(c, F(3, 4), F(3, 2), F(3, 2), 1), "input 1 must be i32, but is f32[3,2]")         \
    X(route_grad(c, F(3, 4), I(3, 2), I(3, 2), 1), "input 2 must be f32, but is i32[3,2]")         \
    X(route_grad(c, F(4), I(3, 2), F(3, 2), 1), "input 0 must be logits (N, E), but is f32[4]")    \
    X(route_grad(c, F(3, 0), I(3, 2), F(3, 2), 1),                                                 \
      "input 0 must be logits (N, E), but is f32[3,0]")                                            \
    X(route_grad(c, F(3, 4), I(3, 2), F(3, 2), 3),                                                 \
      "1 of 3 groups cannot be chosen from 4 experts")                                             \
    X(route_grad(c, F(3, 4), I(3, 1), F(3, 2), 1), "input 1 must be (N, k), but is i32[3,1]")      \
    X(route_grad(c, F(3, 4), I(3, 2), F(2, 2), 1), "input 2 must be (N, k), but is f32[2,2]")      \
    X(syn_router_loss(c, F(2, 2), I(2, 4), counts_of(c, 4), LOSSES(0, 1, 1)),                      \
      "router_loss in h.0: input 1 must be f32, f16 or bf16, but is i32[2,4]")                     \
    X(syn_router_loss(c, F(2, 2), F(2, 4), F(4), LOSSES(0, 1, 1)),                                 \
      "input 2 must be i64, but is f32[4]")                                                        \
    X(syn_router_loss(c, F(2, 2), F(8), counts_of(c, 4), LOSSES(0, 1, 1)),                         \
      "input 1 must be logits (N, E), but is f32[8]")                                              \
    X(syn_router_loss(c, F(2, 2), F(2, 4), counts_of(c, 3), LOSSES(0, 1, 1)),                      \
      "input 2 must be the number of rows of each expert (E), but is i64[3]")                      \
    X(syn_router_loss(c, F(2, 2), F(2, 4), counts_of(c, 4), LOSSES((syn_score)2, 1, 1)),           \
      "unknown score 2")                                                                           \
    X(syn_router_loss(c, F(2, 2), F(2, 4), counts_of(c, 4), LOSSES(0, not_a_number, 1)),           \
      "a factor is not finite")                                                                    \
    X(syn_router_loss_add(c, F(2), F(2, 4), counts_of(c, 4), LOSSES(0, 1, 1)),                     \
      "router_loss_add in h.0: input 0 must be one number, but is f32[2]")                         \
    X(syn_router_loss_add(c, I(1), F(2, 4), counts_of(c, 4), LOSSES(0, 1, 1)),                     \
      "input 0 must be f32, but is i32[1]")                                                        \
    X(syn_count_add(c, F(4), I(4)), "count_add in h.0: input 1 must be i64, but is i32[4]")        \
    X(syn_count_add(c, I(4), counts_of(c, 4)), "input 0 must be f32, but is i32[4]")               \
    X(syn_count_add(c, F(2, 2), counts_of(c, 4)), "input 0 must be sums (E), but is f32[2,2]")     \
    X(syn_count_add(c, F(3), counts_of(c, 4)), "input 1 must be one count per sum, but is i64[4]") \
    X(moved_bias(c, F(2, 2), F(4), 1),                                                             \
      "router_bias_update in h.0: input 0 must be a bias (E), dense, but is f32[2,2]")             \
    X(moved_bias(c, F(3), F(4), 1), "must be one count per expert (E), dense, but is f32[4]")      \
    X(moved_bias(c, F(3), I(3), 1), "input 1 must be f32, but is i32[3]")                          \
    X(moved_bias(c, F(3), F(3), not_a_number), "the rate is not finite")                           \
    X(sorted(c, F(3, 2), 4), "sort_by_expert in h.0: input 0 must be i32, but is f32[3,2]")        \
    X(sorted(c, I(6), 4), "input 0 must be experts (N, k) with N k up to 2^31 - 1, but is i32[6]") \
    X(sorted(c, tall(c, 1 << 20, 1 << 11), 4), "but is i32[1048576,2048]")                         \
    X(sorted(c, I(3, 2), 0), "tokens cannot be sorted by 0 experts")                               \
    X(sorted(c, I(3, 2), 1LL << 31), "tokens cannot be sorted by 2147483648 experts")              \
    X(merged(c, F(1, 4, 2, 3), F(1, 2, 4), F(1, 2, 2, 3), F(1, 2, 2), 3),                          \
      "attention_merge in h.0: input 2 must be some queries of input 0, but is f32[1,2,2,3]")      \
    X(merged(c, F(1, 4, 2, 3), F(1, 2, 4), F(1, 2, 2, 3), F(1, 2, 2), -1),                         \
      "must be some queries of input 0")                                                           \
    X(merged(c, F(1, 4, 2, 3), F(1, 2, 4), F(1, 2, 3, 3), F(1, 3, 2), 0),                          \
      "must be some queries of input 0, but is f32[1,2,3,3]")                                      \
    X(merged(c, I(1, 4, 2, 3), F(1, 2, 4), F(1, 2, 2, 3), F(1, 2, 2), 0),                          \
      "input 0 must be f32, but is i32[1,4,2,3]")                                                  \
    X(merged(c, F(1, 4, 2, 3), F(1, 2, 4), I(1, 2, 2, 3), F(1, 2, 2), 0),                          \
      "input 2 must be f32, f16 or bf16, but is i32[1,2,2,3]")                                     \
    X(merged(c, F(4, 2, 3), F(1, 2, 4), F(1, 2, 2, 3), F(1, 2, 2), 0),                             \
      "input 0 must be (B, T, H, D), but is f32[4,2,3]")                                           \
    X(merged(c, F(1, 4, 2, 3), F(1, 2, 3), F(1, 2, 2, 3), F(1, 2, 2), 0),                          \
      "input 1 must be a log-sum-exp (B, H, T) in f32, but is f32[1,2,3]")                         \
    X(merged(c, F(1, 4, 2, 3), F(1, 2, 4), F(1, 2, 2, 3), F(1, 2, 3), 0),                          \
      "input 3 must be a log-sum-exp (B, H, T) in f32, but is f32[1,2,3]")                         \
    X(syn_zigzag_join(c, F(3), 0), "input 0 must be the tokens of all ranks (n, ..., S/n, ...)")   \
    X(syn_zigzag_join(c, F(0, 2, 3), 0), "input 0 must be the tokens of all ranks")                \
    X(syn_zigzag_join(c, F(2, 3, 4), 0), "6 tokens are not a multiple of 2 x 2 ranks")             \
    X(syn_zigzag_join(c, F(2, 4, 4), 2), "dimension 2 does not exist: sequences have 2")           \
    X(syn_zigzag_split(c, F(8, 4), 0, 3), "8 tokens are not a multiple of 2 x 3 ranks")            \
    X(syn_zigzag_split(c, F(8, 4), -1, 2), "dimension -1 does not exist: sequences have 2")        \
    X(syn_zigzag_split(c, F(8, 4), 0, 0), "of one dimension less than supported")                  \
    X(syn_zigzag_split(c, F(8, 1, 1, 1, 1, 1), 0, 2), "of one dimension less than supported")      \
    X(syn_context_attention(c, F(1, 2, 4, 3), F(1, 2, 4, 3), F(1, 2, 4, 3), 1, false, 0, NULL),    \
      "context_attention needs a group of at least two ranks")                                     \
    X(syn_context_attention(c, F(1, 2, 3, 3), F(1, 2, 3, 3), F(1, 2, 3, 3), 1, false, 0,           \
                            &ref_pair),                                                            \
      "as many keys as queries (B, H, T, D), with an even T")                                      \
    X(syn_context_attention(c, F(1, 2, 4, 3), F(1, 2, 2, 3), F(1, 2, 2, 3), 1, true, 0,            \
                            &ref_pair),                                                            \
      "as many keys as queries (B, H, T, D), with an even T")                                      \
    X(syn_moe_permute(c, I(3, 4), I(5), 2),                                                        \
      "moe_permute in h.0: input 0 must be f32, f16 or bf16, but is i32[3,4]")                     \
    X(syn_moe_permute(c, F(3, 4), F(5), 2), "input 1 must be i32, but is f32[5]")                  \
    X(syn_moe_permute(c, F(3, 4), I(5, 1), 2), "input 1 must be places (R), but is i32[5,1]")      \
    X(syn_moe_permute(c, F(3), I(5), 2), "input 0 must be tokens (N, C), but is f32[3]")           \
    X(syn_moe_permute(c, F(3, 4), I(5), 0), "3 tokens cannot have 0 copies each")                  \
    X(syn_moe_permute(c, F(3, 4), I(5), INT64_MAX),                                                \
      "3 tokens cannot have 9223372036854775807 copies each")                                      \
    X(syn_moe_permute(c, F(2, 4), I(5), 1 << 30), "2 tokens cannot have 1073741824 copies each")   \
    X(syn_moe_unpermute(c, I(5, 4), I(5), 3, 2),                                                   \
      "moe_unpermute in h.0: input 0 must be f32, f16 or bf16")                                    \
    X(syn_moe_unpermute(c, F(5, 4), F(5), 3, 2), "input 1 must be i32, but is f32[5]")             \
    X(syn_moe_unpermute(c, F(5, 4), I(5, 1), 3, 2), "input 1 must be places (R)")                  \
    X(syn_moe_unpermute(c, F(5), I(5), 3, 2),                                                      \
      "input 0 must be rows (R, C), as many as places, but is f32[5]")                             \
    X(syn_moe_unpermute(c, F(4, 4), I(5), 3, 2), "as many as places, but is f32[4,4]")             \
    X(syn_moe_unpermute(c, F(5, 4), I(5), -1, 2), "cannot make -1 tokens from 2 rows each")        \
    X(syn_moe_unpermute(c, F(5, 4), I(5), 3, 0), "cannot make 3 tokens from 0 rows each")          \
    X(syn_moe_unpermute(c, F(5, 4), I(5), 1 << 20, 1 << 11),                                       \
      "cannot make 1048576 tokens from 2048 rows each")                                            \
    X(syn_moe_unpermute(c, F(5, 4), I(5), INT64_MAX, INT64_MAX),                                   \
      "cannot make 9223372036854775807 tokens")                                                    \
    X(limited(c, F(4), L(2), 2), "expert_capacity in h.0: input 0 must be i32, but is f32[4]")     \
    X(limited(c, I(4), I(2), 2), "input 1 must be i64, but is i32[2]")                             \
    X(limited(c, I(2, 2), L(2), 2), "input 0 must be places (R), but is i32[2,2]")                 \
    X(limited(c, I(4), L(1, 2), 2),                                                                \
      "input 1 must be the number of rows of each expert (E), but is i64[1,2]")                    \
    X(limited(c, I(4), L(2), 0), "2 experts cannot have 0 rows each")                              \
    X(limited(c, I(4), L(2), (int64_t)1 << 30), "2 experts cannot have 1073741824 rows each")      \
    X(ordered(c, I(2, 3), 0, 3, 0), "expert_order in h.0: input 0 must be i64, but is i32[2,3]")   \
    X(ordered(c, L(6), 0, 3, 0), "must be rows per source and expert (S, E), but is i64[6]")       \
    X(ordered(c, L(2, 3), 2, 2, 0), "there are no experts 2 to 3 among 3")                         \
    X(ordered(c, L(2, 3), -1, 2, 0), "there are no experts -1 to 0 among 3")                       \
    X(ordered(c, L(2, 3), 0, 0, 0), "there are no experts 0 to -1 among 3")                        \
    X(ordered(c, L(2, 3), 0, 3, -1), "-1 rows cannot be ordered")                                  \
    X(ordered(c, L(2, 3), 0, 3, (int64_t)1 << 31), "2147483648 rows cannot be ordered")            \
    X(exchanged(c, F(5, 2), 2, 2, g), "all_to_all in h.0: 5 rows are not divided among ")          \
    X(exchanged(c, F(5, 2), -1, 1, g), "all_to_all in h.0: 5 rows are not divided among ")         \
    X(exchanged(c, syn_reshape(c, F(1), NULL, 0), 1, 1, g),                                        \
      "all_to_all in h.0: input 0 must be rows (R, ...), but is f32[]")                            \
    X(exchanged(c, F(8, 2), 4, 4, g),                                                              \
      "this rank sends 8 rows and receives 8, more than the group's largest number, 7")            \
    X(syn_all_to_all(c, F(4, 2), DIMS(1, 1, 1, 1), NULL, 4, g),                                    \
      "all_to_all needs both lists of rows, or neither (in h.0)")                                  \
    X(exchanged(c, F(5, 2), 1, 1, NULL), "all_to_all needs a group of at least two ranks")         \
    X(grouped(c, I(4, 2), F(3, 2, 5), L(3), false),                                                \
      "grouped_linear in h.0: input 0 must be f32, f16 or bf16, but is i32[4,2]")                  \
    X(grouped(c, F(4, 2), I(3, 2, 5), L(3), false),                                                \
      "input 1 must be f32, f16 or bf16, but is i32[3,2,5]")                                       \
    X(grouped(c, ZEROS(c, SYN_F16, 4, 2), F(3, 2, 5), L(3), false),                                \
      "input 1 must be f16, but is f32[3,2,5]")                                                    \
    X(grouped(c, F(4, 2), F(2, 5), L(3), false),                                                   \
      "input 1 must be one matrix per expert (E, ., .), but is f32[2,5]")                          \
    X(grouped(c, F(4, 2), F(3, 2, 5), F(3), false), "input 2 must be i64, but is f32[3]")          \
    X(grouped(c, F(2), F(3, 2, 5), L(3), false), "input 0 must be rows (R, K), but is f32[2]")     \
    X(grouped(c, F(4, 2), F(3, 2, 5), L(2), false),                                                \
      "input 2 must be the number of rows of each expert (E), but is i64[2]")                      \
    X(grouped(c, F(4, 2), F(3, 2, 5), L(3, 1), false),                                             \
      "input 2 must be the number of rows of each expert (E)")                                     \
    X(grouped(c, F(4, 2), F(3, 5, 2), L(3), false),                                                \
      "rows of 2 elements cannot be multiplied by 5")                                              \
    X(grouped(c, F(4, 2), F(3, 2, 5), L(3), true), "rows of 2 elements cannot be multiplied by 5") \
    X(grouped_bias(c, I(3, 5)), "input 3 must be f32, but is i32[3,5]")                            \
    X(grouped_bias(c, F(5)), "input 3 must be one bias per expert (E, N), dense, but is f32[5]")   \
    X(grouped_bias(c, F(2, 5)), "one bias per expert (E, N), dense, but is f32[2,5]")              \
    X(grouped_bias(c, F(3, 4)), "one bias per expert (E, N), dense, but is f32[3,4]")              \
    X(grouped_bias(c, syn_slice(c, F(3, 6), 1, 0, 5)), "one bias per expert (E, N), dense")        \
    X(syn_grouped_sum(c, I(5, 4), L(2)),                                                           \
      "grouped_sum in h.0: input 0 must be f32, f16 or bf16, but is i32[5,4]")                     \
    X(syn_grouped_sum(c, F(5), L(2)), "input 0 must be rows (R, K), but is f32[5]")                \
    X(syn_grouped_sum(c, F(5, 4), F(2)), "input 1 must be i64, but is f32[2]")                     \
    X(syn_grouped_sum(c, F(5, 4), L(2, 1)), "input 1 must be the number of rows of each expert")   \
    X(sink(c, F(3)), "input 3 must be one sink per query head (H), of the same dtype")             \
    X(sink(c, ZEROS(c, SYN_F16, 2)), "input 3 must be one sink per query head (H), of the same")   \
    X(sinks_grad(c, F(3, 2, 4), F(1, 2, 3), F(1, 3, 2, 4), F(2)),                                  \
      "sinks_grad in h.0: input 0 must be attention_train's output (B, T, H, Dv)")                 \
    X(sinks_grad(c, F(1, 3, 2, 4), F(1, 3, 2), F(1, 3, 2, 4), F(2)),                               \
      "input 1 must be attention_train's output (B, H, T)")                                        \
    X(sinks_grad(c, F(1, 3, 2, 4), F(1, 2, 3), F(1, 2, 3, 4), F(2)),                               \
      "input 2 must be a gradient (B, T, H, Dv)")                                                  \
    X(sinks_grad(c, F(1, 3, 2, 4), F(1, 2, 3), F(1, 3, 2, 4), F(3)),                               \
      "input 3 must be one sink per query head (H), of the same dtype")                            \
    X(syn_grouped_product(c, I(5, 4), F(5, 3), L(2)),                                              \
      "grouped_product in h.0: input 0 must be f32, f16 or bf16, but is i32[5,4]")                 \
    X(syn_grouped_product(c, F(5, 4), ZEROS(c, SYN_F16, 5, 3), L(2)),                              \
      "input 1 must be f32, but is f16[5,3]")                                                      \
    X(syn_grouped_product(c, F(5, 4), F(5, 3), F(2)), "input 2 must be i64, but is f32[2]")        \
    X(syn_grouped_product(c, F(5), F(5, 3), L(2)), "input 0 must be rows (R, K), but is f32[5]")   \
    X(syn_grouped_product(c, F(5, 4), F(5, 3), L(2, 1)),                                           \
      "input 2 must be the number of rows of each expert (E), but is i64[2,1]")                    \
    X(syn_grouped_product(c, F(5, 4), F(4, 3), L(2)),                                              \
      "input 1 must be as many rows as the input before it, but is f32[4,3]")                      \
    X(syn_grouped_product(c, F(5, 4), F(5), L(2)),                                                 \
      "as many rows as the input before it, but is f32[5]")                                        \
    X(syn_grouped_product_add(c, F(2, 4, 3), F(5, 4), F(4, 3), L(2)),                              \
      "grouped_product_add in h.0: input 2 must be as many rows as the input before it")           \
    X(syn_grouped_product_add(c, F(2, 3, 4), F(5, 4), F(5, 3), L(2)),                              \
      "input 0 must be f32, contiguous and shaped like the product, but is f32[2,3,4]")            \
    X(syn_grouped_product_add(c, ZEROS(c, SYN_F16, 2, 4, 3), F(5, 4), F(5, 3), L(2)),              \
      "shaped like the product, but is f16[2,4,3]")                                                \
    X(syn_grouped_product_add(c, syn_slice(c, F(2, 5, 3), 1, 0, 4), F(5, 4), F(5, 3), L(2)),       \
      "grouped_product_add in h.0: input 0 must be f32, contiguous")                               \
    X(syn_all_reduce(c, F(2), SYN_REDUCE_SUM, NULL),                                               \
      "all_reduce needs a group of at least two ranks (in h.0)")                                   \
    X(syn_all_reduce(c, F(2), SYN_REDUCE_SUM, &single), "needs a group of at least two ranks")     \
    X(syn_all_reduce(c, F(2), (syn_reduce)9, g), "all_reduce in h.0: unknown reduction 9")         \
    X(syn_all_gather(c, F(2), 1, g),                                                               \
      "all_gather in h.0: dimension 1 does not exist: the tensor has 1")                           \
    X(syn_all_gather(c, F(INT64_MAX / 4), 0, g), "too large")                                      \
    X(syn_reduce_scatter(c, F(2, 3), SYN_REDUCE_SUM, 1, g),                                        \
      "reduce_scatter in h.0: dimension 1 has length 3, which does not divide among 2 ranks")      \
    X(syn_reduce_scatter(c, F(2, 4), (syn_reduce)-1, 1, g), "unknown reduction")                   \
    X(syn_reduce_scatter(c, F(2, 4), SYN_REDUCE_SUM, -3, g),                                       \
      "reduce_scatter in h.0: dimension -1 does not exist: the tensor has 2")                      \
    X(syn_broadcast(c, F(2), 2, g), "broadcast in h.0: root 2 is not in a group of 2")             \
    X(syn_broadcast(c, F(2), -1, g), "root -1 is not in a group of 2")                             \
    X(syn_send(c, F(2), 0, 0), "send in h.0: rank 0 is not another rank of this world")            \
    X(syn_send(c, F(2), 2, 0), "rank 2 is not another rank")                                       \
    X(syn_send(c, F(2), 1, -1), "the tag -1 is out of range")                                      \
    X(recv(c, SYN_F32, 1, 2, -1, 0), "recv in h.0: rank -1 is not another rank")                   \
    X(recv(c, 99, 1, 2, 1, 0), "the message's dtype or shape is not valid")                        \
    X(recv(c, SYN_F32, 7, 2, 1, 0), "the message's dtype or shape is not valid")                   \
    X(recv(c, SYN_F32, 2, -2, 1, 0), "negative or too large")                                      \
    X(syn_barrier(c, NULL), "barrier needs a group")                                               \
    X(syn_tp_enter(c, F(2), NULL), "tp_enter needs a group of at least two ranks (in h.0)")        \
    X(syn_tp_enter(c, F(2), &single), "tp_enter needs a group of at least two ranks")              \
    X(syn_gelu(c, (syn_tensor){0}, true), "gelu in h.0: input 0 belongs to another context")       \
    X(syn_add(c, F(2), ((syn_tensor){4000000000u, 1})),                                            \
      "add in h.0: input 1 belongs to another context")                                            \
    X(syn_reshape(c, NOBODYS, DIMS(1), 1), "reshape in h.0: input 0 belongs to another context")   \
    X(syn_linear(c, NOBODYS, F(2, 2), SYN_NO_BIAS, false), "input 0 belongs to another context")   \
    X(syn_tp_enter(c, syn_contiguous(c, NOBODYS), &ref_pair),                                      \
      "tp_enter in h.0: input 0 belongs to another")                                               \
    X(syn_name(c, NOBODYS, "x"),                                                                   \
      "tensor 999 cannot be named: it belongs to another context (in h.0)")                        \
    X(syn_gelu(c, released(c), true), "gelu in h.0: the data of input 0 was released")             \
    X(param(c, SYN_F32, 6, SYN_SHARD(0, 1, 0, 4)),                                                 \
      "parameter 'wte.weight': dimension 0 has length 6, which does not divide into 4 shards (in " \
      "h.0)")                                                                                      \
    X(param(c, SYN_F32, 6, SYN_SHARD(0, 3, 0, 4)), "does not divide into 12 shards")               \
    X(param(c, SYN_F32, 8, SYN_SHARD(0, 1, 4, 4)), "has no shard 4 of 4")                          \
    X(param(c, SYN_F32, 8, SYN_SHARD(0, 1, -1, 4)), "has no shard -1 of 4")                        \
    X(param(c, SYN_F32, 8, SYN_SHARD(0, 0, 0, 1)), "in 0 parts")                                   \
    X(param(c, SYN_F32, 8, SYN_SHARD(0, 1, 0, 0)), "has no shard 0 of 0")                          \
    X(param(c, SYN_F32, 8, SYN_SHARD(2, 1, 0, 1)),                                                 \
      "the shape of parameter 'wte.weight' is not valid")                                          \
    X(param(c, SYN_F32, 8, SYN_SHARD(-1, 1, 0, 1)), "is not valid")                                \
    X(param(c, SYN_F32, -8, SYN_WHOLE), "is not valid")                                            \
    X(param(c, SYN_I32, 8, SYN_WHOLE), "must be f32, f16 or bf16, not i32")                        \
    X(F(-1, 2), "the shape of 'x' is negative or too large (in h.0)")                              \
    X(F(INT64_MAX, 2), "the shape of 'x' is negative or too large")                                \
    X(syn_softmax(c, turned(c, F(2, 2))), NULL) /* this call is valid, so there is no message */

static const char *const sentences[] = {
#define X(call, text) text,
    REFUSED(X)
#undef X
};

static void provoke(syn_ctx *c, int number, const syn_group *g) {
    const int32_t zero = 0;
    const syn_group single = {3, "one", &zero, 1, 0, NULL};
    int n = 0;
#define X(call, text) \
    if (n++ == number) (void)(call);
    REFUSED(X)
#undef X
    (void)single;
}

/* Cases that need other ranks, or more memory than any machine has. */
static bool only_on_meta(const char *sentence) {
    static const char *const words[] = {"group", "rank", "message",  "tag",
                                        "all_",  "redu", "parts of", "too large"};
    bool found = sentence == NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        found = found || strstr(sentence, words[i]);
    return found;
}

static void test_sentences(void) {
    syn_error err = {0};
    syn_comm *fake = NULL;
    syn_group *group = NULL;
    const int32_t ranks[2] = {0, 1};
    CHECK_OK(syn_comm_fake_new(&fake, 0, 2, &err), err);
    CHECK_OK(syn_comm_open_group(fake, 1, "tp0", ranks, 2, &group, &err), err);
    for (int i = 0; i < (int)(sizeof sentences / sizeof *sentences); i++) {
        const bool needs_data = sentences[i] && strstr(sentences[i], "released");
        syn_ctx *ctx =
            ref_ctx(needs_data ? SYN_DEVICE_CPU : SYN_DEVICE_META, needs_data ? NULL : fake);
        const syn_tensor good = ZEROS(ctx, SYN_F32, 2);
        syn_push_scope(ctx, "h.0");
        provoke(ctx, i, group);
        const char *text = syn_ctx_error(ctx)->text;
        CHECK_MSG((syn_ctx_status(ctx) == SYN_OK) == (sentences[i] == NULL), "case %d (%s): %s", i,
                  sentences[i], text);
        if (sentences[i]) CHECK_HAS(text, sentences[i]);
        if (sentences[i]) CHECK_HAS(text, "h.0");
        CHECK(syn_trace_verify(syn_ctx_trace(ctx), &err) == SYN_OK);
        const size_t nodes = syn_ctx_trace(ctx)->n_nodes;
        if (sentences[i]) syn_gelu(ctx, good, true);
        CHECK(syn_ctx_trace(ctx)->n_nodes == nodes);
        syn_ctx_free(ctx);
    }
    syn_comm_close(fake);
}

/* Invalid shapes are rejected before anything runs, so the CPU reports the same error as meta. */
static void test_same_on_the_cpu(void) {
    for (int i = 0; i < (int)(sizeof sentences / sizeof *sentences); i++) {
        if (only_on_meta(sentences[i])) continue;
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        syn_push_scope(ctx, "h.0");
        provoke(ctx, i, NULL);
        CHECK_HAS(syn_ctx_error(ctx)->text, sentences[i]);
        syn_ctx_free(ctx);
    }
}

static const test_case cases[] = {
    {"sentences", test_sentences},
    {"same on the cpu", test_same_on_the_cpu},
};
TEST_MAIN(cases)
