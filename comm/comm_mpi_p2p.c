/* Messages over MPI. */
#include "comm/comm_mpi.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/thread.h"

#include <string.h>

#ifdef SYN_HAVE_MPI

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

/* ---- Progress ---- */

/* Calls MPI repeatedly while messages are in flight: MPI moves messages during any call. */
static void *move(void *arg) {
    syn__mpi *self = arg;
    syn__mpi_progress *mover = &self->mover;
    int flag = 0;
    pthread_mutex_lock(&mover->lock);
    while (!mover->stop) {
        if (mover->in_flight == 0) {
            pthread_cond_wait(&mover->wake, &mover->lock);
            continue;
        }
        pthread_mutex_unlock(&mover->lock);
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, self->checks, &flag, MPI_STATUS_IGNORE);
        syn__mpi_backoff();
        pthread_mutex_lock(&mover->lock);
    }
    pthread_mutex_unlock(&mover->lock);
    return NULL;
}

static syn_status start_mover(syn__mpi *self, syn_error *err) {
    if (syn__thread_start(&self->mover.thread, move, self) != 0)
        return SYN_FAIL(err, SYN_E_COMM,
                        "the system cannot start a communication thread of rank %d",
                        (int)self->base.pub.rank);
    self->mover.runs = true;
    return SYN_OK;
}

/* Changes the number of messages in flight; wakes the thread that moves them if there are any. */
static void count(syn__mpi *self, int messages) {
    syn__mpi_progress *mover = &self->mover;
    pthread_mutex_lock(&mover->lock);
    mover->in_flight += messages;
    if (mover->in_flight > 0) pthread_cond_signal(&mover->wake);
    pthread_mutex_unlock(&mover->lock);
}

/* ---- Messages ---- */

/* Allocates a message with space for data_bytes bytes and its requests. NULL if out of
   memory. */
static syn__mpi_message *message_new(syn__mpi *self, const syn__call_sig *sig, size_t data_bytes,
                                     syn_error *err) {
    const size_t n_pieces = sig->n_elems / self->limit + (sig->n_elems % self->limit != 0);
    const size_t requests_bytes = (n_pieces + 3) / 2 * 2 * sizeof(MPI_Request);
    const size_t bytes = sizeof(syn__mpi_message) + requests_bytes + data_bytes;
    syn__mpi_message *m = syn_malloc(bytes);
    if (m == NULL) {
        SYN_FAIL_NOMEM(err, bytes, "a message");
        return NULL;
    }
    *m = (syn__mpi_message){.header = {(int64_t)sig->comm_call.dtype, (int64_t)sig->n_elems},
                            .requests = (MPI_Request *)(void *)(m + 1)};
    m->data = (char *)(m + 1) + requests_bytes;
    count(self, 1);
    return m;
}

static void message_free(syn__mpi *self, syn__mpi_message *m) {
    count(self, -1);
    syn_free(m);
}

syn_status syn__mpi_free_sent(syn__mpi *self, syn_error *err) {
    for (syn__mpi_message **link = &self->sent; *link != NULL;) {
        syn__mpi_message *m = *link;
        int done = 0;
        SYN__TRY_MPI("MPI_Testall",
                     MPI_Testall(m->n_requests, m->requests, &done, MPI_STATUSES_IGNORE));
        if (done) {
            *link = m->next;
            message_free(self, m);
        } else {
            link = &m->next;
        }
    }
    return SYN_OK;
}

void syn__mpi_messages_end(syn__mpi *self) {
    while (self->sent != NULL) {
        syn__mpi_message *m = self->sent;
        self->sent = m->next;
        MPI_Waitall(m->n_requests, m->requests, MPI_STATUSES_IGNORE);
        message_free(self, m);
    }
    pthread_mutex_lock(&self->mover.lock);
    self->mover.stop = true;
    pthread_cond_signal(&self->mover.wake);
    pthread_mutex_unlock(&self->mover.lock);
    if (self->mover.runs) pthread_join(self->mover.thread, NULL);
    pthread_cond_destroy(&self->mover.wake);
    pthread_mutex_destroy(&self->mover.lock);
}

static syn_status post_sends(syn__mpi *self, const syn_request *r, syn__mpi_message *m,
                             syn_error *err) {
    const syn_comm_call *x = &r->sig.comm_call;
    SYN__TRY_MPI("MPI_Isend", MPI_Isend(m->header, 2, MPI_INT64_T, x->peer, x->tag, self->messages,
                                        &m->requests[m->n_requests]));
    m->n_requests++;
    for (size_t at = 0; at < r->sig.n_elems; at += self->limit) {
        const int n = (int)min_size(self->limit, r->sig.n_elems - at);
        SYN__TRY_MPI("MPI_Isend", MPI_Isend((char *)m->data + at * syn_dtype_bytes(x->dtype), n,
                                            syn__mpi_type(x->dtype), x->peer, x->tag,
                                            self->messages, &m->requests[m->n_requests]));
        m->n_requests++;
    }
    return SYN_OK;
}

