/* Exchanges between the devices of ranks: by NCCL, in a stream for each group, or through the
   host's communicator where ranks share a device or the module was built without NCCL. Part of the
   CUDA module. */
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
    X(Broadcast)
typedef struct syn__nccl_functions {
#define SYN_X(name) decltype(&nccl##name) name;
    SYN_NCCL_FUNCTIONS(SYN_X)
#undef SYN_X
} syn__nccl_functions;
/* After syn__nccl_load. */
extern syn__nccl_functions syn__nccl;
/* Fails with what is missing. */
syn_status syn__nccl_load(syn_error *err) SYN_MUST_USE;

typedef struct syn__nccl_group {
    struct syn__nccl_group *next;
    const syn_group *group;
    ncclComm_t whole, comm; /* see cuda_abort.cu; exchanges are `comm`'s. NULL: broken off */
    cudaStream_t stream;
} syn__nccl_group;
#endif

/* An exchange that was started, and then one whose times are not known yet. */
typedef struct syn__cuda_request {
    struct syn__cuda_request *next;
    uint32_t node;     /* number */
    syn_request *host; /* the communicator's: the exchange, or its comparison; NULL: is over */
    bool in_stream;    /* NCCL's: between two events of the group's stream */
    cudaEvent_t begin, end;
    cudaEvent_t copied;          /* the device has read `pinned` */
    uint64_t begin_ns;           /* through the host */
    uint64_t call_ns, called_ns; /* of NCCL's: the host's call, where work is kept; else 0 */
    syn_exchange exchange;       /* as the op described it, with `segments` */
    syn_segment segments[SYN_MAX_LIST], of_host[SYN_MAX_LIST];
    char *pinned;
    size_t pinned_bytes;
    void *woven; /* device memory for blocks of ranks, of which rows are woven */
    size_t woven_bytes;
    int64_t outer, inner_bytes; /* of rows; outer 1: blocks are rows */
} syn__cuda_request;

/* What a context has to exchange with; NULL in a world of one rank. */
typedef struct syn__cuda_exchanges {
    syn__cuda *device;
    syn_comm *comm;
    syn__cuda_request *idle, *timed, **last_timed; /* timed: the oldest first */
    double timeout_s;
#ifdef SYN_HAVE_NCCL
    bool nccl;
    pthread_mutex_t lock; /* of what follows, but for those who only read `comm` of their groups */
    syn__nccl_group *groups;
    /* a thread that looks at calls that may block */
    pthread_t watcher;
    pthread_cond_t stopping;
    bool watched, stop;
    uint64_t inside_ns; /* the call's begin; 0: there is none. Atomic */
    syn_error broken;   /* why a call was ended */
#endif
} syn__cuda_exchanges;

/* ---- cuda_place.cu ---- */

/* Whether ranks may share devices. */
bool syn__cuda_sharing(void);
/* The device of this rank, one that no other rank has: else an error, unless ranks may share. Ranks
   of several processes all come here. */
syn_status syn__cuda_choose_device(syn_comm *comm, int n_devices, int *device,
                                   syn_error *err) SYN_MUST_USE;

/* ---- cuda_comm.cu ---- */

/* All ranks of a group meet here, as NCCL makes what they share. */
syn_status syn__cuda_exchanges_open(syn__cuda_exchanges **out, syn__cuda *device, syn_comm *comm,
                                    syn_error *err) SYN_MUST_USE;
void syn__cuda_exchanges_close(syn__cuda_exchanges *x); /* NULL is allowed */
/* Waits for an event of the compute stream, which may wait for other ranks: fails when one of them
   failed, or after SYNTORCH_NCCL_TIMEOUT_S seconds (600). Exchanges are over then. x: NULL is
   allowed. */
syn_status syn__cuda_exchanges_sync(syn__cuda_exchanges *x, cudaEvent_t event,
                                    syn_error *err) SYN_MUST_USE;
/* The same for all streams of groups, before what waits for all of the device by itself, as
   cudaFree does; a failure is the context's next sync's. NULL is allowed. */
void syn__cuda_exchanges_quiet(syn__cuda_exchanges *x);
#ifdef SYN_HAVE_NCCL
syn_status syn__nccl_failed(ncclResult_t code, ncclComm_t comm, const char *what, const char *file,
                            int line, syn_error *err);
#define SYN_NCCL(expr, comm, what, err)                                                 \
    do {                                                                                \
        const ncclResult_t syn_code = (expr);                                           \
        if (syn_code != ncclSuccess && syn_code != ncclInProgress)                      \
            return syn__nccl_failed(syn_code, (comm), (what), __FILE__, __LINE__, err); \
    } while (0)
/* NCCL's group for it, made if need be. */
syn_status syn__nccl_group_get(syn__cuda_exchanges *x, const syn_group *group,
                               syn__nccl_group **out, syn_error *err) SYN_MUST_USE;
/* Whether another rank has failed, after which nothing is waited for any more. */
syn_status syn__nccl_check(syn__cuda_exchanges *x, syn_error *err) SYN_MUST_USE;

/* ---- cuda_abort.cu ---- */

/* Ends what is under way in streams, for good: with others gone it would never end by itself, and
   memory could not be freed. */
void syn__nccl_break_off(syn__cuda_exchanges *x);
/* Waits until NCCL has aborted all that was broken off, but not for long: false then. */
bool syn__nccl_aborted(void);
/* A failure of another rank, where the communicator tells of it. */
syn_status syn__nccl_check_others(const syn__cuda_exchanges *x, syn_error *err) SYN_MUST_USE;
/* A failure s that NCCL told is often another rank's end, whose sentence comes soon and says more:
   that one then. */
syn_status syn__nccl_or_others(const syn__cuda_exchanges *x, syn_status s,
                               syn_error *err) SYN_MUST_USE;
bool syn__nccl_too_long(const syn__cuda_exchanges *x, uint64_t since_ns);
/* Of another rank, of NCCL, or that it has been too long since since_ns. From any thread. */
syn_status syn__nccl_check_all(syn__cuda_exchanges *x, uint64_t since_ns,
                               syn_error *err) SYN_MUST_USE;
/* A moment, the longer the longer it has been. */
void syn__nccl_moment(uint64_t since_ns);
/* The thread that ends calls of NCCL that block for too long, or for a rank that failed; those
   between enter and leave, which fails with why. */
syn_status syn__nccl_watch(syn__cuda_exchanges *x, syn_error *err) SYN_MUST_USE;
void syn__nccl_unwatch(syn__cuda_exchanges *x);
void syn__nccl_enter(syn__cuda_exchanges *x);
syn_status syn__nccl_leave(syn__cuda_exchanges *x, syn_error *err) SYN_MUST_USE;
#endif

/* ---- cuda_exchange.cu ---- */

/* The backend's members. */
syn_status syn__cuda_start(void *device, syn_call *call, uint32_t node, void **request,
                           syn_error *err);
syn_status syn__cuda_wait(void *device, void *request, syn_error *err);
/* Gives times that are known by now to the context. */
void syn__cuda_exchanges_times(syn__cuda_exchanges *x);
void syn__cuda_request_free(syn__cuda_request *r);

/* ---- ops/cuda/cuda_gather.cu ---- */

/* blocks [n][outer][inner] <-> rows [outer][n][inner], inner in bytes */
syn_status syn__cuda_weave(cudaStream_t stream, const void *from, void *to, int64_t n,
                           int64_t outer, int64_t inner_bytes, bool to_rows,
                           syn_error *err) SYN_MUST_USE;

#endif
