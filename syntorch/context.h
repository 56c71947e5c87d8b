/* A context: everything one rank has. Device, communicator, trace, tensor data and the first error.
   No globals: any number of contexts live in one process; one thread uses a context at a time.

   Op builders (ops/ops.h) take tensors of a context and return new ones. The first failure stays in
   the context as a full sentence, the builder returns the poisoned tensor (id 0), and later
   builders do nothing: callers check once a step. */
#ifndef SYNTORCH_CONTEXT_H
#define SYNTORCH_CONTEXT_H

#include "syntorch/backend.h"
#include "syntorch/trace.h"

SYN_API_BEGIN

/* A tensor of a context. Passed by value, never freed by users; id 0 is poisoned. `tag` is
   its context's: what takes a tensor refuses that of another context, which is then a failure of
   the context it was given to (spec, dim and contiguous, which cannot fail, take it for the
   poisoned one). */
typedef struct syn_tensor {
    uint32_t id, tag;
} syn_tensor;

typedef struct syn_ctx syn_ctx;

/* comm NULL: alone in the world. The communicator stays the caller's, who may close it before the
   context is freed: what the context holds can then still be used, but its collectives fail. A
   communicator that moves no data ("fake") needs the meta device. */
syn_status syn_ctx_new(syn_ctx **out, syn_device device, syn_comm *comm,
                       syn_error *err) SYN_MUST_USE;
/* On a backend that is none of syn_device: another module's. */
syn_status syn_ctx_new_on(syn_ctx **out, const syn_backend *backend, syn_comm *comm,
                          syn_error *err) SYN_MUST_USE;
/* Waits for what was started (syn_ctx_set_overlap); a failed context ends it for all ranks, as the
   communicator's abort does. */
void syn_ctx_free(syn_ctx *ctx);

const syn_trace *syn_ctx_trace(const syn_ctx *ctx);
/* False on meta: tensors have shapes only. */
bool syn_ctx_has_data(const syn_ctx *ctx);
/* Whether ops go on after the calls that ask for them: who waits then keeps the device waiting. */
bool syn_ctx_goes_on(const syn_ctx *ctx);
syn_comm *syn_ctx_comm(const syn_ctx *ctx);
int32_t syn_ctx_rank(const syn_ctx *ctx);
/* The group that a recorded communication went over, to call others over it (a gradient's); NULL
   if the node has none, or the communicator does not know it any more. */
const syn_group *syn_ctx_group(const syn_ctx *ctx, uint32_t node);
/* How many threads this rank's kernels share, the caller's among them; at first 1. OpenBLAS must
   then use one thread a call (ops/blas.h). Does nothing on meta. */
syn_status syn_ctx_set_threads(syn_ctx *ctx, int threads, syn_error *err) SYN_MUST_USE;

/* With overlap (at first it is off), collectives with a result and receives are started when their
   op is called, and the next ops run meanwhile. The first op, read or write that needs their result
   waits for it; until then what they use is kept. Rows are the same either way, but for their
   times, which are known after that wait. */
void syn_ctx_set_overlap(syn_ctx *ctx, bool overlap);
/* Waits for all that was started, and until the device has done what was asked of it, as reading a
   tensor does; the times of all ops are known then. */
syn_status syn_ctx_sync(syn_ctx *ctx) SYN_MUST_USE;
/* What its device is, for people: "cpu", "meta", or "cuda: NVIDIA H100 PCIe, 79.2 GiB, compute
   capability 9.0". */
void syn_ctx_describe_device(const syn_ctx *ctx, char *text, size_t bytes);
/* The same for programs. */
void syn_ctx_device_facts(const syn_ctx *ctx, syn_device_facts *out);
/* Of a device with memory of its own how many bytes are free, and how many there are; both
   0 elsewhere. */
syn_status syn_ctx_room(const syn_ctx *ctx, size_t *free_bytes, size_t *all_bytes,
                        syn_error *err) SYN_MUST_USE;
/* Stores when the kernel of the node of that number began, on the monotonic clock, and what it
   took. Of a node that was forgotten meanwhile nothing is stored. For backends. */
void syn_ctx_set_time(syn_ctx *ctx, uint32_t node, uint64_t start_ns, uint64_t wall_ns,
                      uint64_t cpu_ns);

/* Whether what the device does for nodes from now on is kept, as far as its backend tells (work.h):
   the host's launches alone, where it would launch several ops as one. False at first. */
void syn_ctx_keep_work(syn_ctx *ctx, bool keep);
/* Stores that, with times on the monotonic clock; names[i] of piece i, NULL but of kernels. Of a
   node that was forgotten meanwhile nothing is stored. For backends. */
void syn_ctx_add_work(syn_ctx *ctx, const syn_node_work *work, syn_piece *pieces,
                      const char *const *names);
/* The same of a copy, a fill or a wait that no node asked for. */
void syn_ctx_add_between(syn_ctx *ctx, const syn_piece_between *piece);

