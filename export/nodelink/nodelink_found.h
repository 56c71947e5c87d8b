/* The content of a node-link file as the reader finds it, in file order and with unresolved ids,
   and the function that converts this content to a syn_graph. Reading and converting are separate
   because a file may list its sections, nodes and edges in any order. */
#ifndef EXPORT_NODELINK_FOUND_H
#define EXPORT_NODELINK_FOUND_H

#include "export/export.h"
#include "export/text/arena.h"
#include "export/walk/renaming.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A reference to a node: "r0.o12" (kind 'o') or "r0.t7" (kind 't'); kind 0: absent. Kind 'g'
   ("g1.3" or "end") refers to a node that exporters derive from the other nodes; such nodes and
   their edges are not stored. */
typedef struct syn__found_ref {
    uint64_t number;
    int32_t rank;
    char kind;
} syn__found_ref;

typedef struct syn__found_op {
    syn_node node;  /* strings and attributes are in the arena; inputs, outputs and deps are not set
                       yet */
    uint64_t order; /* position in the rank's program order: "program_order" or, if it is absent,
                       the number in the id */
    int32_t rank;
    size_t at; /* byte offset in the file, for error messages; the same in the structs below */
} syn__found_op;

typedef struct syn__found_tensor {
    syn_graph_tensor tensor; /* producer and base are not set */
    syn__found_ref producer, base;
    uint64_t number;
    int32_t rank;
    size_t at;
} syn__found_tensor;

#define SYN__EDGE_INPUT  (1u << 30) /* kind of an edge; a dependency has bits 1 << class */
#define SYN__EDGE_OUTPUT (1u << 31)

typedef struct syn__found_edge {
    syn__found_ref from, to;
    uint32_t kind;
    uint32_t position; /* position among the inputs or outputs */
    size_t at;
} syn__found_edge;

typedef struct syn__found_group {
    syn_graph_group group; /* in the arena */
    size_t at;
} syn__found_group;

/* An op of an identical rank, with attributes that differ from those of the original's op. */
typedef struct syn__found_change {
    syn__found_ref id;
    const syn_attribute *attributes; /* in the arena */
    uint32_t n_attributes;
    size_t at;
} syn__found_change;

/* A tensor whose shard in an identical rank does not follow from the groups. */
typedef struct syn__found_shard {
    uint64_t tensor; /* its number */
    int32_t index;
} syn__found_shard;

/* A rank that is identical to rank `of` except for names, shards, and the attributes of some
   ops. */
typedef struct syn__found_copy {
    int32_t rank, of;
    size_t first_change, n_changes;
    size_t first_name, n_names;
    size_t first_shard, n_shards;
    size_t at;
} syn__found_copy;

typedef struct syn__found {
    const char *name, *data; /* name and content of the file */
    size_t bytes;
    syn_error *err;
    syn__arena arena; /* owns strings, attributes and lists of ranks */
    syn__found_op *ops;
    syn__found_tensor *tensors;
    syn__found_edge *edges;
    syn__found_group *groups;
    syn_attribute *metadata;
    int32_t *ranks; /* the file's "ranks"; if there are none, the ranks of the nodes are used */
    syn__found_copy *copies;
    syn__found_change *changes;
    syn__renamed *names;
    syn__found_shard *shards;
    size_t n_ops, n_tensors, n_edges, n_groups, n_metadata, n_ranks, n_copies, n_changes, n_names,
        n_shards;
    size_t ops_cap, tensors_cap, edges_cap, groups_cap, metadata_cap, ranks_cap, copies_cap,
        changes_cap, names_cap, shards_cap;
    int64_t world_size; /* -1: not in the file */
    bool has_order;     /* at least one op has "program_order" */
} syn__found;

void syn__found_free(syn__found *found);
/* Fails with "name:line:column: ...", which is the position of byte `at` in the file. */
syn_status syn__found_fail(syn__found *found, size_t at, const char *fmt, ...) SYN_PRINTF(3, 4);
/* Resolves ids, checks the content, and sorts the nodes. The caller frees the graph. */
syn_status syn__found_to_graph(syn__found *found, syn_graph **out) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
