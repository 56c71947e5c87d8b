/* A small graph for tests: two ranks, two layers, tensor parallel, one step. Every rank has 29
   nodes, of which 4 are virtual (tp_enter and a view in each layer), and 5 collectives in group 1:
   an all-reduce behind each row-parallel product, and an all-gather at the end. */
#ifndef TESTS_SAMPLE_GRAPH_H
#define TESTS_SAMPLE_GRAPH_H

#include <stdio.h>
#include <string.h>

#include "syntorch/graph.h"

#define SAMPLE_RANKS       2
#define SAMPLE_LAYERS      2
#define SAMPLE_NODES       29
#define SAMPLE_VIRTUAL     4
#define SAMPLE_COLLECTIVES 5
#define SAMPLE_TOKENS      4
#define SAMPLE_HIDDEN      16

/* The graph, or NULL with *err. Free it with syn_graph_free. */
syn_graph *syn_test_graph(syn_error *err);

#endif
