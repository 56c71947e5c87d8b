/* The device traces of a set on one clock. */
#ifndef EXPORT_PT_SET_CLOCK_H
#define EXPORT_PT_SET_CLOCK_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Counts the times of all ranks from the earliest base among them, before anything is made of these
   times. Notes the traces whose clock differs from the others'. */
void syn__pt_set_clock(syn__pt_rank *ranks, size_t n_ranks, syn_pytorch_note *notes);

#ifdef __cplusplus
}
#endif
#endif
