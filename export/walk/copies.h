/* Finds ranks that are identical to an earlier rank. Tensor, data and pipeline parallelism produce
   many of them: such ranks differ only in the names of their groups and peers, in their shards, and
   in some attributes. Large files store an identical rank as a reference to the earlier rank,
   together with the differences. */
#ifndef EXPORT_COPIES_H
#define EXPORT_COPIES_H

#include "export/walk/graph_walk.h"
#include "export/walk/renaming.h"

#ifdef __cplusplus
extern "C" {
#endif

struct syn_copied_ranks {
    uint32_t *of;             /* per rank index: the index of the rank that it equals, or its own
                                 index */
    uint32_t *n_changed;      /* per rank index: number of ops whose attributes differ from that
                                 rank's */
    uint32_t *n_shards;       /* per rank index: number of tensors whose shard is another one than
                                 syn__shard_places_get returns */
    syn__renaming *renamings; /* per rank index: names that differ from that rank's */
    uint32_t n_ranks;         /* length of the arrays */
    uint32_t n;               /* number of identical ranks; 0: the arrays are NULL */
    bool borrowed;            /* the arrays belong to options->known_copies */
};

/* Finds the identical ranks. Two ranks are identical if their nodes agree in everything except
   names (renaming.h) and the attributes of at most half of the nodes, and their tensors agree in
   everything except the index of the shard. Names must correspond one to one. Identical ranks also
   have the same times as the rank that they equal, even if timelines omit them (rank_kinds.h). The
   caller frees *out in all cases. */
syn_status syn__copies_find(syn_copied_ranks *out, const syn_graph *graph,
                            const syn_export_options *options, syn_error *err) SYN_MUST_USE;
void syn__copies_free(syn_copied_ranks *copies);

static inline bool syn__is_copy(const syn_copied_ranks *copies, uint32_t rank_index) {
    return copies != NULL && copies->n > 0 && copies->of[rank_index] != rank_index;
}
/* Whether two nodes have the same attributes. */
bool syn__copies_same_attributes(const syn_node *a, const syn_node *b);

#ifdef __cplusplus
}
#endif
#endif
