/* Derives the edges that a graph does not store. With them, all ranks form one connected graph, and
   its longest path is the duration of the run as the simulation of timeline.h computes it.
   - op -> op, "stream": from the previous op on the same stream, or on links that the two share
     (syn__timeline_shares), unless the two are connected already. PyTorch traces do not get these
   edges, because they record what a stream or thread waits for.
   - source -> op of another rank, "group". A source is a tensor or op that an op of a collective
     waits for. A collective begins when its last rank arrives, so each of its ops also waits for
     the sources of the other ops. If a collective has more than SYN__RANK_EDGE_PAIRS ranks, there
   would be too many pairs. Edges then lead from all sources to one meeting node, and from it to
   each op. A collective without sources has a meeting node, too.
   - send -> receive, "group".
   - op -> end, "control": from each op without output that no op waits for.
   An edge that begins at an op is as long as the op's duration; an edge that begins at a tensor or
   a meeting node has length 0. Two kinds of edges differ. All ops of a collective end together, so
   an edge to one of them is longer by the difference between the longest of their durations and the
   op's own duration. A receive can begin together with its send but not end before it, so the
   length of an edge from a send to a receive is the send's duration minus the receive's, or 0 if
   that is negative. The edges never form a cycle, because the simulation runs the node at the start
   of each edge before the node at its end. */
#ifndef EXPORT_LINKS_H
#define EXPORT_LINKS_H

#include "export/walk/streams.h"
#include "export/walk/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One end of an edge. kind 'o': an op, with its rank and id; 't': a tensor, with its rank and
   number; 'g': the meeting node of a collective, with the group id in `rank` and the collective's
   number in the group; 'e': the end of the run. */
typedef struct syn__rank_edge_end {
    char kind;
    uint32_t rank;
    uint64_t number;
} syn__rank_edge_end;

typedef struct syn__rank_edge {
    syn__rank_edge_end from, to;
    const char *kind; /* "stream", "group", "control" */
    double ns;
    bool is_comm; /* at least one end communicates; drawn red */
} syn__rank_edge;

typedef void syn__rank_edge_fn(void *arg, const syn__rank_edge *link);

#define SYN__RANK_EDGE_PAIRS 16

typedef struct syn__rank_edges {
    syn__timeline timeline;
    bool chains;          /* add the edges of kind "stream" */
    bool has_end;         /* at least one edge leads to the end */
    syn__streams streams; /* index of the last node on each stream of the current rank, plus one */
    uint32_t *behind;     /* per node of the current rank: its index plus one; for a view, the index
                             plus one of the last node whose data it shows */
    size_t behind_cap;
    syn_cursor cursor;
    size_t next_message; /* next message to the current rank */
    /* for the current node */
    uint32_t *sources; /* nodes that it waits for, on its own rank */
    size_t n_sources, sources_cap;
} syn__rank_edges;

syn_status syn__rank_edges_open(syn__rank_edges *out, const syn_graph *graph,
                                const syn_export_options *options, const syn_copied_ranks *copies,
                                syn_error *err) SYN_MUST_USE;
void syn__rank_edges_close(syn__rank_edges *links);

/* Begins a rank. All its nodes must then be passed to syn__rank_edges_of, in order. */
syn_status syn__rank_edges_begin(syn__rank_edges *links, uint32_t rank_index,
                                 syn_error *err) SYN_MUST_USE;
/* Calls `each` for the derived edges of node `index` of the walk's rank: edges to the node, edges
   to the meeting node of its collective, the edge from it to the end, and edges from its sources to
   ops of other ranks. Overwrites walk->uses. */
syn_status syn__rank_edges_of(syn__rank_edges *links, syn__walk *walk, uint32_t index,
                              const syn_node *node, syn__rank_edge_fn *each, void *arg,
                              syn_error *err) SYN_MUST_USE;
/* syn__rank_edges_ns returns the length of edges that begin at this node, syn__rank_edges_late_ns
   the additional length of edges that end at it. */
double syn__rank_edges_ns(const syn__rank_edges *links, uint32_t rank_index, uint32_t node);
double syn__rank_edges_late_ns(const syn__rank_edges *links, uint32_t rank_index, uint32_t node);
/* Whether the collective gets a meeting node. */
bool syn__rank_edges_has_point(const syn__meeting *meeting);

/* Writes "r0.o12", "r0.t7", "g1.3" or "end", without quotes. */
void syn__rank_edges_put_end(syn_sink *sink, const syn__rank_edge_end *end);

#ifdef __cplusplus
}
#endif
#endif
