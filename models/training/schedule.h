/* Pipeline schedules: the order in which a stage runs the passes of its microbatches. A schedule is
   data: the executor (pipeline.h) runs it, and a replay of all stages checks it. */
#ifndef SYNTORCH_TRAINING_SCHEDULE_H
#define SYNTORCH_TRAINING_SCHEDULE_H

#include <stddef.h>

#include "syntorch/plan.h"

SYN_API_BEGIN

typedef enum syn_action_kind {
    SYN_ACTION_FORWARD,
    SYN_ACTION_BACKWARD,         /* gradients of the input and of the weights */
    SYN_ACTION_BACKWARD_INPUT,   /* of the input only */
    SYN_ACTION_BACKWARD_WEIGHTS, /* of the weights, which the pass for the input left out */
    SYN_ACTION_KINDS
} syn_action_kind;

/* "F", "BW", "B", "W", as papers on zero-bubble schedules name them. */
const char *syn_action_name(syn_action_kind kind);

typedef struct syn_action {
    uint8_t kind;
    uint16_t chunk; /* of the stage's chunks: virtual stage chunk * stages + stage */
    uint32_t microbatch;
} syn_action;

typedef struct syn_schedule_shape {
    syn_schedule schedule;
    int32_t stages;       /* pp */
    int32_t chunks;       /* chunks of layers per stage, vp; more than 1 only if interleaved */
    int32_t microbatches; /* per step */
    int32_t group;        /* interleaved: consecutive microbatches of a chunk; 0: `stages` */
} syn_schedule_shape;

/* Fails with SYN_E_INVALID, in one sentence, if the schedule does not exist for the shape. */
syn_status syn_schedule_check(const syn_schedule_shape *shape, syn_error *err) SYN_MUST_USE;
/* The actions of one stage of a shape that was checked: 2 per microbatch and chunk, 3 where weight
   gradients have a pass of their own. The caller frees *out with syn_free. GPipe, 1F1B and the
   interleaved schedule are in the order of Megatron-LM (core/pipeline_parallel/schedules.py), ZB-H1
   in that of Qi et al., "Zero Bubble Pipeline Parallelism", 2023. */
syn_status syn_schedule_make(syn_action **out, size_t *n, const syn_schedule_shape *shape,
                             int32_t stage, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
