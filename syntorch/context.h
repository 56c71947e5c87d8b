/* A context holds everything that one rank has: device, communicator, trace, tensor data and the
   first error. There are no globals, so a process can have any number of contexts. Only one thread
   may use a context at a time.

   Op builders (ops/ops.h) take tensors of a context and return new ones. The first failure stays in
   the context as a sentence. From then on builders return the invalid tensor (id 0) and do nothing
   else, so callers only need to check once a step. */
#ifndef SYNTORCH_CONTEXT_H
#define SYNTORCH_CONTEXT_H

#include "syntorch/backend.h"
#include "syntorch/trace.h"

SYN_API_BEGIN

/* A tensor of a context, passed by value and never freed by users. id 0 is the invalid tensor.
   `tag` identifies the context: a function that gets a tensor of another context records a failure
   in the context it was called with. syn_tensor_spec, _dim and _contiguous, which cannot fail,
   treat such a tensor as invalid. */
typedef struct syn_tensor {
    uint32_t id, tag;
} syn_tensor;

typedef struct syn_ctx syn_ctx;

/* comm NULL: a world of one rank. The caller keeps the communicator and may close it before freeing
   the context; the context's data stays usable then, but its collectives fail. A communicator that
   moves no data ("fake") requires the meta device. */
syn_status syn_ctx_new(syn_ctx **out, syn_device device, syn_comm *comm,
                       syn_error *err) SYN_MUST_USE;
/* The same for a backend that syn_device does not list. */
syn_status syn_ctx_new_on(syn_ctx **out, const syn_backend *backend, syn_comm *comm,
                          syn_error *err) SYN_MUST_USE;
/* Waits for operations in flight (syn_ctx_set_overlap). If the context has failed, aborts them on
   all ranks instead, as the communicator's abort does. */
void syn_ctx_free(syn_ctx *ctx);

const syn_trace *syn_ctx_trace(const syn_ctx *ctx);
/* False on meta: tensors have shapes only. */
bool syn_ctx_has_data(const syn_ctx *ctx);
/* Whether the device is asynchronous: ops run after the calls that queue them, so waiting for a
   result stalls the device. */
bool syn_ctx_is_async(const syn_ctx *ctx);
syn_comm *syn_ctx_comm(const syn_ctx *ctx);
int32_t syn_ctx_rank(const syn_ctx *ctx);
/* The group of a recorded collective, so that its gradient can use the same one. NULL if the node
   has no group or the communicator no longer knows it. */
const syn_group *syn_ctx_group(const syn_ctx *ctx, uint32_t node);
/* Number of threads that this rank's kernels share, including the caller's; 1 by default. OpenBLAS
   must then use one thread per call (ops/blas.h). Has no effect on meta. */
syn_status syn_ctx_set_threads(syn_ctx *ctx, int threads, syn_error *err) SYN_MUST_USE;

/* With overlap (off by default), collectives that have a result and receives start when their op is
   called, and the following ops run meanwhile. The first op, read or write that needs the result
   waits for it; the buffers in use stay allocated until then. The recorded rows are the same either
   way; only their times differ, and these are known after the wait. */
void syn_ctx_set_overlap(syn_ctx *ctx, bool overlap);
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
   it took. Does nothing if the node was forgotten meanwhile. */
void syn_ctx_set_time(syn_ctx *ctx, uint32_t node, uint64_t start_ns, uint64_t wall_ns,
                      uint64_t cpu_ns);

/* Whether to record what the device does for each node (work.h), as far as the backend reports it.
   If the backend launches several ops at once, only the launch is recorded. Off by default. */
void syn_ctx_record_work(syn_ctx *ctx, bool keep);
/* For backends: stores the work of a node, with times on the monotonic clock. names[i] is the
   kernel's name of pieces[i], NULL for copies and fills. Does nothing if the node was forgotten. */
void syn_ctx_add_work(syn_ctx *ctx, const syn_node_work *work, syn_piece *pieces,
                      const char *const *names);
/* For backends: the same for a copy, fill or wait that belongs to no node. */
void syn_ctx_add_unowned_work(syn_ctx *ctx, const syn_unowned_piece *piece);

/* The first failure of any builder; SYN_OK if there was none. */
syn_status syn_ctx_status(const syn_ctx *ctx);
const syn_error *syn_ctx_error(const syn_ctx *ctx);
/* The same, and copies its sentence to *err unless *err already holds one. For functions with a
   syn_error, after they have called builders. */
syn_status syn_ctx_check(const syn_ctx *ctx, syn_error *err);
syn_error *syn_ctx_error_slot(syn_ctx *ctx); /* for callees that take a syn_error */
/* Records a failure, unless there is one already. Returns the invalid tensor. */
syn_tensor syn_ctx_fail(syn_ctx *ctx, syn_status code, const char *fmt, ...) SYN_PRINTF(3, 4);

