/* Collectives over MPI.

   What MPI cannot reduce (halves, i32 averages) is widened to f32 or i64, reduced, and narrowed
   once, in pieces that fit a scratch buffer. Counts beyond `limit` go in pieces too, as MPI counts
   in int. */
#include "comm/comm_mpi.h"
#include "syntorch/memory.h"

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

/* The type a reduction is done in: sums and products of unsigned integers wrap by definition. */
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

/* ---- Beginning and ending a call ---- */

/* Waits for all requests. A thread beside the rank's own leaves the core to it meanwhile. */
static syn_status await_all(const syn_request *r, int n, MPI_Request *requests, syn_error *err) {
    int done = 0;
    if (r->on_main) {
        SYN__TRY_MPI("MPI_Waitall", MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
        return SYN_OK;
    }
    for (;;) {
        SYN__TRY_MPI("MPI_Testall", MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE));
        if (done) return SYN_OK;
        syn__mpi_rest();
    }
}

static void turn_of(const syn__mpi_wire *w, syn_group *group, syn__turn *turn) {
    *group = (syn_group){.id = (uint32_t)w->group_id, .name = w->group};
    *turn = (syn__turn){.exchange = {.kind = (syn_comm_kind)w->kind,
                                     .dtype = (syn_dtype)w->dtype,
                                     .reduce = (syn_reduce)w->reduce,
                                     .root = (int32_t)w->root,
                                     .n_elems = (size_t)w->n_elems,
                                     .group = group},
                        .seq = (uint64_t)w->seq};
}

static syn_status compare_wires(const syn_group *group, const syn__mpi_wire *wires,
                                syn_error *err) {
    syn_group first_group, other_group;
    syn__turn first, other;
    turn_of(&wires[0], &first_group, &first);
    for (int32_t i = 1; i < group->size; i++) {
        char sentence[SYN_ERROR_TEXT];
        turn_of(&wires[i], &other_group, &other);
        if (syn__exchange_equal(&first.exchange, &other.exchange)) continue;
        syn__mismatch_text(group->ranks[0], &first, group->ranks[i], &other, sentence,
                           sizeof sentence);
        return SYN_FAIL(err, SYN_E_COMM, "%s", sentence);
    }
    return SYN_OK;
}

/* Each member sends its signature to each other. Without threads over all groups in program order:
   two ranks that enter different groups of both find out too. With threads the groups of a rank run
   side by side, and only members of one can be compared. */
static syn_status check_call(syn__mpi *self, const syn_request *r, syn_error *err) {
    const syn_exchange *x = &r->turn.exchange;
    const syn_group *group = x->group;
    syn__mpi_group *shared = group->impl;
    syn__mpi_wire *mine = &shared->wires[group->index];
    const bool apart = self->base.threads;
    MPI_Comm comm = apart ? shared->comm : self->checks;
    int n = 0;
    *mine = (syn__mpi_wire){.kind = (int64_t)x->kind,
                            .dtype = (int64_t)x->dtype,
                            .reduce = (int64_t)x->reduce,
                            .root = x->root,
                            .n_elems = (int64_t)x->n_elems,
                            .group_id = group->id,
                            .seq = (int64_t)r->turn.seq};
    snprintf(mine->group, sizeof mine->group, "%s", group->name);
    for (int32_t i = 0; i < group->size; i++) {
        if (i == group->index) continue;
        const int peer = apart ? i : group->ranks[i];
        SYN__TRY_MPI("MPI_Irecv", MPI_Irecv(&shared->wires[i], (int)sizeof(syn__mpi_wire), MPI_BYTE,
                                            peer, 0, comm, &shared->requests[n++]));
        SYN__TRY_MPI("MPI_Isend", MPI_Isend(mine, (int)sizeof(syn__mpi_wire), MPI_BYTE, peer, 0,
                                            comm, &shared->requests[n++]));
    }
    SYN_TRY(await_all(r, n, shared->requests, err));
    return compare_wires(group, shared->wires, err);
}

/* All members have entered. With threads all meet before MPI moves data: it then has nobody to
   wait for, which it does without leaving the core to others. */
