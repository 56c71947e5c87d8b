/* Internal. The members of a context, and the functions that the files of syntorch/ share to
   implement it. */
#ifndef SYNTORCH_CONTEXT_PRIVATE_H
#define SYNTORCH_CONTEXT_PRIVATE_H

#include "syntorch/context.h"
#include "syntorch/gradient.h"
#include "syntorch/storage_private.h"
#include "syntorch/trace_private.h"

#define SYN__SCOPE_DEPTH 32

typedef struct syn__pending syn__pending; /* pending.c */

/* An entry of a tape: either an op with an input that requires a gradient, or a region, that is, a
   call of syn_recompute. */
typedef struct syn__tape_entry {
    uint32_t node;   /* number of the op's node; for a region, of the op that produced its result */
    uint32_t need;   /* bit i: input i requires a gradient */
    uint32_t inputs; /* 1 + index into the tape's `inputs`: the op was kept, and these were its
                        inputs in the region's second run; 0: its inputs are those of the node */
    uint32_t at;     /* number of the last node when the entry was added; ascending */
    bool region;
} syn__tape_entry;

/* A call of syn_recompute, whose ops are built again in the backward pass. */
typedef struct syn__region {
    syn_region *run;
    void *arg;
    syn_tensor in[SYN_MAX_REGION_INPUTS], out; /* arguments and result of the first run */
    int n_in, n_scopes;
    uint32_t scope;    /* the scope around the call; unused if n_scopes is 0 */
    syn_keep *keep;    /* NULL: all ops run again */
    size_t first_kept; /* index into the tape's `kept` */
} syn__region;

/* An op whose weight gradients syn_backward_inputs has not computed yet. Its saved tensors stay
   allocated. */
typedef struct syn__left_out {
    syn__tape_entry entry;
    uint32_t dout; /* number of its output's gradient, which stays allocated */
} syn__left_out;

/* A tape: the ops that one backward pass will walk over. */
typedef struct syn__tape {
    syn__tape_entry *entries; /* in order; only ops that were kept do not ascend by `node` */
    size_t n, cap;
    syn__region *regions; /* the regions among the entries, in order */
    size_t n_regions, regions_cap;
    uint32_t *kept; /* numbers of the tensors that are kept for the second runs of the regions, in
                       order; their storages stay allocated */
    size_t n_kept, kept_cap;
    uint32_t *inputs; /* see syn__tape_entry.inputs */
    size_t n_inputs, inputs_cap;
    syn__left_out *left_out; /* ops whose weight gradients are missing, in the order of the backward
                                pass */
    size_t n_left_out, left_out_cap;
} syn__tape;

/* A leaf: a tensor that was passed to syn_require_grad. Its storage refers to it, so later versions
   of the tensor are the same leaf. `owner` and `grad` are tensor numbers; 0: none. */
typedef struct syn__leaf {
    uint32_t owner;  /* owner of the storage */
    uint32_t grad;   /* its gradient, whose storage stays allocated */
    uint32_t uses;   /* number of uses as an input of ops on all tapes */
    syn_dtype dtype; /* dtype of its gradient */
    size_t param;    /* index of the parameter; SIZE_MAX: not a parameter */
} syn__leaf;

/* The state of gradient.c, backward.c and tape.c. */
typedef struct syn__gradients {
    bool off;
    bool counting;  /* in a region's first run: uses are counted, but ops are not put on the tape */
    bool again;     /* in a region's second run: uses are not counted again */
    syn_keep *keep; /* in a region's runs: its rule; NULL: no op is kept */
    uint32_t keep_state;
    size_t next_kept;       /* in a region's second run: index into the tape's `kept` */
    syn__tape tape;         /* the current tape (syn_set_tape) */
    syn__tape *others;      /* all tapes by number; the entry of the current tape is unused */
    uint32_t set, n_others; /* set: number of the current tape; n_others: number of entries of
                               `others`, 0 if there is only one tape */
    size_t others_cap;
    syn__leaf *leaves;
    size_t n_leaves, leaves_cap;
    uint32_t *of_row; /* during syn_backward, by tensor row: number of the gradient; 0: none. The
                         gradients of leaves are in `leaves`. */
    size_t of_row_cap;
    uint32_t first_row, n_rows;              /* the rows of of_row; of_row[0] is for first_row */
    void (*ready)(void *user, size_t param); /* set by syn_ctx_on_grad */
    void *user;
} syn__gradients;

