/* The order in which a rank launched its communications. */
#ifndef EXPORT_PT_LAUNCH_ORDER_H
#define EXPORT_PT_LAUNCH_ORDER_H

#include "export/chakra/wire/et_node.h"
#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The op that launched it; itself if that is not known. */
static inline uint32_t syn__pt_launched_by(const syn__pt_rank *rank, uint32_t op) {
    const uint32_t parent = rank->ops[op].parent;
    return syn__pt_is_launched(&rank->ops[op]) && parent != SYN__PT_NONE ? parent : op;
}
/* When an op was launched, else when its launcher began; SYN__PT_NO_NS unknown. */
int64_t syn__pt_launch_time(const syn__pt_rank *rank, uint32_t op);
/* The group whose collectives a communication is one of; n_groups: that of all ranks, as none is
   known; SYN__PT_NONE: it is a message. */
static inline uint32_t syn__pt_group_of(const syn__pt_rank *rank, const syn__pt_comm *comm) {
    if (comm->type != SYN__ET_COMM_COLL_NODE) return SYN__PT_NONE;
    return comm->group != SYN__PT_NONE ? comm->group : (uint32_t)rank->n_groups;
}
/* *order (freed by the caller): indices of the rank's comms as they were launched. What runs on one
   stream is in the order of `when` (per op). With when NULL, when the rank has been ordered, it and
   each group's collectives are in the order of ids, as they stand in the file. */
syn_status syn__pt_launch_order(const syn__pt_rank *rank, const int64_t *when, uint32_t **order,
                                syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
