/* Starting and waiting, written once for all communicators; private to comm/.

   Collectives of one group form a stream on each rank: a queue whose head is run to its end by one
   thread at a time. One that the rank waits for at once runs on the rank's own thread. For the
   others the stream gets a thread when the first is started; a rank that waits runs what that
   thread has not taken yet itself. Messages need no thread: see what `post` of
   the communicator does. */
#ifndef COMM_COMM_REQUEST_H
#define COMM_COMM_REQUEST_H

#include "comm/comm_internal.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct syn__stream {
    struct syn__comm *comm;
    uint64_t started;          /* collectives of the group so far */
    syn_request *head, **tail; /* started, taken by nobody */
    syn_request *running;
    syn_error error; /* of the first that failed; what follows fails with it */
    bool has_thread, stop;
    pthread_t thread;
    pthread_cond_t work; /* for the thread */
} syn__stream;

/* Groups are allocated one by one so that pointers to them stay valid. */
typedef struct syn__group_node {
    struct syn__group_node *next;
    syn__stream stream;
    syn_group group; /* its name and ranks lie in the same block */
} syn__group_node;

typedef enum syn__request_state {
    SYN__OPEN,
    SYN__FILLING, /* a receive whose buffer is being written */
    SYN__DONE
} syn__request_state;

struct syn_request {
    syn_request *next;   /* in a stream or a mailbox, or among the idle */
    syn_request *made;   /* the one made before it */
    syn__turn turn;      /* its list is `segments` */
    syn__stream *stream; /* NULL: a message */
    bool on_main;        /* run by the rank's own thread */
    _Atomic uint64_t state;
    syn_exchange_times times;
    syn_error error;
    void *impl;
    syn_segment segments[SYN_MAX_LIST];
};

/* What a communicator adds. */
typedef struct syn__transport {
    /* Runs a collective to its end on the calling thread; sets times.wait_ns. */
    syn_status (*run)(struct syn__comm *comm, syn_request *request, syn_error *err);
    /* Starts a message; sends are done then. */
    syn_status (*post)(struct syn__comm *comm, syn_request *message, syn_error *err);
    /* Waits until a receive is done. */
    syn_status (*settle)(struct syn__comm *comm, syn_request *message, syn_error *err);
    /* Takes back a receive that is not done: its buffer is left alone from now on. */
    void (*withdraw)(struct syn__comm *comm, syn_request *message);
    /* The rest may be NULL. Makes a group known, which every member does in the same order; ends it
       (syn__comm_close_groups). */
    syn_status (*open_group)(syn_comm *comm, syn_group *group, syn_error *err);
    void (*close_group)(syn_comm *comm, syn_group *group);
    /* A collective got its number; the rank's own thread begins, and ends,
       to sleep until another has run a collective. */
    void (*numbered)(struct syn__comm *comm, const syn_request *request);
    void (*block)(struct syn__comm *comm, const syn_request *request);
    void (*unblock)(struct syn__comm *comm);
} syn__transport;

/* Every communicator begins with this. */
typedef struct syn__comm {
    syn_comm pub;
    const syn__transport *transport;
    bool threads;           /* streams may have threads; otherwise collectives run when started */
    syn__group_node *nodes; /* newest first */
    pthread_mutex_t lock;   /* of all streams that have a thread */
    pthread_cond_t done;    /* a stream's thread has run something */
    syn_request *made, *idle;
    _Atomic int32_t holds; /* besides one: of contexts, and the opener's until it is closed */
} syn__comm;

void syn__comm_init(syn__comm *comm, const syn_comm_ops *ops, const syn__transport *transport);
/* Finishes the collectives that were started and ends their threads; takes receives back. */
void syn__comm_finish(syn__comm *comm);
void syn__comm_requests_free(syn__comm *comm);
/* close_group of all groups, for communicators that have it. */
void syn__comm_close_groups(syn__comm *comm);

/* A message is done: says when. */
void syn__message_done(syn_request *message);

/* Members of syn_comm_ops. */
syn_status syn__comm_open_group(syn_comm *comm, uint32_t id, const char *name, const int32_t *ranks,
                                int32_t n_ranks, syn_group **out, syn_error *err);
const syn_group *syn__comm_next_group(const syn_comm *comm, uint32_t id);
void syn__comm_add_user(syn_comm *comm);
void syn__comm_drop_user(syn_comm *comm);
syn_status syn__comm_start(syn_comm *comm, const syn_exchange *exchange, syn_request **request,
                           syn_error *err);
syn_status syn__comm_wait(syn_comm *comm, syn_request *request, syn_exchange_times *times,
                          syn_error *err);

#endif
