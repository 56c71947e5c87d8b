/* Edges that the graph does not store because they can be derived from it. With them, all ranks
   form one connected graph, and its longest path is the duration of the run, as the simulation of
   timeline.h computes it.
   - op -> op, "stream": the previous op on the same stream, unless the two are connected already.
     PyTorch traces do not get these edges, because they record what a stream or thread waits for.
   - source -> op of another rank, "group": a collective begins when its last rank arrives, so every
     member also waits for the sources that the others wait for. If a collective has more than
     SYN__LINK_PAIRS ranks, there would be too many pairs: its sources lead to one meeting node, and
     that node to each of the ops. A collective whose members wait for nothing has a meeting node,
     too.
   - send -> receive, "group".
   - op -> end, "control": ops without output that no op waits for.
   The length of an edge is the duration of the op that it leaves, or 0 if it leaves a tensor or a
   meeting node. An edge from a send to a receive is longer by the duration of the send, since both
   begin together. Edges to an op of a collective are longer by the time that the slowest rank takes
   more than this op. The edges never form a cycle: the simulation runs the start of each edge
   before its end. */
#ifndef EXPORT_LINKS_H
#define EXPORT_LINKS_H

#include "export/walk/streams.h"
#include "export/walk/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An end of an edge. kind 'o': op, 't': tensor, by rank and number; 'g': meeting node of a
   collective, by group id (in `rank`) and number; 'e': the end of the run. */
typedef struct syn__link_end {
    char kind;
    uint32_t rank;
    uint64_t number;
} syn__link_end;

typedef struct syn__link {
    syn__link_end from, to;
    const char *kind; /* "stream", "group", "control" */
    double ns;
    bool is_comm; /* an end communicates; drawn red */
} syn__link;

typedef void syn__link_fn(void *arg, const syn__link *link);

#define SYN__LINK_PAIRS 16

typedef struct syn__links {
    syn__timeline timeline;
    bool chains;          /* add edges of streams */
    bool has_end;         /* an edge leads to the end */
    syn__streams streams; /* last node on each stream of the current rank, plus one */
    uint32_t *behind; /* per node of the current rank: itself plus one; for a view, the last node
                         whose data it shows, plus one */
    size_t behind_cap;
    syn_cursor cursor;
    size_t next_message; /* next message to the current rank */
    /* for the current node */
    uint32_t *sources; /* nodes that it waits for */
    size_t n_sources, sources_cap;
} syn__links;

syn_status syn__links_open(syn__links *out, const syn_graph *graph,
                           const syn_export_options *options, const syn_copied_ranks *copies,
                           syn_error *err) SYN_MUST_USE;
void syn__links_close(syn__links *links);

/* Begins a rank. Its nodes must then be passed to syn__links_of in order. */
syn_status syn__links_begin(syn__links *links, uint32_t rank_index, syn_error *err) SYN_MUST_USE;
/* Calls `each` for the derived edges of node `index` of the walk's rank: those to the node, those
   to the meeting node of its collective, those to the end, and those from its sources to other
   ranks. Uses walk->uses. */
syn_status syn__links_of(syn__links *links, syn__walk *walk, uint32_t index, const syn_node *node,
                         syn__link_fn *each, void *arg, syn_error *err) SYN_MUST_USE;
/* The length of edges that leave this node, and the additional length of edges that lead to it. */
double syn__links_ns(const syn__links *links, uint32_t rank_index, uint32_t node);
double syn__links_late_ns(const syn__links *links, uint32_t rank_index, uint32_t node);
/* Whether the collective gets a meeting node. */
bool syn__links_has_point(const syn__meeting *meeting);

/* Writes "r0.o12", "r0.t7", "g1.3" or "end", without quotes. */
void syn__links_put_end(syn_sink *sink, const syn__link_end *end);

#ifdef __cplusplus
}
#endif
#endif
