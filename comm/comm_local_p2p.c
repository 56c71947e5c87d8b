/* Messages between in-process ranks. */
#include "comm/comm_local.h"
#include "syntorch/memory.h"

#include <string.h>

static syn__call p2p_call(syn_comm_kind kind, size_t n_elems, syn_dtype dtype, int32_t peer,
                          int32_t tag) {
    return (syn__call){.kind = kind,
                       .dtype = dtype,
                       .reduce = -1,
                       .root = -1,
                       .peer = peer,
                       .tag = tag,
                       .n_elems = n_elems};
}

/* Both ends of a message must say the same; the sender's comes first in the sentence. */
static syn_status compare_ends(syn_local_world *world, const syn__call *send, const syn__call *recv,
                               syn_error *err) {
    if (send->dtype == recv->dtype && send->n_elems == recv->n_elems) return SYN_OK;
    char sentence[512];
    syn__mismatch_text(recv->peer, send, send->peer, recv, sentence, sizeof sentence);
    return syn__local_fail(world, sentence, err);
}

syn_status syn__local_send(syn_comm *comm, const void *in, size_t n_elems, syn_dtype dtype,
                           int32_t peer, int32_t tag, uint64_t *wait_ns, syn_error *err) {
    syn_local_world *world = ((syn__local *)comm)->world;
    *wait_ns = 0;
    SYN_TRY(syn__check_peer(comm, "send", peer, tag, err));
    syn__message *message = NULL;
    SYN_TRY(syn__message_new(&message, in, n_elems, dtype, comm->rank, tag, err));
    const syn__call send = p2p_call(SYN_COMM_SEND, n_elems, dtype, peer, tag);
    syn__local_rank *to = &world->ranks[peer];
    pthread_mutex_lock(&world->lock);
    const bool dead = atomic_load(&world->dead), ended = to->ended;
    const bool awaited = to->blocked && to->group == NULL && to->call.peer == comm->rank &&
                         to->call.tag == tag &&
                         syn__mailbox_find(&to->box, comm->rank, tag) == NULL;
    const syn__call recv = awaited ? to->call : send;
    if (!dead && !ended) {
        syn__mailbox_put(&to->box, message);
        atomic_fetch_add(&to->received, 1);
        pthread_cond_signal(&to->mail);
        message = NULL;
    }
    pthread_mutex_unlock(&world->lock);
    syn_free(message);
    if (dead) return syn__local_fail(world, NULL, err);
    if (ended)
        return SYN_FAIL(err, SYN_E_COMM, "rank %d sends to rank %d (tag %d), which has ended",
                        (int)comm->rank, (int)peer, (int)tag);
    return awaited ? compare_ends(world, &send, &recv, err) : SYN_OK;
}

syn_status syn__local_recv(syn_comm *comm, void *out, size_t n_elems, syn_dtype dtype, int32_t peer,
                           int32_t tag, uint64_t *wait_ns, syn_error *err) {
    syn__local *self = (syn__local *)comm;
    syn_local_world *world = self->world;
    *wait_ns = 0;
    SYN_TRY(syn__check_peer(comm, "recv", peer, tag, err));
    const syn__call recv = p2p_call(SYN_COMM_RECV, n_elems, dtype, peer, tag);
    const uint64_t begin_ns = syn__clock_ns();
    pthread_mutex_lock(&world->lock);
    const bool there = !atomic_load(&world->dead) && syn__local_await_mail(self, &recv);
    syn__message *message =
        there ? syn__mailbox_take(&world->ranks[comm->rank].box, peer, tag) : NULL;
    pthread_mutex_unlock(&world->lock);
    if (message == NULL) return syn__local_fail(world, NULL, err);
    *wait_ns = syn__clock_ns() - begin_ns;
    const syn__call send =
        p2p_call(SYN_COMM_SEND, message->n_elems, message->dtype, comm->rank, tag);
    const syn_status status = compare_ends(world, &send, &recv, err);
    if (status == SYN_OK && n_elems > 0)
        memcpy(out, message->data, n_elems * syn_dtype_bytes(dtype));
    syn_free(message);
    return status;
}
