/* Finds the order in which a rank launched its communication. */
#ifndef EXPORT_PT_LAUNCH_ORDER_H
#define EXPORT_PT_LAUNCH_ORDER_H

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The op that launched `op`; `op` itself if unknown. */
static inline uint32_t syn__pt_launched_by(const syn__pt_rank *rank, uint32_t op) {
    const uint32_t parent = rank->ops[op].parent;
    return syn__pt_is_launched(&rank->ops[op]) && parent != SYN__PT_NONE ? parent : op;
}
/* The time at which an op was launched, or if this is unknown, at which its launcher began.
   SYN__PT_NO_NS: both are unknown. */
int64_t syn__pt_launch_time(const syn__pt_rank *rank, uint32_t op);
/* The group to whose sequence of collectives the communication belongs. Collectives without a known
   group are treated as one group of all ranks, whose number is n_groups. SYN__PT_NONE for messages,
   which have no sequence. */
static inline uint32_t syn__pt_group_of(const syn__pt_rank *rank, const syn__pt_comm *comm) {
    if (comm->type != SYN__ET_COMM_COLL_NODE) return SYN__PT_NONE;
    return comm->group != SYN__PT_NONE ? comm->group : (uint32_t)rank->n_groups;
}
/* Sets *order to the indices of the rank's comms in launch order. The caller frees it. when: a time
   per op; communication on the same stream is ordered by it. If `when` is NULL and the ops have ids
   (syn__pt_order), communication on the same stream, and collectives of the same group, are ordered
   by id, as in the file. */
syn_status syn__pt_launch_order(const syn__pt_rank *rank, const int64_t *when, uint32_t **order,
                                syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
