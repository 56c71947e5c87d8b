/* Messages between in-process ranks. */
#include "comm/comm_local.h"
#include "syntorch/base/memory.h"

#include <string.h>

/* Aborts the world if the two ends of a message do not match. */
static syn_status compare_ends(syn_local_world *world, int32_t from, const syn__call_sig *send,
                               int32_t to, const syn__call_sig *recv, syn_error *err) {
    syn_error mismatch = {0};
    if (syn__compare_ends(from, send, to, recv, &mismatch) == SYN_OK) return SYN_OK;
    return syn__local_fail(world, mismatch.text, err);
}

static void copy(const syn_request *recv, const void *data) {
    const size_t bytes = recv->sig.n_elems * syn_dtype_bytes(recv->sig.comm_call.dtype);
    if (bytes > 0) memcpy(recv->segments->out, data, bytes);
}

/* Writes a message to the buffer of a waiting receive and wakes its rank. */
static syn_status fill(syn__local *self, const syn__call_sig *send, syn_request *recv,
                       syn_error *err) {
    syn_local_world *world = self->world;
    const int32_t to = send->comm_call.peer;
    const syn_status status =
        compare_ends(world, self->base.pub.rank, send, to, &recv->sig, &recv->error);
    if (status == SYN_OK) copy(recv, send->comm_call.segments->in);
    else SYN_FAIL(err, status, "%s", recv->error.text);
    pthread_mutex_lock(&world->lock);
    syn__message_done(recv);
    pthread_cond_signal(&world->ranks[to].mail);
    pthread_mutex_unlock(&world->lock);
    return status;
}

static syn_status send_to_ended(const syn__local *self, const syn_comm_call *send, syn_error *err) {
    return SYN_FAIL(err, SYN_E_COMM, "rank %d sends to rank %d (tag %d), which has finished",
                    (int)self->base.pub.rank, (int)send->peer, (int)send->tag);
}

/* Finds the waiting receive that matches a send. If there is none, sets *recv to NULL and, if
 * *message is not NULL, moves *message to the peer's queue of unexpected messages and sets *message
 * to NULL. */
static syn_status deliver(syn__local *self, const syn_comm_call *send, syn__unexpected **message,
                          syn_request **recv, syn_error *err) {
    syn_local_world *world = self->world;
    syn__local_rank *to = &world->ranks[send->peer];
    pthread_mutex_lock(&world->lock);
    const bool aborted = atomic_load(&world->aborted), ended = to->ended;
    *recv = NULL;
    if (!aborted && !ended)
        *recv = syn__mailbox_match_receive(&to->box, self->base.pub.rank, send->tag);
    if (*recv != NULL) {
        (*recv)->times.wait_ns = syn__clock_ns() - (*recv)->times.begin_ns;
        atomic_store(&(*recv)->state, SYN__FILLING);
    } else if (!aborted && !ended && *message != NULL) {
        syn__mailbox_add_message(&to->box, *message);
        *message = NULL;
    }
    pthread_mutex_unlock(&world->lock);
    if (aborted) return syn__local_fail(world, NULL, err);
    return ended ? send_to_ended(self, send, err) : SYN_OK;
}

/* An unexpected message is copied without the lock, so a receive may be posted meanwhile. Therefore
   deliver is called again after the copy. */
static syn_status send_message(syn__local *self, const syn__call_sig *send, syn_error *err) {
    syn__unexpected *message = NULL;
    syn_request *recv = NULL;
    SYN_TRY(deliver(self, &send->comm_call, &message, &recv, err));
    if (recv != NULL) return fill(self, send, recv, err);
    SYN_TRY(syn__unexpected_new(&message, self->base.pub.rank, send, err));
    syn_status status = deliver(self, &send->comm_call, &message, &recv, err);
    syn_free(message);
    if (recv != NULL) status = fill(self, send, recv, err);
    return status;
}

static syn_status receive(syn__local *self, syn_request *r, syn_error *err) {
    syn_local_world *world = self->world;
    const int32_t rank = self->base.pub.rank;
    pthread_mutex_lock(&world->lock);
    const bool aborted = atomic_load(&world->aborted);
    syn__unexpected *message =
        aborted ? NULL : syn__mailbox_match_message(&world->ranks[rank].box, &r->sig.comm_call);
    if (!aborted && message == NULL) syn__mailbox_add_receive(&world->ranks[rank].box, r);
    pthread_mutex_unlock(&world->lock);
    if (aborted) return syn__local_fail(world, NULL, err);
    if (message == NULL) return SYN_OK;
    const syn_status status =
        compare_ends(world, message->from, &message->send, rank, &r->sig, err);
    if (status == SYN_OK) copy(r, message->data);
    syn_free(message);
    syn__message_done(r);
    return status;
}

syn_status syn__local_post(syn__comm *comm, syn_request *message, syn_error *err) {
    syn__local *self = (syn__local *)comm;
    if (message->sig.comm_call.kind == SYN_COMM_RECV) return receive(self, message, err);
    syn__message_done(message);
    return send_message(self, &message->sig, err);
}

/* Sleeps until a receive is done. Returns false if the receive must be cancelled because the world
   was aborted. The caller holds the lock. */
static bool sleep_filled(syn__local *self, syn_request *message) {
    syn_local_world *world = self->world;
    syn__local_rank *me = &world->ranks[self->base.pub.rank];
    for (;;) {
        const uint64_t state = atomic_load(&message->state);
        if (state == SYN__DONE) return true;
        if (state == SYN__OPEN && atomic_load(&world->aborted)) return false;
        if (state == SYN__OPEN) syn__local_sleep(self, message, &me->mail);
        else pthread_cond_wait(&me->mail, &world->lock); /* the sender is writing the buffer */
    }
}

syn_status syn__local_settle(syn__comm *comm, syn_request *message, syn_error *err) {
    syn__local *self = (syn__local *)comm;
    syn_local_world *world = self->world;
    if (syn__local_spin(self, &message->state, SYN__DONE)) return message->error.code;
    pthread_mutex_lock(&world->lock);
    const bool filled = sleep_filled(self, message);
    if (!filled) syn__mailbox_remove_receive(&world->ranks[comm->pub.rank].box, message);
    pthread_mutex_unlock(&world->lock);
    return filled ? message->error.code : syn__local_fail(world, NULL, err);
}

void syn__local_withdraw(syn__comm *comm, syn_request *message) {
    syn__local *self = (syn__local *)comm;
    syn__local_rank *me = &self->world->ranks[comm->pub.rank];
    pthread_mutex_lock(&self->world->lock);
    if (atomic_load(&message->state) == SYN__OPEN) syn__mailbox_remove_receive(&me->box, message);
    while (atomic_load(&message->state) == SYN__FILLING)
        pthread_cond_wait(&me->mail, &self->world->lock);
    pthread_mutex_unlock(&self->world->lock);
}
