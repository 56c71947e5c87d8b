/* Finds the forward op that an op of a backward pass belongs to (for kineto_plan.c). Traces do not
   record this, but scope and name show it, because a backward pass visits forward ops from the last
   to the first: "gelu_grad" is the gradient of the last "gelu" in its scope that has no gradient
   yet. A matrix product in a backward pass belongs to the last forward product, which has two
   gradients: of its input and of its weight. The second gradient may come later than the first.
   Sums and copies belong to the same forward op as the op before them. */
#ifndef EXPORT_KINETO_BACKWARD_H
#define EXPORT_KINETO_BACKWARD_H

#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The properties of a node that are compared: hashes of its scope and of its op name without
   endings such as "_grad". */
typedef struct syn__kineto_mark {
    uint64_t scope, op;
    uint32_t event; /* forward ops only: its event */
    bool product;
} syn__kineto_mark;

typedef struct syn__kineto_forwards {
    syn__kineto_mark *marks; /* stack of forward ops without a backward op */
    size_t n, cap;
    syn__kineto_mark group;   /* the forward op whose backward ops are being read */
    syn__kineto_mark product; /* the last product whose backward ops have begun */
    int n_products;           /* number of its backward products so far */
} syn__kineto_forwards;

typedef enum syn__kineto_belongs {
    SYN__KINETO_UNMATCHED, /* belongs to no known forward op */
    SYN__KINETO_JOINS,     /* belongs to the forward op of the previous op */
    SYN__KINETO_BEGINS,    /* belongs to forwards->group.event, as its first backward op */
    SYN__KINETO_AGAIN /* belongs to forwards->group.event, which had other backward ops earlier */
} syn__kineto_belongs;

/* Adds a forward op. */
syn_status syn__kineto_forward(syn__kineto_forwards *forwards, const syn_node *node, uint32_t event,
                               syn_error *err) SYN_MUST_USE;
/* Matches an op of a backward pass. open: the previous op is in the same pass, and there was no
   communication in between. */
syn__kineto_belongs syn__kineto_backward(syn__kineto_forwards *forwards, const syn_node *node,
                                         bool open);
void syn__kineto_forwards_free(syn__kineto_forwards *forwards);

#ifdef __cplusplus
}
#endif
#endif
