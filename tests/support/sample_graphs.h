/* Two small graphs of two ranks, for tests of exporters. A failure ends the program. */
#ifndef TESTS_SAMPLE_GRAPHS_H
#define TESTS_SAMPLE_GRAPHS_H

#include "syntorch/graph/graph.h"

/* A graph that uses every field of nodes, tensors, groups and metadata. */
syn_graph *full_graph(void);

/* A graph whose times are easy to compute manually. It has a computation of 3000 (rank 0) or 1000
   ns (rank 1), an all-reduce of 500 ns (rank 1 omits it with skip_one), a message from rank 0 to
   rank 1, and a computation of 100 ns that depends on nothing. */
syn_graph *simulated_graph(bool with_times, bool skip_one);
#endif
