/* The functions of communicator.h and communicator_private.h. They call the functions in the
   communicator's syn_comm_ops. */
#include "syntorch/communicator_private.h"

syn_status syn__comm_check_open(const syn_comm *comm, syn_error *err) {
    if (!comm->closed) return SYN_OK;
    return SYN_FAIL(err, SYN_E_INVALID,
                    "the communicator of rank %d is closed and accepts no more calls",
                    (int)comm->rank);
}

void syn__comm_hold(syn_comm *comm) {
    if (comm != NULL) comm->ops->hold(comm);
}

void syn__comm_release(syn_comm *comm) {
    if (comm != NULL) comm->ops->release(comm);
}

void syn_comm_close(syn_comm *comm) {
    if (comm == NULL) return;
    comm->ops->close(comm);
    comm->closed = true;
    comm->ops->release(comm);
}

syn_status syn_comm_open_group(syn_comm *comm, uint32_t id, const char *name, const int32_t *ranks,
                               int32_t n_ranks, syn_group **out, syn_error *err) {
    return comm->ops->open_group(comm, id, name, ranks, n_ranks, out, err);
}

const syn_group *syn_comm_next_group(const syn_comm *comm, uint32_t id) {
    return comm->ops->next_group(comm, id);
}

int32_t syn_comm_max_tag(const syn_comm *comm) {
    return comm->max_tag > 0 ? comm->max_tag : INT32_MAX;
}

const syn_group *syn_comm_group(const syn_comm *comm, uint32_t id) {
    const syn_group *group = id > 0 ? syn_comm_next_group(comm, id - 1) : NULL;
    return group != NULL && group->id == id ? group : NULL;
}

syn_status syn_comm_run(syn_comm *comm, const syn_comm_call *call, uint64_t *wait_ns,
                        syn_error *err) {
    syn_comm_call now = *call;
    syn_comm_times times = {0};
    syn_request *request = NULL;
    now.now = true;
    SYN_TRY(comm->ops->start(comm, &now, &request, err));
    const syn_status status = comm->ops->wait(comm, request, &times, err);
    if (wait_ns != NULL) *wait_ns = times.wait_ns;
    return status;
}

syn_status syn_comm_send(syn_comm *comm, const void *in, size_t n_elems, syn_dtype dtype,
                         int32_t peer, int32_t tag, syn_error *err) {
    const syn_comm_call send = {.kind = SYN_COMM_SEND,
                                .dtype = dtype,
                                .peer = peer,
                                .tag = tag,
                                .n_segments = 1,
                                .segments = &(const syn_segment){in, NULL, n_elems}};
    return syn_comm_run(comm, &send, NULL, err);
}

syn_status syn_comm_recv(syn_comm *comm, void *out, size_t n_elems, syn_dtype dtype, int32_t peer,
                         int32_t tag, syn_error *err) {
    const syn_comm_call recv = {.kind = SYN_COMM_RECV,
                                .dtype = dtype,
                                .peer = peer,
                                .tag = tag,
                                .n_segments = 1,
                                .segments = &(const syn_segment){NULL, out, n_elems}};
    return syn_comm_run(comm, &recv, NULL, err);
}
