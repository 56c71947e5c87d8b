/* A backend stores the tensor data of one kind of device and runs kernels on this data. To add a
   device, fill in a syn_backend; the rest of the core does not change. */
#ifndef SYNTORCH_BACKEND_H
#define SYNTORCH_BACKEND_H

#include "syntorch/op.h"

SYN_API_BEGIN

typedef enum syn_device { SYN_DEVICE_CPU, SYN_DEVICE_META, SYN_DEVICE_CUDA } syn_device;

/* Properties of a device. A property that the backend does not report is "" or 0. */
typedef struct syn_device_info {
    char name[128];          /* "NVIDIA H100 PCIe" */
    int32_t multiprocessors; /* streaming multiprocessors of a GPU */
    int32_t devices;         /* number of devices of this kind that the process sees, including this
                                one */
} syn_device_info;

struct syn_ctx;

enum {
    SYN_ASYNC_READ_VALUES = 4, /* maximum values per asynchronous read */
    SYN_ASYNC_READS = 4        /* maximum asynchronous reads in flight per context */
};

/* In all functions, `device` is the state that `open` created for a context. The functions queue
   work (copies, fills, kernels). Work runs in the order in which it was queued, possibly after the
   function has returned. sync waits until all work is done. */
typedef struct syn_backend {
    const char *name;
    bool has_data; /* false ("meta"): memory is only counted, no kernel runs, and all functions are
                      NULL */
    bool on_host;  /* whether the host can read and write buffers in place */
    /* open creates a context's state on the device, such as a stream and staging memory. *device
       must not be NULL. close frees the state; it is called after a sync and after the last
       free. */
    syn_status (*open)(void **device, struct syn_ctx *ctx, syn_error *err);
    void (*close)(void *device);
    /* alloc returns a buffer that is aligned to a cache line and has undefined contents, or NULL if
       memory is out. Views are addresses within a buffer (start + offset in bytes). Unless on_host
       is true, the core does not dereference these pointers. A context may reuse a buffer without a
       sync, because work runs in order. free is called only after a sync. */
    void *(*alloc)(void *device, size_t bytes);
    void (*free)(void *device, void *data);
    /* Copy from and to host memory. When copy_in returns, the caller may overwrite `from`. After
       copy_out, `to` is complete only after the next sync. */
    syn_status (*copy_in)(void *device, void *to, const void *from, size_t bytes, syn_error *err);
    syn_status (*copy_out)(void *device, void *to, const void *from, size_t bytes, syn_error *err);
    syn_status (*fill)(void *device, void *to, int byte, size_t bytes, syn_error *err);
    /* Waits for all queued work. Returns the first failure since the last sync. */
    syn_status (*sync)(void *device, syn_error *err);
    /* NULL unless the device is asynchronous. ask queues a read of the n f32 scalars at the
       addresses `from`; `which` (0 .. SYN_ASYNC_READS - 1) identifies the read. get waits for that
       read and the work that was queued before it, and fails as sync does. */
    syn_status (*ask)(void *device, int which, const void *const *from, int n, syn_error *err);
    syn_status (*get)(void *device, int which, float *out, int n, syn_error *err);
    /* Returns the op's kernel, or NULL if the backend cannot run the op. The kernel finds `device`
       in its syn_call. Not called for views. */
    syn_kernel (*kernel)(const syn_opdef *def);
    /* Called before and after the kernel of node number `node`. The backend passes the node's times
       to syn_ctx_set_time: in `end`, or, on an asynchronous device, at the latest in the next
       sync. */
    void (*begin)(void *device, uint32_t node);
    void (*end)(void *device, uint32_t node);
    /* Run collectives and messages whose buffers the communicator cannot access; NULL if on_host is
       true. start begins the operation that the op's kernel described in call->comm_call; it runs
       concurrently with work that is queued later. wait frees the request. Work that is queued
       after wait begins when the operation is done. The backend reports times as for kernels. */
    syn_status (*start)(void *device, syn_call *call, uint32_t node, void **request,
                        syn_error *err);
    syn_status (*wait)(void *device, void *request, syn_error *err);
    /* Implements syn_ctx_connect. NULL: there is nothing to prepare. */
    syn_status (*connect)(void *device, const syn_group *group, syn_error *err);
    /* Called by syn_next_step when a new step begins. A step often has the same ops as the step
       before. May be NULL. */
    void (*step)(void *device);
    /* Turns calls of syn_ctx_add_work on or off. NULL: the backend never calls it. */
    void (*record_work)(void *device, bool keep);
    /* NULL unless the device has memory of its own. describe writes a description for people, such
       as "NVIDIA H100 PCIe, 79.2 GiB, compute capability 9.0". memory_info returns free and total
       memory in bytes. */
    void (*describe)(void *device, char *text, size_t bytes);
    syn_status (*memory_info)(void *device, size_t *free_bytes, size_t *all_bytes, syn_error *err);
    /* Fills in *out, which describes the device for programs. May be NULL. */
    void (*device_info)(void *device, syn_device_info *out);
} syn_backend;

/* Finds the backend of a device; *out lives as long as the process. The CUDA backend is a module
   (backend_module.h) that is loaded on first use. If loading fails, the error names what is
   missing. */
syn_status syn_backend_get(syn_device device, const syn_backend **out, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
