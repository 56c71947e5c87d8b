/* Tensor-parallel layers as in Megatron-LM (Shoeybi et al. 2019, section 3). In all functions, `tp`
 * is the tensor-parallel group; NULL: one rank has the whole layer. */
#ifndef MODELS_LAYERS_H
#define MODELS_LAYERS_H

#include "ops/ops.h"

SYN_API_BEGIN

typedef struct syn_layer_linear {
    syn_tensor weight, bias; /* this rank's shards; bias invalid: none */
    bool out_in;             /* see syn_initializer */
} syn_layer_linear;

typedef struct syn_layer_norm {
    syn_tensor weight, bias; /* (C); bias invalid: none, as in RMSNorm */
} syn_layer_norm;

/* How parameters are created. */
typedef struct syn_initializer {
    double std; /* standard deviation of random matrices; biases are zero */
    uint64_t seed;
    syn_dtype dtype;        /* f32, f16 or bf16 */
    syn_dtype weight_dtype; /* only if dtype is f32: dtype of matrices and token tables, f32, f16 or
                               bf16; other parameters are then f32 */
    bool out_in;  /* linear weights are (out, in), as in torch.nn.Linear; otherwise (in, out), as in
                     HuggingFace's Conv1D */
    bool no_bias; /* linear layers have no bias */
} syn_initializer;

/* Creates the parameters of a norm: <name>.weight, all ones, and, if `bias`, <name>.bias, all
 * zeros. */
syn_layer_norm syn_layer_norm_new(syn_ctx *ctx, const char *name, int64_t width, bool bias,
                                  syn_dtype dtype);
/* Column-parallel: shards the output dimension. If parts > 1, the output consists of that many
 * equal blocks, each of which is sharded (3: fused q, k, v). weight (in, out/tp) or (out/tp, in),
 * bias (out/tp). */
syn_layer_linear syn_column_linear_new(syn_ctx *ctx, const char *name, int64_t in, int64_t out,
                                       int parts, const syn_initializer *init, const syn_group *tp);
/* Row-parallel: shards the input dimension. weight (in/tp, out) or (out, in/tp); every rank has the
 * whole bias (out). */
syn_layer_linear syn_row_linear_new(syn_ctx *ctx, const char *name, int64_t in, int64_t out,
                                    const syn_initializer *init, const syn_group *tp);

/* The matrices of a layer of all experts, (experts, out, in) whatever init->out_in; bias (experts,
 * out). ep: the ranks that share the experts, of which each has some; NULL: each rank has all.
 * axis: the dimension of the matrices that is sharded over `group`: 1 or 2. group NULL: none. With
 * axis 2, every rank has the whole bias, or with ep its columns of the bias. */
syn_layer_linear syn_experts_linear_new(syn_ctx *ctx, const char *name, int64_t experts, int64_t in,
                                        int64_t out, int axis, const syn_initializer *init,
                                        const syn_group *ep, const syn_group *group);

/* The functions below use the current versions of parameters (syn_current_version), because an
 * optimizer may have written new ones. */

/* x (..., in), the same on all ranks -> (..., out/tp), or (..., out) with gather_output (an
   all-gather). */
syn_tensor syn_column_linear(syn_ctx *ctx, syn_tensor x, const syn_layer_linear *layer,
                             bool gather_output, const syn_group *tp, const char *label);
/* x (..., in/tp) if input_is_parallel, otherwise (..., in), of which each rank uses its slice ->
 * (..., out), the same on all ranks after an all-reduce. The bias is added once, after the sum. */
syn_tensor syn_row_linear(syn_ctx *ctx, syn_tensor x, const syn_layer_linear *layer,
                          bool input_is_parallel, const syn_group *tp, const char *label);
/* The two halves of syn_row_linear, for layers whose outputs are added: add the layers' partial
   sums first, then reduce once. syn_row_linear_partial returns this rank's partial sum, x (...,
   in/tp) -> (..., out); it includes the bias only if there is a single rank. syn_row_linear_reduce
   all-reduces y and adds the bias, which broadcasts to y's shape, unless it is SYN_NO_BIAS. With a
   single rank it returns y. */
syn_tensor syn_row_linear_partial(syn_ctx *ctx, syn_tensor x, const syn_layer_linear *layer,
                                  const syn_group *tp, const char *label);
