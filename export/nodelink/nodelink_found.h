/* What the node-link reader finds in a file, in file order and with unresolved ids, and the step
   that turns it into a syn_graph. Kept apart because a file may list its sections, nodes and edges
   in any order. */
#ifndef EXPORT_NODELINK_FOUND_H
#define EXPORT_NODELINK_FOUND_H

#include "export/export.h"
#include "export/text/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "r0.o12" (kind 'o') or "r0.t7" (kind 't'); kind 0: absent. Kind 'g', "g1.3" or "end", names a
   node that follows from the others: neither it nor its edges are kept. */
typedef struct syn__found_ref {
    uint64_t number;
    int32_t rank;
    char kind;
} syn__found_ref;

typedef struct syn__found_op {
    syn_node node;  /* texts and attributes in the arena; no inputs, outputs, deps yet */
    uint64_t order; /* program order within the rank: "program_order", else the id's number */
    int32_t rank;
    size_t at; /* byte offset in the file, for error sentences; so everywhere below */
} syn__found_op;

typedef struct syn__found_tensor {
    syn_graph_tensor tensor; /* without producer and base */
    syn__found_ref producer, base;
    uint64_t number;
    int32_t rank;
    size_t at;
} syn__found_tensor;

#define SYN__EDGE_INPUT  (1u << 30) /* other values: bits (1 << dependency class) */
#define SYN__EDGE_OUTPUT (1u << 31)

typedef struct syn__found_edge {
    syn__found_ref from, to;
    uint32_t kind;
    uint32_t position; /* of inputs and outputs */
    size_t at;
} syn__found_edge;

typedef struct syn__found_group {
    syn_graph_group group; /* in the arena */
    size_t at;
} syn__found_group;

/* An op of a copy that has attributes of its own. */
typedef struct syn__found_change {
    syn__found_ref id;
    const syn_attribute *attributes; /* in the arena */
    uint32_t n_attributes;
    size_t at;
} syn__found_change;

/* A rank that is another one but for some ops' attributes. */
typedef struct syn__found_copy {
    int32_t rank, of;
    size_t first_change, n_changes;
    size_t at;
} syn__found_copy;

typedef struct syn__found {
    const char *name, *data; /* of the file */
    size_t bytes;
    syn_error *err;
    syn__arena arena; /* owns texts, attributes and rank lists */
    syn__found_op *ops;
    syn__found_tensor *tensors;
    syn__found_edge *edges;
    syn__found_group *groups;
    syn_attribute *metadata;
    int32_t *ranks; /* "ranks" of the file; empty: to be collected from the nodes */
    syn__found_copy *copies;
    syn__found_change *changes;
    size_t n_ops, n_tensors, n_edges, n_groups, n_metadata, n_ranks, n_copies, n_changes;
    size_t ops_cap, tensors_cap, edges_cap, groups_cap, metadata_cap, ranks_cap, copies_cap,
        changes_cap;
    int64_t world_size; /* -1: not given */
    bool has_order;     /* some op has "program_order" */
} syn__found;

void syn__found_free(syn__found *found);
/* A sentence about the place `at` bytes into the file: "name:line:column: ...". */
syn_status syn__found_fail(syn__found *found, size_t at, const char *fmt, ...) SYN_PRINTF(3, 4);
/* Resolves ids, checks and sorts; the graph is the caller's. */
syn_status syn__found_to_graph(syn__found *found, syn_graph **out) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
