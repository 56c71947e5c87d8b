/* Starts operations of a context and waits for them.
   NCCL's operations run in the stream of their group, between two events that order them with the
   compute stream; the host does not wait. All others are copied to the host, run by the host's
   communicator, and copied back: barriers, messages between ranks that are not connected
   (cuda_messages.cu), and everything if ranks share a device. */
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
    if (r->blocks) cudaFree(r->blocks);
    syn_free(r->segments);
    syn_free(r->of_host);
    syn_free(r);
}

static syn_status make_events(syn__cuda_request *r, syn_error *err) {
    SYN_CUDA(cudaEventCreate(&r->begin), "an event", err);
    SYN_CUDA(cudaEventCreate(&r->end), "an event", err);
    SYN_CUDA(cudaEventCreateWithFlags(&r->copied, cudaEventDisableTiming), "an event", err);
    return SYN_OK;
}

void syn__cuda_request_idle(syn__cuda_comms *x, syn__cuda_request *r) {
#ifdef SYN_HAVE_NCCL
    if (r->peer) {
        syn__nccl_request_idle(r);
        return;
    }
#endif
    r->next = x->idle;
    x->idle = r;
}

#ifdef SYN_HAVE_NCCL

/* The name that NCCL gives its kernels: "ncclDevKernel_AllReduce_Sum_f32". NCCL does not report
   it. */
static void kernel_name(const syn_comm_call *e, char *name, size_t bytes) {
    static const char *const reductions[SYN_REDUCE_COUNT] = {"Sum", "Avg", "Min", "Max", "Prod"};
    const char *type = syn_dtype_name(e->dtype);
    if (!e->group) snprintf(name, bytes, "ncclDevKernel_SendRecv");
    else if (e->kind == SYN_COMM_ALL_GATHER) snprintf(name, bytes, "ncclDevKernel_AllGather");
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
    piece.stream = r->stream;
    piece.start_ns = start_ns;
    piece.wall_ns = wall_ns;
    syn__cuda_host->add_work(x->device->ctx, &work, &piece, names);
}

#endif

#ifdef SYN_HAVE_NCCL

void syn__cuda_request_report(const syn__cuda_comms *x, const syn__cuda_request *r) {
    const syn__cuda_times *t = &x->device->times;
    float from_ms = 0, ms = 0;
    if (cudaEventElapsedTime(&from_ms, t->anchors[0], r->begin) != cudaSuccess ||
        cudaEventElapsedTime(&ms, r->begin, r->end) != cudaSuccess)
        return;
    const uint64_t start_ns = t->anchor_ns + (uint64_t)(int64_t)((double)from_ms * 1e6);
    const uint64_t wall_ns = (uint64_t)((double)ms * 1e6);
    syn__cuda_host->set_time(x->device->ctx, r->node, start_ns, wall_ns, 0);
    report_work(x, r, start_ns, wall_ns);
}

void syn__cuda_request_timed(syn__cuda_comms *x, syn__cuda_request *r) {
    r->next = NULL;
    *x->last_timed = r;
    x->last_timed = &r->next;
}

#endif

/* Reports operations that have finished. The others stay in the list for the next call. */
void syn__cuda_comms_times(syn__cuda_comms *x) {
#ifdef SYN_HAVE_NCCL
    while (x->timed && cudaEventQuery(x->timed->end) == cudaSuccess) {
        syn__cuda_request *r = x->timed;
        syn__cuda_request_report(x, r);
        x->timed = r->next;
        if (!x->timed) x->last_timed = &x->timed;
        syn__cuda_request_idle(x, r);
    }
    syn__nccl_sent_times(x);
#endif
    cudaGetLastError(); /* clears cudaErrorNotReady */
}

static syn_status grow_segments(syn__cuda_request *r, size_t n, syn_error *err) {
    SYN_TRY(syn_grow(&r->segments, &r->segments_cap, n, sizeof *r->segments, err));
    return syn_grow(&r->of_host, &r->of_host_cap, n, sizeof *r->of_host, err);
}

