/* A context has the whole state of one rank: device, communicator, trace, tensor data and the first
   error. None of this state is global, so a process can have any number of contexts. Only one
   thread may use a context at a time.

   Op builders (ops/ops.h) are functions that call an op: they accept tensors of a context and
   return new tensors. The context stores the error message of the first failure. From then on
   builders only return the invalid tensor (id 0), so callers need to check for failures only once
   per step. */
#ifndef SYNTORCH_CONTEXT_H
#define SYNTORCH_CONTEXT_H

#include "syntorch/backend.h"
#include "syntorch/trace.h"

SYN_API_BEGIN

/* A tensor of a context, passed by value and never freed by users. id 0 is the invalid tensor.
   `tag` identifies the context. A function that gets a tensor of another context records a failure
   in its own `ctx`. syn_tensor_spec, _dim and _contiguous, which cannot fail, treat such a tensor
   as invalid. */
typedef struct syn_tensor {
    uint32_t id, tag;
} syn_tensor;

typedef struct syn_ctx syn_ctx;

/* Creates a context. comm NULL: a world of one rank. The caller must close the communicator, before
   or after freeing the context. After closing it, the context's data stays usable, but collectives
   fail. A communicator that moves no data ("fake") requires the meta device. */
syn_status syn_ctx_new(syn_ctx **out, syn_device device, syn_comm *comm,
                       syn_error *err) SYN_MUST_USE;
/* Creates a context on a backend that syn_device does not list. */
syn_status syn_ctx_new_on(syn_ctx **out, const syn_backend *backend, syn_comm *comm,
                          syn_error *err) SYN_MUST_USE;
/* Frees the context, after waiting for operations in flight (syn_ctx_set_overlap). If the context
   has failed, they are aborted on all ranks instead (communicator.h: abort). */
void syn_ctx_free(syn_ctx *ctx);

const syn_trace *syn_ctx_trace(const syn_ctx *ctx);
/* Whether tensors have data. False on meta, where tensors have only shapes. */
bool syn_ctx_has_data(const syn_ctx *ctx);
/* Whether the device is asynchronous: ops run after the calls that queue them, so the device runs
   idle if the host waits for a result. */
bool syn_ctx_is_async(const syn_ctx *ctx);
syn_comm *syn_ctx_comm(const syn_ctx *ctx);
int32_t syn_ctx_rank(const syn_ctx *ctx);
/* The group of the collective in node row `node`, so that its gradient can use the same group. NULL
   if the node has no group or the communicator has no group with this id. */
const syn_group *syn_ctx_group(const syn_ctx *ctx, uint32_t node);
/* Sets the number of threads that run this rank's kernels, including the caller's; 1 by default.
   With more than one thread, OpenBLAS must use one thread per call (syn_blas_set_threads). Has an
   effect only on devices whose buffers the host can access (backend.h: on_host). */
syn_status syn_ctx_set_threads(syn_ctx *ctx, int threads, syn_error *err) SYN_MUST_USE;

/* Prepares messages between neighbours of a group: ranks that follow each other in group->ranks,
   and the last and the first one. On CUDA devices, their messages then go from device to device;
   messages of other ranks are copied through the host. All ranks of the group must call it, before
   any message between them. They must free their contexts without waiting for each other in
   between, and two ranks can be connected in only one context at a time. Does nothing on the CPU
   and on meta. */
syn_status syn_ctx_connect(syn_ctx *ctx, const syn_group *group, syn_error *err) SYN_MUST_USE;
/* Turns overlap on or off; off by default. With overlap, calling the op of a receive, or of a
   collective with a result, only starts the operation, and the following ops run meanwhile. The
   first op, read or write that needs the result waits for it. Until then, the buffers of the
   operation stay allocated. Overlap does not change the recorded rows, except for their times,
   which are known after the wait. */
void syn_ctx_set_overlap(syn_ctx *ctx, bool overlap);
/* Waits for the operations in flight that write t. The tensors that they read can then be freed. */
void syn_wait(syn_ctx *ctx, syn_tensor t);
/* Waits for all operations in flight and for the device, as reading a tensor does. Afterwards the
   times of all ops are known. */
