/* What choosing among the numbers of a row is made of: keys that order them, and rows cut into
   parts so that one row keeps many blocks busy. */
#ifndef OPS_CUDA_SELECT_CUH
#define OPS_CUDA_SELECT_CUH

#include <string.h>

#include "ops/cuda/walk.cuh"

enum {
    SYN_SELECT_THREADS = 256, /* at most */
    SYN_PART = 2048,          /* numbers that a block looks through */
    SYN_RUN = 1024,           /* and that it sorts */
    SYN_EACH_OF_PART = SYN_PART / SYN_SELECT_THREADS,
    SYN_EACH_OF_RUN = 8
};

/* Threads of a block for n numbers, `each` a thread: a power of 2. What is short takes few. */
static inline unsigned syn_select_threads(int64_t n, int each) {
    unsigned threads = 1;
    while (threads < SYN_SELECT_THREADS && (int64_t)threads * each < n) threads *= 2;
    return threads;
}

/* Rows of n numbers: those of `x` along its last dimension, which is dense. */
struct syn_number_rows {
    syn_walk<1> at;
    int64_t rows, n;
    int64_t parts, runs; /* of a row */
};

static inline syn_number_rows syn_number_rows_of(const syn_operand *x) {
    syn_number_rows r = {};
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
static __device__ __forceinline__ const T *syn_row_at(const T *x, const syn_number_rows &r,
                                                      int64_t row) {
    int64_t at[1];
    syn_walk_to(r.at, row, at);
    return x + at[0];
}

/* A larger number has the larger key, of equals (0 and -0 are) the one that comes first; NaN is
   below all. No key is 0, and no two of a row are the same. */
static __device__ __forceinline__ uint64_t syn_key(float x, int64_t index) {
    const float positive = x + 0.0f; /* -0 becomes 0 */
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

/* For threads of a warp that wait for each other alone; in a block that is less than one, for all.
 */
static __device__ __forceinline__ void syn_sync_warp() {
    if (blockDim.x < SYN_WARP) __syncthreads();
    else __syncwarp();
}

/* x of all threads, a power of 2, joined in a fixed order; all get it. `space`: as many T in shared
   memory, which may be used again after the call. */
template <typename T, typename F>
static __device__ __forceinline__ T syn_join(T x, T *space, F join) {
    const int tid = (int)threadIdx.x, threads = (int)blockDim.x;
    space[tid] = x;
    __syncthreads();
    for (int apart = threads / 2; apart >= SYN_WARP; apart /= 2) {
        if (tid < apart) space[tid] = join(space[tid], space[tid + apart]);
        __syncthreads();
    }
    if (tid < SYN_WARP) /* the rest is one warp's */
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

/* The largest of n keys that lie `step` apart. */
static __device__ __forceinline__ uint64_t syn_largest(const uint64_t *keys, int64_t n,
                                                       int64_t step, uint64_t *space) {
    uint64_t best = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) best = syn_larger()(best, keys[i * step]);
    return syn_join(best, space, syn_larger());
}

/* ---- launches that argmax, top_k and sample share ---- */

/* The largest key of each part of each row: keys (rows, parts). */
void syn__launch_best(const syn_call *c, const syn_number_rows &r, uint64_t *keys);
/* Each run of each row in descending order, its best `keep`: keys (rows, runs, keep), 0 behind the
   row's end. */
void syn__launch_runs(const syn_call *c, const syn_number_rows &r, int64_t keep, uint64_t *keys);
/* The index of the best of `parts`: out (rows). The first number, if it is NaN. */
void syn__launch_argmax(const syn_call *c, const syn_number_rows &r, const uint64_t *parts,
                        int32_t *out);
syn_status syn__sample_cuda(syn_call *c);

#endif
