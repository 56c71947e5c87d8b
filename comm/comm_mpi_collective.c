/* Collectives over MPI.

   Data that MPI cannot reduce (f16, bf16, averages of i32) is widened to f32 or i64, reduced, and
   narrowed once, in pieces that fit in a scratch buffer. The same buffer joins consecutive short
   segments of a list. Data with more elements than `limit` is also split into pieces, because MPI's
   counts are int. */
#include "comm/comm_mpi.h"
#include "syntorch/base/memory.h"

#include <stdio.h>
#include <string.h>

#ifdef SYN_HAVE_MPI

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

/* ---- Types and reductions ---- */

MPI_Datatype syn__mpi_type(syn_dtype dtype) {
    switch (dtype) {
    case SYN_F32:
        return MPI_FLOAT;
    case SYN_I32:
        return MPI_INT32_T;
    case SYN_I64:
        return MPI_INT64_T;
    default:
        return MPI_UINT16_T;
    }
}

/* The type to reduce in. Sums and products of integers use unsigned types, which wrap around on
   overflow by definition. */
static MPI_Datatype reduce_type(syn_dtype dtype, syn_reduce reduce) {
    const bool ordered = reduce == SYN_REDUCE_MIN || reduce == SYN_REDUCE_MAX;
    if (dtype == SYN_I32) return ordered ? MPI_INT32_T : MPI_UINT32_T;
    if (dtype == SYN_I64) return ordered ? MPI_INT64_T : MPI_UINT64_T;
    return MPI_FLOAT;
}

static MPI_Op reduce_op(const syn__mpi *self, syn_dtype dtype, syn_reduce reduce) {
    const bool real = dtype == SYN_F32;
    switch (reduce) {
    case SYN_REDUCE_MIN:
        return real ? self->keep_nan_min : MPI_MIN;
    case SYN_REDUCE_MAX:
        return real ? self->keep_nan_max : MPI_MAX;
    case SYN_REDUCE_PROD:
        return MPI_PROD;
    default:
        return MPI_SUM;
    }
}

static void fold_keeping_nan(const void *in, void *inout, const int *n, syn_reduce reduce) {
    const void *const ins[] = {in, inout};
    void *const outs[] = {inout};
    syn__reduce(ins, 2, outs, 1, 0, (size_t)*n, SYN_F32, reduce);
}

static void min_keeping_nan(void *in, void *inout, int *n, MPI_Datatype *type) {
    (void)type;
    fold_keeping_nan(in, inout, n, SYN_REDUCE_MIN);
}

static void max_keeping_nan(void *in, void *inout, int *n, MPI_Datatype *type) {
    (void)type;
    fold_keeping_nan(in, inout, n, SYN_REDUCE_MAX);
}

syn_status syn__mpi_ops_new(syn__mpi *self, syn_error *err) {
    SYN__TRY_MPI("MPI_Op_create", MPI_Op_create(min_keeping_nan, 1, &self->keep_nan_min));
    SYN__TRY_MPI("MPI_Op_create", MPI_Op_create(max_keeping_nan, 1, &self->keep_nan_max));
    return SYN_OK;
}

/* ---- Before the data moves ---- */

/* Waits for all requests. Threads other than the rank's own thread poll, and leave the core to that
   thread between two polls. */
static syn_status await_all(const syn_request *r, int n, MPI_Request *requests, syn_error *err) {
    int done = 0;
    if (r->on_main) {
        SYN__TRY_MPI("MPI_Waitall", MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
        return SYN_OK;
    }
    for (;;) {
        SYN__TRY_MPI("MPI_Testall", MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE));
        if (done) return SYN_OK;
        syn__mpi_backoff();
    }
}

static void sig_of(const syn__mpi_sig *w, syn_group *group, syn__call_sig *sig) {
    *group = (syn_group){.id = (uint32_t)w->group_id, .name = w->group};
    *sig = (syn__call_sig){.comm_call = {.kind = (syn_comm_kind)w->kind,
                                         .dtype = (syn_dtype)w->dtype,
                                         .reduce = (syn_reduce)w->reduce,
                                         .root = (int32_t)w->root,
                                         .n_segments = (int32_t)w->n_segments,
                                         .n_part = (size_t)w->n_part,
                                         .group = group},
                           .n_elems = (size_t)w->n_elems,
                           .cut = (uint64_t)w->cut,
                           .seq = (uint64_t)w->seq};
}

