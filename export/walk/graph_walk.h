/* Helpers shared by the text writers: they select the ranks to write, and make small tables of one
   rank. The tables map the indices in a node to ids, producers and colours, so that other nodes
   need not be read again. */
#ifndef EXPORT_GRAPH_WALK_H
#define EXPORT_GRAPH_WALK_H

#include "export/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets [*first, *end) to the rank indices that the options select. Fails if the graph does not have
   the rank in the options. */
syn_status syn__walk_ranks(const syn_graph *graph, const syn_export_options *options,
                           uint32_t *first, uint32_t *end, syn_error *err) SYN_MUST_USE;

/* Whether the node exchanges data with other ranks; such nodes are drawn red. */
bool syn__walk_is_comm(const syn_node *node);

/* A tensor of a node, and its position among the node's inputs or outputs. */
typedef struct syn__use {
    uint32_t tensor, position;
} syn__use;

/* Tables of one rank: 9 bytes per node and 4 bytes per tensor. Writers can stream everything
   else. */
typedef struct syn__walk {
    const syn_graph *graph;
    uint32_t rank_index; /* the selected rank; UINT32_MAX before the first one was selected */
    int32_t rank;        /* global rank */
    uint64_t *ids;       /* per node */
    uint8_t *comm;       /* per node: result of syn__walk_is_comm */
    uint32_t *producers; /* per tensor */
    syn_cursor node_cursor, tensor_cursor;
    /* scratch memory of the functions below */
    syn__use *uses;
    uint32_t *sources;
    size_t uses_cap, sources_cap;
} syn__walk;

void syn__walk_init(syn__walk *walk, const syn_graph *graph);
void syn__walk_free(syn__walk *walk);
/* Selects a rank and fills its tables, unless they are loaded already. */
syn_status syn__walk_load(syn__walk *walk, uint32_t rank_index, syn_error *err) SYN_MUST_USE;
/* Selects a rank without filling the tables, for writers that only read nodes. */
void syn__walk_select(syn__walk *walk, uint32_t rank_index);
/* Reads a node or tensor of the selected rank. *out is valid until the next call of the same
   function. */
syn_status syn__walk_node(syn__walk *walk, uint32_t index, const syn_node **out,
                          syn_error *err) SYN_MUST_USE;
syn_status syn__walk_tensor(syn__walk *walk, uint32_t index, const syn_graph_tensor **out,
                            syn_error *err) SYN_MUST_USE;

/* Fills walk->uses[0 .. n - 1] with (tensor, position), sorted so that repeated uses of a tensor
   are adjacent. */
syn_status syn__walk_uses(syn__walk *walk, const uint32_t *tensors, uint32_t n,
                          syn_error *err) SYN_MUST_USE;

/* Calls `edge` for each node that `node` depends on, in ascending order. `classes` has a bit 1 <<
   class for each class of the dependency, except DATA if an input of `node` already shows it. If no
   class remains, `edge` is not called. */
typedef void syn__dep_fn(void *arg, uint32_t from, uint32_t classes);
syn_status syn__walk_deps(syn__walk *walk, const syn_node *node, syn__dep_fn *edge, void *arg,
                          syn_error *err) SYN_MUST_USE;
/* Whether the trace was recorded by PyTorch (`syntorch convert pytorch`). In such traces the names
   of nodes are complete, and streams and threads have PyTorch's numbers. */
bool syn__walk_is_foreign(const syn_graph *graph);
/* Whether the node of a PyTorch trace is a user annotation, such as record_function: PyTorch's
   RecordScope::USER_SCOPE. */
bool syn__walk_is_range(const syn_node *node);
/* Whether the node is a user annotation and does not communicate. In the part of the annotation
   that no op covers, the program ran code between ops, or waited for a collective that began after
   the annotation. */
bool syn__walk_is_idle_range(const syn_node *node);
/* The step number that the program itself prints for `step`, where `last` is the trace's last step.
   Programs such as training count their own steps. */
int64_t syn__walk_step_number(const syn_graph *graph, uint32_t step, uint32_t last);
/* The length of "h.3" in "h.3.attn": the start of a scope up to its first numeric segment. 0 if it
   has none. */
size_t syn__walk_layer_prefix(const char *scope);
/* The number in that segment: 3 for "h.3.attn"; -1 if there is none. */
int32_t syn__walk_layer(const char *scope);
/* Writes the id "r0.o12" (kind 'o': op) or "r0.t7" (kind 't': tensor), without quotes. */
void syn__walk_put_ref(syn_sink *sink, int32_t rank, char kind, uint64_t number);
/* Writes "[2,8,64]". */
void syn__walk_put_shape(syn_sink *sink, const syn_spec *spec);
/* Writes class bits as "control|stream". */
void syn__walk_put_classes(syn_sink *sink, uint32_t classes);
/* Writes "param", "input|state", ...; "activation" if no flag is set. */
void syn__walk_put_role(syn_sink *sink, uint32_t tensor_flags);

#ifdef __cplusplus
}
#endif
#endif
