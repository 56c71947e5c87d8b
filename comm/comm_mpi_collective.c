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

static void call_of(const syn__mpi_wire *w, syn__call *call) {
    *call = (syn__call){.kind = (syn_comm_kind)w->kind,
                        .dtype = (syn_dtype)w->dtype,
                        .reduce = (int32_t)w->reduce,
                        .root = (int32_t)w->root,
                        .peer = -1,
                        .n_elems = (uint64_t)w->n_elems,
                        .group = w->group,
                        .group_id = (uint32_t)w->group_id,
                        .seq = (uint64_t)w->seq};
}

static syn_status compare_wires(const syn_group *group, const syn__mpi_wire *wires,
                                syn_error *err) {
    syn__call first, other;
    call_of(&wires[0], &first);
    for (int32_t i = 1; i < group->size; i++) {
        char sentence[512];
        call_of(&wires[i], &other);
        if (syn__call_equal(&first, &other)) continue;
        syn__mismatch_text(group->ranks[0], &first, group->ranks[i], &other, sentence,
                           sizeof sentence);
        return SYN_FAIL(err, SYN_E_COMM, "%s", sentence);
    }
    return SYN_OK;
}

/* Each member sends its signature to each other, over all groups in program order: two ranks that
   enter different groups of both find out too. */
static syn_status check_call(syn__mpi *self, const syn_group *group, const syn__call *call,
                             syn_error *err) {
    syn__mpi_group *shared = group->impl;
    syn__mpi_wire *mine = &shared->wires[group->index];
    int n = 0;
    *mine = (syn__mpi_wire){.kind = (int64_t)call->kind,
                            .dtype = (int64_t)call->dtype,
                            .reduce = call->reduce,
                            .root = call->root,
                            .n_elems = (int64_t)call->n_elems,
                            .group_id = call->group_id,
                            .seq = (int64_t)call->seq};
    snprintf(mine->group, sizeof mine->group, "%s", call->group);
    for (int32_t i = 0; i < group->size; i++) {
        if (i == group->index) continue;
        SYN__TRY_MPI("MPI_Irecv",
                     MPI_Irecv(&shared->wires[i], (int)sizeof(syn__mpi_wire), MPI_BYTE,
                               group->ranks[i], 0, self->checks, &shared->requests[n++]));
        SYN__TRY_MPI("MPI_Isend",
                     MPI_Isend(mine, (int)sizeof(syn__mpi_wire), MPI_BYTE, group->ranks[i], 0,
                               self->checks, &shared->requests[n++]));
    }
    SYN__TRY_MPI("MPI_Waitall", MPI_Waitall(n, shared->requests, MPI_STATUSES_IGNORE));
    return compare_wires(group, shared->wires, err);
}

static syn_status begin(syn__mpi *self, const syn_group *group, syn__call *call, uint64_t *wait_ns,
                        syn_error *err) {
    syn__mpi_group *shared = group->impl;
    call->group = group->name;
    call->group_id = group->id;
    call->seq = ++shared->seq;
    call->peer = -1;
    *wait_ns = 0;
    syn__watchdog_enter(self->dog, call);
    SYN_TRY(syn__mpi_reap(self, err));
    if (!self->check && !self->measure) return SYN_OK;
    const uint64_t begin_ns = syn__clock_ns();
    if (self->check) SYN_TRY(check_call(self, group, call, err));
    else SYN__TRY_MPI("MPI_Barrier", MPI_Barrier(shared->comm));
    *wait_ns = syn__clock_ns() - begin_ns;
    return SYN_OK;
}

static MPI_Comm comm_of(const syn_group *group) {
    return ((const syn__mpi_group *)group->impl)->comm;
}

/* ---- Collectives ---- */

static syn_status all_reduce_wide(syn__mpi *self, const syn_group *group, const void *in, void *out,
                                  size_t n_elems, syn_dtype dtype, syn_reduce reduce,
                                  syn_error *err) {
    const syn_dtype wide = syn__wide_dtype(dtype, reduce);
    const size_t piece = min_size(SYN__MPI_SCRATCH_BYTES / syn_dtype_bytes(wide), self->limit);
    for (size_t at = 0; at < n_elems; at += piece) {
        const size_t n = min_size(piece, n_elems - at);
        syn__wide_load(in, at, self->scratch, n, dtype, reduce);
        SYN__TRY_MPI("MPI_Allreduce",
                     MPI_Allreduce(MPI_IN_PLACE, self->scratch, (int)n, reduce_type(wide, reduce),
                                   reduce_op(self, wide, reduce), comm_of(group)));
        if (reduce == SYN_REDUCE_AVG) syn__wide_divide(self->scratch, n, wide, group->size);
        syn__wide_store(self->scratch, out, at, n, dtype, reduce);
    }
    return SYN_OK;
}

