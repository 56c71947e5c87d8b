/* CPU ops that Kineto recorded but ExecutionTraceObserver did not. */
#ifndef EXPORT_PT_HOST_MISSING_H
#define EXPORT_PT_HOST_MISSING_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends host nodes made from CPU events whose record function ids the host trace lacks, if they
   communicate or take at least 1 ms. Each gets the id of the node that began before it. */
syn_status syn__pt_add_missing(syn__pt_rank *rank, const syn_pytorch_options *options,
                               syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