static syn_status meet(syn__mpi *self, const syn_request *r, syn_error *err) {
    syn__mpi_group *shared = r->turn.exchange.group->impl;
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
    if (r->on_main) SYN_TRY(syn__mpi_reap(self, err));
    if (!self->check && !self->measure && !self->base.threads) return SYN_OK;
    const uint64_t begin_ns = syn__clock_ns();
    SYN_TRY(meet(self, r, err));
    r->times.wait_ns = syn__clock_ns() - begin_ns;
    return SYN_OK;
}

/* ---- Collectives ---- */

static syn_status all_reduce_wide(syn__mpi *self, const syn_exchange *x, syn_error *err) {
    const syn__mpi_group *shared = x->group->impl;
    const syn_dtype wide = syn__wide_dtype(x->dtype, x->reduce);
    const size_t piece = min_size(SYN__MPI_SCRATCH_BYTES / syn_dtype_bytes(wide), self->limit);
    for (size_t at = 0; at < x->n_elems; at += piece) {
        const size_t n = min_size(piece, x->n_elems - at);
        syn__wide_load(x->in, at, shared->scratch, n, x->dtype, x->reduce);
        SYN__TRY_MPI("MPI_Allreduce",
                     MPI_Allreduce(MPI_IN_PLACE, shared->scratch, (int)n,
                                   reduce_type(wide, x->reduce), reduce_op(self, wide, x->reduce),
                                   shared->comm));
        if (x->reduce == SYN_REDUCE_AVG) syn__wide_divide(shared->scratch, n, wide, x->group->size);
        syn__wide_store(shared->scratch, x->out, at, n, x->dtype, x->reduce);
    }
    return SYN_OK;
}

static syn_status all_reduce(syn__mpi *self, const syn_exchange *x, syn_error *err) {
    const syn__mpi_group *shared = x->group->impl;
    if (syn__wide_dtype(x->dtype, x->reduce) != x->dtype) return all_reduce_wide(self, x, err);
    const size_t elem_bytes = syn_dtype_bytes(x->dtype);
    for (size_t at = 0; at < x->n_elems; at += self->limit) {
        const int n = (int)min_size(self->limit, x->n_elems - at);
        const void *from = x->in == x->out ? MPI_IN_PLACE : (const char *)x->in + at * elem_bytes;
        SYN__TRY_MPI("MPI_Allreduce",
                     MPI_Allreduce(from, (char *)x->out + at * elem_bytes, n,
                                   reduce_type(x->dtype, x->reduce),
                                   reduce_op(self, x->dtype, x->reduce), shared->comm));
    }
    if (x->reduce == SYN_REDUCE_AVG) syn__wide_divide(x->out, x->n_elems, x->dtype, x->group->size);
    return SYN_OK;
}

/* Piece by piece: the same part of every block packed side by side. */
static syn_status reduce_scatter_pieces(syn__mpi *self, const syn_exchange *x, syn_error *err) {
    const syn__mpi_group *shared = x->group->impl;
    const syn_dtype wide = syn__wide_dtype(x->dtype, x->reduce);
    const size_t wide_bytes = syn_dtype_bytes(wide), size = (size_t)x->group->size;
    size_t piece = min_size(SYN__MPI_SCRATCH_BYTES / wide_bytes, self->limit) / (size + 1);
    if (piece == 0)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "reduce_scatter over %d ranks is too wide",
                        (int)x->group->size);
    unsigned char *mine = shared->scratch + size * piece * wide_bytes;
    for (size_t at = 0; at < x->n_elems; at += piece) {
        const size_t n = min_size(piece, x->n_elems - at);
        for (size_t k = 0; k < size; k++)
            syn__wide_load(x->in, k * x->n_elems + at, shared->scratch + k * n * wide_bytes, n,
                           x->dtype, x->reduce);
        SYN__TRY_MPI("MPI_Reduce_scatter_block",
                     MPI_Reduce_scatter_block(shared->scratch, mine, (int)n,
                                              reduce_type(wide, x->reduce),
                                              reduce_op(self, wide, x->reduce), shared->comm));
        if (x->reduce == SYN_REDUCE_AVG) syn__wide_divide(mine, n, wide, x->group->size);
        syn__wide_store(mine, x->out, at, n, x->dtype, x->reduce);
    }
    return SYN_OK;
}

