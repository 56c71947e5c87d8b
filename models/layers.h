/* Tensor-parallel layers after Megatron-LM (Shoeybi et al. 2019, sec. 3). tp is the group that
   shares each layer, NULL when one rank holds all of it. */
#ifndef MODELS_LAYERS_H
#define MODELS_LAYERS_H

#include "ops/ops.h"

SYN_API_BEGIN

typedef struct syn_layer_linear {
    syn_tensor weight, bias; /* this rank's shard; bias poisoned: none */
    bool out_in;             /* see syn_initializer */
} syn_layer_linear;

typedef struct syn_layer_norm {
    syn_tensor weight, bias; /* (C); bias poisoned: none, as of RMSNorm */
} syn_layer_norm;

/* How parameters are made. */
typedef struct syn_initializer {
    double std; /* of random matrices; biases are zero */
    uint64_t seed;
    syn_dtype dtype;        /* f32, f16 or bf16 */
    syn_dtype weight_dtype; /* with f32: of matrices that are multiplied or looked up by token, f32,
                               f16 or bf16; all else stays f32 */
    bool out_in;  /* linear weights are (out, in), as torch.nn.Linear has them; else (in, out), as
                     HuggingFace's Conv1D */
    bool no_bias; /* linear layers have none */
} syn_initializer;

/* <name>.weight and, if it has one, <name>.bias of a normalisation: ones and zeros. */
syn_layer_norm syn_layer_norm_new(syn_ctx *ctx, const char *name, int64_t width, bool bias,
                                  syn_dtype dtype);
/* Output dimension cut among the ranks, in `parts` equal blocks each (3: fused q, k, v). weight
   (in, out/tp) or (out/tp, in), bias (out/tp). */
syn_layer_linear syn_column_linear_new(syn_ctx *ctx, const char *name, int64_t in, int64_t out,
                                       int parts, const syn_initializer *init, const syn_group *tp);
/* Input dimension cut among the ranks. weight (in/tp, out) or (out, in/tp), bias (out) whole on
   every rank. */
syn_layer_linear syn_row_linear_new(syn_ctx *ctx, const char *name, int64_t in, int64_t out,
                                    const syn_initializer *init, const syn_group *tp);

/* Of parameters, here and below, the newest versions are used, which an optimizer has written. */

/* x (..., in), the same on all ranks -> (..., out/tp), or (..., out) with gather_output (an
   all-gather). */
syn_tensor syn_column_linear(syn_ctx *ctx, syn_tensor x, const syn_layer_linear *layer,
                             bool gather_output, const syn_group *tp, const char *label);
/* x (..., in/tp) when input_is_parallel, else (..., in) of which each rank takes its part -> (...,
   out), the same on all ranks (an all-reduce). The bias is added once, after the sum. */
syn_tensor syn_row_linear(syn_ctx *ctx, syn_tensor x, const syn_layer_linear *layer,
                          bool input_is_parallel, const syn_group *tp, const char *label);
/* The two halves of syn_row_linear, for layers whose outputs are added: add their partial sums,
   then reduce once. The first is this rank's summand, x (..., in/tp) -> (..., out); the bias is in
   it only if there is one rank. The second all-reduces y, then adds the bias (which broadcasts to
   y's shape) or SYN_NO_BIAS; with one rank it returns y. */
syn_tensor syn_row_linear_partial(syn_ctx *ctx, syn_tensor x, const syn_layer_linear *layer,
                                  const syn_group *tp, const char *label);
syn_tensor syn_row_linear_reduce(syn_ctx *ctx, syn_tensor y, syn_tensor bias, const syn_group *tp);

/* A table of `vocab` rows, the first `valid` of which stand for tokens, cut by rows among ranks. */
syn_tensor syn_vocab_embedding_new(syn_ctx *ctx, const char *name, int64_t vocab, int64_t valid,
                                   int64_t width, const syn_initializer *init, const syn_group *tp);
/* ids (B, T) i32 -> (B, T, C) of `dtype`: each rank looks up its rows, an all-reduce joins them.
   `padding`: see syn_embedding_padded. */
syn_tensor syn_vocab_embedding(syn_ctx *ctx, syn_tensor table, syn_tensor ids, int64_t padding,
                               syn_dtype dtype, const syn_group *tp);
/* A number for each row of such a table, zero at first, cut alike. */
syn_tensor syn_vocab_bias_new(syn_ctx *ctx, const char *name, int64_t vocab, int64_t valid,
                              syn_dtype dtype, const syn_group *tp);
/* x (B, C), table and bias (or SYN_NO_BIAS) as above -> this rank's part of the logits, (B, V/tp),
   padding among it: product with the transposed table. */
syn_tensor syn_vocab_logits(syn_ctx *ctx, syn_tensor x, syn_tensor table, syn_tensor bias,
                            const syn_group *tp, const char *label);
/* x (B, C), table and bias (or SYN_NO_BIAS) as above -> logits (B, valid): product with the
   transposed table, all-gather, padding cut off. */
syn_tensor syn_vocab_head(syn_ctx *ctx, syn_tensor x, syn_tensor table, syn_tensor bias,
                          int64_t valid, const syn_group *tp, const char *label);

/* Such logits, and targets (B), of which `valid` are ids -> the loss: see syn_cross_entropy, also
   for `weight`. The same on all ranks. */
syn_tensor syn_vocab_loss(syn_ctx *ctx, syn_tensor logits, syn_tensor targets, syn_tensor weight,
                          int64_t valid, const syn_group *tp);

/* Attention between its projections. A rank has H heads of queries and G of keys and values; G
   divides H, and each head of keys and values serves H/G consecutive ones of queries. */

/* x (B, T, H D), of which a head has `depth` = D columns -> (B, H, T, D): views. */
syn_tensor syn_heads_split(syn_ctx *ctx, syn_tensor x, int64_t depth);
/* x (B, G, T, D) behind the `position` tokens that the cache (B, G, Smax, D) holds, which becomes
   its next version, named `label` -> all keys or values so far, (B, G, position + T, D). */
syn_tensor syn_heads_append_cache(syn_ctx *ctx, syn_tensor *cache, syn_tensor x, int64_t position,
                                  const char *label);
typedef struct syn_heads_options {
    bool fused;       /* one op instead of product, mask, softmax, product */
    bool causal;      /* query t sees keys up to position + t; else all */
    int64_t position; /* of the first query among the keys */
    int64_t window;   /* causal: see syn_attention_window; 0: none */
    syn_tensor mask;  /* (B, S), see syn_scale_mask, or SYN_NO_MASK */
    /* Of the weights; p 0, as in inference: none. A rank whose heads follow h others says so by
       row = h * T. */
    syn_tensor keys;
    syn_dropout_options dropping;
} syn_heads_options;
/* q (B, H, T, D), k and v (B, G, S, D) -> (B, T, H D): softmax of q k' / sqrt(D), times v. */
syn_tensor syn_heads_attend(syn_ctx *ctx, syn_tensor q, syn_tensor k, syn_tensor v,
                            const syn_heads_options *how);

SYN_API_END
#endif
