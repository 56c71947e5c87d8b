/* Finds the ops of a rank that communicate. */
#ifndef EXPORT_PT_COMM_H
#define EXPORT_PT_COMM_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills rank->comms and rank->groups. Each communication gets its kind, bytes, group, peer and
   sequence number; syn__pt_set_agree assigns the tags. */
syn_status syn__pt_find_comms(syn__pt_rank *rank, syn_pytorch_note *notes,
                              syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
