/* Starts operations of a context and waits for them.
   NCCL's operations run in the stream of their group, between two events that order them with the
   compute stream; the host does not wait. All others are copied to the host, run by the host's
   communicator, and copied back: messages and barriers always, and everything if ranks share a
   device. */
#include "comm/cuda/cuda_comm.h"

#include <stdio.h>

#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"

static syn__cuda_comms *comms_of(void *device) {
    return static_cast<syn__cuda *>(device)->comms;
}

/* ---- requests ---- */

void syn__cuda_request_free(syn__cuda_request *r) {
    if (r->begin) cudaEventDestroy(r->begin);
    if (r->end) cudaEventDestroy(r->end);
    if (r->copied) cudaEventDestroy(r->copied);
    if (r->pinned) cudaFreeHost(r->pinned);
    if (r->interleaved) cudaFree(r->interleaved);
    syn_free(r);
}

static syn_status make_events(syn__cuda_request *r, syn_error *err) {
    SYN_CUDA(cudaEventCreate(&r->begin), "an event", err);
    SYN_CUDA(cudaEventCreate(&r->end), "an event", err);
    SYN_CUDA(cudaEventCreateWithFlags(&r->copied, cudaEventDisableTiming), "an event", err);
    return SYN_OK;
}

static void put_idle(syn__cuda_comms *x, syn__cuda_request *r) {
    r->next = x->idle;
    x->idle = r;
}

#ifdef SYN_HAVE_NCCL

/* The name that NCCL gives its kernels: "ncclDevKernel_AllReduce_Sum_f32". NCCL does not report
   it. */
static void kernel_name(const syn_comm_call *e, char *name, size_t bytes) {
    static const char *const reductions[SYN_REDUCE_COUNT] = {"Sum", "Avg", "Min", "Max", "Prod"};
    const char *type = syn_dtype_name(e->dtype);
    if (e->kind == SYN_COMM_ALL_GATHER) snprintf(name, bytes, "ncclDevKernel_AllGather");
    else if (e->kind == SYN_COMM_BROADCAST) snprintf(name, bytes, "ncclDevKernel_Broadcast");
    else
        snprintf(name, bytes, "ncclDevKernel_%s_%s_%s",
                 e->kind == SYN_COMM_ALL_REDUCE ? "AllReduce" : "ReduceScatter",
                 reductions[e->reduce], type);
}

/* Reports the device work of an operation to the context. */
static void report_work(const syn__cuda_comms *x, const syn__cuda_request *r, uint64_t start_ns,
                        uint64_t wall_ns) {
    char name[64];
    const char *const names[] = {name};
    syn_piece piece = {};
    syn_node_work work = {};
    if (!r->call_ns) return;
    kernel_name(&r->comm_call, name, sizeof name);
    work.node = r->node;
    work.n_pieces = 1;
    work.call_ns = piece.call_ns = r->call_ns;
    work.call_wall_ns = piece.call_wall_ns = r->called_ns - r->call_ns;
    piece.device = (uint32_t)x->device->device;
    piece.stream = SYN__CUDA_COMPUTE_STREAM + r->comm_call.group->id;
    piece.start_ns = start_ns;
    piece.wall_ns = wall_ns;
    syn__cuda_host->add_work(x->device->ctx, &work, &piece, names);
}

#endif

/* Reports operations that have finished. The others stay in the list for the next call. */
void syn__cuda_comms_times(syn__cuda_comms *x) {
    const syn__cuda_times *t = &x->device->times;
    while (x->timed && cudaEventQuery(x->timed->end) == cudaSuccess) {
        syn__cuda_request *r = x->timed;
        float from_ms = 0, ms = 0;
        if (cudaEventElapsedTime(&from_ms, t->anchors[0], r->begin) == cudaSuccess &&
            cudaEventElapsedTime(&ms, r->begin, r->end) == cudaSuccess) {
            const uint64_t start_ns = t->anchor_ns + (uint64_t)(int64_t)((double)from_ms * 1e6);
            const uint64_t wall_ns = (uint64_t)((double)ms * 1e6);
            syn__cuda_host->set_time(x->device->ctx, r->node, start_ns, wall_ns, 0);
#ifdef SYN_HAVE_NCCL
            report_work(x, r, start_ns, wall_ns);
#endif
        }
        x->timed = r->next;
        if (!x->timed) x->last_timed = &x->timed;
        put_idle(x, r);
    }
    cudaGetLastError(); /* clears cudaErrorNotReady */
}

