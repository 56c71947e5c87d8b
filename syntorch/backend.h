/* Where tensor data live, and whose kernels compute on them. A device is added by filling this
   struct; the core asks nothing else of it. */
#ifndef SYNTORCH_BACKEND_H
#define SYNTORCH_BACKEND_H

#include "syntorch/op.h"

SYN_API_BEGIN

typedef enum syn_device { SYN_DEVICE_CPU, SYN_DEVICE_META, SYN_DEVICE_CUDA } syn_device;

/* What a device is, as far as its backend tells: else "" and 0. */
typedef struct syn_device_facts {
    char name[128];          /* "NVIDIA H100 PCIe" */
    int32_t multiprocessors; /* that share a kernel's blocks */
    int32_t devices;         /* of its kind that this process sees, itself among them */
} syn_device_facts;

struct syn_ctx;

enum {
    SYN_ASKED_NUMBERS = 4, /* of one reading */
    SYN_ASKED_MOST = 4     /* readings of a context under way */
};

/* `device`: what open made. The work of a context (copies, fills, kernels) is done in the order in
   which it was asked for, but may go on after the call; sync waits for all of it. */
typedef struct syn_backend {
    const char *name;
    bool has_data; /* false ("meta"): memory is counted, but there is none, no kernel runs, and all
                      below is NULL */
    bool on_host;  /* the host may read and write buffers where they lie */
    /* What one context has of the device, never NULL: a stream, memory for staging. close comes
       after a sync and the last free. */
    syn_status (*open)(void **device, struct syn_ctx *ctx, syn_error *err);
    void (*close)(void *device);
    /* A buffer on a cache line, contents undefined; NULL when memory is out. Views point into it
       (data + bytes), and the core follows no pointer of a backend that is not on_host. Contexts
       keep and reuse buffers, in the order of the work; free comes after a sync. */
    void *(*alloc)(void *device, size_t bytes);
    void (*free)(void *device, void *data);
    /* copy_in has read `from` when it returns; copy_out has written `to` after the next sync. */
    syn_status (*copy_in)(void *device, void *to, const void *from, size_t bytes, syn_error *err);
    syn_status (*copy_out)(void *device, void *to, const void *from, size_t bytes, syn_error *err);
    syn_status (*fill)(void *device, void *to, int byte, size_t bytes, syn_error *err);
    /* Fails with what failed since the last sync. */
    syn_status (*sync)(void *device, syn_error *err);
    /* Where work goes on after calls, else NULL: begins to read n numbers of f32 as reading number
       `which`, and waits for those of a reading, and what was asked for before them, alone; fails
       as sync does. */
    syn_status (*ask)(void *device, int which, const void *const *from, int n, syn_error *err);
    syn_status (*get)(void *device, int which, float *out, int n, syn_error *err);
    /* The op's kernel, given `device` in its call; NULL: it does not run here. Not
       asked for views. */
    syn_kernel (*kernel)(const syn_opdef *def);
    /* Around the kernel of the node of that number, whose times the backend gives to
       syn_ctx_set_time: in `end`, or where work goes on after the call by the end of
       the next sync. */
    void (*begin)(void *device, uint32_t node);
    void (*end)(void *device, uint32_t node);
    /* Exchanges with other ranks, between buffers that the communicator cannot reach; NULL where
       on_host. start is given what the op's kernel described (call->exchange), after that kernel;
       it goes on beside what is asked for then. wait: what is asked for from then on comes after
       it, and the request ends. Its times are given as those of kernels. */
    syn_status (*start)(void *device, syn_call *call, uint32_t node, void **request,
                        syn_error *err);
    syn_status (*wait)(void *device, void *request, syn_error *err);
    /* The next step begins (syn_next_step), which may ask for the same as the one before; NULL: it
       is no matter. */
    void (*step)(void *device);
    /* Whether to tell syn_ctx_add_work of each node from now on; NULL: it never does. */
    void (*keep_work)(void *device, bool keep);
    /* Of a device with memory of its own, else NULL. What it is, for people ("NVIDIA H100
       PCIe, 79.2 GiB, compute capability 9.0"); how many bytes of it are free, and how many there
       are. */
    void (*describe)(void *device, char *text, size_t bytes);
    syn_status (*room)(void *device, size_t *free_bytes, size_t *all_bytes, syn_error *err);
    /* The same for programs; NULL: it does not tell. */
    void (*facts)(void *device, syn_device_facts *out);
} syn_backend;

/* *out stays as long as the process. CUDA's is in a module (backend_module.h), loaded when it is
   first asked for: fails with what is missing. */
syn_status syn_backend_get(syn_device device, const syn_backend **out, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