syn_status syn__cuda_request_new(syn__cuda_request **out, syn_error *err) {
    syn__cuda_request *r = static_cast<syn__cuda_request *>(syn_calloc(1, sizeof *r));
    if (!r) return SYN_FAIL_NOMEM(err, sizeof *r, "a request");
    const syn_status s = make_events(r, err);
    if (s == SYN_OK) *out = r;
    else syn__cuda_request_free(r);
    return s;
}

syn_status syn__cuda_request_begin(syn__cuda_request *r, const syn_comm_call *call, uint32_t node,
                                   syn_error *err) {
    r->node = node;
    r->host = NULL;
    r->in_stream = false;
    r->call_ns = 0;
    r->comm_call = *call;
    r->packed = false;
    r->n_list = r->comm_call.n_segments;
    SYN_TRY(grow_segments(r, (size_t)r->n_list, err));
    r->comm_call.segments = r->segments;
    for (int i = 0; i < r->n_list; i++) r->segments[i] = call->segments[i];
    return SYN_OK;
}

syn_status syn__cuda_request_for(syn__cuda_comms *x, const syn_comm_call *call, uint32_t node,
                                 syn__cuda_request **out, syn_error *err) {
    syn__cuda_comms_times(x);
    syn__cuda_request *r = x->idle;
    if (r) x->idle = r->next;
    else SYN_TRY(syn__cuda_request_new(&r, err));
    const syn_status s = syn__cuda_request_begin(r, call, node, err);
    if (s == SYN_OK) *out = r;
    else syn__cuda_request_idle(x, r);
    return s;
}

/* ---- blocks of ranks ---- */

static int64_t elem_bytes(const syn__cuda_request *r) {
    return (int64_t)syn_dtype_bytes(r->comm_call.dtype);
}

/* Whether the op has a list of tensors, and no dimension to gather or scatter. */
static bool is_list(const syn_call *call) {
    return call->def->op == SYN_OP_ALL_GATHER_COALESCED ||
           call->def->op == SYN_OP_REDUCE_SCATTER_COALESCED;
}

static bool has_part(const syn_comm_call *x) {
    return x->kind == SYN_COMM_ALL_GATHER || x->kind == SYN_COMM_REDUCE_SCATTER;
}

/* An all-gather or reduce-scatter uses one array, which consists of the ranks' parts. If the
   tensors are not such an array, because the dimension is not the first, or because they are a list
   or have padding, the operation uses `blocks` instead. */
static syn_status find_blocks(syn__cuda_comms *x, syn__cuda_request *r, const syn_call *call,
                              syn_error *err) {
    const bool gather = r->comm_call.kind == SYN_COMM_ALL_GATHER;
    const size_t all = r->comm_call.n_part * (size_t)r->comm_call.group->size;
    r->outer = 1;
    if (all == 0) return SYN_OK;
    if (!is_list(call)) {
        const syn_spec *part = gather ? &call->in[0].spec : &call->out[0].spec;
        const int64_t axis = call->attr[gather ? 0 : 1].i;
        for (int64_t d = 0; d < axis; d++) r->outer *= part->dims[d];
        if (r->outer == 1) return SYN_OK;
        r->inner_bytes = (int64_t)r->comm_call.n_part * elem_bytes(r) / r->outer;
    } else if (r->n_list == 1 && r->segments[0].n_elems == all) {
        return SYN_OK;
    }
    r->packed = true;
    const size_t bytes = all * (size_t)elem_bytes(r);
    if (bytes > r->blocks_bytes) {
        SYN_TRY(syn__cuda_grow(x->device, &r->blocks, &r->blocks_bytes, bytes, bytes,
                               "blocks of ranks", err));
        SYN_TRY(syn__cuda_late(x->device, err));
    }
    r->whole.in = r->whole.out = r->blocks;
    r->whole.n_elems = all;
    r->comm_call.segments = &r->whole;
    r->comm_call.n_segments = 1;
    return SYN_OK;
}

