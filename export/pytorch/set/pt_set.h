/* Combines several ranks of a job. */
#ifndef EXPORT_PT_SET_H
#define EXPORT_PT_SET_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the ranks of a set agree: assigns the same ids to the same groups (from 1; also for a
   single rank), assigns tags to messages, and checks that the members of a group call the same
   collectives. */
syn_status syn__pt_set_agree(syn__pt_rank *ranks, size_t n_ranks, syn_pytorch_note *notes,
                             syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
