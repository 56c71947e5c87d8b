/* Puts the device traces of a trace set on one clock. */
#ifndef EXPORT_PT_SET_CLOCK_H
#define EXPORT_PT_SET_CLOCK_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Shifts the times of all ranks so that they count from the earliest base time of any rank. Must be
   called before the times are used. Notes each trace whose clock seems to differ from the clocks of
   the other traces. */
void syn__pt_set_clock(syn__pt_rank *ranks, size_t n_ranks, syn_pytorch_note *notes);

#ifdef __cplusplus
}
#endif
#endif
