/* Kinds of ranks: which ranks of a graph may do the same under other names (renaming.h). A rank's
   names are its groups, peers and tags. They are numbered in the order in which its nodes first use
   them, so that the numbers do not depend on the names. */
#ifndef EXPORT_RANK_KINDS_H
#define EXPORT_RANK_KINDS_H

#include "export/walk/renaming.h"
#include "syntorch/base/intern.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__rank_names {
    const syn_graph *graph;
    syn_intern table; /* all names of the graph */
    syn_intern links; /* lists of ranks of the groups */
    uint32_t *names; /* names of each rank as ids of `table`, rank after rank, in the order of first
                        use */
    size_t n_names, names_cap;
    size_t *first;  /* per rank index: its first entry of names; one more element for the end */
    uint64_t *hash; /* per rank index: equal for ranks that differ only in names, attributes and
                       shards */
    /* private: per entry of `table`, the last rank that used it, and its number on that rank */
    struct syn__name_use *uses;
    size_t uses_cap;
} syn__rank_names;

/* Reads the names of all ranks. The caller frees *out in all cases. */
syn_status syn__rank_names_read(syn__rank_names *out, const syn_graph *graph,
                                syn_error *err) SYN_MUST_USE;
void syn__rank_names_free(syn__rank_names *names);

/* Adds the groups, peers and tags in which rank index b differs from rank index a to *out. *same is
   false if the names do not correspond one to one. */
syn_status syn__rank_names_compare(const syn__rank_names *names, uint32_t a, uint32_t b,
                                   syn__renaming *out, bool *same, syn_error *err) SYN_MUST_USE;

/* Divides kinds until all ranks of one kind have the same times if only the first rank of each kind
   is simulated. of: per rank index, the first rank of its kind; ranks of one kind do the same under
   other names.

   - Ranks remain in one kind only if their groups and messages join them with ranks of the same
     kinds.
   - The first ranks of all kinds must communicate with each other. If they do not, as in a ring of
     equal ranks, ranks remain in one kind only if they have the same names and no messages. */
syn_status syn__rank_kinds_divide(const syn__rank_names *names, uint32_t *of,
                                  syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
