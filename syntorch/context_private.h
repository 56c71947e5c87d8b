/* Inside of a context: for context.c, tensor*.c, parameter.c and dispatch.c only. */
#ifndef SYNTORCH_CONTEXT_PRIVATE_H
#define SYNTORCH_CONTEXT_PRIVATE_H

#include "syntorch/context.h"

#define SYN__SCOPE_DEPTH 32

struct syn_ctx {
    syn_device device;
    const syn_backend *backend;
    syn_pool *pool;       /* NULL on meta */
    syn_comm *comm;       /* NULL: alone */
    syn_workers *workers; /* NULL: one thread */
    syn_trace *trace;
    void **data; /* by tensor id, at the storage's start; NULL: released, not the owner, or meta */
    size_t data_cap;
    uint32_t *live; /* ids of the tensors that have a buffer, ascending; some were dropped since */
    size_t n_live, live_cap;
    uint64_t release_visits; /* entries of `live` that syn_release looked at: what it costs */
    syn_param_info *params;  /* without the names, which the trace has */
    size_t n_params, params_cap;
    syn_param_source source; /* read NULL: random values */
    syn_error error;
    uint32_t scopes[SYN__SCOPE_DEPTH]; /* text ids of the full scope at each depth */
    int n_scopes;
    syn_phase phase;
    uint64_t start_ns;
};

/* Appends a tensor row; base 0: it owns its storage. The row's id, or 0 after an error in the
 * context. */
uint32_t syn__append_tensor(syn_ctx *ctx, const syn_operand *operand, uint32_t producer,
                            uint32_t base, uint32_t flags, const char *name);
/* Gives tensor `id` a buffer on devices that have data. */
syn_status syn__alloc_data(syn_ctx *ctx, uint32_t id);
/* Where the tensor's element 0 lies; NULL on meta or when released. */
void *syn__data(const syn_ctx *ctx, uint32_t id, const syn_operand *operand);
void syn__contiguous_strides(syn_operand *operand);

#endif
