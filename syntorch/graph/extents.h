/* Internal. Computes the dtype and extents of a node's work from its tensors, because predicted
   times depend on both. Views of traces (trace_graph.c) and predicted graphs (graph_predict.c)
   share it. */
#ifndef SYNTORCH_EXTENTS_H
#define SYNTORCH_EXTENTS_H

#include "syntorch/graph/graph.h"

/* Sets node->dtype and node->extents. The node's op, category, flags, flops and attributes must be
   set. in: the
   specs of its first two inputs; data: the spec of the first input that it does not overwrite; out:
   the spec of its first output. NULL: the node has no such tensor. */
void syn__fill_work(syn_node *node, const syn_spec *const in[2], const syn_spec *data,
                    const syn_spec *out);

/* Used to find out whether an embedding lookup is the first of its batch. A batch looks up words,
   token types and positions, one after another. The search goes backwards from the lookup, node by
   node; this enum says what each node shows. */
typedef enum syn__lookup {
    SYN__LOOKUP_CONTINUE,  /* nothing: the search continues with the node before it */
    SYN__LOOKUP_FIRST,     /* the lookup is the first of its batch */
    SYN__LOOKUP_SAME_BATCH /* this node is a lookup of the same batch */
} syn__lookup;
#define SYN__LOOKUP_NODES 16 /* the search stops after this many nodes */

/* Whether an op is a lookup in a table ("embedding"). */
bool syn__is_lookup(const char *op);
/* node: the lookup. The other arguments describe a node that precedes it. */
syn__lookup syn__lookup_before(const syn_node *node, const char *op, syn_category category,
                               syn_phase phase, uint32_t step);

#endif