static syn_status copy_on_device(cudaStream_t stream, void *to, const void *from, size_t bytes,
                                 syn_error *err) {
    if (bytes > 0)
        SYN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "a copy", err);
    return SYN_OK;
}

/* Before a reduce-scatter: copies its tensors to `blocks`. */
static syn_status pack(syn__cuda_comms *x, syn__cuda_request *r, syn_error *err) {
    cudaStream_t stream = x->device->at.stream;
    if (!r->packed || r->comm_call.kind != SYN_COMM_REDUCE_SCATTER) return SYN_OK;
    if (r->outer > 1)
        return syn__cuda_interleave(stream, r->segments[0].in, r->blocks, r->comm_call.group->size,
                                    r->outer, r->inner_bytes, false, err);
    char *at = static_cast<char *>(r->blocks);
    char *end = at + r->whole.n_elems * (size_t)elem_bytes(r);
    for (int i = 0; i < r->n_list; i++) {
        const size_t bytes = r->segments[i].n_elems * (size_t)elem_bytes(r);
        SYN_TRY(copy_on_device(stream, at, r->segments[i].in, bytes, err));
        at += bytes;
    }
    if (at < end) SYN_CUDA(cudaMemsetAsync(at, 0, (size_t)(end - at), stream), "padding", err);
    return SYN_OK;
}

/* After an all-gather: copies `blocks` to its tensors. */
static syn_status unpack(syn__cuda_comms *x, syn__cuda_request *r, syn_error *err) {
    cudaStream_t stream = x->device->at.stream;
    if (!r->packed || r->comm_call.kind != SYN_COMM_ALL_GATHER) return SYN_OK;
    if (r->outer > 1)
        return syn__cuda_interleave(stream, r->blocks, r->segments[0].out, r->comm_call.group->size,
                                    r->outer, r->inner_bytes, true, err);
    const char *at = static_cast<const char *>(r->blocks);
    for (int i = 0; i < r->n_list; i++) {
        const size_t bytes = r->segments[i].n_elems * (size_t)elem_bytes(r);
        SYN_TRY(copy_on_device(stream, r->segments[i].out, at, bytes, err));
        at += bytes;
    }
    return SYN_OK;
}

/* ---- through the host ---- */

/* Number of bytes that the operation reads from segment i, and that it writes to it. Number -1 is
   the part. */
static size_t bytes_in(const syn__cuda_request *r, int i) {
    const syn_comm_call *x = &r->comm_call;
    if (i < 0) return x->kind == SYN_COMM_ALL_GATHER ? x->n_part * (size_t)elem_bytes(r) : 0;
    if (x->kind == SYN_COMM_RECV || x->kind == SYN_COMM_ALL_GATHER ||
        (x->kind == SYN_COMM_BROADCAST && x->group->index != x->root))
        return 0;
    return x->segments[i].n_elems * (size_t)elem_bytes(r);
}
static size_t bytes_out(const syn__cuda_request *r, int i) {
    const syn_comm_call *x = &r->comm_call;
    if (i < 0) return x->kind == SYN_COMM_REDUCE_SCATTER ? x->n_part * (size_t)elem_bytes(r) : 0;
    if (x->kind == SYN_COMM_SEND || x->kind == SYN_COMM_REDUCE_SCATTER) return 0;
    if (x->kind == SYN_COMM_ALL_TO_ALL) {
        size_t n_elems = 0;
        for (int32_t k = 0; k < x->group->size; k++) n_elems += (size_t)x->from[k];
        return n_elems * (size_t)elem_bytes(r);
    }
    return x->segments[i].n_elems * (size_t)elem_bytes(r);
}

/* Lays out staging memory: for the part and for each segment, the data that is read and the data
   that is written, each aligned to 16 bytes. Earlier copies from this memory are finished before it
   is written again, because the writes come after r->end. */
