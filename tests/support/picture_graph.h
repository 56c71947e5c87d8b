/* A GPT with tensor parallelism as a syn_graph made by hand, for the tests of pictures: prefill,
   then decode steps with a KV cache; vocabulary-parallel embedding and head; every rank the same
   program. */
#ifndef TESTS_PICTURE_GRAPH_H
#define TESTS_PICTURE_GRAPH_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/graph.h"
#include "syntorch/memory.h"

typedef struct picture_gpt {
    int layers, heads, tp, steps; /* steps: decode steps after the prefill */
    int64_t width, tokens, vocab;
    int odd_layer; /* this layer has no gelu; -1 none */
} picture_gpt;

#define PICTURE_GPT \
    { 2, 8, 2, 15, 64, 16, 256, -1 }

typedef struct picture_maker {
    syn_graph *g;
    syn_error *err;
    bool failed;
    uint32_t rank, n_nodes, n_tensors, n_comms;
    int tp;
    char scope[64];
    syn_phase phase;
    uint32_t step;
    /* parameters and states by layer */
    uint32_t param[128][16]; /* [12], [13]: newest caches, [14], [15]: their storage */
    uint32_t *producer;      /* by tensor */
    size_t producer_cap;
} picture_maker;

#define PICTURE_F32(rank, ...) picture_spec(SYN_F32, rank, __VA_ARGS__)

uint32_t picture_tensor(picture_maker *m, const char *name, syn_spec spec, uint32_t flags,
                        uint32_t producer, uint32_t base);

typedef struct picture_op {
    const char *op, *label;
    syn_category category;
    uint32_t flags;
    uint64_t flops;
    syn_comm_kind comm;
    uint32_t out_flags, base; /* base + 1; 0: its own storage */
} picture_op;

uint32_t picture_add(picture_maker *m, picture_op op, syn_spec out, uint32_t n_inputs,
                     const uint32_t *inputs);

#define PICTURE_IN(...)                                                              \
    (uint32_t)(sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)), (uint32_t[]) { \
        __VA_ARGS__                                                                  \
    }

void picture_scope(picture_maker *m, const char *fmt, ...);

uint32_t picture_view(picture_maker *m, const char *op, const char *label, syn_spec out,
                      uint32_t x);

uint32_t picture_linear(picture_maker *m, const char *label, syn_spec out, int64_t inner,
                        uint32_t x, uint32_t weight, uint32_t bias);

uint32_t picture_sum(picture_maker *m, const char *label, syn_spec spec, uint32_t a, uint32_t b);

void picture_meta(picture_maker *m, const char *name, const char *text, int64_t number);

/* NULL on failure. The caller frees the graph. */
syn_graph *picture_gpt_graph(const picture_gpt *c, syn_error *err);

syn_spec picture_spec(syn_dtype dtype, int rank, ...);

#endif
