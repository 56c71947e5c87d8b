/* What models are pretrained with, the same way for every family: the next token of a causal model,
   BERT's masked words. */
#ifndef MODELS_PRETRAINING_H
#define MODELS_PRETRAINING_H

#include "models/model.h"
#include "ops/ops.h"

SYN_API_BEGIN

/* A batch (B, T). types and mask (see syn_bert_forward, syn_causal_loss_masked) may be poisoned;
   causal models have no types. */
typedef struct syn_pretraining_batch {
    syn_tensor tokens, targets; /* i32; SYN_IGNORED_TARGET where nothing is predicted */
    syn_tensor types, mask;
    syn_tensor weight; /* of each target that counts, or SYN_MEAN: see syn_cross_entropy */
} syn_pretraining_batch;

/* The heads to make the model with: see syn_model_options. */
unsigned syn_pretraining_heads(const syn_model_config *config);
/* The loss, a scalar. */
syn_tensor syn_pretraining_loss(syn_model *model, const syn_pretraining_batch *batch);

SYN_API_END
#endif
