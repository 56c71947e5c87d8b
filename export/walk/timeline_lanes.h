/* Which thread of the screen each node of a rank is drawn in: of timelines. */
#ifndef EXPORT_TIMELINE_LANES_H
#define EXPORT_TIMELINE_LANES_H

#include "export/walk/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One node on the screen; ns, as integers so that what touches does not overlap by rounding. */
typedef struct syn__slice {
    int64_t start, end, wait;
    uint32_t node;
    uint32_t lane; /* thread before overlaps are moved */
    uint32_t tid;
    bool host; /* an op of a host thread: slices of its lane may lie within each other */
} syn__slice;

/* A thread of the rank that is drawn. */
typedef struct syn__lane_thread {
    int64_t free_at;          /* ns */
    uint32_t lane, copy, tid; /* copy: 0, or the how manieth extra thread of the lane */
    uint32_t top;             /* host: the innermost slice that is open; UINT32_MAX none */
    bool host;
} syn__lane_thread;

typedef struct syn__lanes {
    syn__slice *slices; /* by lane, start and length, longer ones first */
    size_t n_slices, slices_cap;
    syn__lane_thread *threads; /* by lane */
    size_t n_threads, threads_cap;
    uint32_t *outer; /* per slice of a host thread: the slice around it; UINT32_MAX none */
    /* private */
    uint32_t *groups; /* those of the graph in the order of their lanes: by kind and number */
    uint32_t *lanes;  /* per group of the graph: its place there */
    uint32_t *heap;   /* threads of one lane, the one that is free first on top */
    size_t n_heap, heap_cap;
    size_t outer_cap;
    uint32_t n_extra;
    bool foreign; /* of PyTorch's traces: streams have the device's numbers */
} syn__lanes;

/* Replaces the content by the nodes of a rank; `walk` stands in it. */
syn_status syn__lanes_fill(syn__lanes *lanes, const syn__timeline *timeline, syn__walk *walk,
                           uint32_t rank_index, syn_error *err) SYN_MUST_USE;
void syn__lanes_free(syn__lanes *lanes);
/* "compute", "tp0", "stream 7", "thread 1". */
void syn__lane_name(const syn__lanes *lanes, const syn_graph *graph, const syn__lane_thread *thread,
                    char *text, size_t bytes);
/* The first number of threads for host ops, of which a graph of our own has none. */
uint32_t syn__lanes_first_host(const syn_graph *graph);
/* A host op as `syntorch convert pytorch` writes it: its thread, and how long it ran together with
   the ops that it called, in us. */
typedef struct syn__host_op {
    int64_t tid, inclusive_us;
} syn__host_op;
/* False: the node is no host op; *op is then not to be used. */
bool syn__is_host_op(const syn_node *node, syn__host_op *op);
/* Rounded, and cut to what int64 holds. */
int64_t syn__whole_ns(double ns);

#ifdef __cplusplus
}
#endif
#endif
