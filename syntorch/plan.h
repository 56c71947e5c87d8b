/* The parallel plan of a job: how many ranks it has and how they share the model and the data.
   Programs, meshes, predictions and checkpoints all use it, so that the degrees of parallelism are
   combined in one place. */
#ifndef SYNTORCH_PLAN_H
#define SYNTORCH_PLAN_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

typedef enum syn_axis {
    SYN_AXIS_TP, /* tensor parallelism: each rank has a shard of every layer */
    SYN_AXIS_DP, /* data and context parallelism: dp x cp ranks have the same layers and different
                    tokens. The cp ranks that share the tokens of a sequence are neighbours */
    SYN_AXIS_PP, /* pipeline parallelism: ranks have different layers */
    SYN_AXES
} syn_axis;

/* The order in which a pipeline stage runs the forward and backward passes of its microbatches. */
typedef enum syn_schedule {
    SYN_SCHEDULE_1F1B,
    SYN_SCHEDULE_GPIPE,
    SYN_SCHEDULE_INTERLEAVED,
    SYN_SCHEDULE_ZB_H1,
    /* Microbatches enter at both ends of the pipeline, so each rank has two stages: stages s and
       pp - 1 - s are on the two ranks with these indices along SYN_AXIS_PP. These ranks sum the
       gradients of both stages together with their data-parallel ranks (DeepSeek-AI 2024). */
    SYN_SCHEDULE_DUALPIPE
} syn_schedule;

/* "1f1b", "gpipe", "interleaved", "zb-h1", "dualpipe" */
const char *syn_schedule_name(syn_schedule schedule);

/* How context-parallel ranks exchange keys and values. Sequences of s tokens are cut into 2 cp
   pieces, and rank r has the pieces r and 2 cp - 1 - r. With a causal mask, all ranks therefore
   have the same work: s (s + 1) / (2 cp) pairs of a query and a key. */
typedef enum syn_cp_comm {
    SYN_CP_P2P,        /* keys and values go from rank to rank around a ring (Liu et al. 2023) */
    SYN_CP_ALL_GATHER, /* all-gathers of keys and values (Dubey et al. 2024) */
    SYN_CP_A2A,    /* all-to-alls: each rank gets all tokens of some heads (Jacobs et al. 2023) */
    SYN_CP_A2A_P2P /* all-to-alls in groups of neighbours, and a ring of these groups */
} syn_cp_comm;

/* "p2p", "all_gather", "a2a", "a2a+p2p" */
const char *syn_cp_comm_name(syn_cp_comm comm);

/* A plan whose members are all 0 has one rank. */
typedef struct syn_plan {
    int32_t ranks;  /* world size; 0: the product of the degrees */
    int32_t tp, pp; /* ranks along each axis; 0: one */
    int32_t dp;     /* 0: `ranks` divided by the product of the other degrees */
    int32_t cp;     /* context parallelism: ranks that share the tokens of a sequence; 0: one */
    syn_cp_comm cp_comm;
    int32_t cp_a2a; /* a2a+p2p: consecutive cp ranks that exchange heads; otherwise 0 */
    /* Expert parallelism: `ep` ranks share the experts of a layer, and `etp` ranks each expert.
       These ranks are neighbours among the tp x cp x dp ranks of a stage. ep 0: one; etp 0: 1 if
       ep is above 1, otherwise tp. */
    int32_t ep, etp;
    /* Number of consecutive ranks along tp that have the same key and value heads. These ranks form
       a process group. 0: one. */
    int32_t kv;
    int32_t vp; /* chunks of layers per pipeline stage, which the interleaved schedule runs
                   alternately; 0: one */
    int32_t microbatch_group; /* consecutive microbatches of a chunk in that schedule; 0: pp */
    int32_t zero;   /* ZeRO stage, 0 to 3: the ranks with the same stage (syn_plan_replicas) divide
                       the optimizer state (1), the gradients (2) and the parameters (3) */
    int32_t hsdp;   /* ZeRO 3 (hybrid sharding): number of consecutive dp x cp ranks that divide the
                       state; groups of this size have copies of it. 0: all */
    bool sp;        /* sequence parallelism within tp */
    bool inference; /* the plan is for inference, where tp ranks may have the same tokens: the mesh
                       has the group expert_dp */
    bool skewed; /* experts get different numbers of rows, so that ranks with different experts run
                    different programs */
    bool counts; /* routers have losses or biases that depend on the tokens of several ranks: the
                    mesh has the groups tp_cp and stage */
    syn_schedule schedule;
    const syn_axis *order; /* SYN_AXES axes, owned by the caller. Consecutive ranks are neighbours
                              along the first axis. NULL: tp, dp, pp (Megatron's order) */
} syn_plan;

