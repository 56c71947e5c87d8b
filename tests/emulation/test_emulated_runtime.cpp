/* Tests the runtime of the emulated device: memory, streams and events, graphs, devices, and
   requested failures (SYN_EMULATED_FAIL). */
#include <sched.h>

#include <atomic>

#include <time.h>

#include "tests/emulation/emulation_test.h"

/* ---- memory ---- */

static void fresh_memory() {
    float *data = NULL, host[100];
    CHECK_CUDA(cudaMalloc(&data, sizeof host));
    CHECK_INT(reinterpret_cast<uintptr_t>(data) % 256, 0);
    CHECK_CUDA(cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost));
    for (float x : host) CHECK(isnan(x));
    CHECK_CUDA(cudaFree(data));
    CHECK_CODE(cudaFree(data), cudaErrorInvalidValue);
    CHECK_CODE(cudaFree(host), cudaErrorInvalidValue);
    CHECK_CODE(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK_CUDA(cudaFree(NULL));
    CHECK_CUDA(cudaGetLastError());
}

static void full_memory() {
    char *a = NULL, *b = NULL;
    size_t unused = 0, all = 0;
    setenv("SYN_EMULATED_MEMORY", "1000", 1);
    CHECK_CUDA(cudaMalloc(&a, 600));
    CHECK_CODE(cudaMalloc(&b, 401), cudaErrorMemoryAllocation);
    CHECK(b == NULL);
    CHECK_CODE(cudaGetLastError(), cudaErrorMemoryAllocation);
    CHECK_CUDA(cudaMalloc(&b, 300));
    CHECK_CUDA(cudaMemGetInfo(&unused, &all));
    CHECK_INT(unused, 100);
    CHECK_INT(all, 1000);
    CHECK_CUDA(cudaFree(a));
    CHECK_CUDA(cudaFree(b));
    CHECK_CUDA(cudaMemGetInfo(&unused, &all));
    CHECK_INT(unused, 1000);
    unsetenv("SYN_EMULATED_MEMORY");
}

