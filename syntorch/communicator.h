/* The interface of a communicator: how one rank of a world exchanges data with the others.
   Implementations live in comm/; collectives reach them through the ops.

   An operation is started and waited for; in between the rank does other things. Operations of one
   group run in the order in which they were started, which is the same on all members; those of
   different groups, and messages, run beside each other. Waiting may be in any order. */
#ifndef SYNTORCH_COMMUNICATOR_H
#define SYNTORCH_COMMUNICATOR_H

#include "syntorch/base/types.h"

SYN_API_BEGIN

typedef struct syn_comm syn_comm;

/* A process group as its members see it. Owned by the communicator. Equal ids mean equal groups on
   all ranks. */
typedef struct syn_group {
    uint32_t id;          /* >= 1, the same on all members */
    const char *name;     /* "tp0" */
    const int32_t *ranks; /* global ranks, ascending or ring order */
    int32_t size;
    int32_t index; /* of this rank within ranks */
    void *impl;
} syn_group;

/* An array that is read, one that is written, and how many elements: never bytes. They do not
   overlap, except that all_reduce and broadcast allow in == out. */
typedef struct syn_segment {
    const void *in;
    void *out;
    size_t n_elems;
} syn_segment;

/* One operation as a rank starts it. What a kind does not mention it does not look at. It has one
   segment; all_reduce and broadcast have up to SYN_MAX_LIST, cut alike on all members, and treat
   each as if it were alone.

   kind            group, and
   ALL_REDUCE      out[i] = reduction over ranks of in[i], in rank order
   ALL_GATHER      n_elems of in; out holds size times as many: rank after rank
   REDUCE_SCATTER  n_elems of out: this rank's part of the reduction; in holds size times as many
   BROADCAST       root; in is read on the root only
   BARRIER         no segment
   SEND            in, peer, tag, without a group. Does not wait for the receive (buffered)
   RECV            out, peer, tag, without a group; messages of one (source, destination, tag)
                   arrive in the order in which they were sent */
typedef struct syn_exchange {
    syn_comm_kind kind;
    syn_dtype dtype;
    syn_reduce reduce;
    int32_t root; /* index within the group */
    int32_t peer; /* global rank */
    int32_t tag;  /* >= 0 */
    bool now;     /* the rank waits for it at once: no other thread need run it */
    /* The data of a collective go another way (from device to device), and no array is touched:
       members that compare what they call do so, and that is all. */
    bool elsewhere;
    int32_t n_segments;
    const syn_group *group; /* as syn_comm_open_group gave it */
    const syn_segment *segments;
} syn_exchange;

/* When an operation ran; a message runs from its start. Of what was waited for at once only wait_ns
   is known. */
typedef struct syn_exchange_times {
    uint64_t begin_ns, end_ns; /* of the monotonic clock */
    uint64_t wait_ns;          /* of that, waiting for other ranks; 0 if not measured */
    uint64_t cpu_ns;           /* of the thread that ran it */
} syn_exchange_times;

/* An operation that was started; the communicator's. Each is waited for once. */
typedef struct syn_request syn_request;

typedef struct syn_comm_ops {
    const char *name; /* "self", "local", "mpi", "fake" */
    bool moves_data;  /* false: shapes only ("fake"); start, wait and check are then NULL */
    /* syn_comm_open_group and syn_comm_next_group. */
    syn_status (*open_group)(syn_comm *comm, uint32_t id, const char *name, const int32_t *ranks,
                             int32_t n_ranks, syn_group **out, syn_error *err);
    const syn_group *(*next_group)(const syn_comm *comm, uint32_t id);
    /* A context uses the communicator, or does no more: the last release frees it. The opener is
       one of the users until syn_comm_close. Called from any thread. */
    void (*hold)(syn_comm *comm);
    void (*release)(syn_comm *comm);
    /* Starts *exchange, which is copied with its list of segments; their arrays are the
       communicator's until it was waited for. Fails, and has then started nothing, for arguments
       that no rank could mean and when memory or threads are out; wait returns failures of the
       operation. */
    syn_status (*start)(syn_comm *comm, const syn_exchange *exchange, syn_request **request,
                        syn_error *err);
    /* Waits until it is done, or has failed, and ends the request either way. times may be NULL. */
    syn_status (*wait)(syn_comm *comm, syn_request *request, syn_exchange_times *times,
                       syn_error *err);
    /* This rank has failed with `reason`: wakes the others with that sentence; what it started
       itself then fails soon. Never blocks. */
    void (*abort)(syn_comm *comm, const char *reason);
    /* Ends this rank's part and frees what belongs to it, but for groups and communicator:
       syn_comm_close calls it. Collectives that were started and not waited for are finished first,
       as others count on them; receives are taken back and fail. Their requests can still be
       waited for. */
    void (*close)(syn_comm *comm);
    bool in_process; /* ranks are threads of one process */
    /* Whether a rank has failed, with its sentence; for those that wait elsewhere. NULL: a failure
       ends all processes. */
    syn_status (*check)(const syn_comm *comm, syn_error *err);
} syn_comm_ops;

struct syn_comm {
    const syn_comm_ops *ops;
    int32_t rank, size;
    bool closed;        /* nothing can be exchanged any more */
    uint64_t origin_ns; /* of the monotonic clock: all ranks count their times from here, so that
                           they can be compared; 0: each from when its context was made */
};

/* Ends this rank's part. Communicator and groups stay as they are until the last context made with
   it is freed: it can still be used, but nothing can be exchanged in it. NULL is allowed. */
void syn_comm_close(syn_comm *comm);

/* Opens a group of the given global ranks, which must hold comm->rank. The pointer is valid as long
   as the communicator. */
syn_status syn_comm_open_group(syn_comm *comm, uint32_t id, const char *name, const int32_t *ranks,
                               int32_t n_ranks, syn_group **out, syn_error *err) SYN_MUST_USE;
/* The group opened with that id; NULL if there is none. */
const syn_group *syn_comm_group(const syn_comm *comm, uint32_t id);
/* The one with the next higher id; NULL: there is none. */
const syn_group *syn_comm_next_group(const syn_comm *comm, uint32_t id);

/* Starts an operation and waits for it. wait_ns as in syn_exchange_times; may be NULL. */
syn_status syn_comm_run(syn_comm *comm, const syn_exchange *exchange, uint64_t *wait_ns,
                        syn_error *err) SYN_MUST_USE;
/* Messages, waited for. */
syn_status syn_comm_send(syn_comm *comm, const void *in, size_t n_elems, syn_dtype dtype,
                         int32_t peer, int32_t tag, syn_error *err) SYN_MUST_USE;
syn_status syn_comm_recv(syn_comm *comm, void *out, size_t n_elems, syn_dtype dtype, int32_t peer,
                         int32_t tag, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