static syn_status all_reduce(syn__mpi *self, const syn_group *group, const void *in, void *out,
                             size_t n_elems, syn_dtype dtype, syn_reduce reduce, syn_error *err) {
    if (syn__wide_dtype(dtype, reduce) != dtype)
        return all_reduce_wide(self, group, in, out, n_elems, dtype, reduce, err);
    const size_t elem_bytes = syn_dtype_bytes(dtype);
    for (size_t at = 0; at < n_elems; at += self->limit) {
        const int n = (int)min_size(self->limit, n_elems - at);
        const void *from = in == out ? MPI_IN_PLACE : (const char *)in + at * elem_bytes;
        SYN__TRY_MPI("MPI_Allreduce",
                     MPI_Allreduce(from, (char *)out + at * elem_bytes, n,
                                   reduce_type(dtype, reduce), reduce_op(self, dtype, reduce),
                                   comm_of(group)));
    }
    if (reduce == SYN_REDUCE_AVG) syn__wide_divide(out, n_elems, dtype, group->size);
    return SYN_OK;
}

/* Piece by piece: the same part of every block packed side by side. */
static syn_status reduce_scatter_pieces(syn__mpi *self, const syn_group *group, const void *in,
                                        void *out, size_t n_elems, syn_dtype dtype,
                                        syn_reduce reduce, syn_error *err) {
    const syn_dtype wide = syn__wide_dtype(dtype, reduce);
    const size_t wide_bytes = syn_dtype_bytes(wide), size = (size_t)group->size;
    size_t piece = min_size(SYN__MPI_SCRATCH_BYTES / wide_bytes, self->limit) / (size + 1);
    if (piece == 0)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "reduce_scatter over %d ranks is too wide",
                        (int)group->size);
    unsigned char *mine = self->scratch + size * piece * wide_bytes;
    for (size_t at = 0; at < n_elems; at += piece) {
        const size_t n = min_size(piece, n_elems - at);
        for (size_t k = 0; k < size; k++)
            syn__wide_load(in, k * n_elems + at, self->scratch + k * n * wide_bytes, n, dtype,
                           reduce);
        SYN__TRY_MPI("MPI_Reduce_scatter_block",
                     MPI_Reduce_scatter_block(self->scratch, mine, (int)n,
                                              reduce_type(wide, reduce),
                                              reduce_op(self, wide, reduce), comm_of(group)));
        if (reduce == SYN_REDUCE_AVG) syn__wide_divide(mine, n, wide, group->size);
        syn__wide_store(mine, out, at, n, dtype, reduce);
    }
    return SYN_OK;
}

static syn_status reduce_scatter(syn__mpi *self, const syn_group *group, const void *in, void *out,
                                 size_t n_elems, syn_dtype dtype, syn_reduce reduce,
                                 syn_error *err) {
    if (syn__wide_dtype(dtype, reduce) != dtype || n_elems > self->limit / (size_t)group->size)
        return reduce_scatter_pieces(self, group, in, out, n_elems, dtype, reduce, err);
    SYN__TRY_MPI("MPI_Reduce_scatter_block",
                 MPI_Reduce_scatter_block(in, out, (int)n_elems, reduce_type(dtype, reduce),
                                          reduce_op(self, dtype, reduce), comm_of(group)));
    if (reduce == SYN_REDUCE_AVG) syn__wide_divide(out, n_elems, dtype, group->size);
    return SYN_OK;
}

/* The root's buf to all others'. */
static syn_status broadcast(syn__mpi *self, const syn_group *group, void *buf, size_t n_elems,
                            syn_dtype dtype, int32_t root, syn_error *err) {
    for (size_t at = 0; at < n_elems; at += self->limit) {
        const int n = (int)min_size(self->limit, n_elems - at);
        SYN__TRY_MPI("MPI_Bcast", MPI_Bcast((char *)buf + at * syn_dtype_bytes(dtype), n,
                                            syn__mpi_type(dtype), root, comm_of(group)));
    }
    return SYN_OK;
}

