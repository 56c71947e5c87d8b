/* A graph whose nodes are in another order. */
#ifndef SYNTORCH_GRAPH_REORDER_H
#define SYNTORCH_GRAPH_REORDER_H

#include "syntorch/graph/graph.h"

SYN_API_BEGIN

/* Creates a graph with the nodes of `graph`, which has no device work. orders[r][i]: index in
   `graph` of the i-th node of rank r; each list is a permutation in which no node comes before one
   of its dependencies. Nodes get the ids
   that the nodes at their places had, and comm_index is counted anew.
   On success *out owns `graph` and the lists (from syn_malloc), and syn_graph_free frees all of
   them; on failure the caller still owns both. */
syn_status syn_graph_reordered(syn_graph **out, syn_graph *graph, uint32_t *const *orders,
                               syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
