/* Nodes that a simulation has reached and that cannot end yet: what each waits for, and which can
   run next. */
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
    uint32_t index, node; /* place of the rank, SYN__NO_PENDING: a free entry; its node */
    uint32_t before;      /* the node before on its stream, plus one; 0: none */
    uint32_t n_open;      /* how many things it waits for */
    uint32_t waits;       /* private */
    uint32_t also_there;  /* the next entry of the list that this one is in */
    size_t message;       /* that it waits for, or SYN__NO_MESSAGE */
    double arrived;       /* at its collective, ns */
} syn__pending;

/* Entries are named by index, which holds until the entry ends. */
typedef struct syn__pendings {
    syn__pending *at;
    size_t n, cap;
    uint32_t ready; /* the list of entries that wait for nothing any more */
    /* private */
    struct syn__wait *waits;
    size_t n_waits, waits_cap;
    uint32_t free_entry, free_wait;
} syn__pendings;

void syn__pendings_init(syn__pendings *p);
void syn__pendings_free(syn__pendings *p);
/* A new entry, which waits for nothing yet and is in no list. */
syn_status syn__pendings_add(syn__pendings *p, uint32_t index, uint32_t node, uint32_t before,
                             uint32_t *out, syn_error *err) SYN_MUST_USE;
/* Lets entry `who` wait for the end of entry `on`. */
syn_status syn__pendings_wait(syn__pendings *p, uint32_t who, uint32_t on,
                              syn_error *err) SYN_MUST_USE;
/* One thing that the entry waits for has come; the last one makes it ready. */
void syn__pendings_close(syn__pendings *p, uint32_t who);
/* The entry's node has ended: frees the entry and closes it for those that wait for it. */
void syn__pendings_end(syn__pendings *p, uint32_t who);

#ifdef __cplusplus
}
#endif
#endif
