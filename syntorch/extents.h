/* What decides how long a node's work takes, from the tensors it reads and writes. */
#ifndef SYNTORCH_EXTENTS_H
#define SYNTORCH_EXTENTS_H

#include "syntorch/graph.h"

/* Sets node->dtype and node->extents; its op, category, flags and flops are known. in, out: what it
   has of its first two inputs and its first output, NULL where it has less; `data`: the input after
   those that it writes over, or NULL. */
void syn__fill_work(syn_node *node, const syn_spec *const in[2], const syn_spec *data,
                    const syn_spec *out);

#endif
