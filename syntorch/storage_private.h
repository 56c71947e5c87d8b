/* Internal. The storages of a context: the buffers of its tensors, and a pool of free buffers by
   size class. Because of the pool, a step that repeats an earlier step allocates nothing on the
   device. If an allocation fails, the pool is returned to the device and the allocation is tried
   again, so the pool does not cause out-of-memory errors.
   All bookkeeping is in these structs and none in the buffers. On meta it works in the same way,
   without buffers, and so predicts the bytes in use. */
#ifndef SYNTORCH_STORAGE_PRIVATE_H
#define SYNTORCH_STORAGE_PRIVATE_H

#include "syntorch/backend.h"
#include "syntorch/caching_allocator.h"
#include "syntorch/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* There are 16 size classes per power of two, beginning at 256 bytes, so that at most 1/16 of any
   larger buffer is unused. */
enum { SYN__MIN_SHIFT = 8, SYN__STEPS = 16, SYN__CLASSES = (64 - SYN__MIN_SHIFT) * SYN__STEPS };

/* A buffer, which a tensor owns or which is free in the pool. Storages are numbered from 1. */
typedef struct syn_storage {
    void *data;       /* NULL on meta */
    uint32_t tensor;  /* number of the owner; 0: free in the pool */
    uint32_t version; /* number of the last tensor that was written to it; at first the owner */
    /* The next older and newer of the storages that are not released. In the lists of the pool and
       of vacant entries, `older` is the next entry. */
    uint32_t older, newer;
    uint32_t next;            /* next in the same hash bucket */
    uint32_t pins, in_flight; /* number of calls of syn_pin that were not undone; number of
                                 operations in flight that use it */
    uint32_t kept;            /* number of gradients in it, plus number of tape entries for which it
                                 is saved */
    uint32_t leaf;            /* index + 1 in the context's leaves; 0: its tensor is no leaf */
    uint32_t grads;           /* number of gradients in it */
    uint32_t block;           /* in syn_storages.caching; 0: none */
    size_t bytes;             /* that were asked for; the buffer may be larger */
    uint16_t size_class;
    uint8_t kind;  /* syn_memory_kind */
    bool released; /* released while still in use; the last use frees it */
    bool managed;  /* its tensor is a parameter that is not always whole (syn_ctx_on_use) */
    bool evicted;  /* it has no buffer now */
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
    uint32_t vacant;               /* first entry whose buffer was returned to the device */
    size_t used_bytes, peak_bytes; /* bytes of storages in use: now, and the peak */
    size_t used_by[SYN_MEMORY_KINDS], peak_by[SYN_MEMORY_KINDS]; /* these bytes by kind */
    size_t held_bytes;                                           /* bytes in use or in the pool */
    syn__caching *caching; /* NULL: not simulated (syn_ctx_count_reserved) */
    uint64_t visits;       /* for tests of the cost of syn_release: number of storages that
                              it visited */
} syn_storages;

/* Allocates a storage with undefined contents. tensor: number of its owner, higher than that of any
   tensor with a storage. */
syn_status syn__storage_new(syn_storages *s, uint32_t tensor, size_t bytes,
                            syn_error *err) SYN_MUST_USE;
/* Sets the kind of a storage in use, which at first is SYN_MEMORY_OTHER. */
void syn__storage_set_kind(syn_storages *s, uint32_t number, syn_memory_kind kind);
/* The number of the storage that a tensor owns; 0 if it owns none or the storage was freed. */
static inline uint32_t syn__storage_of(const syn_storages *s, uint32_t tensor) {
    uint32_t at = s->n_buckets ? s->buckets[tensor & (s->n_buckets - 1)] : 0;
    while (at && s->at[at].tensor != tensor) at = s->at[at].next;
    return at;
}
/* Releases a storage. Its buffer returns to the pool immediately or, if the storage is pinned,
   saved or in use by an operation, when the last such use ends. */
void syn__storage_release(syn_storages *s, uint32_t number);
/* Returns the buffer of a storage to the pool, but keeps the storage. The storage must not be in
   use by an operation in flight. */
syn_status syn__storage_evict(syn_storages *s, uint32_t number, syn_error *err) SYN_MUST_USE;
/* Gives an evicted storage a buffer again, with undefined contents. */
syn_status syn__storage_restore(syn_storages *s, uint32_t number, syn_error *err) SYN_MUST_USE;
/* Undoes one syn_pin. */
void syn__storage_unpin(syn_storages *s, uint32_t number);
/* Keeps the storage allocated for a tape entry or a gradient. */
static inline void syn__storage_keep(syn_storages *s, uint32_t number) {
    s->at[number].kept++;
}
/* Undoes one syn__storage_keep. */
void syn__storage_unkeep(syn_storages *s, uint32_t number);
/* Called when an operation that was in flight no longer uses the storage. */
void syn__storage_op_done(syn_storages *s, uint32_t number);
/* Returns all buffers in the pool to the device, which the caller must have synced. Returns false
   if there were none. */
bool syn__storages_trim(syn_storages *s);
/* Fails because `bytes` bytes for `what` could not be allocated. If the device has memory of its
   own, the error message says how much of it is free. */
syn_status syn__storages_out_of_memory(const syn_storages *s, size_t bytes, const char *what,
                                       syn_error *err) SYN_MUST_USE;
/* Frees all buffers, even those in use. */
void syn__storages_free(syn_storages *s);

#ifdef __cplusplus
}
#endif
#endif
