/* Creates and runs tensor-parallel layers; see layers.h. They need ops but no model, so they can be
   used and tested alone. */
#include "models/layers.h"

#include <stdio.h>

#include "syntorch/gradient.h"

static int tp_size(const syn_group *tp) {
    return tp ? tp->size : 1;
}

static syn_shard shard(int axis, int parts, const syn_group *tp) {
    return SYN_SHARD(axis, parts, tp ? tp->index : 0, tp_size(tp));
}

static syn_tensor parameter(syn_ctx *ctx, const char *layer, const char *which, syn_spec full,
                            syn_shard cut, syn_init init, const syn_initializer *how) {
    char name[SYN_MAX_NAME];
    snprintf(name, sizeof name, "%s.%s", layer, which);
    return syn_param(ctx, name, &full, cut, init, how ? how->std : 0.0, -1, how ? how->seed : 0);
}

/* The dtype of matrices and token tables. In f32 models it may be narrower than the dtype of the
   other parameters. */
static int32_t matrix_dtype(const syn_initializer *init) {
    return (int32_t)(init->dtype == SYN_F32 ? init->weight_dtype : init->dtype);
}

syn_layer_norm syn_layer_norm_new(syn_ctx *ctx, const char *name, int64_t width, bool bias,
                                  syn_dtype dtype) {
    const syn_spec spec = {(int32_t)dtype, 1, {width}};
    const syn_tensor weight = parameter(ctx, name, "weight", spec, SYN_WHOLE, SYN_INIT_ONE, NULL);
    if (!bias) return (syn_layer_norm){weight, SYN_NO_BIAS};
    return (syn_layer_norm){weight,
                            parameter(ctx, name, "bias", spec, SYN_WHOLE, SYN_INIT_ZERO, NULL)};
}

/* Creates the weight of a linear layer, sharded along its output dimension (`by_column`) or its
   input dimension. */
static syn_tensor linear_weight(syn_ctx *ctx, const char *name, int64_t in, int64_t out,
                                bool by_column, int parts, const syn_initializer *init,
                                const syn_group *tp) {
    const syn_spec spec = {
        matrix_dtype(init), 2, {init->out_in ? out : in, init->out_in ? in : out}};
    return parameter(ctx, name, "weight", spec, shard(by_column != init->out_in, parts, tp),
                     SYN_INIT_NORMAL, init);
}

static syn_tensor linear_bias(syn_ctx *ctx, const char *name, int64_t out, syn_shard cut,
                              const syn_initializer *init) {
    const syn_spec spec = {(int32_t)init->dtype, 1, {out}};
    if (init->no_bias) return SYN_NO_BIAS;
    return parameter(ctx, name, "bias", spec, cut, SYN_INIT_ZERO, NULL);
}

syn_layer_linear syn_column_linear_new(syn_ctx *ctx, const char *name, int64_t in, int64_t out,
                                       int parts, const syn_initializer *init,
                                       const syn_group *tp) {
    const syn_tensor weight = linear_weight(ctx, name, in, out, true, parts, init, tp);
    const syn_tensor bias = linear_bias(ctx, name, out, shard(0, parts, tp), init);
    return (syn_layer_linear){weight, bias, init->out_in};
}

syn_layer_linear syn_row_linear_new(syn_ctx *ctx, const char *name, int64_t in, int64_t out,
                                    const syn_initializer *init, const syn_group *tp) {
    const syn_tensor weight = linear_weight(ctx, name, in, out, false, 1, init, tp);
    return (syn_layer_linear){weight, linear_bias(ctx, name, out, SYN_WHOLE, init), init->out_in};
}

/* The shard of the experts' matrices or biases along `axis`; -1: none. */
static syn_shard experts_shard(int axis, const syn_group *ep, const syn_group *group) {
    if (axis < 0 || tp_size(group) == 1) return shard(0, 1, ep);
    syn_shard cut = shard(axis, 1, group);
    if (tp_size(ep) == 1) return cut;
    cut.range = ep->index;
    cut.ranges = ep->size;
    return cut;
}

syn_layer_linear syn_experts_linear_new(syn_ctx *ctx, const char *name, int64_t experts, int64_t in,
                                        int64_t out, int axis, const syn_initializer *init,
                                        const syn_group *ep, const syn_group *group) {
    const syn_spec spec = {matrix_dtype(init), 3, {experts, out, in}};
    const syn_tensor weight =
        parameter(ctx, name, "weight", spec, experts_shard(axis, ep, group), SYN_INIT_NORMAL, init);
    const syn_spec of_bias = {(int32_t)init->dtype, 2, {experts, out}};
    if (init->no_bias) return (syn_layer_linear){weight, SYN_NO_BIAS, true};
    return (syn_layer_linear){weight,
                              parameter(ctx, name, "bias", of_bias,
                                        experts_shard(axis < 2 || ep ? 1 : -1, ep, group),
                                        SYN_INIT_ZERO, NULL),
                              true};
}

static syn_tensor multiply(syn_ctx *ctx, syn_tensor x, const syn_layer_linear *layer,
                           syn_tensor bias, const char *label) {
    const syn_tensor w = syn_current_version(ctx, layer->weight),
                     b = syn_current_version(ctx, bias);
    return syn_name(ctx, syn_linear(ctx, x, w, b, layer->out_in), label);
}

