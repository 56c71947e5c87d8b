/* A model in a context: its parameters, cut among the ranks of a tensor-parallel group, of all its
   layers or of some. What is computed with them: models/causal.h, models/bert.h. */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "models/config.h"
#include "syntorch/context.h"

SYN_API_BEGIN

typedef struct syn_model syn_model;

/* What of a model a rank holds: a stage of a pipeline. The parts that are made in one context are
   of one model. Where embedding and head are tied and two parts have them, those of one context
   share the token table, which the first to be made makes; in contexts of their own each has a
   copy, as the first and last stage of a pipeline do. */
typedef struct syn_model_part {
    int64_t first_layer, n_layers;
    bool embed; /* what makes the first layer's input of tokens */
    bool head;  /* what stands on the last layer */
} syn_model_part;

/* Activations that training does not keep but computes again: those within attention without its
   projections (which fused attention never has), or a layer's (Korthikanti et al. 2022). */
typedef enum syn_recompute_mode {
    SYN_RECOMPUTE_NONE,
    SYN_RECOMPUTE_SELECTIVE,
    SYN_RECOMPUTE_FULL
} syn_recompute_mode;

typedef struct syn_model_options {
    const syn_group *tp;        /* ranks that share every layer; NULL: one holds all */
    const syn_group *kv;        /* of them those with the same heads of keys and values, in training
                                   (syn_model_kv_ranks); NULL: this rank alone */
    const syn_model_part *part; /* NULL: the whole model */
    unsigned heads;             /* BERT: of SYN_BERT_POOLER, SYN_BERT_MLM, SYN_BERT_NSP */
    bool fused_attention;       /* one op instead of product, mask, softmax, product */
    syn_recompute_mode recompute; /* in backward */
    uint64_t seed;          /* of the random weights: the same full model for any tp and part */
    syn_dtype dtype;        /* of parameters and of all that is computed: f32, f16 or bf16. Sums
                               within an op are f32 */
    syn_dtype weight_dtype; /* with f32: of matrices and the token table, f32, f16 or bf16, which
                               are widened as they are read; else f32 or the same */
    /* Called as layers are made; NULL: not. */
    void (*progress)(void *user, int64_t done, int64_t of);
    void *progress_user;
} syn_model_options;

/* Makes the parameters (and on the CPU fills them). The context must outlive the model. */
syn_status syn_model_new(syn_model **out, syn_ctx *ctx, const syn_model_config *config,
                         const syn_model_options *options, syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_model_free(syn_model *model);
/* Dropout in training: with these probabilities elements of the embedding, of each attention's
   weights, and of what attention and MLP of a layer add, are zero (transformers' embd_pdrop,
   attn_pdrop, resid_pdrop; BERT's hidden_dropout_prob is the first and the last). */
typedef struct syn_model_dropout {
    double embedding, attention, residual; /* in [0, 1) */
    uint64_t seed;
    syn_tensor keys; /* (B) i32: a number of each text that follows, by which its masks are made:
                        the same on any number of ranks (see syn_dropout). SYN_NO_KEYS: its place in
                        the batch */
} syn_model_dropout;
/* Of passes from now on whose results require gradients; NULL: none, as at first. */
void syn_model_set_dropout(syn_model *model, const syn_model_dropout *dropout);
const syn_model_config *syn_model_get_config(const syn_model *model);
syn_ctx *syn_model_ctx(const syn_model *model);
const syn_group *syn_model_tp(const syn_model *model);

SYN_API_END
#endif
