/* Pending nodes of the simulation; see timeline_pending.h. */
#include "export/walk/timeline_pending.h"

#include "syntorch/base/memory.h"

#define NONE SYN__NO_PENDING

typedef struct syn__wait {
    uint32_t who; /* entry that waits */
    uint32_t next;
} wait;

void syn__pendings_init(syn__pendings *p) {
    *p = (syn__pendings){.ready = NONE, .free_entry = NONE, .free_wait = NONE};
}

void syn__pendings_free(syn__pendings *p) {
    syn_free(p->at);
    syn_free(p->waits);
    syn__pendings_init(p);
}

syn_status syn__pendings_add(syn__pendings *p, uint32_t index, uint32_t node, uint32_t before,
                             uint32_t *out, syn_error *err) {
    if (p->free_entry != NONE) {
        *out = p->free_entry;
        p->free_entry = p->at[*out].next_entry;
    } else {
        SYN_TRY(syn_grow(&p->at, &p->cap, p->n + 1, sizeof *p->at, err));
        *out = (uint32_t)p->n++;
    }
    p->at[*out] = (syn__pending){.index = index,
                                 .node = node,
                                 .before = before,
                                 .waits = NONE,
                                 .next_entry = NONE,
                                 .message = SYN__NO_MESSAGE};
    return SYN_OK;
}

syn_status syn__pendings_wait(syn__pendings *p, uint32_t who, uint32_t on, syn_error *err) {
    uint32_t w = p->free_wait;
    if (w != NONE) {
        p->free_wait = p->waits[w].next;
    } else {
        SYN_TRY(syn_grow(&p->waits, &p->waits_cap, p->n_waits + 1, sizeof *p->waits, err));
        w = (uint32_t)p->n_waits++;
    }
    p->waits[w] = (wait){who, p->at[on].waits};
    p->at[on].waits = w;
    p->at[who].n_open++;
    return SYN_OK;
}

void syn__pendings_close(syn__pendings *p, uint32_t who) {
    if (--p->at[who].n_open > 0) return;
    p->at[who].next_entry = p->ready;
    p->ready = who;
}

void syn__pendings_end(syn__pendings *p, uint32_t who) {
    for (uint32_t w = p->at[who].waits, next; w != NONE; w = next) {
        next = p->waits[w].next;
        p->waits[w].next = p->free_wait;
        p->free_wait = w;
        syn__pendings_close(p, p->waits[w].who);
    }
    p->at[who] = (syn__pending){.index = NONE, .next_entry = p->free_entry};
    p->free_entry = who;
}