/* Opens the scope `name` within the current one for the nodes that follow: "attn" within "h.3" is
   "h.3.attn". */
void syn_push_scope(syn_ctx *ctx, const char *name);
void syn_push_scope_index(syn_ctx *ctx, const char *name, int index); /* "h", 3: "h.3" */
void syn_pop_scope(syn_ctx *ctx);
void syn_set_phase(syn_ctx *ctx, syn_phase phase);
/* Begins the next step (of decoding or training). Nodes before the first call belong to step 0. */
void syn_next_step(syn_ctx *ctx);

/* Labels the node that produced t: with "qkv", t is called "h.3.attn/qkv:0". Returns t. */
syn_tensor syn_name(syn_ctx *ctx, syn_tensor t, const char *label);

typedef enum syn_init { SYN_INIT_ZERO, SYN_INIT_ONE, SYN_INIT_NORMAL } syn_init;

/* A source of parameter values, such as a checkpoint, in place of random initialization. */
typedef struct syn_param_source {
    /* Fills `data`, in row-major order, with the shard of the full parameter `name`. `local` has
       the shard's shape and the dtype to store. Rows of dimension 0 at or past valid_rows (< 0:
       none) are not in the source and become zero. data is NULL on meta: only check then. */
    syn_status (*read)(void *user, const char *name, const syn_spec *full, syn_shard shard,
                       int64_t valid_rows, const syn_spec *local, void *data, syn_error *err);
    void *user;
} syn_param_source;
/* Sets the source for parameters created from now on; NULL: random values. The caller keeps the
   source until those parameters exist. */
void syn_ctx_set_param_source(syn_ctx *ctx, const syn_param_source *source);

/* Creates a parameter under its HuggingFace name, in f32, f16 or bf16. The context fails if it
   already has a parameter of that name. `full` is the shape of the whole parameter; the tensor has
   the shape of the shard. SYN_INIT_NORMAL values have mean 0 and standard deviation `std`. Each
   value depends only on seed, name and the element's index in the full tensor, so it is the same
   for every sharding; then it is rounded to the dtype. Rows of dimension 0 at or past valid_rows
   (vocabulary padding; < 0: none) are zero. */
syn_tensor syn_param(syn_ctx *ctx, const char *name, const syn_spec *full, syn_shard shard,
                     syn_init init, double std, int64_t valid_rows, uint64_t seed);
/* A parameter created so far, in order of creation, with its current version. */
typedef struct syn_param_info {
    const char *name; /* valid until the next tensor is named or forgotten */
    syn_spec full;
    syn_shard shard;
    int64_t valid_rows; /* < 0: all */
    syn_tensor tensor;  /* the shard */
} syn_param_info;
size_t syn_ctx_param_count(const syn_ctx *ctx);
syn_param_info syn_ctx_param(const syn_ctx *ctx, size_t i);
/* Creates a tensor from `data`, in row-major order, which is copied. On meta data is ignored and
   may be NULL. */
syn_tensor syn_input(syn_ctx *ctx, const char *name, const syn_spec *spec, const void *data);
/* Creates a tensor that lives across steps, such as a KV cache; zero at first.
   Versions: an op that overwrites a tensor returns a new version of it, and only that version may
   be used from then on. Reading an older version, or a view of one, is an error that names both, on
   every device. Views share one storage, so writing through a view makes all other views of the
   storage stale, including the whole tensor. The shape of a stale version can still be read, and
   its storage kept, dropped and pinned. A new version of a parameter is the parameter. */
syn_tensor syn_state(syn_ctx *ctx, const char *name, const syn_spec *spec);

/* The current version of a tensor that is not a view: t itself if nothing overwrote it. Invalid if
   its data was released. */
syn_tensor syn_current_version(const syn_ctx *ctx, syn_tensor t);

/* Dtype and shape of a tensor; of the invalid tensor, an f32 scalar. */
const syn_spec *syn_tensor_spec(const syn_ctx *ctx, syn_tensor t);
int64_t syn_tensor_dim(const syn_ctx *ctx, syn_tensor t, int dim); /* negative dim: from the end */
/* True if the elements are dense in row-major order. */
bool syn_tensor_contiguous(const syn_ctx *ctx, syn_tensor t);
/* Copies all elements to buf in row-major order. `bytes` must be the size of the tensor. Fails on
   meta. */
syn_status syn_tensor_read(syn_ctx *ctx, syn_tensor t, void *buf, size_t bytes) SYN_MUST_USE;
/* The same for a tensor of f32, f16 or bf16, converted to f32. n_elems must equal its element
   count. */
syn_status syn_tensor_read_f32(syn_ctx *ctx, syn_tensor t, float *buf, size_t n_elems) SYN_MUST_USE;
/* Copies the elements first .. first + n_elems - 1 of a contiguous tensor. */
syn_status syn_tensor_read_range(syn_ctx *ctx, syn_tensor t, int64_t first, int64_t n_elems,
                                 void *buf) SYN_MUST_USE;
