/* The order of a group's ranks in comm_group.json, which is the order of the ring that ASTRA-sim
   builds from them. ASTRA-sim's networks have dimensions, and the dimension between nodes is the
   outermost. A hop uses the first dimension in which its two ranks differ: with eight ranks per
   node, a hop from rank 4 to rank 8 uses a link within a node. Rings must therefore cross nodes
   between ranks of the same place (index within the node). */
#ifndef EXPORT_ET_RING_H
#define EXPORT_ET_RING_H

#include "syntorch/graph/graph.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reorders a group's ranks, which must be distinct, for such a ring. If the group has equally many
   ranks, at the same places, on every node, each hop either stays within a node or keeps its place;
   otherwise it finds as many such hops as it can. The ranks stay unchanged if they are within one
   node or if reordering gains nothing. node_ranks: ranks per node; 0: unknown. */
syn_status syn__et_order_ring(int32_t *ranks, uint32_t n, int32_t node_ranks, syn_error *err);
/* Restores ascending order if the ranks are in such an order; otherwise leaves them. */
syn_status syn__et_undo_ring_order(int32_t *ranks, uint32_t n, int32_t node_ranks, syn_error *err);
/* Number of ranks per node of the machine that the graph's times are predicted for; 0 if the graph
   names no machine. */
int32_t syn__et_node_ranks(const syn_graph *graph);
/* Number of the ring's hops that cross nodes without changing the place. */
uint32_t syn__et_network_hops(const int32_t *ranks, uint32_t n, int32_t node_ranks);

#ifdef __cplusplus
}
#endif
#endif