static syn_status request_new(syn__cuda_comms *x, const syn_call *call, uint32_t node,
                              syn__cuda_request **out, syn_error *err) {
    syn__cuda_comms_times(x);
    syn__cuda_request *r = x->idle;
    if (r) {
        x->idle = r->next;
    } else {
        r = static_cast<syn__cuda_request *>(syn_calloc(1, sizeof *r));
        if (!r) return SYN_FAIL_NOMEM(err, sizeof *r, "a request");
        const syn_status s = make_events(r, err);
        if (s != SYN_OK) {
            syn__cuda_request_free(r);
            return s;
        }
    }
    r->node = node;
    r->host = NULL;
    r->in_stream = false;
    r->call_ns = 0;
    r->comm_call = call->comm_call;
    r->comm_call.segments = r->segments;
    for (int i = 0; i < r->comm_call.n_segments; i++) r->segments[i] = call->comm_call.segments[i];
    *out = r;
    return SYN_OK;
}

/* ---- blocks of ranks, and rows ---- */

static int64_t elem_bytes(const syn__cuda_request *r) {
    return (int64_t)syn_dtype_bytes(r->comm_call.dtype);
}

/* If the gathered or scattered dimension is not the first, the operation itself uses contiguous
   blocks in the request's `interleaved` memory. */
static syn_status find_rows(syn__cuda_comms *x, syn__cuda_request *r, const syn_call *call,
                            syn_error *err) {
    const bool gather = r->comm_call.kind == SYN_COMM_ALL_GATHER;
    r->outer = 1;
    if (!gather && r->comm_call.kind != SYN_COMM_REDUCE_SCATTER) return SYN_OK;
    const syn_spec *part = gather ? &call->in[0].spec : &call->out[0].spec;
    const int64_t axis = call->attr[gather ? 0 : 1].i;
    for (int64_t d = 0; d < axis; d++) r->outer *= part->dims[d];
    if (r->outer <= 1 || r->segments[0].n_elems == 0) {
        r->outer = 1;
        return SYN_OK;
    }
    const size_t part_bytes = r->segments[0].n_elems * (size_t)elem_bytes(r);
    const size_t bytes = part_bytes * (size_t)r->comm_call.group->size;
    r->inner_bytes = (int64_t)part_bytes / r->outer;
    if (bytes <= r->interleaved_bytes) return SYN_OK;
    SYN_TRY(syn__cuda_grow(x->device, &r->interleaved, &r->interleaved_bytes, bytes, bytes,
                           "blocks of ranks", err));
    return syn__cuda_late(x->device, err);
}

/* Before a reduce-scatter of an inner dimension: converts rows to blocks. */
static syn_status interleave_before(syn__cuda_comms *x, syn__cuda_request *r, syn_error *err) {
    if (r->outer == 1 || r->comm_call.kind != SYN_COMM_REDUCE_SCATTER) return SYN_OK;
    SYN_TRY(syn__cuda_interleave(x->device->at.stream, r->segments[0].in, r->interleaved,
                                 r->comm_call.group->size, r->outer, r->inner_bytes, false, err));
    r->segments[0].in = r->interleaved;
    return SYN_OK;
}

/* After an all-gather of an inner dimension: converts blocks to rows. */
static syn_status interleave_after(syn__cuda_comms *x, syn__cuda_request *r, void *rows,
                                   syn_error *err) {
    if (r->outer == 1 || r->comm_call.kind != SYN_COMM_ALL_GATHER) return SYN_OK;
    return syn__cuda_interleave(x->device->at.stream, r->interleaved, rows,
                                r->comm_call.group->size, r->outer, r->inner_bytes, true, err);
}

