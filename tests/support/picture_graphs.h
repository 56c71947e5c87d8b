/* Graphs made by hand for the tests of pictures: a flat one without scopes, one without tensors, a
   pipeline with messages, training steps with a backward phase, names that look like markup. */
#ifndef TESTS_PICTURE_GRAPHS_H
#define TESTS_PICTURE_GRAPHS_H

#include "syntorch/graph/graph.h"

typedef struct picture_maker {
    syn_graph *g;
    uint32_t rank, n_nodes, n_tensors, n_comms;
    char scope[64];
    syn_phase phase;
    uint32_t step;
    uint32_t *producer; /* by tensor */
    size_t producer_cap;
} picture_maker;

typedef struct picture_op {
    const char *op, *label;
    syn_category category;
    uint32_t flags;
    uint64_t flops;
    uint32_t base; /* base + 1; 0: its own storage */
} picture_op;

/* An empty graph of n ranks, begun and ended. What cannot be made ends the program. */
void picture_start(picture_maker *m, int n_ranks);
syn_graph *picture_finish(picture_maker *m);

/* What follows is added to m->rank, in the scope last set, and gives the tensor made. An op of
   communication is an all-reduce. */
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

/* n ops without scopes, each reading one or two earlier tensors, mostly near ones. */
syn_graph *picture_flat(uint32_t n);
/* n ops that only know whom they wait for, as in an execution trace. */
syn_graph *picture_bare(uint32_t n);
/* `stages` ranks that pass `batches` microbatches on, two layers each. */
syn_graph *picture_pipeline(int stages, int batches);
/* Steps of forward, backward (layers in reverse, reading what forward saved) and an optimizer; one
   layer (odd; -1: none) has no gelu. */
syn_graph *picture_training(int layers, int steps, int odd);
/* Names that a careless writer would take for markup. */
syn_graph *picture_hostile(void);
#endif