syn_tensor syn_row_linear_reduce(syn_ctx *ctx, syn_tensor y, syn_tensor bias, const syn_group *tp);

/* Creates a token table of `vocab` rows, sharded by rows. The first `valid` rows are tokens, the
 * others are padding. */
syn_tensor syn_vocab_embedding_new(syn_ctx *ctx, const char *name, int64_t vocab, int64_t valid,
                                   int64_t width, const syn_initializer *init, const syn_group *tp);
/* ids (B, T) i32 -> (B, T, C) in `dtype`. Each rank looks up its own rows, and an all-reduce adds
 * the results. syn_embedding_padded describes `padding`. */
syn_tensor syn_vocab_embedding(syn_ctx *ctx, syn_tensor table, syn_tensor ids, int64_t padding,
                               syn_dtype dtype, const syn_group *tp);
/* The same without the all-reduce: the result of this rank's rows. */
syn_tensor syn_vocab_embedding_partial(syn_ctx *ctx, syn_tensor table, syn_tensor ids,
                                       int64_t padding, syn_dtype dtype, const syn_group *tp);
/* Creates a bias with one element per row of such a table, all zeros, sharded like the table. */
syn_tensor syn_vocab_bias_new(syn_ctx *ctx, const char *name, int64_t vocab, int64_t valid,
                              syn_dtype dtype, const syn_group *tp);
/* x (B, C), table and bias (or SYN_NO_BIAS) as above -> this rank's shard of the logits, (B, V/tp),
 * including those of padding. It is the product of x and the transposed table. */
syn_tensor syn_vocab_logits(syn_ctx *ctx, syn_tensor x, syn_tensor table, syn_tensor bias,
                            const syn_group *tp, const char *label);
/* The same, followed by an all-gather and a slice without the padding -> logits (B, valid). */
syn_tensor syn_vocab_head(syn_ctx *ctx, syn_tensor x, syn_tensor table, syn_tensor bias,
                          int64_t valid, const syn_group *tp, const char *label);

/* logits: the result of syn_vocab_logits; targets (B), each below `valid` or SYN_IGNORED_TARGET ->
 * the loss, the same on all ranks. syn_cross_entropy defines the loss and `weight`. unfused: see
 * syn_cross_entropy_unfused. */
syn_tensor syn_vocab_loss(syn_ctx *ctx, syn_tensor logits, syn_tensor targets, syn_tensor weight,
                          int64_t valid, bool unfused, const syn_group *tp);

/* Attention without its projections. A rank has H query heads and G key/value heads. G divides H,
 * and H/G consecutive query heads use the same key/value head. */

/* x (B, T, H D) -> a view (B, H, T, D). depth: head_dim D. */
syn_tensor syn_heads_split(syn_ctx *ctx, syn_tensor x, int64_t depth);
/* Appends x (B, G, T, D) to the cache (B, G, Smax, D), which contains `position` tokens, and sets
 * *cache to its new version, named `label`. Returns all keys or values so far, (B, G, position + T,
 * D). */
syn_tensor syn_heads_append_cache(syn_ctx *ctx, syn_tensor *cache, syn_tensor x, int64_t position,
                                  const char *label);
typedef struct syn_heads_options {
    bool fused;       /* a single op instead of product, mask, softmax, product */
    bool causal;      /* query t attends to keys up to position + t; otherwise to all */
    int64_t position; /* position of query 0: the number of keys before its own */
    int64_t window;   /* only if causal: the window of syn_attention_window; 0: none */
    double scale;     /* factor of the scores; 0: 1 / sqrt(D) */
    syn_tensor mask;  /* (B, S), see syn_scale_mask, or SYN_NO_MASK */
    double cap;       /* scores x become cap tanh(x / cap), by separate ops; 0: none */
    syn_tensor sinks; /* (H), see syn_attention_sinks; only if causal; invalid: none */
    /* Dropout of the attention weights (syn_dropout); dropout.p 0: none. If h heads of other ranks
     * come before this rank's, dropout.row is h * T. */
    syn_tensor keys;
    syn_dropout_options dropout;
} syn_heads_options;
/* q (B, H, T, D), k (B, G, S, D), v (B, G, S, Dv) -> (B, T, H Dv): softmax(scale q k') v. */
syn_tensor syn_heads_attend(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                            const syn_heads_options *how);

SYN_API_END
#endif
