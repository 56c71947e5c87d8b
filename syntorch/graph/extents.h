/* What decides how long a node's work takes, from the tensors it reads and writes. */
#ifndef SYNTORCH_EXTENTS_H
#define SYNTORCH_EXTENTS_H

#include "syntorch/graph/graph.h"

/* Sets node->dtype and node->extents; its op, category, flags and flops are known. in, out: what it
   has of its first two inputs and its first output, NULL where it has less; `data`: the input after
   those that it writes over, or NULL. */
void syn__fill_work(syn_node *node, const syn_spec *const in[2], const syn_spec *data,
                    const syn_spec *out);

/* Lookups of one batch follow each other: words, then token types and positions. Going backwards
   from one of them: what a node before it says. */
typedef enum syn__lookup {
    SYN__LOOKUP_GO_ON, /* nothing: ask the node before */
    SYN__LOOKUP_FIRST, /* the batch begins behind it */
    SYN__LOOKUP_BESIDE /* it is a lookup of the same batch */
} syn__lookup;
#define SYN__LOOKUP_NODES 16 /* so far back at most */

bool syn__is_lookup(const char *op);
syn__lookup syn__lookup_before(const syn_node *node, const char *op, syn_category category,
                               syn_phase phase, uint32_t step);

#endif
