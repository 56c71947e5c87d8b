/* Stable radix sort of values by keys, least significant digit first (Knuth, vol. 3, 5.2.5). Each
   pass sorts by one digit, with three kernels: the first counts the digits of each block's
   elements, the second computes the prefix sums of the counts in one block, and the third moves the
   elements. */
#ifndef OPS_CUDA_SORT_CUH
#define OPS_CUDA_SORT_CUH

#include "ops/cuda/device.cuh"

enum {
    SYN_SORT_BITS = 4,
    SYN_SORT_DIGITS = 1 << SYN_SORT_BITS,
    SYN_SORT_THREADS = 128,
    SYN_SORT_EACH = 8, /* adjacent elements per thread */
    SYN_SORT_TILE = SYN_SORT_THREADS * SYN_SORT_EACH
};

struct syn_sort {
    uint32_t *keys[2], *values[2]; /* arrays of n elements; [0] has the data to sort and the sorted
                                      data, [1] is a buffer */
    uint32_t *counts;              /* (digits, tiles) */
    int64_t n, tiles;
};

static inline size_t syn_sort_bytes(int64_t n) {
    const size_t tiles = ((size_t)n + SYN_SORT_TILE - 1) / SYN_SORT_TILE;
    return (4 * (size_t)n + SYN_SORT_DIGITS * tiles) * sizeof(uint32_t);
}

/* Uses `memory` of syn_sort_bytes(n) bytes. */
static inline syn_sort syn_sort_in(void *memory, int64_t n) {
    syn_sort s;
    uint32_t *at = static_cast<uint32_t *>(memory);
    for (int i = 0; i < 2; i++) {
        s.keys[i] = at + 2 * i * n;
        s.values[i] = at + (2 * i + 1) * n;
    }
    s.counts = at + 4 * n;
    s.n = n;
    s.tiles = (n + SYN_SORT_TILE - 1) / SYN_SORT_TILE;
    return s;
}

static __device__ __forceinline__ uint32_t syn_sort_digit(uint32_t key, int shift) {
    return key >> shift & (SYN_SORT_DIGITS - 1);
}

/* Counts the digits of the thread's elements: seen[digit][thread]. */
static __device__ __forceinline__ void syn_sort_see(const syn_sort &s, int shift,
                                                    uint16_t (*seen)[SYN_SORT_THREADS]) {
    const int64_t first = (int64_t)blockIdx.x * SYN_SORT_TILE + threadIdx.x * SYN_SORT_EACH;
    for (int d = 0; d < SYN_SORT_DIGITS; d++) seen[d][threadIdx.x] = 0;
    for (int64_t i = first; i < first + SYN_SORT_EACH && i < s.n; i++)
        seen[syn_sort_digit(s.keys[0][i], shift)][threadIdx.x]++;
}

static __global__ void syn_sort_count(const syn_sort s, int shift) {
    __shared__ uint16_t seen[SYN_SORT_DIGITS][SYN_SORT_THREADS];
    syn_sort_see(s, shift, seen);
    __syncthreads();
    if (threadIdx.x >= SYN_SORT_DIGITS) return;
    uint32_t sum = 0;
    for (int t = 0; t < SYN_SORT_THREADS; t++) sum += seen[threadIdx.x][t];
    s.counts[threadIdx.x * s.tiles + blockIdx.x] = sum;
}

/* Replaces each count by the sum of the counts before it. Runs in one block. */
static __global__ void syn_sort_sum(const syn_sort s) {
    __shared__ uint32_t sums[256];
    const int64_t n = SYN_SORT_DIGITS * s.tiles, each = (n + 255) / 256;
    const int64_t first = threadIdx.x * each, end = first + each < n ? first + each : n;
    uint32_t sum = 0;
    for (int64_t i = first; i < end; i++) sum += s.counts[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    sum = 0;
    for (unsigned t = 0; t < threadIdx.x; t++) sum += sums[t];
    for (int64_t i = first; i < end; i++) {
        const uint32_t count = s.counts[i];
        s.counts[i] = sum;
        sum += count;
    }
}

static __global__ void syn_sort_place(const syn_sort s, int shift) {
    __shared__ uint16_t seen[SYN_SORT_DIGITS][SYN_SORT_THREADS];
    syn_sort_see(s, shift, seen);
    __syncthreads();
    if (threadIdx.x < SYN_SORT_DIGITS) { /* exclusive prefix sums over the threads */
        uint16_t sum = 0;
        for (int t = 0; t < SYN_SORT_THREADS; t++) {
            const uint16_t count = seen[threadIdx.x][t];
            seen[threadIdx.x][t] = sum;
            sum = (uint16_t)(sum + count);
        }
    }
    __syncthreads();
    const int64_t first = (int64_t)blockIdx.x * SYN_SORT_TILE + threadIdx.x * SYN_SORT_EACH;
    for (int64_t i = first; i < first + SYN_SORT_EACH && i < s.n; i++) {
        const uint32_t key = s.keys[0][i], digit = syn_sort_digit(key, shift);
        const uint32_t to = s.counts[digit * s.tiles + blockIdx.x] + seen[digit][threadIdx.x]++;
        s.keys[1][to] = key;
        s.values[1][to] = s.values[0][i];
    }
}

/* Sorts. No key exceeds `largest`. Afterwards keys[0] and values[0] are sorted. */
static inline void syn_sort_launch(syn_sort *s, uint32_t largest, cudaStream_t stream) {
    for (int shift = 0; shift < 32 && largest >> shift; shift += SYN_SORT_BITS) {
        SYN_LAUNCH(syn_sort_count, (unsigned)s->tiles, SYN_SORT_THREADS, 0, stream, *s, shift);
        SYN_LAUNCH(syn_sort_sum, 1, 256, 0, stream, *s);
        SYN_LAUNCH(syn_sort_place, (unsigned)s->tiles, SYN_SORT_THREADS, 0, stream, *s, shift);
        for (int i = 0; i < 2; i++) {
            uint32_t **pair = i ? s->values : s->keys, *first = pair[0];
            pair[0] = pair[1];
            pair[1] = first;
        }
    }
}

#endif