/* The arrays of the call that runs now, which are reused, and the operands of a communication that
   has just finished (pending.c). */
typedef struct syn__calls {
    syn_operand *operands, *finished; /* inputs, then outputs */
    uint32_t *rows;                   /* of the inputs */
    syn_segment *segments;
    size_t operands_cap, finished_cap, rows_cap, segments_cap;
} syn__calls;

/* The arguments that determine the values of a random parameter. */
typedef struct syn__param_random {
    syn_init init;
    double std;
    uint64_t seed;
} syn__param_random;

/* The state of finite.c. */
typedef struct syn__finite_check {
    bool on;
    uint32_t tensor; /* number of the first tensor with a NaN or infinity; 0: none so far */
    bool is_nan;
    int64_t element; /* index of its first such value */
} syn__finite_check;

/* An asynchronous read in flight (syn_tensor_read_begin). */
typedef struct syn__async_read {
    int n;                                /* values; 0: this slot is free */
    float numbers[SYN_ASYNC_READ_VALUES]; /* the values, if the device is not asynchronous */
} syn__async_read;

struct syn_ctx {
    uint32_t tag; /* the tag of its tensors; never 0 */
    const syn_backend *backend;
    void *device;         /* the backend's state; NULL on meta */
    syn_comm *comm;       /* NULL: a world of one rank */
    syn_workers *workers; /* NULL: one thread */
    syn_arena arena;      /* scratch memory of kernels */
    syn__calls calls;
    struct {
        bool created_evicted;                                    /* syn_ctx_evict_params */
        void (*used)(void *user, size_t param, syn_phase phase); /* syn_ctx_on_use; NULL: none */
        void *user;
    } managed;
    syn_trace *trace;
    syn_storages storages;
    syn_param_info *params;  /* `name` is unused, because names are in the trace */
    syn_param_info *buffers; /* see syn_buffer; likewise */
    syn__param_random *param_random;
    size_t n_params, params_cap, param_random_cap, n_buffers, buffers_cap;
    bool *param_names; /* by text id: whether a parameter has this name */
    size_t param_names_cap;
    syn_param_source source; /* read NULL: random values */
    syn_error error;
    uint32_t scopes[SYN__SCOPE_DEPTH]; /* text ids of the open scopes' full names, by depth */
    int n_scopes;
    syn_phase phase;
    uint64_t start_ns;     /* a time of the monotonic clock, from which the trace's times count */
    uint64_t forget_ns;    /* time at which syn_forget last dropped rows; 0: never */
    bool unhashed;         /* syn_forget does not hash the rows that it drops
                              (syn_ctx_set_hashing) */
    bool overlap;          /* collectives and receives are waited for later (syn_ctx_set_overlap) */
    syn__pending *pending; /* operations in flight, in the order in which they were started */
    size_t n_pending, pending_cap;
    syn__gradients gradients;
    syn__finite_check finite_check;
    syn__async_read async_reads[SYN_ASYNC_READS];
};

/* The row of a tensor; 0 if the tensor is invalid, forgotten or of another context. */
static inline uint32_t syn__row(const syn_ctx *ctx, syn_tensor t) {
    const syn_trace *trace = ctx->trace;
    return t.tag == ctx->tag ? syn__row_of(&trace->tensor_numbers, trace->n_tensors, t.id) : 0;
}
/* The same, but if the row is 0, the context fails with the message that the tensor cannot be
   `done`. `done` is a participle such as "read". */
uint32_t syn__own_row(syn_ctx *ctx, syn_tensor t, const char *done);
/* Fails because the tensor of this row was overwritten by tensor number `version`. */
syn_status syn__fail_stale(const syn_ctx *ctx, uint32_t row, uint32_t version,
                           syn_error *err) SYN_MUST_USE;
/* Fails if the tensor of this row is stale. `storage` is its storage, or NULL if it was released.
   Every tensor that is older than the current version in its storage is stale, because tensors are
   numbered in order of creation and no op creates a view of a stale tensor. */
static inline syn_status syn__check_current(const syn_ctx *ctx, uint32_t row,
                                            const syn_storage *storage, syn_error *err) {
    if (!storage || syn__number_of(&ctx->trace->tensor_numbers, row) >= storage->version)
        return SYN_OK;
    return syn__fail_stale(ctx, row, storage->version, err);
}
/* The tensor of a row; for row 0, the invalid tensor. */
static inline syn_tensor syn__tensor(const syn_ctx *ctx, uint32_t row) {
    const syn_tensor t = {syn__number_of(&ctx->trace->tensor_numbers, row), row ? ctx->tag : 0};
    return t;
}
/* Appends a tensor row and returns its index. base 0: the tensor owns its storage. Returns 0 on
   failure, after recording the failure in the context. */
