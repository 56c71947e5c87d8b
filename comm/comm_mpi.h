/* The MPI communicator. Private to comm_mpi*.c. No other file includes mpi.h. */
#ifndef COMM_COMM_MPI_H
#define COMM_COMM_MPI_H

#include "comm/comm.h"
#include "comm/comm_request.h"
#include "comm/comm_watchdog.h"

#ifdef SYN_HAVE_MPI

#include <mpi.h>

#define SYN__MPI_SCRATCH_BYTES (4U << 20)
#define SYN__MPI_LIMIT         (1 << 30)
#define SYN__MPI_NAME_BYTES    48

/* A message in flight: a header that describes the data, then the elements. */
typedef struct syn__mpi_message {
    struct syn__mpi_message *next; /* in the list of sent messages */
    int64_t header[2];             /* dtype, elements */
    void *data; /* sends: a copy of the elements. The copy and the requests are in the same
                   allocation as the struct */
    int n_requests;
    MPI_Request *requests; /* the header's request, then one per piece of the data */
} syn__mpi_message;

/* A thread that makes MPI move messages while the rank computes. */
typedef struct syn__mpi_progress {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool runs, stop; /* runs: the thread was started; stop: it must end */
    int in_flight;   /* number of messages in flight */
} syn__mpi_progress;

typedef struct syn__mpi {
    syn__comm base;            /* base.threads: several threads may call MPI at the same time */
    bool initialised;          /* this communicator initialised MPI */
    bool check, measure;       /* check_collectives, measure_wait */
    size_t limit;              /* maximum count per MPI call */
    MPI_Comm messages, checks; /* communicators of all ranks */
    MPI_Op keep_nan_min, keep_nan_max; /* min and max of f32 that preserve NaN */
    syn__mpi_message *sent;            /* sends in flight */
    syn__mpi_progress mover;
    syn__watchdog *dog;                               /* NULL: none */
    void (*log)(void *log_arg, const char *sentence); /* NULL: silent */
    void *log_arg;
} syn__mpi;

/* A signature (syn__call_sig) in the form in which ranks send it to each other. */
typedef struct syn__mpi_sig {
    int64_t kind, dtype, reduce, root, n_elems, n_segments, n_part, cut, group_id, seq;
    char group[SYN__MPI_NAME_BYTES];
} syn__mpi_sig;

typedef struct syn__mpi_group {
    MPI_Comm comm;
    unsigned char *scratch; /* SYN__MPI_SCRATCH_BYTES */
    syn__mpi_sig *sigs;     /* `size` entries, if check */
    MPI_Request *requests;  /* 2 * size entries, if check */
} syn__mpi_group;

/* Fails with SYN_E_COMM and MPI's error text for `code`. */
syn_status syn__mpi_failed(int code, const char *what, syn_error *err);
#define SYN__TRY_MPI(what, expr)                                              \
    do {                                                                      \
        const int code_ = (expr);                                             \
        if (code_ != MPI_SUCCESS) return syn__mpi_failed(code_, (what), err); \
    } while (0)

MPI_Datatype syn__mpi_type(syn_dtype dtype);
/* Frees sent messages that MPI has finished sending. */
syn_status syn__mpi_free_sent(syn__mpi *self, syn_error *err) SYN_MUST_USE;
/* Creates keep_nan_min and keep_nan_max. */
syn_status syn__mpi_ops_new(syn__mpi *self, syn_error *err) SYN_MUST_USE;

/* Sleeps briefly, between two MPI calls of a thread that polls. */
void syn__mpi_backoff(void);
/* Waits until all messages are sent, frees them, and ends the thread that moves messages. */
void syn__mpi_messages_end(syn__mpi *self);

/* Members of syn__transport. */
syn_status syn__mpi_run_collective(syn__comm *comm, syn_request *request, syn_error *err);
syn_status syn__mpi_post(syn__comm *comm, syn_request *message, syn_error *err);
syn_status syn__mpi_settle(syn__comm *comm, syn_request *message, syn_error *err);
void syn__mpi_withdraw(syn__comm *comm, syn_request *message);

#endif
#endif
