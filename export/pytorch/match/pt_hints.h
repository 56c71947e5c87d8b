/* Finds out what a pair of traces lacks, and which profiler option would record it. */
#ifndef EXPORT_PT_HINTS_H
#define EXPORT_PT_HINTS_H

#include "export/pytorch/rank/pt_rank.h"
#include "export/pytorch_notes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the hints that apply to a rank, as bits 1 << syn_pytorch_hint. Call it after
   syn__pt_match. */
uint32_t syn__pt_hints_of(const syn__pt_rank *rank, const syn_pytorch_note *notes);

#ifdef __cplusplus
}
#endif
#endif