uint32_t syn__append_tensor(syn_ctx *ctx, const syn_operand *operand, uint32_t producer,
                            uint32_t base, uint32_t flags, const char *name);
/* Fills the storage that tensor row `id` owns from `data`, or with zeros if data is NULL. */
syn_status syn__set_data(syn_ctx *ctx, uint32_t id, const void *data);
/* Allocates a storage for tensor row `id`, which must be the last row. */
syn_status syn__alloc_data(syn_ctx *ctx, uint32_t id);
/* The number of a tensor row's storage; 0 if the storage was released, or for row 0. */
static inline uint32_t syn__storage_number(const syn_ctx *ctx, uint32_t id) {
    const syn_trace *t = ctx->trace;
    const uint32_t owner = syn__number_of(&t->tensor_numbers, t->tensors[id].base);
    return syn__storage_of(&ctx->storages, owner);
}
/* The storage of a tensor row; NULL if it was released. The pointer is valid until the next storage
   is allocated. */
static inline syn_storage *syn__storage(const syn_ctx *ctx, uint32_t id) {
    const uint32_t number = syn__storage_number(ctx, id);
    return number ? &ctx->storages.at[number] : NULL;
}
/* Address of a tensor's element 0; NULL if the storage was released or the device has no data. */
static inline void *syn__data(const syn_storage *storage, const syn_operand *operand) {
    if (!storage || !storage->data) return NULL;
    return (char *)storage->data +
           operand->offset * (int64_t)syn_dtype_bytes((syn_dtype)operand->spec.dtype);
}
/* Sets the operand's strides for dense row-major order, and its offset to 0. */
void syn__contiguous_strides(syn_operand *operand);

/* Records the failure *inner of an op's function in the context. The error message then begins with
   the op and the scope: "linear in h.3.attn: ...". */
void syn__locate(syn_ctx *ctx, const syn_opdef *def, uint32_t scope, const syn_error *inner);

/* Writes the op and the scope of the node with this number: "linear in h.3.attn". */
void syn__describe_node(const syn_ctx *ctx, uint32_t node, char *text, size_t bytes);

/* ---- parameter.c ---- */

/* Rebuilds param_names from the parameters' rows, after syn_forget has dropped parameters and
   changed text ids. */
void syn__renumber_param_names(syn_ctx *ctx);

/* ---- tape.c ---- */

/* Sets *need to the inputs of an op call that require a gradient (bit i: input i) and reserves a
   tape entry. Fails if there is such an input and the op has no gradient rule. */
syn_status syn__tape_inputs(syn_ctx *ctx, const syn_call *call, const uint32_t *rows,
                            uint32_t *need) SYN_MUST_USE;
/* Puts the last node of the trace on the tape and saves the tensors that its gradient rule
   needs. */
void syn__tape_add(syn_ctx *ctx, uint32_t need);
/* Whether the region that runs now keeps the output of an op. Called once per op. */
bool syn__region_keeps(syn_ctx *ctx, const syn_opdef *def);
/* In a region's first run: keeps the outputs of the last node for the second run. */
void syn__region_keep(syn_ctx *ctx);
/* In a region's second run, for an op that was kept: sets out[] to the outputs of the first run and
   puts the op on the tape with the given inputs. */
void syn__region_reuse(syn_ctx *ctx, const syn_call *call, const uint32_t *rows, syn_tensor *out);
/* The row of input i of an op on the current tape, which is the node in row `node`. */
uint32_t syn__tape_input(const syn_ctx *ctx, const syn__tape_entry *entry, uint32_t node, int i);
/* The operands from which the gradients of the inputs in `need` are computed, as bits of SYN_SAVE:
   bit i is input i, bit 8 + i output i. */
uint32_t syn__kept_operands(const syn_opdef *def, uint32_t need);
/* The node that runs again if backward needs this tensor, because the tensor is not saved
   (SYN_OPF_AGAIN); 0: none. */
