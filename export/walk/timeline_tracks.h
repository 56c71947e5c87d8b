/* Assigns each node of a rank to a track of a timeline. A lane is a stream, a group, all sends, all
   receives, or a host thread of the rank. It has one track, and additional tracks for nodes that
   overlap. */
#ifndef EXPORT_TIMELINE_LANES_H
#define EXPORT_TIMELINE_LANES_H

#include "export/walk/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A node in the timeline. Times are integers in ns, so that rounding does not make adjacent nodes
   overlap. */
typedef struct syn__slice {
    int64_t start, end, wait;
    uint32_t node;
    uint32_t lane; /* number of its lane */
    uint32_t tid;
    bool host; /* an op of a host thread: slices of its track may nest */
} syn__slice;

/* A track of the rank. */
typedef struct syn__track_thread {
    int64_t free_at;          /* ns */
    uint32_t lane, copy, tid; /* copy: 0 for the lane's first track; additional tracks count from
                                 1 */
    uint32_t top;             /* host threads: the innermost open slice; UINT32_MAX: none */
    bool host;
} syn__track_thread;

typedef struct syn__tracks {
    syn__slice *slices; /* ordered by lane, start and length, longer ones first */
    size_t n_slices, slices_cap;
    syn__track_thread *threads; /* ordered by lane */
    size_t n_threads, threads_cap;
    uint32_t *outer; /* per slice of a host thread: the slice around it; UINT32_MAX: none */
    /* private */
    uint32_t *groups; /* indices of the graph's groups in the order of their lanes: by kind, then
                         number */
    uint32_t *lanes;  /* per group of the graph: its position in that order */
    uint32_t *heap;   /* tracks of one lane as a heap; the one that is free first is on top */
    size_t n_heap, heap_cap;
    size_t outer_cap;
    uint32_t n_extra;
    bool foreign; /* PyTorch traces: streams have the device's numbers */
} syn__tracks;

/* Replaces the content of `lanes` by the nodes of a rank, which must be the selected rank of
   `walk`. */
syn_status syn__tracks_fill(syn__tracks *lanes, const syn__timeline *timeline, syn__walk *walk,
                            uint32_t rank_index, syn_error *err) SYN_MUST_USE;
void syn__tracks_free(syn__tracks *lanes);
/* Writes the name of a track to `text`: "compute", "tp0", "stream 7", "thread 1". */
void syn__track_name(const syn__tracks *lanes, const syn_graph *graph,
                     const syn__track_thread *thread, char *text, size_t bytes);
/* The first lane number of host threads, which only PyTorch traces have. */
uint32_t syn__tracks_first_host(const syn_graph *graph);
/* A host op as `syntorch convert pytorch` writes it: its thread, and its duration in us including
   the ops that it called. */
typedef struct syn__host_op {
    int64_t tid, inclusive_us;
} syn__host_op;
/* Returns false, and leaves *op undefined, if the node is not a host op. */
bool syn__is_host_op(const syn_node *node, syn__host_op *op);
/* Rounds to int64, saturating. */
int64_t syn__whole_ns(double ns);

#ifdef __cplusplus
}
#endif
#endif
