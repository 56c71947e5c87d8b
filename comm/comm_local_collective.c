/* Collectives of in-process ranks. Data goes directly from all inputs to all outputs. */
#include "comm/comm_local.h"

#include <stdio.h>
#include <string.h>

static const syn__local_member *member_of(const syn_request *r, int32_t member) {
    const syn__local_group *shared = r->sig.comm_call.group->impl;
    return &shared->members[member];
}

static const syn_segment *segments_of(const syn_request *r, int32_t member) {
    return member_of(r, member)->slots[r->sig.seq & 1].comm_call.segments;
}

/* The inputs that a member copied, one after another, before it entered. The member's list of
   segments may not exist any more, but its lengths were the same as those of the caller's list. */
static const unsigned char *inlined_of(const syn_request *r, int32_t member) {
    return member_of(r, member)->inlined[r->sig.seq & 1];
}

/* The inputs of all members for one segment, in this member's scratch memory. `outputs` does the
   same for outputs. */
static const void **inputs(const syn_request *r, int32_t segment) {
    const syn_group *group = r->sig.comm_call.group;
    const syn__local_group *shared = group->impl;
    const void **ins = shared->ins + (size_t)group->index * (size_t)group->size;
    for (int32_t i = 0; i < group->size; i++) ins[i] = segments_of(r, i)[segment].in;
    return ins;
}

static void *const *outputs(const syn_request *r, int32_t segment) {
    const syn_group *group = r->sig.comm_call.group;
    const syn__local_group *shared = group->impl;
    void **outs = shared->outs + (size_t)group->index * (size_t)group->size;
    for (int32_t i = 0; i < group->size; i++) outs[i] = segments_of(r, i)[segment].out;
    return outs;
}

static const void **inlined_inputs(const syn_request *r, size_t at_bytes) {
    const syn_group *group = r->sig.comm_call.group;
    const syn__local_group *shared = group->impl;
    const void **ins = shared->ins + (size_t)group->index * (size_t)group->size;
    for (int32_t i = 0; i < group->size; i++) ins[i] = inlined_of(r, i) + at_bytes;
    return ins;
}

/* Whether inputs of this size are copied. */
static bool is_small(const syn__local *self, size_t bytes) {
    return bytes <= self->world->inline_bytes;
}

/* A position in the array that the segments form. */
typedef struct place {
    int32_t segment;
    size_t at;
} place;

static place find_place(const syn_comm_call *x, size_t elem) {
    place p = {0, elem};
    while (p.segment < x->n_segments && p.at >= x->segments[p.segment].n_elems)
        p.at -= x->segments[p.segment++].n_elems;
    return p;
}

/* ---- all_reduce ---- */

/* The position where a member's share of the elements begins. Its offset in the segment is a
   multiple of a cache line. */
static place share_begin(const syn__call_sig *sig, int32_t member, size_t elem_bytes) {
    const size_t size = (size_t)sig->comm_call.group->size, m = (size_t)member;
    place p = find_place(&sig->comm_call, sig->n_elems / size * m + sig->n_elems % size * m / size);
    p.at -= p.at % (SYN__LINE / elem_bytes);
    return p;
}

/* Reduces this member's share of the elements into the outputs of all members. */
static void reduce_share(const syn_request *r, size_t elem_bytes) {
    const syn_comm_call *x = &r->sig.comm_call;
    const int32_t index = x->group->index, size = x->group->size;
    const place begin = share_begin(&r->sig, index, elem_bytes),
                end = share_begin(&r->sig, index + 1, elem_bytes);
    for (int32_t i = begin.segment; i <= end.segment && i < x->n_segments; i++) {
        const size_t from = i == begin.segment ? begin.at : 0;
        const size_t to = i == end.segment ? end.at : x->segments[i].n_elems;
        if (from < to)
            syn__reduce(inputs(r, i), size, outputs(r, i), size, from, to - from, x->dtype,
                        x->reduce);
    }
}

