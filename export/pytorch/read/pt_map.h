/* A hash map from 64-bit keys to indices. */
#ifndef EXPORT_PT_MAP_H
#define EXPORT_PT_MAP_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__PT_NONE UINT32_MAX /* no index */

typedef struct syn__pt_map {
    uint64_t *keys;
    uint32_t *values; /* SYN__PT_NONE: the slot is free */
    size_t n, slots;  /* slots: a power of two */
} syn__pt_map;

/* The value of a key; SYN__PT_NONE if it is not in the map. */
uint32_t syn__pt_map_get(const syn__pt_map *map, uint64_t key);
/* The address of the key's value; of a new key it is SYN__PT_NONE, and the caller must set it. NULL
   if memory is out. Valid until the next call. */
uint32_t *syn__pt_map_put(syn__pt_map *map, uint64_t key);
/* The number of slots examined when each key is looked up once; for tests of the hash function. */
uint64_t syn__pt_map_probes(const syn__pt_map *map);
void syn__pt_map_free(syn__pt_map *map);

#ifdef __cplusplus
}
#endif
#endif
