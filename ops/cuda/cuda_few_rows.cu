/* Products of few rows. The time to read w dominates, so w is read once, in packs of 16 bytes, by
   as many warps as possible. Partial sums are added in a fixed order. */
#include "ops/cuda/cuda_products.h"
#include "ops/cuda/device.cuh"

enum { MAX_ROWS = 4, THREADS = 256, WARPS = THREADS / SYN_WARP };

struct few_rows {
    int64_t n, k, ldx, ldw;
    int m;
    /* share, for w (n, k): warps per column of the result. across, for w (k, n): threads along the
       columns. */
    int share, across;
    int64_t rounds;                /* w (n, k): number of packs that every thread of a column has */
    int64_t groups, pieces, chunk; /* w (k, n): number of groups of columns, of pieces of k, and of
                                      rows per piece */
};

/* Loads V elements, aligned to their size up to 16 bytes, as f32. */
template <int V, typename T>
static __device__ __forceinline__ void load_floats(const T *from, float (&to)[V]) {
    constexpr int n = V < syn_wide<T>::n ? V : syn_wide<T>::n;
#pragma unroll
    for (int i = 0; i < V; i += n) {
        const syn_pack<T, n> pack = syn_load<T, n>(from + i);
#pragma unroll
        for (int k = 0; k < n; k++) to[i + k] = syn_to_float(pack.at[k]);
    }
}

template <typename X>
static __device__ __forceinline__ X with_bias(float sum, const X *bias, int64_t column) {
    return syn_from_float<X>(bias ? sum + syn_to_float(bias[column]) : sum);
}

/* Offset of row r of x. Rows after the last one repeat it; their results are not used. */
static __device__ __forceinline__ int64_t row_of(const few_rows &s, int r) {
    return (r < s.m ? r : s.m - 1) * s.ldx;
}

/* Adds V elements of w, from i on along k, to the sums of one column. */
template <int V, typename X, typename W, int M>
static __device__ __forceinline__ void add_along_k(const X *x, const W *w, int64_t i,
                                                   const few_rows &s, float (&sums)[M]) {
    float a[V], b[V];
    load_floats(w + i, b);
#pragma unroll
    for (int r = 0; r < M; r++) {
        load_floats(x + row_of(s, r) + i, a);
#pragma unroll
        for (int v = 0; v < V; v++) sums[r] = fmaf(a[v], b[v], sums[r]);
    }
}

/* Adds row i of w to the sums of V columns. */
template <int V, typename X, typename W, int M>
static __device__ __forceinline__ void add_along_n(const X *x, const W *w, int64_t i,
                                                   const few_rows &s, float (&sums)[M][V]) {
    float b[V];
    load_floats(w + i * s.ldw, b);
#pragma unroll
    for (int r = 0; r < M; r++) {
        const float a = syn_to_float(x[row_of(s, r) + i]);
#pragma unroll
        for (int v = 0; v < V; v++) sums[r][v] = fmaf(a, b[v], sums[r][v]);
    }
}

/* For w (n, k): each warp computes sums along k for one column. */
template <typename X, typename W, int M, int V>
static __global__ void along_k_kernel(const X *x, const W *w, const X *bias, X *y,
                                      const few_rows s) {
    __shared__ float parts[M][WARPS];
    const int tid = (int)threadIdx.x, lane = tid % SYN_WARP, warp = tid / SYN_WARP;
    const int columns = WARPS / s.share, part = warp % s.share;
    for (int64_t first = (int64_t)blockIdx.x * columns; first < s.n;
         first += (int64_t)gridDim.x * columns) {
        const int64_t column = first + warp / s.share;
        float sums[M] = {};
        if (column < s.n) {
            const W *own = w + column * s.ldw;
            const int64_t step = s.share * SYN_WARP * V;
            int64_t i = (part * SYN_WARP + lane) * V;
#pragma unroll 4
            for (int64_t n = s.rounds; n > 0; n--, i += step) add_along_k<V>(x, own, i, s, sums);
            if (i < s.k) add_along_k<V>(x, own, i, s, sums);
        }
#pragma unroll
        for (int r = 0; r < M; r++) {
            sums[r] = syn_warp_sum(sums[r]);
            if (lane == 0) parts[r][warp] = sums[r];
        }
        __syncthreads();
        const int r = tid / columns, i = tid % columns;
        if (r < s.m && first + i < s.n) {
            float sum = 0;
            for (int k = 0; k < s.share; k++) sum += parts[r][i * s.share + k];
            y[r * s.n + first + i] = with_bias(sum, bias, first + i);
        }
        __syncthreads();
    }
}

