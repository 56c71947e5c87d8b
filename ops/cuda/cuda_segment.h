/* A recorded sequence of ops of a context and the CUDA graph made from it. For cuda_graph.cu. */
#ifndef OPS_CUDA_CUDA_SEGMENT_H
#define OPS_CUDA_CUDA_SEGMENT_H

#include "ops/cuda/cuda.h"

/* A recorded op. Its operands and attributes are stored at offset `at` of the segment's bytes. */
typedef struct syn__graph_op {
    const syn_opdef *def;
    syn_kernel kernel;
    int n_in, n_out, n_attr;
    uint32_t distance; /* its node number minus that of the segment's first op */
    size_t at, bytes;
    float ns;              /* time of the op when it was launched alone; 0: not known yet */
    int first_node, nodes; /* range of its nodes in the graph; nodes -1: some of them cannot be
                              changed */
} syn__graph_op;

typedef enum syn__segment_state {
    SYN__NEW,
    SYN__SEEN,
    SYN__SEEN_TWICE,
    SYN__READY
} syn__segment_state;

typedef struct syn__segment {
    syn__segment_state state;
    uint32_t generation; /* changes whenever the segment gets other ops; 0: it has no ops */
    syn__graph_op *ops;
    size_t n_ops, ops_cap;
    char *bytes;
    size_t n_bytes, bytes_cap;
    uint32_t first_node; /* node number of the first op */
    cudaGraph_t graph;   /* only if state is SYN__READY */
    cudaGraphExec_t exec;
    cudaGraphNode_t *nodes; /* kernel nodes, in order */
    size_t n_nodes, nodes_cap;
    uint64_t scratch;   /* scratch_number of the scratch memory that the graph uses */
    uint32_t in_flight; /* first_node of the last launch since the last sync, or 0 */
} syn__segment;

/* Copies the operands and attributes of a call, packed, to `to`, unless `to` is NULL. Returns their
   size in bytes. */
size_t syn__call_pack(const syn_call *c, char *to);
/* syn__same_kind: whether op and call have the same definition, number of operands and attributes,
   and distance. syn__same_call: whether they also have equal operands and attributes. */
bool syn__same_kind(const syn__graph_op *op, const syn_call *c, uint32_t distance);
bool syn__same_call(const syn__segment *s, const syn__graph_op *op, const syn_call *c);
/* Returns NULL if memory is out. */
syn__graph_op *syn__segment_append(syn__segment *s, const syn_call *c, syn_kernel kernel,
                                   uint32_t distance);
void syn__segment_drop_graph(syn__segment *s);
void syn__segment_free(syn__segment *s);

#endif