/* Replaces each 0 by its default. Fails with SYN_E_INVALID if the product of the degrees is not the
   number of ranks, kv does not divide tp, the order does not name each axis once, or the plan needs
   a form of parallelism that is not supported. */
syn_status syn_plan_complete(syn_plan *plan, syn_error *err) SYN_MUST_USE;
/* Number of ranks of a complete plan along SYN_AXIS_DP: dp x cp. They have different tokens. */
static inline int32_t syn_plan_dp_cp(const syn_plan *plan) {
    return plan->dp * plan->cp;
}
/* Number of ranks of a pipeline that have the same stage of a complete plan: 2 with DualPipe,
   otherwise 1. */
static inline int32_t syn_plan_copies(const syn_plan *plan) {
    return plan->schedule == SYN_SCHEDULE_DUALPIPE ? 2 : 1;
}
/* Number of ranks that have the same stage of a complete plan and different tokens. They sum their
   gradients. */
static inline int32_t syn_plan_replicas(const syn_plan *plan) {
    return syn_plan_copies(plan) * syn_plan_dp_cp(plan);
}
/* Number of chunks of layers on each rank of a complete plan. */
static inline int32_t syn_plan_chunks(const syn_plan *plan) {
    return plan->vp * syn_plan_copies(plan);
}
/* Number of ranks, and index of a rank, along the ring or the all-gathers of keys and values; 1 and
   0 without. The ranks of a stage with the same index run the same ops. Others attend to blocks of
   other shapes. */
int32_t syn_plan_ring(const syn_plan *plan);
int32_t syn_plan_ring_index(const syn_plan *plan, int32_t rank);
/* Number of programs of a stage's ranks, at most, and the number of a rank's program: of ranks with
   the same index in the ring and, with `skewed`, with the same experts. */
int32_t syn_plan_programs(const syn_plan *plan);
int32_t syn_plan_program(const syn_plan *plan, int32_t rank);
/* Number of ranks of a stage that have the same experts as a rank of a complete plan: tp x cp x dp
   / (etp x ep). They sum the gradients of the experts, with DualPipe together with as many other
   ranks. */
static inline int32_t syn_plan_edp(const syn_plan *plan) {
    return (int32_t)((int64_t)plan->tp * syn_plan_dp_cp(plan) / ((int64_t)plan->etp * plan->ep));
}
/* Whether the ranks of a stage share the experts in another way than the other layers: ep > 1, or
   etp differs from tp. */
static inline bool syn_plan_experts_apart(const syn_plan *plan) {
    return plan->ep > 1 || plan->etp != plan->tp;
}
/* The same as syn_plan_strides for the ranks of a stage as a box of etp x ep x edp ranks: the
   strides of etp, ep and edp. The order of the axes is that of the plan, with etp in place of tp,
   and ep, edp in place of dp. */
void syn_plan_expert_strides(const syn_plan *plan, int32_t stride[3]);
/* The first of the ranks that have the same experts as a rank of a complete plan. */
int32_t syn_plan_first_expert_rank(const syn_plan *plan, int32_t rank);
/* Whether the rank saves its part of the model: it has layers or experts that no other such rank
   has. With DualPipe, the first half of the stages has all layers. */
bool syn_plan_saves(const syn_plan *plan, int32_t rank);
/* Sets stride[axis] to the difference between the numbers of neighbouring ranks along each axis of
   a complete plan. */
void syn_plan_strides(const syn_plan *plan, int32_t stride[SYN_AXES]);
/* The order of the axes of a complete plan: as text, such as "tp-dp-pp", and as a number, which is
   0 for tp, dp, pp. syn_plan_order returns the axes of such a text, or NULL if it is no order. */
#define SYN_PLAN_ORDERS 6 /* their number */
const char *syn_plan_order_text(const syn_plan *plan);
int syn_plan_order_number(const syn_plan *plan);
const syn_axis *syn_plan_order(const char *text);
/* The rank for which the other ranks wait, for a complete plan on nodes of node_ranks ranks each.
   Compares the tp groups of ranks, then the cp groups, the dp groups, and how often the pipelines
   cross between nodes. A group is slower if it spans more nodes, or equally many with fewer ranks
   on the node that has most of them. The first of the slowest ranks is returned. */
int32_t syn_plan_slowest_rank(const syn_plan *plan, int32_t node_ranks);

SYN_API_END
#endif
