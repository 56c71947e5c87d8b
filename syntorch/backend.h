/* Where tensor data live. On a backend without data ("meta") the door runs no kernel. */
#ifndef SYNTORCH_BACKEND_H
#define SYNTORCH_BACKEND_H

#include "syntorch/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn_device { SYN_DEVICE_CPU, SYN_DEVICE_META } syn_device;

typedef struct syn_backend {
    const char *name;
    bool has_data; /* false: memory is counted as elsewhere, but there is none; nothing below */
    /* A buffer of `bytes` bytes, contents undefined; NULL when memory is out. The context keeps
       what it no longer needs for reuse (storage_private.h). */
    void *(*alloc)(size_t bytes);
    void (*free)(void *data);
    /* The op's kernel for this backend; NULL for views. */
    syn_status (*(*kernel)(const syn_opdef *def))(syn_call *call);
    /* Wall and thread-CPU time in ns. */
    void (*clock)(uint64_t *wall_ns, uint64_t *cpu_ns);
} syn_backend;

const syn_backend *syn_backend_get(syn_device device);

#ifdef __cplusplus
}
#endif
#endif
