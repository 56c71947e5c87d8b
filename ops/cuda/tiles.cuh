/* The two matrix products of attention, for a tile of own rows and a tile of other rows in shared
   memory: scores (own, other) = own other', and sums (own, depth) += weights (own, other) other. A
   thread has the scores of R rows and C columns, and the sums of the same rows and A columns. LANES
   adjacent lanes share a row. There are two versions, one with ordinary instructions and one with
   tensor cores. If the depth is too large for a tile, a deep tile has pieces of DEPTH elements of
   the rows: its scores are sums over all pieces, and its sums belong to one piece (syn_deeper in
   attention.cuh). */
#ifndef OPS_CUDA_TILES_CUH
#define OPS_CUDA_TILES_CUH

#include "ops/cuda/mma.cuh"

/* f32 version: TY x TX threads with R rows and C columns each. Elements of any dtype are converted
   to f32 when they are loaded. */
template <int D, int TY, int TX, int ROWS, int COLUMNS, bool IS_DEEP = false>
struct syn_plain_tile {
    typedef float element;
    static constexpr bool DEEP = IS_DEEP;
    static constexpr int DEPTH = D, THREADS = TY * TX, OWN = TY * ROWS, OTHER = TX * COLUMNS;
    static constexpr int R = ROWS, C = COLUMNS, A = D / TX, LANES = TX;
    static constexpr int ROW = D + 4; /* padded so that 8 rows use different banks */
    static constexpr int STAGES = 1, WEIGHTS_ROW = OTHER + 4, WEIGHTS = OWN * WEIGHTS_ROW;
    static constexpr int WIDE = A % 4 == 0 ? 4 : 2; /* adjacent sums per thread */
    static_assert(OTHER % 4 == 0 && THREADS % SYN_WARP == 0, "packs of weights, whole warps");

    static __device__ __forceinline__ int row(int r) { return (int)threadIdx.x / TX + r * TY; }
    static __device__ __forceinline__ int column(int c) { return (int)threadIdx.x % TX + c * TX; }
    static __device__ __forceinline__ int column_of_sum(int n) {
        return n / WIDE * (TX * WIDE) + (int)threadIdx.x % TX * WIDE + n % WIDE;
    }

    template <typename T, int N>
    static __device__ __forceinline__ void put(float *to, const syn_pack<T, N> &pack) {
        static_assert(N % 4 == 0, "packs of four floats");
#pragma unroll
        for (int k = 0; k < N; k += 4) {
            const syn_pack<float, 4> four = {
                {syn_to_float(pack.at[k]), syn_to_float(pack.at[k + 1]),
                 syn_to_float(pack.at[k + 2]), syn_to_float(pack.at[k + 3])}};
            syn_store(to + k, four);
        }
    }
    template <typename T> static __device__ __forceinline__ void fetch(float *to, const T *from) {
        put(to, syn_load<T, syn_wide<T>::n>(from));
    }
    static __device__ __forceinline__ void fetched() {}
    template <int LEFT> static __device__ __forceinline__ void await() {}

    static __device__ __forceinline__ void scores(float (&s)[R][C], const float *own,
                                                  const float *other) {
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int c = 0; c < C; c++) s[r][c] = 0;
#pragma unroll 4
        for (int d = 0; d < D; d += 4) {
            syn_pack<float, 4> y[C];
#pragma unroll
            for (int c = 0; c < C; c++) y[c] = syn_load<float, 4>(other + column(c) * ROW + d);
#pragma unroll
            for (int r = 0; r < R; r++) {
                const syn_pack<float, 4> x = syn_load<float, 4>(own + row(r) * ROW + d);
#pragma unroll
                for (int c = 0; c < C; c++)
#pragma unroll
                    for (int k = 0; k < 4; k++) s[r][c] = fmaf(x.at[k], y[c].at[k], s[r][c]);
            }
        }
    }

    /* Passes weights to the other lanes of a row through `buffer`, WEIGHTS floats of shared
       memory. */
    static __device__ __forceinline__ void add(float (&sums)[R][A], const float (&weights)[R][C],
                                               const float *other, float *buffer) {
        __syncwarp();
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int c = 0; c < C; c++) buffer[row(r) * WEIGHTS_ROW + column(c)] = weights[r][c];
        __syncwarp();
#pragma unroll 1
        for (int i = 0; i < OTHER; i += 4) {
            syn_pack<float, 4> w[R];
#pragma unroll
            for (int r = 0; r < R; r++)
                w[r] = syn_load<float, 4>(buffer + row(r) * WEIGHTS_ROW + i);
#pragma unroll
            for (int k = 0; k < 4; k++)
#pragma unroll
                for (int n = 0; n < A; n += WIDE) {
                    const syn_pack<float, WIDE> x =
                        syn_load<float, WIDE>(other + (i + k) * ROW + column_of_sum(n));
#pragma unroll
                    for (int r = 0; r < R; r++)
#pragma unroll
                        for (int j = 0; j < WIDE; j++)
                            sums[r][n + j] = fmaf(w[r].at[k], x.at[j], sums[r][n + j]);
                }
        }
    }
};

