/* Tables of raw_build.c, which raw_emit.c orders and writes out. "op" is an index into the file's
   list of ops, "tensor" an index into the table of tensors sorted by rank and number. */
#ifndef EXPORT_RAW_BUILD_H
#define EXPORT_RAW_BUILD_H

#include "export/nodelink/raw_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MAX_TABLES 24
#define MAX_ITEMS  ((size_t)1 << 31) /* so that indices, twice the edges and counts fit uint32 */

typedef struct rank_entry {
    int32_t rank;
    uint32_t index;
} rank_entry;

typedef struct id_entry {
    uint64_t number;
    uint32_t rank; /* index */
    uint32_t raw;  /* index in the file's list */
} id_entry;

typedef struct id_table {
    id_entry *at; /* sorted by rank index and number */
    size_t n;
    uint32_t *first; /* per rank index, and the end */
} id_table;

typedef struct slices {
    uint32_t *first; /* per op, and the end */
    uint32_t *at;    /* tensor + 1, by position; 0: nothing there */
} slices;

typedef struct raw_dep {
    uint32_t op, classes;
} raw_dep;

typedef struct build {
    syn__raw *raw;
    int32_t *ranks; /* global numbers in the graph's order */
    rank_entry *by_rank;
    size_t n_ranks;
    id_table ops, tensors;
    slices inputs, outputs;
    uint32_t *producers;  /* per tensor: op or SYN_NO_NODE */
    uint32_t *deps_first; /* per op, and the end */
    raw_dep *deps;
    uint32_t *order;    /* ops, each after what it depends on */
    uint32_t *position; /* per op: its index within its rank */
    void *tables[MAX_TABLES];
    size_t n_tables;
} build;

/* A zeroed table of n elements that lives as long as the build; NULL when memory is out. */
void *syn__build_table(build *b, size_t n, size_t elem_bytes);
syn_status syn__build_no_memory(const build *b);
/* Index of a rank, UINT32_MAX if it is not there. */
uint32_t syn__build_rank_index(const build *b, int32_t rank);
/* Position of an id in its sorted table; the error names the place `at` that refers to it. */
syn_status syn__build_find(const build *b, const syn__raw_ref *ref, size_t at,
                           uint32_t *out) SYN_MUST_USE;
/* Fills order and position; refuses cycles. */
syn_status syn__build_order(build *b) SYN_MUST_USE;
/* Takes the copies out of the ranks that have nodes (and sorts them); shows them in the graph that
   was made of those. */
syn_status syn__build_leave_out_copies(build *b) SYN_MUST_USE;
syn_status syn__build_show_copies(build *b, syn_graph **graph) SYN_MUST_USE;
/* Writes the graph out and verifies it. */
syn_status syn__build_emit(build *b, syn_graph **out) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