syn_status syn_ctx_sync(syn_ctx *ctx) SYN_MUST_USE;
/* Describes the device for people: "cpu", "meta", or "cuda: NVIDIA H100 PCIe, 79.2 GiB, compute
   capability 9.0". */
void syn_ctx_describe_device(const syn_ctx *ctx, char *text, size_t bytes);
/* Describes the device for programs. */
void syn_ctx_device_info(const syn_ctx *ctx, syn_device_info *out);
/* Free and total memory of the device in bytes; both 0 if the device has no memory of its own. */
syn_status syn_ctx_memory(const syn_ctx *ctx, size_t *free_bytes, size_t *all_bytes,
                          syn_error *err) SYN_MUST_USE;
/* For backends: stores when the kernel of node number `node` began (monotonic clock) and how long
   it took. Does nothing if syn_forget has dropped the node meanwhile. */
void syn_ctx_set_time(syn_ctx *ctx, uint32_t node, uint64_t start_ns, uint64_t wall_ns,
                      uint64_t cpu_ns);

/* Turns the recording of device work (work.h) on or off; off by default. Device work is what the
   device does for each node, as far as the backend reports it. If the backend launches several ops
   together, only this launch is recorded. */
void syn_ctx_record_work(syn_ctx *ctx, bool keep);
/* For backends: stores the work of a node, with times on the monotonic clock. names[i] is the name
   of the kernel in pieces[i], or NULL for copies and fills. Changes pieces. Does nothing if
   syn_forget has dropped the node. */
void syn_ctx_add_work(syn_ctx *ctx, const syn_node_work *work, syn_piece *pieces,
                      const char *const *names);
/* For backends: stores a copy, fill or wait that belongs to no node. */
void syn_ctx_add_unowned_work(syn_ctx *ctx, const syn_unowned_piece *piece);

/* The first failure of any builder; SYN_OK if there was none. */
syn_status syn_ctx_status(const syn_ctx *ctx);
const syn_error *syn_ctx_error(const syn_ctx *ctx);
/* Like syn_ctx_status, but also copies the failure to *err, unless *err already holds one. For
   functions with a syn_error parameter, after they have called builders. */
syn_status syn_ctx_check(const syn_ctx *ctx, syn_error *err);
syn_error *syn_ctx_error_slot(syn_ctx *ctx); /* the context's error, to pass to functions with a
                                                syn_error parameter */
/* Records a failure, unless there is one already. Returns the invalid tensor. */
syn_tensor syn_ctx_fail(syn_ctx *ctx, syn_status code, const char *fmt, ...) SYN_PRINTF(3, 4);

/* Opens the scope `name` within the current scope, for the nodes that follow: "attn" within "h.3"
   is "h.3.attn". */
void syn_push_scope(syn_ctx *ctx, const char *name);
void syn_push_scope_index(syn_ctx *ctx, const char *name, int index); /* "h", 3: "h.3" */
void syn_pop_scope(syn_ctx *ctx);
void syn_set_phase(syn_ctx *ctx, syn_phase phase);
syn_phase syn_current_phase(const syn_ctx *ctx);
/* Begins the next step of decoding or training. Nodes before the first call belong to step 0. */
void syn_next_step(syn_ctx *ctx);
/* Begins the next pass of a pipeline (syn_trace_pass). */
void syn_begin_pass(syn_ctx *ctx, bool paired);

/* Labels the node that produced t: with the label "qkv", t is named "h.3.attn/qkv:0". Returns t. */
syn_tensor syn_name(syn_ctx *ctx, syn_tensor t, const char *label);

typedef enum syn_init { SYN_INIT_ZERO, SYN_INIT_ONE, SYN_INIT_NORMAL } syn_init;

/* A source of parameter values, such as a checkpoint, which replaces random initialization. */
typedef struct syn_param_source {
    /* Fills `data`, in row-major order, with a shard of the parameter `name`, whose full shape is
       `full`. `local` has the shard's shape and the dtype to store. If valid_rows >= 0, rows
       valid_rows and higher of dimension 0 are not in the source and become zero. If data is NULL,
       as on meta and for parameters without data, the function only checks its arguments. */
    syn_status (*read)(void *user, const char *name, const syn_spec *full, syn_shard shard,
                       int64_t valid_rows, const syn_spec *local, void *data, syn_error *err);
    void *user;
} syn_param_source;
/* Sets the source for parameters that are created from now on; NULL: random values. The source must
   stay valid until these parameters exist. */