/* 16-bit version: WARPS warps with M times 16 rows each, in the fragments of mma.cuh. Weights are
   rounded to T. */
template <typename T, int D, int WARPS, int M, int N> struct syn_tensor_tile {
    typedef T element;
    static constexpr bool DEEP = false;
    static constexpr int DEPTH = D, THREADS = WARPS * SYN_WARP, OWN = WARPS * M * 16, OTHER = N;
    static constexpr int R = 2 * M, C = N / 4, A = D / 4, LANES = 4;
    static constexpr int ROW = D + 8; /* an odd multiple of 16 bytes: no bank is used twice */
    static constexpr int STAGES = 2, WEIGHTS = 0;
    static_assert(D % 16 == 0 && N % 16 == 0, "whole fragments");

    static __device__ __forceinline__ int lane() { return (int)threadIdx.x % SYN_WARP; }
    static __device__ __forceinline__ int first_row(int m) {
        return ((int)threadIdx.x / SYN_WARP * M + m) * 16;
    }
    static __device__ __forceinline__ int row(int r) {
        return first_row(r / 2) + lane() / 4 + r % 2 * 8;
    }
    static __device__ __forceinline__ int column(int c) {
        return c / 2 * 8 + lane() % 4 * 2 + c % 2;
    }
    static __device__ __forceinline__ int column_of_sum(int n) { return column(n); }

    template <int P> static __device__ __forceinline__ void put(T *to, const syn_pack<T, P> &pack) {
        syn_store(to, pack);
    }
    static __device__ __forceinline__ void fetch(T *to, const T *from) { syn_copy_16(to, from); }
    static __device__ __forceinline__ void fetched() { syn_copy_commit(); }
    template <int LEFT> static __device__ __forceinline__ void await() { syn_copy_wait<LEFT>(); }

    static __device__ __forceinline__ void scores(float (&s)[R][C], const T *own, const T *other) {
        const int half = lane() / 8 % 2 * 8, upper = lane() / 16 * 8, low = lane() % 8;
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int c = 0; c < C; c++) s[r][c] = 0;
#pragma unroll
        for (int d = 0; d < D; d += 16) {
            unsigned a[M][4];
#pragma unroll
            for (int m = 0; m < M; m++)
                syn_load_matrices(a[m], own + (first_row(m) + half + low) * ROW + d + upper);
#pragma unroll
            for (int n = 0; n < N / 16; n++) {
                unsigned b[4];
                syn_load_matrices(b, other + (n * 16 + upper + low) * ROW + d + half);
#pragma unroll
                for (int m = 0; m < M; m++) multiply(s[2 * m], s[2 * m + 1], 4 * n, a[m], b);
            }
        }
    }

    static __device__ __forceinline__ void add(float (&sums)[R][A], const float (&weights)[R][C],
                                               const T *other, float *buffer) {
        const int half = lane() / 8 % 2 * 8, upper = lane() / 16 * 8, low = lane() % 8;
        (void)buffer;
#pragma unroll
        for (int i = 0; i < N / 16; i++) {
            unsigned a[M][4];
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    const float *w = &weights[2 * m + k % 2][4 * i + k / 2 * 2];
                    a[m][k] = syn_two<T>(w[0], w[1]);
                }
#pragma unroll
            for (int n = 0; n < D / 16; n++) {
                unsigned b[4];
                syn_load_transposed(b, other + (i * 16 + half + low) * ROW + n * 16 + upper);
#pragma unroll
                for (int m = 0; m < M; m++) multiply(sums[2 * m], sums[2 * m + 1], 4 * n, a[m], b);
            }
        }
    }

    /* Adds the product with 16 columns, b, to elements n .. n + 3 of rows g (x) and g + 8 (y). */
    template <int W>
    static __device__ __forceinline__ void
    multiply(float (&x)[W], float (&y)[W], int n, const unsigned (&a)[4], const unsigned (&b)[4]) {
        syn_mma<T>(x[n], x[n + 1], y[n], y[n + 1], a, b[0], b[1]);
        syn_mma<T>(x[n + 2], x[n + 3], y[n + 2], y[n + 3], a, b[2], b[3]);
    }
};

/* Reduces over the lanes that share a row. */
template <class Tile, typename F>
static __device__ __forceinline__ float syn_row_reduce(float x, F join) {
#pragma unroll
    for (int lane = Tile::LANES / 2; lane > 0; lane /= 2)
        x = join(x, __shfl_xor_sync(SYN_ALL_LANES, x, lane));
    return x;
}

#endif
