/* Building blocks of kernels. All launches and all uses of dynamic shared memory go through one
   macro each, so that the same sources compile as C++ for tests/emulation. */
#ifndef OPS_CUDA_DEVICE_CUH
#define OPS_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <string.h>

#include "ops/cuda/cuda.h"

/* SYN_LAUNCH((kernel<float, 4>), grid, block, bytes of dynamic shared memory, stream, arguments).
   Put a template name that contains a comma in parentheses. A grid of 0 blocks is not launched. */
#define SYN_LAUNCH(kernel, grid, block, shared, stream, ...) \
    syn_launch(#kernel, kernel, (grid), (block), (shared), (stream), __VA_ARGS__)
#ifdef SYN_EMULATED
#define SYN_DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(emulated_dynamic_shared())
#else
#define SYN_DYNAMIC_SHARED(type, name)                          \
    extern __shared__ __align__(16) unsigned char syn_shared[]; \
    type *name = reinterpret_cast<type *>(syn_shared)
#endif

template <typename... P, typename... A>
static inline void syn_launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                              size_t shared, cudaStream_t stream, A &&...arguments) {
    if (!grid.x || !grid.y || !grid.z) return;
#ifdef SYN_EMULATED
    emulated_know(name, kernel);
#endif
    [&](P... parameters) {
        void *pointers[] = {static_cast<void *>(&parameters)...};
        const syn__launch launch = {
            name, reinterpret_cast<const void *>(kernel), grid, block, shared, stream, pointers};
        syn__launch_now(&launch);
    }(static_cast<P>(arguments)...);
}

enum { SYN_WARP = 32 };
#define SYN_ALL_LANES 0xffffffffu

/* ---- elements: computed in f32, rounded once ---- */

static __device__ __forceinline__ float syn_to_float(float x) {
    return x;
}
static __device__ __forceinline__ float syn_to_float(__half x) {
    return __half2float(x);
}
static __device__ __forceinline__ float syn_to_float(__nv_bfloat16 x) {
    return __bfloat162float(x);
}
template <typename T> static __device__ __forceinline__ T syn_from_float(float x);
template <> __device__ __forceinline__ float syn_from_float<float>(float x) {
    return x;
}
template <> __device__ __forceinline__ __half syn_from_float<__half>(float x) {
    return __float2half_rn(x);
}
template <> __device__ __forceinline__ __nv_bfloat16 syn_from_float<__nv_bfloat16>(float x) {
    return __float2bfloat16_rn(x);
}

/* N elements that are loaded and stored with one instruction, aligned to their size in bytes, at
   most 16. */
template <typename T, int N> struct alignas(N * sizeof(T)) syn_pack { T at[N]; };
/* Number of elements in 16 bytes. */
template <typename T> struct syn_wide { static constexpr int n = 16 / (int)sizeof(T); };
template <typename T, int N>
static __device__ __forceinline__ syn_pack<T, N> syn_load(const T *from) {
#ifdef SYN_EMULATED
    emulated_align(from, sizeof(syn_pack<T, N>));
#endif
    return *reinterpret_cast<const syn_pack<T, N> *>(from);
}
/* Stores a pack. nvcc may split consecutive stores of packs into stores of elements, so packs of 16
   and 8 bytes are stored with inline assembly. */
template <typename T, int N>
static __device__ __forceinline__ void syn_store(T *to, const syn_pack<T, N> &pack) {
#ifndef SYN_EMULATED
    if (sizeof pack == 16) {
        uint4 bits;
        memcpy(&bits, &pack, sizeof pack);
        asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(bits.x), "r"(bits.y),
                     "r"(bits.z), "r"(bits.w)
                     : "memory");
        return;
    }
    if (sizeof pack == 8) {
        uint2 bits;
        memcpy(&bits, &pack, sizeof pack);
        asm volatile("st.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(bits.x), "r"(bits.y) : "memory");
        return;
    }
#else
    emulated_align(to, sizeof pack);
#endif
    *reinterpret_cast<syn_pack<T, N> *>(to) = pack;
}

/* ---- reductions over a warp and a block, in a fixed order, so that results are reproducible
   ---- */

template <typename F> static __device__ __forceinline__ float syn_warp_reduce(float x, F join) {
#pragma unroll
    for (int lane = SYN_WARP / 2; lane > 0; lane /= 2)
        x = join(x, __shfl_xor_sync(SYN_ALL_LANES, x, lane));
    return x;
}
struct syn_add_two {
    __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};
struct syn_max_two {
    __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
static __device__ __forceinline__ float syn_warp_sum(float x) {
    return syn_warp_reduce(x, syn_add_two());
}
static __device__ __forceinline__ float syn_warp_max(float x) {
    return syn_warp_reduce(x, syn_max_two());
}
/* All threads get the result. Requires one-dimensional blocks of whole warps, and all threads must
   call it. `space`: shared memory for 32 floats, which may be reused after the call. */
template <typename F>
static __device__ __forceinline__ float syn_block_reduce(float x, float none, float *space,
                                                         F join) {
    const int lane = (int)threadIdx.x % SYN_WARP, warp = (int)threadIdx.x / SYN_WARP;
    const int warps = (int)blockDim.x / SYN_WARP;
    x = syn_warp_reduce(x, join);
    if (warps == 1) return x;
    if (lane == 0) space[warp] = x;
    __syncthreads();
    x = syn_warp_reduce(lane < warps ? space[lane] : none, join);
    __syncthreads();
    return x;
}
static __device__ __forceinline__ float syn_block_sum(float x, float *space) {
    return syn_block_reduce(x, 0.0f, space, syn_add_two());
}
static __device__ __forceinline__ float syn_block_max(float x, float *space) {
    return syn_block_reduce(x, -INFINITY, space, syn_max_two());
}

/* ---- faults ---- */

static __device__ __forceinline__ void syn_fault(syn__fault *fault, uint32_t node, int kind,
                                                 int64_t value, int64_t limit) {
    if (atomicCAS(&fault->kind, 0, kind) != 0) return;
    fault->node = node;
    fault->value = value;
    fault->limit = limit;
}

/* ---- grids ---- */

/* Number of blocks of `threads` threads for n elements, `per_thread` each; at most 2^31 - 1,
   because kernels loop over larger grids. */
static inline unsigned syn_blocks(int64_t n, int64_t threads, int64_t per_thread) {
    const int64_t per_block = threads * per_thread;
    const int64_t blocks = n / per_block + (n % per_block != 0);
    return (unsigned)(blocks < INT32_MAX ? blocks : INT32_MAX);
}

#endif