uint32_t syn__again_node(const syn_trace *trace, uint32_t tensor);
/* Releases the tensors that are saved for the current tape's last region, which was removed. */
void syn__region_unpin(syn_ctx *ctx, const syn__region *region);
/* Releases the tensors that are saved for an op on the tape. */
void syn__tape_unpin(syn_ctx *ctx, const syn__tape_entry *entry);
/* Releases what is saved for an op whose weight gradients are left out: its tensors and the
   gradient of its output. */
void syn__left_out_unpin(syn_ctx *ctx, const syn__left_out *op);
/* Empties all tapes. */
void syn__tape_clear(syn_ctx *ctx);
/* The leaf that a tensor row is a version of; NULL if there is none. */
syn__leaf *syn__leaf_of(const syn_ctx *ctx, uint32_t row);
void syn__gradients_free(syn__gradients *gradients);

/* ---- gradient.c ---- */

#define SYN__GRAD_SEED UINT32_MAX /* represents the gradient of the loss itself, which is 1 */

/* Empties of_row; its first entry will be for first_row. */
void syn__grad_begin(syn_ctx *ctx, uint32_t first_row);
/* Extends of_row to the rows before `end`. Returns false after a failure. */
bool syn__grad_extend(syn_ctx *ctx, uint32_t end) SYN_MUST_USE;
/* The place for the gradient of a tensor row; NULL if there is none. */
uint32_t *syn__grad_place(syn_ctx *ctx, uint32_t row);
/* Keeps the storage of a gradient allocated, and counts the gradient. */
void syn__grad_hold(syn_ctx *ctx, uint32_t tensor);
/* Undoes syn__grad_hold. */
void syn__grad_unhold(syn_ctx *ctx, uint32_t tensor);
/* The current version of a gradient. Only gradient.c and the gradient rules write to a gradient, so
   later versions in its storage are the same gradient. */
uint32_t syn__grad_version(const syn_ctx *ctx, uint32_t tensor);
/* Whether a gradient may be overwritten, because it is the only gradient in its storage. */
bool syn__grad_alone(syn_ctx *ctx, uint32_t tensor);
/* Adds g to the gradient of a tensor row. */
void syn__grad_add(syn_ctx *ctx, uint32_t row, syn_tensor g);
/* Whether a tensor has the shape of a tensor row. */
bool syn__same_shape(const syn_ctx *ctx, syn_tensor a, uint32_t row);

/* ---- finite.c ---- */

/* Called before an op runs. Returns which of NaN, infinity and -infinity its inputs contain.
   Remembers the first parameter, input or state that contains such a value although it should
   not. */
unsigned syn__check_inputs(syn_ctx *ctx, const syn_opdef *def, const uint32_t *rows, int n);
/* Called after an op has run. Remembers the first output that contains a NaN or infinity although
   no input did. `inputs` is the result of syn__check_inputs. */
void syn__check_outputs(syn_ctx *ctx, uint32_t node, unsigned inputs);

/* ---- pending.c ---- */

/* Whether an op's communication runs concurrently with the following ops. Ops without outputs
   (barriers and sends) are waited for immediately, because a barrier has to wait, and no later op
   would wait for a send. */
bool syn__is_async(const syn_ctx *ctx, const syn_opdef *def);
/* Starts the operation that the kernel described in call->comm_call, and waits for it. */
syn_status syn__run_comm(syn_ctx *ctx, syn_call *call, uint32_t node,
                         uint64_t *wait_ns) SYN_MUST_USE;
/* Starts the operation that the kernel described, for the node in row `node`. On meta it only
   records that the operation is in flight. Takes ownership of call->scratch. */
syn_status syn__start_comm(syn_ctx *ctx, syn_call *call, uint32_t node) SYN_MUST_USE;
/* Waits for operations in flight that write the storage of tensor row `tensor`. overwritten: also
   waits for operations that read it. A failure is recorded in the context. */
syn_status syn__wait_for_tensor(syn_ctx *ctx, uint32_t tensor, bool overwritten) SYN_MUST_USE;
/* Waits for operations whose results were released before an op used them, and so frees their
   memory. A failure is recorded in the context. */
void syn__wait_for_unused(syn_ctx *ctx);
/* Waits for all operations in flight. Stops when the context fails, because other ranks may then
   never take part in the remaining operations. */
void syn__wait_for_all(syn_ctx *ctx);
/* Finishes all operations in flight. If the context has failed, first aborts them on all ranks. */
void syn__pending_free(syn_ctx *ctx);

#endif
