/* BERT: the encoder of Devlin et al. 2019 with its pretraining heads: a model (models/model.h)
   whose configuration says so. Parameters have HuggingFace's names without "bert.". */
#ifndef MODELS_BERT_H
#define MODELS_BERT_H

#include "models/model.h"
#include "ops/ops.h"

SYN_API_BEGIN

/* What stands on the encoder; bits of syn_model_options.heads. */
enum {
    SYN_BERT_POOLER = 1, /* tanh of a dense layer of the first token */
    SYN_BERT_MLM = 2,    /* the words masked out */
    SYN_BERT_NSP = 4     /* whether a sentence follows the other; brings the pooler */
};

/* Below, results are the same on all ranks; intermediate data are released, the result stays until
   the caller releases it. The inputs must have been made before. */

/* tokens (B, T) i32; types (B, T) i32 or SYN_BERT_NO_TYPES: all of type 0; mask (B, T) f32, added
   to the scores of every query: 0 at tokens, -infinity at padding, or SYN_NO_MASK: no padding ->
   hidden (B, T, C). Hidden states of padding mean nothing. A part of a model without the embedding
   takes what the part before it gave, (B, T, C) of the model's dtype, in place of the tokens, and
   no types. */
#define SYN_BERT_NO_TYPES (SYN_LITERAL(syn_tensor){0, 0})
syn_tensor syn_bert_forward(syn_model *bert, syn_tensor tokens, syn_tensor types, syn_tensor mask);
/* hidden (B, T, C) -> (B, C). */
syn_tensor syn_bert_pooled(syn_model *bert, syn_tensor hidden);
/* hidden (B, T, C), positions (N) i32, each b T + t, or SYN_BERT_ALL -> logits (N, V0) of the words
   there; of all, (B T, V0). A position outside is taken for a hidden state of zeros. */
#define SYN_BERT_ALL (SYN_LITERAL(syn_tensor){0, 0})
syn_tensor syn_bert_mlm(syn_model *bert, syn_tensor hidden, syn_tensor positions);
/* hidden (B, T, C), labels (B, T) i32, a word's id where it is to be predicted, else
   SYN_IGNORED_TARGET -> the loss, a scalar: see syn_cross_entropy, also for `weight`. */
syn_tensor syn_bert_mlm_loss(syn_model *bert, syn_tensor hidden, syn_tensor labels,
                             syn_tensor weight);
/* pooled (B, C) -> logits (B, 2): the second sentence follows, or is another. */
syn_tensor syn_bert_nsp(syn_model *bert, syn_tensor pooled);

SYN_API_END
#endif
