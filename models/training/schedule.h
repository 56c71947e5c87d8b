/* Pipeline schedules: the order in which a stage runs the forward and backward passes of its
   microbatches. A schedule is a list of actions: pipeline.h runs it, and a test replays the
   schedules of all stages to check them. */
#ifndef SYNTORCH_TRAINING_SCHEDULE_H
#define SYNTORCH_TRAINING_SCHEDULE_H

#include <stddef.h>

#include "syntorch/plan.h"

SYN_API_BEGIN

typedef enum syn_action_kind {
    SYN_ACTION_FORWARD,
    SYN_ACTION_BACKWARD,         /* gradients of the input and of the weights */
    SYN_ACTION_BACKWARD_INPUT,   /* of the input only */
    SYN_ACTION_BACKWARD_WEIGHTS, /* of the weights, after a BACKWARD_INPUT */
    SYN_ACTION_KINDS
} syn_action_kind;

/* "F", "BW", "B", "W", as papers on zero-bubble schedules name them. */
const char *syn_action_name(syn_action_kind kind);

typedef struct syn_action {
    uint8_t kind;
    bool paired;    /* DualPipe: a forward pass whose collectives overlap with the computation of
                       the next action, a backward pass, and the other way round */
    uint16_t chunk; /* number of the chunk within the stage (syn_schedule_virtual_stage) */
    uint32_t microbatch;
} syn_action;

typedef struct syn_schedule_shape {
    syn_schedule schedule;
    int32_t stages; /* pp */
    int32_t chunks; /* chunks of layers per stage: interleaved: vp; DualPipe: 2; otherwise 1 */
    int32_t microbatches; /* per step */
    int32_t group;        /* interleaved: how many consecutive microbatches a chunk processes; 0:
                             `stages` */
} syn_schedule_shape;

/* Number of virtual stages: the parts of the model, through which each microbatch goes in this
   order. */
int32_t syn_schedule_virtual_stages(const syn_schedule_shape *shape);
/* The virtual stage that a chunk of a stage has: chunk * stages + stage. With DualPipe it is the
   lower one of `stage` and its mirror image, stages - 1 - stage, for chunk 0, and the higher one
   for chunk 1, so that the two ranks of a pair have the same chunks. */
int32_t syn_schedule_virtual_stage(const syn_schedule_shape *shape, int32_t stage, int32_t chunk);
/* The stage that runs a microbatch in a virtual stage. With DualPipe, the first half of the
   microbatches enters at stage 0, and the second half at the last stage. */
int32_t syn_schedule_stage_of(const syn_schedule_shape *shape, int32_t virtual_stage,
                              uint32_t microbatch);
/* Fails with SYN_E_INVALID if the schedule does not exist for the shape. */
syn_status syn_schedule_check(const syn_schedule_shape *shape, syn_error *err) SYN_MUST_USE;
/* Creates the actions of one stage, for a shape that syn_schedule_check accepts. There are 2
   actions per microbatch and chunk, or 3 if weight gradients have a separate pass; with DualPipe,
   each chunk has half of the microbatches. The caller frees *out with syn_free. The order of
   actions is that of Megatron-LM (core/pipeline_parallel/schedules.py) for GPipe, 1F1B and the
   interleaved schedule, that of Qi et al., "Zero Bubble Pipeline Parallelism", 2023, for ZB-H1, and
   that of DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, for DualPipe. */
syn_status syn_schedule_make(syn_action **out, size_t *n, const syn_schedule_shape *shape,
                             int32_t stage, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