/* Reduces all elements of the copied inputs into this member's output. */
static void reduce_inlined(const syn_request *r, size_t elem_bytes) {
    const syn_comm_call *x = &r->sig.comm_call;
    size_t at = 0;
    for (int32_t i = 0; i < x->n_segments; i++) {
        const syn_segment *s = &x->segments[i];
        syn__reduce(inlined_inputs(r, at), x->group->size, &s->out, 1, 0, s->n_elems, x->dtype,
                    x->reduce);
        at += s->n_elems * elem_bytes;
    }
}

static syn_status all_reduce(syn__local *self, syn_request *r, syn_error *err) {
    const size_t elem_bytes = syn_dtype_bytes(r->sig.comm_call.dtype);
    const bool small = is_small(self, r->sig.n_elems * elem_bytes);
    SYN_TRY(syn__local_enter(self, r, small, err));
    if (small) {
        reduce_inlined(r, elem_bytes);
        return SYN_OK;
    }
    reduce_share(r, elem_bytes);
    syn__local_leave(self, r);
    return SYN_OK;
}

/* ---- all_gather, reduce_scatter ---- */

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Copies the part of a member into this member's outputs. */
static void store_part(const syn_comm_call *x, int32_t member, const char *part) {
    const size_t elem_bytes = syn_dtype_bytes(x->dtype);
    size_t left = x->n_part;
    for (place p = find_place(x, x->n_part * (size_t)member); p.segment < x->n_segments && left > 0;
         p = (place){p.segment + 1, 0}) {
        const syn_segment *s = &x->segments[p.segment];
        const size_t n = min_size(left, s->n_elems - p.at);
        if (n > 0) memcpy((char *)s->out + p.at * elem_bytes, part, n * elem_bytes);
        part += n * elem_bytes;
        left -= n;
    }
}

static syn_status all_gather(syn__local *self, syn_request *r, syn_error *err) {
    const syn_comm_call *x = &r->sig.comm_call;
    const syn_group *group = x->group;
    const bool small = is_small(self, x->n_part * syn_dtype_bytes(x->dtype));
    SYN_TRY(syn__local_enter(self, r, small, err));
    if (x->n_part == 0) return SYN_OK;
    /* Each member begins with its own part, so that not all members read the same part at once. */
    for (int32_t k = 0; k < group->size; k++) {
        const int32_t from = (group->index + k) % group->size;
        const void *part = member_of(r, from)->slots[r->sig.seq & 1].comm_call.part;
        store_part(x, from, small ? (const void *)inlined_of(r, from) : part);
    }
    if (!small) syn__local_leave(self, r);
    return SYN_OK;
}

/* Reduces n elements into this member's part, from its element `at` on. ins: the members' inputs,
   from their element `from` on. */
static void reduce_part(const syn_comm_call *x, const void **ins, size_t from, size_t at,
                        size_t n) {
    const size_t elem_bytes = syn_dtype_bytes(x->dtype);
    void *out = (char *)x->part + at * elem_bytes;
    for (int32_t i = 0; i < x->group->size; i++) ins[i] = (const char *)ins[i] + from * elem_bytes;
    syn__reduce(ins, x->group->size, &out, 1, 0, n, x->dtype, x->reduce);
}

static syn_status reduce_scatter(syn__local *self, syn_request *r, syn_error *err) {
    const syn_comm_call *x = &r->sig.comm_call;
    const size_t elem_bytes = syn_dtype_bytes(x->dtype);
    const size_t begin = min_size(x->n_part * (size_t)x->group->index, r->sig.n_elems);
    const size_t n_elems = min_size(x->n_part, r->sig.n_elems - begin);
    const bool small = is_small(self, r->sig.n_elems * elem_bytes);
    SYN_TRY(syn__local_enter(self, r, small, err));
    if (small && n_elems > 0) reduce_part(x, inlined_inputs(r, 0), begin, 0, n_elems);
    place p = find_place(x, begin);
    for (size_t at = 0; !small && at < n_elems; p = (place){p.segment + 1, 0}) {
        const size_t n = min_size(n_elems - at, x->segments[p.segment].n_elems - p.at);
        if (n > 0) reduce_part(x, inputs(r, p.segment), p.at, at, n);
        at += n;
    }
    if (x->n_part > n_elems)
        memset((char *)x->part + n_elems * elem_bytes, 0, (x->n_part - n_elems) * elem_bytes);
    if (!small) syn__local_leave(self, r);
    return SYN_OK;
}

