/* Collects the results of all ranks of an MPI run on rank 0, which alone writes shared files. */
#ifndef TOOLS_GATHER_H
#define TOOLS_GATHER_H

#include "syntorch/communicator.h"
#include "syntorch/graph/graph.h"

/* Collective: every rank passes its own graph, which it keeps. On rank 0, *all becomes a graph of
   all ranks, which the caller frees; NULL on the other ranks. */
syn_status gather_graphs(syn_graph **all, syn_comm *comm, const syn_graph *mine,
                         syn_error *err) SYN_MUST_USE;
/* Copies a graph as if it had been sent to rank 0. The copy is independent of the trace that `mine`
   refers to. */
syn_status gather_copy(syn_graph **out, const syn_graph *mine, syn_error *err) SYN_MUST_USE;
/* Collects a number from every rank in `all` on rank 0, in rank order. `all` has comm->size
   elements there and is not used elsewhere. */
syn_status gather_numbers(uint64_t *all, syn_comm *comm, uint64_t mine,
                          syn_error *err) SYN_MUST_USE;
/* Whether all ranks can start. Each rank passes its status and its plan, which is a hash of
   everything that determines which collectives it calls. `failed` is the lowest rank whose status
   is not SYN_OK, and `differs` the lowest rank whose plan differs from rank 0's; -1: no such rank.
   Collective; all ranks get the same result. */
typedef struct gather_start {
    int32_t failed, differs;
} gather_start;
syn_status gather_agreement(gather_start *out, syn_comm *comm, syn_status mine, uint64_t plan,
                            syn_error *err) SYN_MUST_USE;
/* Called by rank 0 and rank `other` only, both with n numbers. On rank 0, *first is the index of
   the first number that differs; -1: none. */
syn_status gather_difference(int *first, syn_comm *comm, int32_t other, const uint64_t *mine, int n,
                             syn_error *err) SYN_MUST_USE;

#endif
