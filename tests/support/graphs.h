/* Shared by the tests of graphs: nodes whose optional fields are unknown, and comparison of two
   graphs. */
#ifndef TESTS_GRAPHS_H
#define TESTS_GRAPHS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syntorch/graph/graph.h"

/* Initializers of a node's times, all unknown. */
#define NO_TIMES                                                            \
    .start_ns = SYN_NO_TIME, .wall_ns = SYN_NO_TIME, .cpu_ns = SYN_NO_TIME, \
    .wait_ns = SYN_NO_TIME, .predicted_ns = SYN_NO_TIME

/* A computation without times, with the op's name as its label. */
syn_node plain_node(uint64_t id, const char *op);

/* Adds an f32 tensor of shape (dim, 8). */
syn_status add_tensor(syn_graph *g, uint32_t rank, const char *name, uint32_t flags,
                      uint32_t producer, uint32_t base, int32_t dim, syn_error *err);

/* The first field that differs between two nodes or graphs; NULL if they are equal. */
const char *node_difference(const syn_node *a, const syn_node *b);
const char *graph_difference(const syn_graph *a, const syn_graph *b);
#endif