/* Where the operation itself writes segment i. */
static void *target(const syn__cuda_request *r, int i) {
    return r->outer > 1 && r->comm_call.kind == SYN_COMM_ALL_GATHER ? r->interleaved
                                                                   : r->segments[i].out;
}

/* ---- through the host ---- */

static bool reads(const syn_comm_call *x) {
    return x->kind != SYN_COMM_RECV &&
           (x->kind != SYN_COMM_BROADCAST || x->group->index == x->root);
}

/* Number of bytes that segment i reads; bytes_out: number of bytes that it writes. */
static size_t bytes_in(const syn__cuda_request *r, int i) {
    const size_t size =
        r->comm_call.kind == SYN_COMM_REDUCE_SCATTER ? (size_t)r->comm_call.group->size : 1;
    return r->segments[i].n_elems * (size_t)elem_bytes(r) * size;
}
static size_t bytes_out(const syn__cuda_request *r, int i) {
    if (r->comm_call.kind == SYN_COMM_SEND) return 0;
    const size_t size =
        r->comm_call.kind == SYN_COMM_ALL_GATHER ? (size_t)r->comm_call.group->size : 1;
    return r->segments[i].n_elems * (size_t)elem_bytes(r) * size;
}

/* Lays out staging memory: for each segment the data that it reads, then the data that it writes,
   each aligned to 16 bytes. Earlier copies from this memory are finished before it is written
   again, because the writes come after r->end. */
static syn_status place_segments(syn__cuda_request *r, syn_error *err) {
    size_t bytes = 0;
    for (int i = 0; i < r->comm_call.n_segments; i++)
        bytes += (bytes_in(r, i) + 15) / 16 * 16 + (bytes_out(r, i) + 15) / 16 * 16;
    if (bytes > r->pinned_bytes) {
        if (r->pinned) {
            SYN_CUDA(cudaEventSynchronize(r->copied), "waiting for a copy", err);
            SYN_CUDA(cudaFreeHost(r->pinned), "staging memory", err);
        }
        r->pinned = NULL;
        r->pinned_bytes = 0;
        SYN_CUDA(cudaMallocHost((void **)&r->pinned, bytes), "staging memory", err);
        r->pinned_bytes = bytes;
    }
    char *at = r->pinned;
    for (int i = 0; i < r->comm_call.n_segments; i++) {
        r->of_host[i].n_elems = r->segments[i].n_elems;
        r->of_host[i].in = at;
        at += (bytes_in(r, i) + 15) / 16 * 16;
        r->of_host[i].out = at;
        at += (bytes_out(r, i) + 15) / 16 * 16;
    }
    return SYN_OK;
}

static syn_status start_through_host(syn__cuda_comms *x, syn__cuda_request *r, syn_error *err) {
    cudaStream_t stream = x->device->at.stream;
    syn_comm_call host = r->comm_call;
    host.segments = r->of_host;
    SYN_TRY(place_segments(r, err));
    for (int i = 0; i < host.n_segments && reads(&host); i++)
        if (bytes_in(r, i) > 0)
            SYN_CUDA(cudaMemcpyAsync(const_cast<void *>(r->of_host[i].in), r->segments[i].in,
                                     bytes_in(r, i), cudaMemcpyDeviceToHost, stream),
                     "a copy from the device", err);
    SYN_CUDA(cudaEventRecord(r->end, stream), "an event", err);
    SYN_TRY(syn__cuda_comms_sync(x, r->end, err));
    SYN_CUDA(cudaEventSynchronize(r->end), "waiting for a copy", err);
    r->begin_ns = syn__clock_ns();
    return x->comm->ops->start(x->comm, &host, &r->host, err);
}

