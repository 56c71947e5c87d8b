/* The graph that a small GPT records on meta: prefill, then decode steps with a KV cache. All ranks
   of the tensor-parallel group run the same program. */
#ifndef TESTS_GPT_GRAPH_H
#define TESTS_GPT_GRAPH_H

#include "syntorch/graph/graph.h"

typedef struct gpt_shape {
    int layers, heads, tp, steps; /* steps: decode steps after the prefill */
    int64_t width, tokens, vocab; /* tokens: in the prompt */
} gpt_shape;

/* Attention is recorded as separate ops, and the graph has the inference program's metadata.
   with_times: predict times. A failure ends the program. Free the graph with syn_graph_free. */
syn_graph *gpt_graph(const gpt_shape *shape, bool with_times);
/* A graph of two ranks, two layers and a prefill of 4 tokens, with times. SMALL_GPT_NODES is the
   number of a rank's ops that are not views: embedding, all-reduce, positions; in each layer norm,
   qkv, two cache ops, three attention ops and a copy to contiguous memory, projection, all-reduce,
   bias, residual, then norm, two products, gelu, all-reduce, bias, residual; at the end norm, head,
   all-gather, sample, broadcast. */
#define SMALL_GPT_NODES (3 + 2 * (13 + 7) + 5)
syn_graph *small_gpt_graph(void);
#endif
