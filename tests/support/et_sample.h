/* Helpers of the execution-trace tests: graphs from short rows, exports into memory, a pipeline
   over four ranks. */
#ifndef TESTS_ET_SAMPLE_H
#define TESTS_ET_SAMPLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/exported.h"

/* One node of a test graph. deps: "d3 c4": data on node index 3, control on 4 (i in-place, s
   stream, g group). */
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

syn_status et_add(syn_graph *g, uint32_t rank, const et_row *row, uint32_t *comm_index,
                  syn_error *err);

/* Rank 0 of a world of four with group 1 = {0,1}, 2 = {0} and 3 = {0,1,2,3}. NULL on failure. */
syn_graph *et_graph(const et_row *rows, size_t n, syn_error *err);

syn_graph *et_pipeline(syn_error *err);

syn_graph *et_overlap(syn_error *err);

#endif
