/* The nodes that a simulation has reached but that cannot end yet. Records what each of them waits
   for, and which of them can run next. */
#ifndef EXPORT_TIMELINE_PENDING_H
#define EXPORT_TIMELINE_PENDING_H

#include "syntorch/base/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__NO_PENDING UINT32_MAX
#define SYN__NO_MESSAGE SIZE_MAX

typedef struct syn__pending {
    uint32_t index, node; /* position of the rank in the timeline (SYN__NO_PENDING: the entry is
                             free), and index of the node */
    uint32_t before;      /* index of the previous node on its stream, plus one; 0: none */
    uint32_t shared;      /* the same for the previous collective on links that it shares */
    uint32_t n_open;      /* number of events it waits for */
    uint32_t waits;       /* private */
    uint32_t next_entry;  /* index of the next entry in the list that contains this entry */
    size_t message;       /* the message that it waits for, or SYN__NO_MESSAGE */
    double arrived;       /* time of arrival at its collective, ns */
} syn__pending;

/* Entries are identified by their index, which is valid until syn__pendings_end. */
typedef struct syn__pendings {
    syn__pending *at;
    size_t n, cap;
    uint32_t ready; /* first entry of the list of entries that no longer wait for anything */
    /* private */
    struct syn__wait *waits;
    size_t n_waits, waits_cap;
    uint32_t free_entry, free_wait;
} syn__pendings;

void syn__pendings_init(syn__pendings *p);
void syn__pendings_free(syn__pendings *p);
/* Adds an entry that waits for nothing yet and is in no list. */
syn_status syn__pendings_add(syn__pendings *p, uint32_t index, uint32_t node, uint32_t before,
                             uint32_t *out, syn_error *err) SYN_MUST_USE;
/* Makes entry `who` wait for the end of entry `on`. */
syn_status syn__pendings_wait(syn__pendings *p, uint32_t who, uint32_t on,
                              syn_error *err) SYN_MUST_USE;
/* Records that one of the events that the entry waits for has occurred. After the last of these
   events the entry is ready. */
void syn__pendings_close(syn__pendings *p, uint32_t who);
/* Records that the node of the entry has ended: frees the entry, and calls syn__pendings_close for
   each entry that waits for it. */
void syn__pendings_end(syn__pendings *p, uint32_t who);

#ifdef __cplusplus
}
#endif
#endif
