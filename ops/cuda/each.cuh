/* Functions that launch elementwise ops, and helpers for ops on rows. */
#ifndef OPS_CUDA_EACH_CUH
#define OPS_CUDA_EACH_CUH

#include "ops/cuda/walk.cuh"

enum { SYN_EACH_THREADS = 256 };

/* ---- elements ---- */

/* Pointers of OUTS outputs and INS inputs, all of element type T and of one shape. */
template <typename T, int OUTS, int INS> struct syn_each_pointers {
    T *out[OUTS];
    const T *in[INS];
    syn_walk<INS> walk; /* walk over the inputs; outputs are dense */
};

/* Calls f(in, out, element number) for every element; loads and stores W elements at a time. */
template <typename T, int OUTS, int INS, int W, typename F>
static __global__ void syn_each_kernel(const syn_each_pointers<T, OUTS, INS> p, int64_t n, F f) {
    const int64_t step = (int64_t)gridDim.x * SYN_EACH_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * SYN_EACH_THREADS + threadIdx.x; i < n; i += step) {
        int64_t at[INS];
        syn_pack<T, W> x[INS], y[OUTS];
        syn_walk_to(p.walk, i, at);
#pragma unroll
        for (int k = 0; k < INS; k++) x[k] = syn_load<T, W>(p.in[k] + at[k]);
#pragma unroll
        for (int w = 0; w < W; w++) {
            float in[INS], out[OUTS];
#pragma unroll
            for (int k = 0; k < INS; k++) in[k] = syn_to_float(x[k].at[w]);
            f(in, out, i * W + w);
#pragma unroll
            for (int k = 0; k < OUTS; k++) y[k].at[w] = syn_from_float<T>(out[k]);
        }
#pragma unroll
        for (int k = 0; k < OUTS; k++) syn_store(p.out[k] + i * W, y[k]);
    }
}

/* Sets up the pointers of a call. If 16-byte packs are possible and `packs` allows them, returns
   true and sets *count to the number of packs. Otherwise sets *count to the number of elements. */
template <typename T, int OUTS, int INS>
static bool syn_each_of(const syn_call *c, bool packs, syn_each_pointers<T, OUTS, INS> *out,
                        int64_t *count) {
    syn_each_pointers<T, OUTS, INS> p = {};
    const syn_spec *shape = &c->in[0].spec;
    constexpr int W = syn_wide<T>::n;
    for (int d = 0; d < shape->rank; d++) {
        int64_t strides[INS];
        for (int k = 0; k < INS; k++) strides[k] = c->in[k].strides[d];
        syn_walk_add(&p.walk, shape->dims[d], strides);
    }
    int64_t n = syn_walk_done(&p.walk);
    for (int k = 0; k < INS; k++) {
        p.in[k] = static_cast<const T *>(c->in[k].data);
        packs = packs && p.walk.strides[k][p.walk.rank - 1] == 1 &&
                syn_walk_packs(p.walk, k, p.in[k], (int)sizeof(T), W);
    }
    for (int k = 0; k < OUTS; k++) p.out[k] = static_cast<T *>(c->out[k].data);
    if (packs) {
        syn_walk_pack(&p.walk, W);
        n /= W;
    }
    *out = p;
    *count = n;
    return packs;
}

template <typename T, int OUTS, int INS, typename F>
static void syn_launch_each(const syn_call *c, F f) {
    constexpr int W = syn_wide<T>::n;
    syn_each_pointers<T, OUTS, INS> p;
    int64_t n;
    const bool packs = syn_each_of(c, true, &p, &n);
    const cudaStream_t stream = syn__cuda_of(c)->stream;
    const unsigned blocks = syn_blocks(n, SYN_EACH_THREADS, 1);
    if (packs)
        SYN_LAUNCH((syn_each_kernel<T, OUTS, INS, W, F>), blocks, SYN_EACH_THREADS, 0, stream, p, n,
                   f);
    else
        SYN_LAUNCH((syn_each_kernel<T, OUTS, INS, 1, F>), blocks, SYN_EACH_THREADS, 0, stream, p, n,
                   f);
}

/* Applies f to all elements of the inputs, which have the dtype of the first. */
template <int OUTS, int INS, typename F> static syn_status syn_each(const syn_call *c, F f) {
    SYN_WITH_FLOAT(c->in[0].spec.dtype, T, (syn_launch_each<T, OUTS, INS, F>(c, f)));
    return syn__launched(c);
}

/* ---- rows: the last dimension, which must be dense ---- */

/* A walk over the first elements of all rows of N operands of one shape. */
template <int N>
static inline int64_t syn_walk_rows(syn_walk<N> *walk, const syn_spec *shape,
                                    const syn_operand *const (&operands)[N]) {
    *walk = syn_walk<N>();
    for (int d = 0; d + 1 < shape->rank; d++) {
        int64_t strides[N];
        for (int k = 0; k < N; k++) strides[k] = operands[k]->strides[d];
        syn_walk_add(walk, shape->dims[d], strides);
    }
    return syn_walk_done(walk);
}

/* Number of threads, in whole warps, of a block that processes a row of n elements. */
static inline unsigned syn_row_threads(int64_t n) {
    unsigned threads = SYN_WARP;
    while (threads < 512 && threads * 4 < n) threads *= 2;
    return threads;
}

#endif