void syn_ctx_set_param_source(syn_ctx *ctx, const syn_param_source *source);

/* Creates a parameter under its HuggingFace name, in f32, f16 or bf16. The context fails if it
   already has a parameter with this name. `full` is the shape of the whole parameter; the tensor
   has the shape of the shard. SYN_INIT_NORMAL values have mean 0 and standard deviation `std`. Each
   value depends only on seed, name and the element's index in the full tensor, so it is the same
   for every sharding; it is then rounded to the dtype. If valid_rows >= 0, rows valid_rows and
   higher of dimension 0 (vocabulary padding) are zero. */
syn_tensor syn_param(syn_ctx *ctx, const char *name, const syn_spec *full, syn_shard shard,
                     syn_init init, double std, int64_t valid_rows, uint64_t seed);
/* Creates a buffer: a tensor that is stored with the parameters but not trained, such as the bias
   of a router. It is whole on every rank, gets its values from the source of parameters, or zeros,
   and needs a name of its own, too. */
syn_tensor syn_buffer(syn_ctx *ctx, const char *name, const syn_spec *spec);
/* ---- Parameters that are not always whole, for ZeRO 3 ---- */

/* From now on, new parameters get no data: their buffers are freed, and syn_param_values computes
   their values. A source of values must be valid during these calls, too. */
void syn_ctx_evict_params(syn_ctx *ctx);
/* Computes the values that parameter `i` is created with, in its dtype: this rank's shard. out:
   NULL checks only whether the source has the parameter. */
syn_status syn_param_values(const syn_ctx *ctx, size_t i, void *out, syn_error *err) SYN_MUST_USE;
/* Sets a function that is called before each op that uses a parameter, from then on for all
   parameters created so far. It may restore parameters, call ops and evict other parameters. An op
   that uses an older version of a parameter then gets the current one, because a restored parameter
   has the same values. NULL: no function. */
void syn_ctx_on_use(syn_ctx *ctx, void (*used)(void *user, size_t param, syn_phase phase),
                    void *user);
/* Frees the buffer of a parameter, whose data must not be in use by the device's queued ops in
   another way than in stream order. Its name, shape, versions and gradient remain. */
void syn_param_evict(syn_ctx *ctx, size_t i);
/* Gives an evicted parameter a buffer with undefined contents, which the caller overwrites. */
void syn_param_restore(syn_ctx *ctx, size_t i);

/* A parameter of the context. Parameters are numbered in order of creation. */
typedef struct syn_param_info {
    const char *name; /* valid until the next tensor is named or forgotten */
    syn_spec full;
    syn_shard shard;
    int64_t valid_rows; /* < 0: all */
    syn_tensor tensor;  /* the shard */
    bool partial;       /* see syn_param_set_partial */
    bool expert;        /* see syn_param_set_expert */
} syn_param_info;
/* Declares that every tensor-parallel rank has the whole parameter but computes only a part of its
   gradient, such as the part of its own tokens. A trainer sums these gradients once per step. */
void syn_param_set_partial(syn_ctx *ctx, syn_tensor param);
/* Declares that the parameter belongs to experts that are divided among the ranks of a stage: other
   data-parallel ranks have other experts. Its gradients are summed over the ranks with the same
   experts (syn_mesh.edp). */
void syn_param_set_expert(syn_ctx *ctx, syn_tensor param);
size_t syn_ctx_param_count(const syn_ctx *ctx);
syn_param_info syn_ctx_param(const syn_ctx *ctx, size_t i);
/* The buffers, numbered in order of creation. */
size_t syn_ctx_buffer_count(const syn_ctx *ctx);
syn_param_info syn_ctx_buffer(const syn_ctx *ctx, size_t i);
/* Creates a tensor with a copy of `data`, which is in row-major order. On meta, data is ignored and
   may be NULL. */
