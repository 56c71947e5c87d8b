/* Matches host nodes with device events, and makes ops from them. */
#ifndef EXPORT_PT_MATCH_H
#define EXPORT_PT_MATCH_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills ops, event_op, tracks and matches of the rank. */
syn_status syn__pt_match(syn__pt_rank *rank, const syn_pytorch_options *options,
                         syn_pytorch_note *notes, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
