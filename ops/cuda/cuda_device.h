/* What a context has of a CUDA device: one stream, in which everything is done in the order in
   which it was asked for; staging memory; events. For cuda_device.cu and the files named below. */
#ifndef OPS_CUDA_CUDA_DEVICE_H
#define OPS_CUDA_CUDA_DEVICE_H

#include "ops/cuda/cuda_graph.h"
#include "ops/cuda/cuda_products.h"

/* ---- cuda_staging.cu: copies between the host's memory and the device's ---- */

/* Pinned memory, since only from there copies go on beside the host. What comes in goes through one
   of two halves in turn: a half is waited for only when it is used again. What goes out lies here
   until the next sync, if there is room, else goes straight to its place. */
enum { SYN__STAGED_IN = 4 << 20, SYN__STAGED_OUT = 1 << 20, SYN__STAGED_COPIES = 64 };
typedef struct syn__cuda_staging {
    char *in[2], *out;   /* of SYN__STAGED_IN and SYN__STAGED_OUT bytes */
    cudaEvent_t done[2]; /* the device has read that half */
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
/* After the stream was waited for: what went out gets to its places. */
void syn__cuda_staging_finish(syn__cuda_staging *s);

/* ---- cuda_times.cu: when the nodes' kernels ran ---- */

/* Events are marks in the stream; a node's work lies between two of them. Where nothing was asked
   for between two nodes the end of one is the beginning of the next. Times are known after a sync,
   or when all marks are taken and the oldest are over. */
typedef struct syn__cuda_span {
    uint32_t node;         /* number; of a graph's first op */
    uint32_t begins, ends; /* marks */
    int segment, op; /* a segment's handle (cuda_graph.h) and that op, launched alone; op -1: the
                        whole segment as a graph; segment -1: neither */
} syn__cuda_span;
enum { SYN__CUDA_MARKS = 1 << 14 };
typedef struct syn__cuda_times {
    cudaEvent_t mark[SYN__CUDA_MARKS];
    uint32_t n_events; /* made */
    uint32_t n_marks;  /* used since the last sync, numbered from 0 */
    bool idle;         /* nothing was asked for since the newest mark */
    syn__cuda_span spans[SYN__CUDA_MARKS];
    uint32_t n_spans;
    cudaEvent_t anchors[2]; /* the first: when the monotonic clock said anchor_ns */
    uint64_t anchor_ns;
} syn__cuda_times;
syn_status syn__cuda_times_open(syn__cuda_times *t, cudaStream_t stream,
                                syn_error *err) SYN_MUST_USE;
void syn__cuda_times_close(syn__cuda_times *t);
/* False: out of marks; sync, and again. Failures are the stream's, found when it is waited for. */
bool syn__cuda_times_begin(syn__cuda_times *t, cudaStream_t stream, uint32_t node, int segment,
                           int op);
void syn__cuda_times_end(syn__cuda_times *t, cudaStream_t stream);
/* Around a wait for the stream; the second gives all times to the context, if `given`. */
cudaError_t syn__cuda_times_before_sync(syn__cuda_times *t, cudaStream_t stream);
void syn__cuda_times_finish(syn__cuda *d, bool given);
/* The number of a new mark. Nanoseconds between two. */
uint32_t syn__cuda_times_mark(syn__cuda_times *t, cudaStream_t stream);
uint64_t syn__cuda_times_between(const syn__cuda_times *t, uint32_t from, uint32_t to);

/* ---- cuda_work.cu: what is done for nodes, where that is kept (syn_ctx_keep_work) ---- */

/* Numbers of streams as traces show them: what PyTorch's is in a process's first one; groups of
   ranks have the following ones. */
enum { SYN__CUDA_COMPUTE_STREAM = 7 };
/* A piece as it was asked for; it lies between two marks. */
typedef struct syn__cuda_piece {
    syn_piece piece; /* all but the times of the device */
    char *name;      /* of a kernel */
    uint32_t begins, ends;
} syn__cuda_piece;
/* A node's call, which is that of a span. */
typedef struct syn__cuda_call {
    syn_node_work work;
    uint32_t span;
} syn__cuda_call;
/* What no node asked for, between two marks as well, but for waits. */
typedef struct syn__cuda_between {
    syn_piece_between it;
    uint32_t begins, ends;
} syn__cuda_between;
typedef struct syn__cuda_work {
    bool keep;
    syn__cuda_between *between; /* since the last sync */
    size_t n_between, between_cap;
    bool open;             /* the one behind them has begun */
    syn__cuda_call *calls; /* since the last sync */
    size_t n_calls, calls_cap, next;
    syn__cuda_piece *pieces;
    size_t n_pieces, pieces_cap;
    syn_piece *given; /* those of one node */
    size_t given_cap;
    const char **names;
    size_t names_cap;
} syn__cuda_work;
/* Around the kernel's function of a node; between, what is launched is noted. Nothing unless work
   is kept. */
void syn__cuda_work_begin(syn__cuda *d, uint32_t node);
void syn__cuda_work_end(syn__cuda *d);
/* Launches within a node whose work is noted, and notes that; false: nobody notes, nothing is
   launched. */
bool syn__cuda_work_launch(const syn__launch *launch);
/* Around a copy or a fill that no node asked for. Nothing unless work is kept. */
void syn__cuda_between_begin(syn__cuda *d);
void syn__cuda_between_end(syn__cuda *d, syn_piece_kind kind, size_t bytes);
/* The host waited from then on until now; to the context behind what came before it. */
void syn__cuda_waited(syn__cuda *d, uint64_t from_ns);
/* Gives the call of span number i, whose first mark was at begin_ns, to the context. */
void syn__cuda_work_give(syn__cuda *d, uint32_t span, uint64_t begin_ns);
/* After a sync nothing of it is left; close: for good. */
void syn__cuda_work_clear(syn__cuda_work *w);
void syn__cuda_work_close(syn__cuda_work *w);

/* ---- cuda_device.cu ---- */

/* A reading beside other work, in pinned memory: numbers, and what a kernel noted until then. */
typedef struct syn__cuda_asked {
    float numbers[SYN_ASKED_NUMBERS];
    syn__fault fault;
} syn__cuda_asked;

struct syn__cuda {
    syn__cuda_at at; /* first: what kernels are given */
    struct syn_ctx *ctx;
    int device;
    syn__cuda_staging staging;
    syn__cuda_times times;
    syn__cuda_work work;
    syn__fault *fault;      /* the host's copy, pinned */
    syn__cuda_asked *asked; /* SYN_ASKED_MOST */
    cudaEvent_t asked_done[SYN_ASKED_MOST];
    syn__graphs *graphs; /* NULL: none are wanted */
    syn__cuda_blas blas;
    struct syn__cuda_exchanges *exchanges; /* of comm/cuda; NULL: a world of one rank */
    void *scratch;
    size_t scratch_bytes;
    uint64_t scratch_number; /* another one whenever it is another piece of memory */
    syn_error late;          /* of what cannot tell its failure: the next sync's */
    uint32_t first_node;     /* since the last sync; 0: none */
};

enum { SYN__CUDA_OLDEST = 75 }; /* compute capability that kernels need */
/* How many devices there are; a failure says why none can be used. */
syn_status syn__cuda_devices(int *n, syn_error *err) SYN_MUST_USE;
const syn_backend *syn__cuda_backend(void);
/* The failure of what could not tell it. */
syn_status syn__cuda_late(const syn__cuda *d, syn_error *err) SYN_MUST_USE;
/* In place of the memory at *data, of *bytes bytes, which all work of the compute stream is then
   done with: `want` bytes, or where that is too much, `least`. Before that the buffers that wait to
   be used again go back to the device. Not while ops are put off, which may need one of those: such
   ops found all they need, since they ran before. */
syn_status syn__cuda_grow(syn__cuda *d, void **data, size_t *bytes, size_t want, size_t least,
                          const char *what, syn_error *err) SYN_MUST_USE;
/* Before anything that is no kernel is asked of the stream. */
syn_status syn__cuda_before_other(syn__cuda *d, syn_error *err) SYN_MUST_USE;
/* Around what is launched for a node (syn__cuda_span). */
void syn__cuda_time_begin(syn__cuda *d, uint32_t node, int segment, int op);
void syn__cuda_time_end(syn__cuda *d);
/* Launches what the kernel's function does for at.node, with its times. */
syn_status syn__cuda_run_alone(syn__cuda *d, syn_call *c, syn_kernel kernel, int segment,
                               int op) SYN_MUST_USE;

/* ---- cuda_module.cu ---- */

extern const syn_module_host *syn__cuda_host;
syn_kernel syn__cuda_kernel(const syn_opdef *def);

#endif
