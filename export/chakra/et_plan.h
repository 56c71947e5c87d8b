/* Plans an execution trace: decides which nodes of a graph appear in it and what each of them
   depends on.

   Nodes that compute nothing (SYN_NODE_VIRTUAL), metadata, barriers and collectives of one rank do
   not appear; nodes that depend on them inherit their dependencies. A dependency of class DATA
   becomes a data_dep if it is direct or inherited only through DATA dependencies. Every other
   dependency becomes a ctrl_dep.

   The plan adds ctrl_deps so that
   - each stream runs in order: a node depends on the stream's previous node. Messages have their
   own streams (streams.h), so a send does not depend on a receive that was posted earlier;
   - collectives run in the order of the trace (et_order.h): each depends on the rank's previous
   collective and on the sends before it. (A simulator has one communication slot per rank. Sends
   never wait for a peer.)
   If nothing else implies such a dependency, it is also listed as an order dependency: a run on
   several streams does not have it.
   - a barrier separates the nodes before it from those after it: the next node of each stream
   depends on the last node of each stream, except receives, which may remain open.

   ctrl_deps that other dependencies imply are omitted: of a node's dependencies on one stream, only
   the latest can be a ctrl_dep, and only if it is not also a data_dep. Ids count from 1. */
#ifndef EXPORT_ET_PLAN_H
#define EXPORT_ET_PLAN_H

#include "export/walk/streams.h"
#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__et_stream {
    uint32_t tail;      /* id of its last node; 0: none */
    uint32_t last_send; /* id of its last send, if no collective followed it; 0: none */
    uint32_t barrier;   /* number of the last barrier that the stream waited for */
    uint32_t latest;    /* scratch: greatest id among a node's dependencies */
    bool active;        /* the stream is in syn__et_plan.active */
} syn__et_stream;

typedef struct syn__et_plan {
    const syn_graph *graph;
    uint32_t rank;
    uint32_t n_ids;
    uint32_t *place;     /* per graph node: its id or, if the node does not appear, PASSED | index
                            of its dependency list */
    uint32_t *stream_of; /* per id: index into streams */
    /* Dependency lists of nodes that do not appear. An entry is id << 1 | is_ctrl. */
    uint32_t *lists, *pool;
    size_t n_lists, n_pool, lists_cap, pool_cap;
    uint32_t *work; /* dependencies of the current node */
    size_t n_work, work_cap;
    syn__et_stream *streams;
    size_t n_streams, streams_cap;
    syn__streams numbers; /* per stream: its index plus one */
    uint32_t *active;     /* indices of streams that ran since the last barrier */
    size_t n_active, active_cap;
    uint32_t barrier; /* number of barriers so far */
    uint32_t *gate;   /* ids that nodes after the last barrier depend on */
    size_t n_gate, gate_cap;
    uint32_t last_coll;
    uint32_t *senders; /* indices of streams that have a last_send */
    size_t n_senders, senders_cap;
    /* Result of syn__et_plan_node: the node's dependencies, ascending; and those ctrl dependencies
       that only keep the order of collectives. */
    uint64_t *ctrl, *data, *order;
    size_t n_ctrl, n_data, n_order, ctrl_cap, data_cap, order_cap;
} syn__et_plan;

syn_status syn__et_plan_open(syn__et_plan *plan, const syn_graph *graph, uint32_t rank,
                             syn_error *err);
/* Plans the rank's next node in the order of et_order.h; `index` is its index in the graph. *id is
   the node's id, or 0 if the node does not appear. */
syn_status syn__et_plan_node(syn__et_plan *plan, uint32_t index, const syn_node *node, uint32_t *id,
                             syn_error *err);
void syn__et_plan_close(syn__et_plan *plan);
/* Finds out whether node `index` of the rank appears, and whether it is a barrier of several
   ranks. */
syn_status syn__et_plan_includes(const syn_graph *graph, uint32_t rank, uint32_t index,
                                 const syn_node *node, bool *shown, bool *barrier, syn_error *err);

/* ---- Checks before writing, for graphs that a simulator could not run (et_check.c) ---- */

/* Verbatim graphs are written unchanged and always pass. */

bool syn__et_is_verbatim(const syn_graph *graph);
/* Fails if none of the rank's nodes appears. `rank` is an index. */
syn_status syn__et_check_rank(const syn_graph *graph, uint32_t rank, syn_error *err);
/* Fails if the members of a group do not call the same collectives with the same number of bytes.
   Only checks groups whose members are all in the graph. */
syn_status syn__et_check_calls(const syn_graph *graph, syn_error *err);

#ifdef __cplusplus
}
#endif
#endif