syn_tensor syn_input(syn_ctx *ctx, const char *name, const syn_spec *spec, const void *data);
/* Creates a tensor that lives across steps, such as a KV cache. Its elements are zero at first.
   Versions: an op that overwrites a tensor returns a new version of the tensor. From then on, only
   the new version may be used; older versions, and views of them, are stale. Reading a stale tensor
   is an error on every device, and the message names both versions. All views of a tensor share its
   storage, so writing through one view makes the tensor and all its other views stale. Of a stale
   tensor, the shape can still be read, and the storage can be kept (syn_release), dropped and
   pinned. A new version of a parameter counts as that parameter. */
syn_tensor syn_state(syn_ctx *ctx, const char *name, const syn_spec *spec);

/* The current version of t, which must not be a view; t itself if no op has overwritten it. Invalid
   if the data was released. */
syn_tensor syn_current_version(const syn_ctx *ctx, syn_tensor t);

/* Dtype and shape of a tensor. For the invalid tensor they are those of an f32 scalar. */
const syn_spec *syn_tensor_spec(const syn_ctx *ctx, syn_tensor t);
int64_t syn_tensor_dim(const syn_ctx *ctx, syn_tensor t, int dim); /* a negative dim counts from the
                                                                      end */
/* True if the elements are dense in row-major order. */
bool syn_tensor_contiguous(const syn_ctx *ctx, syn_tensor t);
/* Copies all elements to buf in row-major order. `bytes` must be the size of the tensor. Fails on
   meta. */
syn_status syn_tensor_read(syn_ctx *ctx, syn_tensor t, void *buf, size_t bytes) SYN_MUST_USE;
/* The same for a tensor in f32, f16 or bf16, whose elements are converted to f32. n_elems must be
   the number of elements of the tensor. */
syn_status syn_tensor_read_f32(syn_ctx *ctx, syn_tensor t, float *buf, size_t n_elems) SYN_MUST_USE;
/* Copies the elements first .. first + n_elems - 1 of a contiguous tensor to buf. */
syn_status syn_tensor_read_range(syn_ctx *ctx, syn_tensor t, int64_t first, int64_t n_elems,
                                 void *buf) SYN_MUST_USE;
/* Reads n tensors of one f32 element each, and waits for the device only once. */
syn_status syn_tensor_read_scalars(syn_ctx *ctx, const syn_tensor *ts, int n,
                                   float *out) SYN_MUST_USE;
/* Read scalars in two calls, so that the device continues to work in between. syn_tensor_read_begin
   queues the read and sets *asked to its id. syn_tensor_read_end must be called once for each id.
   It waits until the values have arrived, but not for work that was queued after the read. A read
   has at most SYN_ASYNC_READ_VALUES values, and at most SYN_ASYNC_READS reads may be in flight. */
syn_status syn_tensor_read_begin(syn_ctx *ctx, const syn_tensor *ts, int n, int *id) SYN_MUST_USE;
syn_status syn_tensor_read_end(syn_ctx *ctx, int id, float *out) SYN_MUST_USE;
/* Turns the NaN and infinity check on or off. While it is on, all values that ops read and write
   are checked, which takes much longer than the ops. The context remembers the first tensor with a
   NaN or infinity whose op had no such inputs, until the check is turned on again. -infinity is
   allowed in masks. */
void syn_ctx_check_finite(syn_ctx *ctx, bool on);
/* Describes the tensor that this check found, in at most `bytes` bytes: "tensor 'h.2.mlp/fc:0',
   output of gelu in h.2.mlp (forward), has NaN at element 17". Returns false if it found none. */
bool syn_ctx_first_nonfinite(const syn_ctx *ctx, char *text, size_t bytes);
/* Overwrites a parameter, input or state with `data`, in row-major order. Weights are loaded this
   way. `bytes` must be the tensor's size. The write is not recorded in the trace, and tensors that
   were computed from the old values do not change. Fails for tensors that syn_backward still needs.
   On meta it only checks its arguments, and data may be NULL. After a failure, the context has
   failed, too. */
syn_status syn_tensor_write(syn_ctx *ctx, syn_tensor t, const void *data,
                            size_t bytes) SYN_MUST_USE;
/* The same for the elements first .. first + n_elems - 1. data NULL: only checks the arguments. */
syn_status syn_tensor_write_range(syn_ctx *ctx, syn_tensor t, int64_t first, int64_t n_elems,
                                  const void *data) SYN_MUST_USE;
