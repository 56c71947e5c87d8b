/* The storages of a context: what lies behind its tensors, pinned or to be released, and a pool by
   size class, so that a steady step asks the device for nothing. What waits in the pool goes back
   to the device when memory is out, so that what a program needs at once is all that it needs. All
   bookkeeping is here, none in the buffers; where tensors have no data it is the same without
   buffers, so that bytes in use are predicted. For context.c, tensor*.c, parameter.c and dispatch.c
   only. */
#ifndef SYNTORCH_STORAGE_PRIVATE_H
#define SYNTORCH_STORAGE_PRIVATE_H

#include "syntorch/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Size classes: 16 per power of two from 256 bytes, so at most a sixteenth of a buffer is slack. */
enum { SYN__MIN_SHIFT = 8, SYN__STEPS = 16, SYN__CLASSES = (64 - SYN__MIN_SHIFT) * SYN__STEPS };

/* A buffer, in use by a tensor or waiting for the next of its size. Numbers count from 1. */
typedef struct syn_storage {
    void *data;               /* NULL where tensors have no data */
    uint32_t tensor;          /* that owns it; 0: waiting for reuse */
    uint32_t version;         /* newest tensor that was written over it; at first its owner */
    uint32_t older, newer;    /* by tensor, among those not released; waiting, or without a buffer:
                                 older is the next one */
    uint32_t next;            /* of the same bucket */
    uint32_t pins, under_way; /* the users', and exchanges that need it */
    uint32_t kept;            /* by what syn_backward will need, and by gradients */
    uint32_t leaf;  /* what requires a gradient lies here: its index + 1 in the context's leaves */
    uint32_t grads; /* gradients of a backward pass that lie here */
    uint16_t size_class;
    bool released; /* though pinned or under way: goes with the last of both */
} syn_storage;

typedef struct syn_storages {
    const syn_backend *backend;
    void *device; /* the backend's */
    syn_storage *at;
    size_t count, cap;
    uint32_t *buckets; /* by tensor: where its storage is found */
    size_t n_buckets;  /* a power of two */
    uint32_t newest;
    uint32_t waiting[SYN__CLASSES];
    uint32_t vacant;               /* those whose buffer went back */
    size_t used_bytes, peak_bytes; /* in use now; most ever in use */
    size_t held_bytes;             /* in use or waiting */
    uint64_t visits;               /* storages that syn_release looked at: what it costs */
} syn_storages;

/* Contents undefined. tensor: newer than any that has a storage. */
syn_status syn__storage_new(syn_storages *s, uint32_t tensor, size_t bytes,
                            syn_error *err) SYN_MUST_USE;
/* Number of the storage that the tensor owns; 0: none, or no longer. */
static inline uint32_t syn__storage_of(const syn_storages *s, uint32_t tensor) {
    uint32_t at = s->n_buckets ? s->buckets[tensor & (s->n_buckets - 1)] : 0;
    while (at && s->at[at].tensor != tensor) at = s->at[at].next;
    return at;
}
/* The buffer goes back to the pool: now, or when the last of pins, keeps and exchanges is gone. */
void syn__storage_release(syn_storages *s, uint32_t number);
void syn__storage_unpin(syn_storages *s, uint32_t number);
static inline void syn__storage_keep(syn_storages *s, uint32_t number) {
    s->at[number].kept++;
}
void syn__storage_unkeep(syn_storages *s, uint32_t number);
void syn__storage_arrived(syn_storages *s, uint32_t number); /* an exchange is done with it */
/* Gives the buffers that wait back to the device, of which nothing that was asked for needs one;
   false: there were none. */
bool syn__storages_give_back(syn_storages *s);
/* Fails: out of memory, with what a device of its own has left. */
syn_status syn__storages_no_room(const syn_storages *s, size_t bytes, const char *what,
                                 syn_error *err) SYN_MUST_USE;
/* All buffers, whatever holds them. */
void syn__storages_free(syn_storages *s);

#ifdef __cplusplus
}
#endif
#endif
