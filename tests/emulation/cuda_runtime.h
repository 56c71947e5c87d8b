/* An emulated CUDA device. It has the parts of CUDA's runtime that the sources of ops/cuda and
   comm/cuda use, for any C++ compiler, so that their kernels and their use of the runtime can be
   tested on every machine. Names and behaviour follow NVIDIA's "CUDA Runtime API" and "CUDA C++
   Programming Guide".

   Each stream has a host thread, so work runs concurrently with the caller, as on a device. Blocks
   of a launch run one after the other. The threads of a block are fibers, which switch only at
   barriers and warp operations. Each buffer in device memory has guards around it and contains NaN
   at first. Shared memory contains NaN when a block begins.

   Environment variables, with their defaults in brackets:

   SYN_EMULATED_DEVICES     number of devices [1]
   SYN_EMULATED_FIRST       number of the process's first device on its machine [0]
   SYN_EMULATED_CAPABILITY  compute capability of the devices [9.0]
   SYN_EMULATED_PTX         architecture that kernels were compiled for [the capability]
   SYN_EMULATED_MEMORY      memory of each device in bytes [64 GiB]
   SYN_EMULATED_ORDER       order in which the threads of a block run from one barrier or warp
                            operation to the next: forward, reversed or random:SEED. With the
                            prefix greedy-, a warp runs until all its threads wait for other
                            warps, so that it gets as far ahead of them as possible
   SYN_EMULATED_LAZY        if set, streams do no work until a thread waits for them or polls
                            them, as if the device were very busy
   SYN_EMULATED_LATE_US     every second cudaEventSynchronize of a thread, beginning with the
                            first, returns this many microseconds late
   SYN_EMULATED_LATE_SYNC_US
                            every cudaStreamSynchronize returns this many microseconds late
   SYN_EMULATED_LEAKS       if set, the program ends with an error if a buffer was not freed
   SYN_EMULATED_NO_NCCL     if set, NCCL cannot be loaded; the value is the reason
   SYN_EMULATED_FAIL        "cudaMalloc:3" makes the third call of this function fail. For
                            cudaLaunchKernel, the kernel fails, and so do all later calls. For
                            ncclRemoteError, the communicator reports an error of another rank */
#ifndef TESTS_EMULATION_CUDA_RUNTIME_H
#define TESTS_EMULATION_CUDA_RUNTIME_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>

#define CUDART_VERSION 13000

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __shared__   static thread_local
#define __constant__ static

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
static inline float2 make_float2(float x, float y) {
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}
static inline int2 make_int2(int x, int y) {
    return {x, y};
}
static inline int4 make_int4(int x, int y, int z, int w) {
    return {x, y, z, w};
}
static inline uint2 make_uint2(unsigned x, unsigned y) {
    return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}

/* ---- within kernels ---- */

extern __thread uint3 threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;

void *emulated_dynamic_shared();
/* A device can access several bytes in one access only if their address is aligned to their number.
   Otherwise, emulated_align ends the program. */
[[noreturn]] void emulated_misaligned(const void *at, size_t bytes);
static inline void emulated_align(const void *at, size_t bytes) {
    if (reinterpret_cast<uintptr_t>(at) % bytes != 0) emulated_misaligned(at, bytes);
}
/* Called by emulated features that need code compiled for at least `capability`, such as 80. Ends
   the program if the kernels were compiled for less. */
void emulated_compiled_for(int capability);
/* A barrier for all threads of the block that have not returned. */
void emulated_barrier();
/* A warp operation of all lanes in the mask, none of which may have returned. Copies `bytes` bytes
   from `mine` of lane `from` to `to`. If this lane is not in the mask, `to` does not change.
   Returns the set of lanes in the mask whose first byte at `mine` is not 0. */
unsigned emulated_exchange(unsigned mask, const void *mine, size_t bytes, int from, void *to);
/* The same for all lanes: the bytes of lane i are copied to element i of `all`. */
void emulated_gather(unsigned mask, const void *mine, size_t bytes, void *all);
int emulated_lane();
/* Asynchronous copies to shared memory, like cp.async. commit ends a batch of copies. wait(left)
   waits until at most the last `left` batches are incomplete. The data of a batch is available only
   after such a wait. */
