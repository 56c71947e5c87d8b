/* Which ops of a rank communicate. */
#ifndef EXPORT_PT_COMM_H
#define EXPORT_PT_COMM_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills comms and groups; kind, bytes, group, peer, sequence of each. Tags are
   left to syn__pt_set_agree. */
syn_status syn__pt_find_comms(syn__pt_rank *rank, syn_pytorch_note *notes,
                              syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
