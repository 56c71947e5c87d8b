/* The CUDA backend: device memory, copies, synchronization, and the bookkeeping around each
   kernel. */
#include "comm/cuda/cuda_comm.h"
#include "ops/cuda/cuda_device.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"

static syn__cuda *cuda_of(void *device) {
    return static_cast<syn__cuda *>(device);
}

/* ---- choosing a device ---- */

static int capability_of(int device) {
    int major = 0, minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    return 10 * major + minor;
}

syn_status syn__cuda_devices(int *n, syn_error *err) {
    *n = 0;
    const cudaError_t code = cudaGetDeviceCount(n);
    if (code == cudaErrorInsufficientDriver || code == cudaErrorSystemDriverMismatch)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "no CUDA driver: NVIDIA's driver is missing or older than this build's "
                        "CUDA %d.%d; see nvidia-smi",
                        CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    if (code == cudaErrorNoDevice || (code == cudaSuccess && *n == 0))
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "there is no CUDA device; see nvidia-smi, and CUDA_VISIBLE_DEVICES if it "
                        "is set");
    SYN_CUDA(code, "looking for devices", err);
    for (int i = 0; i < *n; i++)
        if (capability_of(i) < SYN__CUDA_OLDEST)
            return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                            "CUDA device %d has compute capability %d.%d; kernels need 7.5 or "
                            "newer; exclude the device with CUDA_VISIBLE_DEVICES",
                            i, capability_of(i) / 10, capability_of(i) % 10);
    return SYN_OK;
}

/* ---- opening and closing ---- */

static int attribute(const syn__cuda *d, cudaDeviceAttr what) {
    int value = 0;
    cudaDeviceGetAttribute(&value, what, d->device);
    return value;
}

static __global__ void any_kernel() {}

/* Determines the compute capability that kernels may assume. All kernels are compiled for the same
   targets, so it is enough to look at one kernel. */
static syn_status find_capability(syn__cuda *d, syn_error *err) {
    struct cudaFuncAttributes a;
    SYN_CUDA(cudaFuncGetAttributes(&a, any_kernel), "looking for kernels", err);
    d->at.capability = capability_of(d->device);
    if (a.ptxVersion < d->at.capability) d->at.capability = a.ptxVersion;
    return SYN_OK;
}

static syn_status open_parts(syn__cuda *d, syn_error *err) {
    SYN_CUDA(cudaSetDevice(d->device), "choosing a device", err);
    SYN_CUDA(cudaStreamCreateWithFlags(&d->at.stream, cudaStreamNonBlocking), "a stream", err);
    SYN_CUBLAS(cublasLtCreate(&d->at.lt), "its start", err);
    SYN_CUDA(cudaMalloc((void **)&d->at.fault, sizeof *d->fault), "a buffer", err);
    SYN_CUDA(cudaMallocHost((void **)&d->fault, sizeof *d->fault), "staging memory", err);
    SYN_CUDA(cudaMemsetAsync(d->at.fault, 0, sizeof *d->fault, d->at.stream), "a fill", err);
    SYN_CUDA(cudaMallocHost((void **)&d->asked, SYN_ASYNC_READS * sizeof *d->asked),
             "staging memory", err);
    for (int i = 0; i < SYN_ASYNC_READS; i++)
        SYN_CUDA(cudaEventCreateWithFlags(&d->async_read_done[i], cudaEventDisableTiming),
                 "an event", err);
    d->at.sms = attribute(d, cudaDevAttrMultiProcessorCount);
    SYN_TRY(find_capability(d, err));
    d->at.shared_bytes = (size_t)attribute(d, cudaDevAttrMaxSharedMemoryPerBlockOptin);
    SYN_TRY(syn__cuda_blas_open(&d->blas, capability_of(d->device), err));
    SYN_TRY(syn__cuda_staging_open(&d->staging, err));
    SYN_TRY(syn__graphs_open(&d->graphs, d, err));
    return syn__cuda_times_open(&d->times, d->at.stream, err);
}

/* How long to wait for sends in flight: before memory is freed, and in a sync, so that their times
   are known (FREE_WAIT_MS if work is recorded). */
enum { FREE_WAIT_MS = 1000, SYNC_WAIT_MS = 10 };

static void free_kept(syn__cuda *d) {
    while (d->n_kept > 0) cudaFree(d->kept[--d->n_kept]);
}

