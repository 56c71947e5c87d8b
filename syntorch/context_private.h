/* Inside of a context: for context.c, tensor*.c, parameter.c and dispatch.c only. */
#ifndef SYNTORCH_CONTEXT_PRIVATE_H
#define SYNTORCH_CONTEXT_PRIVATE_H

#include "syntorch/context.h"
#include "syntorch/gradient.h"
#include "syntorch/storage_private.h"
#include "syntorch/trace_private.h"

#define SYN__SCOPE_DEPTH 32

typedef struct syn__pending syn__pending; /* pending.c */

/* An op on the way to what requires a gradient, and which of its inputs do (bit i: input i); or a
   region, whose last op it is. */
typedef struct syn__taped {
    uint32_t node; /* number */
    uint32_t need;
    bool region;
} syn__taped;

/* What syn_recompute ran. */
typedef struct syn__region {
    syn_region *run;
    void *arg;
    syn_tensor in[SYN_MAX_REGION_INPUTS], out;
    int n_in, n_scopes;
    uint32_t scope; /* within which it ran; n_scopes 0: none */
} syn__region;

/* What syn_require_grad named, by its storage. Tensors as numbers; 0: none. */
typedef struct syn__leaf {
    uint32_t owner; /* of the storage */
    uint32_t grad;  /* pinned */
    uint32_t uses;  /* inputs of taped ops */
    size_t param;   /* its number; SIZE_MAX: it is an input */
} syn__leaf;

/* gradient.c */
typedef struct syn__gradients {
    bool off;
    bool counting;        /* within a region: uses are counted, nothing is remembered */
    bool again;           /* within a region that runs again: uses were counted before */
    syn__region *regions; /* of the tape, in order */
    size_t n_regions, regions_cap;
    syn__taped *tape; /* ascending */
    size_t n_taped, tape_cap;
    syn__leaf *leaves;
    size_t n_leaves, leaves_cap;
    uint32_t *of_row; /* of a backward pass: gradients of rows */
    size_t of_row_cap;
    void (*ready)(void *user, size_t param);
    void *user;
} syn__gradients;

/* finite.c */
typedef struct syn__watch {
    bool on;
    uint32_t tensor; /* number of the first bad one; 0: none so far */
    bool is_nan;
    int64_t element;
} syn__watch;

/* A reading that was begun (syn_tensor_ask_numbers). */
typedef struct syn__asked {
    int n;                            /* 0: none */
    float numbers[SYN_ASKED_NUMBERS]; /* of a device that does not read beside its work */
} syn__asked;

struct syn_ctx {
    uint32_t tag; /* of its tensors; never 0 */
    const syn_backend *backend;
    void *device;         /* of the backend; NULL on meta */
    syn_comm *comm;       /* NULL: alone */
    syn_workers *workers; /* NULL: one thread */
    syn_arena arena;      /* of kernels */
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
    uint64_t forgot_ns;    /* when rows were last dropped; 0: never */
    bool unhashed;         /* rows are forgotten without hashing */
    bool overlap;          /* exchanges are started, and waited for later */
    syn__pending *pending; /* those under way, in the order in which they were started */
    size_t n_pending, pending_cap;
    syn__gradients gradients;
    syn__watch watch;
    syn__asked asked[SYN_ASKED_MOST];
};

/* Row of a tensor; 0: poisoned, none of this context, or forgotten. */
static inline uint32_t syn__row(const syn_ctx *ctx, syn_tensor t) {
    const syn_trace *trace = ctx->trace;
    return t.tag == ctx->tag ? syn__row_of(&trace->tensor_numbers, trace->n_tensors, t.id) : 0;
}
/* The same; 0 is the context's failure: the tensor cannot be `done` ("read"). */
uint32_t syn__own_row(syn_ctx *ctx, syn_tensor t, const char *done);
/* The failure that a newer version was written over the tensor of that row. */
syn_status syn__fail_stale(const syn_ctx *ctx, uint32_t row, uint32_t version,
                           syn_error *err) SYN_MUST_USE;
/* Fails if so; the tensor lies in `storage` (NULL: released). Tensors are made in order, and views
   of stale ones never: so what is older than the newest version in its storage is stale. */
static inline syn_status syn__check_current(const syn_ctx *ctx, uint32_t row,
                                            const syn_storage *storage, syn_error *err) {
    if (!storage || syn__number_of(&ctx->trace->tensor_numbers, row) >= storage->version)
        return SYN_OK;
    return syn__fail_stale(ctx, row, storage->version, err);
}
/* The tensor of a row; of row 0 the poisoned one. */
static inline syn_tensor syn__tensor(const syn_ctx *ctx, uint32_t row) {
    const syn_tensor t = {syn__number_of(&ctx->trace->tensor_numbers, row), row ? ctx->tag : 0};
    return t;
}
/* Appends a tensor row; base 0: it owns its storage. The row, or 0 after an error
   in the context. */
