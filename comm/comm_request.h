/* Starting and waiting for operations, for all communicators. Private to comm/.

   On each rank, the collectives of one group form a stream: a queue whose head is run to completion
   by one thread at a time. If the rank waits immediately (`now`), its own thread runs the
   collective. When the first collective without `now` is started, the stream gets a thread. A rank
   that waits helps: it runs queued collectives that the stream's thread has not begun yet. Messages
   need no thread: the communicator's `post` handles them. */
#ifndef COMM_COMM_REQUEST_H
#define COMM_COMM_REQUEST_H

#include "comm/comm_internal.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct syn__stream {
    struct syn__comm *comm;
    uint64_t started;          /* number of collectives of the group started so far */
    syn_request *head, **tail; /* started, but not run yet */
    syn_request *running;
    syn_error error; /* error of the first collective that failed; later collectives fail with the
                        same error */
    bool has_thread, stop;
    pthread_t thread;
    pthread_cond_t work; /* wakes the stream's thread */
} syn__stream;

/* Groups are allocated one by one, so that pointers to them stay valid. */
typedef struct syn__group_node {
    struct syn__group_node *next;
    syn__stream stream;
    syn_group group; /* name and ranks are in the same allocation */
} syn__group_node;

typedef enum syn__request_state {
    SYN__OPEN,
    SYN__FILLING, /* a receive whose buffer is being written */
    SYN__DONE
} syn__request_state;

struct syn_request {
    syn_request *next;      /* the next request in a stream, a mailbox or the idle list */
    syn_request *made;      /* the request that was allocated before it */
    syn__call_sig sig;      /* its segments are those below */
    syn__stream *stream;    /* NULL for messages */
    bool on_main;           /* the rank's own thread runs it */
    _Atomic uint64_t state; /* syn__request_state */
    syn_comm_times times;
    syn_error error;
    void *impl; /* the communicator's own data, such as an MPI message */
    syn_segment *segments;
    size_t segments_cap;
};

/* The functions that a communicator implements. */
typedef struct syn__transport {
    /* Runs a collective to completion on the calling thread. Sets times.wait_ns. */
    syn_status (*run)(struct syn__comm *comm, syn_request *request, syn_error *err);
    /* Starts a message. A send is done when the function returns. */
    syn_status (*post)(struct syn__comm *comm, syn_request *message, syn_error *err);
    /* Waits until a receive is done. */
    syn_status (*settle)(struct syn__comm *comm, syn_request *message, syn_error *err);
    /* Cancels a receive that is not done. Its buffer is not written any more. */
    void (*withdraw)(struct syn__comm *comm, syn_request *message);
    /* The following functions may be NULL. open_group creates the transport's part of a group
       (syn_group.impl); every member calls it in the same order. close_group frees it
       (syn__comm_close_groups). */
    syn_status (*open_group)(syn_comm *comm, syn_group *group, syn_error *err);
    void (*close_group)(syn_comm *comm, syn_group *group);
    /* numbered is called when a collective has got its number. block and unblock are called before
       and after the rank's own thread sleeps until another thread has run a collective. */
    void (*numbered)(struct syn__comm *comm, const syn_request *request);
    void (*block)(struct syn__comm *comm, const syn_request *request);
    void (*unblock)(struct syn__comm *comm);
} syn__transport;

/* The first member of every communicator. */
typedef struct syn__comm {
    syn_comm pub;
    const syn__transport *transport;
    bool threads; /* whether streams may have threads; otherwise collectives run when they are
                     started */
    syn__group_node *nodes;   /* the groups, the last opened first */
    pthread_mutex_t lock;     /* protects all streams that have a thread */
    pthread_cond_t done;      /* signalled when a stream's thread has run a collective */
    syn_request *made, *idle; /* two lists: all requests, and those that can be reused */
    _Atomic int32_t holds;    /* number of users minus one; users are contexts, and the opener until
                                 it closes the communicator */
} syn__comm;

/* Initializes a communicator that was allocated with zeros, without groups or requests. */
void syn__comm_init(syn__comm *comm, const syn_comm_ops *ops, const syn__transport *transport);
/* Finishes the collectives that were started, ends the streams' threads, and cancels receives. */
void syn__comm_finish(syn__comm *comm);
/* Frees all requests and the locks. */
void syn__comm_requests_free(syn__comm *comm);
/* Calls close_group for all groups, for communicators that have it. */
void syn__comm_close_groups(syn__comm *comm);

/* Marks a message as done and sets its end time. */
void syn__message_done(syn_request *message);

/* Members of syn_comm_ops. */
syn_status syn__comm_open_group(syn_comm *comm, uint32_t id, const char *name, const int32_t *ranks,
                                int32_t n_ranks, syn_group **out, syn_error *err);
const syn_group *syn__comm_next_group(const syn_comm *comm, uint32_t id);
void syn__comm_add_user(syn_comm *comm);
void syn__comm_drop_user(syn_comm *comm);
syn_status syn__comm_start(syn_comm *comm, const syn_comm_call *call, syn_request **request,
                           syn_error *err);
syn_status syn__comm_wait(syn_comm *comm, syn_request *request, syn_comm_times *times,
                          syn_error *err);

#endif
