/* Converts the ops of a rank to a merged list, which is written as a linked trace (default
   mode). */
#ifndef EXPORT_PT_MERGE_RANK_H
#define EXPORT_PT_MERGE_RANK_H

#include "export/pytorch/rank/pt_rank.h"
#include "export/pytorch/write/pt_merge.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Call it after syn__pt_order. The caller frees *out (syn__pt_merged_free) in all cases. */
syn_status syn__pt_merge_rank(const syn__pt_rank *rank, syn__pt_merged_list *out,
                              syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
