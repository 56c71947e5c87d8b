/* Brings the graphs of all ranks of an MPI run together on rank 0, which alone writes shared files.
 */
#ifndef TOOLS_GATHER_H
#define TOOLS_GATHER_H

#include "syntorch/communicator.h"
#include "syntorch/graph.h"

/* Every rank calls it with its own graph, which stays the caller's. On rank 0 *all becomes a graph
   of every rank, to be freed; NULL on the others. */
syn_status gather_graphs(syn_graph **all, syn_comm *comm, const syn_graph *mine,
                         syn_error *err) SYN_MUST_USE;
/* Every rank's number on rank 0, in rank order (`all` has room for one a rank there; elsewhere it
 * is not used). */
syn_status gather_hashes(uint64_t *all, syn_comm *comm, uint64_t mine, syn_error *err) SYN_MUST_USE;
/* Whether all ranks can go on: `first` becomes the lowest rank whose status is not SYN_OK, -1 if
 * there is none. Every rank calls it. */
syn_status gather_failure(int32_t *first, syn_comm *comm, syn_status mine,
                          syn_error *err) SYN_MUST_USE;

#endif
