/* The order of a group's ranks in comm_group.json, which is the order of the ring that ASTRA-sim
   makes of them. Its networks have dimensions, node by node outside, and a hop takes the first one
   in which its two ranks differ: from rank 4 to rank 8, of nodes of eight, that is the link within
   a node. So rings go from node to node between ranks of the same place. */
#ifndef EXPORT_ET_RING_H
#define EXPORT_ET_RING_H

#include "syntorch/graph/graph.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Puts the ranks of a group, each once, into such an order. If nodes of node_ranks ranks hold
   equally many of them at the same places, each hop stays in a node or keeps its place; otherwise
   as many hops as can be found. If that is no gain, and within one node, the ranks stay as they
   are. node_ranks 0: nodes are not known. */
syn_status syn__et_order_ring(int32_t *ranks, uint32_t n, int32_t node_ranks, syn_error *err);
/* Puts such an order back into the ascending one; any other stays. */
syn_status syn__et_undo_ring(int32_t *ranks, uint32_t n, int32_t node_ranks, syn_error *err);
/* How many ranks share a node of the machine that the graph's times are predicted for; 0 if it
   names none. */
int32_t syn__et_node_ranks(const syn_graph *graph);
/* Hops of the ring that go from node to node without changing the place. */
uint32_t syn__et_network_hops(const int32_t *ranks, uint32_t n, int32_t node_ranks);

#ifdef __cplusplus
}
#endif
#endif