static void cuda_close(void *device) {
    syn__cuda *d = cuda_of(device);
    cudaSetDevice(d->device);
    syn__cuda_comms_close(d->comms);
    free_kept(d);
    syn_free(d->kept);
    syn__graphs_close(d->graphs);
    syn__cuda_times_close(&d->times);
    syn__cuda_work_close(&d->work);
    syn__cuda_staging_close(&d->staging);
    syn__cuda_blas_close(&d->blas);
    if (d->scratch) cudaFree(d->scratch);
    if (d->fault) cudaFreeHost(d->fault);
    if (d->asked) cudaFreeHost(d->asked);
    for (int i = 0; i < SYN_ASYNC_READS; i++)
        if (d->async_read_done[i]) cudaEventDestroy(d->async_read_done[i]);
    if (d->at.fault) cudaFree(d->at.fault);
    if (d->at.lt) cublasLtDestroy(d->at.lt);
    if (d->at.stream) cudaStreamDestroy(d->at.stream);
    cudaGetLastError(); /* clears errors that were reported already */
    syn_free(d);
}

static syn_status choose_device(syn__cuda *d, syn_comm *comm, syn_error *err) {
    int n;
    SYN_TRY(syn__cuda_devices(&n, err));
    return syn__cuda_choose_device(comm, n, &d->device, err);
}

static syn_status cuda_open(void **device, struct syn_ctx *ctx, syn_error *err) {
    syn__cuda *d = static_cast<syn__cuda *>(syn_calloc(1, sizeof *d));
    if (!d) return SYN_FAIL_NOMEM(err, sizeof *d, "a device");
    d->ctx = ctx;
    d->at.device = d;
    syn_comm *comm = syn__cuda_host->comm(ctx);
    syn_status s = choose_device(d, comm, err);
    if (s == SYN_OK) s = open_parts(d, err);
    if (s == SYN_OK) s = syn__cuda_comms_open(&d->comms, d, comm, err);
    if (s == SYN_OK) *device = d;
    else cuda_close(d);
    return s;
}

/* ---- memory ---- */

static void *cuda_alloc(void *device, size_t bytes) {
    syn__cuda *d = cuda_of(device);
    void *data = NULL;
    cudaSetDevice(d->device);
    if (cudaMalloc(&data, bytes) == cudaSuccess) return data;
    cudaGetLastError(); /* the caller reports it */
    if (d->n_kept == 0 || !syn__cuda_comms_drain(d->comms, FREE_WAIT_MS)) return NULL;
    free_kept(d);
    return cuda_alloc(device, bytes);
}

/* cudaFree waits for the device. If messages are in flight, whose receivers may wait for this rank,
   memory is freed later. */
static void free_buffer(syn__cuda *d, void *data) {
    syn_error ignored;
    if (!syn__cuda_comms_drain(d->comms, d->n_kept > 0 ? 0 : FREE_WAIT_MS)) {
        if (syn_grow(&d->kept, &d->kept_cap, d->n_kept + 1, sizeof *d->kept, &ignored) == SYN_OK)
            d->kept[d->n_kept++] = data; /* without memory for that, it stays allocated */
        return;
    }
    free_kept(d);
    cudaFree(data);
}

static void cuda_free(void *device, void *data) {
    cudaSetDevice(cuda_of(device)->device);
    free_buffer(cuda_of(device), data);
}

syn_status syn__cuda_late(const syn__cuda *d, syn_error *err) {
    return d->late.code == SYN_OK ? SYN_OK : SYN_FAIL(err, d->late.code, "%s", d->late.text);
}

syn_status syn__cuda_flush_deferred(syn__cuda *d, syn_error *err) {
    SYN_CUDA(cudaSetDevice(d->device), "choosing a device", err);
    SYN_TRY(syn__graphs_end(d->graphs, err));
    d->times.idle = false;
    return SYN_OK;
}

static syn_status cuda_copy_in(void *device, void *to, const void *from, size_t bytes,
                               syn_error *err) {
    syn__cuda *d = cuda_of(device);
    SYN_TRY(syn__cuda_flush_deferred(d, err));
    syn__cuda_unowned_begin(d);
    const syn_status s = syn__cuda_staging_in(&d->staging, d->at.stream, to, from, bytes, err);
    syn__cuda_unowned_end(d, SYN_PIECE_COPY_IN, bytes);
    return s;
}

static syn_status cuda_copy_out(void *device, void *to, const void *from, size_t bytes,
                                syn_error *err) {
    syn__cuda *d = cuda_of(device);
    SYN_TRY(syn__cuda_flush_deferred(d, err));
    syn__cuda_unowned_begin(d);
    const syn_status s = syn__cuda_staging_out(&d->staging, d->at.stream, to, from, bytes, err);
    syn__cuda_unowned_end(d, SYN_PIECE_COPY_OUT, bytes);
    return s;
}

