/* What the text writers share: which ranks to write, and small tables of one rank that turn the
   indices in a node into ids, producers and colours without fetching other nodes again. */
#ifndef EXPORT_GRAPH_WALK_H
#define EXPORT_GRAPH_WALK_H

#include "export/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The half-open range of rank indices that options ask for; an error names a rank that
   the graph lacks. */
syn_status syn__walk_ranks(const syn_graph *graph, const syn_export_options *options,
                           uint32_t *first, uint32_t *end, syn_error *err) SYN_MUST_USE;

/* True for nodes that exchange data with other ranks: drawn red. */
bool syn__walk_is_comm(const syn_node *node);

/* One tensor among a node's inputs or outputs. */
typedef struct syn__use {
    uint32_t tensor, position;
} syn__use;

/* Tables of one rank: 9 bytes a node and 4 a tensor, so that writers can stream the rest. */
typedef struct syn__walk {
    const syn_graph *graph;
    uint32_t rank_index; /* of the tables; UINT32_MAX before a rank is chosen */
    int32_t rank;        /* its global number */
    uint64_t *ids;       /* per node */
    uint8_t *comm;       /* per node: 1 for syn__walk_is_comm */
    uint32_t *producers; /* per tensor */
    syn_cursor node_cursor, tensor_cursor;
    /* scratch of the functions below */
    syn__use *uses;
    uint32_t *sources;
    size_t uses_cap, sources_cap;
} syn__walk;

void syn__walk_init(syn__walk *walk, const syn_graph *graph);
void syn__walk_free(syn__walk *walk);
/* Fills the tables for rank index `rank_index` (kept if it is the loaded one). */
syn_status syn__walk_load(syn__walk *walk, uint32_t rank_index, syn_error *err) SYN_MUST_USE;
/* Chooses a rank without filling the tables, for writers that only look at nodes. */
void syn__walk_select(syn__walk *walk, uint32_t rank_index);
/* The node / tensor of the chosen rank; valid until the next call of the same function. */
syn_status syn__walk_node(syn__walk *walk, uint32_t index, const syn_node **out,
                          syn_error *err) SYN_MUST_USE;
syn_status syn__walk_tensor(syn__walk *walk, uint32_t index, const syn_graph_tensor **out,
                            syn_error *err) SYN_MUST_USE;

/* walk->uses[0..n): (tensor, position) sorted, so that repeats of one tensor lie together. */
syn_status syn__walk_uses(syn__walk *walk, const uint32_t *tensors, uint32_t n,
                          syn_error *err) SYN_MUST_USE;

/* Dependencies of one node on one other, merged: a bit (1 << class) for each class. DATA is left
   out where one of the node's inputs already says it. Calls `edge` once for each other node, in
   ascending order. */
typedef void syn__dep_fn(void *arg, uint32_t from, uint32_t classes);
syn_status syn__walk_deps(syn__walk *walk, const syn_node *node, syn__dep_fn *edge, void *arg,
                          syn_error *err) SYN_MUST_USE;
/* Whether the trace was recorded by PyTorch (`syntorch convert pytorch`): names are whole, streams
   and threads have its numbers. */
bool syn__walk_is_foreign(const syn_graph *graph);
/* Whether the node of such a trace was made by record_function and the like: PyTorch's
   RecordScope::USER_SCOPE. */
bool syn__walk_is_range(const syn_node *node);
/* ... and communicates nothing. Its own time is that of the program between ops, which may wait
   there for a collective that began after the range: no op takes it. */
bool syn__walk_is_idle_range(const syn_node *node);
/* What programs that count their own steps, as training does, call step `step` of a trace whose
   last one is `last`. */
int64_t syn__walk_step_number(const syn_graph *graph, uint32_t step, uint32_t last);
/* Bytes of "h.3" at the start of "h.3.attn" up to its first segment that is a number; 0 if none. */
size_t syn__walk_layer_prefix(const char *scope);
/* The number there, 3; -1 if none. */
int32_t syn__walk_layer(const char *scope);
/* The id "r0.o12" (kind 'o': op) or "r0.t7" ('t': tensor), without quotes. */
void syn__walk_put_ref(syn_sink *sink, int32_t rank, char kind, uint64_t number);
/* "[2,8,64]" */
void syn__walk_put_shape(syn_sink *sink, const syn_spec *spec);
/* "control|stream" for a set of class bits. */
void syn__walk_put_classes(syn_sink *sink, uint32_t classes);
/* "param", "input|state", ...; "activation" for none. */
void syn__walk_put_role(syn_sink *sink, uint32_t tensor_flags);

#ifdef __cplusplus
}
#endif
#endif
