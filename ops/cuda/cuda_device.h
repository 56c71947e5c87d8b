/* The device state of one context: a stream, in which all of the context's work runs in order,
   staging memory for copies, and events. For cuda_device.cu and the files that the section headings
   name. */
#ifndef OPS_CUDA_CUDA_DEVICE_H
#define OPS_CUDA_CUDA_DEVICE_H

#include "ops/cuda/cuda_graph.h"
#include "ops/cuda/cuda_products.h"

/* ---- cuda_staging.cu: copies between host and device memory ---- */

/* Pinned memory, because only copies from and to pinned memory are asynchronous. Copies to the
   device alternate between two halves, so that the host waits for a half only when it uses this
   half again. Copies from the device go to `out` until the next sync if they fit; otherwise they go
   directly to their destination. */
enum { SYN__STAGED_IN = 4 << 20, SYN__STAGED_OUT = 1 << 20, SYN__STAGED_COPIES = 64 };
typedef struct syn__cuda_staging {
    char *in[2], *out;   /* SYN__STAGED_IN bytes each; SYN__STAGED_OUT bytes */
    cudaEvent_t done[2]; /* recorded after the device's copy from that half */
    int half;
    size_t in_used, out_used;
    int n_out;
    struct {
        void *to;
        const char *from; /* in `out` */
        size_t bytes;
    } copies[SYN__STAGED_COPIES];
} syn__cuda_staging;
syn_status syn__cuda_staging_open(syn__cuda_staging *s, syn_error *err) SYN_MUST_USE;
void syn__cuda_staging_close(syn__cuda_staging *s);
syn_status syn__cuda_staging_in(syn__cuda_staging *s, cudaStream_t stream, void *to,
                                const void *from, size_t bytes, syn_error *err) SYN_MUST_USE;
syn_status syn__cuda_staging_out(syn__cuda_staging *s, cudaStream_t stream, void *to,
                                 const void *from, size_t bytes, syn_error *err) SYN_MUST_USE;
/* Moves data from `out` to its destinations. Call after the stream was synchronized. */
void syn__cuda_staging_finish(syn__cuda_staging *s);

/* ---- cuda_times.cu: when the kernels of nodes ran ---- */

/* Events in the stream are time marks. A node's work is between two marks. If nothing was queued
   between two nodes, they share a mark. The times are known after a sync. The stream is also
   synchronized when all marks are in use. */
typedef struct syn__cuda_span {
    uint32_t node;         /* node number; for a graph, that of its first op */
    uint32_t begins, ends; /* numbers of marks */
    /* segment: handle of a segment (cuda_graph.h), or -1 if the span belongs to no segment. op >=
       0: the span of that op of the segment, launched alone. op -1: the span of the whole segment,
       launched as a graph. */
    int segment, op;
} syn__cuda_span;
enum { SYN__CUDA_MARKS = 1 << 14 };
typedef struct syn__cuda_times {
    cudaEvent_t mark[SYN__CUDA_MARKS];
    uint32_t n_events; /* events created */
    uint32_t n_marks;  /* marks used since the last sync, numbered from 0 */
    bool idle;         /* nothing was queued since the last mark */
    syn__cuda_span spans[SYN__CUDA_MARKS];
    uint32_t n_spans;
    cudaEvent_t anchors[2]; /* the first was recorded when the monotonic clock was anchor_ns */
    uint64_t anchor_ns;
    uint64_t delay_ns; /* the shortest of n_syncs: from the end of the work to that of the sync */
    uint32_t n_syncs;
} syn__cuda_times;
syn_status syn__cuda_times_open(syn__cuda_times *t, cudaStream_t stream,
                                syn_error *err) SYN_MUST_USE;
void syn__cuda_times_close(syn__cuda_times *t);
/* Returns false if all marks are in use; the caller must then sync and call it again. Errors of the
   stream are reported when it is synchronized. */
bool syn__cuda_times_begin(syn__cuda_times *t, cudaStream_t stream, uint32_t node, int segment,
                           int op);
void syn__cuda_times_end(syn__cuda_times *t, cudaStream_t stream);
/* Call these two before and after synchronizing the stream. syn__cuda_times_finish passes all times
   to the context. synced_ns: the monotonic clock when the stream had finished; 0: it failed, and
   its times are unknown. */
cudaError_t syn__cuda_times_before_sync(syn__cuda_times *t, cudaStream_t stream);
void syn__cuda_times_finish(syn__cuda *d, uint64_t synced_ns);
/* syn__cuda_times_mark records a mark and returns its number. syn__cuda_times_between returns
   the nanoseconds between two marks. */
uint32_t syn__cuda_times_mark(syn__cuda_times *t, cudaStream_t stream);
uint64_t syn__cuda_times_between(const syn__cuda_times *t, uint32_t from, uint32_t to);

/* ---- cuda_work.cu: what the device does for nodes, if recorded (syn_ctx_record_work) ---- */

/* Number of the compute stream in traces, the same as in PyTorch's traces. The streams of
   communication groups have the numbers after it. */