static syn_status wait_through_host(syn__cuda_comms *x, syn__cuda_request *r, syn_error *err) {
    syn_comm_times times = syn_comm_times();
    syn_request *host = r->host;
    cudaStream_t stream = x->device->at.stream;
    r->host = NULL;
    SYN_TRY(x->comm->ops->wait(x->comm, host, &times, err));
    if (!times.end_ns) {
        times.begin_ns = r->begin_ns;
        times.end_ns = syn__clock_ns();
    }
    syn__cuda_host->set_time(x->device->ctx, r->node, times.begin_ns, times.end_ns - times.begin_ns,
                             times.cpu_ns);
    for (int i = 0; i < r->comm_call.n_segments; i++)
        if (bytes_out(r, i) > 0)
            SYN_CUDA(cudaMemcpyAsync(target(r, i), r->of_host[i].out, bytes_out(r, i),
                                     cudaMemcpyHostToDevice, stream),
                     "a copy to the device", err);
    SYN_CUDA(cudaEventRecord(r->copied, stream), "an event", err);
    return interleave_after(x, r, r->segments[0].out, err);
}

/* ---- through NCCL ---- */

#ifdef SYN_HAVE_NCCL

static ncclDataType_t type_of(syn_dtype dtype) {
    switch (dtype) {
    case SYN_F16:
        return ncclFloat16;
    case SYN_BF16:
        return ncclBfloat16;
    case SYN_I32:
        return ncclInt32;
    case SYN_I64:
        return ncclInt64;
    default:
        return ncclFloat32;
    }
}

static ncclRedOp_t reduction_of(syn_reduce reduce) {
    switch (reduce) {
    case SYN_REDUCE_AVG:
        return ncclAvg;
    case SYN_REDUCE_MIN:
        return ncclMin;
    case SYN_REDUCE_MAX:
        return ncclMax;
    case SYN_REDUCE_PROD:
        return ncclProd;
    default:
        return ncclSum;
    }
}

static ncclResult_t launch_one(const syn__cuda_request *r, int i, const syn__nccl_group *g) {
    const syn_segment *s = &r->segments[i];
    const ncclDataType_t type = type_of(r->comm_call.dtype);
    const ncclRedOp_t reduction = reduction_of(r->comm_call.reduce);
    void *out = target(r, i);
    switch (r->comm_call.kind) {
    case SYN_COMM_ALL_REDUCE:
        return syn__nccl.AllReduce(s->in, out, s->n_elems, type, reduction, g->comm, g->stream);
    case SYN_COMM_ALL_GATHER:
        return syn__nccl.AllGather(s->in, out, s->n_elems, type, g->comm, g->stream);
    case SYN_COMM_REDUCE_SCATTER:
        return syn__nccl.ReduceScatter(s->in, out, s->n_elems, type, reduction, g->comm, g->stream);
    default:
        return syn__nccl.Broadcast(s->in, out, s->n_elems, type, r->comm_call.root, g->comm,
                                   g->stream);
    }
}

/* Launches all segments of a list as one NCCL group. */
static ncclResult_t launch_all(const syn__cuda_request *r, const syn__nccl_group *g) {
    ncclResult_t code = syn__nccl.GroupStart();
    if (code != ncclSuccess) return code;
    for (int i = 0; i < r->comm_call.n_segments; i++)
        if (r->segments[i].n_elems > 0 && code == ncclSuccess) code = launch_one(r, i, g);
    const ncclResult_t end = syn__nccl.GroupEnd();
    return code != ncclSuccess ? code : end;
}

static syn_status check_code(ncclResult_t code, const syn__nccl_group *g, syn_error *err) {
    SYN_NCCL(code, g->comm, g->group->name, err);
    return SYN_OK;
}

/* Launches the collective. May block until other ranks arrive. */
static syn_status launch_collective(syn__cuda_comms *x, const syn__cuda_request *r,
                                    const syn__nccl_group *g, syn_error *err) {
    syn__nccl_enter(x);
    const ncclResult_t code = launch_all(r, g);
    syn_status s = syn__nccl_leave(x, err);
    if (s == SYN_OK) s = syn__nccl_or_others(x, check_code(code, g, err), err);
    if (s != SYN_OK) syn__nccl_abort_all(x);
    return s;
}

/* Passes the call to the host's communicator, which compares the members' calls, if it can. A
   mismatch then fails with that communicator's error message. If the rank waits immediately, the
   comparison comes before the operation; otherwise they run concurrently. */
