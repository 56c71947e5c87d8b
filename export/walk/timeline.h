/* When each node of a graph runs: as measured, or found by letting the ranks run through their
   nodes in order. */
#ifndef EXPORT_TIMELINE_H
#define EXPORT_TIMELINE_H

#include "export/walk/copies.h"

#ifdef __cplusplus
extern "C" {
#endif

/* MEASURED: start_ns and wall_ns of the nodes. PREDICTED: durations from predicted_ns. DURATIONS:
   from wall_ns, where no node says when it began. ORDER: every node that does something takes
   ORDER_NS, so that only the order means anything. */
typedef enum syn__clock {
    SYN__CLOCK_MEASURED,
    SYN__CLOCK_PREDICTED,
    SYN__CLOCK_DURATIONS,
    SYN__CLOCK_ORDER
} syn__clock;
#define SYN__CLOCK_ORDER_NS 1000.0
#define SYN__MAX_NS         4e18 /* of any time: fits int64, and sums stay finite */

const char *syn__clock_name(syn__clock clock);

/* Of one node, in ns; start_ns < 0: not shown (a view, metadata, or not measured). */
typedef struct syn__span {
    double start_ns, end_ns, wait_ns; /* wait_ns: the first part, spent waiting for other ranks */
} syn__span;

/* A send and the receive that takes it. */
typedef struct syn__timeline_message {
    uint32_t from_rank, from_node, to_rank, to_node; /* indices */
    bool in_order; /* simulated, and the receive did not have to go on without it */
} syn__timeline_message;

/* The ranks that came together at a collective, two at least. */
typedef struct syn__meeting {
    uint32_t group;  /* index */
    uint32_t number; /* how many collectives of the group came before */
    uint32_t n_members;
    size_t first_member;
    bool has_source; /* one of its nodes at least waits for something */
    syn_comm_kind comm;
    double longest_ns; /* of its nodes' durations: all leave that long after the last has come */
} syn__meeting;

typedef struct syn__member {
    uint32_t rank; /* index */
    double duration_ns;
    uint64_t id; /* of its node */
} syn__member;

#define SYN__NO_MEETING UINT32_MAX

/* What the simulation finds out about a node besides its span. */
typedef struct syn__course {
    double duration_ns; /* 0 of nodes that are not shown */
    uint32_t meeting;   /* index, or SYN__NO_MEETING */
    bool is_last;       /* has no output, and nothing waits for it */
} syn__course;

typedef struct syn__timeline {
    const syn_graph *graph;
    uint32_t *ranks; /* indices of those shown, ascending: copies run as their originals do */
    uint32_t n_ranks;
    uint32_t *place; /* per rank index of the graph: where it is in `ranks`; UINT32_MAX: nowhere */
    syn__clock clock;
    syn__span *spans;                /* of all ranks, one after the other */
    size_t *span_first;              /* per place, and the end */
    syn__timeline_message *messages; /* by source, destination, tag, order; sorted by receiver */
    size_t n_messages;
    /* of syn__timeline_run */
    syn__course *courses; /* as spans */
    syn__meeting *meetings;
    syn__member *members; /* of each meeting, by rank */
    size_t n_meetings, meetings_cap, n_members, members_cap;
    uint64_t n_untimed; /* nodes left out of a measured timeline for want of a time */
    int64_t base_us; /* spans count from here: traces of others count from the epoch, where a double
                        has no digits left for ns */
} syn__timeline;

/* Simulation: a node starts when its dependencies have ended and its stream (streams.h) is free; a
   collective when all its ranks that the graph holds have arrived; a receive not before its send.
   Ranks whose collectives or messages do not match go on alone, so that it always ends. Copies are
   left out (NULL: there are none). */
syn_status syn__timeline_make(syn__timeline *out, const syn_graph *graph,
                              const syn_export_options *options, const syn_copied_ranks *copies,
                              syn_error *err) SYN_MUST_USE;
/* Always by simulation: with durations as measured where they are, waiting left out. Finds besides
   the spans which nodes meet. */
syn_status syn__timeline_run(syn__timeline *out, const syn_graph *graph,
                             const syn_export_options *options, const syn_copied_ranks *copies,
                             syn_error *err) SYN_MUST_USE;
void syn__timeline_free(syn__timeline *timeline);

syn__span *syn__timeline_span(const syn__timeline *timeline, uint32_t rank_index, uint32_t node);
syn__course *syn__timeline_course(const syn__timeline *timeline, uint32_t rank_index,
                                  uint32_t node);
/* Fills the spans of a timeline that has everything else. */
syn_status syn__timeline_simulate(syn__timeline *timeline, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