static syn_status place_segments(syn__cuda_request *r, syn_error *err) {
    const int first = has_part(&r->comm_call) ? -1 : 0;
    size_t bytes = 0;
    for (int i = first; i < r->comm_call.n_segments; i++)
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
    r->host_part = at;
    if (first < 0) at += (r->comm_call.n_part * (size_t)elem_bytes(r) + 15) / 16 * 16;
    for (int i = 0; i < r->comm_call.n_segments; i++) {
        r->of_host[i].n_elems = r->comm_call.segments[i].n_elems;
        r->of_host[i].in = at;
        at += (bytes_in(r, i) + 15) / 16 * 16;
        r->of_host[i].out = at;
        at += (bytes_out(r, i) + 15) / 16 * 16;
    }
    return SYN_OK;
}

static syn_status copy_to_host(cudaStream_t stream, const void *to, const void *from, size_t bytes,
                               syn_error *err) {
    if (bytes > 0)
        SYN_CUDA(
            cudaMemcpyAsync(const_cast<void *>(to), from, bytes, cudaMemcpyDeviceToHost, stream),
            "a copy from the device", err);
    return SYN_OK;
}

static syn_status copy_to_device(cudaStream_t stream, void *to, const void *from, size_t bytes,
                                 syn_error *err) {
    if (bytes > 0)
        SYN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream),
                 "a copy to the device", err);
    return SYN_OK;
}

