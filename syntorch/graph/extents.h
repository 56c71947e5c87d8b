/* Dtype and extents of a node's work, computed from its tensors. Predictions depend on them. Shared
   by views of traces and predicted graphs. */
#ifndef SYNTORCH_EXTENTS_H
#define SYNTORCH_EXTENTS_H

#include "syntorch/graph/graph.h"

/* Sets node->dtype and node->extents. The node's op, category, flags and flops must be set. in:
   specs of its first two inputs; out: of its first output; data: of the first input that it does
   not overwrite. NULL: the node has no such tensor. */
void syn__fill_work(syn_node *node, const syn_spec *const in[2], const syn_spec *data,
                    const syn_spec *out);

/* What a node before a lookup implies. Lookups of one batch follow each other: words, then token
   types and positions. To find out whether a lookup has an earlier one of the same batch, go
   backwards from it, node by node. */
typedef enum syn__lookup {
    SYN__LOOKUP_CONTINUE,  /* nothing: look at the node before it */
    SYN__LOOKUP_FIRST,     /* the lookup is the first of its batch */
    SYN__LOOKUP_SAME_BATCH /* this node is a lookup of the same batch */
} syn__lookup;
#define SYN__LOOKUP_NODES 16 /* stop after this many nodes */

/* Whether an op is a lookup in a table ("embedding"). */
bool syn__is_lookup(const char *op);
/* node: the lookup; the other arguments describe a node before it. */
syn__lookup syn__lookup_before(const syn_node *node, const char *op, syn_category category,
                               syn_phase phase, uint32_t step);

#endif
