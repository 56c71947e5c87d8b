/* Checkpoints in the inference program: choosing the model, checking that weights match it,
   saving. */
#ifndef TOOLS_CHECKPOINT_H
#define TOOLS_CHECKPOINT_H

#include "tools/inference/inference.h"

/* Sets run->config and run->task from --model, --model_config, the config.json next to --weights,
   or else the default example configuration. */
syn_status checkpoint_configure(inference *run, syn_error *err) SYN_MUST_USE;
/* Opens --weights as run->weights, chooses run->weight_dtype, and adapts the configuration to the
   weights. */
syn_status checkpoint_open(inference *run, syn_error *err) SYN_MUST_USE;
/* Compares all tensor names and shapes with the model. Lists mismatches on standard error; err has
   their number. */
syn_status checkpoint_compare(inference *run, syn_error *err) SYN_MUST_USE;
/* Saving to --save_weights takes three calls: _begin_saving makes the folder and a temporary folder
   inside it, _save writes the model there and is called by every rank, _end_saving moves the
   complete model to its place, replacing an older one. */
syn_status checkpoint_begin_saving(inference *run, syn_error *err) SYN_MUST_USE;
syn_status checkpoint_save(const inference *run, syn_ctx *ctx, syn_comm *comm,
                           syn_error *err) SYN_MUST_USE;
syn_status checkpoint_end_saving(inference *run, syn_error *err) SYN_MUST_USE;

#endif
