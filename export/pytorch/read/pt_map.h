/* A hash map from 64-bit keys to indices. */
#ifndef EXPORT_PT_MAP_H
#define EXPORT_PT_MAP_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__PT_NONE UINT32_MAX /* the value of a key that is not in a map; elsewhere: no index */

typedef struct syn__pt_map {
    uint64_t *keys;
    uint32_t *values; /* SYN__PT_NONE: the slot is free */
    size_t n, slots;  /* slots: a power of two */
} syn__pt_map;

/* The value of a key; SYN__PT_NONE if it is not in the map. */
uint32_t syn__pt_map_get(const syn__pt_map *map, uint64_t key);
/* Adds the key unless the map has it, and returns the address of its value. A new value is
   SYN__PT_NONE, and the caller must set it. Returns NULL if memory is exhausted. The address is
   valid until the next call. */
uint32_t *syn__pt_map_put(syn__pt_map *map, uint64_t key);
/* The number of slots that are examined if each key is looked up once. It is used by tests of the
   hash function. */
uint64_t syn__pt_map_probes(const syn__pt_map *map);
void syn__pt_map_free(syn__pt_map *map);

#ifdef __cplusplus
}
#endif
#endif
