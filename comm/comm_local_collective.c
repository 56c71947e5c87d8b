/* Collectives of in-process ranks: data goes straight from all inputs to all outputs. */
#include "comm/comm_local.h"

#include <string.h>

static const syn__local_slot *slot_of(const syn__local_group *shared, int32_t member,
                                      uint64_t seq) {
    return &shared->members[member].slots[seq & 1];
}

/* The inputs (outputs) of all members of call `seq`, in the caller's scratch. */
static const void *const *inputs(const syn_group *group, uint64_t seq) {
    const syn__local_group *shared = group->impl;
    const void **ins = shared->ins + (size_t)group->index * (size_t)group->size;
    for (int32_t i = 0; i < group->size; i++) ins[i] = slot_of(shared, i, seq)->in;
    return ins;
}

static void *const *outputs(const syn_group *group, uint64_t seq) {
    const syn__local_group *shared = group->impl;
    void **outs = shared->outs + (size_t)group->index * (size_t)group->size;
    for (int32_t i = 0; i < group->size; i++) outs[i] = slot_of(shared, i, seq)->out;
    return outs;
}

/* Bytes of input that go inline: all or none. */
static size_t inline_bytes(const syn__local *self, size_t bytes) {
    return bytes <= self->world->inline_bytes ? bytes : 0;
}

/* First element of a member's share of n_elems; shares begin at multiples of a cache line. */
static size_t share_begin(size_t n_elems, int32_t member, int32_t size, size_t elem_bytes) {
    const size_t line = SYN__LINE / elem_bytes;
    const size_t n_lines = n_elems / line, part = n_lines / (size_t)size,
                 rest = n_lines % (size_t)size;
    if (member == size) return n_elems;
    const size_t m = (size_t)member;
    return (m * part + (m < rest ? m : rest)) * line;
}

syn_status syn__local_all_reduce(syn_comm *comm, const syn_group *group, const void *in, void *out,
                                 size_t n_elems, syn_dtype dtype, syn_reduce reduce,
                                 uint64_t *wait_ns, syn_error *err) {
    syn__local *self = (syn__local *)comm;
    syn__call call = {.kind = SYN_COMM_ALL_REDUCE,
                      .dtype = dtype,
                      .reduce = (int32_t)reduce,
                      .root = -1,
                      .n_elems = n_elems};
    const size_t elem_bytes = syn_dtype_bytes(dtype),
                 inlined = inline_bytes(self, n_elems * elem_bytes);
    SYN_TRY(syn__local_enter(self, group, &call, in, out, inlined, wait_ns, err));
    if (n_elems == 0) return SYN_OK;
    if (inlined > 0) {
        syn__reduce(inputs(group, call.seq), group->size, &out, 1, 0, n_elems, dtype, reduce);
        return SYN_OK;
    }
    const size_t begin = share_begin(n_elems, group->index, group->size, elem_bytes);
    const size_t end = share_begin(n_elems, group->index + 1, group->size, elem_bytes);
    syn__reduce(inputs(group, call.seq), group->size, outputs(group, call.seq), group->size, begin,
                end - begin, dtype, reduce);
    syn__local_leave(self, group, wait_ns);
    return SYN_OK;
}

syn_status syn__local_all_gather(syn_comm *comm, const syn_group *group, const void *in, void *out,
                                 size_t n_elems, syn_dtype dtype, uint64_t *wait_ns,
                                 syn_error *err) {
    syn__local *self = (syn__local *)comm;
    syn__call call = {
        .kind = SYN_COMM_ALL_GATHER, .dtype = dtype, .reduce = -1, .root = -1, .n_elems = n_elems};
    const size_t bytes = n_elems * syn_dtype_bytes(dtype), inlined = inline_bytes(self, bytes);
    SYN_TRY(syn__local_enter(self, group, &call, in, out, inlined, wait_ns, err));
    if (bytes == 0) return SYN_OK;
    const void *const *ins = inputs(group, call.seq);
    /* Begins with its own part, so that members do not all read the same one. */
    for (int32_t k = 0; k < group->size; k++) {
        const int32_t from = (group->index + k) % group->size;
        memcpy((char *)out + (size_t)from * bytes, ins[from], bytes);
    }
    if (inlined == 0) syn__local_leave(self, group, wait_ns);
    return SYN_OK;
}

syn_status syn__local_reduce_scatter(syn_comm *comm, const syn_group *group, const void *in,
                                     void *out, size_t n_elems, syn_dtype dtype, syn_reduce reduce,
                                     uint64_t *wait_ns, syn_error *err) {
    syn__local *self = (syn__local *)comm;
    syn__call call = {.kind = SYN_COMM_REDUCE_SCATTER,
                      .dtype = dtype,
                      .reduce = (int32_t)reduce,
                      .root = -1,
                      .n_elems = n_elems};
    const size_t elem_bytes = syn_dtype_bytes(dtype), begin = n_elems * (size_t)group->index;
    const size_t inlined = inline_bytes(self, n_elems * elem_bytes * (size_t)group->size);
    SYN_TRY(syn__local_enter(self, group, &call, in, out, inlined, wait_ns, err));
    if (n_elems == 0) return SYN_OK;
    const void *const *whole = inputs(group, call.seq);
    const void **part = (const void **)(((syn__local_group *)group->impl)->outs +
                                        (size_t)group->index * (size_t)group->size);
    for (int32_t i = 0; i < group->size; i++) part[i] = (const char *)whole[i] + begin * elem_bytes;
    syn__reduce(part, group->size, &out, 1, 0, n_elems, dtype, reduce);
    if (inlined == 0) syn__local_leave(self, group, wait_ns);
    return SYN_OK;
}

syn_status syn__local_broadcast(syn_comm *comm, const syn_group *group, const void *in, void *out,
                                size_t n_elems, syn_dtype dtype, int32_t root, uint64_t *wait_ns,
                                syn_error *err) {
    syn__local *self = (syn__local *)comm;
    syn__call call = {
        .kind = SYN_COMM_BROADCAST, .dtype = dtype, .reduce = -1, .root = root, .n_elems = n_elems};
    const size_t bytes = n_elems * syn_dtype_bytes(dtype);
    const bool small = bytes <= self->world->inline_bytes, is_root = group->index == root;
    SYN_TRY(
        syn__local_enter(self, group, &call, in, out, small && is_root ? bytes : 0, wait_ns, err));
    if (root < 0 || root >= group->size)
        return SYN_FAIL(err, SYN_E_INVALID, "broadcast has root %d in group %.64s of %d ranks",
                        (int)root, group->name, (int)group->size);
    const void *from = slot_of(group->impl, root, call.seq)->in;
    if (bytes > 0 && !(is_root && in == out)) memcpy(out, is_root ? in : from, bytes);
    if (!small) syn__local_leave(self, group, wait_ns);
    return SYN_OK;
}

syn_status syn__local_barrier(syn_comm *comm, const syn_group *group, uint64_t *wait_ns,
                              syn_error *err) {
    syn__call call = {.kind = SYN_COMM_BARRIER, .reduce = -1, .root = -1};
    return syn__local_enter((syn__local *)comm, group, &call, NULL, NULL, 0, wait_ns, err);
}
