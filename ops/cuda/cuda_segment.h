/* Ops of a context one after another as they were asked for, and the CUDA graph that was made of
   them. For cuda_graph.cu. */
#ifndef OPS_CUDA_CUDA_SEGMENT_H
#define OPS_CUDA_CUDA_SEGMENT_H

#include "ops/cuda/cuda.h"

/* An op as it was asked for: its operands and attributes lie at `at` of the segment's bytes. */
typedef struct syn__graph_op {
    const syn_opdef *def;
    syn_kernel kernel;
    int n_in, n_out, n_attr;
    uint32_t distance; /* of its node's number from the first one's */
    size_t at, bytes;
    float ns;              /* measured when it was launched alone; 0: not yet known */
    int first_node, nodes; /* of the graph; nodes -1: among them are some that cannot be changed */
} syn__graph_op;

typedef enum syn__segment_state {
    SYN__NEW,
    SYN__SEEN,
    SYN__SEEN_TWICE,
    SYN__READY
} syn__segment_state;

typedef struct syn__segment {
    syn__segment_state state;
    uint32_t generation; /* another one whenever its ops are others; 0: none */
    syn__graph_op *ops;
    size_t n_ops, ops_cap;
    char *bytes;
    size_t n_bytes, bytes_cap;
    uint32_t first_node; /* its number */
    cudaGraph_t graph;   /* SYN__READY */
    cudaGraphExec_t exec;
    cudaGraphNode_t *nodes; /* of kernels, in order */
    size_t n_nodes, nodes_cap;
    uint64_t scratch;   /* which scratch memory the graph knows */
    uint32_t in_flight; /* the first node's number of its newest launch since the last sync, or 0 */
} syn__segment;

/* Bytes of what the op was given; written to `to` unless that is NULL. */
size_t syn__call_pack(const syn_call *c, char *to);
/* Whether it is the same but for what it is given; and given the same, too. */
bool syn__same_kind(const syn__graph_op *op, const syn_call *c, uint32_t distance);
bool syn__same_call(const syn__segment *s, const syn__graph_op *op, const syn_call *c);
/* NULL when memory is out. */
syn__graph_op *syn__segment_append(syn__segment *s, const syn_call *c, syn_kernel kernel,
                                   uint32_t distance);
void syn__segment_drop_graph(syn__segment *s);
void syn__segment_free(syn__segment *s);

#endif
