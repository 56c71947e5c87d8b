/* Start and end of each node of a graph: as measured, or simulated by running the nodes of all
   ranks in order. */
#ifndef EXPORT_TIMELINE_H
#define EXPORT_TIMELINE_H

#include "export/walk/copies.h"
#include "export/walk/streams.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Source of the times. MEASURED: start_ns and wall_ns of the nodes. PREDICTED: a simulation with
   predicted_ns as durations. DURATIONS: a simulation with wall_ns as durations, because no node has
   a start time. ORDER: each node that does something takes SYN__CLOCK_ORDER_NS, so only the order
   is meaningful. */
typedef enum syn__clock {
    SYN__CLOCK_MEASURED,
    SYN__CLOCK_PREDICTED,
    SYN__CLOCK_DURATIONS,
    SYN__CLOCK_ORDER
} syn__clock;
#define SYN__CLOCK_ORDER_NS 1000.0
#define SYN__MAX_NS         4e18 /* limit of any time in ns: it fits int64, and sums stay finite */

const char *syn__clock_name(syn__clock clock);

/* Times of one node in ns. start_ns < 0: the node is not shown because it is a view or metadata, or
   was not measured. */
typedef struct syn__span {
    double start_ns, end_ns, wait_ns; /* wait_ns: length of the first part of the span, which is
                                         spent waiting for other ranks */
} syn__span;

/* A send and the receive that matches it. */
typedef struct syn__timeline_message {
    uint32_t from_rank, from_node, to_rank, to_node; /* indices */
    bool in_order; /* the receive was simulated after its send; false: not simulated, or the receive
                      had to continue without its send */
} syn__timeline_message;

/* One collective with all its ranks, at least two. */
typedef struct syn__meeting {
    uint32_t group;  /* index */
    uint32_t number; /* number of earlier collectives of the group */
    uint32_t n_members;
    size_t first_member;
    bool has_source; /* at least one of its nodes has an input or a dependency */
    syn_comm_kind comm;
    double longest_ns; /* longest duration of its nodes: all of them end this long after the last
                          rank arrived */
} syn__meeting;

typedef struct syn__member {
    uint32_t rank; /* index */
    double duration_ns;
    uint64_t id; /* id of its node */
} syn__member;

#define SYN__NO_MEETING UINT32_MAX

/* What the simulation computes for a node in addition to its span. */
typedef struct syn__course {
    double duration_ns; /* 0 for nodes that are not shown */
    uint32_t meeting;   /* index into meetings, or SYN__NO_MEETING */
    bool is_last;       /* has no output, and no node waits for it */
} syn__course;

typedef struct syn__timeline {
    const syn_graph *graph;
    uint32_t *ranks; /* indices of the ranks shown, ascending; ranks that are identical to an
                        earlier rank are omitted */
    uint32_t n_ranks;
    uint32_t *place; /* per rank index of the graph: its position in `ranks`; UINT32_MAX: not
                        shown */
    syn__clock clock;
    syn__span *spans;                /* per node of the ranks shown, rank after rank */
    size_t *span_first;              /* per position in `ranks`: the rank's first entry in spans;
                                        one more element for the end */
    syn__timeline_message *messages; /* sends and receives matched by source, destination, tag and
                                        order; sorted by receiver */
    size_t n_messages;
    /* filled by syn__timeline_run */
    syn__course *courses; /* indexed like spans */
    syn__meeting *meetings;
    syn__member *members; /* members of each meeting, ordered by rank */
    size_t n_meetings, meetings_cap, n_members, members_cap;
    uint32_t *links;    /* per group of the graph: the id of the first group with the same ranks, if
                           there are several, otherwise 0. NULL: no groups have the same ranks, or
                           the times are not predicted */
    uint64_t n_untimed; /* number of nodes missing from a measured timeline because they have no
                           time */
    int64_t base_us;    /* origin of the spans' times, in us: 0, except in traces that count from
                           the epoch, such as PyTorch traces. A double is too coarse for ns since
                           the epoch */
} syn__timeline;

/* Makes a timeline. Without measured start times it is simulated: a node starts when its
   dependencies have ended and its stream (streams.h) is free. A collective also waits until all its
   ranks in the graph have arrived, and a receive until its send has begun. Predicted collectives of
   groups with the same ranks, such as the two groups of ZeRO 3, run one after the other, because
   they share links and each prediction is for all of their bandwidth. If the collectives or
   messages of the ranks do not match, ranks continue without their partners, so the simulation
   always finishes. Identical ranks (copies; NULL: none) are omitted. */
syn_status syn__timeline_make(syn__timeline *out, const syn_graph *graph,
                              const syn_export_options *options, const syn_copied_ranks *copies,
                              syn_error *err) SYN_MUST_USE;
/* The same, but always simulates: if there are measured times, with the measured durations without
   wait time. Also fills courses, meetings and members. */
syn_status syn__timeline_run(syn__timeline *out, const syn_graph *graph,
                             const syn_export_options *options, const syn_copied_ranks *copies,
                             syn_error *err) SYN_MUST_USE;
void syn__timeline_free(syn__timeline *timeline);

/* Whether a node shares links with collectives of other groups. Then it also runs on the stream
 *key, one after the other with them. */
bool syn__timeline_shares(const syn__timeline *timeline, const syn_node *node,
                          syn__stream_key *key);
syn__span *syn__timeline_span(const syn__timeline *timeline, uint32_t rank_index, uint32_t node);
syn__course *syn__timeline_course(const syn__timeline *timeline, uint32_t rank_index,
                                  uint32_t node);
/* Fills the spans of a timeline whose other fields are set. */
syn_status syn__timeline_simulate(syn__timeline *timeline, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
