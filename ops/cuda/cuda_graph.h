/* Steps of training and of decoding ask the device for the same again and again. Between two things
   that cannot be repeated (a copy from the host, an exchange, a wait) lies a segment of ops; one
   that was the same in two steps is captured as a CUDA graph, and launched as one from then on. */
#ifndef OPS_CUDA_CUDA_GRAPH_H
#define OPS_CUDA_CUDA_GRAPH_H

#include "ops/cuda/cuda.h"

typedef struct syn__graphs syn__graphs;

/* NULL, without a failure, where the environment says SYNTORCH_CUDA_GRAPHS=0. */
syn_status syn__graphs_open(syn__graphs **out, syn__cuda *device, syn_error *err) SYN_MUST_USE;
void syn__graphs_close(syn__graphs *g); /* NULL is allowed */
/* The next step begins. */
void syn__graphs_step(syn__graphs *g);
/* Asks for an op: launches its kernels, or puts that off until the segment ends. */
syn_status syn__graphs_run(syn__graphs *g, syn_call *c, syn_kernel kernel) SYN_MUST_USE;
/* Ends the segment: what was put off is launched. Before anything else is asked of the stream. */
syn_status syn__graphs_end(syn__graphs *g, syn_error *err) SYN_MUST_USE;
/* Number of the node that a fault names: kernels of a graph were launched for another. 0: it is not
   known any more. */
uint32_t syn__graphs_fault_node(const syn__graphs *g, uint32_t node);
/* How many ops there are of the segment that spans know by that handle, 0: its place was given to
   another; of op `op`, one of those, the node's distance from the first one's, and the time it took
   when it was launched alone, to divide the time of a graph. */
int syn__graphs_ops(const syn__graphs *g, int handle);
uint32_t syn__graphs_distance(const syn__graphs *g, int handle, int op);
float *syn__graphs_ns(syn__graphs *g, int handle, int op);
/* Nothing is in flight, and all was told. NULL is allowed. */
void syn__graphs_synced(syn__graphs *g);
/* True within an op whose kernels go into a graph: it must not wait, or change memory. */
bool syn__graphs_capturing(void);
/* For tests: graphs launched so far. */
uint64_t syn__graphs_launched(const syn__graphs *g);

#endif
