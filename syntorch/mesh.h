/* The device mesh: the position of each rank in a world, and the process groups that follow from
   it. A world is a box of tp x (dp x cp) x pp ranks. The ranks that differ only in their coordinate
   along one axis form a group. The ids and names of groups are assigned only here. */
#ifndef SYNTORCH_MESH_H
#define SYNTORCH_MESH_H

#include "syntorch/communicator.h"
#include "syntorch/plan.h"

SYN_API_BEGIN

/* The mesh as one rank sees it. */
typedef struct syn_mesh {
    int32_t size[SYN_AXES], index[SYN_AXES]; /* ranks along each axis; this rank's coordinates */
    int32_t stride[SYN_AXES];                /* difference to the next rank's number along each
                                                axis */
    const syn_group *group[SYN_AXES];        /* this rank's group along each axis; NULL if it would
                                                have only this rank. With DualPipe, the group along
                                                SYN_AXIS_DP, and edp, also have the ranks of the
                                                rank's other stage */
    const syn_group *kv;        /* this rank's kv group (syn_plan.kv); NULL if it would have only
                                   this rank */
    const syn_group *embedding; /* group of the ranks in the first and last stage of this rank's
                                   pipeline; with two stages, its pp group. NULL: no pipeline, or
                                   this rank is in another stage, or both are on this rank
                                   (DualPipe) */
    const syn_group *model;     /* the tp x pp ranks that hold the model together with this rank;
                                   with one stage its tp group, and with tp 1 its pp group. NULL if
                                   it would have only this rank */
    const syn_group *shard;     /* with ZeRO 3: the ranks that divide this rank's parameters: its
                                   group along SYN_AXIS_DP, or with syn_plan.hsdp a part of it */
    const syn_group *replicas;  /* with syn_plan.hsdp: the ranks with the same part as this rank;
                                   otherwise NULL */
    const syn_group *gather; /* with ZeRO 3: `shard` once more, for the all-gathers of parameters,
                                which run beside the reduce-scatters of gradients */
    /* Expert parallelism. `experts`: the etp x ep ranks that share the experts of a layer. edp: the
       ranks with the same experts as this rank. expert_model: the etp x ep x pp ranks that hold all
       experts of the model. Any of them is NULL if it would have only this rank. */
    const syn_group *ep, *etp, *experts, *edp, *expert_model;
    const syn_group *expert_dp; /* with syn_plan.inference: the ranks of `experts` with this rank's
                                   index along tp, which have different tokens. NULL if it would
                                   have only this rank */
    const syn_group *world;     /* with ZeRO: all ranks. NULL if it would have only this rank */
    /* Context parallelism; NULL without. cp: the ranks that share the tokens of a sequence. cp_a2a:
       those that exchange heads, cp_p2p: those that exchange keys and values. With SYN_CP_A2A_P2P,
       cp_a2a are neighbours, and cp_p2p is one rank of each of these groups; otherwise one of the
       two is cp and the other NULL. */
    const syn_group *cp, *cp_a2a, *cp_p2p;
    /* With syn_plan.counts: the tp x cp ranks that have the tokens of the same sequences, and the
       tp x cp x dp ranks of a stage. NULL if they would have only this rank. With DualPipe and tp
       above 1, `stage` lacks the ranks of the pipeline's other rank with the same stages. */
    const syn_group *tp_cp, *stage;
} syn_mesh;

/* The kinds of groups, in the order of their ids. */
typedef enum syn_mesh_kind {
    SYN_MESH_TP,
    SYN_MESH_DP,
    SYN_MESH_PP,
    SYN_MESH_KV,
    SYN_MESH_EMBEDDING,
    SYN_MESH_MODEL,
    SYN_MESH_WORLD,
    SYN_MESH_SHARD,
    SYN_MESH_REPLICAS,
    SYN_MESH_GATHER,
    SYN_MESH_EP,
    SYN_MESH_ETP,
    SYN_MESH_EXPERTS,
    SYN_MESH_EDP,
    SYN_MESH_EXPERT_MODEL,
    SYN_MESH_EXPERT_DP,
    SYN_MESH_CP,
    SYN_MESH_CP_A2A,
    SYN_MESH_CP_P2P,
    SYN_MESH_TP_CP,
    SYN_MESH_STAGE,
    SYN_MESH_KINDS
} syn_mesh_kind;

/* A group of n ranks. Rank i of them is first + i % inner * stride + i / inner * outer_stride. */
typedef struct syn_mesh_group {
    uint32_t id; /* 0: there is no such group */
    char name[24];
    int32_t first, n, stride, inner, outer_stride;
} syn_mesh_group;

static inline int32_t syn_mesh_group_rank(const syn_mesh_group *g, int32_t i) {
    return g->first + i % g->inner * g->stride + i / g->inner * g->outer_stride;
}
/* Sets groups[kind] to the groups of a rank, without opening them. The plan must be complete. */
void syn_mesh_groups(const syn_plan *plan, int32_t rank, syn_mesh_group groups[SYN_MESH_KINDS]);

/* Opens this rank's groups, which the communicator owns. Groups are named by axis and counted from
   0 in the order of their first ranks: "tp3" is the tp group with the fourth-lowest first rank. Ids
   count from 1: first all tp groups, then dp, pp, kv, embedding and model groups, the world, and
   shard, replicas and gather groups, and with expert parallelism ep, etp, experts, edp and
   expert_model groups, in inference expert_dp groups, and with context parallelism cp, cp_a2a and
   cp_p2p groups; dp groups are then called dp_cp. With syn_plan.counts, tp_cp and stage groups
   follow. Axes of size 1 have no groups. Every rank must call this function with the same plan;
   syn_plan_complete need not have been called. Fails unless the plan has as many ranks as the
   world. */
syn_status syn_mesh_open(syn_mesh *mesh, syn_comm *comm, const syn_plan *plan,
                         syn_error *err) SYN_MUST_USE;
/* The same for a plan whose ranks are only a part of the world: its rank 0 is rank `first` of the
   world, and its groups have the ids from first_id on. */
syn_status syn_mesh_open_part(syn_mesh *mesh, syn_comm *comm, const syn_plan *plan, int32_t first,
                              uint32_t first_id, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
