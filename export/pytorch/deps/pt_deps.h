/* Finds the dependencies between the ops of a rank, and orders the ops topologically. */
#ifndef EXPORT_PT_DEPS_H
#define EXPORT_PT_DEPS_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Finds the dependencies of the classes that the options select. Fills rank->edges and
   rank->waits. */
syn_status syn__pt_connect(syn__pt_rank *rank, const syn_pytorch_options *options,
                           syn_error *err) SYN_MUST_USE;
/* Fills first_dep, deps, order and ids of the rank, and frees its edges. Edges that close a cycle
   are moved to `dropped`. */
syn_status syn__pt_order(syn__pt_rank *rank, syn_pytorch_note *notes, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
