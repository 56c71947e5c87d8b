/* The interface of a communicator: how one rank of a world communicates with the others. comm/
   implements it; models reach it through collective ops.

   An operation is started and later waited for; the rank does other work in between. Operations of
   one group run in the order in which they were started, which must be the same on all members.
   Operations of different groups, and messages, run concurrently. Waits may come in any order. */
#ifndef SYNTORCH_COMMUNICATOR_H
#define SYNTORCH_COMMUNICATOR_H

#include "syntorch/base/types.h"

SYN_API_BEGIN

typedef struct syn_comm syn_comm;

/* A process group, as one of its members sees it. The communicator owns it. Equal ids are equal
   groups on all ranks. */
typedef struct syn_group {
    uint32_t id;          /* >= 1, the same on all members */
    const char *name;     /* "tp0" */
    const int32_t *ranks; /* global ranks, ascending or ring order */
    int32_t size;
    int32_t index; /* this rank's position in ranks */
    void *impl;
} syn_group;

/* One array to read and one to write. They do not overlap, except that all_reduce and broadcast
   allow in == out. */
typedef struct syn_segment {
    const void *in;
    void *out;
    size_t n_elems; /* elements, not bytes */
} syn_segment;

/* One operation, as a rank starts it. Fields that a kind does not list are ignored. Most operations
   have one segment. all_reduce and broadcast take up to SYN_MAX_LIST segments, of the same lengths
   on all members, and treat each as if it were alone.

   kind            fields (collectives also use group)
   ALL_REDUCE      out[i] = reduction over ranks of in[i], in rank order
   ALL_GATHER      n_elems of in; out holds size times as many: rank after rank
   REDUCE_SCATTER  n_elems of out: this rank's shard of the reduction; in holds size times as many
   BROADCAST       root; in is read on the root only
   BARRIER         no segment
   SEND            in, peer, tag; no group. Buffered: does not wait for the receive
   RECV            out, peer, tag; no group. Messages with the same source, destination and tag
                   arrive in the order in which they were sent */
typedef struct syn_comm_call {
    syn_comm_kind kind;
    syn_dtype dtype;
    syn_reduce reduce;
    int32_t root; /* index within the group */
    int32_t peer; /* global rank */
    int32_t tag;  /* >= 0 */
    bool now;     /* the rank waits immediately, so no other thread has to run it */
    /* The data of the collective travels another way (from device to device). The communicator
       touches no array; it only compares the calls of the members, if it does that. */
    bool elsewhere;
    int32_t n_segments;
    const syn_group *group; /* as syn_comm_open_group gave it */
    const syn_segment *segments;
} syn_comm_call;

/* When an operation ran. A message runs from its start. An operation that was waited for
   immediately has only wait_ns. */
typedef struct syn_comm_times {
    uint64_t begin_ns, end_ns; /* of the monotonic clock */
    uint64_t wait_ns;          /* part of it spent waiting for other ranks; 0 if not measured */
    uint64_t cpu_ns;           /* CPU time of the thread that ran it */
} syn_comm_times;

/* An operation in flight, owned by the communicator. Each must be waited for once. */
typedef struct syn_request syn_request;

typedef struct syn_comm_ops {
    const char *name; /* "self", "local", "mpi", "fake" */
    bool moves_data;  /* false ("fake"): shapes only; start, wait and check are NULL */
    /* syn_comm_open_group and syn_comm_next_group. */
    syn_status (*open_group)(syn_comm *comm, uint32_t id, const char *name, const int32_t *ranks,
                             int32_t n_ranks, syn_group **out, syn_error *err);
    const syn_group *(*next_group)(const syn_comm *comm, uint32_t id);
    /* Count the users of the communicator: contexts, and its opener until syn_comm_close. The last
       release frees it. May be called from any thread. */
    void (*hold)(syn_comm *comm);
    void (*release)(syn_comm *comm);
    /* Starts *exchange, which is copied with its list of segments. The arrays belong to the
       communicator until the operation was waited for. If the arguments are invalid, or memory or
       threads run out, it fails and starts nothing; failures of the operation come from wait. */
    syn_status (*start)(syn_comm *comm, const syn_comm_call *exchange, syn_request **request,
                        syn_error *err);
    /* Waits until the operation is done or has failed, and frees the request in both cases. times
       may be NULL. */
    syn_status (*wait)(syn_comm *comm, syn_request *request, syn_comm_times *times, syn_error *err);
    /* This rank has failed with `reason`: wakes the other ranks with that sentence. Operations that
       this rank has in flight fail soon. Never blocks. */
    void (*abort)(syn_comm *comm, const char *reason);
    /* Ends this rank's part and frees its resources, except groups and the communicator itself;
       called by syn_comm_close. Collectives in flight are finished first, because other ranks
       depend on them; receives are cancelled and fail. Their requests can still be waited for. */
    void (*close)(syn_comm *comm);
    bool in_process; /* ranks are threads of one process */
    /* Fails with the sentence of a rank that has failed, for ranks that wait elsewhere. NULL: a
       failure ends all processes. */
    syn_status (*check)(const syn_comm *comm, syn_error *err);
} syn_comm_ops;

struct syn_comm {
    const syn_comm_ops *ops;
    int32_t rank, size;
    bool closed;        /* no communication is possible any more */
    uint64_t origin_ns; /* monotonic clock: all ranks count their times from here, so that times of
                           different ranks compare; 0: each from the creation of its context */
};

/* Ends this rank's part. The communicator and its groups remain valid until the last context
   created with it is freed, but no communication is possible. NULL is allowed. */
void syn_comm_close(syn_comm *comm);

/* Opens a group of the given global ranks, which must include comm->rank. Every member calls it
   with the same arguments, in the same order. The group lives as long as the communicator. */
syn_status syn_comm_open_group(syn_comm *comm, uint32_t id, const char *name, const int32_t *ranks,
                               int32_t n_ranks, syn_group **out, syn_error *err) SYN_MUST_USE;
/* The group opened with that id; NULL if there is none. */
const syn_group *syn_comm_group(const syn_comm *comm, uint32_t id);
/* The group with the next higher id; NULL if there is none. */
const syn_group *syn_comm_next_group(const syn_comm *comm, uint32_t id);

/* Starts an operation and waits for it. wait_ns: see syn_comm_times; may be NULL. */
syn_status syn_comm_run(syn_comm *comm, const syn_comm_call *exchange, uint64_t *wait_ns,
                        syn_error *err) SYN_MUST_USE;
/* Send and receive a message, and wait until it is done. */
syn_status syn_comm_send(syn_comm *comm, const void *in, size_t n_elems, syn_dtype dtype,
                         int32_t peer, int32_t tag, syn_error *err) SYN_MUST_USE;
syn_status syn_comm_recv(syn_comm *comm, void *out, size_t n_elems, syn_dtype dtype, int32_t peer,
                         int32_t tag, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
