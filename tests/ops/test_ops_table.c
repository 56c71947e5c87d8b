/* Tests the op table: every row is complete, and every op has a line in OPS below. A line is a call
   with the expected shape, flops, bytes and payload, which were computed manually. Each line runs
   on both devices, after a failure, and with each allocation failing once. Other tests compare the
   values that ops compute. */
#include "comm/comm.h"
#include "ops/rules.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

#define F(...) ZEROS(c, SYN_F32, __VA_ARGS__)
#define I(...) ZEROS(c, SYN_I32, __VA_ARGS__)

enum { WORLD = 4 };

static syn_tensor turned(syn_ctx *c, syn_tensor x) {
    return syn_permute(c, x, (const int[]){1, 0}, 2);
}

static syn_tensor joined(syn_ctx *c, syn_tensor a, syn_tensor b) {
    return syn_concat(c, (const syn_tensor[]){a, b}, 2, 1);
}

static syn_tensor top(syn_ctx *c, syn_tensor x) {
    syn_tensor where;
    return syn_top_k(c, x, 2, &where);
}

static syn_tensor drawn(syn_ctx *c, syn_tensor x) {
    const syn_sampling how = {0.7, 3, 0.9, 1, 0};
    return syn_sample(c, x, &how, 0);
}

static syn_tensor received(syn_ctx *c, int32_t from) {
    const syn_spec spec = {SYN_F32, 2, {2, 3}};
    return syn_recv(c, &spec, from, 7);
}

static syn_tensor trained(syn_ctx *c, syn_tensor q, syn_tensor k, syn_tensor mask, double p) {
    const syn_attention_options how = {.mask = mask, .scale = 0.5, .dropout = {.p = p}};
    return syn_attention_train(c, q, k, k, &how);
}

/* The gradient of q from the gradient op of attention. */
static syn_tensor untrained(syn_ctx *c, syn_tensor q, syn_tensor k, syn_tensor y, syn_tensor sums) {
    const syn_attr attr[8] = {{.f = 0.5}};
    const syn_tensor in[6] = {q, k, k, y, sums, y};
    syn_tensor out[3] = {{0}};
    syn__call_op(c, SYN_OP_ATTENTION_GRAD, in, 6, attr, 8, NULL, out);
    return out[0];
}

