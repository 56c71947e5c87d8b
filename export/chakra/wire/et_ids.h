/* Maps the ids of a file's nodes to node indices. It is a hash table with open addressing that
   reads the ids from the caller's nodes. */
#ifndef EXPORT_ET_IDS_H
#define EXPORT_ET_IDS_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__et_ids {
    const char *first; /* address of the first node's id; the next node's id is stride_bytes
                          further */
    size_t stride_bytes;
    uint32_t *slots; /* node + 1; 0: free */
    size_t mask;
} syn__et_ids;

/* Creates an empty table for up to n nodes. Fails only with SYN_E_NOMEM. */
syn_status syn__et_ids_open(syn__et_ids *ids, const uint64_t *first, size_t stride_bytes, size_t n,
                            syn_error *err) SYN_MUST_USE;
void syn__et_ids_close(syn__et_ids *ids);
/* Returns false and changes nothing if another node already has this id. */
bool syn__et_ids_add(syn__et_ids *ids, uint32_t node);
/* The node of an id; UINT32_MAX if there is none. */
uint32_t syn__et_ids_find(const syn__et_ids *ids, uint64_t id);

#ifdef __cplusplus
}
#endif
#endif
