/* Trace sets of `syntorch serve`: which steps of a simulation get traces (serve_capture.c), how a
   rank's steps are recorded (serve_record.c, serve_steps.c, serve_fold.c), and the files
   (serve_traces.c). The ranks of the first pool come first; within a pool, tp is the fastest axis,
   then dp. */
#ifndef TOOLS_SERVE_TRACES_H
#define TOOLS_SERVE_TRACES_H

#include "tools/serve/serve.h"

/* ---- Which steps ---- */

/* Steps are those of a unit: a replica, or all replicas that share experts, which run their steps
   together. FULLEST: of each unit, the step with prompt tokens that has the most tokens, and the
   one without that has the most sequences. With disaggregation: the step that completes prompts and
   has the most tokens, and the steps in which these requests generate their second token. */
typedef enum serve_trace_kind {
    SERVE_TRACE_NONE,
    SERVE_TRACE_FULLEST,
    SERVE_TRACE_STEPS,
    SERVE_TRACE_TIME,
    SERVE_TRACE_ALL
} serve_trace_kind;

typedef struct serve_trace_choice {
    serve_trace_kind kind;
    int64_t first, last;     /* STEPS: numbers of the unit's steps */
    double begin_ns, end_ns; /* TIME: steps that begin in this window */
} serve_trace_choice;
/* Reads "fullest", "none", "all", "steps:A-B" or "time:S-E" (in seconds). False: it is none. */
bool serve_trace_read(serve_trace_choice *out, const char *text);

/* A sequence in a captured step. */
typedef struct captured_row {
    int64_t request; /* id */
    int32_t replica; /* within the unit */
    int32_t queries, keys, prompt;
    int32_t sampled; /* tokens whose logits the step needs */
    bool completes;  /* the step completes the prompt of a request that another pool continues */
    bool begins;     /* the request's first step in that pool */
} captured_row;

/* The step of a unit. Its rows are in the order of replicas. */
typedef struct captured_step {
    int32_t unit;
    int64_t number, tokens; /* tokens: of all replicas */
    double start_ns, ns;
    double host_ns; /* several replicas: ns without the time of the ops that the ranks record */
    bool prompt;    /* has prompt tokens */
    captured_row *rows;
    size_t n, cap;
} captured_step;

typedef struct captured_unit {
    int32_t pool, replica, n; /* the first of n replicas of the pool */
} captured_unit;

typedef struct serve_capture serve_capture;
/* Begins to choose steps of a simulation, which must stay valid; its observer is added to the
   simulation. limit: the largest number of steps. */
syn_status serve_capture_new(serve_capture **out, serve_simulation *sim,
                             const serve_trace_choice *choice, int64_t limit,
                             syn_error *err) SYN_MUST_USE;
void serve_capture_free(serve_capture *c);
/* Ends the choice. If more steps were chosen than the limit, those that ended first stay. The step
   that receives a cache ends after the one that sends it. Fails if none was chosen. */
syn_status serve_capture_end(serve_capture *c, syn_error *err) SYN_MUST_USE;
/* The chosen steps within the limit, by unit and number, and the units of all pools. *chosen: the
   number of chosen steps. */
captured_step *serve_captured(serve_capture *c, size_t *n, int64_t *chosen);
const captured_unit *serve_captured_units(const serve_capture *c, int32_t *n);

/* ---- Transfers of caches between chosen steps ---- */

typedef struct serve_transfer {
    const captured_step *from, *to;
    int32_t from_replica, to_replica; /* within their units */
    int32_t tokens, number;
} serve_transfer;

/* ---- A rank ---- */

/* Everything that the ranks of a set have in common. */
typedef struct serve_recording {
    const serve_simulation *sim;
    const captured_step *steps;
    size_t n_steps;
    const captured_unit *units;
    int32_t n_units;
    const serve_transfer *transfers;
    size_t n_transfers;
    int32_t ranks;        /* of the world */
    int32_t first[2];     /* rank of each pool */
    int32_t placed[2];    /* the same if each pool began on a node of its own, as on a machine; the
                             times of communication are those of this world */
    uint32_t group_id[2]; /* the first id of each pool's groups */
    bool fold;
} serve_recording;

/* The tokens of the unit's replica that has the most, at least one. All replicas of the unit record
   as many. */
int64_t serve_most_tokens(const captured_step *step, int32_t replicas);
/* Records the chosen steps of a rank. A rank without any computes one dummy token, because
   simulators need a node on each rank. */
syn_status serve_record(syn_graph **out, const serve_recording *r, int32_t rank,
                        syn_error *err) SYN_MUST_USE;

/* Appends the nodes of a recorded step, the only rank of `step`, to those of `graph`. */
typedef struct serve_appended {
    const serve_recording *r;
    uint32_t fixed; /* number of tensors that all recorded steps have, such as parameters */
    uint32_t after; /* the last node of the previous step; SYN_NO_NODE: none */
    uint32_t first_token, n_tokens; /* messages with tokens for which the step's first computing
                                       node waits */
    uint32_t step;
    syn_phase phase;
} serve_appended;
/* The rank of the set for a rank as placed. */
int32_t serve_rank_of(const serve_recording *r, int32_t placed);
/* Gives a node its step, its phase, and a peer in the set. Collectives run on the stream of
   computation, as in vLLM: the time of a step is the sum of both. */
void serve_number_node(const serve_appended *how, const syn_graph *graph, syn_node *node);
/* Whether a node of a recorded step is not in the set: a view, or a copy of a transferred cache. */
bool serve_is_view(const syn_node *node);
/* A node without dependencies waits for the rank's previous step, from which the step gets its
   tokens. True: sets *dep to that dependency. */
bool serve_follows_step(const serve_appended *how, uint32_t n_deps, syn_dep *dep);
/* The dependency on message i of n_tokens. */
syn_dep serve_token_dep(const serve_appended *how, uint32_t i);
syn_status serve_append_step(syn_graph *graph, const syn_graph *step, const serve_appended *how,
                             syn_error *err) SYN_MUST_USE;
/* The same with one node for each run of computing nodes. A run ends after a node that
   communication depends on, and before a node that depends on communication that no earlier node
   has waited for. */
syn_status serve_append_folded(syn_graph *graph, const syn_graph *step, const serve_appended *how,
                               syn_error *err) SYN_MUST_USE;

/* ---- The set ---- */

typedef struct serve_traces {
    uint64_t ranks, steps, nodes;
    uint64_t chosen;                    /* steps, also those beyond the limit */
    uint64_t transfers, lost_transfers; /* KV caches that the steps send or receive; lost: the step
                                           at the other end is not in the set */
    double ns; /* sum of the times of a unit's steps, of the unit for which it is the longest */
} serve_traces;
/* Writes <prefix>.<rank>.et and <prefix>.comm_group.json. */
syn_status serve_traces_write(serve_traces *out, serve_capture *c, const serve_simulation *sim,
                              const char *prefix, bool fold, syn_error *err) SYN_MUST_USE;

#endif