static syn_status compare_sigs(const syn_group *group, const syn__mpi_sig *sigs, syn_error *err) {
    syn_group first_group, other_group;
    syn__call_sig first, other;
    sig_of(&sigs[0], &first_group, &first);
    for (int32_t i = 1; i < group->size; i++) {
        char sentence[SYN_ERROR_TEXT];
        sig_of(&sigs[i], &other_group, &other);
        if (syn__call_sig_equal(&first, &other)) continue;
        syn__mismatch_text(group->ranks[0], &first, group->ranks[i], &other, sentence,
                           sizeof sentence);
        return SYN_FAIL(err, SYN_E_COMM, "%s", sentence);
    }
    return SYN_OK;
}

/* Exchanges signatures with all other members and compares them. Without threads this is done in a
   communicator of all ranks, in program order, so it also detects two ranks that enter different
   groups to which both belong. With threads, a rank's groups run concurrently, so only calls within
   a group can be compared. */
static syn_status check_call(syn__mpi *self, const syn_request *r, syn_error *err) {
    const syn_comm_call *x = &r->sig.comm_call;
    const syn_group *group = x->group;
    syn__mpi_group *shared = group->impl;
    syn__mpi_sig *mine = &shared->sigs[group->index];
    const bool apart = self->base.threads;
    MPI_Comm comm = apart ? shared->comm : self->checks;
    int n = 0;
    *mine = (syn__mpi_sig){.kind = (int64_t)x->kind,
                           .dtype = (int64_t)x->dtype,
                           .reduce = (int64_t)x->reduce,
                           .root = x->root,
                           .n_elems = (int64_t)r->sig.n_elems,
                           .n_segments = x->n_segments,
                           .n_part = (int64_t)x->n_part,
                           .cut = (int64_t)r->sig.cut,
                           .group_id = group->id,
                           .seq = (int64_t)r->sig.seq};
    snprintf(mine->group, sizeof mine->group, "%s", group->name);
    for (int32_t i = 0; i < group->size; i++) {
        if (i == group->index) continue;
        const int peer = apart ? i : group->ranks[i];
        SYN__TRY_MPI("MPI_Irecv", MPI_Irecv(&shared->sigs[i], (int)sizeof(syn__mpi_sig), MPI_BYTE,
                                            peer, 0, comm, &shared->requests[n++]));
        SYN__TRY_MPI("MPI_Isend", MPI_Isend(mine, (int)sizeof(syn__mpi_sig), MPI_BYTE, peer, 0,
                                            comm, &shared->requests[n++]));
    }
    SYN_TRY(await_all(r, n, shared->requests, err));
    return compare_sigs(group, shared->sigs, err);
}

/* Waits until all members have entered. With threads, they meet before MPI moves data, because MPI
   would wait for missing members without leaving the core to other threads. */
static syn_status meet(syn__mpi *self, const syn_request *r, syn_error *err) {
    syn__mpi_group *shared = r->sig.comm_call.group->impl;
    if (self->check) return check_call(self, r, err);
    if (!self->base.threads) {
        SYN__TRY_MPI("MPI_Barrier", MPI_Barrier(shared->comm));
        return SYN_OK;
    }
    MPI_Request entered;
    SYN__TRY_MPI("MPI_Ibarrier", MPI_Ibarrier(shared->comm, &entered));
    return await_all(r, 1, &entered, err);
}

static syn_status begin(syn__mpi *self, syn_request *r, syn_error *err) {
    if (r->on_main) SYN_TRY(syn__mpi_free_sent(self, err));
    if (!self->check && !self->measure && !self->base.threads) return SYN_OK;
    const uint64_t begin_ns = syn__clock_ns();
    SYN_TRY(meet(self, r, err));
    r->times.wait_ns = syn__clock_ns() - begin_ns;
    return SYN_OK;
}

/* ---- Lists ---- */

/* Segments shorter than this are joined with their neighbours: two copies cost less than an MPI
   call. */
#define JOINED_BYTES 65536

/* is_widened: whether the data goes through the scratch buffer in a wider dtype. scratch_dtype: the
   data's dtype in the buffer. */
static bool is_widened(const syn_comm_call *x) {
    return (x->kind == SYN_COMM_ALL_REDUCE || x->kind == SYN_COMM_REDUCE_SCATTER) &&
           syn__wide_dtype(x->dtype, x->reduce) != x->dtype;
}

