/* Puts the device traces of a set on one clock. */
#ifndef EXPORT_PT_SET_CLOCK_H
#define EXPORT_PT_SET_CLOCK_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Shifts the times of all ranks so that they count from the earliest base time among them. Must be
   called before the times are used. Notes the traces whose clock differs from the other traces'
   clocks. */
void syn__pt_set_clock(syn__pt_rank *ranks, size_t n_ranks, syn_pytorch_note *notes);

#ifdef __cplusplus
}
#endif
#endif
