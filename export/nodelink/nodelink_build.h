/* Tables that nodelink_build.c fills when it resolves the references of a file, and from which
   nodelink_emit.c writes a graph. In this file "op" is an index into the file's list of ops, and
   "tensor" is an index into the table of tensors sorted by rank and number. */
#ifndef EXPORT_NODELINK_BUILD_H
#define EXPORT_NODELINK_BUILD_H

#include "export/nodelink/nodelink_found.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__BUILD_TABLES 28
/* Maximum number of ops, of tensors and of edges, so that indices, counts and twice the number of
   edges fit in 32 bits. */
#define SYN__BUILD_ITEMS ((size_t)1 << 31)

typedef struct syn__build_rank {
    int32_t rank;
    uint32_t index;
} syn__build_rank;

typedef struct syn__build_id {
    uint64_t number;
    uint32_t rank;  /* rank index */
    uint32_t found; /* index into the file's list */
} syn__build_id;

typedef struct syn__build_ids {
    syn__build_id *at; /* sorted by rank index and number */
    size_t n;
    uint32_t *first; /* per rank index: first entry of `at`; the last element is the end */
} syn__build_ids;

typedef struct syn__build_slices {
    uint32_t *first; /* per op: first entry of `at`; the last element is the end */
    uint32_t *at;    /* tensor + 1 at each position of an op; 0: no tensor */
} syn__build_slices;

typedef struct syn__build_dep {
    uint32_t op, classes;
} syn__build_dep;

typedef struct syn__build {
    syn__found *found;
    int32_t *ranks; /* global ranks in the graph's order */
    syn__build_rank *by_rank;
    size_t n_ranks;
    syn__build_ids ops, tensors;
    syn__build_slices inputs, outputs;
    uint32_t *producers;  /* per tensor: op or SYN_NO_NODE */
    uint32_t *deps_first; /* per op: first entry of deps; the last element is the end */
    syn__build_dep *deps;
    uint32_t *order;    /* ops in topological order */
    uint32_t *position; /* per op: its index within its rank */
    void *tables[SYN__BUILD_TABLES];
    size_t n_tables;
} syn__build;

/* Allocates a zeroed table of n elements, which is freed at the end of the build. NULL if memory is
   out. */
void *syn__build_table(syn__build *b, size_t n, size_t elem_bytes);
syn_status syn__build_no_memory(const syn__build *b);
/* The index of a rank; UINT32_MAX if there is none. */
uint32_t syn__build_rank_index(const syn__build *b, int32_t rank);
/* Finds an id in its sorted table. An error names the position `at` in the file, where the
   reference to the id is. */
syn_status syn__build_find(const syn__build *b, const syn__found_ref *ref, size_t at,
                           uint32_t *out) SYN_MUST_USE;
/* Sorts ids by rank index, number and position in the file, unless they are sorted already. */
void syn__build_sort_ids(syn__build_id *ids, size_t n);
/* Fills `order` and `position`. Fails if the dependencies contain a cycle. */
syn_status syn__build_order(syn__build *b) SYN_MUST_USE;
/* Handle ranks that the file stores as references to identical ranks. syn__build_leave_out_copies
   removes them from the list of ranks that have nodes, and sorts the list. syn__build_show_copies
   adds them to the graph that was built from that list. */
syn_status syn__build_leave_out_copies(syn__build *b) SYN_MUST_USE;
syn_status syn__build_show_copies(syn__build *b, syn_graph **graph) SYN_MUST_USE;
/* Writes the graph and verifies it. */
syn_status syn__build_emit(syn__build *b, syn_graph **out) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
