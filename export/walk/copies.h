/* Ranks that do what an earlier one does. Tensor parallelism makes many: they differ in the shard
   they hold, which shows in an attribute at most. Large files hold such a rank once,
   and what differs. */
#ifndef EXPORT_COPIES_H
#define EXPORT_COPIES_H

#include "export/walk/graph_walk.h"

#ifdef __cplusplus
extern "C" {
#endif

struct syn_copied_ranks {
    uint32_t *of;        /* per rank index: the one that it equals; its own */
    uint32_t *n_changed; /* per rank index: ops with other attributes than there */
    uint32_t n;          /* ranks that are copies; 0: the tables are NULL */
    bool borrowed;       /* the tables are those of options->known_copies */
};

/* Nodes of a copy and of its original agree in everything but the attributes of a few, tensors in
   everything but the number of their shard (syn__copies_shard). None sends or receives, since the
   other end differs between ranks. Free *out in any case. */
syn_status syn__copies_find(syn_copied_ranks *out, const syn_graph *graph,
                            const syn_export_options *options, syn_error *err) SYN_MUST_USE;
void syn__copies_free(syn_copied_ranks *copies);

static inline bool syn__is_copy(const syn_copied_ranks *copies, uint32_t rank_index) {
    return copies != NULL && copies->n > 0 && copies->of[rank_index] != rank_index;
}
/* Which shard rank `copy` has of that of which rank `of` has one: by their places in a group of as
   many ranks as there are shards. -1: there is no such group. */
int syn__copies_shard(const syn_graph *graph, int32_t of, int32_t copy, const syn_shard *shard);
/* Whether two nodes have the same attributes. */
bool syn__copies_same_attributes(const syn_node *a, const syn_node *b);

#ifdef __cplusplus
}
#endif
#endif