/* For w (k, n): each thread computes the sums of V columns over every down-th row of w. If k is
   split into pieces, the sums go to the array `pieces` (pieces, m, n), otherwise to y. */
template <typename X, typename W, int M, int V>
static __global__ void along_n_kernel(const X *x, const W *w, const X *bias, X *y, float *pieces,
                                      const few_rows s) {
    __shared__ float shared[V][THREADS];
    const int tid = (int)threadIdx.x, down = THREADS / s.across;
    const int64_t group = blockIdx.x % s.groups, piece = blockIdx.x / s.groups;
    const int64_t column = (group * s.across + tid % s.across) * V;
    const int64_t from = piece * s.chunk, end = from + s.chunk < s.k ? from + s.chunk : s.k;
    float sums[M][V] = {};
    if (column < s.n) {
        int64_t i = from + tid / s.across;
#pragma unroll 4
        for (int64_t n = (end - from) / down; n > 0; n--, i += down)
            add_along_n<V>(x, w + column, i, s, sums);
        if (i < end) add_along_n<V>(x, w + column, i, s, sums);
    }
#pragma unroll
    for (int r = 0; r < M; r++) {
        if (r >= s.m) break;
#pragma unroll
        for (int v = 0; v < V; v++) shared[v][tid] = sums[r][v];
        __syncthreads();
        for (int apart = THREADS / 2; apart >= s.across; apart /= 2) {
            if (tid < apart)
#pragma unroll
                for (int v = 0; v < V; v++) shared[v][tid] += shared[v][tid + apart];
            __syncthreads();
        }
        if (tid < s.across && column < s.n)
#pragma unroll
            for (int v = 0; v < V; v++) {
                const float sum = shared[v][tid];
                if (s.pieces > 1) pieces[(piece * s.m + r) * s.n + column + v] = sum;
                else y[r * s.n + column + v] = with_bias(sum, bias, column + v);
            }
        __syncthreads();
    }
}

template <typename X>
static __global__ void join_kernel(const float *pieces, const X *bias, X *y, const few_rows s) {
    const int64_t all = s.m * s.n, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += step) {
        float sum = 0;
        for (int64_t piece = 0; piece < s.pieces; piece++) sum += pieces[piece * all + i];
        y[i] = with_bias(sum, bias, i % s.n);
    }
}

/* ---- on the host ---- */

/* Chooses how many warps share a column, so that all multiprocessors are busy if k is long
   enough. */
template <typename X, typename W, int M, int V>
static syn_status along_k(const syn_call *c, const syn__product *p, few_rows s) {
    const int64_t warps = (int64_t)syn__cuda_of(c)->sms * 32;
    s.share = 1;
    while (s.share < WARPS && s.n * s.share < warps && s.k > (int64_t)s.share * SYN_WARP * V)
        s.share *= 2;
    s.rounds = s.k / (s.share * SYN_WARP * V);
    SYN_LAUNCH((along_k_kernel<X, W, M, V>), syn_blocks(s.n, WARPS / s.share, 1), THREADS, 0,
               syn__cuda_of(c)->stream, static_cast<const X *>(p->x), static_cast<const W *>(p->w),
               static_cast<const X *>(p->bias), static_cast<X *>(p->out), s);
    return syn__launched(c);
}

