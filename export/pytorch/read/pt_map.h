/* A table from 64-bit keys to indices. */
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

/* The value of a key, or SYN__PT_NONE. */
uint32_t syn__pt_map_get(const syn__pt_map *map, uint64_t key);
/* Where the key's value stands (SYN__PT_NONE in a new one, to be set at once); NULL when memory is
   out. Stable until the next call. */
uint32_t *syn__pt_map_put(syn__pt_map *map, uint64_t key);
/* Slots that finding each of its keys once looks at: a test instrument, for how keys scatter. */
uint64_t syn__pt_map_probes(const syn__pt_map *map);
void syn__pt_map_free(syn__pt_map *map);

#ifdef __cplusplus
}
#endif
#endif