/* A copy that is queued before its pinned memory is freed, and that runs later, must read NaN. */
static void pinned_memory() {
    device_array<float> x(1);
    float *host = NULL, got = 0;
    cudaStream_t stream;
    setenv("SYN_EMULATED_LAZY", "1", 1);
    CHECK_CUDA(cudaStreamCreate(&stream));
    unsetenv("SYN_EMULATED_LAZY");
    CHECK_CUDA(cudaMallocHost(&host, sizeof *host));
    CHECK(isnan(*host));
    *host = 5;
    CHECK_CUDA(cudaMemcpyAsync(x.data, host, sizeof *host, cudaMemcpyHostToDevice, stream));
    CHECK_CUDA(cudaFreeHost(host));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_CUDA(cudaMemcpy(&got, x.data, sizeof got, cudaMemcpyDeviceToHost));
    CHECK(isnan(got));
    CHECK_CODE(cudaFreeHost(&got), cudaErrorInvalidValue);
    CHECK_CODE(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK_CUDA(cudaStreamDestroy(stream));
}

static void copies() {
    device_array<uint8_t> a(64), b(64);
    std::vector<uint8_t> host(64);
    cudaStream_t stream;
    CHECK_CUDA(cudaStreamCreate(&stream));
    for (size_t i = 0; i < 64; i++) host[i] = (uint8_t)i;
    CHECK_CUDA(cudaMemcpyAsync(a.data, host.data(), 64, cudaMemcpyHostToDevice, stream));
    CHECK_CUDA(cudaMemcpyAsync(b.data + 1, a.data, 63, cudaMemcpyDeviceToDevice, stream));
    CHECK_CUDA(cudaMemsetAsync(b.data + 60, 7, 4, stream));
    /* Copies columns 1 and 2 of 4 rows with pitch 8 to rows with pitch 5. */
    CHECK_CUDA(cudaMemcpy2DAsync(b.data, 5, a.data + 1, 8, 2, 4, cudaMemcpyDeviceToDevice, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    const std::vector<uint8_t> got = b.host();
    for (size_t i = 0; i < 64; i++) {
        const size_t other = i >= 60 ? 7 : i < 20 && i % 5 < 2 ? i / 5 * 8 + 1 + i % 5 : i - 1;
        CHECK_INT(got[i], other);
    }
    CHECK_CODE(cudaMemcpy2DAsync(b.data, 1, a.data, 8, 2, 4, cudaMemcpyDeviceToDevice, stream),
               cudaErrorInvalidValue);
    CHECK_CODE(cudaGetLastError(), cudaErrorInvalidValue);
    CHECK_CUDA(cudaStreamDestroy(stream));
}

static void copy_too_much() {
    device_array<char> a(10);
    char host[20] = {0};
    cudaMemcpyAsync(a.data + 5, host, 6, cudaMemcpyHostToDevice, NULL);
}
static void fill_too_much() {
    device_array<char> a(10);
    cudaMemsetAsync(a.data, 0, 11, NULL);
}
static __global__ void set_kernel(int *to, int value) {
    *to = value;
}
static void write_to_the_freed() {
    int *data = NULL;
    CHECK_CUDA(cudaMalloc(&data, 10 * sizeof *data));
    CHECK_CUDA(cudaFree(data));
    CHECK_CUDA(LAUNCH(set_kernel, 1, 1, 0, NULL, data + 2, 3));
    cudaStreamSynchronize(NULL);
}
static void leak() {
    char *data = NULL;
    CHECK_CUDA(cudaMalloc(&data, 123));
}

static void strays() {
    CHECK_DIES("copy", "a copy to the end of 6 bytes at 5 of a buffer of 10");
    CHECK_DIES("fill", "a fill to the end of 11 bytes at 0 of a buffer of 10");
    CHECK_DIES("freed", "a write at 8 of a buffer of 40 that was freed");
    const ended quiet = run_child("leak", "LSAN_OPTIONS=detect_leaks=0");
    const ended reported = run_child("leak", "SYN_EMULATED_LEAKS=1");
    CHECK_MSG(quiet.code == 0, "%s", quiet.text.c_str());
    CHECK(reported.code != 0);
    CHECK_HAS(reported.text.c_str(), "1 buffers were not freed, the first of 123 bytes");
}

/* ---- streams and events ---- */

/* A kernel that waits until the host sets *open. */
static __global__ void gate_kernel(const std::atomic<int> *open) {
    while (!*open) sched_yield();
}
static __global__ void add_kernel(int *to, const int *x) {
    *to += *x;
}

/* Launches return before their work is done. If they did not, this test would hang. */
static void asynchronous() {
    std::atomic<int> open(0);
    int host = 5;
    device_array<int> x(1);
    cudaStream_t stream;
    cudaEvent_t event;
    CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaEventCreate(&event));
    CHECK_CUDA(cudaEventQuery(event)); /* an event that was never recorded counts as done */
    CHECK_CUDA(LAUNCH(gate_kernel, 1, 1, 0, stream, &open));
    CHECK_CUDA(LAUNCH(set_kernel, 1, 1, 0, stream, x.data, 3));
    CHECK_CUDA(cudaMemcpyAsync(&host, x.data, sizeof host, cudaMemcpyDeviceToHost, stream));
    CHECK_CUDA(cudaEventRecord(event, stream));
    CHECK_CODE(cudaStreamQuery(stream), cudaErrorNotReady);
    CHECK_CODE(cudaEventQuery(event), cudaErrorNotReady);
    CHECK_CODE(cudaGetLastError(), cudaErrorNotReady); /* the error stays until cudaGetLastError */
    CHECK_CUDA(cudaGetLastError());
    open = 1;
    CHECK_CUDA(cudaEventSynchronize(event));
    CHECK_INT(host, 3);
    CHECK_CUDA(cudaEventQuery(event));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_CUDA(cudaStreamQuery(stream));
    CHECK_CUDA(cudaEventDestroy(event));
    CHECK_CUDA(cudaStreamDestroy(stream));
}

/* Work is done even if no thread waits for it. */
static void alone() {
    std::atomic<int> open(0);
    cudaStream_t stream;
    CHECK_CUDA(cudaStreamCreate(&stream));
    CHECK_CUDA(LAUNCH(gate_kernel, 1, 1, 0, stream, &open));
    open = 1;
    while (cudaStreamQuery(stream) == cudaErrorNotReady) sched_yield();
    CHECK_CUDA(cudaStreamQuery(stream));
    CHECK_CUDA(cudaStreamDestroy(stream));
}

/* A lazy stream does its work only if a thread waits for it or polls it. */
static void lazy() {
    device_array<int> x(1);
    cudaStream_t stream;
    cudaEvent_t event;
    const struct timespec moment = {0, 20000000};
    setenv("SYN_EMULATED_LAZY", "1", 1);
    CHECK_CUDA(cudaStreamCreate(&stream));
    unsetenv("SYN_EMULATED_LAZY");
    CHECK_CUDA(cudaEventCreate(&event));
    CHECK_CUDA(LAUNCH(set_kernel, 1, 1, 0, stream, x.data, 1));
    CHECK_CUDA(cudaEventRecord(event, stream));
    for (int i = 0; i < 200; i++) CHECK_CUDA(LAUNCH(set_kernel, 1, 1, 0, stream, x.data, 2));
    nanosleep(&moment, NULL);
    CHECK_INT(*x.data, 0);
    CHECK_CUDA(cudaEventSynchronize(event));
    CHECK_INT(*x.data, 1);
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_INT(*x.data, 2);
    CHECK_CUDA(LAUNCH(set_kernel, 1, 1, 0, stream, x.data, 3));
    while (cudaStreamQuery(stream) == cudaErrorNotReady) sched_yield();
    CHECK_INT(*x.data, 3);
    CHECK_CUDA(cudaEventDestroy(event));
    CHECK_CUDA(cudaStreamDestroy(stream));
    cudaGetLastError();
}

/* The second stream waits for the first stream's work before the event, but not for later work. */
static void ordered_streams() {
    std::atomic<int> open(0), later(0);
    device_array<int> x(1), sum(1);
    cudaStream_t first, second;
    cudaEvent_t event;
    CHECK_CUDA(cudaStreamCreateWithPriority(&first, cudaStreamNonBlocking, -1));
    CHECK_CUDA(cudaStreamCreate(&second));
    CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    /* The event was never recorded, so this does not wait. */
    CHECK_CUDA(cudaStreamWaitEvent(second, event));
    CHECK_CUDA(cudaStreamSynchronize(second));
    CHECK_CUDA(LAUNCH(gate_kernel, 1, 1, 0, first, &open));
    CHECK_CUDA(LAUNCH(set_kernel, 1, 1, 0, first, x.data, 4));
    CHECK_CUDA(cudaEventRecord(event, first));
    CHECK_CUDA(cudaStreamWaitEvent(second, event));
    CHECK_CUDA(LAUNCH(add_kernel, 1, 1, 0, second, sum.data, x.data));
    CHECK_CUDA(LAUNCH(gate_kernel, 1, 1, 0, first, &later));
    /* Does not change what the second stream waits for. */
    CHECK_CUDA(cudaEventRecord(event, first));
    CHECK_CODE(cudaStreamQuery(second), cudaErrorNotReady);
    open = 1;
    CHECK_CUDA(cudaStreamSynchronize(second));
    CHECK_CODE(cudaEventQuery(event), cudaErrorNotReady);
    later = 1;
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK_CUDA(cudaEventQuery(event));
    CHECK_INT(sum.host()[0], 4);
    CHECK_CUDA(cudaEventDestroy(event));
    CHECK_CUDA(cudaStreamDestroy(first));
    CHECK_CUDA(cudaStreamDestroy(second));
}

static void times() {
    cudaStream_t stream;
    cudaEvent_t from, to, untimed;
    float ms = -1;
    CHECK_CUDA(cudaStreamCreate(&stream));
    CHECK_CUDA(cudaEventCreate(&from));
    CHECK_CUDA(cudaEventCreate(&to));
    CHECK_CUDA(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    CHECK_CODE(cudaEventElapsedTime(&ms, from, to), cudaErrorInvalidValue);
    CHECK_CUDA(cudaEventRecord(from, stream));
    CHECK_CUDA(cudaEventRecord(untimed, stream));
    CHECK_CUDA(cudaEventRecord(to, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_CUDA(cudaEventElapsedTime(&ms, from, to));
    CHECK(ms >= 0);
    CHECK_CUDA(cudaEventElapsedTime(&ms, to, from));
    CHECK(ms <= 0);
    CHECK_CODE(cudaEventElapsedTime(&ms, from, untimed), cudaErrorInvalidValue);
    for (cudaEvent_t event : {from, to, untimed}) CHECK_CUDA(cudaEventDestroy(event));
    CHECK_CUDA(cudaStreamDestroy(stream));
    cudaGetLastError();
}

/* ---- graphs ---- */

/* Captured work does not run during the capture. Each launch of the graph runs it, with the
   arguments of the capture or with updated ones. */
static void graphs() {
    device_array<int> x(1), sum(1);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamCaptureStatus status;
    const cudaGraphNode_t *newest = NULL;
    size_t n = 0;
    CHECK_CUDA(cudaStreamCreate(&stream));
    CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK_CUDA(cudaStreamIsCapturing(stream, &status));
    CHECK_INT(status, cudaStreamCaptureStatusActive);
    CHECK_CUDA(cudaMemsetAsync(x.data, 0, sizeof(int), stream));
    CHECK_CUDA(LAUNCH(set_kernel, 1, 1, 0, stream, x.data, 3));
    CHECK_CUDA(cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, &newest, NULL, &n));
    CHECK_INT(n, 1);
    const cudaGraphNode_t set = newest[0];
    CHECK_CUDA(LAUNCH(add_kernel, 1, 1, 0, stream, sum.data, x.data));
    CHECK_CODE(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK_CUDA(cudaStreamIsCapturing(stream, &status));
    CHECK_INT(status, cudaStreamCaptureStatusNone);
    CHECK_CUDA(cudaGraphGetNodes(graph, NULL, &n));
    CHECK_INT(n, 3);
    CHECK_INT(sum.host()[0], 0);

    CHECK_CUDA(cudaGraphInstantiate(&exec, graph));
    for (int i = 0; i < 5; i++) CHECK_CUDA(cudaGraphLaunch(exec, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_INT(sum.host()[0], 15);

    int value = 10;
    int *to = x.data;
    void *arguments[] = {static_cast<void *>(&to), &value};
    cudaKernelNodeParams p = {};
    p.func = reinterpret_cast<void *>(set_kernel);
    p.gridDim = p.blockDim = dim3(1);
    p.kernelParams = arguments;
    CHECK_CUDA(cudaGraphLaunch(exec, stream)); /* this launch still uses the old arguments */
    CHECK_CUDA(cudaGraphExecKernelNodeSetParams(exec, set, &p));
    value = 1000;
    CHECK_CUDA(cudaGraphLaunch(exec, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_INT(sum.host()[0], 15 + 3 + 10);
    p.blockDim.x = 1025;
    CHECK_CODE(cudaGraphExecKernelNodeSetParams(exec, set, &p), cudaErrorInvalidConfiguration);
    cudaGraphNode_t nodes[3];
    p.blockDim.x = 1;
    CHECK_CUDA(cudaGraphGetNodes(graph, nodes, &n));
    CHECK(nodes[1] == set);
    CHECK_CODE(cudaGraphExecKernelNodeSetParams(exec, nodes[0], &p), cudaErrorInvalidValue);
    CHECK_CUDA(cudaGraphDestroy(graph));
    CHECK_CUDA(cudaGraphLaunch(exec, stream));
    CHECK_CUDA(cudaGraphExecDestroy(exec));
    CHECK_CUDA(cudaStreamSynchronize(stream));
    CHECK_INT(sum.host()[0], 15 + 3 + 20);
    CHECK_CODE(cudaStreamEndCapture(stream, &graph), cudaErrorInvalidValue);
    CHECK_CUDA(cudaStreamDestroy(stream));
    cudaGetLastError();
}

/* During its capture, a thread must not allocate memory unless the capture mode is relaxed. */
static void memory_while_capturing() {
    cudaStream_t stream;
    cudaGraph_t graph;
    void *data = NULL;
    CHECK_CUDA(cudaStreamCreate(&stream));
    for (int relaxed = 0; relaxed < 2; relaxed++) {
        CHECK_CUDA(cudaStreamBeginCapture(stream, relaxed ? cudaStreamCaptureModeRelaxed
                                                          : cudaStreamCaptureModeThreadLocal));
        CHECK_CODE(cudaMalloc(&data, 8), relaxed ? cudaSuccess : cudaErrorStreamCaptureUnsupported);
        CHECK_CODE(cudaStreamEndCapture(stream, &graph),
                   relaxed ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
        CHECK((graph != NULL) == relaxed);
    }
    CHECK_CUDA(cudaGraphDestroy(graph));
    CHECK_CUDA(cudaFree(data));
    CHECK_CUDA(cudaStreamDestroy(stream));
    cudaGetLastError();
}

/* ---- devices ---- */

static void devices() {
    int n = -1, major = 0, minor = 0, shared = 0;
    cudaDeviceProp properties;
    CHECK_CUDA(cudaGetDeviceCount(&n));
    CHECK_INT(n, 1);
    CHECK_CODE(cudaSetDevice(1), cudaErrorInvalidDevice);
    setenv("SYN_EMULATED_DEVICES", "2", 1);
    setenv("SYN_EMULATED_CAPABILITY", "7.5", 1);
    CHECK_CUDA(cudaSetDevice(1));
    CHECK_CUDA(cudaGetDevice(&n));
    CHECK_INT(n, 1);
    CHECK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 1));
    CHECK_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 1));
    CHECK_CUDA(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, 1));
    CHECK_INT(10 * major + minor, 75);
    CHECK_INT(shared, 64 << 10);
    CHECK_CUDA(cudaGetDeviceProperties(&properties, 0));
    CHECK_INT(properties.major, 7);
    CHECK_INT(properties.totalGlobalMem, 64ll << 30);
    setenv("SYN_EMULATED_DEVICES", "0", 1);
    CHECK_CODE(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    unsetenv("SYN_EMULATED_DEVICES");
    unsetenv("SYN_EMULATED_CAPABILITY");
    CHECK_CUDA(cudaSetDevice(0));
    CHECK_CODE(cudaGetLastError(), cudaErrorNoDevice);
}

static void calls() {
    const uint64_t before = emulated_calls("cudaMalloc"),
                   launches = emulated_calls("cudaLaunchKernel");
    device_array<int> x(1), y(1);
    CHECK_CUDA(LAUNCH(set_kernel, 1, 1, 0, NULL, x.data, 1));
    CHECK_INT(emulated_calls("cudaMalloc") - before, 2);
    CHECK_INT(emulated_calls("cudaLaunchKernel") - launches, 1);
    CHECK_INT(emulated_calls("cudaNothing"), 0);
}

/* ---- failures ---- */

static void print_failures() {
    char *data[3];
    for (char *&one : data) printf("%s ", cudaGetErrorName(cudaMalloc(&one, 10)));
    printf("%s ", cudaGetErrorName(cudaGetLastError()));
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    for (char *one : data) cudaFree(one);
}

static void print_stuck() {
    int *data = NULL;
    cudaStream_t stream;
    CHECK_CUDA(cudaMalloc(&data, sizeof *data));
    CHECK_CUDA(cudaStreamCreate(&stream));
    for (int i = 0; i < 2; i++)
        printf("%s ", cudaGetErrorName(LAUNCH(set_kernel, 1, 1, 0, stream, data, 1)));
    printf("%s ", cudaGetErrorName(cudaStreamSynchronize(stream)));
    printf("%s ", cudaGetErrorName(cudaGetLastError()));
    printf("%s ", cudaGetErrorName(cudaFree(data)));
    printf("%s\n", cudaGetErrorName(cudaStreamDestroy(stream)));
}

static void failures() {
    const ended malloc_2 = run_child("failures", "SYN_EMULATED_FAIL=cudaMalloc:2");
    CHECK_STR(malloc_2.text.c_str(),
              "cudaSuccess cudaErrorUnknown cudaSuccess cudaErrorUnknown cudaSuccess\n");
    const ended launch_2 = run_child("stuck", "SYN_EMULATED_FAIL=cudaLaunchKernel:2");
    CHECK_STR(launch_2.text.c_str(),
              "cudaSuccess cudaSuccess cudaErrorIllegalAddress cudaErrorIllegalAddress "
              "cudaErrorIllegalAddress cudaErrorIllegalAddress\n");
    CHECK_STR(cudaGetErrorString(cudaErrorNoDevice), "no CUDA-capable device is detected");
}

static const test_case cases[] = {{"fresh memory", fresh_memory},
                                  {"full memory", full_memory},
                                  {"pinned memory", pinned_memory},
                                  {"copies", copies},
                                  {"strays", strays},
                                  {"asynchronous", asynchronous},
                                  {"alone", alone},
                                  {"lazy", lazy},
                                  {"ordered streams", ordered_streams},
                                  {"times", times},
                                  {"graphs", graphs},
                                  {"memory_while_capturing", memory_while_capturing},
                                  {"devices", devices},
                                  {"calls", calls},
                                  {"failures", failures}};
static const test_case children[] = {{"copy", copy_too_much},       {"fill", fill_too_much},
                                     {"freed", write_to_the_freed}, {"leak", leak},
                                     {"failures", print_failures},  {"stuck", print_stuck}};
TEST_MAIN_WITH(cases, children)
