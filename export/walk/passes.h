/* Finds the forward and backward passes of microbatches in a trace of training, from phases, layers
   and messages. */
#ifndef EXPORT_WALK_PASSES_H
#define EXPORT_WALK_PASSES_H

#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn__pass_kind {
    SYN__PASS_FORWARD,
    SYN__PASS_BACKWARD,
    SYN__PASS_WEIGHTS, /* only the gradients of weights, as in zero-bubble schedules */
    SYN__PASS_OPTIMIZER,
    SYN__PASS_KINDS
} syn__pass_kind;

/* "forward", "backward", "weight gradients", "optimizer" */
const char *syn__pass_name(syn__pass_kind kind);

/* A pass of one microbatch through a chunk of layers, or the optimizer of a step. */
typedef struct syn__pass {
    syn__pass_kind kind;
    uint32_t first, last; /* its first and last op. Receives in between are for later passes,
                             because programs post them early */
    int64_t chunk;        /* number of the first layer; -1: none */
    int32_t number;       /* of the microbatch among the passes of this kind and chunk in the step,
                             from 1; 0: optimizer */
} syn__pass;

/* The passes of a rank in order. The caller frees *out with syn_free. Views and communication begin
   no pass, and a send ends one. */
syn_status syn__passes_find(syn__pass **out, size_t *n, const syn_graph *graph, uint32_t rank,
                            syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