static syn_dtype scratch_dtype(const syn_comm_call *x) {
    return is_widened(x) ? syn__wide_dtype(x->dtype, x->reduce) : x->dtype;
}

/* A position in a list of segments. */
typedef struct cursor {
    const syn_segment *segment;
    size_t at;
} cursor;

static void load(const syn_comm_call *x, cursor c, unsigned char *scratch, size_t n) {
    const size_t bytes = syn_dtype_bytes(x->dtype);
    if (is_widened(x)) syn__wide_load(c.segment->in, c.at, scratch, n, x->dtype, x->reduce);
    else memcpy(scratch, (const char *)c.segment->in + c.at * bytes, n * bytes);
}

static void store(const syn_comm_call *x, cursor c, unsigned char *scratch, size_t n) {
    const size_t bytes = syn_dtype_bytes(x->dtype);
    if (is_widened(x)) syn__wide_store(scratch, c.segment->out, c.at, n, x->dtype, x->reduce);
    else memcpy((char *)c.segment->out + c.at * bytes, scratch, n * bytes);
}

/* Copies n elements, which may span several segments, to or from the scratch buffer. Returns the
   position after them. */
static cursor pass(const syn_comm_call *x, cursor c, unsigned char *scratch, size_t n,
                   void (*move)(const syn_comm_call *x, cursor c, unsigned char *scratch,
                                size_t n)) {
    while (n > 0) {
        const size_t k = min_size(n, c.segment->n_elems - c.at);
        if (k > 0) move(x, c, scratch, k);
        scratch += k * syn_dtype_bytes(scratch_dtype(x));
        n -= k;
        c.at += k;
        if (c.at == c.segment->n_elems) c = (cursor){c.segment + 1, 0};
    }
    return c;
}

/* Runs the collective on n elements in the scratch buffer. */
static syn_status run_scratch(syn__mpi *self, const syn_comm_call *x, int n, syn_error *err) {
    const syn__mpi_group *shared = x->group->impl;
    const syn_dtype dtype = scratch_dtype(x);
    if (x->kind == SYN_COMM_BROADCAST) {
        SYN__TRY_MPI("MPI_Bcast",
                     MPI_Bcast(shared->scratch, n, syn__mpi_type(dtype), x->root, shared->comm));
        return SYN_OK;
    }
    SYN__TRY_MPI("MPI_Allreduce",
                 MPI_Allreduce(MPI_IN_PLACE, shared->scratch, n, reduce_type(dtype, x->reduce),
                               reduce_op(self, dtype, x->reduce), shared->comm));
    if (x->reduce == SYN_REDUCE_AVG)
        syn__wide_divide(shared->scratch, (size_t)n, dtype, x->group->size);
    return SYN_OK;
}

/* Runs the collective on n segments that are joined, in pieces that fit in the scratch buffer. */
static syn_status run_joined(syn__mpi *self, const syn_comm_call *x, const syn_segment *first,
                             int32_t n, syn_error *err) {
    const syn__mpi_group *shared = x->group->impl;
    const bool loads = x->kind != SYN_COMM_BROADCAST || x->group->index == x->root;
    const size_t most =
        min_size(SYN__MPI_SCRATCH_BYTES / syn_dtype_bytes(scratch_dtype(x)), self->limit);
    cursor from = {first, 0}, to = from;
    size_t left = 0;
    for (int32_t i = 0; i < n; i++) left += first[i].n_elems;
    while (left > 0) {
        const size_t k = min_size(most, left);
        if (loads) from = pass(x, from, shared->scratch, k, load);
        SYN_TRY(run_scratch(self, x, (int)k, err));
        to = pass(x, to, shared->scratch, k, store);
        left -= k;
    }
    return SYN_OK;
}

typedef syn_status run_segment(syn__mpi *self, const syn_comm_call *x, const syn_segment *s,
                               syn_error *err);

/* Runs the collective on a list of segments: long segments one by one, consecutive short segments
   joined. */
static syn_status run_list(syn__mpi *self, const syn_comm_call *x, run_segment *one,
                           syn_error *err) {
    const size_t elem_bytes = syn_dtype_bytes(x->dtype);
    for (int32_t i = 0, end = 0; i < x->n_segments; i = end) {
        while (end < x->n_segments &&
               (is_widened(x) || x->segments[end].n_elems * elem_bytes < JOINED_BYTES))
            end++;
        if (end - i > 1 || is_widened(x)) {
            SYN_TRY(run_joined(self, x, &x->segments[i], end - i, err));
        } else {
            end = i + 1;
            SYN_TRY(one(self, x, &x->segments[i], err));
        }
    }
    return SYN_OK;
}

