/* Artificial graphs for the tests of pictures: graphs without scopes or without tensors, a pipeline
   with messages, training steps with a backward phase, and names that look like markup. */
#ifndef TESTS_PICTURE_GRAPHS_H
#define TESTS_PICTURE_GRAPHS_H

#include "syntorch/graph/graph.h"

typedef struct picture_maker {
    syn_graph *g;
    uint32_t rank, n_nodes, n_tensors, n_comms;
    char scope[64];
    syn_phase phase;
    uint32_t step;
    uint32_t *producer; /* producer of each tensor */
    size_t producer_cap;
} picture_maker;

typedef struct picture_op {
    const char *op, *label;
    syn_category category;
    uint32_t flags;
    uint64_t flops;
    uint32_t base; /* index of the base tensor + 1; 0: the result has its own storage */
} picture_op;

/* Begin and finish a graph of n ranks. A failure ends the program. */
void picture_start(picture_maker *m, int n_ranks);
syn_graph *picture_finish(picture_maker *m);

/* The following functions add to rank m->rank in the current scope, which picture_scope sets, and
   return the new tensor. An op of the category communication is an all-reduce. */
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

/* n ops without scopes. Each op reads one or two earlier tensors, usually recent ones. */
syn_graph *picture_flat(uint32_t n);
/* n ops without tensors, which have only dependencies, like the nodes of an execution trace. */
syn_graph *picture_bare(uint32_t n);
/* A pipeline of `stages` ranks with two layers each. Each rank sends `batches` microbatches to the
   next one. */
syn_graph *picture_pipeline(int stages, int batches);
/* Training steps with forward, backward and an optimizer. Backward has the layers in reverse order
   and reads tensors that forward saved. Layer `odd` has no gelu; -1: all layers are equal. */
syn_graph *picture_training(int layers, int steps, int odd);
/* A graph with names that look like markup. */
syn_graph *picture_hostile(void);
#endif