/* First failure of any builder; SYN_OK if none. */
syn_status syn_ctx_status(const syn_ctx *ctx);
const syn_error *syn_ctx_error(const syn_ctx *ctx);
/* The same with its sentence in *err, unless that holds one already: after builders, in a function
   that takes a syn_error. */
syn_status syn_ctx_check(const syn_ctx *ctx, syn_error *err);
syn_error *syn_ctx_error_slot(syn_ctx *ctx); /* for callees that take a syn_error */
/* Records a failure (the first wins); returns the poisoned tensor. */
syn_tensor syn_ctx_fail(syn_ctx *ctx, syn_status code, const char *fmt, ...) SYN_PRINTF(3, 4);

/* Nodes recorded from now on belong to the scope `name` inside the current one ("h.3"
   then "attn": "h.3.attn"). */
void syn_push_scope(syn_ctx *ctx, const char *name);
void syn_push_scope_index(syn_ctx *ctx, const char *name, int index); /* "h", 3: "h.3" */
void syn_pop_scope(syn_ctx *ctx);
void syn_set_phase(syn_ctx *ctx, syn_phase phase);
/* Begins the next step (decode step, training step). Before the first call: step 0. */
void syn_next_step(syn_ctx *ctx);

/* Names the node that made t ("qkv": its tensor is then "h.3.attn/qkv:0"). Returns t. */
syn_tensor syn_name(syn_ctx *ctx, syn_tensor t, const char *label);

typedef enum syn_init { SYN_INIT_ZERO, SYN_INIT_ONE, SYN_INIT_NORMAL } syn_init;

/* Where parameters get their values instead of random ones: a checkpoint. */
typedef struct syn_param_source {
    /* Fills `data` (local's elements in row-major order; NULL on meta: check only) with the shard
       of the full parameter `name`. Rows of dimension 0 at or past valid_rows (< 0: none) are not
       in the source: they become zero. `local`: the shard's shape and the dtype to store. */
    syn_status (*read)(void *user, const char *name, const syn_spec *full, syn_shard shard,
                       int64_t valid_rows, const syn_spec *local, void *data, syn_error *err);
    void *user;
} syn_param_source;
/* For the parameters made from now on; NULL: random again. The source must outlive that. */
void syn_ctx_set_param_source(syn_ctx *ctx, const syn_param_source *source);

/* A parameter under its HuggingFace name, f32, f16 or bf16. dims: of the full tensor; the tensor
   made has the shard's shape. NORMAL values have mean 0 and deviation `std`, are a function of
   seed, name and the element's index in the full tensor alone (then rounded to the dtype), and so
   do not depend on the sharding. Rows of dimension 0 at or past `valid_rows` (vocabulary padding;
   < 0: none) are zero. */
syn_tensor syn_param(syn_ctx *ctx, const char *name, const syn_spec *full, syn_shard shard,
                     syn_init init, double std, int64_t valid_rows, uint64_t seed);
/* The parameters made so far, in order; of each the newest version. */
typedef struct syn_param_info {
    const char *name; /* valid until the next tensor is named or forgotten */
    syn_spec full;
    syn_shard shard;
    int64_t valid_rows; /* < 0: all */
    syn_tensor tensor;  /* the shard */
} syn_param_info;
size_t syn_ctx_param_count(const syn_ctx *ctx);
syn_param_info syn_ctx_param(const syn_ctx *ctx, size_t i);
/* Data given from outside (copied; ignored on meta, where it may be NULL). */
syn_tensor syn_input(syn_ctx *ctx, const char *name, const syn_spec *spec, const void *data);
/* Storage kept between steps, zero at first (KV cache). An op that writes over it, as over any
   tensor, returns a new version, and that alone may be used from then on: reading an older one, or
   a view of one, is an error that names both, on every device. Views share a storage: to write
   through one makes stale all others in it, the whole included. Shapes can be asked for all the
   same, and the storage of any version kept, dropped and pinned. A new version of a parameter is
   the parameter. */
syn_tensor syn_state(syn_ctx *ctx, const char *name, const syn_spec *spec);

/* The newest version of a tensor that is no view; itself if nothing was written over it, poisoned
   if its data are gone. */
syn_tensor syn_newest(const syn_ctx *ctx, syn_tensor t);

/* Spec of a tensor (of the poisoned one: an f32 scalar). */
const syn_spec *syn_tensor_spec(const syn_ctx *ctx, syn_tensor t);
int64_t syn_tensor_dim(const syn_ctx *ctx, syn_tensor t, int dim); /* negative: from the end */
/* True if the elements lie one after another without gaps. */
bool syn_tensor_contiguous(const syn_ctx *ctx, syn_tensor t);
/* Copies the elements in row-major order into buf, which holds exactly `bytes` bytes.
   Fails on meta. */
