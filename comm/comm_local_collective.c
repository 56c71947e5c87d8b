/* Collectives of in-process ranks: data goes straight from all inputs to all outputs. */
#include "comm/comm_local.h"

#include <string.h>

static const syn_exchange *slot_of(const syn_request *r, int32_t member) {
    const syn__local_group *shared = r->turn.exchange.group->impl;
    return &shared->members[member].slots[r->turn.seq & 1];
}

/* The inputs (outputs) of all members, in the caller's scratch. */
static const void **inputs(const syn_request *r) {
    const syn_group *group = r->turn.exchange.group;
    const syn__local_group *shared = group->impl;
    const void **ins = shared->ins + (size_t)group->index * (size_t)group->size;
    for (int32_t i = 0; i < group->size; i++) ins[i] = slot_of(r, i)->in;
    return ins;
}

static void *const *outputs(const syn_request *r) {
    const syn_group *group = r->turn.exchange.group;
    const syn__local_group *shared = group->impl;
    void **outs = shared->outs + (size_t)group->index * (size_t)group->size;
    for (int32_t i = 0; i < group->size; i++) outs[i] = slot_of(r, i)->out;
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

static syn_status all_reduce(syn__local *self, syn_request *r, syn_error *err) {
    const syn_exchange *x = &r->turn.exchange;
    const syn_group *group = x->group;
    const size_t elem_bytes = syn_dtype_bytes(x->dtype),
                 inlined = inline_bytes(self, x->n_elems * elem_bytes);
    SYN_TRY(syn__local_enter(self, r, inlined, err));
    if (x->n_elems == 0) return SYN_OK;
    if (inlined > 0) {
        syn__reduce(inputs(r), group->size, &x->out, 1, 0, x->n_elems, x->dtype, x->reduce);
        return SYN_OK;
    }
    const size_t begin = share_begin(x->n_elems, group->index, group->size, elem_bytes);
    const size_t end = share_begin(x->n_elems, group->index + 1, group->size, elem_bytes);
    syn__reduce(inputs(r), group->size, outputs(r), group->size, begin, end - begin, x->dtype,
                x->reduce);
    syn__local_leave(self, r);
    return SYN_OK;
}

static syn_status all_gather(syn__local *self, syn_request *r, syn_error *err) {
    const syn_exchange *x = &r->turn.exchange;
    const syn_group *group = x->group;
    const size_t bytes = x->n_elems * syn_dtype_bytes(x->dtype),
                 inlined = inline_bytes(self, bytes);
    SYN_TRY(syn__local_enter(self, r, inlined, err));
    if (bytes == 0) return SYN_OK;
    const void *const *ins = inputs(r);
    /* Begins with its own part, so that members do not all read the same one. */
    for (int32_t k = 0; k < group->size; k++) {
        const int32_t from = (group->index + k) % group->size;
        memcpy((char *)x->out + (size_t)from * bytes, ins[from], bytes);
    }
    if (inlined == 0) syn__local_leave(self, r);
    return SYN_OK;
}

static syn_status reduce_scatter(syn__local *self, syn_request *r, syn_error *err) {
    const syn_exchange *x = &r->turn.exchange;
    const size_t size = (size_t)x->group->size, elem_bytes = syn_dtype_bytes(x->dtype);
    const size_t inlined = inline_bytes(self, x->n_elems * elem_bytes * size);
    SYN_TRY(syn__local_enter(self, r, inlined, err));
    if (x->n_elems == 0) return SYN_OK;
    const void **ins = inputs(r);
    const size_t part_at = x->n_elems * (size_t)x->group->index * elem_bytes;
    for (size_t i = 0; i < size; i++) ins[i] = (const char *)ins[i] + part_at;
    syn__reduce(ins, x->group->size, &x->out, 1, 0, x->n_elems, x->dtype, x->reduce);
    if (inlined == 0) syn__local_leave(self, r);
    return SYN_OK;
}

static syn_status broadcast(syn__local *self, syn_request *r, syn_error *err) {
    const syn_exchange *x = &r->turn.exchange;
    const size_t bytes = x->n_elems * syn_dtype_bytes(x->dtype);
    const bool small = bytes <= self->world->inline_bytes, is_root = x->group->index == x->root;
    SYN_TRY(syn__local_enter(self, r, small && is_root ? bytes : 0, err));
    const void *from = is_root ? x->in : slot_of(r, x->root)->in;
    if (bytes > 0 && from != x->out) memcpy(x->out, from, bytes);
    if (!small) syn__local_leave(self, r);
    return SYN_OK;
}

syn_status syn__local_run_collective(syn__comm *comm, syn_request *request, syn_error *err) {
    syn__local *self = (syn__local *)comm;
    switch (request->turn.exchange.kind) {
    case SYN_COMM_ALL_REDUCE:
        return all_reduce(self, request, err);
    case SYN_COMM_ALL_GATHER:
        return all_gather(self, request, err);
    case SYN_COMM_REDUCE_SCATTER:
        return reduce_scatter(self, request, err);
    case SYN_COMM_BROADCAST:
        return broadcast(self, request, err);
    default: /* a barrier */
        return syn__local_enter(self, request, 0, err);
    }
}
