/* BERT: the encoder of Devlin et al. 2019 with its pretraining heads. A BERT is a syn_model
   (models/model.h) whose configuration is of the BERT family. Parameters have their HuggingFace
   names without the prefix "bert.". */
#ifndef MODELS_BERT_H
#define MODELS_BERT_H

#include "models/model.h"
#include "ops/ops.h"

SYN_API_BEGIN

/* Heads on top of the encoder; bits of syn_model_options.heads. */
enum {
    SYN_BERT_POOLER = 1, /* tanh of a dense layer on the first token */
    SYN_BERT_MLM = 2,    /* masked language modeling: predicts masked words */
    SYN_BERT_NSP = 4     /* next sentence prediction; includes the pooler */
};

/* For all functions below: results are the same on all ranks. A function releases its intermediate
   tensors; the caller releases the result. Create inputs before the call. */

/* Runs the encoder. tokens: (B, T) i32. types: (B, T) i32, or SYN_BERT_NO_TYPES if all tokens have
   type 0. mask: (B, T) f32, added to the attention scores of every query: 0 at tokens and -infinity
   at padding; SYN_NO_MASK: no padding. Returns the hidden states (B, T, C); those at padding are
   meaningless. A part of a model (syn_model_part) without the embedding gets the previous part's
   output instead of tokens, (B, T, C) in the model's dtype, and no types. With sequence parallelism
   (syn_model_options), hidden states that require gradients, and those of parts, are this rank's
   tokens, (B, T/tp, C); syn_bert_mlm_loss accepts these. */
#define SYN_BERT_NO_TYPES (SYN_LITERAL(syn_tensor){0, 0})
syn_tensor syn_bert_forward(syn_model *bert, syn_tensor tokens, syn_tensor types, syn_tensor mask);
/* Pooler: hidden (B, T, C) -> (B, C). */
syn_tensor syn_bert_pooled(syn_model *bert, syn_tensor hidden);
/* MLM head: hidden (B, T, C) and positions (N) i32 -> word logits (N, V0) at these positions.
   Position t of sequence b is number b * T + t; an out-of-range position uses a hidden state of
   zeros. With SYN_BERT_ALL, returns the logits of all positions, (B * T, V0). */
#define SYN_BERT_ALL (SYN_LITERAL(syn_tensor){0, 0})
syn_tensor syn_bert_mlm(syn_model *bert, syn_tensor hidden, syn_tensor positions);
/* MLM loss: hidden (B, T, C) and labels (B, T) i32 -> the loss, a scalar. A label is the id of the
   word to predict, or SYN_IGNORED_TARGET where nothing is predicted. syn_cross_entropy defines the
   loss and `weight`. */
syn_tensor syn_bert_mlm_loss(syn_model *bert, syn_tensor hidden, syn_tensor labels,
                             syn_tensor weight);
/* NSP head: pooled (B, C) -> logits (B, 2). Class 0: the second sentence follows the first; class
   1: it does not. */
syn_tensor syn_bert_nsp(syn_model *bert, syn_tensor pooled);

SYN_API_END
#endif
