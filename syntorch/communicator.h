/* The interface of a communicator, through which one rank of a world communicates with the other
   ranks. comm/ implements it. Models use it only through communication ops.

   A rank starts an operation (a collective or a message) and later waits for it; in between it does
   other work. Collectives of one group run in the order in which they were started, and all members
   must start them in the same order. Collectives of different groups, and messages, run
   concurrently. A rank may wait for its operations in any order. */
#ifndef SYNTORCH_COMMUNICATOR_H
#define SYNTORCH_COMMUNICATOR_H

#include "syntorch/base/types.h"

SYN_API_BEGIN

typedef struct syn_comm syn_comm;

/* A process group, as one of its members sees it. The communicator owns it. An id identifies the
   same group on all ranks. */
typedef struct syn_group {
    uint32_t id;          /* >= 1, the same on all members */
    const char *name;     /* "tp0" */
    const int32_t *ranks; /* global ranks, ascending or in ring order */
    int32_t size;
    int32_t index; /* this rank's position in ranks */
    void *impl;
} syn_group;

/* An array to read and an array to write. They must not overlap, except that all_reduce and
   broadcast allow in == out. */
typedef struct syn_segment {
    const void *in;
    void *out;
    size_t n_elems; /* elements, not bytes */
} syn_segment;

/* One operation, as a rank starts it. The table lists the fields that each kind uses; other fields
   are ignored. Messages have one segment, and collectives have 1 to SYN_MAX_LIST segments, whose
   lengths are the same on all members. The result of all_reduce and broadcast is the same as if
   each segment were an operation of its own. all_gather and reduce_scatter regard the segments as
   one array: the elements of segment 0, then those of segment 1, and so on. Each rank has an equal
   part of this array, and n_part is its length. If the parts are longer than the array, the
   elements beyond its end are padding.

   An all_to_all has one segment: n_elems elements to read, to[i] of them for member i, in rank
   order, and from[i] elements of member i are written, in rank order. The numbers may differ
   between ranks, but to[i] here is from[j] on member i, where j is this rank's index.

   kind            fields (collectives also use group)
   ALL_REDUCE      out[i] = reduction over ranks of in[i], in rank order
   ALL_GATHER      part is read; out[i] = segment i of the array that consists of all ranks' parts,
   in rank order. Padding is not written REDUCE_SCATTER  part = this rank's part of the reduction
   over ranks of in[i]. Padding becomes 0 ALL_TO_ALL      in, out, to, from BROADCAST       root; in
   is read on the root only BARRIER no segment SEND            in, peer, tag; no group. Buffered:
   does not wait for the receive RECV out, peer, tag; no group. Messages with the same source,
   destination and tag arrive in the order in which they were sent */
typedef struct syn_comm_call {
    syn_comm_kind kind;
    syn_dtype dtype;
    syn_reduce reduce;
    int32_t root; /* index of the root within the group */
    int32_t peer; /* global rank */
    int32_t tag;  /* >= 0 */
    bool now;     /* the rank waits immediately, so no other thread has to run it */
    /* The backend moves the data of this collective, from device to device. The communicator then
       touches no array. It only compares the calls of the members, if it has such a check. */
    bool elsewhere;
    int32_t n_segments;
    const syn_group *group; /* from syn_comm_open_group */
    const syn_segment *segments;
    void *part; /* must not overlap the segments */
    size_t n_part;
    const int64_t *to, *from; /* group->size elements each; the caller owns them until it has waited
                                 for the operation */
} syn_comm_call;

/* When an operation ran. A message begins when it is started, even if it then waits for the other
   rank. An operation that was waited for immediately (syn_comm_call.now) sets only wait_ns. */
typedef struct syn_comm_times {
    uint64_t begin_ns, end_ns; /* on the monotonic clock */
    uint64_t wait_ns;          /* time spent waiting for other ranks; 0 if not measured */
    uint64_t cpu_ns;           /* CPU time of the thread that ran it */
} syn_comm_times;

/* An operation in flight, owned by the communicator. The rank must wait for it exactly once. */
typedef struct syn_request syn_request;