/* Output 0 of an op that only gradient rules build. */
static syn_tensor built(syn_ctx *c, syn_op op, const syn_tensor *in, int n_in, const syn_attr *attr,
                        int n_attr) {
    syn_tensor out[3];
    syn__call_op(c, op, in, n_in, attr, n_attr, NULL, out);
    return out[0];
}
#define BUILT(op, ...)                                                                       \
    built(c, SYN_OP_##op, (const syn_tensor[]){__VA_ARGS__},                                 \
          (int)(sizeof((const syn_tensor[]){__VA_ARGS__}) / sizeof(syn_tensor)), attrs_##op, \
          (int)COUNT(attrs_##op))

static const syn_attr attrs_LAYERNORM_GRAD[] = {{.f = 1e-5}},
                      attrs_RMSNORM_GRAD[] = {{.f = 1e-5}, {.f = 0}},
                      attrs_GELU_GRAD[] = {{.i = 1}},
                      attrs_SLICE_GRAD[] = {{.i = 0}, {.i = 1}, {.i = 4}},
                      attrs_SLICE_ADD[] = {{.i = 0}, {.i = 1}},
                      attrs_CROSS_ENTROPY_PART[] = {{.i = 4}, {.i = 8}},
                      attrs_CROSS_ENTROPY_JOIN[] = {{.i = 4}, {.i = 0}},
                      attrs_LOG_SOFTMAX_LOSS[] = {{.i = 4}, {.i = 0}, {.i = 4}},
                      attrs_NLL_GRAD[] = {{.i = 4}, {.i = 0}, {.i = 5}},
                      attrs_LOG_SOFTMAX_GRAD[] = {{.i = 4}},
                      attrs_ROUTE_GRAD[] = {{.i = 2}, {.i = SYN_SCORE_SIGMOID},
                                            {.i = 1}, {.i = 1},
                                            {.i = 1}, {.f = 1}},
                      attrs_ROUTER_LOSS_GRAD[] = {{.i = SYN_SCORE_SIGMOID}, {.f = 1}, {.f = 0}};

static syn_tensor sunk(syn_ctx *c, syn_tensor y, syn_tensor sums, syn_tensor sinks) {
    return built(c, SYN_OP_SINKS_GRAD, (const syn_tensor[]){y, sums, y, sinks}, 4, NULL, 0);
}

static syn_tensor pairwise(syn_ctx *c, syn_op op, syn_tensor a, syn_tensor b) {
    return built(c, op, (const syn_tensor[]){a, b}, 2, NULL, 0);
}

static syn_tensor gated_grad(syn_ctx *c, syn_tensor x) {
    return built(c, SYN_OP_SWIGLU_GRAD, (const syn_tensor[]){x, x, x}, 3, NULL, 0);
}

static syn_tensor threefold(syn_ctx *c, syn_tensor x) {
    return built(c, SYN_OP_EXP_RESCALE, (const syn_tensor[]){x, x, x}, 3, NULL, 0);
}

static syn_tensor clipped(syn_ctx *c, syn_tensor squares) {
    syn_tensor norm;
    return syn_clip_factor(c, squares, 1.0, &norm);
}

static syn_tensor stepped(syn_ctx *c) {
    syn_tensor params[2] = {F(2, 3), F(4)}, m = F(10), v = F(10);
    const syn_tensor grads[2] = {F(2, 3), F(4)};
    const syn_adamw_call call = {.params = params,
                                 .grads = grads,
                                 .n = 2,
                                 .m = &m,
                                 .v = &v,
                                 .rates = F(3),
                                 .scale = F(1),
                                 .eps = 1e-8};
    syn_adamw_step(c, &call);
    return params[0];
}

static syn_tensor together(syn_ctx *c, syn_tensor a, syn_tensor b, bool reduce,
                           const syn_group *g) {
    syn_tensor xs[2] = {a, b};
    if (reduce) syn_all_reduce_coalesced(c, xs, 2, SYN_REDUCE_SUM, g);
    else syn_broadcast_coalesced(c, xs, 2, 1, g);
    return xs[1];
}

static syn_tensor gathered(syn_ctx *c, syn_tensor a, syn_tensor b, syn_tensor part,
                           const syn_group *g) {
    syn_tensor xs[2] = {a, b};
    syn_all_gather_coalesced(c, xs, 2, part, g);
    return xs[1];
}

static syn_tensor routed(syn_ctx *c, syn_tensor logits, syn_tensor bias) {
    const syn_routing how = {2, SYN_SCORE_SOFTMAX, true, 1, 1, 1};
    syn_tensor experts;
    return syn_route(c, logits, bias, &how, &experts);
}

static syn_tensor sorted(syn_ctx *c, syn_tensor experts) {
    syn_tensor sizes;
    return syn_sort_by_expert(c, experts, 4, &sizes);
}

/* The order of rows from two sources for experts 1 and 2 of 3. */
static syn_tensor ordered(syn_ctx *c) {
    const syn_spec spec = {SYN_I64, 2, {2, 3}};
    const int64_t counts[6] = {1, 0, 2, 0, 1, 1};
    syn_tensor sizes;
    return syn_expert_order(c, syn_input(c, "counts", &spec, counts), 1, 2, 4, &sizes);
}

static syn_tensor exchanged(syn_ctx *c, syn_tensor x, const syn_group *g) {
    return syn_all_to_all(c, x, (const int64_t[WORLD]){1, 1, 1, 1},
                          (const int64_t[WORLD]){1, 1, 1, 1}, 4, g);
}

/* A row of three elements in 8-bit floats and a scale has 7 bytes. */
static syn_tensor sent_once(syn_ctx *c, syn_tensor x, const syn_group *g) {
    const syn_deepep how = {.fp8 = true, .choice = {8, 2, 1, 1}};
    return syn_deepep_all_to_all(c, x, NULL, NULL, 0, &how, g);
}

static syn_tensor sizes_of(syn_ctx *c, const int64_t *values, int64_t n) {
    const syn_spec spec = {SYN_I64, 1, {n}};
    return syn_input(c, "sizes", &spec, values);
}
#define SIZES(...)                              \
    sizes_of(c, (const int64_t[]){__VA_ARGS__}, \
             sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static syn_tensor integers(syn_ctx *c, const int32_t *values, int64_t n) {
    const syn_spec spec = {SYN_I32, 1, {n}};
    return syn_input(c, "integers", &spec, values);
}
#define INTEGERS(...) \
    integers(c, (const int32_t[]){__VA_ARGS__}, (int64_t)COUNT(((const int32_t[]){__VA_ARGS__})))

static const syn_router_losses both_losses = {SYN_SCORE_SOFTMAX, 1, 1};

static syn_tensor moved_bias(syn_ctx *c, syn_tensor bias, syn_tensor counts) {
    syn_router_bias_update(c, &bias, &counts, 0.5);
    return bias;
}

static syn_tensor limited(syn_ctx *c, syn_tensor places, syn_tensor sizes) {
    return syn_expert_capacity(c, places, 2, &sizes);
}

/* Two of four queries. */
static syn_tensor merged(syn_ctx *c) {
    syn_tensor out = F(1, 4, 2, 3), log_sum = F(1, 2, 4);
    syn_attention_merge(c, &out, &log_sum, F(1, 2, 2, 3), F(1, 2, 2), 1);
    return out;
}

/* Two sequences, with 2 of 5 and 1 of 3 tokens, in blocks of 4. */
static syn_tensor served(syn_ctx *c, syn_tensor q, syn_tensor k, syn_tensor v) {
    const int32_t queries[2] = {2, 1}, keys[2] = {5, 3};
    const syn_paged_options how = {.scale = 0.5,
                                   .block_tokens = 4,
                                   .n = 2,
                                   .queries = queries,
                                   .keys = keys,
                                   .blocks = I(2, 2)};
    return syn_paged_attention(c, q, k, v, &how);
}

static const syn_tensor none = {0};
static const syn_dropout_options drop = {.p = 0.1, .seed = 1};

/* Each line: op, call, shape, flops, bytes read, bytes written, payload in bytes. */
#define OPS(X)                                                                                     \
    X(EMBEDDING, syn_embedding(c, F(5, 4), I(2, 3), 0), "f32[2,3,4]", 0, 96 + 24, 96, 0)           \
    X(LAYERNORM, syn_layernorm(c, F(2, 3, 4), F(4), F(4), 1e-5), "f32[2,3,4]", 8 * 24,             \
      96 + 16 + 16, 96, 0)                                                                         \
    X(RMSNORM, syn_rmsnorm(c, F(2, 3, 4), F(4), 1e-5), "f32[2,3,4]", 4 * 24, 96 + 16, 96, 0)       \
    X(ROPE, syn_rope(c, F(1, 2, 3, 6), I(1, 3), F(2), 1.0), "f32[1,2,3,6]", 3 * 2 * 3 * 4,         \
      144 + 12 + 8, 144, 0)                                                                        \
    X(LINEAR, syn_linear(c, F(2, 3, 4), F(4, 5), F(5), false), "f32[2,3,5]", 2 * 6 * 4 * 5,        \
      96 + 80 + 20, 120, 0)                                                                        \
    X(MATMUL, syn_matmul(c, F(2, 3, 4), F(2, 4, 5), false, false), "f32[2,3,5]",                   \
      2 * 2 * 3 * 4 * 5, 96 + 160, 120, 0)                                                         \
    X(GELU, syn_gelu(c, F(2, 3), true), "f32[2,3]", 8 * 6, 24, 24, 0)                              \
    X(TANH, syn_tanh(c, F(2, 3)), "f32[2,3]", 6, 24, 24, 0)                                        \
    X(RELU, syn_relu(c, F(2, 3)), "f32[2,3]", 6, 24, 24, 0)                                        \
    X(SILU, syn_silu(c, F(2, 3)), "f32[2,3]", 4 * 6, 24, 24, 0)                                    \
    X(SWIGLU, syn_swiglu(c, F(2, 3), F(2, 3)), "f32[2,3]", 5 * 6, 48, 24, 0)                       \
    X(ADD, syn_add(c, F(2, 3), F(3)), "f32[2,3]", 6, 24 + 12, 24, 0)                               \
    X(MUL, syn_mul(c, F(2, 1), F(3)), "f32[2,3]", 6, 8 + 12, 24, 0)                                \
    X(SCALE, syn_scale(c, F(2, 3), 2.0), "f32[2,3]", 6, 24, 24, 0)                                 \
    X(DROPOUT, syn_dropout(c, F(2, 3), I(2), &drop), "f32[2,3]", 6, 24 + 8, 24, 0)                 \
    X(EMBEDDING_GRAD, syn_embedding_grad(c, I(2, 3), F(2, 3, 4), 0, 5, -1), "f32[5,4]", 24,        \
      96 + 24, 80, 0)                                                                              \
    X(EMBEDDING_GRAD_ADD, syn_embedding_grad_add(c, F(5, 4), I(2, 3), F(2, 3, 4), 0, -1),          \
      "f32[5,4]", 24, 96 + 24 + 96, 96, 0)                                                         \
    X(LAYERNORM_GRAD, BUILT(LAYERNORM_GRAD, F(2, 3, 4), F(4), F(2, 3, 4)), "f32[2,3,4]", 16 * 24,  \
      96 + 16 + 96, 96 + 16 + 16, 0)                                                               \
    X(RMSNORM_GRAD, BUILT(RMSNORM_GRAD, F(2, 3, 4), F(4), F(2, 3, 4)), "f32[2,3,4]", 8 * 24,       \
      96 + 16 + 96, 96 + 16, 0)                                                                    \
    X(SILU_GRAD, pairwise(c, SYN_OP_SILU_GRAD, F(2, 3), F(2, 3)), "f32[2,3]", 8 * 6, 48, 24, 0)    \
    X(SWIGLU_GRAD, gated_grad(c, F(2, 3)), "f32[2,3]", 10 * 6, 72, 48, 0)                          \
    X(GELU_GRAD, BUILT(GELU_GRAD, F(2, 3), F(2, 3)), "f32[2,3]", 16 * 6, 48, 24, 0)                \
    X(TANH_GRAD, pairwise(c, SYN_OP_TANH_GRAD, F(2, 3), F(2, 3)), "f32[2,3]", 12, 48, 24, 0)       \
    X(RELU_GRAD, pairwise(c, SYN_OP_RELU_GRAD, F(2, 3), F(2, 3)), "f32[2,3]", 6, 48, 24, 0)        \
    X(SOFTMAX_GRAD, pairwise(c, SYN_OP_SOFTMAX_GRAD, F(2, 3), F(2, 3)), "f32[2,3]", 4 * 6, 48, 24, \
      0)                                                                                           \
    X(SUM_TO, syn_sum_to(c, F(2, 3), (const int64_t[]){3}, 1), "f32[3]", 6, 24, 12, 0)             \
    X(EXPAND, syn_expand(c, F(3), (const int64_t[]){2, 3}, 2), "f32[2,3]", 0, 0, 0, 0)             \
    X(SLICE_GRAD, BUILT(SLICE_GRAD, F(2, 3)), "f32[4,3]", 0, 24, 48, 0)                            \
    X(SLICE_ADD, BUILT(SLICE_ADD, F(4, 3), F(2, 3)), "f32[4,3]", 6, 48, 24, 0)                     \
    X(ACCUMULATE, pairwise(c, SYN_OP_ACCUMULATE, F(2, 3), F(2, 3)), "f32[2,3]", 6, 48, 24, 0)      \
    X(MATMUL_ADD, syn_matmul_add(c, F(3, 5), F(3, 4), F(4, 5), false, false), "f32[3,5]",          \
      (2 * 4 + 1) * 15, 60 + 48 + 80, 60, 0)                                                       \
    X(CROSS_ENTROPY, syn_cross_entropy(c, F(2, 3, 5), I(2, 3), SYN_MEAN, 4), "f32[]", 5 * 30,      \
      120 + 24, 120 + 4, 0)                                                                        \
    X(CROSS_ENTROPY_PART, BUILT(CROSS_ENTROPY_PART, F(2, 3, 5), I(2, 3)), "f32[2,3]", 3 * 30,      \
      120 + 24, 3 * 24, 0)                                                                         \
    X(EXP_RESCALE, threefold(c, F(2, 3)), "f32[2,3]", 3 * 6, 3 * 24, 24, 0)                        \
    X(CROSS_ENTROPY_JOIN,                                                                          \
      BUILT(CROSS_ENTROPY_JOIN, F(2, 3, 5), I(2, 3), F(2, 3), F(2, 3), F(2, 3)), "f32[2,3,5]",     \
      5 * 30, 120 + 24 + 3 * 24, 120 + 4, 0)                                                       \
    X(LOG_SOFTMAX_LOSS, BUILT(LOG_SOFTMAX_LOSS, F(2, 3, 5), I(2, 3), F(2, 3), F(2, 3), F(2, 3)),   \
      "f32[2,3,5]", 30, 120 + 24 + 3 * 24, 120 + 4, 0)                                             \
    X(NLL_GRAD, BUILT(NLL_GRAD, I(2, 3), F(1)), "f32[2,3,5]", 0, 24 + 4, 120, 0)                   \
    X(LOG_SOFTMAX_GRAD, BUILT(LOG_SOFTMAX_GRAD, F(2, 3, 5), F(2, 3, 5), I(2, 3), F(1)),            \
      "f32[2,3,5]", 3 * 30, 240 + 24 + 4, 120, 0)                                                  \
    X(SCALE_MASK, syn_scale_mask(c, F(1, 2, 3, 3), F(1, 3), 0.5, true, 0), "f32[1,2,3,3]", 18,     \
      72 + 12, 72, 0)                                                                              \
    X(SOFTMAX, syn_softmax(c, F(2, 3)), "f32[2,3]", 4 * 6, 24, 24, 0)                              \
    X(ATTENTION,                                                                                   \
      syn_attention(c, F(1, 2, 3, 4), F(1, 2, 5, 4), F(1, 2, 5, 6), F(1, 5), 0.5, true, 2),        \
      "f32[1,2,3,6]", 2 * 3 * 5 * (2 * 4 + 1 + 4 + 2 * 6), 96 + 160 + 240 + 20, 144, 0)            \
    X(ATTENTION_TRAIN, trained(c, F(1, 2, 3, 4), F(1, 2, 5, 4), F(1, 5), 0.1), "f32[1,3,2,4]",     \
      2 * 3 * 5 * (2 * 4 + 1 + 4 + 1 + 2 * 4), 96 + 160 + 160 + 20, 96 + 24, 0)                    \
    X(ATTENTION_GRAD, untrained(c, F(1, 2, 3, 4), F(1, 1, 5, 4), F(1, 3, 2, 4), F(1, 2, 3)),       \
      "f32[1,3,2,4]", 2 * 3 * 5 * (2 * 4 + 1 + 4 + 2 * 4) * 5 / 2, 96 + 80 + 80 + 96 + 24 + 96,    \
      96 + 80 + 80, 0)                                                                             \
    X(KV_APPEND, syn_kv_append(c, F(1, 2, 8, 4), F(1, 2, 3, 4), 5), "f32[1,2,8,4]", 0, 96, 96, 0)  \
    X(PAGED_APPEND, syn_paged_append(c, F(1, 2, 8, 4), F(1, 2, 3, 4), INTEGERS(7, 0, 2)),          \
      "f32[1,2,8,4]", 0, 96 + 12, 96, 0)                                                           \
    X(PAGED_ATTENTION, served(c, F(1, 4, 3, 4), F(1, 2, 8, 4), F(1, 2, 8, 6)), "f32[1,3,4,6]",     \
      4 * (2 * 5 + 1 * 3) * (2 * 4 + 1 + 4 + 2 * 6), 192 + 2 * 8 * 40 + 16, 288, 0)                \
    X(RESHAPE, syn_reshape(c, F(2, 3), (const int64_t[]){-1}, 1), "f32[6]", 0, 0, 0, 0)            \
    X(PERMUTE, turned(c, F(2, 3)), "f32[3,2]", 0, 0, 0, 0)                                         \
    X(SLICE, syn_slice(c, F(4, 3), 0, 1, 2), "f32[2,3]", 0, 0, 0, 0)                               \
    X(TP_ENTER, syn_tp_enter(c, F(2, 3), g), "f32[2,3]", 0, 0, 0, 0)                               \
    X(CONTIGUOUS, syn_contiguous(c, turned(c, F(2, 3))), "f32[3,2]", 0, 24, 24, 0)                 \
    X(CONCAT, joined(c, F(2, 3), F(2, 1)), "f32[2,4]", 0, 24 + 8, 32, 0)                           \
    X(CAST, syn_cast(c, F(2, 3), SYN_BF16), "bf16[2,3]", 0, 24, 12, 0)                             \
    X(SQUARE_SUM, syn_square_sum(c, (const syn_tensor[]){F(2, 3), F(4)}, 2), "f32[]", 2 * 10, 40,  \
      4, 0)                                                                                        \
    X(CLIP_FACTOR, clipped(c, F(1)), "f32[1]", 4, 4, 4 + 4, 0)                                     \
    X(ADAMW, stepped(c), "f32[2,3]", 15 * 10, 4 * 40 + 12 + 4, 3 * 40, 0)                          \
    X(ARGMAX, syn_argmax(c, F(2, 3)), "i32[2]", 6, 24, 8, 0)                                       \
    X(TOP_K, top(c, F(2, 5)), "f32[2,2]", 10, 40, 16 + 16, 0)                                      \
    X(REPETITION_PENALTY, syn_repetition_penalty(c, F(2, 5), I(2, 3), 1.5), "f32[2,5]", 6,         \
      40 + 24, 40, 0)                                                                              \
    X(SAMPLE, drawn(c, F(2, 5)), "i32[2]", 5 * 10, 40, 8, 0)                                       \
    X(ROUTE, routed(c, F(3, 4), F(4)), "f32[3,2]", (4 + 1) * 12 + 2 * 6, 48 + 16, 24 + 24, 0)      \
    X(ROUTE_GRAD, BUILT(ROUTE_GRAD, F(3, 4), I(3, 2), F(3, 2)), "f32[3,4]", (3 + 4) * 12,          \
      48 + 24 + 24, 48, 0)                                                                         \
    X(ROUTER_LOSS, syn_router_loss(c, F(3, 2), F(3, 4), SIZES(1, 2, 2, 1), &both_losses),          \
      "f32[3,2]", 0, 0, 0, 0)                                                                      \
    X(ROUTER_LOSS_ADD, syn_router_loss_add(c, F(1), F(3, 4), SIZES(1, 2, 2, 1), &both_losses),     \
      "f32[1]", (4 + 2 + 4) * 12, 4 + 48 + 32, 4, 0)                                               \
    X(ROUTER_LOSS_GRAD, BUILT(ROUTER_LOSS_GRAD, F(3, 4), SIZES(1, 2, 2, 1)), "f32[3,4]",           \
      (5 + 2 + 4) * 12, 48 + 32, 48, 0)                                                            \
    X(COUNT_ADD, syn_count_add(c, F(4), SIZES(1, 2, 2, 1)), "f32[4]", 4, 16 + 32, 16, 0)           \
    X(ROUTER_BIAS_UPDATE, moved_bias(c, F(4), F(4)), "f32[4]", 4 * 4, 32, 32, 0)                   \
    X(SORT_BY_EXPERT, sorted(c, I(3, 2)), "i32[6]", 2 * 6, 24, 24 + 32, 0)                         \
    X(MOE_PERMUTE, syn_moe_permute(c, F(3, 4), I(5), 2), "f32[5,4]", 0, 80 + 20, 80, 0)            \
    X(MOE_UNPERMUTE, syn_moe_unpermute(c, F(2, 4), INTEGERS(3, 0), 3, 2), "f32[3,4]", 8, 32 + 8,   \
      48, 0)                                                                                       \
    X(GROUPED_LINEAR, syn_grouped_linear(c, F(2, 4), F(3, 4, 5), SIZES(1, 0, 1), F(3, 5), false),  \
      "f32[2,5]", 2 * 10 * 4, 32 + 2 * 80 + 24 + 60, 40, 0)                                        \
    X(GROUPED_PRODUCT, syn_grouped_product(c, F(5, 4), F(5, 3), SIZES(3, 2)), "f32[2,4,3]",        \
      2 * 5 * 12, 80 + 60 + 16, 96, 0)                                                             \
    X(GROUPED_PRODUCT_ADD, syn_grouped_product_add(c, F(2, 4, 3), F(5, 4), F(5, 3), SIZES(3, 2)),  \
      "f32[2,4,3]", 2 * 5 * 12 + 24, 96 + 80 + 60 + 16, 96, 0)                                     \
    X(GROUPED_SUM, syn_grouped_sum(c, F(5, 4), SIZES(3, 2)), "f32[2,4]", 20, 80 + 16, 32, 0)       \
    X(SINKS_GRAD, sunk(c, F(1, 3, 2, 4), F(1, 2, 3), F(2)), "f32[2]", 2 * 24 + 3 * 6,              \
      96 + 24 + 96 + 8, 8, 0)                                                                      \
    X(EXPERT_CAPACITY, limited(c, I(6), SIZES(1, 2, 3)), "i32[6]", 6, 24 + 24, 24 + 24, 0)         \
    X(EXPERT_ORDER, ordered(c), "i32[4]", 4 + 6, 48, 16 + 16, 0)                                   \
    X(ALL_TO_ALL, exchanged(c, F(4, 3), g), "f32[4,3]", 0, 48, 48, 48)                             \
    X(DEEPEP_ALL_TO_ALL, sent_once(c, F(4, 3), g), "f32[4,3]", 0, 48, 48, 28)                      \
    X(ALL_REDUCE, syn_all_reduce(c, F(2, 3), SYN_REDUCE_MAX, g), "f32[2,3]", 0, 24, 24, 24)        \
    X(ALL_REDUCE_COALESCED, together(c, F(2, 3), F(4), true, g), "f32[4]", 0, 40, 40, 40)          \
    X(ALL_GATHER, syn_all_gather(c, F(2, 3), 1, g), "f32[2,12]", 0, 24, 96, 24)                    \
    X(REDUCE_SCATTER, syn_reduce_scatter(c, F(2, 8), SYN_REDUCE_SUM, 1, g), "f32[2,2]", 0, 64, 16, \
      64)                                                                                          \
    X(BROADCAST, syn_broadcast(c, F(2, 3), 2, g), "f32[2,3]", 0, 24, 24, 24)                       \
    X(BROADCAST_COALESCED, together(c, F(2, 3), F(4), false, g), "f32[4]", 0, 40, 40, 40)          \
    X(SEND, (syn_send(c, F(2, 3), (me + 1) % WORLD, 7), none), "", 0, 24, 0, 24)                   \
    X(RECV, received(c, (me + WORLD - 1) % WORLD), "f32[2,3]", 0, 0, 24, 24)                       \
    X(BARRIER, (syn_barrier(c, g), none), "", 0, 0, 0, 0)                                          \
    X(GATHER_TOKENS, syn_gather_tokens(c, F(2, 3, 2), false, g), "f32[2,12,2]", 0, 48, 192, 48)    \
    X(CUT_TOKENS, syn_cut_tokens(c, F(2, 8, 3), g), "f32[2,2,3]", 0, 0, 0, 0)                      \
    X(REDUCE_SCATTER_COALESCED,                                                                    \
      syn_reduce_scatter_coalesced(c, (const syn_tensor[]){F(2, 3), F(4)}, 2, SYN_REDUCE_SUM, 3,   \
                                   g),                                                             \
      "f32[3]", 0, 40, 12, 4 * 12)                                                                 \
    X(ALL_GATHER_COALESCED, gathered(c, F(2, 3), F(4), F(3), g), "f32[4]", 0, 12, 40, 12)          \
    X(ATTENTION_MERGE, merged(c), "f32[1,4,2,3]", 3 * 12, 4 * (12 + 4) + 48 + 16, 4 * (12 + 4), 0) \
    X(ZIGZAG_JOIN, syn_zigzag_join(c, F(2, 4, 3), 0), "f32[8,3]", 0, 96, 96, 0)                    \
    X(ZIGZAG_SPLIT, syn_zigzag_split(c, F(8, 3), 0, 2), "f32[2,4,3]", 0, 96, 96, 0)                \
    X(CONTEXT_ATTENTION,                                                                           \
      syn_context_attention(c, F(1, 2, 4, 3), F(1, 2, 4, 3), F(1, 2, 4, 3), 0.5, false, 0, g),     \
      "f32[1,4,2,3]", 0, 0, 0, 0)

static const struct entry {
    syn_op op;
    const char *shape;
    uint64_t flops, read, written, payload;
} entries[] = {
#define X(id, call, shape, flops, read, written, payload) \
    {SYN_OP_##id, shape, flops, read, written, payload},
    OPS(X)
#undef X
};
enum { ENTRIES = (int)(sizeof entries / sizeof *entries) };

static syn_tensor perform(syn_ctx *c, syn_op op, const syn_group *g, int me) {
    switch (op) {
#define X(id, call, shape, flops, read, written, payload) \
    case SYN_OP_##id:                                     \
        return call;
        OPS(X)
#undef X
    default:
        return none;
    }
}

static void test_every_op_has_a_line(void) {
    int lines[SYN_OP_COUNT] = {0};
    for (int i = 0; i < ENTRIES; i++) lines[entries[i].op]++;
    for (int op = 1; op < SYN_OP_COUNT; op++)
        CHECK_MSG(lines[op] == 1, "%s has %d lines", syn_op_table[op].name, lines[op]);
}

static void test_rows_are_whole(void) {
    for (int op = 1; op < SYN_OP_COUNT; op++) {
        const syn_opdef *d = &syn_op_table[op];
        CHECK_MSG(d->name && *d->name && d->infer && d->cost && d->attrs, "op %d", op);
        for (int other = 1; other < op; other++)
            CHECK_MSG(strcmp(d->name, syn_op_table[other].name) != 0, "%s twice", d->name);
        CHECK_MSG((d->cpu == NULL) == ((d->flags & SYN_OPF_VIEW) != 0),
                  "%s: only views have no kernel", d->name);
        CHECK_MSG(((d->flags & SYN_OPF_COMM) != 0) == (d->comm != SYN_COMM_NONE), "%s", d->name);
        CHECK_MSG((d->category == SYN_CATEGORY_COMMUNICATION) == (d->comm != SYN_COMM_NONE), "%s",
                  d->name);
        CHECK_MSG((d->category == SYN_CATEGORY_VIEW) == (d->cpu == NULL), "%s", d->name);
        CHECK_MSG(d->min_in >= 0 && d->min_in <= d->max_in && d->max_in <= SYN_MAX_INPUTS, "%s",
                  d->name);
        CHECK_MSG(d->n_out >= -1 && d->n_out <= SYN_MAX_OUTPUTS, "%s", d->name);
        const bool list = (d->flags & SYN_OPF_INPLACE_LIST) == SYN_OPF_INPLACE_LIST;
        CHECK_MSG(list == (d->n_out < 0), "%s", d->name);
        CHECK_MSG(!(d->flags & SYN_OPF_VIEW) || (d->min_in > 0 && d->n_out == 1), "%s", d->name);
        const int versions = list ? 0 : syn_opdef_versions(d, NULL);
        CHECK_MSG(list || (versions <= d->min_in && versions <= d->n_out), "%s", d->name);
        int n = 0;
        bool lists = false;
        /* The form is "name:t name:t", and lists are last. */
        for (const char *at = d->attrs; *at; n++) {
            const char *colon = strchr(at, ':');
            CHECK_MSG(colon && colon > at && strchr("ifscl", colon[1]), "%s: attributes '%s'",
                      d->name, d->attrs);
            CHECK_MSG(colon[2] == '\0' || colon[2] == ' ', "%s: attributes '%s'", d->name,
                      d->attrs);
            CHECK_MSG(!lists || colon[1] == 'l', "%s: attributes '%s'", d->name, d->attrs);
            lists = colon[1] == 'l';
            at = colon + (colon[2] ? 3 : 2);
        }
        CHECK_MSG(n <= SYN_MAX_ATTRS, "%s", d->name);
    }
}

/* Test programs that compare the results of ops with references (ref_check). */
static const char *const numeric[] = {
    "test_ops_pointwise", "test_ops_layer", "test_ops_attention",  "test_attention_grad",
    "test_ops_select",    "test_ops_comm",  "test_views",          "test_ops_gradients",
    "test_ops_training",  "test_ops_half",  "test_ops_half_types", "test_ops_experts",
    "test_ops_context",   "test_ops_paged"};

/* Runs such a program and marks the ops that it compared. Returns false if the program fails. */
static bool ask_compared(const char *program, bool compared[SYN_OP_COUNT]) {
    char command[4096], line[128], name[64];
    snprintf(command, sizeof command, "SYN_TEST_COMPARED=1 '%s/tests/%s'", getenv("SYN_BUILD"),
             program);
    FILE *out = popen(command, "r");
    while (out && fgets(line, sizeof line, out))
        for (int op = 1; sscanf(line, "compared %63s", name) == 1 && op < SYN_OP_COUNT; op++)
            compared[op] = compared[op] || strcmp(name, syn_op_table[op].name) == 0;
    return out && pclose(out) == 0;
}

/* Every op with a kernel was compared with a reference. The programs report the ops that ref_check
   compared, so a list in this file cannot claim more than they test. */
static void test_every_kernel_was_compared(void) {
    bool compared[SYN_OP_COUNT] = {false};
    if (TEST_REDUCED) SKIP("those programs run with the sanitizer by themselves");
    if (!getenv("SYN_BUILD")) SKIP("SYN_BUILD does not say where the other tests are");
    for (size_t i = 0; i < sizeof numeric / sizeof *numeric; i++)
        CHECK_MSG(ask_compared(numeric[i], compared), "%s failed", numeric[i]);
    /* A send has no result; the test of recv checks it. */
    for (int op = 1; op < SYN_OP_COUNT; op++)
        if (syn_op_table[op].cpu && syn_op_table[op].n_out > 0)
            CHECK_MSG(compared[op], "no test compares a result of '%s' with a reference",
                      syn_op_table[op].name);
}

/* Rank `rank` of a fake world of WORLD ranks. */
struct world {
    syn_comm *comm;
    syn_group *group;
};

static bool world_open(struct world *w, int rank) {
    syn_error err = {0};
    const int32_t ranks[WORLD] = {0, 1, 2, 3};
    return syn_comm_fake_new(&w->comm, rank, WORLD, &err) == SYN_OK &&
           syn_comm_open_group(w->comm, 9, "tp0", ranks, WORLD, &w->group, &err) == SYN_OK;
}

/* Runs all lines. Sets *failed to the first line whose result has another shape. */
static void perform_all(syn_ctx *ctx, const syn_group *group, int me, const char **failed) {
    *failed = NULL;
    for (int i = 0; i < ENTRIES && !*failed; i++) {
        char text[SYN_SPEC_TEXT];
        const syn_tensor y = perform(ctx, entries[i].op, group, me);
        const bool right =
            *entries[i].shape
                ? y.id && strcmp(syn_spec_text(syn_tensor_spec(ctx, y), text, sizeof text),
                                 entries[i].shape) == 0
                : syn_ctx_status(ctx) == SYN_OK;
        if (!right) *failed = syn_op_table[entries[i].op].name;
    }
}

static uint64_t world_hashes[WORLD];
static size_t world_peaks[WORLD];

static syn_status rank_main(syn_comm *comm, void *arg, syn_error *err) {
    (void)arg;
    const int32_t ranks[WORLD] = {0, 1, 2, 3};
    syn_group *group = NULL;
    syn_ctx *ctx = NULL;
    const char *failed;
    SYN_TRY(syn_comm_open_group(comm, 9, "tp0", ranks, WORLD, &group, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err));
    perform_all(ctx, group, comm->rank, &failed);
    syn_status s = syn_ctx_check(ctx, err);
    if (s == SYN_OK && failed) s = SYN_FAIL(err, SYN_E_INVALID, "%s gives another shape", failed);
    world_hashes[comm->rank] = syn_trace_hash(syn_ctx_trace(ctx));
    world_peaks[comm->rank] = syn_ctx_peak_bytes(ctx);
    syn_ctx_free(ctx);
    return s;
}

static void test_shapes_on_both_devices(void) {
    syn_error err = {0};
    CHECK_OK(syn_local_run(WORLD, rank_main, NULL, &err), err);
    for (int r = 0; r < WORLD; r++) {
        struct world w;
        const char *failed;
        CHECK(world_open(&w, r));
        syn_ctx *meta = ref_ctx(SYN_DEVICE_META, w.comm);
        perform_all(meta, w.group, r, &failed);
        CHECK_MSG(!failed, "%s: %s", failed, syn_ctx_error(meta)->text);
        CHECK_MSG(syn_trace_hash(syn_ctx_trace(meta)) == world_hashes[r], "rank %d", r);
        CHECK_INT(syn_ctx_peak_bytes(meta), world_peaks[r]);
        syn_ctx_free(meta);
        syn_comm_close(w.comm);
    }
}

static void test_costs(void) {
    struct world w;
    syn_error err = {0};
    syn_graph *graph = NULL;
    const char *failed;
    CHECK(world_open(&w, 1));
    syn_ctx *meta = ref_ctx(SYN_DEVICE_META, w.comm);
    perform_all(meta, w.group, 1, &failed);
    const syn_trace *trace = syn_ctx_trace(meta);
    CHECK_OK(syn_trace_graph(&graph, &trace, 1, NULL, &err), err);
    CHECK_OK(syn_graph_verify(graph, &err), err);
    syn_cursor cursor = {0};
    for (int i = 0; i < ENTRIES; i++) {
        uint32_t at = 0;
        const char *name = syn_op_table[entries[i].op].name;
        while (at < graph->ranks[0].n_nodes && trace->nodes[at + 1].op != entries[i].op) at++;
        const syn_node *n = syn_graph_node(graph, 0, at, &cursor);
        CHECK_STR(n->op, name);
        CHECK_MSG(n->flops == entries[i].flops, "%s: %llu flops", name,
                  (unsigned long long)n->flops);
        CHECK_MSG(n->bytes_read == entries[i].read, "%s reads %llu", name,
                  (unsigned long long)n->bytes_read);
        CHECK_MSG(n->bytes_written == entries[i].written, "%s writes %llu", name,
                  (unsigned long long)n->bytes_written);
        CHECK_MSG(n->comm_bytes == entries[i].payload, "%s: payload %llu", name,
                  (unsigned long long)n->comm_bytes);
        CHECK_INT(n->comm, syn_op_table[entries[i].op].comm);
        CHECK_INT(n->flags & SYN_NODE_VIRTUAL ? 1 : 0, syn_op_table[entries[i].op].cpu == NULL);
    }
    syn_cursor_free(&cursor);
    syn_graph_free(graph);
    syn_ctx_free(meta);
    syn_comm_close(w.comm);
}

/* Ops with a group: all ops that need several ranks, and the views tp_enter and cut_tokens, whose
   group no exporter writes. From the row of each op, its open group must be found. */
static void test_groups_of_rows(void) {
    struct world w;
    syn_error err = {0};
    syn_graph *graph = NULL;
    const char *failed;
    int seen = 0;
    CHECK(world_open(&w, 2));
    syn_ctx *meta = ref_ctx(SYN_DEVICE_META, w.comm);
    perform_all(meta, w.group, 2, &failed);
    const syn_trace *trace = syn_ctx_trace(meta);
    CHECK_OK(syn_trace_graph(&graph, &trace, 1, NULL, &err), err);
    syn_cursor cursor = {0};
    for (uint32_t node = 1; node < trace->n_nodes; node++) {
        const syn_op op = (syn_op)trace->nodes[node].op;
        const syn_comm_kind kind = syn_op_table[op].comm;
        const bool collective =
            kind != SYN_COMM_NONE && kind != SYN_COMM_SEND && kind != SYN_COMM_RECV;
        const bool has = collective || op == SYN_OP_TP_ENTER || op == SYN_OP_CUT_TOKENS ||
                         op == SYN_OP_CONTEXT_ATTENTION;
        CHECK_MSG(syn_ctx_group(meta, node) == (has ? w.group : NULL), "%s", syn_op_table[op].name);
        CHECK_INT(syn_graph_node(graph, 0, node - 1, &cursor)->group, collective ? w.group->id : 0);
        seen += has;
    }
    CHECK_INT(seen, 15);
    CHECK(syn_ctx_group(meta, 0) == NULL && syn_ctx_group(meta, 4000000000u) == NULL);
    syn_cursor_free(&cursor);
    syn_graph_free(graph);
    syn_ctx_free(meta);
    syn_comm_close(w.comm);
    /* A trace may have a row with a group that was never opened. */
    syn_ctx *alone = ref_ctx(SYN_DEVICE_META, NULL);
    syn_tp_enter(alone, ZEROS(alone, SYN_F32, 2), &ref_pair);
    CHECK(syn_ctx_trace(alone)->nodes[1].group == 1 && syn_ctx_group(alone, 1) == NULL);
    syn_ctx_free(alone);
}

/* After a failure, functions that build ops do nothing, and the first message stays. */
static void test_nothing_happens_after_a_failure(void) {
    struct world w;
    CHECK(world_open(&w, 0));
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, w.comm);
    syn_tensor c_in = ZEROS(ctx, SYN_F32, 2, 3);
    CHECK_INT(syn_ctx_fail(ctx, SYN_E_IO, "the first of %d", 2).id, 0);
    const syn_trace *t = syn_ctx_trace(ctx);
    const size_t nodes = t->n_nodes, tensors = t->n_tensors, inputs = t->n_inputs;
    for (int i = 0; i < ENTRIES; i++) CHECK_INT(perform(ctx, entries[i].op, w.group, 0).id, 0);
    syn_gelu(ctx, c_in, true); /* a valid tensor as input makes no difference */
    syn_contiguous(ctx, c_in);
    syn_push_scope(ctx, "x");
    syn_next_step(ctx);
    CHECK(t->n_nodes == nodes && t->n_tensors == tensors && t->n_inputs == inputs && t->step == 0);
    CHECK_STR(syn_ctx_error(ctx)->text, "the first of 2");
    CHECK_INT(syn_ctx_status(ctx), SYN_E_IO);
    syn_ctx_free(ctx);
    syn_comm_close(w.comm);
}

/* Each allocation of each line fails once. The trace must stay valid. */
static void test_out_of_memory(void) {
    for (int device = 0; device < 2; device++)
        for (int i = 0; i < ENTRIES; i++) {
            const syn_op op = entries[i].op;
            if (device == 0 &&
                ((syn_op_table[op].flags & SYN_OPF_COMM) || op == SYN_OP_CONTEXT_ATTENTION))
                continue; /* skips communication, because there is no communicator */
            bool done = false;
            for (uint64_t n = 0; !done; n++) {
                struct world w;
                syn_error err = {0};
                CHECK(world_open(&w, 0));
                syn_ctx *ctx =
                    ref_ctx(device ? SYN_DEVICE_META : SYN_DEVICE_CPU, device ? w.comm : NULL);
                syn_memory_fail_after(n);
                perform(ctx, op, w.group, 0);
                syn_memory_fail_after(SYN_MEMORY_NEVER);
                done = syn_ctx_status(ctx) == SYN_OK;
                if (!done) CHECK_INT(syn_ctx_status(ctx), SYN_E_NOMEM);
                if (!done) CHECK_HAS(syn_ctx_error(ctx)->text, "out of memory");
                CHECK_OK(syn_trace_verify(syn_ctx_trace(ctx), &err), err);
                CHECK(n < 100);
                syn_ctx_free(ctx);
                syn_comm_close(w.comm);
            }
        }
}

static const test_case cases[] = {
    {"every op has a line", test_every_op_has_a_line},
    {"rows are whole", test_rows_are_whole},
    {"every kernel was compared", test_every_kernel_was_compared},
    {"shapes on both devices", test_shapes_on_both_devices},
    {"costs", test_costs},
    {"groups of rows", test_groups_of_rows},
    {"nothing happens after a failure", test_nothing_happens_after_a_failure},
    {"out of memory", test_out_of_memory},
};
TEST_MAIN(cases)