/* Chooses how k and the columns are divided. Adjacent threads read lines of 128 bytes. k is split
   so that there are about 4 blocks per multiprocessor, with at least 4 rows of w per thread. */
template <typename X, typename W, int M, int V>
static syn_status along_n(const syn_call *c, const syn__product *p, few_rows s) {
    const cudaStream_t stream = syn__cuda_of(c)->stream;
    s.across = V > 1 ? 8 : 32;
    const int64_t least = 4 * (THREADS / s.across), columns = (int64_t)s.across * V;
    s.groups = (s.n + columns - 1) / columns;
    s.pieces = (4 * (int64_t)syn__cuda_of(c)->sms + s.groups - 1) / s.groups;
    if (s.pieces > (s.k + least - 1) / least) s.pieces = (s.k + least - 1) / least;
    s.chunk = (s.k + s.pieces - 1) / s.pieces;
    void *pieces = NULL;
    if (s.pieces > 1)
        SYN_TRY(syn__cuda_scratch(c, (size_t)(s.pieces * s.m * s.n) * sizeof(float), &pieces));
    float *sums = static_cast<float *>(pieces);
    const X *bias = static_cast<const X *>(p->bias);
    X *y = static_cast<X *>(p->out);
    SYN_LAUNCH((along_n_kernel<X, W, M, V>), syn_blocks(s.groups * s.pieces, 1, 1), THREADS, 0,
               stream, static_cast<const X *>(p->x), static_cast<const W *>(p->w), bias, y, sums,
               s);
    if (s.pieces > 1)
        SYN_LAUNCH(join_kernel<X>, syn_blocks(s.m * s.n, THREADS, 1), THREADS, 0, stream, sums,
                   bias, y, s);
    return syn__launched(c);
}

/* Whether rows of `length` elements, `ld` apart, allow aligned packs of n elements. */
static bool has_packs(const void *data, int64_t length, int64_t ld, int64_t rows, size_t bytes,
                      int n) {
    return length % n == 0 && (rows == 1 || (uint64_t)ld * bytes % 16 == 0) &&
           reinterpret_cast<uintptr_t>(data) % 16 == 0;
}

template <typename X, typename W, int M>
static syn_status run(const syn_call *c, const syn__product *p, const few_rows &s) {
    constexpr int wide = syn_wide<W>::n;
    if (!p->transpose_w)
        return has_packs(p->w, s.n, s.ldw, s.k, sizeof(W), wide) ? along_n<X, W, M, wide>(c, p, s)
                                                                 : along_n<X, W, M, 1>(c, p, s);
    return has_packs(p->w, s.k, s.ldw, s.n, sizeof(W), wide) &&
                   has_packs(p->x, s.k, s.ldx, s.m, sizeof(X), wide)
               ? along_k<X, W, M, wide>(c, p, s)
               : along_k<X, W, M, 1>(c, p, s);
}

template <typename X, typename W>
static syn_status run_rows(const syn_call *c, const syn__product *p) {
    few_rows s = {};
    s.n = p->n;
    s.k = p->k;
    s.ldx = p->ldx;
    s.ldw = p->ldw;
    s.m = (int)p->m;
    return s.m == 1 ? run<X, W, 1>(c, p, s) : run<X, W, MAX_ROWS>(c, p, s);
}

bool syn__product_has_few_rows(const syn__product *p) {
    return p->m <= MAX_ROWS && p->k > 0 && p->batch == 1 && !p->transpose_x && !p->add &&
           p->out_dtype == p->x_dtype;
}

syn_status syn__product_few_rows(const syn_call *c, const syn__product *p) {
    if (p->x_dtype == SYN_F16) return run_rows<__half, __half>(c, p);
    if (p->x_dtype == SYN_BF16) return run_rows<__nv_bfloat16, __nv_bfloat16>(c, p);
    SYN_WITH_FLOAT(p->w_dtype, W, return run_rows<float, W>(c, p));
    return SYN_OK;
}
