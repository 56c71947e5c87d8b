/* Interned byte strings and the hash function (intern.h). */
#include "syntorch/base/intern.h"

#include <string.h>

#include "syntorch/base/memory.h"

/* Multiply-xorshift mixing with the constants of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). */
static uint64_t mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t syn_hash(const void *data, size_t bytes, uint64_t seed) {
    const unsigned char *p = data;
    uint64_t h = seed ^ ((uint64_t)bytes * 0x9e3779b97f4a7c15u);
    while (bytes >= 8) {
        uint64_t word = 0;
        for (int i = 7; i >= 0; i--) word = word << 8 | p[i]; /* little-endian on every machine */
        h = mix(h ^ word) + 0x9e3779b97f4a7c15u;
        p += 8;
        bytes -= 8;
    }
    uint64_t tail = 0;
    for (size_t i = bytes; i > 0; i--) tail = tail << 8 | p[i - 1];
    return mix(h ^ tail);
}

const void *syn_intern_get(const syn_intern *table, uint32_t id) {
    return table->bytes + table->entries[id].offset;
}

size_t syn_intern_entry_bytes(const syn_intern *table, uint32_t id) {
    return table->entries[id].bytes;
}

uint32_t syn_intern_hash(const syn_intern *table, uint32_t id) {
    return table->entries[id].hash;
}

size_t syn_intern_memory_bytes(const syn_intern *table) {
    return table->bytes_cap + table->entries_cap * sizeof *table->entries +
           table->n_slots * sizeof *table->slots;
}

void syn_intern_free(syn_intern *table) {
    syn_free(table->bytes);
    syn_free(table->entries);
    syn_free(table->slots);
    memset(table, 0, sizeof *table);
}

/* Inserts all entries into the hash table, which must be empty. */
static void fill_slots(syn_intern *table) {
    for (size_t i = 0; i < table->n_entries; i++) {
        size_t at = table->entries[i].hash & (table->n_slots - 1);
        while (table->slots[at]) at = (at + 1) & (table->n_slots - 1);
        table->slots[at] = (uint32_t)i + 1;
    }
}

static syn_status grow_slots(syn_intern *table, syn_error *err) {
    const size_t n = table->n_slots ? table->n_slots * 2 : 64;
    uint32_t *slots = syn_calloc(n, sizeof *slots);
    if (!slots) return SYN_FAIL_NOMEM(err, n * sizeof *slots, "a table of names");
    syn_free(table->slots);
    table->slots = slots;
    table->n_slots = n;
    fill_slots(table);
    return SYN_OK;
}

syn_status syn_intern_put(syn_intern *table, const void *data, size_t bytes, uint32_t *id,
                          syn_error *err) {
    if (table->n_entries * 2 >= table->n_slots) SYN_TRY(grow_slots(table, err));
    const uint32_t hash = (uint32_t)syn_hash(data, bytes, 0);
    size_t at = hash & (table->n_slots - 1);
    for (; table->slots[at]; at = (at + 1) & (table->n_slots - 1)) {
        const struct syn_intern_entry *e = &table->entries[table->slots[at] - 1];
        if (e->hash == hash && e->bytes == bytes &&
            memcmp(table->bytes + e->offset, data, bytes) == 0) {
            *id = table->slots[at] - 1;
            return SYN_OK;
        }
    }
    if (bytes > UINT32_MAX - 16 || table->n_entries >= UINT32_MAX - 1)
        return SYN_FAIL(err, SYN_E_NOMEM, "a table of names is full");
    const size_t padded = (bytes + 8) & ~(size_t)7;
    const uintptr_t inside = (uintptr_t)data - (uintptr_t)table->bytes; /* less than n_bytes if data
                                                                           is in an entry */
    SYN_TRY(syn_grow(&table->bytes, &table->bytes_cap, table->n_bytes + padded, 1, err));
    SYN_TRY(syn_grow(&table->entries, &table->entries_cap, table->n_entries + 1,
                     sizeof *table->entries, err));
    if (inside < table->n_bytes) data = table->bytes + inside; /* the entry has moved */
    memcpy(table->bytes + table->n_bytes, data, bytes);
    memset(table->bytes + table->n_bytes + bytes, 0, padded - bytes);
    table->entries[table->n_entries] =
        (struct syn_intern_entry){table->n_bytes, (uint32_t)bytes, hash};
    table->n_bytes += padded;
    *id = (uint32_t)table->n_entries++;
    table->slots[at] = *id + 1;
    return SYN_OK;
}

void syn_intern_sweep(syn_intern *table, uint32_t *keep) {
    const size_t before = table->n_entries;
    table->n_entries = table->n_bytes = 0;
    for (size_t i = 0; i < before; i++) {
        if (!keep[i]) continue;
        struct syn_intern_entry entry = table->entries[i];
        const size_t padded = ((size_t)entry.bytes + 8) & ~(size_t)7;
        memmove(table->bytes + table->n_bytes, table->bytes + entry.offset, padded);
        entry.offset = table->n_bytes;
        table->n_bytes += padded;
        keep[i] = (uint32_t)table->n_entries;
        table->entries[table->n_entries++] = entry;
    }
    if (table->n_entries == before) return;
    memset(table->slots, 0, table->n_slots * sizeof *table->slots);
    fill_slots(table);
}
