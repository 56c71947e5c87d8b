/* Which forward op an op of a backward pass belongs to (for kineto_plan.c). Traces do not say; it
   follows from scope and name, since a backward pass takes forward ops from the last to the first:
   "gelu_grad" is the gradient of the last "gelu" of its scope that has none yet, a product that of
   the last product, of which there are two (of input and weight; the second may come later); sums
   and copies belong to the op before them. */
#ifndef EXPORT_KINETO_BACKWARD_H
#define EXPORT_KINETO_BACKWARD_H

#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is compared of a node: hashes of its scope and of its op's name without endings. */
typedef struct syn__kineto_mark {
    uint64_t scope, op;
    uint32_t event; /* of a forward op */
    bool product;
} syn__kineto_mark;

typedef struct syn__kineto_forwards {
    syn__kineto_mark *marks; /* forward ops without a backward, the last on top */
    size_t n, cap;
    syn__kineto_mark group;   /* the forward op whose backward is at hand */
    syn__kineto_mark product; /* the last product whose backward has begun */
    int n_products;           /* of that */
} syn__kineto_forwards;

typedef enum syn__kineto_belongs {
    SYN__KINETO_ALONE,  /* to no forward op that is known */
    SYN__KINETO_JOINS,  /* to that of the op before */
    SYN__KINETO_BEGINS, /* to forwards->group.event, the first that does */
    SYN__KINETO_AGAIN   /* to forwards->group.event, as others before it */
} syn__kineto_belongs;

/* Remembers a forward op. */
syn_status syn__kineto_forward(syn__kineto_forwards *forwards, const syn_node *node, uint32_t event,
                               syn_error *err) SYN_MUST_USE;
/* open: whether the op before it was of the same pass, without communication in between. */
syn__kineto_belongs syn__kineto_backward(syn__kineto_forwards *forwards, const syn_node *node,
                                         bool open);
void syn__kineto_forwards_free(syn__kineto_forwards *forwards);

#ifdef __cplusplus
}
#endif
#endif