static syn_status all_gather(syn__mpi *self, const syn_group *group, const void *in, void *out,
                             size_t n_elems, syn_dtype dtype, syn_error *err) {
    const size_t bytes = n_elems * syn_dtype_bytes(dtype);
    const MPI_Datatype type = syn__mpi_type(dtype);
    if (n_elems <= self->limit / (size_t)group->size) {
        SYN__TRY_MPI("MPI_Allgather", MPI_Allgather(in, (int)n_elems, type, out, (int)n_elems, type,
                                                    comm_of(group)));
        return SYN_OK;
    }
    memcpy((char *)out + (size_t)group->index * bytes, in, bytes);
    for (int32_t k = 0; k < group->size; k++)
        SYN_TRY(broadcast(self, group, (char *)out + (size_t)k * bytes, n_elems, dtype, k, err));
    return SYN_OK;
}

syn_status syn__mpi_all_reduce(syn_comm *comm, const syn_group *group, const void *in, void *out,
                               size_t n_elems, syn_dtype dtype, syn_reduce reduce,
                               uint64_t *wait_ns, syn_error *err) {
    syn__mpi *self = (syn__mpi *)comm;
    syn__call call = {SYN_COMM_ALL_REDUCE, dtype, (int32_t)reduce, -1, 0, 0, n_elems, NULL, 0, 0};
    syn_status status = begin(self, group, &call, wait_ns, err);
    if (status == SYN_OK) status = all_reduce(self, group, in, out, n_elems, dtype, reduce, err);
    syn__watchdog_leave(self->dog);
    return status;
}

syn_status syn__mpi_all_gather(syn_comm *comm, const syn_group *group, const void *in, void *out,
                               size_t n_elems, syn_dtype dtype, uint64_t *wait_ns, syn_error *err) {
    syn__mpi *self = (syn__mpi *)comm;
    syn__call call = {SYN_COMM_ALL_GATHER, dtype, -1, -1, 0, 0, n_elems, NULL, 0, 0};
    syn_status status = begin(self, group, &call, wait_ns, err);
    if (status == SYN_OK && n_elems > 0)
        status = all_gather(self, group, in, out, n_elems, dtype, err);
    syn__watchdog_leave(self->dog);
    return status;
}

syn_status syn__mpi_reduce_scatter(syn_comm *comm, const syn_group *group, const void *in,
                                   void *out, size_t n_elems, syn_dtype dtype, syn_reduce reduce,
                                   uint64_t *wait_ns, syn_error *err) {
    syn__mpi *self = (syn__mpi *)comm;
    syn__call call = {
        SYN_COMM_REDUCE_SCATTER, dtype, (int32_t)reduce, -1, 0, 0, n_elems, NULL, 0, 0};
    syn_status status = begin(self, group, &call, wait_ns, err);
    if (status == SYN_OK && n_elems > 0)
        status = reduce_scatter(self, group, in, out, n_elems, dtype, reduce, err);
    syn__watchdog_leave(self->dog);
    return status;
}

syn_status syn__mpi_broadcast(syn_comm *comm, const syn_group *group, const void *in, void *out,
                              size_t n_elems, syn_dtype dtype, int32_t root, uint64_t *wait_ns,
                              syn_error *err) {
    syn__mpi *self = (syn__mpi *)comm;
    syn__call call = {SYN_COMM_BROADCAST, dtype, -1, root, 0, 0, n_elems, NULL, 0, 0};
    if (group->index == root && in != out && n_elems > 0)
        memcpy(out, in, n_elems * syn_dtype_bytes(dtype));
    syn_status status = begin(self, group, &call, wait_ns, err);
    if (status == SYN_OK && (root < 0 || root >= group->size))
        status = SYN_FAIL(err, SYN_E_INVALID, "broadcast has root %d in group %.64s of %d ranks",
                          (int)root, group->name, (int)group->size);
    if (status == SYN_OK) status = broadcast(self, group, out, n_elems, dtype, root, err);
    syn__watchdog_leave(self->dog);
    return status;
}

static syn_status barrier(const syn_group *group, syn_error *err) {
    SYN__TRY_MPI("MPI_Barrier", MPI_Barrier(comm_of(group)));
    return SYN_OK;
}

syn_status syn__mpi_barrier(syn_comm *comm, const syn_group *group, uint64_t *wait_ns,
                            syn_error *err) {
    syn__mpi *self = (syn__mpi *)comm;
    syn__call call = {SYN_COMM_BARRIER, SYN_F32, -1, -1, 0, 0, 0, NULL, 0, 0};
    const uint64_t begin_ns = syn__clock_ns();
    syn_status status = begin(self, group, &call, wait_ns, err);
    if (status == SYN_OK) status = barrier(group, err);
    *wait_ns = syn__clock_ns() - begin_ns;
    syn__watchdog_leave(self->dog);
    return status;
}

#endif
