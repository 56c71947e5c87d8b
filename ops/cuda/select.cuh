/* Building blocks for token selection: keys for sorting, and the split of long rows into parts, so
   that even a single row keeps many blocks busy. */
#ifndef OPS_CUDA_SELECT_CUH
#define OPS_CUDA_SELECT_CUH

#include <string.h>

#include "ops/cuda/walk.cuh"

enum {
    SYN_SELECT_THREADS = 256, /* maximum number of threads of a block */
    SYN_PART = 2048,          /* elements that a block scans */
    SYN_RUN = 1024,           /* elements that a block sorts */
    SYN_EACH_OF_PART = SYN_PART / SYN_SELECT_THREADS,
    SYN_EACH_OF_RUN = 8
};

/* Number of threads of a block for n elements, with `each` elements per thread: a power of 2. Short
   rows use few threads. */
static inline unsigned syn_select_threads(int64_t n, int each) {
    unsigned threads = 1;
    while (threads < SYN_SELECT_THREADS && (int64_t)threads * each < n) threads *= 2;
    return threads;
}

/* The rows of `x` along its last dimension, which is dense: n elements each. */
struct syn_select_rows {
    syn_walk<1> at;
    int64_t rows, n;
    int64_t parts, runs; /* number of parts and runs per row */
};

static inline syn_select_rows syn_number_rows_of(const syn_operand *x) {
    syn_select_rows r = {};
    const int last = x->spec.rank - 1;
    for (int d = 0; d < last; d++) {
        const int64_t stride[1] = {x->strides[d]};
        syn_walk_add(&r.at, x->spec.dims[d], stride);
    }
    r.rows = syn_walk_done(&r.at);
    r.n = x->spec.dims[last];
    r.parts = (r.n + SYN_PART - 1) / SYN_PART;
    r.runs = (r.n + SYN_RUN - 1) / SYN_RUN;
    return r;
}

template <typename T>
static __device__ __forceinline__ const T *syn_row_at(const T *x, const syn_select_rows &r,
                                                      int64_t row) {
    int64_t at[1];
    syn_walk_to(r.at, row, at);
    return x + at[0];
}

/* A key that orders elements by descending value, then by ascending index. 0 and -0 are equal; NaN
   comes last. Keys are never 0 and differ within a row. */
static __device__ __forceinline__ uint64_t syn_key(float x, int64_t index) {
    const float positive = x + 0.0f; /* converts -0 to 0 */
    uint32_t bits;
    memcpy(&bits, &positive, sizeof bits);
    const uint32_t order = x != x ? 0 : bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)order << 32 | (uint32_t)~index;
}
static __device__ __forceinline__ int32_t syn_key_index(uint64_t key) {
    return (int32_t) ~(uint32_t)key;
}
static __device__ __forceinline__ float syn_key_number(uint64_t key) {
    const uint32_t order = (uint32_t)(key >> 32);
    const uint32_t bits = order >> 31 ? order & 0x7fffffffu : ~order;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Synchronizes a warp. If the block is smaller than a warp, synchronizes the block. */
static __device__ __forceinline__ void syn_sync_warp() {
    if (blockDim.x < SYN_WARP) __syncthreads();
    else __syncwarp();
}

/* Combines x of all threads in a fixed order; all threads get the result. The number of threads
   must be a power of 2. `space`: shared memory for one T per thread, which may be reused after the
   call. */
template <typename T, typename F>
static __device__ __forceinline__ T syn_join(T x, T *space, F join) {
    const int tid = (int)threadIdx.x, threads = (int)blockDim.x;
    space[tid] = x;
    __syncthreads();
    for (int apart = threads / 2; apart >= SYN_WARP; apart /= 2) {
        if (tid < apart) space[tid] = join(space[tid], space[tid + apart]);
        __syncthreads();
    }
    if (tid < SYN_WARP) /* the last steps need only one warp */
        for (int apart = threads < SYN_WARP ? threads / 2 : SYN_WARP / 2; apart > 0; apart /= 2) {
            if (tid < apart) space[tid] = join(space[tid], space[tid + apart]);
            syn_sync_warp();
        }
    __syncthreads();
    const T all = space[0];
    __syncthreads();
    return all;
}
struct syn_larger {
    __device__ __forceinline__ uint64_t operator()(uint64_t a, uint64_t b) const {
        return a > b ? a : b;
    }
};

/* The largest of n keys that are `step` apart. */
static __device__ __forceinline__ uint64_t syn_largest(const uint64_t *keys, int64_t n,
                                                       int64_t step, uint64_t *space) {
    uint64_t best = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) best = syn_larger()(best, keys[i * step]);
    return syn_join(best, space, syn_larger());
}

/* ---- launches that argmax, top_k and sample share ---- */

/* Computes the largest key of each part of each row: keys (rows, parts). */
void syn__launch_best(const syn_call *c, const syn_select_rows &r, uint64_t *keys);
/* Sorts each run of each row in descending order and stores its best `keep` keys: keys (rows, runs,
   keep), with 0 after the row's end. */
void syn__launch_runs(const syn_call *c, const syn_select_rows &r, int64_t keep, uint64_t *keys);
/* Computes the index of the best of `parts`: out (rows). If the first element is NaN, its index. */
void syn__launch_argmax(const syn_call *c, const syn_select_rows &r, const uint64_t *parts,
                        int32_t *out);
syn_status syn__sample_cuda(syn_call *c);

#endif
