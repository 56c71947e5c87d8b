/* The communicator of a world of one rank. */
#include "comm/comm.h"
#include "comm/comm_request.h"
#include "syntorch/base/memory.h"

#include <string.h>

typedef struct self_comm {
    syn__comm base;
    syn__mailbox box; /* for messages to itself */
} self_comm;

static void copy(const syn_segment *to, const void *from, syn_dtype dtype) {
    const size_t bytes = to->n_elems * syn_dtype_bytes(dtype);
    if (from != to->out && bytes > 0) memcpy(to->out, from, bytes);
}

/* A collective over one rank is a copy. */
static syn_status self_run(syn__comm *comm, syn_request *request, syn_error *err) {
    (void)comm, (void)err;
    const syn_comm_call *x = &request->sig.comm_call;
    const size_t elem_bytes = syn_dtype_bytes(x->dtype), n_elems = request->sig.n_elems;
    char *part = x->part;
    for (int32_t i = 0; i < x->n_segments; i++) {
        const syn_segment *s = &x->segments[i];
        const size_t bytes = s->n_elems * elem_bytes;
        if (!syn__has_part(x->kind)) copy(s, s->in, x->dtype);
        else if (x->kind == SYN_COMM_ALL_GATHER) copy(s, part, x->dtype);
        else if (bytes > 0) memcpy(part, s->in, bytes);
        if (syn__has_part(x->kind) && bytes > 0) part += bytes;
    }
    if (x->kind == SYN_COMM_REDUCE_SCATTER && x->n_part > n_elems)
        memset(part, 0, (x->n_part - n_elems) * elem_bytes);
    return SYN_OK;
}

static syn_status send(self_comm *self, syn_request *r, syn_error *err) {
    syn_request *recv = syn__mailbox_match_receive(&self->box, 0, r->sig.comm_call.tag);
    syn__message_done(r);
    if (recv == NULL) {
        syn__unexpected *message = NULL;
        SYN_TRY(syn__unexpected_new(&message, 0, &r->sig, err));
        syn__mailbox_add_message(&self->box, message);
        return SYN_OK;
    }
    if (syn__compare_ends(0, &r->sig, 0, &recv->sig, &recv->error) == SYN_OK)
        copy(recv->segments, r->segments->in, recv->sig.comm_call.dtype);
    syn__message_done(recv);
    return SYN_OK;
}

static syn_status self_post(syn__comm *comm, syn_request *r, syn_error *err) {
    self_comm *self = (self_comm *)comm;
    if (r->sig.comm_call.kind == SYN_COMM_SEND) return send(self, r, err);
    syn__unexpected *message = syn__mailbox_match_message(&self->box, &r->sig.comm_call);
    if (message == NULL) {
        syn__mailbox_add_receive(&self->box, r);
        return SYN_OK;
    }
    if (syn__compare_ends(0, &message->send, 0, &r->sig, &r->error) == SYN_OK)
        copy(r->segments, message->data, r->sig.comm_call.dtype);
    syn_free(message);
    syn__message_done(r);
    return SYN_OK;
}

static void self_withdraw(syn__comm *comm, syn_request *message) {
    syn__mailbox_remove_receive(&((self_comm *)comm)->box, message);
}

static syn_status self_settle(syn__comm *comm, syn_request *message, syn_error *err) {
    self_withdraw(comm, message);
    return SYN_FAIL(err, SYN_E_COMM,
                    "rank 0 waits in recv(tag %d) for itself, but nothing was sent",
                    (int)message->sig.comm_call.tag);
}

static void self_abort(syn_comm *comm, const char *reason) {
    (void)comm, (void)reason;
}

static void self_close(syn_comm *comm) {
    syn__comm_finish((syn__comm *)comm);
    syn__mailbox_free(&((self_comm *)comm)->box);
}

static const syn_comm_ops self_ops = {
    .name = "self",
    .moves_data = true,
    .open_group = syn__comm_open_group,
    .next_group = syn__comm_next_group,
    .hold = syn__comm_add_user,
    .release = syn__comm_drop_user,
    .start = syn__comm_start,
    .wait = syn__comm_wait,
    .abort = self_abort,
    .close = self_close,
};

static const syn__transport transport = {
    .run = self_run, .post = self_post, .settle = self_settle, .withdraw = self_withdraw};

syn_status syn_comm_self_new(syn_comm **out, syn_error *err) {
    self_comm *self = syn_calloc(1, sizeof *self);
    if (self == NULL) return SYN_FAIL_NOMEM(err, sizeof *self, "a communicator");
    syn__comm_init(&self->base, &self_ops, &transport);
    self->base.pub.size = 1;
    syn__mailbox_init(&self->box);
    *out = &self->base.pub;
    return SYN_OK;
}
