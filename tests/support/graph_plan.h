/* A plan of a small valid graph. Tests change one field of the plan, build the graph, and verify
   it. */
#ifndef TESTS_GRAPH_PLAN_H
#define TESTS_GRAPH_PLAN_H

#include "tests/support/graphs.h"
#include "tests/support/test.h"

/* One rank of a small model: x -> linear -> all_reduce, and a send and a receive. A test changes
   one field before it builds the graph, and expects a specific error. */
typedef struct plan {
    int32_t ranks[2];
    uint32_t n_ranks;
    int32_t world_size;
    syn_graph_tensor tensors[5];
    uint32_t n_tensors;
    syn_node nodes[4];
    uint32_t n_nodes;
    syn_graph_group groups[2];
    uint32_t n_groups;
    syn_attribute metadata[2];
    uint32_t linear_in[2], linear_out[1], reduce_in[1], reduce_out[1], send_in[1], recv_out[1];
    syn_dep reduce_deps[2], send_deps[2], recv_deps[1];
    int32_t tp_ranks[2], dp_ranks[2];
    syn_attribute linear_attributes[4];
} plan;

/* Fills *p with the valid plan. */
void plan_new(plan *p);

/* Builds the plan's graph without verifying it. On failure, *out is NULL. */
syn_status build(syn_graph **out, const plan *p, syn_error *err);

#endif
