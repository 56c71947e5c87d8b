/* Messages over MPI: a header that says what follows, then the elements. */
#include "comm/comm_mpi.h"
#include "syntorch/memory.h"

#include <stdio.h>
#include <string.h>

#ifdef SYN_HAVE_MPI

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Frees messages that have left. */
syn_status syn__mpi_reap(syn__mpi *self, syn_error *err) {
    for (syn__mpi_pending **link = &self->sent; *link != NULL;) {
        syn__mpi_pending *p = *link;
        int done = 0;
        SYN__TRY_MPI("MPI_Testall",
                     MPI_Testall(p->n_requests, p->requests, &done, MPI_STATUSES_IGNORE));
        if (done) {
            *link = p->next;
            syn_free(p);
        } else {
            link = &p->next;
        }
    }
    return SYN_OK;
}

static syn_status pending_new(const syn__mpi *self, syn__mpi_pending **out, const void *in,
                              size_t n_elems, syn_dtype dtype, syn_error *err) {
    const size_t n_pieces = n_elems / self->limit + (n_elems % self->limit != 0);
    const size_t requests_bytes = (n_pieces + 3) / 2 * 2 * sizeof(MPI_Request);
    const size_t data_bytes = n_elems * syn_dtype_bytes(dtype);
    const size_t bytes = sizeof(syn__mpi_pending) + requests_bytes + data_bytes;
    syn__mpi_pending *p = syn_malloc(bytes);
    if (p == NULL) return SYN_FAIL_NOMEM(err, bytes, "a sent message");
    *p = (syn__mpi_pending){.header = {(int64_t)dtype, (int64_t)n_elems},
                            .requests = (MPI_Request *)(void *)(p + 1)};
    p->data = (char *)(p + 1) + requests_bytes;
    if (data_bytes > 0) memcpy(p->data, in, data_bytes);
    *out = p;
    return SYN_OK;
}

static syn_status post(syn__mpi *self, syn__mpi_pending *p, int32_t peer, int32_t tag,
                       syn_error *err) {
    const syn_dtype dtype = (syn_dtype)p->header[0];
    const size_t n_elems = (size_t)p->header[1];
    SYN__TRY_MPI("MPI_Isend", MPI_Isend(p->header, 2, MPI_INT64_T, peer, tag, self->messages,
                                        &p->requests[p->n_requests]));
    p->n_requests++;
    for (size_t at = 0; at < n_elems; at += self->limit) {
        const int n = (int)min_size(self->limit, n_elems - at);
        SYN__TRY_MPI("MPI_Isend", MPI_Isend((char *)p->data + at * syn_dtype_bytes(dtype), n,
                                            syn__mpi_type(dtype), peer, tag, self->messages,
                                            &p->requests[p->n_requests]));
        p->n_requests++;
    }
    return SYN_OK;
}

syn_status syn__mpi_send(syn_comm *comm, const void *in, size_t n_elems, syn_dtype dtype,
                         int32_t peer, int32_t tag, uint64_t *wait_ns, syn_error *err) {
    syn__mpi *self = (syn__mpi *)comm;
    *wait_ns = 0;
    SYN_TRY(syn__check_peer(comm, "send", peer, tag, err));
    SYN_TRY(syn__mpi_reap(self, err));
    syn__mpi_pending *p = NULL;
    SYN_TRY(pending_new(self, &p, in, n_elems, dtype, err));
    /* Kept even if posting fails half-way: MPI may still read it. */
    p->next = self->sent;
    self->sent = p;
    return post(self, p, peer, tag, err);
}

static syn_status receive(syn__mpi *self, void *out, const syn__call *recv, uint64_t *wait_ns,
                          syn_error *err) {
    int64_t header[2];
    const uint64_t begin_ns = syn__clock_ns();
    SYN_TRY(syn__mpi_reap(self, err));
    SYN__TRY_MPI("MPI_Recv", MPI_Recv(header, 2, MPI_INT64_T, recv->peer, recv->tag, self->messages,
                                      MPI_STATUS_IGNORE));
    *wait_ns = syn__clock_ns() - begin_ns;
    if (header[0] != (int64_t)recv->dtype || header[1] != (int64_t)recv->n_elems) {
        const syn__call send = {SYN_COMM_SEND, (syn_dtype)header[0], -1,   -1, self->base.pub.rank,
                                recv->tag,     (uint64_t)header[1],  NULL, 0,  0};
        char sentence[512];
        syn__mismatch_text(recv->peer, &send, self->base.pub.rank, recv, sentence, sizeof sentence);
        return SYN_FAIL(err, SYN_E_COMM, "%s", sentence);
    }
    for (size_t at = 0; at < recv->n_elems; at += self->limit) {
        const int n = (int)min_size(self->limit, recv->n_elems - at);
        SYN__TRY_MPI("MPI_Recv", MPI_Recv((char *)out + at * syn_dtype_bytes(recv->dtype), n,
                                          syn__mpi_type(recv->dtype), recv->peer, recv->tag,
                                          self->messages, MPI_STATUS_IGNORE));
    }
    return SYN_OK;
}

syn_status syn__mpi_recv(syn_comm *comm, void *out, size_t n_elems, syn_dtype dtype, int32_t peer,
                         int32_t tag, uint64_t *wait_ns, syn_error *err) {
    syn__mpi *self = (syn__mpi *)comm;
    const syn__call call = {SYN_COMM_RECV, dtype, -1, -1, peer, tag, n_elems, NULL, 0, 0};
    *wait_ns = 0;
    SYN_TRY(syn__check_peer(comm, "recv", peer, tag, err));
    syn__watchdog_enter(self->dog, &call);
    const syn_status status = receive(self, out, &call, wait_ns, err);
    syn__watchdog_leave(self->dog);
    return status;
}

#endif
