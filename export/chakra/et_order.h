/* The order in which a rank's nodes appear in its execution trace.

   It is the program order, with one exception: a collective that a later send does not need comes
   after that send. A simulator has one communication slot per rank and runs the node with the
   lowest id first. In program order, the last message of a pipeline stage would therefore wait for
   all reductions of gradients that the stage has started, and each stage would wait for the next.
   On a machine, messages and reductions use streams of their own.

   A collective moves only if
   - it stays before the first node that depends on it, before the next barrier, and before the
     next node of its stream;
   - the rank exchanges no message with a member of the group. The members then belong to one
     pipeline stage, so they run the same program and all move the collective alike.

   Plans (et_plan.h) keep collectives in this order. */
#ifndef EXPORT_ET_ORDER_H
#define EXPORT_ET_ORDER_H

#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets *order to the nodes of the rank with index `rank` in this order, an array that the caller
   frees with syn_free, or to NULL if it is the program order. */
syn_status syn__et_order(const syn_graph *graph, uint32_t rank, uint32_t **order,
                         syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
