/* Makes the ranks of a trace set consistent with each other. */
#ifndef EXPORT_PT_SET_H
#define EXPORT_PT_SET_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the ranks agree: gives the same id to the same group on all ranks (ids start at 1; a single
   rank also gets ids), assigns tags to messages, and checks that the members of a group call the
   same collectives. */
syn_status syn__pt_set_agree(syn__pt_rank *ranks, size_t n_ranks, syn_pytorch_note *notes,
                             syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
