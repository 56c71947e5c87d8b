/* Finds ranks that are identical to an earlier rank. Tensor parallelism produces many of them: such
   ranks differ only in their shards, which appear in at most one attribute of an op. Large files
   store an identical rank as a reference to the earlier rank, together with the differences. */
#ifndef EXPORT_COPIES_H
#define EXPORT_COPIES_H

#include "export/walk/graph_walk.h"

#ifdef __cplusplus
extern "C" {
#endif

struct syn_copied_ranks {
    uint32_t *of;        /* per rank index: the index of the rank that it equals, or its own
                            index */
    uint32_t *n_changed; /* per rank index: number of ops whose attributes differ from that
                            rank's */
    uint32_t n;          /* number of identical ranks; 0: the arrays are NULL */
    bool borrowed;       /* the arrays belong to options->known_copies */
};

/* Finds the identical ranks. Two ranks are identical if their nodes agree in everything except the
   attributes of a few nodes, and their tensors agree in everything except the shard index
   (syn__copies_shard). Ranks that send or receive are never identical, because their peers differ.
   The caller frees *out in all cases. */
syn_status syn__copies_find(syn_copied_ranks *out, const syn_graph *graph,
                            const syn_export_options *options, syn_error *err) SYN_MUST_USE;
void syn__copies_free(syn_copied_ranks *copies);

static inline bool syn__is_copy(const syn_copied_ranks *copies, uint32_t rank_index) {
    return copies != NULL && copies->n > 0 && copies->of[rank_index] != rank_index;
}
/* Returns the index of the shard of rank `copy` that corresponds to `shard` of rank `of`. Searches
   for a group with as many ranks as there are shards, in which the position of `of` is the index of
   `shard`. The result is the position of `copy` in that group; -1 if there is no such group. */
int syn__copies_shard(const syn_graph *graph, int32_t of, int32_t copy, const syn_shard *shard);
/* Whether two nodes have the same attributes. */
bool syn__copies_same_attributes(const syn_node *a, const syn_node *b);

#ifdef __cplusplus
}
#endif
#endif
