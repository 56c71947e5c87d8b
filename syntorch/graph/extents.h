/* Internal. Computes the dtype and extents of a node's work from its tensors, because predicted
   times depend on both. Views of traces (trace_graph.c) and predicted graphs (graph_predict.c)
   share it. */
#ifndef SYNTORCH_EXTENTS_H
#define SYNTORCH_EXTENTS_H

#include "syntorch/graph/graph.h"

/* Sets node->dtype and node->extents. The node's op, category, flags and flops must be set. in: the
   specs of its first two inputs; data: the spec of the first input that it does not overwrite; out:
   the spec of its first output. NULL: the node has no such tensor. */
void syn__fill_work(syn_node *node, const syn_spec *const in[2], const syn_spec *data,
                    const syn_spec *out);

/* What a node that precedes an embedding lookup implies for the lookup. A batch has several lookups
   in a row: of words, then of token types and positions. To find out whether a lookup is the first
   of its batch, go backwards from it, node by node. */
typedef enum syn__lookup {
    SYN__LOOKUP_CONTINUE,  /* nothing: continue with the node before it */
    SYN__LOOKUP_FIRST,     /* the lookup is the first of its batch */
    SYN__LOOKUP_SAME_BATCH /* this node is a lookup of the same batch */
} syn__lookup;
#define SYN__LOOKUP_NODES 16 /* stop after this many nodes */

/* Whether an op is a lookup in a table ("embedding"). */
bool syn__is_lookup(const char *op);
/* node: the lookup. The other arguments describe a node that precedes it. */
syn__lookup syn__lookup_before(const syn_node *node, const char *op, syn_category category,
                               syn_phase phase, uint32_t step);

#endif
