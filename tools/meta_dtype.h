/* The dtype of runs on meta that name none: what the model would have on the machine that its times
   are predicted for. Runs that compute have f32. */
#ifndef TOOLS_META_DTYPE_H
#define TOOLS_META_DTYPE_H

#include "syntorch/hardware/hardware.h"

typedef struct meta_run {
    const syn_hardware *hw;
    const syn_dtype *published; /* as the preset or config.json has it, else as the checkpoint that
                                   is there; NULL: none says it */
    bool chosen;                /* the user named a machine, or a preset of a model */
    bool has_f16;               /* the program has it; if not, bf16 stands for it */
} meta_run;

/* On a CPU f32. On a GPU that of the published checkpoint; where none is said
   and something was chosen bf16, or f16 where the machine has no peak of bf16; else f32, as a run
   of the same options that computes. */
syn_dtype meta_dtype(const meta_run *run);

#endif
