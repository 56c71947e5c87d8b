/* The state of a simulated run: written by et_sim_run.c, and read by et_sim_report.c. */
#ifndef EXPORT_ET_SIM_RUN_H
#define EXPORT_ET_SIM_RUN_H

#include "export/chakra/simulate/et_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Nodes that wait for a lane, as a heap with the smallest number on top, and the node in it. */
typedef struct syn__sim_lane {
    uint32_t *heap;
    size_t n, cap;
    uint32_t busy; /* SYN__SIM_NONE: free */
    uint32_t next; /* of a lane in program order: the call that starts next; SYN__SIM_NONE: any node
                      may */
} syn__sim_lane;

/* The call that released a collective or a receive. */
typedef struct syn__sim_release {
    uint32_t member, call; /* member SYN__SIM_NONE: none */
    uint32_t place;        /* of a collective: the position of its rank in the group; SYN__SIM_NONE:
                              any rank of the member */
} syn__sim_release;

typedef struct syn__sim_member {
    const syn__sim_program *program;
    const syn__sim_class *of;
    const syn__sim_rank *rank;
    uint32_t *left; /* per node: dependencies that have not ended */
    uint32_t *next; /* per call: the next one in its queue */
    uint64_t *ends; /* per call: when a send ends */
    syn__sim_lane *lanes;
    uint32_t n_lanes;
    uint64_t n_done;
    /* What runs now, since when, and the sums so far. */
    uint32_t n_computing, n_communicating;
    uint64_t since, compute_ns, exposed_ns, end_ns;
    /* Records of a timeline and the critical path; NULL: not needed. */
    uint64_t *begins, *node_ends; /* per node; an end of SYN__SIM_NO_TIME: it has not run */
    uint32_t *before; /* per node: the node of this class at whose end it started or, if it
                         communicates, at whose end it arrived; SYN__SIM_NONE: at the beginning */
    /* Per call: of a collective, the call that arrived last, if it is another class's. Of a
       receive, its send, if the receive waited for it. */
    syn__sim_release *released;
} syn__sim_member;

/* A class that has arrived at a collective, with its call. */
typedef struct syn__sim_arrival {
    uint32_t member, call;
    uint64_t ns;
} syn__sim_arrival;

typedef struct syn__sim_meeting_state {
    syn__sim_arrival *arrived; /* per member; member SYN__SIM_NONE: it has not arrived */
    uint32_t n_arrived, first; /* first: the member that arrived first */
    uint64_t longest_ns;
    uint64_t n_calls, bytes, ns; /* sums for the report */
} syn__sim_meeting_state;

/* Messages on one link: sends without receives, or receives without sends, first in, first out. */
typedef struct syn__sim_queue {
    uint32_t first, last; /* calls; SYN__SIM_NONE: empty */
    bool of_sends;
} syn__sim_queue;

typedef struct syn__sim_event {
    uint64_t ns, number; /* events at the same time end in the order in which they were added */
    uint32_t member, node;
} syn__sim_event;

typedef struct syn__sim_price {
    uint32_t group;
    int comm_type;
    uint64_t bytes, ns;
} syn__sim_price;

typedef struct syn__sim_run_state {
    const syn__sim_set *set;
    const syn__sim_folded *folded;
    const syn_simulate_options *options;
    syn_simulation *out;
    syn__sim_member *members;
    syn__sim_meeting_state *meetings;
    syn__sim_queue *links;
    syn__sim_event *events; /* a heap */
    size_t n_events, events_cap;
    uint64_t n_added, now;
    uint32_t ended;         /* the node that ends now */
    syn__sim_price *prices; /* hash table */
    uint32_t n_prices, prices_cap;
    uint64_t message_ns, n_messages, message_bytes;
    syn_error *err;
} syn__sim_run_state;

static inline syn__sim_kind syn__sim_kind_of(const syn__sim_member *m, uint32_t node) {
    return (syn__sim_kind)(m->program->kinds[node] & ((1u << SYN__SIM_KIND_BITS) - 1));
}

static inline syn__sim_call *syn__sim_call_of(const syn__sim_member *m, uint32_t node) {
    return &m->program->calls[m->program->values[node]];
}

/* The time of a collective on the machine; looked up if it is known. */
syn_status syn__sim_price_of(syn__sim_run_state *s, uint32_t group, const syn__sim_call *call,
                             uint64_t *out) SYN_MUST_USE;
/* Fills in *s->out after the run: results, timeline, critical path, and the deadlock if nodes have
   not run. */
syn_status syn__sim_report(syn__sim_run_state *s) SYN_MUST_USE;
/* Fills in the critical path of *s->out, which has the other results. */
syn_status syn__sim_path(syn__sim_run_state *s) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