/* ---- Collectives ---- */

static syn_status all_reduce_one(syn__mpi *self, const syn_comm_call *x, const syn_segment *s,
                                 syn_error *err) {
    const syn__mpi_group *shared = x->group->impl;
    const size_t elem_bytes = syn_dtype_bytes(x->dtype);
    for (size_t at = 0; at < s->n_elems; at += self->limit) {
        const int n = (int)min_size(self->limit, s->n_elems - at);
        const void *from = s->in == s->out ? MPI_IN_PLACE : (const char *)s->in + at * elem_bytes;
        SYN__TRY_MPI("MPI_Allreduce",
                     MPI_Allreduce(from, (char *)s->out + at * elem_bytes, n,
                                   reduce_type(x->dtype, x->reduce),
                                   reduce_op(self, x->dtype, x->reduce), shared->comm));
    }
    if (x->reduce == SYN_REDUCE_AVG) syn__wide_divide(s->out, s->n_elems, x->dtype, x->group->size);
    return SYN_OK;
}

/* ---- all_gather, reduce_scatter ---- */

/* Whether the parts of all ranks are one array without padding, so that MPI can use the arrays
   themselves. */
static bool is_one_array(const syn__mpi *self, const syn_comm_call *x) {
    return x->n_segments == 1 && x->segments->n_elems == x->n_part * (size_t)x->group->size &&
           x->segments->n_elems <= self->limit;
}

/* The number of elements of a piece. The scratch buffer has room for a piece of each rank's part,
   and for `more` further pieces. */
static syn_status piece_elems(const syn__mpi *self, const syn_comm_call *x, size_t more,
                              size_t *piece, syn_error *err) {
    const size_t bytes = syn_dtype_bytes(scratch_dtype(x));
    const size_t most = min_size(SYN__MPI_SCRATCH_BYTES / bytes, self->limit);
    *piece = most / ((size_t)x->group->size + more);
    if (*piece > 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_UNSUPPORTED, "%s over %d ranks is too wide",
                    syn_comm_kind_name(x->kind), (int)x->group->size);
}

/* Copies elements begin to begin + n - 1 of the array that the segments form to or from the scratch
   buffer. Returns the number of elements that are not padding. */
static size_t pass_range(const syn_comm_call *x, size_t begin, size_t n, unsigned char *scratch,
                         void (*move)(const syn_comm_call *x, cursor c, unsigned char *scratch,
                                      size_t n)) {
    const syn_segment *s = x->segments, *end = s + x->n_segments;
    size_t left = 0;
    while (s < end && begin >= s->n_elems) begin -= s++->n_elems;
    for (const syn_segment *k = s; k < end && left < begin + n; k++) left += k->n_elems;
    const size_t real = left > begin ? min_size(n, left - begin) : 0;
    if (real > 0) pass(x, (cursor){s, begin}, scratch, real, move);
    return real;
}

/* Runs a reduce-scatter in pieces. A piece consists of the same range of every part. The ranges are
   packed one after another in the scratch buffer. */
static syn_status reduce_scatter_pieces(syn__mpi *self, const syn_comm_call *x, syn_error *err) {
    const syn__mpi_group *shared = x->group->impl;
    const syn_dtype wide = scratch_dtype(x);
    const size_t wide_bytes = syn_dtype_bytes(wide), size = (size_t)x->group->size;
    size_t piece;
    SYN_TRY(piece_elems(self, x, 1, &piece, err));
    unsigned char *mine = shared->scratch + size * piece * wide_bytes;
    for (size_t at = 0; at < x->n_part; at += piece) {
        const size_t n = min_size(piece, x->n_part - at);
        for (size_t k = 0; k < size; k++) {
            unsigned char *to = shared->scratch + k * n * wide_bytes;
            const size_t real = pass_range(x, k * x->n_part + at, n, to, load);
            memset(to + real * wide_bytes, 0, (n - real) * wide_bytes);
        }
        SYN__TRY_MPI("MPI_Reduce_scatter_block",
                     MPI_Reduce_scatter_block(shared->scratch, mine, (int)n,
                                              reduce_type(wide, x->reduce),
                                              reduce_op(self, wide, x->reduce), shared->comm));
        if (x->reduce == SYN_REDUCE_AVG) syn__wide_divide(mine, n, wide, x->group->size);
        if (is_widened(x)) syn__wide_store(mine, x->part, at, n, x->dtype, x->reduce);
        else memcpy((char *)x->part + at * wide_bytes, mine, n * wide_bytes);
    }
    return SYN_OK;
}

