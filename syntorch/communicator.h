/* The interface of a communicator: how one rank of a world exchanges data with the others.
   Implementations live in comm/; collectives reach them through the ops. Blocking; every rank of a
   group calls the same sequence. */
#ifndef SYNTORCH_COMMUNICATOR_H
#define SYNTORCH_COMMUNICATOR_H

#include "syntorch/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn_comm syn_comm;

/* A process group as its members see it. Owned by the communicator. Equal ids mean equal groups on
 * all ranks. */
typedef struct syn_group {
    uint32_t id;          /* >= 1, the same on all members */
    const char *name;     /* "tp0" */
    const int32_t *ranks; /* global ranks, ascending or ring order */
    int32_t size;
    int32_t index; /* of this rank within ranks */
    void *impl;
} syn_group;

/* n_elems are elements, never bytes. in and out do not overlap, except that all_reduce and
   broadcast allow in == out. wait_ns (never NULL) receives the time spent waiting for other ranks
   to arrive, 0 if not measured. */
typedef struct syn_comm_ops {
    const char *name; /* "self", "local", "mpi", "fake" */
    bool moves_data;  /* false: shapes only ("fake"); of the members below only abort and close are
                         then not NULL */
    /* Makes groups known. Every member calls it with the same arguments, in the same order. */
    syn_status (*open_group)(syn_comm *comm, syn_group *group, syn_error *err);
    void (*close_group)(syn_comm *comm, syn_group *group);
    /* out[i] = reduction over ranks of in[i], in rank order. */
    syn_status (*all_reduce)(syn_comm *comm, const syn_group *group, const void *in, void *out,
                             size_t n_elems, syn_dtype dtype, syn_reduce reduce, uint64_t *wait_ns,
                             syn_error *err);
    /* out holds size * n_elems elements: rank after rank. n_elems: of this rank's input. */
    syn_status (*all_gather)(syn_comm *comm, const syn_group *group, const void *in, void *out,
                             size_t n_elems, syn_dtype dtype, uint64_t *wait_ns, syn_error *err);
    /* in holds size * n_elems elements; out the reduced n_elems of this rank. */
    syn_status (*reduce_scatter)(syn_comm *comm, const syn_group *group, const void *in, void *out,
                                 size_t n_elems, syn_dtype dtype, syn_reduce reduce,
                                 uint64_t *wait_ns, syn_error *err);
    /* root: index within the group. in is read on the root only. */
    syn_status (*broadcast)(syn_comm *comm, const syn_group *group, const void *in, void *out,
                            size_t n_elems, syn_dtype dtype, int32_t root, uint64_t *wait_ns,
                            syn_error *err);
    /* peer: global rank; messages of one (source, destination, tag) arrive in order. Sends do not
       wait for the receive to be posted (buffered). */
    syn_status (*send)(syn_comm *comm, const void *in, size_t n_elems, syn_dtype dtype,
                       int32_t peer, int32_t tag, uint64_t *wait_ns, syn_error *err);
    syn_status (*recv)(syn_comm *comm, void *out, size_t n_elems, syn_dtype dtype, int32_t peer,
                       int32_t tag, uint64_t *wait_ns, syn_error *err);
    syn_status (*barrier)(syn_comm *comm, const syn_group *group, uint64_t *wait_ns,
                          syn_error *err);
    /* This rank has failed with `reason`: wakes the others with that sentence. Never blocks. */
    void (*abort)(syn_comm *comm, const char *reason);
    /* Ends this rank's part and frees what belongs to it, but for groups and communicator:
       syn_comm_close calls it. */
    void (*close)(syn_comm *comm);
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
/* For contexts: each holds its communicator. May be called from any thread; NULL is allowed. */
void syn__comm_hold(syn_comm *comm);
void syn__comm_release(syn_comm *comm);

/* Opens a group of the given global ranks, which must hold comm->rank. The pointer is valid as long
   as the communicator. */
syn_status syn_comm_open_group(syn_comm *comm, uint32_t id, const char *name, const int32_t *ranks,
                               int32_t n_ranks, syn_group **out, syn_error *err) SYN_MUST_USE;
/* The group opened with that id; NULL if there is none. */
const syn_group *syn_comm_group(const syn_comm *comm, uint32_t id);

#ifdef __cplusplus
}
#endif
#endif
