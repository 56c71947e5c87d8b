/* Inside of the agreement of a set's ranks (pt_set.c, pt_set_match.c). */
#ifndef EXPORT_PT_SET_H
#define EXPORT_PT_SET_H

#include "export/pt_rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A communication that others may take part in. */
typedef struct syn__pt_entry {
    uint32_t rank, comm, op; /* indices */
    uint32_t key;            /* of the group in the whole set; SYN__PT_NONE */
    int64_t at;              /* when, against others of its rank */
    bool message, receives;
    int32_t from, to, tag; /* messages: global ranks, the program's tag; else 0 */
} syn__pt_entry;

typedef struct syn__pt_set {
    syn__pt_rank *ranks;
    size_t n_ranks;
    syn__pt_report *report;
    syn_error *err;
    int32_t *number;       /* per rank: which it is */
    syn__pt_map by_number; /* global rank to index */
    size_t *first;         /* per rank: where its groups begin in key */
    size_t n_groups;       /* of all ranks */
    uint32_t *key;         /* per group of each rank: the group in the whole set */
    syn_intern keys;       /* names with ranks */
    uint32_t n_ids;
    syn__pt_entry *entries; /* collectives, then messages */
    size_t n_entries, entries_cap;
} syn__pt_set;

void syn__pt_set_note(const syn__pt_set *set, syn__pt_anomaly kind, const syn__pt_entry *entry);
/* Matches the first n entries, the collectives of several ranks. */
syn_status syn__pt_match_collectives(syn__pt_set *set, size_t n) SYN_MUST_USE;
/* Matches the entries from `first` on, the messages, and tags them. */
void syn__pt_match_messages(syn__pt_set *set, size_t first);

#ifdef __cplusplus
}
#endif
#endif
