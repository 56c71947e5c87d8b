/* Shared by the steps that make a set agree: its communication, across ranks. */
#ifndef EXPORT_PT_SET_ENTRIES_H
#define EXPORT_PT_SET_ENTRIES_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A communication in which other ranks may take part. */
typedef struct syn__pt_entry {
    uint32_t rank, comm; /* indices */
    uint32_t key;        /* index of its group in the whole set; SYN__PT_NONE: none */
    uint32_t row;        /* equal for matched communications; SYN__PT_NONE: not matched */
    uint32_t at;         /* its position among the entries of its rank */
    bool message, receives;
    int32_t from, to, tag; /* messages: global ranks and the program's tag; otherwise 0 */
} syn__pt_entry;

typedef struct syn__pt_set {
    syn__pt_rank *ranks;
    size_t n_ranks;
    syn_pytorch_note *notes;
    syn_error *err;
    int32_t *number;       /* per rank: its global rank */
    syn__pt_map by_number; /* global rank -> index */
    size_t *first;         /* per rank: index in `key` of its first group */
    size_t n_groups;       /* of all ranks together */
    uint32_t *key;         /* per group of each rank: the group in the whole set */
    bool *outside;         /* and whether its list of ranks lacks the rank */
    syn_intern keys;       /* names with ranks */
    uint32_t n_ids;
    syn__pt_entry *entries; /* collectives, then messages */
    size_t n_entries, entries_cap;
    uint32_t n_rows;
} syn__pt_set;

/* Makes the groups of the ranks agree and assigns their ids (pt_set_groups.c). */
syn_status syn__pt_set_groups(syn__pt_set *set) SYN_MUST_USE;
/* Assigns a group to collectives whose group is unknown, where ranks differ in the group of all
   ranks that they know. Call it after matching. */
syn_status syn__pt_set_world(syn__pt_set *set) SYN_MUST_USE;
/* Whether other ranks may be in the group. */
static inline bool syn__pt_set_is_shared(const syn__pt_group *group) {
    return group->n_ranks != 1 && group->size != 1;
}
/* If dependencies were dropped because they closed cycles, rebuilds those between the collectives
   of a group, in the order that the rank was given. */
syn_status syn__pt_set_chain(syn__pt_rank *rank, syn_error *err) SYN_MUST_USE;
void syn__pt_set_note(const syn__pt_set *set, syn_pytorch_anomaly kind, const syn__pt_entry *entry);
/* Matches the first n entries, which are the collectives of several ranks. */
syn_status syn__pt_match_collectives(syn__pt_set *set, size_t n) SYN_MUST_USE;
/* Matches the messages, which are the entries from `first`, and assigns their tags. */
void syn__pt_match_messages(syn__pt_set *set, size_t first);
/* Removes communication in which ranks would wait for each other forever (pt_set_check.c). */
syn_status syn__pt_set_check(syn__pt_set *set) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
