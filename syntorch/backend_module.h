/* The interface of a backend module, a shared object with a backend that is loaded on first use.
   With a module, the same program runs on machines with and without the device, and the library
   does not link the device's libraries. The module links no symbol of the program. It gets the
   functions that it may call in a struct. */
#ifndef SYNTORCH_BACKEND_MODULE_H
#define SYNTORCH_BACKEND_MODULE_H

#include "syntorch/backend.h"

SYN_API_BEGIN

/* The functions that a module may call. */
typedef struct syn_module_host {
    const char *version; /* the program's version; a module of another version refuses to load */
    int32_t (*rank)(const struct syn_ctx *ctx);      /* syn_ctx_rank */
    syn_status (*status)(const struct syn_ctx *ctx); /* syn_ctx_status */
    void (*set_time)(struct syn_ctx *ctx, uint32_t node, uint64_t start_ns, uint64_t wall_ns,
                     uint64_t cpu_ns); /* syn_ctx_set_time */
    void (*add_work)(struct syn_ctx *ctx, const syn_node_work *work, syn_piece *pieces,
                     const char *const *names); /* syn_ctx_add_work */
    /* syn_ctx_add_unowned_work */
    void (*add_unowned)(struct syn_ctx *ctx, const syn_unowned_piece *piece);
    /* Writes the op and the scope of the node with this number: "linear in h.3.attn". */
    void (*describe_node)(const struct syn_ctx *ctx, uint32_t node, char *text, size_t bytes);
    /* For a module whose allocation has failed. trim_pool, called after a sync of the device, frees
       the buffers in the context's pool, and returns false if there were none. out_of_memory
       reports that `bytes` bytes for `what` could not be allocated. */
    bool (*trim_pool)(struct syn_ctx *ctx);
    syn_status (*out_of_memory)(const struct syn_ctx *ctx, size_t bytes, const char *what,
                                syn_error *err);
    syn_comm *(*comm)(const struct syn_ctx *ctx); /* syn_ctx_comm; NULL: a world of one rank */
    /* syn_comm_next_group, syn_comm_send, syn_comm_recv */
    const syn_group *(*next_group)(const syn_comm *comm, uint32_t id);
    syn_status (*send)(syn_comm *comm, const void *in, size_t n_elems, syn_dtype dtype,
                       int32_t peer, int32_t tag, syn_error *err);
    syn_status (*recv)(syn_comm *comm, void *out, size_t n_elems, syn_dtype dtype, int32_t peer,
                       int32_t tag, syn_error *err);
} syn_module_host;

/* The type of the function that a module exports as "syn_backend_module". The function returns the
   backend. If there is no driver or no usable device, it returns NULL with an error message in
   *err. It is called once per process. */
typedef const syn_backend *syn_backend_module_fn(const syn_module_host *host, syn_error *err);
#define SYN_BACKEND_MODULE_NAME "syn_backend_module"

SYN_API_END
#endif
