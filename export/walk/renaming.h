/* The renaming of an identical rank (copies.h): which groups, peers, message tags and shards it has
   where the rank that it equals has others. What follows from these names is not a part of a
   renaming: the root of a collective is the rank at the same position of its group, and the stream
   of a message has the number of its peer. */
#ifndef EXPORT_RENAMING_H
#define EXPORT_RENAMING_H

#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn__name_kind {
    SYN__NAME_GROUP, /* id of a group */
    SYN__NAME_PEER,  /* global rank at the other end of a message */
    SYN__NAME_TAG,   /* tag of a message */
    SYN__NAME_SHARD, /* shards of tensors that do not follow from the groups, as
                        syn__shard_name */
    SYN__NAME_KINDS
} syn__name_kind;

typedef struct syn__renamed {
    syn__name_kind kind;
    int64_t from, to;
} syn__renamed;

typedef struct syn__renaming {
    syn__renamed *at; /* names that differ, sorted by kind and `from` */
    size_t n, cap;
} syn__renaming;

/* The name of shard `index` of `count`. */
static inline int64_t syn__shard_name(int32_t index, int32_t count) {
    return (int64_t)count << 32 | index;
}

/* Appends a name; call syn__renaming_sort after the last one. */
syn_status syn__renaming_add(syn__renaming *renaming, syn__renamed name,
                             syn_error *err) SYN_MUST_USE;
void syn__renaming_sort(syn__renaming *renaming);
/* The new name; the name itself if it is not renamed. */
int64_t syn__renaming_get(const syn__renaming *renaming, syn__name_kind kind, int64_t name);
/* The number of entries that name groups, peers and tags; those of shards follow them. */
size_t syn__renaming_nodes(const syn__renaming *renaming);
/* Replaces the names in a node of the graph. */
void syn__rename_node(const syn_graph *graph, const syn__renaming *renaming, syn_node *node);

/* The shards of an identical rank: where the rank that it equals has shard `index` of `count`, the
   identical rank has shard `place`. */
typedef struct syn__shard_place {
    uint32_t count;
    int32_t index, place;
} syn__shard_place;

typedef struct syn__shard_places {
    syn__shard_place *at;
    size_t n, cap;
} syn__shard_places;

/* Finds the places of rank `copy`, which equals rank `of`. They are those of the renaming, and
   follow from the groups that contain `of`: if a group has as many ranks as there are shards, and
   the position of `of` is the index of the shard, the shard of `copy` is its position in the
   renamed group. The caller frees *places in all cases. */
syn_status syn__shard_places_find(syn__shard_places *places, const syn_graph *graph, int32_t of,
                                  int32_t copy, const syn__renaming *renaming,
                                  syn_error *err) SYN_MUST_USE;
/* The index of the shard in the identical rank, by the renaming or else by the first group that
   fits; -1 if none does. */
int32_t syn__shard_places_get(const syn__shard_places *places, const syn_shard *shard);
void syn__shard_places_free(syn__shard_places *places);

#ifdef __cplusplus
}
#endif
#endif
