/* The parallel plan of a job: how many ranks it has and how they share the model and the data.
   Programs, meshes, predictions and checkpoints read it; no other code multiplies degrees. */
#ifndef SYNTORCH_PLAN_H
#define SYNTORCH_PLAN_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

typedef enum syn_axis {
    SYN_AXIS_TP, /* tensor parallelism: each rank has a shard of every layer */
    SYN_AXIS_DP, /* data parallelism: ranks hold the same layers and take different samples */
    SYN_AXIS_PP, /* pipeline parallelism: ranks hold different layers */
    SYN_AXES
} syn_axis;

/* The order in which a pipeline stage runs the forward and backward passes of its microbatches. */
typedef enum syn_schedule {
    SYN_SCHEDULE_1F1B,
    SYN_SCHEDULE_GPIPE,
    SYN_SCHEDULE_INTERLEAVED,
    SYN_SCHEDULE_ZB_H1
} syn_schedule;

/* All zero: one rank. */
typedef struct syn_plan {
    int32_t ranks;   /* world size; 0: the product of the degrees */
    int32_t tp, pp;  /* ranks along each axis; 0: one */
    int32_t dp;      /* 0: all ranks that the other degrees leave */
    int32_t cp;      /* context parallelism: ranks that share the tokens of a sequence; 0: one */
    int32_t ep, etp; /* experts: ranks that share them, and ranks that share each; 0: one */
    /* Groups of this many consecutive ranks along tp hold the same key and value heads and form a
       process group of their own; 0: one. */
    int32_t kv;
    int32_t zero; /* ZeRO stage, 0 to 3 */
    bool sp;      /* sequence parallelism within tp */
    syn_schedule schedule;
    const syn_axis *order; /* SYN_AXES axes; ranks are neighbours along the first. NULL: tp, dp, pp
                              (Megatron's order). The caller's. */
} syn_plan;

/* Replaces each 0 by the default described above. Fails with SYN_E_INVALID, in one sentence, if the
   degrees do not multiply to the number of ranks, kv does not divide tp, the order does not name
   each axis once, or the plan needs a form of parallelism that is not supported. */
syn_status syn_plan_complete(syn_plan *plan, syn_error *err) SYN_MUST_USE;
/* The distance between neighbouring ranks along each axis of a complete plan. */
void syn_plan_strides(const syn_plan *plan, int32_t stride[SYN_AXES]);
/* For a complete plan on nodes of node_ranks ranks: the first rank whose tp group spans the most
   nodes and, among those, whose dp group does. The other ranks wait for it. */
int32_t syn_plan_slowest_rank(const syn_plan *plan, int32_t node_ranks);

SYN_API_END
#endif
