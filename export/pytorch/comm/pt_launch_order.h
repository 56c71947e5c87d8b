/* The order in which a rank launched its communication. */
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
/* When an op was launched, or else when its launcher began; SYN__PT_NO_NS: unknown. */
int64_t syn__pt_launch_time(const syn__pt_rank *rank, uint32_t op);
/* The group whose sequence of collectives contains the communication; n_groups if its group is
   unknown, which is treated as one group of all ranks; SYN__PT_NONE for messages. */
static inline uint32_t syn__pt_group_of(const syn__pt_rank *rank, const syn__pt_comm *comm) {
    if (comm->type != SYN__ET_COMM_COLL_NODE) return SYN__PT_NONE;
    return comm->group != SYN__PT_NONE ? comm->group : (uint32_t)rank->n_groups;
}
/* Sets *order to the indices of the rank's comms in launch order; the caller frees it.
   Communication on one stream is ordered by `when` (per op). If `when` is NULL, the rank has been
   ordered (syn__pt_order), and communication on one stream, and the collectives of one group, are
   ordered by id, as in the file. */
syn_status syn__pt_launch_order(const syn__pt_rank *rank, const int64_t *when, uint32_t **order,
                                syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
