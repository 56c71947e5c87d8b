/* Chooses the dtype of runs on meta without --dtype: the dtype in which the model would usually run
   on the machine whose times are predicted. Runs on other devices default to f32. */
#ifndef TOOLS_META_DTYPE_H
#define TOOLS_META_DTYPE_H

#include "syntorch/hardware/hardware.h"

typedef struct meta_run {
    const syn_hardware *hw;     /* machine whose times are predicted */
    const syn_dtype *published; /* dtype of the published checkpoint: from the preset or
                                   config.json, else from the weights; NULL: unknown */
    bool chosen;                /* whether the user named a machine or a model preset */
    bool has_f16;               /* whether the program supports f16; if not, bf16 is used instead */
} meta_run;

/* Returns f32 for a CPU, and for a GPU the dtype of the published checkpoint. If that is unknown:
   with `chosen`, it returns bf16, or f16 if the machine has no bf16 peak; otherwise f32, which is
   also the default of the same run on another device. */
syn_dtype meta_dtype(const meta_run *run);

#endif
