/* The state that the steps of pt_set.c share: the communication of all ranks of a trace set. */
#ifndef EXPORT_PT_SET_ENTRIES_H
#define EXPORT_PT_SET_ENTRIES_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A communication in which other ranks may take part. */
typedef struct syn__pt_entry {
    uint32_t rank, comm; /* indices of the rank in the set, and of the communication in the rank */
    uint32_t key;        /* number of its group in the whole set; SYN__PT_NONE: none */
    uint32_t row;        /* equal for matched communications; SYN__PT_NONE: not matched */
    uint32_t at;         /* its position among the entries of its rank, in launch order */
    bool message, receives;
    int32_t from, to, tag; /* messages: global ranks of sender and receiver, and the program's tag;
                              otherwise 0 */
} syn__pt_entry;

typedef struct syn__pt_set {
    syn__pt_rank *ranks;
    size_t n_ranks;
    syn_pytorch_note *notes;
    syn_error *err;
    int32_t *number;       /* per rank: its global rank */
    syn__pt_map by_number; /* global rank -> index into ranks */
    size_t *first;         /* per rank: index in `key` of its first group */
    size_t n_groups;       /* number of groups of all ranks together */
    uint32_t *key;         /* per group of each rank: its number in the whole set */
    bool *outside;         /* per group of each rank: whether its list of members lacks the rank */
    syn_intern keys;       /* the different groups of the set, as names with lists of ranks */
    uint32_t n_ids;
    syn__pt_entry *entries; /* first the collectives, then the messages */
    size_t n_entries, entries_cap;
    uint32_t n_rows;
} syn__pt_set;

/* Makes the groups of the ranks agree and assigns their ids (pt_set_groups.c). */
syn_status syn__pt_set_groups(syn__pt_set *set) SYN_MUST_USE;
/* Assigns a group to collectives whose group is unknown. This matters if the ranks know different
   groups of all ranks. Call it after matching. */
syn_status syn__pt_set_world(syn__pt_set *set) SYN_MUST_USE;
/* Whether the group may contain other ranks. */
static inline bool syn__pt_set_is_shared(const syn__pt_group *group) {
    return group->n_ranks != 1 && group->size != 1;
}
/* If dependencies were dropped because they closed cycles, adds dependencies between the
   collectives of each group again, in the order that the rank got from syn__pt_order. */
syn_status syn__pt_set_chain(syn__pt_rank *rank, syn_error *err) SYN_MUST_USE;
void syn__pt_set_note(const syn__pt_set *set, syn_pytorch_anomaly kind, const syn__pt_entry *entry);
/* Matches the first n entries, which are the collectives of all ranks. */
syn_status syn__pt_match_collectives(syn__pt_set *set, size_t n) SYN_MUST_USE;
/* Matches the messages, which are the entries from index `first`, and assigns their tags. */
void syn__pt_match_messages(syn__pt_set *set, size_t first);
/* Removes communication in which ranks would wait for each other forever (pt_set_check.c). */
syn_status syn__pt_set_check(syn__pt_set *set) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