void emulated_copy_async(void *to, const void *from, size_t bytes);
void emulated_copies_commit();
void emulated_copies_wait(int left);

static inline void __syncthreads() {
    emulated_barrier();
}
static inline int __syncthreads_or(int predicate) {
    static thread_local int any;
    any = 0;
    emulated_barrier();
    any |= predicate != 0;
    emulated_barrier();
    const int result = any;
    emulated_barrier();
    return result;
}
static inline void __syncwarp(unsigned mask = 0xffffffffu) {
    const char nothing = 0;
    char same;
    emulated_exchange(mask, &nothing, 1, emulated_lane(), &same);
}
template <typename T> static inline T emulated_shuffle(unsigned mask, T value, int from) {
    static_assert(std::is_trivially_copyable<T>::value, "shuffles copy bytes");
    T result = value;
    emulated_exchange(mask, &value, sizeof value, from, &result);
    return result;
}
template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    const int lane = emulated_lane();
    return emulated_shuffle(mask, value, lane / width * width + (from & (width - 1)));
}
template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32) {
    const int lane = emulated_lane(), from = lane ^ with;
    return emulated_shuffle(mask, value, from < (lane / width + 1) * width ? from : lane);
}
template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
    const int lane = emulated_lane(), from = lane + (int)by;
    return emulated_shuffle(mask, value, from < (lane / width + 1) * width ? from : lane);
}
template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
    const int lane = emulated_lane(), from = lane - (int)by;
    return emulated_shuffle(mask, value, from >= lane / width * width ? from : lane);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
    const char mine = predicate != 0;
    char same;
    return emulated_exchange(mask, &mine, 1, emulated_lane(), &same);
}
static inline int __any_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) != 0;
}
static inline int __all_sync(unsigned mask, int predicate) {
    return __ballot_sync(mask, predicate) == mask;
}
static inline void __threadfence() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void __threadfence_block() {}

/* Atomic operations are those of the host. Blocks of one launch run one after the other, but
   concurrently with blocks of other streams. */
