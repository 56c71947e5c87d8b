/* The MPI communicator's inside; private to comm_mpi*.c. The only file that includes mpi.h. */
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

/* A message under way: a header that says what follows, then the elements. */
typedef struct syn__mpi_message {
    struct syn__mpi_message *next; /* among those sent */
    int64_t header[2];             /* dtype, elements */
    void *data;                    /* of a sent one in the same block, as are the requests */
    int n_requests;
    MPI_Request *requests; /* the header's, then those of the pieces */
} syn__mpi_message;

/* A thread that lets MPI move messages while the rank computes. */
typedef struct syn__mpi_mover {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool runs, stop;
    int under_way; /* messages */
} syn__mpi_mover;

typedef struct syn__mpi {
    syn__comm base;   /* with threads: MPI may be called by all of them at once */
    bool initialised; /* by us */
    bool check, measure;
    size_t limit;                      /* largest count given to MPI */
    MPI_Comm messages, checks;         /* of all ranks */
    MPI_Op keep_nan_min, keep_nan_max; /* of f32 */
    syn__mpi_message *sent;
    syn__mpi_mover mover;
    syn__watchdog *dog;
    void (*log)(void *log_arg, const char *sentence); /* NULL: silent */
    void *log_arg;
} syn__mpi;

/* A signature on its way to another rank. */
typedef struct syn__mpi_wire {
    int64_t kind, dtype, reduce, root, n_elems, n_segments, cut, group_id, seq;
    char group[SYN__MPI_NAME_BYTES];
} syn__mpi_wire;

typedef struct syn__mpi_group {
    MPI_Comm comm;
    unsigned char *scratch; /* SYN__MPI_SCRATCH_BYTES */
    syn__mpi_wire *wires;   /* size, with check */
    MPI_Request *requests;  /* 2 * size, with check */
} syn__mpi_group;

/* SYN_E_COMM with MPI's own words for `code`. */
syn_status syn__mpi_failed(int code, const char *what, syn_error *err);
#define SYN__TRY_MPI(what, expr)                                              \
    do {                                                                      \
        const int code_ = (expr);                                             \
        if (code_ != MPI_SUCCESS) return syn__mpi_failed(code_, (what), err); \
    } while (0)

MPI_Datatype syn__mpi_type(syn_dtype dtype);
/* Frees sent messages that have left. */
syn_status syn__mpi_reap(syn__mpi *self, syn_error *err) SYN_MUST_USE;
/* Creates the operations that keep NaN. */
syn_status syn__mpi_ops_new(syn__mpi *self, syn_error *err) SYN_MUST_USE;

/* For what threads beside the rank's own do between two looks at MPI. */
void syn__mpi_rest(void);
/* Ends the thread that moves messages and frees those sent, once they have left. */
void syn__mpi_messages_end(syn__mpi *self);

/* Members of syn__transport. */
syn_status syn__mpi_run_collective(syn__comm *comm, syn_request *request, syn_error *err);
syn_status syn__mpi_post(syn__comm *comm, syn_request *message, syn_error *err);
syn_status syn__mpi_settle(syn__comm *comm, syn_request *message, syn_error *err);
void syn__mpi_withdraw(syn__comm *comm, syn_request *message);

#endif
#endif
