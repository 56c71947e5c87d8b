/* The storages of a context: the buffers of its tensors, and a pool of free buffers by size class,
   so that a steady step allocates nothing on the device. If an allocation fails, the pool is
   returned to the device and the allocation is tried again, so the pool never costs a program
   memory that it needs.
   All bookkeeping is here and none in the buffers. On meta it is the same without buffers, which
   predicts the bytes in use. Private to the context's files. */
#ifndef SYNTORCH_STORAGE_PRIVATE_H
#define SYNTORCH_STORAGE_PRIVATE_H

#include "syntorch/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Size classes: 16 per power of two from 256 bytes, so at most 1/16 of a buffer is unused. */
enum { SYN__MIN_SHIFT = 8, SYN__STEPS = 16, SYN__CLASSES = (64 - SYN__MIN_SHIFT) * SYN__STEPS };

/* A buffer, used by a tensor or free in the pool. Numbers count from 1. */
typedef struct syn_storage {
    void *data;       /* NULL on meta */
    uint32_t tensor;  /* owner; 0: free in the pool */
    uint32_t version; /* the latest tensor that was written in it; at first the owner */
    /* Neighbours by age among storages that are not released. `older` is also the link of the
       pool's lists and of `vacant`. */
    uint32_t older, newer;
    uint32_t next;            /* next in the same hash bucket */
    uint32_t pins, under_way; /* by syn_pin; by operations in flight that use it */
    uint32_t kept;            /* uses by gradients and by tape entries (saved for backward) */
    uint32_t leaf;  /* of a tensor that requires a gradient: index + 1 in the context's leaves */
    uint32_t grads; /* gradients that are in this storage */
    uint16_t size_class;
    bool released; /* released while still in use; freed with the last use */
} syn_storage;

typedef struct syn_storages {
    const syn_backend *backend;
    void *device;    /* the backend's state */
    syn_storage *at; /* by number; entry 0 is unused */
    size_t count, cap;
    uint32_t *buckets; /* hash table by owner: first storage of each bucket */
    size_t n_buckets;  /* a power of two */
    /* The newest storage that is not released; the others follow through `older`. */
    uint32_t newest;
    /* The pool: first free buffer of each size class. */
    uint32_t waiting[SYN__CLASSES];
    uint32_t vacant;               /* list of entries whose buffer was returned to the device */
    size_t used_bytes, peak_bytes; /* in use now; peak */
    size_t held_bytes;             /* in use or in the pool */
    uint64_t visits;               /* storages that syn_release visited: its cost, for tests */
} syn_storages;

/* Allocates a storage with undefined contents. tensor: its owner, newer than any with a storage. */
syn_status syn__storage_new(syn_storages *s, uint32_t tensor, size_t bytes,
                            syn_error *err) SYN_MUST_USE;
/* The number of the storage that a tensor owns; 0: none, or freed. */
static inline uint32_t syn__storage_of(const syn_storages *s, uint32_t tensor) {
    uint32_t at = s->n_buckets ? s->buckets[tensor & (s->n_buckets - 1)] : 0;
    while (at && s->at[at].tensor != tensor) at = s->at[at].next;
    return at;
}
/* Returns the buffer to the pool: now, or when nothing pins, keeps or uses it any more. */
void syn__storage_release(syn_storages *s, uint32_t number);
/* Removes a pin. */
void syn__storage_unpin(syn_storages *s, uint32_t number);
/* Keeps the storage for a tape entry or a gradient. */
static inline void syn__storage_keep(syn_storages *s, uint32_t number) {
    s->at[number].kept++;
}
/* Undoes one syn__storage_keep. */
void syn__storage_unkeep(syn_storages *s, uint32_t number);
/* An operation in flight no longer uses the storage. */
void syn__storage_op_done(syn_storages *s, uint32_t number);
/* Returns all free buffers to the device; the caller must have synced it. False if there were
   none. */
bool syn__storages_trim(syn_storages *s);
/* Fails with an out-of-memory sentence; devices with memory of their own add how much is free. */
syn_status syn__storages_out_of_memory(const syn_storages *s, size_t bytes, const char *what,
                                       syn_error *err) SYN_MUST_USE;
/* Frees all buffers, even those in use. */
void syn__storages_free(syn_storages *s);

#ifdef __cplusplus
}
#endif
#endif
