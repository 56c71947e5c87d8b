/* A world of one rank. */
#include "comm/comm.h"
#include "comm/comm_internal.h"
#include "syntorch/memory.h"

#include <string.h>

typedef struct self_comm {
    syn__comm base;
    syn__mailbox box; /* sent to itself, not yet received */
} self_comm;

/* Every collective over one rank is a copy. */
static syn_status copy(const void *in, void *out, size_t n_elems, syn_dtype dtype,
                       uint64_t *wait_ns) {
    *wait_ns = 0;
    if (in != out && n_elems > 0) memcpy(out, in, n_elems * syn_dtype_bytes(dtype));
    return SYN_OK;
}

static syn_status self_all_reduce(syn_comm *comm, const syn_group *group, const void *in, void *out,
                                  size_t n_elems, syn_dtype dtype, syn_reduce reduce,
                                  uint64_t *wait_ns, syn_error *err) {
    (void)comm, (void)group, (void)reduce, (void)err;
    return copy(in, out, n_elems, dtype, wait_ns);
}

static syn_status self_all_gather(syn_comm *comm, const syn_group *group, const void *in, void *out,
                                  size_t n_elems, syn_dtype dtype, uint64_t *wait_ns,
                                  syn_error *err) {
    (void)comm, (void)group, (void)err;
    return copy(in, out, n_elems, dtype, wait_ns);
}

static syn_status self_broadcast(syn_comm *comm, const syn_group *group, const void *in, void *out,
                                 size_t n_elems, syn_dtype dtype, int32_t root, uint64_t *wait_ns,
                                 syn_error *err) {
    (void)comm;
    if (root != 0)
        return SYN_FAIL(err, SYN_E_INVALID, "broadcast has root %d in group %.64s of 1 rank",
                        (int)root, group->name);
    return copy(in, out, n_elems, dtype, wait_ns);
}

static syn_status self_send(syn_comm *comm, const void *in, size_t n_elems, syn_dtype dtype,
                            int32_t peer, int32_t tag, uint64_t *wait_ns, syn_error *err) {
    *wait_ns = 0;
    SYN_TRY(syn__check_peer(comm, "send", peer, tag, err));
    syn__message *message = NULL;
    SYN_TRY(syn__message_new(&message, in, n_elems, dtype, peer, tag, err));
    syn__mailbox_put(&((self_comm *)comm)->box, message);
    return SYN_OK;
}

static syn_status self_recv(syn_comm *comm, void *out, size_t n_elems, syn_dtype dtype,
                            int32_t peer, int32_t tag, uint64_t *wait_ns, syn_error *err) {
    self_comm *self = (self_comm *)comm;
    *wait_ns = 0;
    SYN_TRY(syn__check_peer(comm, "recv", peer, tag, err));
    syn__message *message = syn__mailbox_take(&self->box, peer, tag);
    if (message == NULL)
        return SYN_FAIL(err, SYN_E_COMM,
                        "rank 0 waits in recv(tag %d) for itself, but nothing was sent", (int)tag);
    syn_status status = SYN_OK;
    if (message->dtype != dtype || message->n_elems != n_elems)
        status = SYN_FAIL(err, SYN_E_COMM,
                          "rank 0 receives %zu elements of %s (tag %d) but sent itself %zu of %s",
                          n_elems, syn_dtype_name(dtype), (int)tag, message->n_elems,
                          syn_dtype_name(message->dtype));
    else status = copy(message->data, out, n_elems, dtype, wait_ns);
    syn_free(message);
    return status;
}

static syn_status self_barrier(syn_comm *comm, const syn_group *group, uint64_t *wait_ns,
                               syn_error *err) {
    (void)comm, (void)group, (void)err;
    *wait_ns = 0;
    return SYN_OK;
}

static void self_abort(syn_comm *comm, const char *reason) {
    (void)comm, (void)reason;
}

static void self_close(syn_comm *comm) {
    syn__mailbox_free(&((self_comm *)comm)->box);
}

static const syn_comm_ops self_ops = {
    .name = "self",
    .moves_data = true,
    .all_reduce = self_all_reduce,
    .all_gather = self_all_gather,
    .reduce_scatter = self_all_reduce,
    .broadcast = self_broadcast,
    .send = self_send,
    .recv = self_recv,
    .barrier = self_barrier,
    .abort = self_abort,
    .close = self_close,
};

syn_status syn_comm_self_new(syn_comm **out, syn_error *err) {
    self_comm *self = syn_calloc(1, sizeof *self);
    if (self == NULL) return SYN_FAIL_NOMEM(err, sizeof *self, "a communicator");
    self->base.pub.ops = &self_ops;
    self->base.pub.size = 1;
    syn__mailbox_init(&self->box);
    *out = &self->base.pub;
    return SYN_OK;
}
