/* Where tensor data live. A backend without alloc ("meta") has no data at all: the door then runs
 * no kernel. */
#ifndef SYNTORCH_BACKEND_H
#define SYNTORCH_BACKEND_H

#include "syntorch/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn_device { SYN_DEVICE_CPU, SYN_DEVICE_META } syn_device;

typedef struct syn_pool syn_pool;

typedef struct syn_backend {
    const char *name;
    /* A buffer of at least `bytes` bytes from the pool, contents undefined; back into it. NULL: no
     * data. */
    void *(*alloc)(syn_pool *pool, size_t bytes);
    void (*release)(syn_pool *pool, void *data, size_t bytes);
    /* The op's kernel for this backend; NULL for views. */
    syn_status (*(*kernel)(const syn_opdef *def))(syn_call *call);
    /* Wall and thread-CPU time in ns. */
    void (*clock)(uint64_t *wall_ns, uint64_t *cpu_ns);
} syn_backend;

const syn_backend *syn_backend_get(syn_device device);

/* Buffers given back are kept by size class and reused, so that a steady step asks the system for
 * nothing. */
syn_pool *syn_pool_new(void); /* NULL when memory is out */
void *syn_pool_alloc(syn_pool *pool, size_t bytes);
void syn_pool_release(syn_pool *pool, void *data, size_t bytes);
/* Bytes in use now, most ever in use, and held in all (in use or waiting for reuse). */
void syn_pool_stats(const syn_pool *pool, size_t *used_bytes, size_t *peak_bytes,
                    size_t *held_bytes);
void syn_pool_free(
    syn_pool *pool); /* frees what was given back; in-use buffers must be released before */

#ifdef __cplusplus
}
#endif
#endif