typedef struct syn_comm_ops {
    const char *name; /* "self", "local", "mpi", "fake" */
    bool moves_data;  /* false ("fake"): shapes only; start, wait and check are NULL */
    /* Implement syn_comm_open_group and syn_comm_next_group. */
    syn_status (*open_group)(syn_comm *comm, uint32_t id, const char *name, const int32_t *ranks,
                             int32_t n_ranks, syn_group **out, syn_error *err);
    const syn_group *(*next_group)(const syn_comm *comm, uint32_t id);
    /* hold adds a user of the communicator and release removes one; the last release frees it. The
       users are the contexts and, until syn_comm_close, the code that opened the communicator. Both
       may be called from any thread. */
    void (*hold)(syn_comm *comm);
    void (*release)(syn_comm *comm);
    /* Starts the operation *call, which is copied with its list of segments. The arrays belong
       to the communicator until the rank has waited for the operation. start fails, and starts
       nothing, if the arguments are invalid or memory or threads run out. Later failures are
       reported by wait. */
    syn_status (*start)(syn_comm *comm, const syn_comm_call *call, syn_request **request,
                        syn_error *err);
    /* Waits until the operation is done or has failed, and frees the request in both cases. times
       may be NULL. */
    syn_status (*wait)(syn_comm *comm, syn_request *request, syn_comm_times *times, syn_error *err);
    /* Reports that this rank has failed, with the error message `reason`. The operations of the
       other ranks then fail with this message, and those that this rank has in flight fail soon.
       Never blocks. */
    void (*abort)(syn_comm *comm, const char *reason);
    /* Implements syn_comm_close: ends this rank's communication and frees its resources, except
       groups and the communicator itself. Collectives in flight are finished first, because other
       ranks depend on them; receives are cancelled and fail. The rank can still wait for the
       requests. */
    void (*close)(syn_comm *comm);
    bool in_process; /* the ranks are threads of one process */
    /* Called by a rank that waits for something other than the communicator: fails if another rank
       has failed, with that rank's error message. NULL: a failure ends all processes. */
    syn_status (*check)(const syn_comm *comm, syn_error *err);
} syn_comm_ops;

struct syn_comm {
    const syn_comm_ops *ops;
    int32_t rank, size;
    int32_t max_tag;    /* the largest tag of a message; 0: INT32_MAX. See syn_comm_max_tag */
    bool closed;        /* syn_comm_close was called: no communication is possible */
    uint64_t origin_ns; /* a time of the monotonic clock. All ranks count their times from it, so
                           that times of different ranks can be compared. 0: each rank counts from
                           the creation of its context */
};

/* Ends this rank's communication. The communicator and its groups remain valid until the last
   context created with it is freed, but cannot be used to communicate. comm may be NULL. */
void syn_comm_close(syn_comm *comm);

/* The largest tag that messages may have. MPI libraries have a limit of their own (MPI_TAG_UB),
   which is at least 32767. */
int32_t syn_comm_max_tag(const syn_comm *comm);

/* Opens a group of the given global ranks, which must include comm->rank. Every member calls it
   with the same arguments, in the same order. The group lives as long as the communicator. */
syn_status syn_comm_open_group(syn_comm *comm, uint32_t id, const char *name, const int32_t *ranks,
                               int32_t n_ranks, syn_group **out, syn_error *err) SYN_MUST_USE;
/* The open group with this id; NULL if there is none. */
const syn_group *syn_comm_group(const syn_comm *comm, uint32_t id);
/* The group with the next higher id; NULL if there is none. */
const syn_group *syn_comm_next_group(const syn_comm *comm, uint32_t id);

/* Starts an operation and waits for it. wait_ns may be NULL; see syn_comm_times. */
syn_status syn_comm_run(syn_comm *comm, const syn_comm_call *call, uint64_t *wait_ns,
                        syn_error *err) SYN_MUST_USE;
/* Send or receive a message, and wait until the operation is done. */
syn_status syn_comm_send(syn_comm *comm, const void *in, size_t n_elems, syn_dtype dtype,
                         int32_t peer, int32_t tag, syn_error *err) SYN_MUST_USE;
syn_status syn_comm_recv(syn_comm *comm, void *out, size_t n_elems, syn_dtype dtype, int32_t peer,
                         int32_t tag, syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