static syn_status post_receives(syn__mpi *self, const syn_request *r, syn__mpi_message *m,
                                syn_error *err) {
    const syn_comm_call *x = &r->sig.comm_call;
    char *to = r->segments->out;
    SYN__TRY_MPI("MPI_Irecv", MPI_Irecv(m->header, 2, MPI_INT64_T, x->peer, x->tag, self->messages,
                                        &m->requests[m->n_requests]));
    m->n_requests++;
    for (size_t at = 0; at < r->sig.n_elems; at += self->limit) {
        const int n = (int)min_size(self->limit, r->sig.n_elems - at);
        SYN__TRY_MPI("MPI_Irecv",
                     MPI_Irecv(to + at * syn_dtype_bytes(x->dtype), n, syn__mpi_type(x->dtype),
                               x->peer, x->tag, self->messages, &m->requests[m->n_requests]));
        m->n_requests++;
    }
    return SYN_OK;
}

static syn_status send_message(syn__mpi *self, syn_request *r, syn_error *err) {
    const size_t data_bytes = r->sig.n_elems * syn_dtype_bytes(r->sig.comm_call.dtype);
    syn__mpi_message *m = message_new(self, &r->sig, data_bytes, err);
    if (m == NULL) return SYN_E_NOMEM;
    if (data_bytes > 0) memcpy(m->data, r->segments->in, data_bytes);
    /* Keep the message even if posting fails halfway, because MPI may still read it. */
    m->next = self->sent;
    self->sent = m;
    syn__message_done(r);
    return post_sends(self, r, m, err);
}

syn_status syn__mpi_post(syn__comm *comm, syn_request *message, syn_error *err) {
    syn__mpi *self = (syn__mpi *)comm;
    const syn_comm_call *x = &message->sig.comm_call;
    if (comm->threads && !x->now && !self->mover.runs) SYN_TRY(start_mover(self, err));
    SYN_TRY(syn__mpi_free_sent(self, err));
    if (x->kind == SYN_COMM_SEND) return send_message(self, message, err);
    syn__mpi_message *m = message_new(self, &message->sig, 0, err);
    if (m == NULL) return SYN_E_NOMEM;
    message->impl = m;
    const syn_status status = post_receives(self, message, m, err);
    if (status != SYN_OK) syn__mpi_withdraw(comm, message);
    return status;
}

void syn__mpi_withdraw(syn__comm *comm, syn_request *message) {
    syn__mpi_message *m = message->impl;
    for (int i = 0; i < m->n_requests; i++)
        if (m->requests[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&m->requests[i]);
            MPI_Wait(&m->requests[i], MPI_STATUS_IGNORE);
        }
    message_free((syn__mpi *)comm, m);
}

static syn_status receive(syn__mpi *self, syn_request *r, syn_error *err) {
    syn__mpi_message *m = r->impl;
    SYN__TRY_MPI("MPI_Wait", MPI_Wait(&m->requests[0], MPI_STATUS_IGNORE));
    r->times.wait_ns = syn__clock_ns() - r->times.begin_ns;
    const int32_t rank = self->base.pub.rank;
    const syn__call_sig send = {.comm_call = {.kind = SYN_COMM_SEND,
                                              .dtype = (syn_dtype)m->header[0],
                                              .peer = rank,
                                              .tag = r->sig.comm_call.tag},
                                .n_elems = (size_t)m->header[1]};
    SYN_TRY(syn__compare_ends(r->sig.comm_call.peer, &send, rank, &r->sig, err));
    SYN__TRY_MPI("MPI_Waitall",
                 MPI_Waitall(m->n_requests - 1, m->requests + 1, MPI_STATUSES_IGNORE));
    return SYN_OK;
}

syn_status syn__mpi_settle(syn__comm *comm, syn_request *message, syn_error *err) {
    syn__mpi *self = (syn__mpi *)comm;
    syn__watchdog_enter(self->dog, &message->sig);
    const syn_status status = receive(self, message, err);
    syn__mpi_withdraw(comm, message); /* after a failure, cancels requests that are not done */
    syn__watchdog_leave(self->dog);
    syn__message_done(message);
    return status;
}

#endif
