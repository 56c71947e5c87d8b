/* One launch over a list of dense tensors: each tensor is split into pieces, and each block
   processes one piece. */
#ifndef OPS_CUDA_LISTS_CUH
#define OPS_CUDA_LISTS_CUH

#include "ops/cuda/walk.cuh"

/* first[t]: number of pieces before tensor t; first[n]: number of all pieces. This struct and two
   pointers per tensor fit in the 4 KiB that kernel parameters may have. */
struct syn_pieces {
    int64_t first[SYN_MAX_PARAMS + 1];
    int n;
};

/* Splits tensors o[0 .. n-1]. */
static inline syn_pieces syn_pieces_of(const syn_operand *o, int n, int64_t piece) {
    syn_pieces p = {};
    p.n = n;
    for (int t = 0; t < n; t++)
        p.first[t + 1] = p.first[t] + (syn_elems(&o[t].spec) + piece - 1) / piece;
    return p;
}

/* The tensor that piece i belongs to. */
static __device__ __forceinline__ int syn_piece_tensor(const syn_pieces &p, int64_t i) {
    int low = 0, high = p.n; /* first[low] <= i < first[high] */
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (p.first[middle] <= i) low = middle;
        else high = middle;
    }
    return low;
}

#endif
