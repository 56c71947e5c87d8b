/* Selects the dtype of runs on meta without --dtype: the dtype that the model would have on the
   machine whose times are predicted. Runs that compute use f32. */
#ifndef TOOLS_META_DTYPE_H
#define TOOLS_META_DTYPE_H

#include "syntorch/hardware/hardware.h"

typedef struct meta_run {
    const syn_hardware *hw;     /* machine of the predicted times */
    const syn_dtype *published; /* from the preset or config.json, otherwise from the checkpoint;
                                   NULL: unknown */
    bool chosen;                /* the user named a machine or a model preset */
    bool has_f16;               /* whether the program supports f16; if not, bf16 replaces it */
} meta_run;

/* On a CPU, f32. On a GPU, the dtype of the published checkpoint. If that is unknown and `chosen`,
   bf16, or f16 if the machine has no bf16 peak. Otherwise f32, like a run with the same options
   that computes. */
syn_dtype meta_dtype(const meta_run *run);

#endif