static syn_status cuda_fill(void *device, void *to, int byte, size_t bytes, syn_error *err) {
    syn__cuda *d = cuda_of(device);
    SYN_TRY(syn__cuda_flush_deferred(d, err));
    if (bytes == 0) return SYN_OK;
    syn__cuda_unowned_begin(d);
    const cudaError_t code = cudaMemsetAsync(to, byte, bytes, d->at.stream);
    syn__cuda_unowned_end(d, SYN_PIECE_FILL, bytes);
    SYN_CUDA(code, "a fill", err);
    return SYN_OK;
}

syn_status syn__cuda_grow(syn__cuda *d, void **data, size_t *bytes, size_t want, size_t least,
                          const char *what, syn_error *err) {
    if (*data) {
        syn__cuda_comms_drain(d->comms, 0);
        SYN_CUDA(cudaStreamSynchronize(d->at.stream), "waiting for the device", err);
        free_buffer(d, *data);
    }
    *bytes = want;
    *data = cuda_alloc(d, want);
    if (!*data && syn__cuda_host->trim_pool(d->ctx)) *data = cuda_alloc(d, want);
    if (!*data && least < want) *data = cuda_alloc(d, *bytes = least);
    if (*data) return SYN_OK;
    *bytes = 0;
    return syn__cuda_host->out_of_memory(d->ctx, least, what, err);
}

syn_status syn__cuda_scratch(const syn_call *c, size_t bytes, void **out) {
    syn__cuda *d = syn__cuda_of(c)->device;
    if (bytes > d->scratch_bytes) {
        if (syn__graphs_capturing())
            return SYN_FAIL(c->err, SYN_E_UNSUPPORTED,
                            "scratch memory cannot grow inside a CUDA graph");
        const size_t twice = 2 * d->scratch_bytes; /* so that it rarely grows */
        d->scratch_number++;
        SYN_TRY(syn__cuda_grow(d, &d->scratch, &d->scratch_bytes, bytes < twice ? twice : bytes,
                               bytes, "a kernel's scratch memory", c->err));
    }
    *out = d->scratch;
    return SYN_OK;
}

/* ---- synchronization ---- */

/* Converts a fault of a kernel (syn__fault) to a failure, and clears the fault on the device. */
static syn_status report_fault(syn__cuda *d, syn__fault fault, syn_error *err) {
    if (fault.kind == SYN__FAULT_NONE) return SYN_OK;
    char place[256];
    const long long value = fault.value, limit = fault.limit;
    SYN_CUDA(cudaMemsetAsync(d->at.fault, 0, sizeof fault, d->at.stream), "a fill", err);
    syn__cuda_host->describe_node(d->ctx, syn__graphs_fault_node(d->graphs, fault.node), place,
                                  sizeof place);
    switch (fault.kind) {
    case SYN__FAULT_TARGET:
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%s: a target is %lld, which is out of range: there are %lld classes",
                        place, value, limit);
    case SYN__FAULT_SEEN:
        return SYN_FAIL(err, SYN_E_INVALID,
                        "%s: token id %lld is out of range: there are %lld tokens", place, value,
                        limit);
    case SYN__FAULT_EXPERT:
        return SYN_FAIL(err, SYN_E_INVALID, "%s: there is no expert %lld among %lld", place, value,
                        limit);
    case SYN__FAULT_PLACE:
        return SYN_FAIL(err, SYN_E_INVALID, "%s: a row has place %lld, which is not below %lld",
                        place, value, limit);
    case SYN__FAULT_TWICE:
        return SYN_FAIL(err, SYN_E_INVALID, "%s: two rows have place %lld", place, value);
    case SYN__FAULT_SIZES:
        return SYN_FAIL(err, SYN_E_INVALID, "%s: the experts' sizes do not add up to %lld rows",
                        place, limit);
    case SYN__FAULT_SLOT:
        return SYN_FAIL(err, SYN_E_INVALID, "%s: slot %lld is not in a cache of %lld slots", place,
                        value, limit);
    case SYN__FAULT_BLOCK:
        return SYN_FAIL(err, SYN_E_INVALID, "%s: block %lld is not in a cache of %lld blocks",
                        place, value, limit);
    default:
        return SYN_FAIL(err, SYN_E_IO, "%s: unknown fault code %d", place, fault.kind);
    }
}

/* Reports an asynchronous error, with the range of ops that may have caused it. */
static syn_status report_async_error(syn__cuda *d, cudaError_t code, syn_error *err) {
    char what[600], first[256], last[256];
    snprintf(what, sizeof what, "waiting for the device");
    if (d->first_node) {
        syn__cuda_host->describe_node(d->ctx, d->first_node, first, sizeof first);
        syn__cuda_host->describe_node(d->ctx, d->at.node, last, sizeof last);
        const bool one = d->first_node == d->at.node;
        snprintf(what, sizeof what, "%s%s%s", first, one ? "" : " or a later op, up to ",
                 one ? "" : last);
    }
    return syn__cuda_failed(code, what, __FILE__, __LINE__, err);
}

