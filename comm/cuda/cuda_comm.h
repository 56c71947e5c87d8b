/* Collectives and messages between the devices of ranks, as part of the CUDA module. They use NCCL,
   with one stream per group. If ranks share a device, or the module was built without NCCL, data is
   copied through the host's communicator instead. */
#ifndef COMM_CUDA_CUDA_COMM_H
#define COMM_CUDA_CUDA_COMM_H

#include "ops/cuda/cuda_device.h"

#ifdef SYN_HAVE_NCCL
#include <nccl.h>
#include <pthread.h>

/* ---- cuda_nccl.cu ---- */

#define SYN_NCCL_FUNCTIONS(X) \
    X(GetUniqueId)            \
    X(CommInitRankConfig)     \
    X(CommDestroy)            \
    X(CommSplit)              \
    X(CommAbort)              \
    X(CommGetAsyncError)      \
    X(GetErrorString)         \
    X(GetLastError)           \
    X(GroupStart)             \
    X(GroupEnd)               \
    X(AllReduce)              \
    X(AllGather)              \
    X(ReduceScatter)          \
    X(Broadcast)              \
    X(Send)                   \
    X(Recv)
typedef struct syn__nccl_functions {
#define SYN_X(name) decltype(&nccl##name) name;
    SYN_NCCL_FUNCTIONS(SYN_X)
#undef SYN_X
} syn__nccl_functions;
/* Valid after syn__nccl_load. */
extern syn__nccl_functions syn__nccl;
/* Loads NCCL. The error names the missing library or function. */
syn_status syn__nccl_load(syn_error *err) SYN_MUST_USE;

typedef struct syn__nccl_group {
    struct syn__nccl_group *next;
    const syn_group *group;
    /* Collectives use `comm`; cuda_abort.cu describes `whole`. NULL after an abort. */
    ncclComm_t whole, comm;
    cudaStream_t stream;
    bool sends; /* it sends messages, which may wait for the receiver */
} syn__nccl_group;
typedef struct syn__nccl_peer syn__nccl_peer; /* cuda_messages.cu */
#endif

/* Tags of the module's own messages, counted down from the largest one: NCCL's ids, the choice of
   devices, and headers of messages. */
enum { SYN__CUDA_TAG_ID, SYN__CUDA_TAG_PLACE, SYN__CUDA_TAG_MESSAGE };
static inline int32_t syn__cuda_tag(const syn_comm *comm, int which) {
    return (comm->max_tag > 0 ? comm->max_tag : INT32_MAX) - which;
}

/* An operation in flight. After it has finished, it stays in the list `timed` until its times are
   known. */
typedef struct syn__cuda_request {
    struct syn__cuda_request *next;
    uint32_t node;     /* the node's number */
    syn_request *host; /* the host communicator's request, which runs the operation or only compares
                          the ranks' calls; NULL: finished or not used */
    bool in_stream;    /* NCCL: the operation runs between two events of the group's stream */
    cudaEvent_t begin, end;
    cudaEvent_t copied;          /* recorded after the device's last copy from `pinned` */
    uint64_t begin_ns;           /* start time, if the operation runs through the host */
    uint64_t call_ns, called_ns; /* NCCL: times when the host's call began and ended; call_ns is 0
                                    if work is not recorded */
    syn_comm_call comm_call;     /* as the op described it, but its segments are `segments`, or
                                    `whole` if the operation is packed */
    syn_segment *segments, *of_host; /* of_host: in `pinned` */
    size_t segments_cap, of_host_cap;
    int n_list;   /* number of `segments` */
    char *pinned; /* staging memory on the host */
    size_t pinned_bytes;
    char *host_part;   /* where the part is in `pinned` */
    bool packed;       /* the operation uses `blocks`, which is copied from or to the segments */
    syn_segment whole; /* all of `blocks` */
    void *blocks;      /* device memory: the parts of all ranks */
    size_t blocks_bytes;
#ifdef SYN_HAVE_NCCL
    uint32_t stream;      /* the group's stream that ran the operation, as a number for traces */
    syn__nccl_peer *peer; /* of a message between connected ranks; otherwise NULL */
    struct syn__cuda_request *early; /* a receive: the message, if it arrived before */
#endif
    /* outer: product of the dimensions before the gathered or scattered dimension. inner_bytes:
       bytes of one rank's part of such a row. If outer is 1, the blocks are contiguous. */
    int64_t outer, inner_bytes;
} syn__cuda_request;

