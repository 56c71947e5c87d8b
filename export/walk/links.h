/* Edges that a graph does not store because they follow from it: with them all ranks are one piece
   and the longest path is the time that the run takes (as the simulation of timeline.h finds it).

   - op -> op, "stream": the op before on the same stream, where nothing else joins the two. Not in
     PyTorch's traces, which record what a stream or thread waits for.
   - source -> op of another rank, "group": a collective begins when its last rank has come, so what
     one of its ops waits for the others wait for, too. Of more than SYN__LINK_PAIRS ranks, where
     pairs would be too many, sources lead to a node where all meet, and that to each of the ops; so
     where nothing is waited for.
   - send -> receive, "group".
   - op -> end, "control": ops without output for which nothing waits.

   An edge lasts as long as the op that it leaves, 0 if it leaves a tensor or a meeting; from a send
   to a receive as much longer as the send takes, since they begin together; and all that lead to a
   collective as much more as its slowest rank takes longer. They never close a circle: the
   simulation has passed what each leaves before what it leads to. */
#ifndef EXPORT_LINKS_H
#define EXPORT_LINKS_H

#include "export/walk/streams.h"
#include "export/walk/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One end: 'o' op and 't' tensor by rank and number, 'g' meeting by group id (as rank) and number,
   'e' the one end. */
typedef struct syn__link_end {
    char kind;
    uint32_t rank;
    uint64_t number;
} syn__link_end;

typedef struct syn__link {
    syn__link_end from, to;
    const char *kind; /* "stream", "group", "control" */
    double ns;
    bool is_comm; /* an end communicates: drawn red */
} syn__link;

typedef void syn__link_fn(void *arg, const syn__link *link);

#define SYN__LINK_PAIRS 16

typedef struct syn__links {
    syn__timeline timeline;
    bool chains;          /* streams */
    bool has_end;         /* an edge leads to the end */
    syn__streams streams; /* last node on each stream of the current rank, plus one */
    uint32_t *behind; /* per node of it: itself, or of views the last node whose data it shows, plus
                     one */
    size_t behind_cap;
    syn_cursor cursor;
    size_t next_message; /* to the current rank */
    /* of the node at hand */
    uint32_t *sources; /* nodes that it waits for */
    size_t n_sources, sources_cap;
} syn__links;

syn_status syn__links_open(syn__links *out, const syn_graph *graph,
                           const syn_export_options *options, const syn_copied_ranks *copies,
                           syn_error *err) SYN_MUST_USE;
void syn__links_close(syn__links *links);

/* Begins a rank; its nodes are then asked for in order. */
syn_status syn__links_begin(syn__links *links, uint32_t rank_index, syn_error *err) SYN_MUST_USE;
/* Calls `each` for every such edge that leads to the node `index` of the walk's rank, to its
   meeting, or from it to the end, and from what it waits for to other ranks. Uses walk->uses. */
syn_status syn__links_of(syn__links *links, syn__walk *walk, uint32_t index, const syn_node *node,
                         syn__link_fn *each, void *arg, syn_error *err) SYN_MUST_USE;
/* How long an edge lasts that leaves this node, and how much longer those do that lead to it. */
double syn__links_ns(const syn__links *links, uint32_t rank_index, uint32_t node);
double syn__links_late_ns(const syn__links *links, uint32_t rank_index, uint32_t node);
/* Whether a meeting is a node of the graph. */
bool syn__links_has_point(const syn__meeting *meeting);

/* "r0.o12", "r0.t7", "g1.3" or "end", without quotes. */
void syn__links_put_end(syn_sink *sink, const syn__link_end *end);

#ifdef __cplusplus
}
#endif
#endif
