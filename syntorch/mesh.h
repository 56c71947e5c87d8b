/* The places of a world's ranks, and the groups that follow from them. A world is a box of tp x dp
   x pp ranks; along each axis stand the ranks that a group joins. Ids and names of groups come from
   here alone. */
#ifndef SYNTORCH_MESH_H
#define SYNTORCH_MESH_H

#include "syntorch/communicator.h"

SYN_API_BEGIN

typedef enum syn_axis {
    SYN_AXIS_TP, /* tensor parallelism: ranks that share every layer */
    SYN_AXIS_DP, /* data parallelism: ranks with the same layers and other texts */
    SYN_AXIS_PP, /* pipeline parallelism: ranks with other layers */
    SYN_AXES
} syn_axis;

typedef struct syn_mesh_shape {
    int32_t tp, dp, pp;    /* ranks along each axis; 0: one */
    const syn_axis *order; /* SYN_AXES axes; along the first, ranks are neighbours. NULL: tp, dp, pp
                              (Megatron's order) */
    int32_t kv;            /* of those along tp so many that follow each other are a group, too:
                              they have the same heads of keys and values; 0: one */
} syn_mesh_shape;

/* As one rank sees it. */
typedef struct syn_mesh {
    int32_t size[SYN_AXES], index[SYN_AXES]; /* along each axis: ranks, and which of them this is */
    int32_t stride[SYN_AXES];                /* from a rank to its next along the axis */
    const syn_group *group[SYN_AXES];        /* along each axis, in order; NULL: this rank alone */
    const syn_group *kv;                     /* likewise */
} syn_mesh;

/* Opens this rank's groups: "tp3" is the one with the fourth-lowest first rank. Ids count from 1:
   all tp groups, all dp, all pp, those of one rank left out, then all "kv". Every rank calls it
   with the same shape; it fails unless the shape has as many ranks as the world and kv divides tp.
   The groups are the communicator's. */
syn_status syn_mesh_open(syn_mesh *mesh, syn_comm *comm, const syn_mesh_shape *shape,
                         syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
