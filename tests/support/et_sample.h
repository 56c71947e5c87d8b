/* Shared by the execution-trace tests: builds graphs from short rows, and two graphs of several
   ranks. */
#ifndef TESTS_ET_SAMPLE_H
#define TESTS_ET_SAMPLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/exported.h"

/* One node of a test graph. deps lists dependencies as letters with indices of nodes: "d3 c4" is a
   data dependency on node 3 and a control dependency on node 4; i means in-place, s stream, g
   group. */
typedef struct et_row {
    syn_node_kind kind;
    int32_t stream;
    const char *deps;
    uint32_t flags, group;
    syn_comm_kind comm;
    int32_t peer, tag;
    const char *label;
} et_row;

/* The node of a row, without its tensors. */
syn_node et_node(const et_row *row, uint64_t id);

/* Adds a node. *comm_index is the index of the rank's next communication; a computation does not
   use it. A failure ends the program. */
void et_add(syn_graph *g, uint32_t rank, const et_row *row, uint32_t *comm_index);

/* A graph with these ranks and groups, without nodes. */
syn_graph *et_empty(const int32_t *ranks, uint32_t n_ranks, int32_t world_size,
                    const syn_graph_group *groups, size_t n_groups);

/* Rank 0 of a world of size four with groups 1 = {0,1}, 2 = {0} and 3 = {0,1,2,3}. */
syn_graph *et_graph(const et_row *rows, size_t n);

/* Two pipeline stages of two tensor-parallel ranks each, with three microbatches. */
syn_graph *et_pipeline(void);

/* Two ranks whose data dependencies do not determine the order of communication. */
syn_graph *et_overlap(void);

#endif