static syn_status reduce_scatter(syn__mpi *self, const syn_comm_call *x, syn_error *err) {
    const syn__mpi_group *shared = x->group->impl;
    if (x->n_part == 0) return SYN_OK;
    if (is_widened(x) || !is_one_array(self, x)) return reduce_scatter_pieces(self, x, err);
    SYN__TRY_MPI("MPI_Reduce_scatter_block",
                 MPI_Reduce_scatter_block(x->segments->in, x->part, (int)x->n_part,
                                          reduce_type(x->dtype, x->reduce),
                                          reduce_op(self, x->dtype, x->reduce), shared->comm));
    if (x->reduce == SYN_REDUCE_AVG) syn__wide_divide(x->part, x->n_part, x->dtype, x->group->size);
    return SYN_OK;
}

/* Gathers the same range of every part at a time, in the scratch buffer. */
static syn_status all_gather_pieces(syn__mpi *self, const syn_comm_call *x, syn_error *err) {
    const syn__mpi_group *shared = x->group->impl;
    const size_t elem_bytes = syn_dtype_bytes(x->dtype), size = (size_t)x->group->size;
    const MPI_Datatype type = syn__mpi_type(x->dtype);
    size_t piece;
    SYN_TRY(piece_elems(self, x, 0, &piece, err));
    for (size_t at = 0; at < x->n_part; at += piece) {
        const size_t n = min_size(piece, x->n_part - at);
        SYN__TRY_MPI("MPI_Allgather",
                     MPI_Allgather((const char *)x->part + at * elem_bytes, (int)n, type,
                                   shared->scratch, (int)n, type, shared->comm));
        for (size_t k = 0; k < size; k++)
            pass_range(x, k * x->n_part + at, n, shared->scratch + k * n * elem_bytes, store);
    }
    return SYN_OK;
}

static syn_status all_gather(syn__mpi *self, const syn_comm_call *x, syn_error *err) {
    const syn__mpi_group *shared = x->group->impl;
    const MPI_Datatype type = syn__mpi_type(x->dtype);
    if (x->n_part == 0) return SYN_OK;
    if (!is_one_array(self, x)) return all_gather_pieces(self, x, err);
    SYN__TRY_MPI("MPI_Allgather", MPI_Allgather(x->part, (int)x->n_part, type, x->segments->out,
                                                (int)x->n_part, type, shared->comm));
    return SYN_OK;
}

/* ---- all_to_all ---- */

/* Starts the messages of a member's elements, in pieces, and returns their number. */
static syn_status start_pieces(syn__mpi *self, const syn_comm_call *x, char *data, int64_t n_elems,
                               int32_t member, bool send, MPI_Request *requests, int *n,
                               syn_error *err) {
    const syn__mpi_group *shared = x->group->impl;
    const MPI_Datatype type = syn__mpi_type(x->dtype);
    for (size_t at = 0; at < (size_t)n_elems; at += self->limit) {
        const int some = (int)min_size(self->limit, (size_t)n_elems - at);
        void *piece = data + at * syn_dtype_bytes(x->dtype);
        if (send)
            SYN__TRY_MPI("MPI_Isend",
                         MPI_Isend(piece, some, type, member, 0, shared->comm, &requests[(*n)++]));
        else
            SYN__TRY_MPI("MPI_Irecv",
                         MPI_Irecv(piece, some, type, member, 0, shared->comm, &requests[(*n)++]));
    }
    return SYN_OK;
}

/* Starts the messages from, or to, all other members, and copies the rank's own elements. */
static syn_status start_all(syn__mpi *self, const syn_comm_call *x, bool send,
                            MPI_Request *requests, int *n, syn_error *err) {
    const size_t elem_bytes = syn_dtype_bytes(x->dtype);
    const int64_t *counts = send ? x->to : x->from;
    char *data = send ? (char *)(uintptr_t)x->segments->in : x->segments->out;
    for (int32_t i = 0; i < x->group->size; i++) {
        if (i != x->group->index)
            SYN_TRY(start_pieces(self, x, data, counts[i], i, send, requests, n, err));
        data += (size_t)counts[i] * elem_bytes;
    }
    return SYN_OK;
}