uint32_t syn__append_tensor(syn_ctx *ctx, const syn_operand *operand, uint32_t producer,
                            uint32_t base, uint32_t flags, const char *name);
/* Fills the storage that tensor `id` owns from `data`, or with zeros (NULL). */
syn_status syn__set_data(syn_ctx *ctx, uint32_t id, const void *data);
/* Gives tensor `id`, the newest, a storage of its own. */
syn_status syn__alloc_data(syn_ctx *ctx, uint32_t id);
/* Number of the storage behind a tensor; 0: released, or no tensor. */
static inline uint32_t syn__storage_number(const syn_ctx *ctx, uint32_t id) {
    const syn_trace *t = ctx->trace;
    const uint32_t owner = syn__number_of(&t->tensor_numbers, t->tensors[id].base);
    return syn__storage_of(&ctx->storages, owner);
}
/* The tensor's storage, until the next is made; NULL: released. */
static inline syn_storage *syn__storage(const syn_ctx *ctx, uint32_t id) {
    const uint32_t number = syn__storage_number(ctx, id);
    return number ? &ctx->storages.at[number] : NULL;
}
/* Where element 0 of a tensor in it lies; NULL without data or when released. */
static inline void *syn__data(const syn_storage *storage, const syn_operand *operand) {
    if (!storage || !storage->data) return NULL;
    return (char *)storage->data +
           operand->offset * (int64_t)syn_dtype_bytes((syn_dtype)operand->spec.dtype);
}
void syn__contiguous_strides(syn_operand *operand);

/* "linear in h.3.attn: " before the sentence of a rule or kernel; the context's failure. */
void syn__locate(syn_ctx *ctx, const syn_opdef *def, uint32_t scope, const syn_error *inner);

/* "linear in h.3.attn": op and scope of the node of that number. */
void syn__describe_node(const syn_ctx *ctx, uint32_t node, char *text, size_t bytes);

/* ---- tape.c ---- */

/* Which inputs of an op that is called require a gradient (bit i: input i), and room to remember
   it. Fails where they do and the op has no rule. */
syn_status syn__tape_inputs(syn_ctx *ctx, const syn_call *call, const uint32_t *rows,
                            uint32_t *need) SYN_MUST_USE;
/* Remembers the newest node, and pins what its rule will need. */
void syn__tape_add(syn_ctx *ctx, uint32_t need);
/* Gives up what was kept for a region. */
void syn__region_unpin(syn_ctx *ctx, const syn__region *region);
/* Unpins what was kept for an entry. */
void syn__tape_unpin(syn_ctx *ctx, const syn__taped *entry);
/* Nothing is remembered any more. */
void syn__tape_clear(syn_ctx *ctx);
/* The leaf whose value a tensor row is; NULL: it is none. */
syn__leaf *syn__leaf_of(const syn_ctx *ctx, uint32_t row);
void syn__gradients_free(syn__gradients *gradients);

/* ---- finite.c ---- */

/* What of NaN and infinities is among the inputs of an op, before it runs; remembers one that was
   given from outside and should hold none. */
unsigned syn__watch_inputs(syn_ctx *ctx, const uint32_t *rows, int n);
/* Remembers what the op made out of such inputs and should not have. */
void syn__watch_outputs(syn_ctx *ctx, uint32_t node, unsigned inputs);

/* ---- pending.c ---- */

/* Whether the exchange of such an op goes on while others run. What has no output is waited for at
   once: a barrier is, and nobody would know when a send is to be. */
bool syn__goes_on(const syn_ctx *ctx, const syn_opdef *def);
/* Runs the exchange that the kernel described to its end. */
syn_status syn__exchange(syn_ctx *ctx, syn_call *call, uint32_t node,
                         uint64_t *wait_ns) SYN_MUST_USE;
/* Starts it (on meta: counts as if) for a node whose row is made. Takes the scratch memory. */
syn_status syn__exchange_start(syn_ctx *ctx, syn_call *call, uint32_t node) SYN_MUST_USE;
/* Waits for what is under way and writes the tensor's storage; before that is overwritten, also for
   what reads it. A failure is the context's. */
syn_status syn__await(syn_ctx *ctx, uint32_t tensor, bool overwritten) SYN_MUST_USE;
/* For all that is under way, until the context fails: the others may then never come. */
void syn__await_all(syn_ctx *ctx);
/* Ends all that is under way; of a failed context by ending it for all ranks. */
void syn__pending_free(syn_ctx *ctx);

#endif
