/* The places of a world's ranks, and the groups that follow from them. A world is a box of tp x dp
   x pp ranks; along each axis stand the ranks that a group joins. Ids and names of groups come from
   here alone. */
#ifndef SYNTORCH_MESH_H
#define SYNTORCH_MESH_H

#include "syntorch/communicator.h"
#include "syntorch/plan.h"

SYN_API_BEGIN

/* As one rank sees it. */
typedef struct syn_mesh {
    int32_t size[SYN_AXES], index[SYN_AXES]; /* along each axis: ranks, and which of them this is */
    int32_t stride[SYN_AXES];                /* from a rank to its next along the axis */
    const syn_group *group[SYN_AXES];        /* along each axis, in order; NULL: this rank alone */
    const syn_group *kv;                     /* likewise */
} syn_mesh;

/* Opens this rank's groups: "tp3" is the one with the fourth-lowest first rank. Ids count from 1:
   all tp groups, all dp, all pp, those of one rank left out, then all "kv". Every rank calls it
   with the same plan, which need not be complete; it fails unless the plan has as many ranks as
   the world. The communicator owns the groups. */
syn_status syn_mesh_open(syn_mesh *mesh, syn_comm *comm, const syn_plan *plan,
                         syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
