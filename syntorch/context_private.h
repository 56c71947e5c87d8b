/* Inside of a context: for context.c, tensor*.c, parameter.c and dispatch.c only. */
#ifndef SYNTORCH_CONTEXT_PRIVATE_H
#define SYNTORCH_CONTEXT_PRIVATE_H

#include "syntorch/context.h"
#include "syntorch/storage_private.h"
#include "syntorch/trace_private.h"

#define SYN__SCOPE_DEPTH 32

struct syn_ctx {
    uint32_t tag; /* of its tensors; never 0 */
    const syn_backend *backend;
    void *device;         /* of the backend; NULL on meta */
    syn_comm *comm;       /* NULL: alone */
    syn_workers *workers; /* NULL: one thread */
    syn_trace *trace;
    syn_storages storages;
    syn_param_info *params; /* but for the names, which the trace has */
    size_t n_params, params_cap;
    syn_param_source source; /* read NULL: random values */
    syn_error error;
    uint32_t scopes[SYN__SCOPE_DEPTH]; /* text ids of the full scope at each depth */
    int n_scopes;
    syn_phase phase;
    uint64_t start_ns;
};

/* Row of a tensor; 0: poisoned, none of this context, or forgotten. */
uint32_t syn__row(const syn_ctx *ctx, syn_tensor t);
/* The same; 0 is the context's failure: the tensor cannot be `done` ("read"). */
uint32_t syn__own_row(syn_ctx *ctx, syn_tensor t, const char *done);
/* Fails if a newer version was written over the tensor of that row. */
syn_status syn__check_current(const syn_ctx *ctx, uint32_t row, syn_error *err) SYN_MUST_USE;
/* The tensor of a row; of row 0 the poisoned one. */
syn_tensor syn__tensor(const syn_ctx *ctx, uint32_t row);
/* Appends a tensor row; base 0: it owns its storage. The row, or 0 after an error in the context.
 */
uint32_t syn__append_tensor(syn_ctx *ctx, const syn_operand *operand, uint32_t producer,
                            uint32_t base, uint32_t flags, const char *name);
/* Fills the storage that tensor `id` owns from `data`, or with zeros (NULL). */
syn_status syn__set_data(syn_ctx *ctx, uint32_t id, const void *data);
/* Gives tensor `id`, the newest, a storage of its own. */
syn_status syn__alloc_data(syn_ctx *ctx, uint32_t id);
/* The tensor's storage, until the next is made; NULL: released. */
syn_storage *syn__storage(const syn_ctx *ctx, uint32_t id);
/* Where the tensor's element 0 lies; NULL without data or when released. */
void *syn__data(const syn_ctx *ctx, uint32_t id, const syn_operand *operand);
void syn__contiguous_strides(syn_operand *operand);

#endif
