/* Attention between its projections: splits heads, appends to the KV cache, and computes attention
   from queries, keys and values. Declared in layers.h; like the layers, it needs no model. */
#include <math.h>

#include "models/layers.h"
#include "syntorch/gradient.h"

syn_tensor syn_heads_split(syn_ctx *ctx, syn_tensor x, int64_t depth) {
    const int64_t dims[4] = {syn_tensor_dim(ctx, x, 0), syn_tensor_dim(ctx, x, 1), -1, depth};
    const int order[4] = {0, 2, 1, 3};
    return syn_permute(ctx, syn_reshape(ctx, x, dims, 4), order, 4);
}

syn_tensor syn_heads_append_cache(syn_ctx *ctx, syn_tensor *cache, syn_tensor x, int64_t position,
                                  const char *label) {
    *cache = syn_name(ctx, syn_kv_append(ctx, *cache, x, position), label);
    return syn_slice(ctx, *cache, 2, 0, position + syn_tensor_dim(ctx, x, 2));
}

/* Reshapes x (B, H, T, N) to `heads` heads: (B, heads, H T / heads, N). If `heads` is the number of
   key/value heads, the rows of all query heads that share a key/value head become the rows of one
   head; this works because these query heads are consecutive. A second call with the number of
   query heads restores the shape. */
static syn_tensor regroup(syn_ctx *ctx, syn_tensor x, int64_t heads) {
    if (syn_tensor_dim(ctx, x, 1) == heads) return x;
    const int64_t rows = syn_tensor_dim(ctx, x, 1) * syn_tensor_dim(ctx, x, 2);
    const int64_t dims[4] = {syn_tensor_dim(ctx, x, 0), heads, rows / heads, -1};
    return syn_reshape(ctx, x, dims, 4);
}

/* The softmax of the scores y (B, H, T, S) and of each head's sink -> (B, H, T, S), as transformers
   computes it. */
static syn_tensor softmax_with_sinks(syn_ctx *ctx, syn_tensor y, syn_tensor sinks) {
    const int64_t *n = syn_tensor_spec(ctx, y)->dims, keys = n[3];
    const int64_t column[4] = {n[0], n[1], n[2], 1};
    sinks = syn_reshape(ctx, sinks, (int64_t[]){1, n[1], 1, 1}, 4);
    const syn_tensor both[2] = {y, syn_expand(ctx, sinks, column, 4)};
    y = syn_softmax(ctx, syn_concat(ctx, both, 2, 3));
    return syn_slice(ctx, y, 3, 0, keys);
}

/* Attention as separate ops. Each matrix product runs per key/value head, with the rows of all
   query heads that share it. The tensors of T x S scores are large, so each is released as soon as
   the next one is computed. */
static syn_tensor unfused(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                          const syn_heads_options *how, double scale) {
    const int64_t heads = syn_tensor_dim(ctx, q, 1), shared = syn_tensor_dim(ctx, k, 1);
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_tensor y = syn_matmul(ctx, regroup(ctx, q, shared), k, false, true);
    y = regroup(ctx, syn_name(ctx, y, "scores"), heads);
    if (how->cap > 0) {
        y = syn_tanh(ctx, syn_scale(ctx, y, scale / how->cap));
        syn_release(ctx, mark, &y, 1);
        scale = how->cap;
    }
    y = how->window ? syn_scale_mask_window(ctx, y, how->mask, scale, how->position, how->window)
                    : syn_scale_mask(ctx, y, how->mask, scale, how->causal, how->position);
    syn_release(ctx, mark, &y, 1);
    y = how->sinks.id ? softmax_with_sinks(ctx, y, how->sinks) : syn_softmax(ctx, y);
    y = syn_name(ctx, y, "probs");
    syn_release(ctx, mark, &y, 1);
    if (how->dropout.p > 0) {
        y = syn_name(ctx, syn_dropout(ctx, y, how->keys, &how->dropout), "dropped");
        syn_release(ctx, mark, &y, 1);
    }
    y = syn_matmul(ctx, regroup(ctx, y, shared), v, false, false);
    y = regroup(ctx, syn_name(ctx, y, "context"), heads);
    syn_release(ctx, mark, &y, 1);
    return y;
}

syn_tensor syn_heads_attend(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                            const syn_heads_options *how) {
    if (syn_ctx_status(ctx) != SYN_OK) return (syn_tensor){0};
    const int64_t heads = syn_tensor_dim(ctx, q, 1), shared = syn_tensor_dim(ctx, k, 1);
    if (shared < 1 || heads % shared != 0)
        return syn_ctx_fail(ctx, SYN_E_SHAPE, "%lld key heads do not divide the %lld query heads",
                            (long long)shared, (long long)heads);
    const int order[4] = {0, 2, 1, 3};
    const int64_t dims[3] = {syn_tensor_dim(ctx, q, 0), syn_tensor_dim(ctx, q, 2), -1};
    const double scale = how->scale > 0 ? how->scale : 1 / sqrt((double)syn_tensor_dim(ctx, q, 3));
    const bool fused = how->fused && !(how->cap > 0);
    const bool grad = syn_requires_grad(ctx, q) || syn_requires_grad(ctx, k) ||
                      syn_requires_grad(ctx, v) || syn_requires_grad(ctx, how->sinks);
    if (fused && (grad || how->dropout.p > 0)) {
        const syn_attention_options train = {.mask = how->mask,
                                             .scale = scale,
                                             .causal = how->causal,
                                             .offset = how->position,
                                             .window = how->window,
                                             .sinks = how->sinks,
                                             .keys = how->keys,
                                             .dropout = how->dropout};
        return syn_reshape(ctx, syn_attention_train(ctx, q, k, v, &train), dims, 3);
    }
    const syn_tensor y =
        !fused          ? unfused(ctx, q, k, v, how, scale)
        : how->sinks.id ? syn_attention_sinks(ctx, q, k, v, how->mask, how->sinks, scale,
                                              how->position, how->window)
        : how->window
            ? syn_attention_window(ctx, q, k, v, how->mask, scale, how->position, how->window)
            : syn_attention(ctx, q, k, v, how->mask, scale, how->causal, how->position);
    return syn_reshape(ctx, syn_permute(ctx, y, order, 4), dims, 3);
}