/* Reads n f32 scalars, each a tensor of its own, and waits for the device only once. */
syn_status syn_tensor_read_scalars(syn_ctx *ctx, const syn_tensor *ts, int n,
                                   float *out) SYN_MUST_USE;
/* The same in two calls, so that the device keeps working. syn_tensor_read_begin queues the read
   and returns its id in *asked; syn_tensor_read_end, called once for each id, waits until the
   values are there, but not for work queued since. At most SYN_ASYNC_READ_VALUES values per read
   and SYN_ASYNC_READS reads in flight. */
syn_status syn_tensor_read_begin(syn_ctx *ctx, const syn_tensor *ts, int n,
                                 int *asked) SYN_MUST_USE;
syn_status syn_tensor_read_end(syn_ctx *ctx, int asked, float *out) SYN_MUST_USE;
/* Turns the NaN/infinity check on or off. While it is on, all values that ops read and write are
   checked, which takes much longer than the ops. The first tensor with a NaN or infinity whose
   inputs had none is remembered until the check is turned on again. Masks may hold -infinity. */
void syn_ctx_check_finite(syn_ctx *ctx, bool on);
/* Describes that tensor in at most `bytes` bytes: "tensor 'h.2.mlp/fc:0', output of gelu in h.2.mlp
   (forward), has NaN at element 17". Returns false if there was none. */
bool syn_ctx_first_nonfinite(const syn_ctx *ctx, char *text, size_t bytes);
/* Overwrites a parameter, input or state with `data`, in row-major order; this is how weights are
   loaded. `bytes` must be the tensor's size. The write is not recorded: tensors computed from the
   old values keep theirs. Fails for tensors that syn_backward still needs. On meta it only checks,
   and data may be NULL. A failure is also the context's failure. */
syn_status syn_tensor_write(syn_ctx *ctx, syn_tensor t, const void *data,
                            size_t bytes) SYN_MUST_USE;
/* The same for the elements first .. first + n_elems - 1. data NULL: only checks. */
syn_status syn_tensor_write_range(syn_ctx *ctx, syn_tensor t, int64_t first, int64_t n_elems,
                                  const void *data) SYN_MUST_USE;
/* The current version of the parameter `name`; if several have that name, of the first one created.
   Invalid if there is none. Searches all parameters. */
syn_tensor syn_find_param(const syn_ctx *ctx, const char *name);

/* Memory: syn_release frees the data of all tensors created after the mark, except the n_keep
   tensors of `keep` and pinned ones. Meta has no data but counts bytes and rejects released tensors
   the same way. A mark of another context is a failure and releases nothing. */
typedef struct syn_mark {
    uint32_t tensor, node; /* numbers of the next tensor and node */
    uint32_t tag;          /* the context's */
} syn_mark;
syn_mark syn_ctx_mark(const syn_ctx *ctx);
void syn_release(syn_ctx *ctx, syn_mark mark, const syn_tensor *keep, int n_keep);
/* Does what syn_release does and also removes the rows recorded since the mark from the trace. Kept
   are `keep`, owners of pinned storage, and the current version of each older storage (parameters
   and states): they keep their syn_tensor and name and become inputs of the trace. Any other tensor
   created since the mark is gone; not even its shape can be read.
   A loop that forgets back to the same mark after every step takes constant memory. To keep the
   trace of some steps, do not forget these, and forget later steps back to a mark behind them.
   Step numbers, node numbers and the trace's hash continue as if nothing had been removed. Waits
   for operations in flight, and discards what syn_backward would walk over. Takes one pass over the
   rows since the mark. A failed context keeps all rows. */
void syn_forget(syn_ctx *ctx, syn_mark mark, const syn_tensor *keep, int n_keep);
/* Whether syn_forget adds the rows that it drops to the trace's hash; on by default. Off is faster,
   but the trace has no hash once rows were dropped. */
void syn_ctx_set_hashing(syn_ctx *ctx, bool hashing);
/* Frees the storage of t, which its views share, unless it is pinned. */
void syn_drop(syn_ctx *ctx, syn_tensor t);
/* Keeps the storage of t, which its views share, even if it is released, until syn_unpin was called
   as often as syn_pin. A storage that was released meanwhile is freed by the last syn_unpin. Used
   where a transfer or a gradient still needs a tensor that its owner is done with. Pinning a tensor
   without data and unpinning one that is not pinned are failures of the context. Both calls also
   work in a failed context. */
void syn_pin(syn_ctx *ctx, syn_tensor t);
void syn_unpin(syn_ctx *ctx, syn_tensor t);
/* Peak bytes of tensor data in use, counting whole buffers: up to 1/16 larger than their tensors
   and at least 256 bytes. Meta reports the same number as a prediction. Scratch memory that a
   kernel allocates during its call is not counted. */
size_t syn_ctx_peak_bytes(const syn_ctx *ctx);

SYN_API_END
#endif