enum { SYN__CUDA_COMPUTE_STREAM = 7 };
/* A piece of work, between two marks. */
typedef struct syn__cuda_piece {
    syn_piece piece; /* complete except for its device times */
    char *name;      /* name of a kernel */
    uint32_t begins, ends;
} syn__cuda_piece;
/* A node's call, with its span. */
typedef struct syn__cuda_call {
    syn_node_work work;
    uint32_t span;
} syn__cuda_call;
/* Work that belongs to no node, between two marks; waits have no marks. */
typedef struct syn__cuda_unowned {
    syn_unowned_piece it;
    uint32_t begins, ends;
} syn__cuda_unowned;
typedef struct syn__cuda_work {
    bool keep;
    syn__cuda_unowned *unowned; /* since the last sync */
    size_t n_unowned, unowned_cap;
    bool open;             /* unowned[n_unowned] has begun but not ended */
    syn__cuda_call *calls; /* since the last sync */
    size_t n_calls, calls_cap, next;
    syn__cuda_piece *pieces;
    size_t n_pieces, pieces_cap;
    syn_piece *given; /* buffer for the pieces of one node */
    size_t given_cap;
    const char **names;
    size_t names_cap;
} syn__cuda_work;
/* Call these two before and after a node's kernel function. Launches between the two calls are
   recorded as the node's work. They do nothing unless work is recorded. */
void syn__cuda_work_begin(syn__cuda *d, uint32_t node);
void syn__cuda_work_end(syn__cuda *d);
/* Launches and records the launch if a node's work is being recorded. Otherwise returns false and
   does nothing. */
bool syn__cuda_work_launch(const syn__launch *launch);
/* Call these two before and after a copy or fill that belongs to no node. They do nothing unless
   work is recorded. */
void syn__cuda_unowned_begin(syn__cuda *d);
void syn__cuda_unowned_end(syn__cuda *d, syn_piece_kind kind, size_t bytes);
/* Reports to the context that the host waited from from_ns until now. */
void syn__cuda_waited(syn__cuda *d, uint64_t from_ns);
/* Passes the call of span number `span` to the context. begin_ns: time at the span's first mark. */
void syn__cuda_work_report(syn__cuda *d, uint32_t span, uint64_t begin_ns);
/* syn__cuda_work_clear forgets everything recorded; call it after a sync. syn__cuda_work_close also
   frees the memory. */
void syn__cuda_work_clear(syn__cuda_work *w);
void syn__cuda_work_close(syn__cuda_work *w);

/* ---- cuda_device.cu ---- */

/* An asynchronous read, in pinned memory: the values, and the fault at this point of the stream. */
typedef struct syn__cuda_async_read {
    float numbers[SYN_ASYNC_READ_VALUES];
    syn__fault fault;
} syn__cuda_async_read;

struct syn__cuda {
    syn__cuda_at at; /* first member: the part that kernel functions get */
    struct syn_ctx *ctx;
    int device;
    syn__cuda_staging staging;
    syn__cuda_times times;
    syn__cuda_work work;
    syn__fault *fault;           /* the host's copy, pinned */
    syn__cuda_async_read *asked; /* SYN_ASYNC_READS of them */
    cudaEvent_t async_read_done[SYN_ASYNC_READS];
    syn__graphs *graphs; /* NULL: graphs are disabled */
    syn__cuda_blas blas;
    struct syn__cuda_comms *comms; /* owned by comm/cuda; NULL: a world of one rank */
    void *scratch;
    size_t scratch_bytes;
    uint64_t scratch_number; /* changes whenever the scratch memory moves */
    void **kept;             /* memory to free when no message is in flight */
    size_t n_kept, kept_cap;
    syn_error late;      /* error of a call that cannot return it; the next sync reports it */
    uint32_t first_node; /* first node since the last sync; 0: none */
};

enum { SYN__CUDA_OLDEST = 75 }; /* lowest compute capability that the kernels support */
/* Counts the devices. Fails with the reason if there is no device, or if the kernels do not support
   a device. */
syn_status syn__cuda_devices(int *n, syn_error *err) SYN_MUST_USE;
const syn_backend *syn__cuda_backend(void);
/* Fails with d->late, if it is set. */
syn_status syn__cuda_late(const syn__cuda *d, syn_error *err) SYN_MUST_USE;
/* Replaces the memory *data of *bytes bytes by memory of `want` bytes or, if the device does not
   have that much, of `least` bytes. Waits until the stream no longer uses the old memory. If the
   device is out of memory, first returns the context's unused buffers to the device. Must not be
   called while ops are deferred, because they may need one of these buffers. Deferred ops
   themselves never grow memory, because they have run before. */
syn_status syn__cuda_grow(syn__cuda *d, void **data, size_t *bytes, size_t want, size_t least,
                          const char *what, syn_error *err) SYN_MUST_USE;
/* Call before queuing anything but a kernel: launches deferred ops. */
syn_status syn__cuda_flush_deferred(syn__cuda *d, syn_error *err) SYN_MUST_USE;
/* Call these two before and after the launches of a node (syn__cuda_span). */
void syn__cuda_time_begin(syn__cuda *d, uint32_t node, int segment, int op);
void syn__cuda_time_end(syn__cuda *d);
/* Runs the kernel function for node at.node without a graph, and records its times. */
syn_status syn__cuda_run_alone(syn__cuda *d, syn_call *c, syn_kernel kernel, int segment,
                               int op) SYN_MUST_USE;

/* ---- cuda_module.cu ---- */

extern const syn_module_host *syn__cuda_host;
syn_kernel syn__cuda_kernel(const syn_opdef *def);

#endif