syn_tensor syn_column_linear(syn_ctx *ctx, syn_tensor x, const syn_layer_linear *layer,
                             bool gather_output, const syn_group *tp, const char *label) {
    if (tp_size(tp) > 1) x = syn_tp_enter(ctx, x, tp);
    syn_tensor y = multiply(ctx, x, layer, layer->bias, label);
    if (gather_output && tp_size(tp) > 1) y = syn_all_gather(ctx, y, -1, tp);
    return y;
}

syn_tensor syn_row_linear_partial(syn_ctx *ctx, syn_tensor x, const syn_layer_linear *layer,
                                  const syn_group *tp, const char *label) {
    return multiply(ctx, x, layer, tp_size(tp) == 1 ? layer->bias : SYN_NO_BIAS, label);
}

syn_tensor syn_row_linear_reduce(syn_ctx *ctx, syn_tensor y, syn_tensor bias, const syn_group *tp) {
    if (tp_size(tp) == 1) return y;
    y = syn_all_reduce(ctx, y, SYN_REDUCE_SUM, tp);
    return bias.id ? syn_name(ctx, syn_add(ctx, y, syn_current_version(ctx, bias)), "bias") : y;
}

syn_tensor syn_row_linear(syn_ctx *ctx, syn_tensor x, const syn_layer_linear *layer,
                          bool input_is_parallel, const syn_group *tp, const char *label) {
    if (tp_size(tp) > 1 && !input_is_parallel) {
        const int64_t part = syn_tensor_dim(ctx, x, -1) / tp->size;
        x = syn_slice(ctx, x, -1, tp->index * part, part);
    }
    x = syn_row_linear_partial(ctx, x, layer, tp, label);
    return syn_row_linear_reduce(ctx, x, layer->bias, tp);
}

syn_tensor syn_vocab_embedding_new(syn_ctx *ctx, const char *name, int64_t vocab, int64_t valid,
                                   int64_t width, const syn_initializer *init,
                                   const syn_group *tp) {
    char full[160];
    snprintf(full, sizeof full, "%s.weight", name);
    const syn_spec table = {matrix_dtype(init), 2, {vocab, width}};
    return syn_param(ctx, full, &table, shard(0, 1, tp), SYN_INIT_NORMAL, init->std, valid,
                     init->seed);
}

syn_tensor syn_vocab_embedding_partial(syn_ctx *ctx, syn_tensor table, syn_tensor ids,
                                       int64_t padding, syn_dtype dtype, const syn_group *tp) {
    const int64_t first = tp_size(tp) > 1 ? tp->index * syn_tensor_dim(ctx, table, 0) : 0;
    table = syn_current_version(ctx, table);
    if (!syn_requires_grad(ctx, table)) padding = -1; /* only the gradient uses it */
    syn_tensor x = syn_embedding_padded(ctx, table, ids, first, padding);
    return syn_name(ctx, syn_cast(ctx, x, dtype), "tokens");
}

syn_tensor syn_vocab_embedding(syn_ctx *ctx, syn_tensor table, syn_tensor ids, int64_t padding,
                               syn_dtype dtype, const syn_group *tp) {
    const syn_tensor x = syn_vocab_embedding_partial(ctx, table, ids, padding, dtype, tp);
    return tp_size(tp) > 1 ? syn_all_reduce(ctx, x, SYN_REDUCE_SUM, tp) : x;
}

syn_tensor syn_vocab_bias_new(syn_ctx *ctx, const char *name, int64_t vocab, int64_t valid,
                              syn_dtype dtype, const syn_group *tp) {
    char full[160];
    snprintf(full, sizeof full, "%s.bias", name);
    const syn_spec spec = {(int32_t)dtype, 1, {vocab}};
    return syn_param(ctx, full, &spec, shard(0, 1, tp), SYN_INIT_ZERO, 0.0, valid, 0);
}

syn_tensor syn_vocab_logits(syn_ctx *ctx, syn_tensor x, syn_tensor table, syn_tensor bias,
                            const syn_group *tp, const char *label) {
    if (tp_size(tp) > 1) x = syn_tp_enter(ctx, x, tp);
    table = syn_current_version(ctx, table);
    return syn_name(ctx, syn_linear(ctx, x, table, syn_current_version(ctx, bias), true), label);
}

syn_tensor syn_vocab_head(syn_ctx *ctx, syn_tensor x, syn_tensor table, syn_tensor bias,
                          int64_t valid, const syn_group *tp, const char *label) {
    syn_tensor y = syn_vocab_logits(ctx, x, table, bias, tp, label);
    if (tp_size(tp) > 1) y = syn_all_gather(ctx, y, -1, tp);
    return syn_tensor_dim(ctx, y, -1) > valid ? syn_slice(ctx, y, -1, 0, valid) : y;
}

syn_tensor syn_vocab_loss(syn_ctx *ctx, syn_tensor logits, syn_tensor targets, syn_tensor weight,
                          int64_t valid, bool unfused, const syn_group *tp) {
    const bool whole = tp_size(tp) == 1;
    if (whole && !unfused) return syn_cross_entropy(ctx, logits, targets, weight, valid);
    const int64_t width = syn_tensor_dim(ctx, logits, -1), first = whole ? 0 : tp->index * width;
    const int64_t classes = valid - first < 0 ? 0 : valid - first < width ? valid - first : width;
    if (unfused)
        return syn_cross_entropy_unfused(ctx, logits, targets, weight, classes, first, valid,
                                         whole ? NULL : tp);
    return syn_cross_entropy_sharded(ctx, logits, targets, weight, classes, first, tp);
}
