/* Artificial graphs for the tests of pictures: without scopes, without tensors, a pipeline with
   messages, training steps with a backward phase, and names that look like markup. */
#ifndef TESTS_PICTURE_GRAPHS_H
#define TESTS_PICTURE_GRAPHS_H

#include "syntorch/graph/graph.h"

typedef struct picture_maker {
    syn_graph *g;
    uint32_t rank, n_nodes, n_tensors, n_comms;
    char scope[64];
    syn_phase phase;
    uint32_t step;
    uint32_t *producer; /* of each tensor */
    size_t producer_cap;
} picture_maker;

typedef struct picture_op {
    const char *op, *label;
    syn_category category;
    uint32_t flags;
    uint64_t flops;
    uint32_t base; /* base tensor + 1; 0: the result has its own storage */
} picture_op;

/* Begin and finish a graph of n ranks. A failure ends the program. */
void picture_start(picture_maker *m, int n_ranks);
syn_graph *picture_finish(picture_maker *m);

/* The following functions add to m->rank in the current scope, which picture_scope sets, and return
   the new tensor. An op of category communication is an all-reduce. */
void picture_scope(picture_maker *m, const char *fmt, ...) SYN_PRINTF(2, 3);
uint32_t picture_tensor(picture_maker *m, const char *name, syn_spec spec, uint32_t flags,
                        uint32_t producer, uint32_t base);
uint32_t picture_add(picture_maker *m, picture_op op, syn_spec out, uint32_t n_inputs,
                     const uint32_t *inputs);
uint32_t picture_view(picture_maker *m, const char *op, const char *label, syn_spec out,
                      uint32_t x);
uint32_t picture_message(picture_maker *m, bool send, uint32_t x, int32_t peer, int32_t tag,
                         syn_spec spec);

#define PICTURE_F32(rank, ...) ((syn_spec){SYN_F32, rank, {__VA_ARGS__}})
#define PICTURE_IN(...)                                                              \
    (uint32_t)(sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)), (uint32_t[]) { \
        __VA_ARGS__                                                                  \
    }

/* n ops without scopes. Each reads one or two earlier tensors, mostly recent ones. */
syn_graph *picture_flat(uint32_t n);
/* n ops without tensors, with dependencies only, as in an execution trace. */
syn_graph *picture_bare(uint32_t n);
/* `stages` ranks with two layers each, which send `batches` microbatches to the next stage. */
syn_graph *picture_pipeline(int stages, int batches);
/* Training steps with forward, backward (layers in reverse order, reading tensors saved by forward)
   and an optimizer. Layer `odd` has no gelu; -1: all layers are equal. */
syn_graph *picture_training(int layers, int steps, int odd);
/* A graph with names that look like markup. */
syn_graph *picture_hostile(void);
#endif