/* ---- all_to_all ---- */

/* The sum of the first n counts. */
static size_t before(const int64_t *counts, int32_t n) {
    size_t sum = 0;
    for (int32_t i = 0; i < n; i++) sum += (size_t)counts[i];
    return sum;
}

static syn_status check_counts(syn__local *self, const syn_comm_call *x, const syn_comm_call *other,
                               int32_t member, syn_error *err) {
    char sentence[SYN_ERROR_TEXT];
    if (other->to[x->group->index] == x->from[member]) return SYN_OK;
    snprintf(
        sentence, sizeof sentence,
        "all_to_all in group %.48s: rank %d sends %lld elements to rank %d, which expects %lld",
        x->group->name, (int)x->group->ranks[member], (long long)other->to[x->group->index],
        (int)x->group->ranks[x->group->index], (long long)x->from[member]);
    return syn__local_fail(self->world, sentence, err);
}

static syn_status all_to_all(syn__local *self, syn_request *r, syn_error *err) {
    const syn_comm_call *x = &r->sig.comm_call;
    const size_t elem_bytes = syn_dtype_bytes(x->dtype);
    const int32_t index = x->group->index, size = x->group->size;
    SYN_TRY(syn__local_enter(self, r, false, err));
    for (int32_t k = 0; k < size; k++) {
        const int32_t from = (index + k) % size;
        const syn_comm_call *other = &member_of(r, from)->slots[r->sig.seq & 1].comm_call;
        const size_t bytes = (size_t)x->from[from] * elem_bytes;
        SYN_TRY(check_counts(self, x, other, from, err));
        if (bytes > 0)
            memcpy((char *)x->segments->out + before(x->from, from) * elem_bytes,
                   (const char *)other->segments->in + before(other->to, index) * elem_bytes,
                   bytes);
    }
    syn__local_leave(self, r);
    return SYN_OK;
}

/* ---- broadcast ---- */

static syn_status broadcast(syn__local *self, syn_request *r, syn_error *err) {
    const syn_comm_call *x = &r->sig.comm_call;
    const size_t elem_bytes = syn_dtype_bytes(x->dtype);
    const bool small = is_small(self, r->sig.n_elems * elem_bytes),
               is_root = x->group->index == x->root;
    SYN_TRY(syn__local_enter(self, r, small && is_root, err));
    const unsigned char *inlined = inlined_of(r, x->root);
    for (int32_t i = 0; i < x->n_segments; i++) {
        const syn_segment *s = &x->segments[i];
        const size_t bytes = s->n_elems * elem_bytes;
        const void *from = is_root ? s->in : small ? inlined : segments_of(r, x->root)[i].in;
        if (bytes > 0 && from != s->out) memcpy(s->out, from, bytes);
        inlined += small ? bytes : 0;
    }
    if (!small) syn__local_leave(self, r);
    return SYN_OK;
}

syn_status syn__local_run_collective(syn__comm *comm, syn_request *request, syn_error *err) {
    syn__local *self = (syn__local *)comm;
    if (request->sig.comm_call.elsewhere) return syn__local_enter(self, request, false, err);
    switch (request->sig.comm_call.kind) {
    case SYN_COMM_ALL_REDUCE:
        return all_reduce(self, request, err);
    case SYN_COMM_ALL_GATHER:
        return all_gather(self, request, err);
    case SYN_COMM_REDUCE_SCATTER:
        return reduce_scatter(self, request, err);
    case SYN_COMM_ALL_TO_ALL:
        return all_to_all(self, request, err);
    case SYN_COMM_BROADCAST:
        return broadcast(self, request, err);
    default: /* barrier */
        return syn__local_enter(self, request, false, err);
    }
}
