/* Replays repeated ops as CUDA graphs. Steps of training and decoding launch the same ops again
   and again. The ops between two operations that a graph cannot contain (a copy from the host, a
   collective, a wait) form a segment. A segment that was the same in two steps is captured as a
   CUDA graph; later steps launch the graph instead of the ops. */
#ifndef OPS_CUDA_CUDA_GRAPH_H
#define OPS_CUDA_CUDA_GRAPH_H

#include "ops/cuda/cuda.h"

typedef struct syn__graphs syn__graphs;

/* *out is NULL, without a failure, if the environment has SYNTORCH_CUDA_GRAPHS=0. */
syn_status syn__graphs_open(syn__graphs **out, syn__cuda *device, syn_error *err) SYN_MUST_USE;
void syn__graphs_close(syn__graphs *g); /* NULL is allowed */
/* A new step begins. */
void syn__graphs_step(syn__graphs *g);
/* Runs an op: launches its kernels, or defers the op to the end of the segment. */
syn_status syn__graphs_run(syn__graphs *g, syn_call *c, syn_kernel kernel) SYN_MUST_USE;
/* Ends the segment and launches deferred ops. Call before anything else is queued in the stream. */
syn_status syn__graphs_end(syn__graphs *g, syn_error *err) SYN_MUST_USE;
/* Returns the node number that a fault refers to, or 0 if it is not known any more. Kernels of a
   graph do not know their node's number, so their faults contain the segment and the op instead. */
uint32_t syn__graphs_fault_node(const syn__graphs *g, uint32_t node);
/* For dividing a graph's time among its ops. syn__graphs_ops returns the number of ops of the
   segment with that handle; 0 if the segment was replaced. The other two functions return, for op
   number `op`, the difference between its node number and that of the first op, and the time that
   the op took when it was launched alone. */
int syn__graphs_ops(const syn__graphs *g, int handle);
uint32_t syn__graphs_distance(const syn__graphs *g, int handle, int op);
float *syn__graphs_ns(syn__graphs *g, int handle, int op);
/* Call it after a sync, when all times and faults have been reported. NULL is allowed. */
void syn__graphs_synced(syn__graphs *g);
/* Whether an op's kernels are being added to a graph or changed in it. The op must not wait or
   allocate then. */
bool syn__graphs_capturing(void);
/* For tests: number of graph launches so far. */
uint64_t syn__graphs_launched(const syn__graphs *g);

#endif
