/* The MPI communicator's inside; private to comm_mpi*.c. The only file that includes mpi.h. */
#ifndef COMM_COMM_MPI_H
#define COMM_COMM_MPI_H

#include "comm/comm.h"
#include "comm/comm_watchdog.h"

#ifdef SYN_HAVE_MPI

#include <mpi.h>

#define SYN__MPI_SCRATCH_BYTES (4U << 20)
#define SYN__MPI_LIMIT         (1 << 30)
#define SYN__MPI_NAME_BYTES    48

/* A message under way. */
typedef struct syn__mpi_pending {
    struct syn__mpi_pending *next;
    int64_t header[2]; /* dtype, elements */
    void *data;        /* in the same block, as are the requests */
    int n_requests;
    MPI_Request *requests;
} syn__mpi_pending;

typedef struct syn__mpi {
    syn__comm base;
    bool initialised; /* by us */
    bool check, measure;
    size_t limit;                      /* largest count given to MPI */
    MPI_Comm messages, checks;         /* of all ranks */
    MPI_Op keep_nan_min, keep_nan_max; /* of f32 */
    syn__mpi_pending *sent;
    syn__watchdog *dog;
    unsigned char *scratch; /* SYN__MPI_SCRATCH_BYTES */
} syn__mpi;

/* A signature on its way to another rank. */
typedef struct syn__mpi_wire {
    int64_t kind, dtype, reduce, root, n_elems, group_id, seq;
    char group[SYN__MPI_NAME_BYTES];
} syn__mpi_wire;

typedef struct syn__mpi_group {
    MPI_Comm comm;
    uint64_t seq;
    syn__mpi_wire *wires;  /* size, with check */
    MPI_Request *requests; /* 2 * size, with check */
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

/* Members of syn_comm_ops. */
syn_status syn__mpi_all_reduce(syn_comm *comm, const syn_group *group, const void *in, void *out,
                               size_t n_elems, syn_dtype dtype, syn_reduce reduce,
                               uint64_t *wait_ns, syn_error *err);
syn_status syn__mpi_all_gather(syn_comm *comm, const syn_group *group, const void *in, void *out,
                               size_t n_elems, syn_dtype dtype, uint64_t *wait_ns, syn_error *err);
syn_status syn__mpi_reduce_scatter(syn_comm *comm, const syn_group *group, const void *in,
                                   void *out, size_t n_elems, syn_dtype dtype, syn_reduce reduce,
                                   uint64_t *wait_ns, syn_error *err);
syn_status syn__mpi_broadcast(syn_comm *comm, const syn_group *group, const void *in, void *out,
                              size_t n_elems, syn_dtype dtype, int32_t root, uint64_t *wait_ns,
                              syn_error *err);
syn_status syn__mpi_barrier(syn_comm *comm, const syn_group *group, uint64_t *wait_ns,
                            syn_error *err);
syn_status syn__mpi_send(syn_comm *comm, const void *in, size_t n_elems, syn_dtype dtype,
                         int32_t peer, int32_t tag, uint64_t *wait_ns, syn_error *err);
syn_status syn__mpi_recv(syn_comm *comm, void *out, size_t n_elems, syn_dtype dtype, int32_t peer,
                         int32_t tag, uint64_t *wait_ns, syn_error *err);

#endif
#endif
