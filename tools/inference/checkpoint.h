/* Checkpoints in the inference program: chooses the model, checks that the weights match it, and
   saves the model. */
#ifndef TOOLS_CHECKPOINT_H
#define TOOLS_CHECKPOINT_H

#include "tools/inference/inference.h"

/* Sets run->config and run->task from --model, --model_config, the config.json next to --weights,
   or else the default example configuration. */
syn_status checkpoint_configure(inference *run, syn_error *err) SYN_MUST_USE;
/* Opens --weights as run->weights, chooses run->weight_dtype, and adapts the configuration to the
   weights. */
syn_status checkpoint_open(inference *run, syn_error *err) SYN_MUST_USE;
/* Compares the names and shapes of all tensors with the model. If some differ, lists them on
   standard error and fails; err has their number. */
syn_status checkpoint_compare(inference *run, syn_error *err) SYN_MUST_USE;
/* Saving to --save_weights takes three calls. _begin_saving creates the folder and a temporary
   folder inside it. _save, which every rank must call, writes the model to the temporary folder.
   _end_saving moves the complete model to the folder and replaces an older model there. With --json
   it adds the files to the list "written"; for `first` see cli_json_add_written. */
syn_status checkpoint_begin_saving(inference *run, syn_error *err) SYN_MUST_USE;
syn_status checkpoint_save(const inference *run, syn_ctx *ctx, syn_comm *comm,
                           syn_error *err) SYN_MUST_USE;
syn_status checkpoint_end_saving(inference *run, bool *first, syn_error *err) SYN_MUST_USE;

#endif
