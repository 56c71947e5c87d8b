/* Implements comm_calls.h: builds the syn_comm_call of each operation and starts it. */
#include "tests/support/comm_calls.h"

static syn_comm_call make_call(syn_comm_kind kind, const syn_group *group, const syn_segment *one,
                               syn_dtype dtype) {
    return (syn_comm_call){
        .kind = kind, .dtype = dtype, .n_segments = 1, .group = group, .segments = one};
}

void set_data(syn_comm_call *x, syn_segment *one, const void *in, void *out, size_t n_elems) {
    x->n_segments = 1;
    x->segments = one;
    x->part = x->kind == SYN_COMM_ALL_GATHER ? (void *)(uintptr_t)in : out;
    x->n_part = n_elems;
    *one = (syn_segment){in, out, n_elems};
    if (x->kind == SYN_COMM_ALL_GATHER || x->kind == SYN_COMM_REDUCE_SCATTER)
        one->n_elems *= (size_t)x->group->size;
}

syn_status run_all_reduce(syn_comm *comm, const syn_group *group, const void *in, void *out,
                          size_t n_elems, syn_dtype dtype, syn_reduce reduce, syn_error *err) {
    const syn_segment one = {in, out, n_elems};
    syn_comm_call x = make_call(SYN_COMM_ALL_REDUCE, group, &one, dtype);
    x.reduce = reduce;
    return syn_comm_run(comm, &x, NULL, err);
}

syn_status run_reduce_scatter(syn_comm *comm, const syn_group *group, const void *in, void *out,
                              size_t n_elems, syn_dtype dtype, syn_reduce reduce, syn_error *err) {
    syn_segment one;
    syn_comm_call x = make_call(SYN_COMM_REDUCE_SCATTER, group, &one, dtype);
    set_data(&x, &one, in, out, n_elems);
    x.reduce = reduce;
    return syn_comm_run(comm, &x, NULL, err);
}

syn_status run_all_gather(syn_comm *comm, const syn_group *group, const void *in, void *out,
                          size_t n_elems, syn_dtype dtype, syn_error *err) {
    syn_segment one;
    syn_comm_call x = make_call(SYN_COMM_ALL_GATHER, group, &one, dtype);
    set_data(&x, &one, in, out, n_elems);
    return syn_comm_run(comm, &x, NULL, err);
}

syn_status run_broadcast(syn_comm *comm, const syn_group *group, const void *in, void *out,
                         size_t n_elems, syn_dtype dtype, int32_t root, syn_error *err) {
    const syn_segment one = {in, out, n_elems};
    syn_comm_call x = make_call(SYN_COMM_BROADCAST, group, &one, dtype);
    x.root = root;
    return syn_comm_run(comm, &x, NULL, err);
}

syn_status run_barrier(syn_comm *comm, const syn_group *group, syn_error *err) {
    const syn_comm_call x = make_call(SYN_COMM_BARRIER, group, NULL, SYN_F32);
    return syn_comm_run(comm, &x, NULL, err);
}

syn_status start_call(syn_comm *comm, syn_comm_call x, syn_request **request, syn_error *err) {
    return comm->ops->start(comm, &x, request, err);
}

syn_status start_f32_sum(syn_comm *comm, const syn_group *group, const void *in, void *out,
                         size_t n_elems, syn_request **request, syn_error *err) {
    const syn_segment one = {in, out, n_elems};
    const syn_comm_call x = make_call(SYN_COMM_ALL_REDUCE, group, &one, SYN_F32);
    return start_call(comm, x, request, err);
}

syn_status start_f32_message(syn_comm *comm, syn_comm_kind kind, void *data, size_t n_elems,
                             int32_t peer, int32_t tag, syn_request **request, syn_error *err) {
    const syn_segment one = {data, data, n_elems};
    syn_comm_call x = make_call(kind, NULL, &one, SYN_F32);
    x.peer = peer;
    x.tag = tag;
    return start_call(comm, x, request, err);
}

syn_status wait_for(syn_comm *comm, syn_request *request, syn_error *err) {
    return comm->ops->wait(comm, request, NULL, err);
}

void f32_fill(float *to, size_t n_elems, float value) {
    for (size_t i = 0; i < n_elems; i++) to[i] = value;
}

syn_status f32_all_are(const float *got, size_t n_elems, float want, syn_error *err) {
    for (size_t i = 0; i < n_elems; i++)
        if (got[i] != want)
            return SYN_FAIL(err, SYN_E_FORMAT, "element %d is %g, not %g", (int)i, (double)got[i],
                            (double)want);
    return SYN_OK;
}

syn_status open_first(syn_comm *comm, uint32_t id, const char *name, int32_t n_ranks,
                      syn_group **group, syn_error *err) {
    static const int32_t ranks[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    return syn_comm_open_group(comm, id, name, ranks, n_ranks, group, err);
}