static syn_status start_comparison(syn__cuda_comms *x, syn__cuda_request *r, syn_error *err) {
    syn_comm_call host = r->comm_call;
    host.elsewhere = true;
    SYN_TRY(x->comm->ops->start(x->comm, &host, &r->host, err));
    if (!host.now) return SYN_OK;
    syn_request *done = r->host;
    r->host = NULL;
    return x->comm->ops->wait(x->comm, done, NULL, err);
}

static syn_status start_in_stream(syn__cuda_comms *x, syn__cuda_request *r, syn_error *err) {
    syn__nccl_group *g;
    SYN_TRY(syn__nccl_group_get(x, r->comm_call.group, &g, err));
    SYN_TRY(start_comparison(x, r, err));
    if (x->device->work.keep) r->call_ns = syn__clock_ns();
    SYN_CUDA(cudaEventRecord(r->end, x->device->at.stream), "an event", err);
    SYN_CUDA(cudaStreamWaitEvent(g->stream, r->end, 0), "an event", err);
    SYN_CUDA(cudaEventRecord(r->begin, g->stream), "an event", err);
    SYN_TRY(launch_collective(x, r, g, err));
    SYN_CUDA(cudaEventRecord(r->end, g->stream), "an event", err);
    r->called_ns = syn__clock_ns();
    r->in_stream = true;
    return SYN_OK;
}

static syn_status wait_in_stream(syn__cuda_comms *x, syn__cuda_request *r, syn_error *err) {
    syn_request *comparison = r->host;
    r->host = NULL;
    if (comparison && x->comm->ops->wait(x->comm, comparison, NULL, err) != SYN_OK) {
        syn__nccl_abort_all(x);
        return err->code;
    }
    SYN_TRY(syn__nccl_check(x, err));
    SYN_CUDA(cudaStreamWaitEvent(x->device->at.stream, r->end, 0), "an event", err);
    return interleave_after(x, r, r->segments[0].out, err);
}

static bool by_nccl(const syn__cuda_comms *x, const syn_comm_call *comm_call) {
    return x->nccl && comm_call->group && comm_call->kind != SYN_COMM_BARRIER;
}

#endif

/* ---- members of the backend ---- */

/* Gives up an operation that was started: waits for the host's part and makes the request
   reusable. */
static void give_up(syn__cuda_comms *x, syn__cuda_request *r) {
    syn_error ignored;
    ignored.code = SYN_OK;
    if (r->host) (void)x->comm->ops->wait(x->comm, r->host, NULL, &ignored);
    r->host = NULL;
    put_idle(x, r);
}

syn_status syn__cuda_start(void *device, syn_call *call, uint32_t node, void **request,
                           syn_error *err) {
    syn__cuda_comms *x = comms_of(device);
    syn__cuda_request *r = NULL;
    SYN_TRY(syn__cuda_late(x->device, err));
    SYN_TRY(syn__cuda_flush_deferred(x->device, err));
    SYN_TRY(request_new(x, call, node, &r, err));
    syn_status s = find_rows(x, r, call, err);
    if (s == SYN_OK) s = interleave_before(x, r, err);
#ifdef SYN_HAVE_NCCL
    if (s == SYN_OK && by_nccl(x, &r->comm_call)) s = start_in_stream(x, r, err);
    else
#endif
        if (s == SYN_OK)
        s = start_through_host(x, r, err);
    if (s == SYN_OK) *request = r;
    else give_up(x, r);
    return s;
}

syn_status syn__cuda_wait(void *device, void *request, syn_error *err) {
    syn__cuda_comms *x = comms_of(device);
    syn__cuda_request *r = static_cast<syn__cuda_request *>(request);
    syn_status s = syn__cuda_flush_deferred(x->device, err);
    if (s != SYN_OK) {
        give_up(x, r);
        return s;
    }
#ifdef SYN_HAVE_NCCL
    if (r->in_stream) {
        s = wait_in_stream(x, r, err);
        r->next = NULL;
        *x->last_timed = r;
        x->last_timed = &r->next;
        return s;
    }
#endif
    s = wait_through_host(x, r, err);
    put_idle(x, r);
    return s;
}
