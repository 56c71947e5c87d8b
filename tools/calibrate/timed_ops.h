/* Collects the durations of recorded ops, grouped by cost. */
#ifndef TOOLS_TIMED_OPS_H
#define TOOLS_TIMED_OPS_H

#include "syntorch/context.h"
#include "syntorch/graph/graph.h"

/* Ops with the same cost. */
typedef struct timed_op {
    syn_node node; /* without deps, tensors and attributes */
    double *all;   /* the duration of each, in ns */
    size_t n, cap;
    double ns; /* their mean without the lowest and highest twentieth; set by timed_ops_settle */
    uint32_t kernels; /* pieces of device work of the last one; 0: not recorded */
} timed_op;

typedef struct timed_ops {
    timed_op *at; /* one entry per cost */
    size_t n, cap;
} timed_ops;

/* Waits for the context and adds all nodes that it recorded after node number *counted, which
   becomes the last node's number. ops NULL: only updates *counted. */
syn_status timed_ops_take(timed_ops *ops, syn_ctx *ctx, uint64_t *counted,
                          syn_error *err) SYN_MUST_USE;
/* Computes `ns` of all ops. */
void timed_ops_settle(timed_ops *ops);
syn_status timed_ops_add(timed_ops *to, const timed_ops *from, syn_error *err) SYN_MUST_USE;
void timed_ops_free(timed_ops *ops);

#endif
