/* What a small GPT records on meta, as a graph: prefill, then decode steps with a KV cache, every
   rank of a tensor-parallel group the same program. */
#ifndef TESTS_GPT_GRAPH_H
#define TESTS_GPT_GRAPH_H

#include "syntorch/graph/graph.h"

typedef struct gpt_shape {
    int layers, heads, tp, steps; /* steps: of decoding, after the prefill */
    int64_t width, tokens, vocab; /* tokens: of the prompt */
} gpt_shape;

/* Attention as separate ops; facts as the inference program's; times predicted if so asked. What
   cannot be made ends the program. Free it with syn_graph_free. */
syn_graph *gpt_graph(const gpt_shape *shape, bool with_times);
/* Two ranks, two layers, a prefill of 4 tokens, with times. Of a rank's ops so many are no views:
   embedding, all-reduce, positions; in each layer norm, q k v, two of the cache, three of attention
   and its result made contiguous, projection, all-reduce, bias, residual, and norm, two products,
   gelu, all-reduce, bias, residual; norm, head, all-gather, sample, broadcast. */
#define SMALL_GPT_NODES (3 + 2 * (13 + 7) + 5)
syn_graph *small_gpt_graph(void);
#endif
