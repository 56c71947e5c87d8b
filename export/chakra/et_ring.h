/* Orders a group's ranks for comm_group.json. ASTRA-sim builds the group's ring in this order.
   ASTRA-sim's networks have dimensions, and the outermost dimension connects the machine nodes. A
   hop of the ring uses the first dimension in which its two ranks differ: with eight ranks per
   node, a hop from rank 4 to rank 8 uses a link within a node, although the ranks are on different
   nodes. A ring must therefore cross nodes between ranks that have the same place, which is a
   rank's index within its node. */
#ifndef EXPORT_ET_RING_H
#define EXPORT_ET_RING_H

#include "syntorch/graph/graph.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reorders a group's ranks, which must be distinct, for such a ring. If the group has ranks at the
   same places on every node, each hop either stays within a node or keeps its place. Otherwise as
   many hops as possible keep their place. The ranks stay unchanged if they are within one node or
   if reordering gains nothing. node_ranks: ranks per node; 0: unknown. */
syn_status syn__et_order_ring(int32_t *ranks, uint32_t n, int32_t node_ranks, syn_error *err);
/* Sorts the ranks if they are in the order that syn__et_order_ring makes; otherwise does not change
   them. */
syn_status syn__et_undo_ring_order(int32_t *ranks, uint32_t n, int32_t node_ranks, syn_error *err);
/* Number of ranks per node of the machine for which the graph's times are predicted; 0 if the graph
   names no machine. */
int32_t syn__et_node_ranks(const syn_graph *graph);
/* The same for the machine's name; 0: it is not built in. */
int32_t syn__et_hardware_node_ranks(const char *name);
/* Number of the ring's hops that cross nodes without changing the place. */
uint32_t syn__et_network_hops(const int32_t *ranks, uint32_t n, int32_t node_ranks);

#ifdef __cplusplus
}
#endif
#endif
