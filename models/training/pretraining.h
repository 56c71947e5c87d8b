/* Pretraining losses, with one interface for all families: next tokens for causal models, masked
 * words for BERT. */
#ifndef MODELS_PRETRAINING_H
#define MODELS_PRETRAINING_H

#include "models/model.h"
#include "ops/ops.h"

SYN_API_BEGIN

/* A batch of B sequences of T tokens. types and mask are those of syn_bert_forward and
 * syn_causal_loss_masked, or invalid tensors. Causal models have no types. */
typedef struct syn_pretraining_batch {
    syn_tensor tokens, targets; /* (B, T), i32; SYN_IGNORED_TARGET: nothing is predicted */
    syn_tensor types, mask;
    syn_tensor weight; /* weight of each target that is not ignored, or SYN_MEAN
                        * (syn_cross_entropy) */
} syn_pretraining_batch;

/* The heads that a model needs for pretraining (syn_model_options). */
unsigned syn_pretraining_heads(const syn_model_config *config);
/* The loss, a scalar. */
syn_tensor syn_pretraining_loss(syn_model *model, const syn_pretraining_batch *batch);
/* The same for a pipeline stage. x: (B, T, C) from the stage before; invalid on the first stage,
 * which reads batch->tokens and types. Returns (B, T, C), or the loss if the part has the head. */
syn_tensor syn_pretraining_stage(syn_model *model, syn_tensor x,
                                 const syn_pretraining_batch *batch);

SYN_API_END
#endif
