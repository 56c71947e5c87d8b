/* Shared by the execution-trace tests: graphs from short rows, and a pipeline over four ranks. */
#ifndef TESTS_ET_SAMPLE_H
#define TESTS_ET_SAMPLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/exported.h"

/* One node of a test graph. deps: "d3 c4" is a data dependency on the node with index 3 and a
   control dependency on 4; i is in-place, s stream, g group. */
typedef struct et_row {
    syn_node_kind kind;
    int32_t stream;
    const char *deps;
    uint32_t flags, group;
    syn_comm_kind comm;
    int32_t peer, tag;
    const char *label;
} et_row;

syn_node et_node(const et_row *row, uint64_t id);

/* Adds a node. comm_index: index of the next communication, not used for a computation. A failure
   ends the program. */
void et_add(syn_graph *g, uint32_t rank, const et_row *row, uint32_t *comm_index);

/* A graph with these ranks and groups, without nodes. */
syn_graph *et_empty(const int32_t *ranks, uint32_t n_ranks, int32_t world_size,
                    const syn_graph_group *groups, size_t n_groups);

/* Rank 0 of a world of size four with groups 1 = {0,1}, 2 = {0} and 3 = {0,1,2,3}. */
syn_graph *et_graph(const et_row *rows, size_t n);

syn_graph *et_pipeline(void);

syn_graph *et_overlap(void);

#endif
