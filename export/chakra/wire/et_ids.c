/* A hash table from node ids to node indices, with linear probing. Ids are read from the
   caller's array; a slot holds index + 1, or 0 if it is free. */
#include "export/chakra/wire/et_ids.h"

#include <string.h>

#include "syntorch/base/memory.h"

syn_status syn__et_ids_open(syn__et_ids *ids, const uint64_t *first, size_t stride_bytes, size_t n,
                            syn_error *err) {
    size_t cap = 16;
    while (cap < n * 2) cap *= 2;
    *ids = (syn__et_ids){(const char *)first, stride_bytes, syn_calloc(cap, sizeof *ids->slots),
                         cap - 1};
    if (ids->slots != NULL) return SYN_OK;
    return SYN_FAIL_NOMEM(err, cap * sizeof *ids->slots, "the ids of an execution trace");
}

void syn__et_ids_close(syn__et_ids *ids) {
    syn_free(ids->slots);
    *ids = (syn__et_ids){0};
}

static uint64_t id_of(const syn__et_ids *ids, uint32_t node) {
    uint64_t id;
    memcpy(&id, ids->first + node * ids->stride_bytes, sizeof id);
    return id;
}

static size_t spread(uint64_t id) {
    id = (id ^ id >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    id = (id ^ id >> 27) * UINT64_C(0x94D049BB133111EB);
    return (size_t)(id ^ id >> 31);
}

/* Returns the slot with the id, or the free slot where it would be inserted. */
static uint32_t *slot_of(const syn__et_ids *ids, uint64_t id) {
    size_t at = spread(id) & ids->mask;
    while (ids->slots[at] != 0 && id_of(ids, ids->slots[at] - 1) != id) at = (at + 1) & ids->mask;
    return &ids->slots[at];
}

bool syn__et_ids_add(syn__et_ids *ids, uint32_t node) {
    uint32_t *slot = slot_of(ids, id_of(ids, node));
    if (*slot != 0) return false;
    *slot = node + 1;
    return true;
}

uint32_t syn__et_ids_find(const syn__et_ids *ids, uint64_t id) {
    return *slot_of(ids, id) - 1; /* UINT32_MAX for a free slot */
}
