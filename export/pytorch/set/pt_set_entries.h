/* What the steps of a set's agreement share: its communications, across ranks. */
#ifndef EXPORT_PT_SET_ENTRIES_H
#define EXPORT_PT_SET_ENTRIES_H

#include "export/pytorch/rank/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A communication that others may take part in. */
typedef struct syn__pt_entry {
    uint32_t rank, comm; /* indices */
    uint32_t key;        /* of the group in the whole set; SYN__PT_NONE */
    uint32_t row;        /* what it was matched with has the same; SYN__PT_NONE */
    uint32_t at;         /* its place among those of its rank */
    bool message, receives;
    int32_t from, to, tag; /* messages: global ranks, the program's tag; else 0 */
} syn__pt_entry;

typedef struct syn__pt_set {
    syn__pt_rank *ranks;
    size_t n_ranks;
    syn_pytorch_note *notes;
    syn_error *err;
    int32_t *number;       /* per rank: which it is */
    syn__pt_map by_number; /* global rank to index */
    size_t *first;         /* per rank: where its groups begin in key */
    size_t n_groups;       /* of all ranks */
    uint32_t *key;         /* per group of each rank: the group in the whole set */
    bool *outside;         /* ... its list of ranks does not hold the rank */
    syn_intern keys;       /* names with ranks */
    uint32_t n_ids;
    syn__pt_entry *entries; /* collectives, then messages */
    size_t n_entries, entries_cap;
    uint32_t n_rows;
} syn__pt_set;

/* Makes the ranks' groups agree, numbers them (pt_set_groups.c). */
syn_status syn__pt_set_groups(syn__pt_set *set) SYN_MUST_USE;
/* Where ranks differ in which group of all ranks they know, collectives whose group is not known
   get one of them; after matching. */
syn_status syn__pt_set_world(syn__pt_set *set) SYN_MUST_USE;
/* Whether others may be in it. */
static inline bool syn__pt_set_is_shared(const syn__pt_group *group) {
    return group->n_ranks != 1 && group->size != 1;
}
/* Where dependencies closed cycles and were dropped, those between a group's collectives anew, in
   the order that the rank was given. */
syn_status syn__pt_set_chain(syn__pt_rank *rank, syn_error *err) SYN_MUST_USE;
void syn__pt_set_note(const syn__pt_set *set, syn_pytorch_anomaly kind, const syn__pt_entry *entry);
/* Matches the first n entries, the collectives of several ranks. */
syn_status syn__pt_match_collectives(syn__pt_set *set, size_t n) SYN_MUST_USE;
/* Matches the entries from `first` on, the messages, and tags them. */
void syn__pt_match_messages(syn__pt_set *set, size_t first);
/* Takes out communications in which ranks would wait for each other for ever (pt_set_check.c). */
syn_status syn__pt_set_check(syn__pt_set *set) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
