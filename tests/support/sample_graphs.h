/* Two small graphs of two ranks. What cannot be made ends the program. */
#ifndef TESTS_SAMPLE_GRAPHS_H
#define TESTS_SAMPLE_GRAPHS_H

#include "syntorch/graph/graph.h"

/* Uses every field that a node, tensor, group and fact can have. */
syn_graph *full_graph(void);

/* Its times can be reckoned by hand: a computation of 3000 or 1000 ns, an all-reduce of 500 ns
   (rank 1 leaves it out if skip_one), a message of rank 0 to rank 1, and 100 ns more computation
   that depends on nothing. */
syn_graph *simulated_graph(bool with_times, bool skip_one);
#endif