static void copy_own(const syn_comm_call *x) {
    const size_t elem_bytes = syn_dtype_bytes(x->dtype);
    const int32_t index = x->group->index;
    const char *in = x->segments->in;
    char *out = x->segments->out;
    for (int32_t i = 0; i < index; i++) {
        in += (size_t)x->to[i] * elem_bytes;
        out += (size_t)x->from[i] * elem_bytes;
    }
    if (x->to[index] > 0) memcpy(out, in, (size_t)x->to[index] * elem_bytes);
}

/* MPI_Alltoallv has counts of int, so messages are used, which can be divided. */
static syn_status all_to_all(syn__mpi *self, const syn_request *r, syn_error *err) {
    const syn_comm_call *x = &r->sig.comm_call;
    size_t most = 0;
    int n = 0;
    for (int32_t i = 0; i < x->group->size; i++)
        most += ((size_t)x->to[i] + self->limit - 1) / self->limit +
                ((size_t)x->from[i] + self->limit - 1) / self->limit;
    MPI_Request *requests = syn_malloc((most + 1) * sizeof *requests);
    if (!requests) return SYN_FAIL_NOMEM(err, most * sizeof *requests, "an all-to-all");
    syn_status status = start_all(self, x, false, requests, &n, err);
    if (status == SYN_OK) status = start_all(self, x, true, requests, &n, err);
    if (status == SYN_OK) copy_own(x);
    if (status == SYN_OK) status = await_all(r, n, requests, err);
    syn_free(requests);
    return status;
}

/* ---- broadcast, barrier ---- */

/* Broadcasts n_elems elements of buf from `root`, in pieces. */
static syn_status spread(syn__mpi *self, const syn_comm_call *x, void *buf, size_t n_elems,
                         int32_t root, syn_error *err) {
    const syn__mpi_group *shared = x->group->impl;
    for (size_t at = 0; at < n_elems; at += self->limit) {
        const int n = (int)min_size(self->limit, n_elems - at);
        SYN__TRY_MPI("MPI_Bcast", MPI_Bcast((char *)buf + at * syn_dtype_bytes(x->dtype), n,
                                            syn__mpi_type(x->dtype), root, shared->comm));
    }
    return SYN_OK;
}

static syn_status broadcast_one(syn__mpi *self, const syn_comm_call *x, const syn_segment *s,
                                syn_error *err) {
    if (x->group->index == x->root && s->in != s->out && s->n_elems > 0)
        memcpy(s->out, s->in, s->n_elems * syn_dtype_bytes(x->dtype));
    return spread(self, x, s->out, s->n_elems, x->root, err);
}

static syn_status barrier(syn_request *r, syn_error *err) {
    const syn__mpi_group *shared = r->sig.comm_call.group->impl;
    const uint64_t begin_ns = syn__clock_ns();
    SYN__TRY_MPI("MPI_Barrier", MPI_Barrier(shared->comm));
    r->times.wait_ns += syn__clock_ns() - begin_ns;
    return SYN_OK;
}

static syn_status run(syn__mpi *self, syn_request *r, syn_error *err) {
    const syn_comm_call *x = &r->sig.comm_call;
    if (x->elsewhere && !self->check) return SYN_OK;
    SYN_TRY(begin(self, r, err));
    if (x->elsewhere) return SYN_OK;
    switch (x->kind) {
    case SYN_COMM_ALL_REDUCE:
        return run_list(self, x, all_reduce_one, err);
    case SYN_COMM_ALL_GATHER:
        return all_gather(self, x, err);
    case SYN_COMM_REDUCE_SCATTER:
        return reduce_scatter(self, x, err);
    case SYN_COMM_ALL_TO_ALL:
        return all_to_all(self, r, err);
    case SYN_COMM_BROADCAST:
        return run_list(self, x, broadcast_one, err);
    default:
        return barrier(r, err);
    }
}

syn_status syn__mpi_run_collective(syn__comm *comm, syn_request *request, syn_error *err) {
    syn__mpi *self = (syn__mpi *)comm;
    if (!request->on_main) return run(self, request, err);
    syn__watchdog_enter(self->dog, &request->sig);
    const syn_status status = run(self, request, err);
    syn__watchdog_leave(self->dog);
    return status;
}

#endif
