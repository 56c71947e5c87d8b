/* The position of each rank in a world, and the process groups that follow from it. A world is a
   box of tp x dp x pp ranks. Along each axis, the ranks that differ only in that coordinate form a
   group. Ids and names of groups are assigned only here. */
#ifndef SYNTORCH_MESH_H
#define SYNTORCH_MESH_H

#include "syntorch/communicator.h"
#include "syntorch/plan.h"

SYN_API_BEGIN

/* The mesh as one rank sees it. */
typedef struct syn_mesh {
    int32_t size[SYN_AXES], index[SYN_AXES]; /* ranks along each axis; this rank's place */
    int32_t stride[SYN_AXES];                /* distance to the next rank along the axis */
    const syn_group *group[SYN_AXES]; /* this rank's, in order of the axis; NULL: only this rank */
    const syn_group *kv;              /* this rank's kv group (syn_plan.kv); NULL: only this rank */
    const syn_group *embedding;       /* first and last stage of this rank's pipeline, with two
                                         stages its pp group; NULL: no pipeline, or another stage */
} syn_mesh;

/* Opens this rank's groups. "tp3" is the tp group with the fourth-lowest first rank. Ids count from
   1: all tp groups, then dp, then pp, then kv, then embedding; axes of size 1 have no groups. Every
   rank must call it with the same plan, which need not be complete. Fails unless the plan has as
   many ranks as the world. The communicator owns the groups. */
syn_status syn_mesh_open(syn_mesh *mesh, syn_comm *comm, const syn_plan *plan,
                         syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
