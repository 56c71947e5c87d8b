/* Checkpoints in the inference program: which model they are of, whether they fit it,
   and writing one. */
#ifndef TOOLS_CHECKPOINT_H
#define TOOLS_CHECKPOINT_H

#include "tools/inference/inference.h"

/* Sets run->config and what the model does (run->task): from --model, --model_config, the
   config.json beside --weights, or the example's. */
syn_status checkpoint_configure(inference *run, syn_error *err) SYN_MUST_USE;
/* Opens --weights into run->weights, decides run->dtype, and adapts the configuration to them. */
syn_status checkpoint_open(inference *run, syn_error *err) SYN_MUST_USE;
/* Compares all names and shapes with the model. What does not fit is listed on standard error, and
   err says how much. */
syn_status checkpoint_compare(inference *run, syn_error *err) SYN_MUST_USE;
/* Saving to --save_weights: makes the folder, and one in it for what is not complete; writes the
   model there, which every rank calls; puts it in the place of what the folder holds. */
syn_status checkpoint_begin_saving(inference *run, syn_error *err) SYN_MUST_USE;
syn_status checkpoint_save(const inference *run, syn_ctx *ctx, syn_comm *comm,
                           syn_error *err) SYN_MUST_USE;
syn_status checkpoint_end_saving(inference *run, syn_error *err) SYN_MUST_USE;

#endif