static syn_status start_through_host(syn__cuda_comms *x, syn__cuda_request *r, syn_error *err) {
    cudaStream_t stream = x->device->at.stream;
    syn_comm_call host = r->comm_call;
    SYN_TRY(place_segments(r, err));
    host.segments = r->of_host;
    host.part = r->host_part;
    SYN_TRY(copy_to_host(stream, r->host_part, r->comm_call.part, bytes_in(r, -1), err));
    for (int i = 0; i < host.n_segments; i++)
        SYN_TRY(copy_to_host(stream, r->of_host[i].in, r->comm_call.segments[i].in, bytes_in(r, i),
                             err));
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
    SYN_TRY(copy_to_device(stream, r->comm_call.part, r->host_part, bytes_out(r, -1), err));
    for (int i = 0; i < r->comm_call.n_segments; i++)
        SYN_TRY(copy_to_device(stream, r->comm_call.segments[i].out, r->of_host[i].out,
                               bytes_out(r, i), err));
    SYN_CUDA(cudaEventRecord(r->copied, stream), "an event", err);
    return unpack(x, r, err);
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

static ncclResult_t launch_one(const syn_comm_call *x, int i, const syn__nccl_group *g) {
    const syn_segment *s = &x->segments[i];
    const ncclDataType_t type = type_of(x->dtype);
    const ncclRedOp_t reduction = reduction_of(x->reduce);
    switch (x->kind) {
    case SYN_COMM_ALL_REDUCE:
        return syn__nccl.AllReduce(s->in, s->out, s->n_elems, type, reduction, g->comm, g->stream);
    case SYN_COMM_ALL_GATHER:
        return syn__nccl.AllGather(x->part, s->out, x->n_part, type, g->comm, g->stream);
    case SYN_COMM_REDUCE_SCATTER:
        return syn__nccl.ReduceScatter(s->in, x->part, x->n_part, type, reduction, g->comm,
                                       g->stream);
    case SYN_COMM_SEND:
        return syn__nccl.Send(s->in, s->n_elems, type, 1 - g->group->index, g->comm, g->stream);
    case SYN_COMM_RECV:
        return syn__nccl.Recv(s->out, s->n_elems, type, 1 - g->group->index, g->comm, g->stream);
    default:
        return syn__nccl.Broadcast(s->in, s->out, s->n_elems, type, x->root, g->comm, g->stream);
    }
}

/* Launches all segments of a list as one NCCL group. */
static ncclResult_t launch_all(const syn_comm_call *call, const syn__nccl_group *g) {
    ncclResult_t code = syn__nccl.GroupStart();
    if (code != ncclSuccess) return code;
    for (int i = 0; i < call->n_segments; i++)
        if (call->segments[i].n_elems > 0 && code == ncclSuccess) code = launch_one(call, i, g);
    const ncclResult_t end = syn__nccl.GroupEnd();
    return code != ncclSuccess ? code : end;
}

static syn_status check_code(ncclResult_t code, const syn__nccl_group *g, syn_error *err) {
    SYN_NCCL(code, g->comm, g->group->name, err);
    return SYN_OK;
}

syn_status syn__nccl_launch(syn__cuda_comms *x, const syn_comm_call *call, const syn__nccl_group *g,
                            syn_error *err) {
    syn__nccl_enter(x);
    const ncclResult_t code = launch_all(call, g);
    syn_status s = syn__nccl_leave(x, err);
    if (s == SYN_OK) s = syn__nccl_or_others(x, check_code(code, g, err), err);
    if (s != SYN_OK) syn__nccl_abort_all(x);
    return s;
}

syn_status syn__nccl_run(syn__cuda_comms *x, syn__cuda_request *r, const syn__nccl_group *g,
                         syn_error *err) {
    r->stream = SYN__CUDA_COMPUTE_STREAM + g->group->id;
    SYN_CUDA(cudaStreamWaitEvent(g->stream, r->end, 0), "an event", err);
    SYN_CUDA(cudaEventRecord(r->begin, g->stream), "an event", err);
    SYN_TRY(syn__nccl_launch(x, &r->comm_call, g, err));
    SYN_CUDA(cudaEventRecord(r->end, g->stream), "an event", err);
    r->called_ns = syn__clock_ns();
    r->in_stream = true;
    return SYN_OK;
}

/* Passes the call to the host's communicator, which compares the members' calls, if it can. A
   mismatch then fails with that communicator's error message. If the rank waits immediately, the
   comparison comes before the operation; otherwise they run concurrently. */
static syn_status start_comparison(syn__cuda_comms *x, syn__cuda_request *r, syn_error *err) {
    syn_comm_call host = r->comm_call;
    host.elsewhere = true;
    host.segments = r->segments;
    host.n_segments = r->n_list;
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
    return syn__nccl_run(x, r, g, err);
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
    return unpack(x, r, err);
}

/* An all-to-all goes through the host: NCCL would need a message from and to each member. */
static bool by_nccl(const syn__cuda_comms *x, const syn_comm_call *comm_call) {
    return x->nccl && comm_call->group && comm_call->kind != SYN_COMM_BARRIER &&
           comm_call->kind != SYN_COMM_ALL_TO_ALL;
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
#ifdef SYN_HAVE_NCCL
    if (r->peer) {
        syn__nccl_give_up(x, r);
        return;
    }
#endif
    syn__cuda_request_idle(x, r);
}

syn_status syn__cuda_start(void *device, syn_call *call, uint32_t node, void **request,
                           syn_error *err) {
    syn__cuda_comms *x = comms_of(device);
    syn__cuda_request *r = NULL;
    SYN_TRY(syn__cuda_late(x->device, err));
    SYN_TRY(syn__cuda_flush_deferred(x->device, err));
#ifdef SYN_HAVE_NCCL
    syn__nccl_peer *peer = syn__nccl_find_peer(x, &call->comm_call);
    if (peer) {
        SYN_TRY(syn__nccl_start_message(x, peer, &call->comm_call, node, &r, err));
        *request = r;
        return SYN_OK;
    }
#endif
    SYN_TRY(syn__cuda_request_for(x, &call->comm_call, node, &r, err));
    syn_status s = has_part(&r->comm_call) ? find_blocks(x, r, call, err) : SYN_OK;
    if (s == SYN_OK) s = pack(x, r, err);
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
    syn_status s = syn__cuda_late(x->device, err);
    if (s == SYN_OK) s = syn__cuda_flush_deferred(x->device, err);
    if (s != SYN_OK) {
        give_up(x, r);
        return s;
    }
#ifdef SYN_HAVE_NCCL
    if (r->peer) return syn__nccl_wait_message(x, r, err);
    if (r->in_stream) {
        s = wait_in_stream(x, r, err);
        syn__cuda_request_timed(x, r);
        return s;
    }
#endif
    s = wait_through_host(x, r, err);
    syn__cuda_request_idle(x, r);
    return s;
}
