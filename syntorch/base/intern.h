/* Interned byte strings: a table stores equal strings once, under one id. Ids count from 0 in order
   of first use. The address of an entry is valid only until the next insertion. */
#ifndef SYNTORCH_INTERN_H
#define SYNTORCH_INTERN_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

typedef struct syn_intern {
    char *bytes; /* all entries, each aligned to 8 bytes and followed by a NUL */
    size_t n_bytes, bytes_cap;
    struct syn_intern_entry {
        uint64_t offset;
        uint32_t bytes, hash;
    } * entries;
    size_t n_entries, entries_cap;
    uint32_t *slots; /* hash table with open addressing; each slot holds id + 1, or 0 if empty */
    size_t n_slots;  /* a power of two */
} syn_intern;

/* Sets *id to the id of `data`. Adds a copy of `data` if it is new. `data` may point into an
   entry. */
syn_status syn_intern_put(syn_intern *table, const void *data, size_t bytes, uint32_t *id,
                          syn_error *err) SYN_MUST_USE;
/* The contents of an entry, and its length. */
const void *syn_intern_get(const syn_intern *table, uint32_t id);
size_t syn_intern_entry_bytes(const syn_intern *table, uint32_t id);
/* Hash of the contents, the same on every machine. */
uint32_t syn_intern_hash(const syn_intern *table, uint32_t id);
/* Removes the entries for which keep[id] is 0, and sets keep[id] of each remaining entry to its new
   id. The remaining entries keep their order. Does not free memory. */
void syn_intern_sweep(syn_intern *table, uint32_t *keep);
/* Bytes allocated. */
size_t syn_intern_memory_bytes(const syn_intern *table);
void syn_intern_free(syn_intern *table);

/* 64-bit hash, the same on every machine. To hash data in pieces, pass the previous result as
   `seed`. */
uint64_t syn_hash(const void *data, size_t bytes, uint64_t seed);

SYN_API_END
#endif
