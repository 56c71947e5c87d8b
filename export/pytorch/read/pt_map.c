/* Implements the map with open addressing and linear probing. A slot is free if its value is
   SYN__PT_NONE. */
#include <string.h>

#include "export/pytorch/read/pt_map.h"
#include "syntorch/base/memory.h"

#define MIN_SLOTS 64

/* The slot at which the search for a key starts (multiplicative hashing, Knuth 6.4). It depends on
   both halves of the key and of the product, so keys with a power-of-two stride do not collide, and
   neither do keys that differ only in their upper bits. */
static size_t first_slot(const syn__pt_map *map, uint64_t key) {
    const uint64_t product = (key ^ key >> 32) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(product ^ product >> 32) & (map->slots - 1);
}

/* Returns the slot of the key, or the free slot where the key belongs. */
static size_t find_slot(const syn__pt_map *map, uint64_t key) {
    size_t slot = first_slot(map, key);
    while (map->values[slot] != SYN__PT_NONE && map->keys[slot] != key)
        slot = (slot + 1) & (map->slots - 1);
    return slot;
}

static bool grow(syn__pt_map *map) {
    syn__pt_map larger = {.n = map->n, .slots = map->slots != 0 ? map->slots : MIN_SLOTS / 2};
    size_t bytes;
    if (!syn_mul_size(larger.slots, 2, &larger.slots) ||
        !syn_mul_size(larger.slots, sizeof *larger.keys, &bytes))
        return false;
    larger.keys = (uint64_t *)syn_malloc(bytes);
    larger.values = (uint32_t *)syn_malloc(larger.slots * sizeof *larger.values);
    if (larger.keys == NULL || larger.values == NULL) {
        syn__pt_map_free(&larger);
        return false;
    }
    memset(larger.values, 0xFF, larger.slots * sizeof *larger.values);
    for (size_t i = 0; i < map->slots; i++) {
        if (map->values[i] == SYN__PT_NONE) continue;
        const size_t slot = find_slot(&larger, map->keys[i]);
        larger.keys[slot] = map->keys[i];
        larger.values[slot] = map->values[i];
    }
    syn__pt_map_free(map);
    *map = larger;
    return true;
}

uint32_t syn__pt_map_get(const syn__pt_map *map, uint64_t key) {
    return map->slots == 0 ? SYN__PT_NONE : map->values[find_slot(map, key)];
}

uint32_t *syn__pt_map_put(syn__pt_map *map, uint64_t key) {
    if (map->slots == 0 && !grow(map)) return NULL;
    size_t slot = find_slot(map, key);
    if (map->values[slot] != SYN__PT_NONE) return &map->values[slot];
    if (map->n >= map->slots / 3 * 2) {
        if (!grow(map)) return NULL;
        slot = find_slot(map, key);
    }
    map->n++;
    map->keys[slot] = key;
    return &map->values[slot];
}

uint64_t syn__pt_map_probes(const syn__pt_map *map) {
    uint64_t probes = 0;
    for (size_t i = 0; i < map->slots; i++)
        if (map->values[i] != SYN__PT_NONE)
            probes += ((i - first_slot(map, map->keys[i])) & (map->slots - 1)) + 1;
    return probes;
}

void syn__pt_map_free(syn__pt_map *map) {
    syn_free(map->keys);
    syn_free(map->values);
    *map = (syn__pt_map){0};
}
