/* The device mesh: the position of each rank in a world, and the process groups that follow from
   it. A world is a box of tp x dp x pp ranks. The ranks that differ only in their coordinate along
   one axis form a group. The ids and names of groups are assigned only here. */
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
                                                have only this rank */
    const syn_group *kv;        /* this rank's kv group (syn_plan.kv); NULL if it would have only
                                   this rank */
    const syn_group *embedding; /* group of the ranks in the first and last stage of this rank's
                                   pipeline; with two stages, its pp group. NULL: no pipeline, or
                                   this rank is in another stage */
    const syn_group *model;     /* the tp x pp ranks that hold the model together with this rank;
                                   with one stage its tp group, and with tp 1 its pp group. NULL if
                                   it would have only this rank */
    const syn_group *shard;     /* with ZeRO 3: the ranks that divide this rank's parameters: its dp
                                   group, or with syn_plan.hsdp a part of it */
    const syn_group *replicas;  /* with syn_plan.hsdp: the ranks with the same part as this rank;
                                   otherwise NULL */
    const syn_group *gather; /* with ZeRO 3: `shard` once more, for the all-gathers of parameters,
                                which run beside the reduce-scatters of gradients */
    const syn_group *world;  /* with ZeRO: all ranks. NULL if it would have only this rank */
} syn_mesh;

/* Opens this rank's groups, which the communicator owns. Groups are named by axis and counted from
   0 in the order of their first ranks: "tp3" is the tp group with the fourth-lowest first rank. Ids
   count from 1: first all tp groups, then dp, pp, kv, embedding and model groups, the world, and
   shard, replicas and gather groups. Axes of size 1 have no groups. Every rank must call this
   function with the same plan; syn_plan_complete need not have been called. Fails unless the plan
   has as many ranks as the world. */
syn_status syn_mesh_open(syn_mesh *mesh, syn_comm *comm, const syn_plan *plan,
                         syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
