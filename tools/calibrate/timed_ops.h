/* Collects the durations of recorded ops, grouped by cost. */
#ifndef TOOLS_TIMED_OPS_H
#define TOOLS_TIMED_OPS_H

#include "syntorch/context.h"
#include "syntorch/graph/graph.h"

/* Ops with the same cost. */
typedef struct timed_op {
    syn_node node; /* without deps, tensors and attributes */
    double *all;   /* durations of the n ops, in ns */
    size_t n, cap;
    double ns;        /* mean of the durations without the lowest and highest 5 %; set by
                         timed_ops_settle */
    uint32_t kernels; /* number of kernels and copies that the last op ran on the device; 0: not
                         recorded */
} timed_op;

typedef struct timed_ops {
    timed_op *at; /* one entry for each distinct cost */
    size_t n, cap;
} timed_ops;

/* Waits until the context's ops have run, adds all nodes recorded after the node with id *counted,
   and sets *counted to the id of the last node. ops NULL: only updates *counted. */
syn_status timed_ops_take(timed_ops *ops, syn_ctx *ctx, uint64_t *counted,
                          syn_error *err) SYN_MUST_USE;
/* Sets `ns` of every entry. */
void timed_ops_settle(timed_ops *ops);
syn_status timed_ops_add(timed_ops *to, const timed_ops *from, syn_error *err) SYN_MUST_USE;
void timed_ops_free(timed_ops *ops);

#endif