template <typename T> static inline T emulated_swap_if(T *at, T expected, T value) {
    __atomic_compare_exchange(at, &expected, &value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}
template <typename T, typename F> static inline T emulated_atomic(T *at, F change) {
    T before, seen;
    __atomic_load(at, &seen, __ATOMIC_SEQ_CST);
    do {
        before = seen;
        seen = emulated_swap_if(at, before, change(before));
    } while (memcmp(&seen, &before, sizeof seen) != 0);
    return before;
}
#define EMULATED_ATOMICS(T)                                             \
    static inline T atomicAdd(T *at, T x) {                             \
        return emulated_atomic(at, [x](T y) { return (T)(y + x); });    \
    }                                                                   \
    static inline T atomicMax(T *at, T x) {                             \
        return emulated_atomic(at, [x](T y) { return y > x ? y : x; }); \
    }                                                                   \
    static inline T atomicMin(T *at, T x) {                             \
        return emulated_atomic(at, [x](T y) { return y < x ? y : x; }); \
    }                                                                   \
    static inline T atomicExch(T *at, T x) {                            \
        return emulated_atomic(at, [x](T) { return x; });               \
    }
EMULATED_ATOMICS(int)
EMULATED_ATOMICS(unsigned)
EMULATED_ATOMICS(unsigned long long)
EMULATED_ATOMICS(float)
#undef EMULATED_ATOMICS
static inline unsigned atomicOr(unsigned *at, unsigned x) {
    return emulated_atomic(at, [x](unsigned y) { return y | x; });
}
static inline int atomicCAS(int *at, int expected, int value) {
    return emulated_swap_if(at, expected, value);
}
static inline unsigned atomicCAS(unsigned *at, unsigned expected, unsigned value) {
    return emulated_swap_if(at, expected, value);
}
static inline unsigned long long atomicCAS(unsigned long long *at, unsigned long long expected,
                                           unsigned long long value) {
    return emulated_swap_if(at, expected, value);
}

template <typename T> static inline T __ldg(const T *at) {
    return *at;
}
template <typename To, typename From> static inline To emulated_bits(From from) {
    To to;
    static_assert(sizeof to == sizeof from, "the same bits");
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline int __float_as_int(float x) {
    return emulated_bits<int>(x);
}
static inline unsigned __float_as_uint(float x) {
    return emulated_bits<unsigned>(x);
}
static inline float __int_as_float(int x) {
    return emulated_bits<float>(x);
}
static inline float __uint_as_float(unsigned x) {
    return emulated_bits<float>(x);
}
static inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x) {
    return __builtin_popcountll(x);
}
static inline int __clz(int x) {
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x) {
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline int __ffs(int x) {
    return __builtin_ffs(x);
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline float rsqrtf(float x) {
    return 1.0f / sqrtf(x);
}
#define __expf(x) expf(x)
#define __logf(x) logf(x)
static inline float __frcp_rn(float x) {
    return 1.0f / x;
}
static inline float __fdividef(float a, float b) {
    return a / b;
}
/* The product is exact and the sum is rounded twice. No library function is called. */
static inline float emulated_fmaf(float a, float b, float c) {
    return (float)((double)a * (double)b + (double)c);
}
#define fmaf(a, b, c)      emulated_fmaf(a, b, c)
#define __fmaf_rn(a, b, c) emulated_fmaf(a, b, c)
static inline float __fadd_rn(float a, float b) {
    return a + b;
}
static inline float __fmul_rn(float a, float b) {
    return a * b;
}
static inline int min(int a, int b) {
    return a < b ? a : b;
}
static inline int max(int a, int b) {
    return a > b ? a : b;
}
static inline unsigned min(unsigned a, unsigned b) {
    return a < b ? a : b;
}
static inline unsigned max(unsigned a, unsigned b) {
    return a > b ? a : b;
}

/* ---- the runtime ---- */

#define EMULATED_ERRORS(X)                                                       \
    X(Success, 0, "no error")                                                    \
    X(ErrorInvalidValue, 1, "invalid argument")                                  \
    X(ErrorMemoryAllocation, 2, "out of memory")                                 \
    X(ErrorInvalidConfiguration, 9, "invalid configuration argument")            \
    X(ErrorInsufficientDriver, 35, "driver version is insufficient for runtime") \
    X(ErrorInvalidDeviceFunction, 98, "invalid device function")                 \
    X(ErrorNoDevice, 100, "no CUDA-capable device is detected")                  \
    X(ErrorInvalidDevice, 101, "invalid device ordinal")                         \
    X(ErrorNoKernelImageForDevice, 209, "no kernel image for the device")        \
    X(ErrorPeerAccessAlreadyEnabled, 704, "peer access is already enabled")      \
    X(ErrorNotReady, 600, "device not ready")                                    \
    X(ErrorIllegalAddress, 700, "an illegal memory access was encountered")      \
    X(ErrorAssert, 710, "device-side assert triggered")                          \
    X(ErrorLaunchFailure, 719, "unspecified launch failure")                     \
    X(ErrorNotSupported, 801, "operation not supported")                         \
    X(ErrorSystemDriverMismatch, 803, "driver and library do not match")         \
    X(ErrorStreamCaptureUnsupported, 900, "not permitted when capturing")        \
    X(ErrorStreamCaptureInvalidated, 901, "the capture failed before")           \
    X(ErrorGraphExecUpdateFailure, 910, "the graph cannot be changed so")        \
    X(ErrorUnknown, 999, "unknown error")
enum cudaError_t {
#define EMULATED_X(name, code, text) cuda##name = code,
    EMULATED_ERRORS(EMULATED_X)
#undef EMULATED_X
};
typedef cudaError_t cudaError;

typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;
typedef struct emulated_graph *cudaGraph_t;
typedef struct emulated_graph_node *cudaGraphNode_t;
typedef struct emulated_graph_exec *cudaGraphExec_t;
enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventBlockingSync = 1, cudaEventDisableTiming = 2 };
enum { cudaHostAllocDefault = 0, cudaHostAllocPortable = 1 };
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaDeviceAttr {
    cudaDevAttrMaxSharedMemoryPerBlock = 8,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus {
    cudaStreamCaptureStatusNone,
    cudaStreamCaptureStatusActive,
    cudaStreamCaptureStatusInvalidated
};
struct cudaFuncAttributes {
    int ptxVersion, binaryVersion;
};
struct cudaUUID_t {
    char bytes[16];
};
struct cudaDeviceProp {
    char name[256];
    cudaUUID_t uuid;
    size_t totalGlobalMem;
    int major, minor, multiProcessorCount;
};
struct cudaKernelNodeParams {
    void *func;
    dim3 gridDim, blockDim;
    unsigned sharedMemBytes;
    void **kernelParams, **extra;
};
struct cudaGraphEdgeData {
    unsigned char from_port, to_port, type, reserved[5];
};

extern "C" {
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes);
const char *cudaGetErrorName(cudaError_t code);
const char *cudaGetErrorString(cudaError_t code);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();

cudaError_t emulated_malloc(void **data, size_t bytes);
cudaError_t cudaFree(void *data);
cudaError_t emulated_malloc_host(void **data, size_t bytes);
cudaError_t cudaFreeHost(void *data);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to);

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream);
cudaError_t emulated_func_attributes(cudaFuncAttributes *a);
cudaError_t emulated_set_shared(const void *kernel, cudaFuncAttribute what, int value);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **newest,
                                     const cudaGraphEdgeData **edges, size_t *n);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams *params);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