/* The current version of the parameter `name`; invalid if there is none. Searches all
   parameters. */
syn_tensor syn_find_param(const syn_ctx *ctx, const char *name);

/* Memory: syn_release frees the data of all tensors created after the mark, except pinned tensors
   and the n_keep tensors in `keep`. Meta has no data, but counts bytes and rejects released tensors
   in the same way. A mark of another context is an error, and nothing is released. */
typedef struct syn_mark {
    uint32_t tensor, node; /* numbers that the next tensor and node will get */
    uint32_t tag;          /* the context's */
} syn_mark;
syn_mark syn_ctx_mark(const syn_ctx *ctx);
void syn_release(syn_ctx *ctx, syn_mark mark, const syn_tensor *keep, int n_keep);
/* Does what syn_release does, and also removes the rows that were recorded since the mark from the
   trace. Three kinds of tensors stay: those in `keep`, owners of pinned storages, and the current
   version in each storage that is older than the mark (parameters and states). They keep their
   syn_tensor and name, and become inputs of the trace. All other tensors created since the mark no
   longer exist; not even their shapes can be read.
   A loop that calls syn_forget with the same mark after every step needs constant memory. To keep
   the rows of some steps in the trace, do not call syn_forget after those steps, and take a new
   mark before the next step. Step numbers, node numbers and the trace's hash continue as if nothing
   had been removed. syn_forget waits for operations in flight, and empties all tapes (gradient.h).
   It makes one pass over the rows since the mark. If the context has failed, all rows stay. */
void syn_forget(syn_ctx *ctx, syn_mark mark, const syn_tensor *keep, int n_keep);
/* Sets whether syn_forget adds the rows that it drops to the trace's hash; on by default. Without
   hashing it is faster, but the trace has no hash after rows were dropped. */
void syn_ctx_set_hashing(syn_ctx *ctx, bool hashing);
/* Frees the storage of t, which its views share, unless the storage is pinned. */
void syn_drop(syn_ctx *ctx, syn_tensor t);
/* syn_pin keeps the storage of t, which its views share, allocated until syn_unpin was called as
   often as syn_pin. If the storage is released meanwhile, the last syn_unpin frees it. Pin a tensor
   if a transfer or a gradient needs it longer than its owner. Pinning a tensor without data, or
   unpinning a tensor that is not pinned, is an error. Both calls also work in a failed context. */
void syn_pin(syn_ctx *ctx, syn_tensor t);
void syn_unpin(syn_ctx *ctx, syn_tensor t);
/* The peak number of bytes of tensor data in use. It counts whole buffers, which are up to 1/16
   larger than their tensors and have at least 256 bytes. Meta reports the same number, as a
   prediction. Scratch memory that a kernel allocates during its call is not counted. */
size_t syn_ctx_peak_bytes(const syn_ctx *ctx);

/* What tensor data is for. */
typedef enum syn_memory_kind {
    SYN_MEMORY_OTHER,     /* activations, their gradients, and buffers */
    SYN_MEMORY_WEIGHTS,   /* parameters */
    SYN_MEMORY_GRADIENTS, /* of parameters */
    SYN_MEMORY_STATES,    /* tensors of syn_state: optimizer state, KV caches */
    SYN_MEMORY_KINDS
} syn_memory_kind;
/* Says what a tensor with data is for, if this does not follow from how it was created: for
   example, a state that holds parameters. */
void syn_ctx_set_memory_kind(syn_ctx *ctx, syn_tensor t, syn_memory_kind kind);
/* Divides the peak, when it was reached, by kind. The parts add up to syn_ctx_peak_bytes. */
void syn_ctx_peak_parts(const syn_ctx *ctx, size_t parts[SYN_MEMORY_KINDS]);
/* From now on, simulates the memory that PyTorch's caching allocator would reserve for the tensors.
   Call it before the first tensor is created. */
syn_status syn_ctx_count_reserved(syn_ctx *ctx, syn_error *err) SYN_MUST_USE;
/* The bytes that it has reserved so far; 0 without syn_ctx_count_reserved. */
size_t syn_ctx_reserved_bytes(const syn_ctx *ctx);

SYN_API_END
#endif
