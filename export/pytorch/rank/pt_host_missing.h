/* Adds CPU ops that Kineto recorded but ExecutionTraceObserver did not. */
#ifndef EXPORT_PT_HOST_MISSING_H
#define EXPORT_PT_HOST_MISSING_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends a host node for each CPU event whose record function id the host trace lacks, if the
   event communicates or lasts at least 1 ms. The node gets the id of the node that began before
   it. */
syn_status syn__pt_add_missing(syn__pt_rank *rank, const syn_pytorch_options *options,
                               syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