/* The number of calls of a runtime function so far. */
__attribute__((visibility("default"))) uint64_t emulated_calls(const char *name);
}

template <typename T> static inline cudaError_t cudaMalloc(T **data, size_t bytes) {
    return emulated_malloc(reinterpret_cast<void **>(data), bytes);
}
template <typename T> static inline cudaError_t cudaMallocHost(T **data, size_t bytes) {
    return emulated_malloc_host(reinterpret_cast<void **>(data), bytes);
}
template <typename T>
static inline cudaError_t cudaHostAlloc(T **data, size_t bytes, unsigned flags) {
    (void)flags;
    return emulated_malloc_host(reinterpret_cast<void **>(data), bytes);
}
template <typename F>
static inline cudaError_t cudaFuncSetAttribute(F *kernel, cudaFuncAttribute what, int value) {
    return emulated_set_shared(reinterpret_cast<const void *>(kernel), what, value);
}
template <typename F>
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, F *kernel) {
    (void)kernel;
    return emulated_func_attributes(a);
}

/* ---- kernels ---- */

/* Registers a kernel by its address, with the sizes of its parameters, so that a launch can copy
   its arguments. */
typedef void emulated_caller(const void *kernel, void *const *arguments);
void emulated_know_kernel(const char *name, const void *kernel, emulated_caller *call,
                          const size_t *bytes, int n);

template <int... I> struct emulated_numbers {};
template <int N, int... I> struct emulated_count : emulated_count<N - 1, N - 1, I...> {};
template <int... I> struct emulated_count<0, I...> { typedef emulated_numbers<I...> type; };
template <typename... P> struct emulated_call {
    template <int... I>
    static void with(void (*kernel)(P...), void *const *arguments, emulated_numbers<I...>) {
        (void)arguments;
        kernel(*static_cast<typename std::remove_reference<P>::type *>(arguments[I])...);
    }
    static void run(const void *kernel, void *const *arguments) {
        with(reinterpret_cast<void (*)(P...)>(const_cast<void *>(kernel)), arguments,
             typename emulated_count<(int)sizeof...(P)>::type());
    }
};
template <typename... P> static inline void emulated_know(const char *name, void (*kernel)(P...)) {
    const size_t bytes[] = {sizeof(P)..., 0};
    emulated_know_kernel(name, reinterpret_cast<const void *>(kernel), emulated_call<P...>::run,
                         bytes, (int)sizeof...(P));
}

#endif
