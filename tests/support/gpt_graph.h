/* The graph that a small GPT records on meta: prefill, then decode steps with a KV cache. All ranks
   of the tensor-parallel group run the same program. Used by tests of exporters, pictures and
   predictions, which need a realistic graph but no values. */
#ifndef TESTS_GPT_GRAPH_H
#define TESTS_GPT_GRAPH_H

#include "syntorch/graph/graph.h"

typedef struct gpt_shape {
    int layers, heads, tp, steps; /* steps: number of decode steps after the prefill */
    int64_t width, tokens, vocab; /* tokens: length of the prompt */
} gpt_shape;

/* The graph of this shape. Attention is recorded as separate ops, and the graph has the metadata of
   the inference program. with_times: also predict times. A failure ends the program. The caller
   frees the graph with syn_graph_free. */
syn_graph *gpt_graph(const gpt_shape *shape, bool with_times);
/* A graph of two ranks, two layers and a prefill of 4 tokens, with times. SMALL_GPT_NODES is the
   number of a rank's ops that are not views.

   The first 3 ops are embedding, all-reduce and positions. Each layer has 13 ops in attention
   (norm, qkv, two cache ops, four ops from scores to the weighted sum, a copy to contiguous memory,
   projection, all-reduce, bias, residual) and 7 in the MLP (norm, two products, gelu, all-reduce,
   bias, residual). The last 5 ops are norm, head, all-gather, sample and broadcast. */
#define SMALL_GPT_NODES (3 + 2 * (13 + 7) + 5)
syn_graph *small_gpt_graph(void);
#endif