/* Waits for all queued work. Afterwards the times of the work are known. */
static cudaError_t wait_for_stream(syn__cuda *d) {
    const uint64_t from_ns = syn__clock_ns();
    cudaError_t code = syn__cuda_times_before_sync(&d->times, d->at.stream);
    if (code == cudaSuccess && d->comms &&
        syn__cuda_comms_sync(d->comms, d->times.anchors[1], &d->late) != SYN_OK)
        d->first_node = 0; /* d->late has the error */
    if (code == cudaSuccess) code = cudaStreamSynchronize(d->at.stream);
    const uint64_t synced_ns = code == cudaSuccess ? syn__clock_ns() : 0;
    if (code == cudaSuccess)
        syn__cuda_comms_drain(d->comms, d->work.keep ? FREE_WAIT_MS : SYNC_WAIT_MS);
    if (d->comms) syn__cuda_comms_times(d->comms);
    syn__cuda_times_finish(d, synced_ns);
    syn__cuda_waited(d, from_ns);
    return code;
}

static syn_status cuda_sync(void *device, syn_error *err) {
    syn__cuda *d = cuda_of(device);
    SYN_TRY(syn__cuda_late(d, err));
    SYN_TRY(syn__cuda_flush_deferred(d, err));
    cudaError_t code = cudaMemcpyAsync(d->fault, d->at.fault, sizeof *d->fault,
                                       cudaMemcpyDeviceToHost, d->at.stream);
    if (code == cudaSuccess) code = wait_for_stream(d);
    SYN_TRY(syn__cuda_late(d, err));
    if (code != cudaSuccess) return report_async_error(d, code, err);
    syn__cuda_staging_finish(&d->staging);
    d->first_node = 0;
    const syn_status s = report_fault(d, *d->fault, err);
    syn__graphs_synced(d->graphs);
    return s;
}

static syn_status cuda_ask(void *device, int which, const void *const *from, int n,
                           syn_error *err) {
    syn__cuda *d = cuda_of(device);
    syn__cuda_async_read *a = &d->asked[which];
    SYN_TRY(syn__cuda_flush_deferred(d, err));
    for (int i = 0; i < n; i++) {
        syn__cuda_unowned_begin(d);
        const cudaError_t code = cudaMemcpyAsync(&a->numbers[i], from[i], sizeof *a->numbers,
                                                 cudaMemcpyDeviceToHost, d->at.stream);
        syn__cuda_unowned_end(d, SYN_PIECE_COPY_OUT, sizeof *a->numbers);
        SYN_CUDA(code, "a copy from the device", err);
    }
    SYN_CUDA(cudaMemcpyAsync(&a->fault, d->at.fault, sizeof a->fault, cudaMemcpyDeviceToHost,
                             d->at.stream),
             "a copy from the device", err);
    SYN_CUDA(cudaEventRecord(d->async_read_done[which], d->at.stream), "an event", err);
    return SYN_OK;
}

/* Gets the values of an asynchronous read. Launches deferred ops first, so that the device has work
   while the host waits. */
static syn_status cuda_get(void *device, int which, float *out, int n, syn_error *err) {
    syn__cuda *d = cuda_of(device);
    const cudaEvent_t done = d->async_read_done[which];
    SYN_TRY(syn__cuda_late(d, err));
    SYN_TRY(syn__cuda_flush_deferred(d, err));
    const uint64_t from_ns = syn__clock_ns();
    if (d->comms) SYN_TRY(syn__cuda_comms_sync(d->comms, done, err));
    const cudaError_t code = cudaEventSynchronize(done);
    syn__cuda_waited(d, from_ns);
    if (code != cudaSuccess) return report_async_error(d, code, err);
    memcpy(out, d->asked[which].numbers, (size_t)n * sizeof *out);
    return report_fault(d, d->asked[which].fault, err);
}

/* ---- kernels ---- */

void syn__cuda_time_begin(syn__cuda *d, uint32_t node, int segment, int op) {
    if (syn__cuda_times_begin(&d->times, d->at.stream, node, segment, op)) return;
    wait_for_stream(d); /* all marks are in use; a failure persists until the next sync reports
                           it */
    syn__cuda_times_begin(&d->times, d->at.stream, node, segment, op);
}

