/* A hash map from streams to numbers; see streams.h. */
#include "export/walk/streams.h"

#include "syntorch/base/memory.h"

#include <string.h>

#define FIRST_SLOTS 16

enum { FREE, STREAM, SEND, RECV, GROUP, LINKS }; /* values of syn__stream_key.kind */

typedef struct syn__stream_slot {
    syn__stream_key key;
    uint32_t number;
} slot;

syn__stream_key syn__stream_of(const syn_node *node) {
    if ((node->flags & SYN_NODE_BLOCKING) != 0) return (syn__stream_key){STREAM, 0, 0};
    if (node->kind == SYN_NODE_SEND) return (syn__stream_key){SEND, (uint32_t)node->peer, 0};
    if (node->kind == SYN_NODE_RECV)
        return (syn__stream_key){RECV, (uint32_t)node->peer, node->tag};
    return (syn__stream_key){STREAM, (uint32_t)node->stream, 0};
}

syn__stream_key syn__stream_of_group(uint32_t group_id) {
    return (syn__stream_key){GROUP, group_id, 0};
}

syn__stream_key syn__stream_of_links(uint32_t id) {
    return (syn__stream_key){LINKS, id, 0};
}

/* Returns the slot of the key or, if the key is not in the table, the free slot for it. */
static slot *find(const syn__streams *s, syn__stream_key key) {
    uint64_t hash = ((uint64_t)key.kind << 32 | key.number) * 0x9E3779B97F4A7C15u;
    hash = (hash ^ (uint32_t)key.tag) * 0x9E3779B97F4A7C15u;
    for (size_t i = hash >> 32;; i++) {
        slot *at = &s->slots[i & (s->cap - 1)];
        const bool same =
            at->key.kind == key.kind && at->key.number == key.number && at->key.tag == key.tag;
        if (same || at->key.kind == FREE) return at;
    }
}

static syn_status grow(syn__streams *s, syn_error *err) {
    const syn__streams old = *s;
    s->cap = old.cap == 0 ? FIRST_SLOTS : 2 * old.cap;
    s->slots = syn_calloc(s->cap, sizeof *s->slots);
    if (s->slots == NULL) {
        *s = old;
        return SYN_FAIL_NOMEM(err, 2 * old.cap * sizeof *s->slots, "the streams of a rank");
    }
    for (size_t i = 0; i < old.cap; i++)
        if (old.slots[i].key.kind != FREE) *find(s, old.slots[i].key) = old.slots[i];
    syn_free(old.slots);
    return SYN_OK;
}

syn_status syn__streams_at(syn__streams *s, syn__stream_key key, uint32_t **out, syn_error *err) {
    if (2 * (s->n + 1) > s->cap) SYN_TRY(grow(s, err));
    slot *at = find(s, key);
    if (at->key.kind == FREE) {
        *at = (slot){.key = key};
        s->n++;
    }
    *out = &at->number;
    return SYN_OK;
}

void syn__streams_clear(syn__streams *s) {
    if (s->cap > 0) memset(s->slots, 0, s->cap * sizeof *s->slots);
    s->n = 0;
}

void syn__streams_free(syn__streams *s) {
    syn_free(s->slots);
    *s = (syn__streams){0};
}
