/* BERT: the encoder of Devlin et al. 2019 with its pretraining heads, cut for tensor parallelism:
   heads of the attention, columns then rows of the MLP, rows of the vocabulary (Shoeybi et al.
   2019, sec. 3). Post-layernorm, learned positions, token types. Parameters have HuggingFace's
   names without "bert.". */
#ifndef MODELS_BERT_H
#define MODELS_BERT_H

#include "models/bert_config.h"
#include "models/layers.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn_bert syn_bert;

typedef struct syn_bert_options {
    const syn_group *tp;    /* ranks that share every layer; NULL: one holds all */
    unsigned heads;         /* of SYN_BERT_POOLER, SYN_BERT_MLM, SYN_BERT_NSP */
    bool fused_attention;   /* one op instead of product, mask, softmax, product */
    uint64_t seed;          /* of the random weights: the same full model for any tp */
    syn_dtype weight_dtype; /* of matrices and the word table: f32, f16 or bf16; all else is f32 */
    void (*progress)(void *user, int64_t done,
                     int64_t of); /* called as layers are made; NULL: not */
    void *progress_user;
} syn_bert_options;

/* Makes the parameters (and on the CPU fills them). The context must outlive the model. */
syn_status syn_bert_new(syn_bert **out, syn_ctx *ctx, const syn_bert_config *config,
                        const syn_bert_options *options, syn_error *err) SYN_MUST_USE;
void syn_bert_free(syn_bert *bert);
const syn_bert_config *syn_bert_get_config(const syn_bert *bert);
syn_ctx *syn_bert_ctx(const syn_bert *bert);
const syn_group *syn_bert_tp(const syn_bert *bert);

/* Below, results are the same on all ranks; intermediate data are released, the result stays until
   the caller releases it. The inputs must have been made before. */

/* tokens (B, T) i32; types (B, T) i32 or SYN_BERT_NO_TYPES: all of type 0; mask (B, T) f32, added
   to the scores of every query: 0 at tokens, -infinity at padding, or SYN_NO_MASK: no padding ->
   hidden (B, T, C). Hidden states of padding mean nothing. */
#define SYN_BERT_NO_TYPES ((syn_tensor){0})
syn_tensor syn_bert_forward(syn_bert *bert, syn_tensor tokens, syn_tensor types, syn_tensor mask);
/* hidden (B, T, C) -> (B, C). */
syn_tensor syn_bert_pooled(syn_bert *bert, syn_tensor hidden);
/* hidden (B, T, C), positions (N) i32, each b T + t, or SYN_BERT_ALL -> logits (N, V0) of the words
   there; of all, (B T, V0). A position outside is taken for a hidden state of zeros. */
#define SYN_BERT_ALL ((syn_tensor){0})
syn_tensor syn_bert_mlm(syn_bert *bert, syn_tensor hidden, syn_tensor positions);
/* pooled (B, C) -> logits (B, 2): the second sentence follows, or is another. */
syn_tensor syn_bert_nsp(syn_bert *bert, syn_tensor pooled);

#ifdef __cplusplus
}
#endif
#endif
