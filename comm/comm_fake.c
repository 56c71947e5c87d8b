/* The fake communicator: one rank of a world that does not run. Used to trace clusters on meta. */
#include "comm/comm.h"
#include "comm/comm_request.h"
#include "syntorch/base/memory.h"

static void fake_abort(syn_comm *comm, const char *reason) {
    (void)comm;
    (void)reason;
}

static void fake_close(syn_comm *comm) {
    (void)comm;
}

static const syn_comm_ops fake_ops = {
    .name = "fake",
    .moves_data = false,
    .open_group = syn__comm_open_group,
    .next_group = syn__comm_next_group,
    .hold = syn__comm_add_user,
    .release = syn__comm_drop_user,
    .abort = fake_abort,
    .close = fake_close,
};

syn_status syn_comm_fake_new(syn_comm **out, int32_t rank, int32_t size, syn_error *err) {
    if (size < 1 || rank < 0 || rank >= size)
        return SYN_FAIL(err, SYN_E_INVALID, "rank %d does not exist in a world of %d ranks",
                        (int)rank, (int)size);
    syn__comm *self = syn_calloc(1, sizeof *self);
    if (self == NULL) return SYN_FAIL_NOMEM(err, sizeof *self, "a communicator");
    syn__comm_init(self, &fake_ops, NULL);
    self->pub.rank = rank;
    self->pub.size = size;
    *out = &self->pub;
    return SYN_OK;
}