syn_status syn_tensor_read(syn_ctx *ctx, syn_tensor t, void *buf, size_t bytes) SYN_MUST_USE;
/* The same of f32, f16 or bf16 as f32: buf holds exactly n_elems elements. */
syn_status syn_tensor_read_f32(syn_ctx *ctx, syn_tensor t, float *buf, size_t n_elems) SYN_MUST_USE;
/* The same of the n_elems elements from number `first` on, of a tensor without gaps. */
syn_status syn_tensor_read_some(syn_ctx *ctx, syn_tensor t, int64_t first, int64_t n_elems,
                                void *buf) SYN_MUST_USE;
/* n numbers of f32, each a tensor of its own: the device is waited for once. */
syn_status syn_tensor_read_numbers(syn_ctx *ctx, const syn_tensor *ts, int n,
                                   float *out) SYN_MUST_USE;
/* The same in two calls: ask waits for nothing; get, once for each, waits until the numbers are
   there, while what was asked for since goes on. *asked names them. At most SYN_ASKED_NUMBERS
   numbers, and SYN_ASKED_MOST askings that were not got. */
syn_status syn_tensor_ask_numbers(syn_ctx *ctx, const syn_tensor *ts, int n,
                                  int *asked) SYN_MUST_USE;
syn_status syn_tensor_get_numbers(syn_ctx *ctx, int asked, float *out) SYN_MUST_USE;
/* On: all that ops read and make from now on is looked at, which takes much longer than the ops;
   the first tensor that holds NaN or infinity, though what it was computed from holds none, is
   remembered until it is on again. What masks scores may be -infinity. */
void syn_ctx_watch_values(syn_ctx *ctx, bool on);
/* That tensor, in at most `bytes` bytes: "tensor 'h.2.mlp/fc:0', made by gelu in h.2.mlp (forward),
   holds NaN at element 17". False if there was none. */
bool syn_ctx_bad_value(const syn_ctx *ctx, char *text, size_t bytes);
/* Overwrites the elements of a parameter, input or state with `data` in row-major order: how
   weights are loaded. `bytes` must be the tensor's size. Not recorded: what was computed from the
   old values stays as it is; what syn_backward will need cannot be written. Checks and does nothing
   else on meta, where data may be NULL. A failure is the context's failure. */
syn_status syn_tensor_write(syn_ctx *ctx, syn_tensor t, const void *data,
                            size_t bytes) SYN_MUST_USE;
/* The same of the n_elems elements from number `first` on; data NULL: only checks. */
syn_status syn_tensor_write_some(syn_ctx *ctx, syn_tensor t, int64_t first, int64_t n_elems,
                                 const void *data) SYN_MUST_USE;
/* The newest version of the parameter of that name (of several, of the first made); poisoned if
   there is none. Looks at every parameter. */
syn_tensor syn_find_param(const syn_ctx *ctx, const char *name);

/* Memory: syn_release gives back all data of tensors made after the mark, except those of `keep`
   and what is pinned. Meta has no data, but counts its bytes and refuses what was released all the
   same. A mark that is not of this context is its failure, and nothing is released. */
typedef struct syn_mark {
    uint32_t tensor, node; /* numbers of the next to be made */
    uint32_t tag;          /* of the context */
} syn_mark;
syn_mark syn_ctx_mark(const syn_ctx *ctx);
void syn_release(syn_ctx *ctx, syn_mark mark, const syn_tensor *keep, int n_keep);
/* syn_release, and what was made and recorded since the mark leaves the trace, but for `keep`, for
   what owns a pinned storage and for the newest version of each storage that stays (parameters and
   states made before). These go on under the same syn_tensor and name, for the trace as inputs; the
   others may not even be asked for their shape. A loop that forgets back to one mark after every
   step takes constant memory; to have the trace of some of its steps, do not forget these, and
   forget later ones back to a mark behind them. Steps, numbers of nodes and the trace's hash go on
   as if nothing had been dropped. What was started is waited for, and what syn_backward would go
   over is remembered no more. Costs a pass over the rows that stay and go. In a failed context all
   rows stay. */
void syn_forget(syn_ctx *ctx, syn_mark mark, const syn_tensor *keep, int n_keep);
/* Whether syn_forget goes over what it drops for the trace's hash; at first it does. Without, which
   is faster, there is no hash once rows were dropped. */
void syn_ctx_set_hashing(syn_ctx *ctx, bool hashing);
/* Gives back the data of t and of all that shares its storage, unless that is pinned. */
void syn_drop(syn_ctx *ctx, syn_tensor t);
/* The data of t and of all that shares its storage stay, released or not, until as many syn_unpin
   as syn_pin; what was released meanwhile goes with the last. For those who still need what its
   maker is done with: a transfer under way, a gradient. Pinning what has no data any more, or
   unpinning what is not pinned, is the context's failure. Both work in a failed context, too. */
void syn_pin(syn_ctx *ctx, syn_tensor t);
void syn_unpin(syn_ctx *ctx, syn_tensor t);
/* Most bytes of tensor data ever in use at once, in the sizes that buffers have (at most a
   sixteenth above the tensors', 256 bytes at least). The same on meta: a prediction. What a kernel
   takes for the time of its call is not counted. */
size_t syn_ctx_peak_bytes(const syn_ctx *ctx);

SYN_API_END
#endif