/* The communication state of a context; NULL in a world of one rank. */
typedef struct syn__cuda_comms {
    syn__cuda *device;
    syn_comm *comm;
    syn__cuda_request *idle, *timed, **last_timed; /* timed: in the order of their start */
    double timeout_s;                              /* SYNTORCH_NCCL_TIMEOUT_S */
#ifdef SYN_HAVE_NCCL
    bool nccl; /* false: all operations go through the host */
    /* Protects the following members. A rank's own thread may read `comm` of its groups without the
       lock. */
    pthread_mutex_t lock;
    syn__nccl_group *groups;
    syn__nccl_peer *peers; /* the ranks that this rank is connected with */
    int32_t *probe;        /* two numbers on the device, for the first message of two ranks */
    /* The watchdog thread of NCCL calls that may block (cuda_abort.cu). */
    pthread_t watcher;
    pthread_cond_t stopping;
    bool watched, stop;
    uint64_t inside_ns; /* time when the current call began; 0: no call. Atomic */
    syn_error broken;   /* why the watchdog ended a call */
#endif
} syn__cuda_comms;

/* ---- cuda_place.cu ---- */

/* Whether ranks may share devices (SYNTORCH_CUDA_SHARED=1). */
bool syn__cuda_sharing(void);
/* Sets *device to this rank's device. Unless ranks may share devices, fails if no device is left
   for some rank. All ranks must call it if they are in several processes. */
syn_status syn__cuda_choose_device(syn_comm *comm, int n_devices, int *device,
                                   syn_error *err) SYN_MUST_USE;

/* ---- cuda_comm.cu ---- */

/* Creates NCCL's communicators for all groups that are open. All ranks must call it. */
syn_status syn__cuda_comms_open(syn__cuda_comms **out, syn__cuda *device, syn_comm *comm,
                                syn_error *err) SYN_MUST_USE;
void syn__cuda_comms_close(syn__cuda_comms *x); /* NULL is allowed */
/* Waits for an event of the compute stream, which may depend on other ranks. Fails, and aborts
   NCCL, if another rank has failed or SYNTORCH_NCCL_TIMEOUT_S seconds (600 by default) have passed.
   x may be NULL. */
syn_status syn__cuda_comms_sync(syn__cuda_comms *x, cudaEvent_t event, syn_error *err) SYN_MUST_USE;
/* Waits in the same way for the streams of all groups. A failure is reported by the context's next
   sync. Sends are waited for only for most_ms milliseconds, because their receivers may wait for
   this rank. Returns whether all streams are idle. x may be NULL. */
bool syn__cuda_comms_drain(syn__cuda_comms *x, int most_ms);
#ifdef SYN_HAVE_NCCL
syn_status syn__nccl_failed(ncclResult_t code, ncclComm_t comm, const char *what, const char *file,
                            int line, syn_error *err);
#define SYN_NCCL(expr, comm, what, err)                                                 \
    do {                                                                                \
        const ncclResult_t syn_code = (expr);                                           \
        if (syn_code != ncclSuccess && syn_code != ncclInProgress)                      \
            return syn__nccl_failed(syn_code, (comm), (what), __FILE__, __LINE__, err); \
    } while (0)
/* Sets *out to NCCL's state for a group; creates it if necessary. */
syn_status syn__nccl_group_get(syn__cuda_comms *x, const syn_group *group, syn__nccl_group **out,
                               syn_error *err) SYN_MUST_USE;
/* Fails, and aborts NCCL, if another rank has failed. */
syn_status syn__nccl_check(syn__cuda_comms *x, syn_error *err) SYN_MUST_USE;

/* ---- cuda_abort.cu ---- */

/* Aborts all NCCL communicators permanently. Without this, if another rank has ended, work in the
   communicators' streams would never finish and memory could not be freed. */
void syn__nccl_abort_all(syn__cuda_comms *x);
/* Waits until all aborts have finished, for at most two seconds. Returns false if they have not
   finished. */
bool syn__nccl_aborted(void);
/* Fails if another rank has failed and the communicator reports that. */
syn_status syn__nccl_check_others(const syn__cuda_comms *x, syn_error *err) SYN_MUST_USE;
/* Returns s, a failure that NCCL reported, or the failure of another rank if one arrives within two
   seconds. The end of another rank often causes NCCL's error, and that rank's message is then more
   useful. */
syn_status syn__nccl_or_others(const syn__cuda_comms *x, syn_status s, syn_error *err) SYN_MUST_USE;
/* Whether timeout_s has passed since since_ns. */
bool syn__nccl_too_long(const syn__cuda_comms *x, uint64_t since_ns);
/* Fails if another rank has failed, if NCCL reports an error, or if timeout_s has passed since
   since_ns. May be called from any thread. */
