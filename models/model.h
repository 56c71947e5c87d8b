/* A model in a context: its parameters, for all layers or some of them, sharded over the ranks of a
 * tensor-parallel group. models/causal.h and models/bert.h compute with them. */
#ifndef MODELS_MODEL_H
#define MODELS_MODEL_H

#include "models/config.h"
#include "syntorch/context.h"

SYN_API_BEGIN

typedef struct syn_model syn_model;

/* The part of a model that a rank has, such as a pipeline stage. All parts in a context belong to
 * one model. If embedding and head are tied and in different parts, two parts in one context share
 * the token table, which is created with the first of them. In different contexts each part has a
 * copy, as the first and the last stage of a pipeline do. */
typedef struct syn_model_part {
    int64_t first_layer, n_layers;
    bool embed; /* has the embedding, from tokens to the first layer's input */
    bool head;  /* has the final norm and the output head */
} syn_model_part;

/* Activations that are recomputed in backward instead of saved (Korthikanti et al. 2022).
 * Selective: those within attention, without its projections; fused attention has none. Full: those
 * of whole layers. */
typedef enum syn_recompute_mode {
    SYN_RECOMPUTE_NONE,
    SYN_RECOMPUTE_SELECTIVE,
    SYN_RECOMPUTE_FULL
} syn_recompute_mode;

typedef struct syn_model_options {
    const syn_group *tp;        /* tensor-parallel ranks; NULL: one rank has whole layers */
    const syn_group *kv;        /* training: the tensor-parallel ranks with the same key/value heads
                                   (syn_model_kv_ranks); NULL: only this rank */
    const syn_model_part *part; /* NULL: the whole model */
    unsigned heads;             /* BERT: bits SYN_BERT_POOLER, SYN_BERT_MLM, SYN_BERT_NSP */
    bool fused_attention;       /* one op instead of product, mask, softmax, product */
    syn_recompute_mode recompute;
    uint64_t seed;   /* of random weights; they do not depend on tp and part */
    syn_dtype dtype; /* of parameters and activations: f32, f16, bf16. Sums within ops are f32 */
    syn_dtype weight_dtype; /* of matrices and the token table. If dtype is f32: f32, f16 or bf16,
                               widened when they are read; otherwise f32 or dtype */
    /* Called before each layer is created, and after the last one, with the number of layers
       created up to then and of all; may be NULL. */
    void (*progress)(void *user, int64_t done, int64_t of);
    void *progress_user;
} syn_model_options;

/* Creates the parameters; on devices with data, fills them. The context must outlive the model. */
syn_status syn_model_new(syn_model **out, syn_ctx *ctx, const syn_model_config *config,
                         const syn_model_options *options, syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_model_free(syn_model *model);
/* Dropout in training: probabilities with which elements of the embedding, of attention weights,
 * and of the outputs of attention and MLP become zero (transformers' embd_pdrop, attn_pdrop and
 * resid_pdrop; BERT's hidden_dropout_prob is the first and the last). */
typedef struct syn_model_dropout {
    double embedding, attention, residual; /* in [0, 1) */
    uint64_t seed;
    syn_tensor keys; /* (B) i32: a number per sample, from which its masks are generated, so that
                        they do not depend on the number of ranks (see syn_dropout). SYN_NO_KEYS:
                        its index in the batch */
} syn_model_dropout;
/* Sets the dropout of later forward passes whose results require gradients; NULL, the default:
 * none. Copies *dropout. */
void syn_model_set_dropout(syn_model *model, const syn_model_dropout *dropout);
const syn_model_config *syn_model_get_config(const syn_model *model);
syn_ctx *syn_model_ctx(const syn_model *model);
const syn_group *syn_model_tp(const syn_model *model);

SYN_API_END
#endif
