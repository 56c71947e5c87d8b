/* Ops that ran, and what each of them took. */
#ifndef TOOLS_TIMED_OPS_H
#define TOOLS_TIMED_OPS_H

#include "syntorch/context.h"
#include "syntorch/graph/graph.h"

/* Ops of one cost. */
typedef struct timed_op {
    syn_node node; /* without deps, tensors and attributes */
    double *all;   /* what each took, ns */
    size_t n, cap;
    double ns;        /* their mean without a twentieth at either end */
    uint32_t kernels; /* pieces of the device's work, of the last; 0: not kept */
} timed_op;

typedef struct timed_ops {
    timed_op *at;
    size_t n, cap;
} timed_ops;

/* Waits for the context and adds what it recorded after the node of that number, which becomes the
   newest; NULL: adds nothing. */
syn_status timed_ops_take(timed_ops *ops, syn_ctx *ctx, uint64_t *counted,
                          syn_error *err) SYN_MUST_USE;
/* Finds `ns` of all. */
void timed_ops_settle(timed_ops *ops);
syn_status timed_ops_add(timed_ops *to, const timed_ops *from, syn_error *err) SYN_MUST_USE;
void timed_ops_free(timed_ops *ops);

#endif
