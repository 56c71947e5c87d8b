/* A small graph that uses every field a node, tensor, group and fact can have, and comparing of
 * graphs. */
#ifndef TESTS_TEXT_SAMPLE_H
#define TESTS_TEXT_SAMPLE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/graph.h"

/* A node with everything unknown. */
syn_node text_node(uint64_t id, const char *op);

syn_status text_tensor(syn_graph *g, uint32_t rank, const char *name, uint32_t flags,
                       uint32_t producer, uint32_t base, int32_t dim, syn_error *err);

syn_status text_sample(syn_graph **out, syn_error *err);

/* What differs first between two graphs; NULL if they are equal. */
const char *text_difference(const syn_graph *a, const syn_graph *b);

#endif