syn_status syn__nccl_check_all(syn__cuda_comms *x, uint64_t since_ns, syn_error *err) SYN_MUST_USE;
/* Pauses between two polls: yields the core, or sleeps 50 us if more than 200 us have passed since
   since_ns. */
void syn__nccl_poll_pause(uint64_t since_ns);
/* The watchdog thread. Calls of NCCL are made between enter and leave. The watchdog ends a call
   that blocks for too long or waits for a rank that has failed, and leave then fails with the
   reason. */
syn_status syn__nccl_watch(syn__cuda_comms *x, syn_error *err) SYN_MUST_USE;
void syn__nccl_unwatch(syn__cuda_comms *x);
void syn__nccl_enter(syn__cuda_comms *x);
syn_status syn__nccl_leave(syn__cuda_comms *x, syn_error *err) SYN_MUST_USE;
#endif

/* ---- cuda_exchange.cu ---- */

/* `start` and `wait` of the backend. */
syn_status syn__cuda_start(void *device, syn_call *call, uint32_t node, void **request,
                           syn_error *err);
syn_status syn__cuda_wait(void *device, void *request, syn_error *err);
/* Reports to the context the times of finished operations. */
void syn__cuda_comms_times(syn__cuda_comms *x);
/* Requests. syn__cuda_request_for takes an idle one or creates one, for a call.
   syn__cuda_request_new only creates one, and syn__cuda_request_begin prepares it for a call. */
syn_status syn__cuda_request_for(syn__cuda_comms *x, const syn_comm_call *call, uint32_t node,
                                 syn__cuda_request **out, syn_error *err) SYN_MUST_USE;
syn_status syn__cuda_request_new(syn__cuda_request **out, syn_error *err) SYN_MUST_USE;
syn_status syn__cuda_request_begin(syn__cuda_request *r, const syn_comm_call *call, uint32_t node,
                                   syn_error *err) SYN_MUST_USE;
void syn__cuda_request_idle(syn__cuda_comms *x, syn__cuda_request *r);
void syn__cuda_request_free(syn__cuda_request *r);
#ifdef SYN_HAVE_NCCL
/* Adds an operation that was waited for to the list `timed`. */
void syn__cuda_request_timed(syn__cuda_comms *x, syn__cuda_request *r);
/* Reports the times of an operation that has finished. */
void syn__cuda_request_report(const syn__cuda_comms *x, const syn__cuda_request *r);
/* Launches an operation in a group's stream. The host waits for other ranks only if they have not
   connected yet. */
syn_status syn__nccl_launch(syn__cuda_comms *x, const syn_comm_call *call, const syn__nccl_group *g,
                            syn_error *err) SYN_MUST_USE;
/* The same for a request, after the work that r->end was recorded after. */
syn_status syn__nccl_run(syn__cuda_comms *x, syn__cuda_request *r, const syn__nccl_group *g,
                         syn_error *err) SYN_MUST_USE;

/* ---- cuda_messages.cu ---- */

/* The peer of a message between connected ranks, or NULL. */
syn__nccl_peer *syn__nccl_find_peer(const syn__cuda_comms *x, const syn_comm_call *call);
/* `start` and `wait` for such a message. A message that is not waited for must be given up. */
syn_status syn__nccl_start_message(syn__cuda_comms *x, syn__nccl_peer *peer,
                                   const syn_comm_call *call, uint32_t node,
                                   syn__cuda_request **out, syn_error *err) SYN_MUST_USE;
syn_status syn__nccl_wait_message(syn__cuda_comms *x, syn__cuda_request *r,
                                  syn_error *err) SYN_MUST_USE;
void syn__nccl_give_up(syn__cuda_comms *x, syn__cuda_request *r);
/* Tells the connected ranks that this rank sends no more messages, receives those that they have
   sent, and waits until they have received this rank's. */
syn_status syn__nccl_end_messages(syn__cuda_comms *x, syn_error *err) SYN_MUST_USE;
/* Reports the times of sends that have finished. */
void syn__nccl_sent_times(syn__cuda_comms *x);
void syn__nccl_request_idle(syn__cuda_request *r);
void syn__nccl_peers_free(syn__cuda_comms *x);
#endif
/* `connect` of the backend. */
syn_status syn__cuda_connect(void *device, const syn_group *group, syn_error *err);

/* ---- ops/cuda/cuda_gather.cu ---- */

/* Converts between blocks [n][outer][inner] and rows [outer][n][inner]; `inner` is in bytes. */
syn_status syn__cuda_interleave(cudaStream_t stream, const void *from, void *to, int64_t n,
                                int64_t outer, int64_t inner_bytes, bool to_rows,
                                syn_error *err) SYN_MUST_USE;

#endif