static syn_status reduce_scatter(syn__mpi *self, const syn_exchange *x, syn_error *err) {
    const syn__mpi_group *shared = x->group->impl;
    if (x->n_elems == 0) return SYN_OK;
    if (syn__wide_dtype(x->dtype, x->reduce) != x->dtype ||
        x->n_elems > self->limit / (size_t)x->group->size)
        return reduce_scatter_pieces(self, x, err);
    SYN__TRY_MPI("MPI_Reduce_scatter_block",
                 MPI_Reduce_scatter_block(x->in, x->out, (int)x->n_elems,
                                          reduce_type(x->dtype, x->reduce),
                                          reduce_op(self, x->dtype, x->reduce), shared->comm));
    if (x->reduce == SYN_REDUCE_AVG) syn__wide_divide(x->out, x->n_elems, x->dtype, x->group->size);
    return SYN_OK;
}

/* The root's elements of buf to all others'. */
static syn_status spread(syn__mpi *self, const syn_exchange *x, void *buf, int32_t root,
                         syn_error *err) {
    const syn__mpi_group *shared = x->group->impl;
    for (size_t at = 0; at < x->n_elems; at += self->limit) {
        const int n = (int)min_size(self->limit, x->n_elems - at);
        SYN__TRY_MPI("MPI_Bcast", MPI_Bcast((char *)buf + at * syn_dtype_bytes(x->dtype), n,
                                            syn__mpi_type(x->dtype), root, shared->comm));
    }
    return SYN_OK;
}

static syn_status all_gather(syn__mpi *self, const syn_exchange *x, syn_error *err) {
    const syn__mpi_group *shared = x->group->impl;
    const size_t bytes = x->n_elems * syn_dtype_bytes(x->dtype);
    const MPI_Datatype type = syn__mpi_type(x->dtype);
    if (x->n_elems == 0) return SYN_OK;
    if (x->n_elems <= self->limit / (size_t)x->group->size) {
        SYN__TRY_MPI("MPI_Allgather", MPI_Allgather(x->in, (int)x->n_elems, type, x->out,
                                                    (int)x->n_elems, type, shared->comm));
        return SYN_OK;
    }
    memcpy((char *)x->out + (size_t)x->group->index * bytes, x->in, bytes);
    for (int32_t k = 0; k < x->group->size; k++)
        SYN_TRY(spread(self, x, (char *)x->out + (size_t)k * bytes, k, err));
    return SYN_OK;
}

static syn_status broadcast(syn__mpi *self, const syn_exchange *x, syn_error *err) {
    if (x->group->index == x->root && x->in != x->out && x->n_elems > 0)
        memcpy(x->out, x->in, x->n_elems * syn_dtype_bytes(x->dtype));
    return spread(self, x, x->out, x->root, err);
}

static syn_status barrier(syn_request *r, syn_error *err) {
    const syn__mpi_group *shared = r->turn.exchange.group->impl;
    const uint64_t begin_ns = syn__clock_ns();
    SYN__TRY_MPI("MPI_Barrier", MPI_Barrier(shared->comm));
    r->times.wait_ns += syn__clock_ns() - begin_ns;
    return SYN_OK;
}

static syn_status run(syn__mpi *self, syn_request *r, syn_error *err) {
    const syn_exchange *x = &r->turn.exchange;
    SYN_TRY(begin(self, r, err));
    switch (x->kind) {
    case SYN_COMM_ALL_REDUCE:
        return all_reduce(self, x, err);
    case SYN_COMM_ALL_GATHER:
        return all_gather(self, x, err);
    case SYN_COMM_REDUCE_SCATTER:
        return reduce_scatter(self, x, err);
    case SYN_COMM_BROADCAST:
        return broadcast(self, x, err);
    default:
        return barrier(r, err);
    }
}

syn_status syn__mpi_run_collective(syn__comm *comm, syn_request *request, syn_error *err) {
    syn__mpi *self = (syn__mpi *)comm;
    if (!request->on_main) return run(self, request, err);
    syn__watchdog_enter(self->dog, &request->turn);
    const syn_status status = run(self, request, err);
    syn__watchdog_leave(self->dog);
    return status;
}

#endif
