/* A backend stores tensor data and runs kernels on it. To add a device, fill in this struct; the
   core needs nothing else. */
#ifndef SYNTORCH_BACKEND_H
#define SYNTORCH_BACKEND_H

#include "syntorch/op.h"

SYN_API_BEGIN

typedef enum syn_device { SYN_DEVICE_CPU, SYN_DEVICE_META, SYN_DEVICE_CUDA } syn_device;

/* Properties of a device; "" or 0 where the backend does not report them. */
typedef struct syn_device_info {
    char name[128];          /* "NVIDIA H100 PCIe" */
    int32_t multiprocessors; /* streaming multiprocessors of a GPU */
    int32_t devices;         /* devices of this kind that the process sees, including this one */
} syn_device_info;

struct syn_ctx;

enum {
    SYN_ASYNC_READ_VALUES = 4, /* values per asynchronous read */
    SYN_ASYNC_READS = 4        /* asynchronous reads in flight per context */
};

/* `device` is the state that open returned. The work of a context (copies, fills, kernels) runs in
   the order in which it was queued. It may run after the call returns; sync waits for all of it. */
typedef struct syn_backend {
    const char *name;
    bool has_data; /* false ("meta"): memory is only counted, no kernel runs, and all members below
                      are NULL */
    bool on_host;  /* the host can read and write buffers in place */
    /* Creates a context's state on the device, never NULL: a stream, staging memory. close is
       called after a sync and after the last free. */
    syn_status (*open)(void **device, struct syn_ctx *ctx, syn_error *err);
    void (*close)(void *device);
    /* Allocates a buffer aligned to a cache line, contents undefined; NULL if memory is out. Views
       point into it (data + bytes). The core dereferences no pointer of a backend that is not
       on_host. Contexts reuse buffers in the order of the work; free is called after a sync. */
    void *(*alloc)(void *device, size_t bytes);
    void (*free)(void *device, void *data);
    /* Copies from and to host memory. `from` of copy_in may be reused on return; `to` of copy_out
       is complete after the next sync. */
    syn_status (*copy_in)(void *device, void *to, const void *from, size_t bytes, syn_error *err);
    syn_status (*copy_out)(void *device, void *to, const void *from, size_t bytes, syn_error *err);
    syn_status (*fill)(void *device, void *to, int byte, size_t bytes, syn_error *err);
    /* Waits for all work. Returns the first failure since the last sync. */
    syn_status (*sync)(void *device, syn_error *err);
    /* Asynchronous devices only, otherwise NULL: ask queues a read of n f32 scalars as read number
       `which`; get waits for that read and the work queued before it, and fails as sync does. */
    syn_status (*ask)(void *device, int which, const void *const *from, int n, syn_error *err);
    syn_status (*get)(void *device, int which, float *out, int n, syn_error *err);
    /* The op's kernel, which gets `device` in its call. NULL: the backend cannot run the op. Not
       called for views. */
    syn_kernel (*kernel)(const syn_opdef *def);
    /* Called before and after the kernel of node number `node`. The backend reports the node's
       times to syn_ctx_set_time: in `end`, or on an asynchronous device by the end of the next
       sync. */
    void (*begin)(void *device, uint32_t node);
    void (*end)(void *device, uint32_t node);
    /* Collectives and messages between buffers that the communicator cannot access; NULL if
       on_host. start runs call->exchange, as the op's kernel filled it in, concurrently with work
       that is queued later. wait makes work that is queued after it run after the operation, and
       frees the request. Times are reported as for kernels. */
    syn_status (*start)(void *device, syn_call *call, uint32_t node, void **request,
                        syn_error *err);
    syn_status (*wait)(void *device, void *request, syn_error *err);
    /* A new step begins (syn_next_step), often with the same ops as the one before. May be NULL. */
    void (*step)(void *device);
    /* Turns reports to syn_ctx_add_work on or off. NULL: the backend makes none. */
    void (*record_work)(void *device, bool keep);
    /* Devices with memory of their own only, otherwise NULL. A description for people ("NVIDIA H100
       PCIe, 79.2 GiB, compute capability 9.0"); free and total memory in bytes. */
    void (*describe)(void *device, char *text, size_t bytes);
    syn_status (*room)(void *device, size_t *free_bytes, size_t *all_bytes, syn_error *err);
    /* A description for programs; may be NULL. */
    void (*facts)(void *device, syn_device_info *out);
} syn_backend;

/* *out lives as long as the process. CUDA's backend is a module (backend_module.h) that is loaded
   on first use; if that fails, the error says what is missing. */
syn_status syn_backend_get(syn_device device, const syn_backend **out, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
