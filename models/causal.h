/* Causal language models: each token is predicted from those before it, whose keys and values are
   kept. The same for every family that has them (syn_model_is_causal). */
#ifndef MODELS_CAUSAL_H
#define MODELS_CAUSAL_H

#include "models/model.h"
#include "ops/ops.h"

SYN_API_BEGIN

/* Begins new texts: KV caches (B, G/tp, max_tokens, D) of each layer for the G heads of keys,
   position 0; the caches of earlier texts are given back. max_tokens is prompt and generated tokens
   together. Fails when it exceeds the model's positions. */
syn_status syn_causal_begin(syn_model *model, int64_t batch, int64_t max_tokens,
                            syn_error *err) SYN_MUST_USE;
/* Texts of different length in one batch, which end together: the first padding[b] tokens of text b
   count for nothing, and its positions from the first behind them. Follows syn_causal_begin. */
syn_status syn_causal_set_padding(syn_model *model, const int32_t *padding,
                                  syn_error *err) SYN_MUST_USE;
/* tokens (B, T) i32, the next T of every text -> logits (B, V0) of the last of them, the same on
   all ranks, of the model's dtype. Of a part of a model: without its embedding it takes what the
   part before it gave, (B, T, C) of that dtype; without its head it gives that of its last layer.
   Intermediate data are released, the result stays until the caller releases it. */
syn_tensor syn_causal_forward(syn_model *model, syn_tensor x);
/* Training. tokens and targets (B, T) i32, of a whole model: each target is what follows its token,
   or SYN_IGNORED_TARGET -> the loss, a scalar: see syn_cross_entropy, also for `weight`. Needs no
   caches and leaves those of syn_causal_begin alone. */
syn_tensor syn_causal_loss(syn_model *model, syn_tensor tokens, syn_tensor targets,
                           syn_tensor weight);
/* The same where tokens are not seen by others: mask (B, T) f32, 0, or -infinity at such a token
   (padding whose own prediction counts; what follows a text is seen by nothing in it anyway). */
syn_tensor syn_causal_loss_masked(syn_model *model, syn_tensor tokens, syn_tensor mask,
                                  syn_tensor targets, syn_tensor weight);
/* Training of a pipeline stage, a part of a model: x is the tokens if the part has the embedding,
   otherwise (B, T, C) from the stage before. Returns (B, T, C) for the next stage or, if the part
   has the head, the loss. targets and weight are only used then. mask: as above, or SYN_NO_MASK. */
syn_tensor syn_causal_stage(syn_model *model, syn_tensor x, syn_tensor mask, syn_tensor targets,
                            syn_tensor weight);
/* Tokens in the caches. */
int64_t syn_causal_position(const syn_model *model);

SYN_API_END
#endif