void syn__cuda_time_end(syn__cuda *d) {
    syn__cuda_times_end(&d->times, d->at.stream);
}

syn_status syn__cuda_run_alone(syn__cuda *d, syn_call *c, syn_kernel kernel, int segment, int op) {
    /* The work starts with a separate mark, which excludes the host's time before the launch. */
    if (d->work.keep) d->times.idle = false;
    syn__cuda_time_begin(d, d->at.node, segment, op);
    syn__cuda_work_begin(d, d->at.node);
    const syn_status s = kernel(c);
    syn__cuda_work_end(d);
    syn__cuda_time_end(d);
    return s;
}

static void cuda_begin(void *device, uint32_t node) {
    syn__cuda *d = cuda_of(device);
    cudaSetDevice(d->device);
    d->at.node = node;
    if (!d->first_node) d->first_node = node;
}

static void cuda_end(void *device, uint32_t node) { /* the times of kernels are recorded in run */
    (void)device;
    (void)node;
}

static syn_status run(syn_call *c) {
    syn__cuda *d = syn__cuda_of(c)->device;
    const syn_kernel kernel = syn__cuda_kernel(c->def);
    if (d->graphs) return syn__graphs_run(d->graphs, c, kernel);
    return syn__cuda_run_alone(d, c, kernel, -1, 0);
}

/* Launches deferred ops, because the call starts or ends the mode in which ops are launched one by
   one. */
static void cuda_record_work(void *device, bool keep) {
    syn__cuda *d = cuda_of(device);
    if (keep != d->work.keep && syn__cuda_flush_deferred(d, &d->late) == SYN_OK)
        d->work.keep = keep;
}

static syn_kernel cuda_kernel(const syn_opdef *def) {
    const syn_kernel kernel = syn__cuda_kernel(def);
    return kernel && !(def->flags & SYN_OPF_COMM) ? run : kernel;
}

static void cuda_step(void *device) {
    syn__cuda *d = cuda_of(device);
    if (syn__graphs_end(d->graphs, &d->late) == SYN_OK) syn__graphs_step(d->graphs);
}

syn_status syn__launched(const syn_call *c) {
    SYN_CUDA(cudaGetLastError(), "a launch", c->err);
    return SYN_OK;
}

/* ---- description ---- */

static const double GIB = 1024.0 * 1024.0 * 1024.0;

static void cuda_describe(void *device, char *text, size_t bytes) {
    const syn__cuda *d = cuda_of(device);
    struct cudaDeviceProp p;
    if (cudaGetDeviceProperties(&p, d->device) != cudaSuccess) {
        snprintf(text, bytes, "a CUDA device");
        return;
    }
    snprintf(text, bytes, "%s, %.1f GiB, compute capability %d.%d", p.name,
             (double)p.totalGlobalMem / GIB, p.major, p.minor);
}

static void cuda_properties(void *device, syn_device_info *out) {
    const syn__cuda *d = cuda_of(device);
    struct cudaDeviceProp p;
    syn_error ignored = {};
    if (cudaGetDeviceProperties(&p, d->device) == cudaSuccess)
        snprintf(out->name, sizeof out->name, "%.127s", p.name);
    out->multiprocessors = d->at.sms;
    if (syn__cuda_devices(&out->devices, &ignored) != SYN_OK) out->devices = 1;
}

static syn_status cuda_memory_info(void *device, size_t *free_bytes, size_t *all_bytes,
                                   syn_error *err) {
    SYN_CUDA(cudaSetDevice(cuda_of(device)->device), "choosing a device", err);
    SYN_CUDA(cudaMemGetInfo(free_bytes, all_bytes), "asking for its memory", err);
    return SYN_OK;
}

const syn_backend *syn__cuda_backend(void) {
    static syn_backend backend;
    backend.name = "cuda";
    backend.has_data = true;
    backend.open = cuda_open;
    backend.close = cuda_close;
    backend.alloc = cuda_alloc;
    backend.free = cuda_free;
    backend.copy_in = cuda_copy_in;
    backend.copy_out = cuda_copy_out;
    backend.fill = cuda_fill;
    backend.sync = cuda_sync;
    backend.ask = cuda_ask;
    backend.get = cuda_get;
    backend.kernel = cuda_kernel;
    backend.start = syn__cuda_start;
    backend.wait = syn__cuda_wait;
    backend.connect = syn__cuda_connect;
    backend.begin = cuda_begin;
    backend.end = cuda_end;
    backend.step = cuda_step;
    backend.record_work = cuda_record_work;
    backend.describe = cuda_describe;
    backend.memory_info = cuda_memory_info;
    backend.device_info = cuda_properties;
    return &backend;
}
