/* The plan of an execution trace: which nodes of a graph it has and what each waits for.

   Nodes that compute nothing (SYN_NODE_VIRTUAL), metadata, barriers and collectives of one rank do
   not appear: their dependencies pass on to those that wait for them. A dependency of class DATA,
   through such nodes only by DATA, becomes a data_dep, any other a ctrl_dep.

   ctrl_deps are added so that
   - each stream runs in order: a node waits for the stream's previous one. Messages have streams of
     their own (streams.h), so a send does not wait for a receive that was posted before it;
   - collectives run in program order: each waits for the rank's previous collective and for the
     sends before it (a simulator has one communication slot a rank; sends themselves never wait for
     a peer);
   - a barrier parts before from after: the next node of each stream waits for the last one of each
     stream, except receives, which may stay open.

   A ctrl_dep that others imply is left out: on the same stream all but the previous node, on
   another stream all but the latest, and any node that is a data_dep already. Ids count from 1. */
#ifndef EXPORT_ET_PLAN_H
#define EXPORT_ET_PLAN_H

#include "export/walk/streams.h"
#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__et_stream {
    uint32_t tail;      /* id of its last node; 0 none */
    uint32_t last_send; /* not yet followed by a collective; 0 none */
    uint32_t barrier;   /* the last barrier it has waited for */
    uint32_t latest;    /* scratch: greatest id among a node's dependencies */
    bool active;        /* is in the plan's list of these */
} syn__et_stream;

typedef struct syn__et_plan {
    const syn_graph *graph;
    uint32_t rank;
    uint32_t n_planned, n_ids;
    uint32_t *place;     /* per graph node: its id, or PASSED | index of its list */
    uint32_t *stream_of; /* per id: index into streams */
    /* Lists of nodes that do not appear: dependencies id << 1 | is_ctrl. */
    uint32_t *lists, *pool;
    size_t n_lists, n_pool, lists_cap, pool_cap;
    uint32_t *work; /* the present node's dependencies */
    size_t n_work, work_cap;
    syn__et_stream *streams;
    size_t n_streams, streams_cap;
    syn__streams numbers; /* index of each stream, plus one */
    uint32_t *active;     /* indices of streams that ran since the last barrier */
    size_t n_active, active_cap;
    uint32_t barrier; /* how many so far */
    uint32_t *gate;   /* ids that the last barrier waits for */
    size_t n_gate, gate_cap;
    uint32_t last_coll;
    uint32_t *senders; /* indices of streams with a last_send */
    size_t n_senders, senders_cap;
    /* Result for the node just planned, ascending; ids_cap counts both. */
    uint64_t *ctrl, *data;
    size_t n_ctrl, n_data, ctrl_cap, data_cap;
} syn__et_plan;

syn_status syn__et_plan_open(syn__et_plan *plan, const syn_graph *graph, uint32_t rank,
                             syn_error *err);
/* Plans the rank's next node; *id is its id, or 0 if it does not appear. */
syn_status syn__et_plan_node(syn__et_plan *plan, const syn_node *node, uint32_t *id,
                             syn_error *err);
void syn__et_plan_close(syn__et_plan *plan);
/* Whether node `index` of the rank appears, or is a barrier of several ranks. */
syn_status syn__et_plan_shows(const syn_graph *graph, uint32_t rank, uint32_t index,
                              const syn_node *node, bool *shown, bool *barrier, syn_error *err);

/* ---- What a simulator could not run, found before writing (et_check.c) ---- */

/* Verbatim graphs are written as they came and pass. */

bool syn__et_is_verbatim(const syn_graph *graph);
/* Refuses a rank none of whose nodes appears. `rank` is an index. */
syn_status syn__et_check_rank(const syn_graph *graph, uint32_t rank, syn_error *err);
/* Refuses members of a group that do not call the same collectives on the same bytes, if all its
   members are in the graph. */
syn_status syn__et_check_calls(const syn_graph *graph, syn_error *err);

#ifdef __cplusplus
}
#endif
#endif
