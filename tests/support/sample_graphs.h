/* Two small graphs of two ranks. A failure ends the program. */
#ifndef TESTS_SAMPLE_GRAPHS_H
#define TESTS_SAMPLE_GRAPHS_H

#include "syntorch/graph/graph.h"

/* A graph that uses every field of nodes, tensors, groups and metadata. */
syn_graph *full_graph(void);

/* A graph whose times are easy to compute manually: a computation of 3000 or 1000 ns, an all-reduce
   of 500 ns (omitted on rank 1 with skip_one), a message from rank 0 to rank 1, and a computation
   of 100 ns without dependencies. */
syn_graph *simulated_graph(bool with_times, bool skip_one);
#endif
