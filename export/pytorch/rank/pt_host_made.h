/* Adds host nodes that are made from CPU events, for CPU events that the host trace lacks
   (pt_host_missing.c). */
#ifndef EXPORT_PT_HOST_MADE_H
#define EXPORT_PT_HOST_MADE_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends a node made from `event`. id: the id of the node that began before it. */
syn_status syn__pt_add_made(syn__pt_rank *rank, uint32_t event, uint64_t id, uint64_t tid,
                            uint64_t rf_id, syn_error *err) SYN_MUST_USE;
/* pt_host_missing_names.c: appends missing nodes if the events have no record function ids. */
syn_status syn__pt_add_missing_by_name(syn__pt_rank *rank, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
