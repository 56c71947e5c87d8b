/* Brings the graphs of all ranks of an MPI run together on rank 0, which alone
   writes shared files. */
#ifndef TOOLS_GATHER_H
#define TOOLS_GATHER_H

#include "syntorch/communicator.h"
#include "syntorch/graph/graph.h"

/* Every rank calls it with its own graph, which stays the caller's. On rank 0 *all becomes a graph
   of every rank, to be freed; NULL on the others. */
syn_status gather_graphs(syn_graph **all, syn_comm *comm, const syn_graph *mine,
                         syn_error *err) SYN_MUST_USE;
/* The graph as it would arrive there: its own, whatever becomes of the trace that `mine` shows. */
syn_status gather_copy(syn_graph **out, const syn_graph *mine, syn_error *err) SYN_MUST_USE;
/* Every rank's number on rank 0, in rank order (`all` has room for one a rank there; elsewhere it
   is not used). */
syn_status gather_numbers(uint64_t *all, syn_comm *comm, uint64_t mine,
                          syn_error *err) SYN_MUST_USE;
/* Whether all ranks can go on: the lowest rank whose status is not SYN_OK and the lowest whose plan
   (a hash of all that decides what a rank will do) is not rank 0's; -1: none. Every
   rank calls it. */
typedef struct gather_start {
    int32_t failed, differs;
} gather_start;
syn_status gather_agreement(gather_start *out, syn_comm *comm, syn_status mine, uint64_t plan,
                            syn_error *err) SYN_MUST_USE;
/* On rank 0 the first of n numbers that rank `other` has otherwise; -1: none. These two call it. */
syn_status gather_difference(int *first, syn_comm *comm, int32_t other, const uint64_t *mine, int n,
                             syn_error *err) SYN_MUST_USE;

#endif
