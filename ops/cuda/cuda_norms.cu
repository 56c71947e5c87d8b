/* layernorm, rmsnorm (without mean and bias), and their gradients. If a row allows packs of 16
   bytes and is short enough, it is read once and stays in registers, those of a warp or, if it is
   longer, those of a block. Otherwise a block reads the row several times. Sums are f32 and
   computed after the mean was subtracted, so that rows far from zero keep their precision. */
#include "ops/cuda/each.cuh"

enum { PACKS = 4, THREADS = 256 }; /* maximum number of packs per thread; threads per block */

/* A row's mean, the part of the mean that rounding to f32 lost, and 1 / deviation. If MEAN is
   false, the mean is 0. All threads get the result. */
struct moments {
    float mean, rest, inverse;

    __device__ __forceinline__ float normal(float x) const { return (x - mean - rest) * inverse; }
};

template <typename T, bool MEAN>
static __device__ moments moments_of(const T *x, int64_t n, float eps, float *space) {
    float sum = 0, squares = 0, rest = 0;
    if (MEAN) {
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) sum += syn_to_float(x[i]);
        sum = syn_block_sum(sum, space) / (float)n;
    }
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        const float d = syn_to_float(x[i]) - sum;
        rest += d;
        squares += d * d;
    }
    squares = syn_block_sum(squares, space) / (float)n;
    if (!MEAN) return {0.0f, 0.0f, 1.0f / sqrtf(squares + eps)};
    rest = syn_block_sum(rest, space) / (float)n;
    return {sum, rest, 1.0f / sqrtf(fmaxf(squares - rest * rest, 0.0f) + eps)};
}

/* Sum over the GROUP threads that share a row: a warp or a block. */
template <int GROUP> static __device__ __forceinline__ float group_sum(float x, float *space) {
    return GROUP == SYN_WARP ? syn_warp_sum(x) : syn_block_sum(x, space);
}

/* This thread's part of a row: packs that are GROUP packs apart, with zeros after the row's end. */
template <typename T, int GROUP> struct register_row {
    static constexpr int W = syn_wide<T>::n;
    float at[PACKS][W];

    static __device__ __forceinline__ int64_t place(int p) {
        return ((int64_t)p * GROUP + threadIdx.x % GROUP) * W;
    }
    __device__ __forceinline__ void load(const T *x, int64_t n) {
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            const bool there = place(p) < n;
            const syn_pack<T, W> pack = there ? syn_load<T, W>(x + place(p)) : syn_pack<T, W>();
#pragma unroll
            for (int i = 0; i < W; i++) at[p][i] = there ? syn_to_float(pack.at[i]) : 0.0f;
        }
    }
    __device__ __forceinline__ void shift(float by) {
#pragma unroll
        for (int p = 0; p < PACKS; p++)
#pragma unroll
            for (int i = 0; i < W; i++) at[p][i] += by;
    }
    /* Calls f(pack, element within it, value) for each element. */
    template <typename F> __device__ __forceinline__ void each(int64_t n, F f) const {
#pragma unroll
        for (int p = 0; p < PACKS; p++)
            if (place(p) < n) {
#pragma unroll
                for (int i = 0; i < W; i++) f(p, i, at[p][i]);
            }
    }
    /* Stores f's result for each element. */
    template <typename F> __device__ __forceinline__ void store(T *y, int64_t n, F f) const {
#pragma unroll
        for (int p = 0; p < PACKS; p++) {
            syn_pack<T, W> pack;
            if (place(p) >= n) continue;
#pragma unroll
            for (int i = 0; i < W; i++) pack.at[i] = syn_from_float<T>(f(p, i, at[p][i]));
            syn_store(y + place(p), pack);
        }
    }
};

template <typename T, bool MEAN, int GROUP>
static __device__ __forceinline__ moments moments_of(const register_row<T, GROUP> &x, int64_t n,
                                                     float eps, float *space) {
    float sum = 0, squares = 0, rest = 0;
    if (MEAN) {
        x.each(n, [&](int, int, float v) { sum += v; });
        sum = group_sum<GROUP>(sum, space) / (float)n;
    }
    x.each(n, [&](int, int, float v) {
        const float d = v - sum;
        rest += d;
        squares += d * d;
    });
    squares = group_sum<GROUP>(squares, space) / (float)n;
    if (!MEAN) return {0.0f, 0.0f, 1.0f / sqrtf(squares + eps)};
    rest = group_sum<GROUP>(rest, space) / (float)n;
    return {sum, rest, 1.0f / sqrtf(fmaxf(squares - rest * rest, 0.0f) + eps)};
}

/* The first row of this group of threads. The distance to the group's next row is the number of
   groups. */
template <int GROUP> static __device__ __forceinline__ int64_t first_row() {
    return (int64_t)blockIdx.x * (THREADS / GROUP) + threadIdx.x / GROUP;
}

template <typename T, bool MEAN, int GROUP>
static __global__ void __launch_bounds__(THREADS)
    held_norm_kernel(const T *x, const T *weight, const T *bias, T *y, const syn_walk<1> walk,
                     int64_t rows, int64_t n, float eps, float offset) {
    __shared__ float space[SYN_WARP];
    register_row<T, GROUP> in, w, b;
    w.load(weight, n);
    if (!MEAN) w.shift(offset);
    if (MEAN) b.load(bias, n);
    for (int64_t row = first_row<GROUP>(); row < rows;
         row += (int64_t)gridDim.x * (THREADS / GROUP)) {
        int64_t at[1];
        syn_walk_to(walk, row, at);
        in.load(x + at[0], n);
        const moments m = moments_of<T, MEAN, GROUP>(in, n, eps, space);
        in.store(y + row * n, n, [&](int p, int i, float v) {
            return m.normal(v) * w.at[p][i] + (MEAN ? b.at[p][i] : 0.0f);
        });
    }
}

template <typename T, bool MEAN>
static __global__ void norm_kernel(const T *x, const T *weight, const T *bias, T *y,
                                   const syn_walk<1> walk, int64_t rows, int64_t n, float eps,
                                   float offset) {
    __shared__ float space[SYN_WARP];
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        int64_t at[1];
        syn_walk_to(walk, row, at);
        const T *in = x + at[0];
        const moments m = moments_of<T, MEAN>(in, n, eps, space);
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            float v = m.normal(syn_to_float(in[i])) * (syn_to_float(weight[i]) + offset);
            if (MEAN) v += syn_to_float(bias[i]);
            y[row * n + i] = syn_from_float<T>(v);
        }
    }
}

/* Whether all rows of n elements, and the pointers in `data`, are aligned to 16 bytes. */
template <typename T, int N>
static bool packs_fit(const syn_walk<N> &walk, const T *const (&data)[4], int64_t n) {
    constexpr int wide = syn_wide<T>::n;
    bool packs = n % wide == 0;
    for (int k = 0; k < 4; k++)
        packs = packs && (!data[k] || reinterpret_cast<uintptr_t>(data[k]) % 16 == 0);
    for (int k = 0; k < N; k++)
        for (int d = 0; d < walk.rank; d++)
            packs = packs && (walk.dims[d] == 1 || walk.strides[k][d] % wide == 0);
    return packs;
}

/* Number of threads that hold a row in registers; 0: the row is too long. */
template <typename T> static int group_of(int64_t n) {
    const int64_t each = PACKS * syn_wide<T>::n;
    return n <= SYN_WARP * each ? (int)SYN_WARP : n <= THREADS * each ? (int)THREADS : 0;
}

/* Number of blocks of the kernels that hold rows in registers. It is limited, so that each block
   loads the weights once for several rows. */
static unsigned held_blocks(const syn_call *c, int64_t rows, int group) {
    enum { BLOCKS = 16 }; /* blocks per multiprocessor */
    const int64_t blocks = (rows + THREADS / group - 1) / (THREADS / group);
    const int64_t most = (int64_t)syn__cuda_of(c)->sms * BLOCKS;
    return (unsigned)(blocks < most ? blocks : most);
}

template <typename T, bool MEAN> static void launch_norm(const syn_call *c) {
    const syn_spec *shape = &c->in[0].spec;
    const int64_t n = c->in[1].spec.dims[0];
    syn_walk<1> walk;
    const int64_t rows = syn_walk_rows(&walk, shape, {&c->in[0]});
    const T *x = static_cast<const T *>(c->in[0].data);
    const T *weight = static_cast<const T *>(c->in[1].data);
    const T *bias = MEAN ? static_cast<const T *>(c->in[2].data) : NULL;
    T *y = static_cast<T *>(c->out[0].data);
    const T *const all[4] = {x, weight, bias, y};
    const cudaStream_t stream = syn__cuda_of(c)->stream;
    const float eps = (float)c->attr[0].f, offset = MEAN ? 0.0f : (float)c->attr[1].f;
    const int group = packs_fit(walk, all, n) ? group_of<T>(n) : 0;
    if (group == SYN_WARP)
        SYN_LAUNCH((held_norm_kernel<T, MEAN, SYN_WARP>), held_blocks(c, rows, SYN_WARP), THREADS,
                   0, stream, x, weight, bias, y, walk, rows, n, eps, offset);
    else if (group == THREADS)
        SYN_LAUNCH((held_norm_kernel<T, MEAN, THREADS>), held_blocks(c, rows, THREADS), THREADS, 0,
                   stream, x, weight, bias, y, walk, rows, n, eps, offset);
    else
        SYN_LAUNCH((norm_kernel<T, MEAN>), syn_blocks(rows, 1, 1), syn_row_threads(n), 0, stream, x,
                   weight, bias, y, walk, rows, n, eps, offset);
}

template <bool MEAN> static syn_status norm_cuda(syn_call *c) {
    SYN_WITH_FLOAT(c->in[0].spec.dtype, T, (launch_norm<T, MEAN>(c)));
    return syn__launched(c);
}

/* ---- gradients ---- */

/* Computes dx of each row, and the row's moments for the column sums; see row_layernorm_grad in
   ops/rows_scalar.c. */
template <typename T, bool MEAN>
static __global__ void norm_grad_kernel(const T *x, const T *weight, const T *dy, T *dx,
                                        moments *of_row, const syn_walk<2> walk, int64_t rows,
                                        int64_t n, float eps, float offset) {
    __shared__ float space[SYN_WARP];
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        int64_t at[2];
        syn_walk_to(walk, row, at);
        const T *in = x + at[0], *d = dy + at[1];
        const moments m = moments_of<T, MEAN>(in, n, eps, space);
        float g = 0, gx = 0;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            const float one = syn_to_float(d[i]) * (syn_to_float(weight[i]) + offset);
            g += one;
            gx += one * m.normal(syn_to_float(in[i]));
        }
        g = MEAN ? syn_block_sum(g, space) / (float)n : 0.0f;
        gx = syn_block_sum(gx, space) / (float)n;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            const float h = m.normal(syn_to_float(in[i]));
            const float one = syn_to_float(d[i]) * (syn_to_float(weight[i]) + offset);
            dx[row * n + i] = syn_from_float<T>((one - g - h * gx) * m.inverse);
        }
        if (threadIdx.x == 0) of_row[row] = m;
    }
}

template <typename T, bool MEAN, int GROUP>
static __global__ void __launch_bounds__(THREADS)
    held_norm_grad_kernel(const T *x, const T *weight, const T *dy, T *dx, moments *of_row,
                          const syn_walk<2> walk, int64_t rows, int64_t n, float eps,
                          float offset) {
    __shared__ float space[SYN_WARP];
    register_row<T, GROUP> in, d, w;
    w.load(weight, n);
    if (!MEAN) w.shift(offset);
    for (int64_t row = first_row<GROUP>(); row < rows;
         row += (int64_t)gridDim.x * (THREADS / GROUP)) {
        int64_t at[2];
        syn_walk_to(walk, row, at);
        in.load(x + at[0], n);
        d.load(dy + at[1], n);
        const moments m = moments_of<T, MEAN, GROUP>(in, n, eps, space);
        float g = 0, gx = 0;
        in.each(n, [&](int p, int i, float v) {
            const float one = d.at[p][i] * w.at[p][i];
            g += one;
            gx += one * m.normal(v);
        });
        g = MEAN ? group_sum<GROUP>(g, space) / (float)n : 0.0f;
        gx = group_sum<GROUP>(gx, space) / (float)n;
        in.store(dx + row * n, n, [&](int p, int i, float v) {
            return (d.at[p][i] * w.at[p][i] - g - m.normal(v) * gx) * m.inverse;
        });
        if (threadIdx.x % GROUP == 0) of_row[row] = m;
    }
}

/* For column sums: TILE threads along the columns, LINES rows at a time, and WIDE columns per
   thread if packs are possible. */
enum { TILE = 32, LINES = 8, WIDE = 4 };

/* Each block computes the sums of a tile of columns, W per thread, over a piece of the rows.
   sums[piece] has dweight, then dbias. */
template <typename T, int W>
static __global__ void columns_kernel(const T *x, const T *dy, const moments *of_row, float *sums,
                                      const syn_walk<2> walk, int64_t rows, int64_t piece,
                                      int64_t n) {
    __shared__ float shared[2][LINES][TILE][W];
    const int lane = (int)threadIdx.x % TILE, line = (int)threadIdx.x / TILE;
    const int64_t column = ((int64_t)blockIdx.x * TILE + lane) * W;
    const int64_t first = (int64_t)blockIdx.y * piece;
    const int64_t end = first + piece < rows ? first + piece : rows;
    float dweight[W] = {}, dbias[W] = {};
#pragma unroll 4
    for (int64_t row = first + line; column < n && row < end; row += LINES) {
        int64_t at[2];
        syn_walk_to(walk, row, at);
        const moments m = of_row[row];
        const syn_pack<T, W> d = syn_load<T, W>(dy + at[1] + column),
                             v = syn_load<T, W>(x + at[0] + column);
#pragma unroll
        for (int i = 0; i < W; i++) {
            const float one = syn_to_float(d.at[i]);
            dweight[i] += one * m.normal(syn_to_float(v.at[i]));
            dbias[i] += one;
        }
    }
#pragma unroll
    for (int i = 0; i < W; i++) {
        shared[0][line][lane][i] = dweight[i];
        shared[1][line][lane][i] = dbias[i];
    }
    __syncthreads();
    if (line > 1 || column >= n) return;
    for (int i = 0; i < W; i++) {
        float sum = 0;
        for (int k = 0; k < LINES; k++) sum += shared[line][k][lane][i];
        sums[((int64_t)blockIdx.y * 2 + line) * n + column + i] = sum;
    }
}

/* Adds the sums of all pieces in order. */
static __global__ void pieces_kernel(const float *sums, float *dweight, float *dbias,
                                     int64_t pieces, int64_t n) {
    const int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float *to = blockIdx.y ? dbias : dweight;
    if (column >= n || !to) return;
    float sum = 0;
#pragma unroll 8
    for (int64_t i = 0; i < pieces; i++) sum += sums[(2 * i + blockIdx.y) * n + column];
    to[column] = sum;
}

template <typename T, bool MEAN> static syn_status launch_norm_grad(const syn_call *c) {
    const syn__cuda_at *d = syn__cuda_of(c);
    const int64_t n = c->in[1].spec.dims[0];
    syn_walk<2> walk;
    const int64_t rows = syn_walk_rows(&walk, &c->in[0].spec, {&c->in[0], &c->in[2]});
    const T *x = static_cast<const T *>(c->in[0].data), *dy = static_cast<const T *>(c->in[2].data);
    const T *weight = static_cast<const T *>(c->in[1].data);
    T *dx = static_cast<T *>(c->out[0].data);
    const T *const all[4] = {x, weight, dy, dx};
    const float eps = (float)c->attr[0].f, offset = MEAN ? 0.0f : (float)c->attr[1].f;
    if (n == 0) return SYN_OK;
    const bool packs = packs_fit(walk, all, n);
    const int64_t width = packs ? TILE * WIDE : TILE;
    const int64_t tiles = (n + width - 1) / width, most = (rows + LINES - 1) / LINES;
    int64_t pieces = 4 * d->sms / tiles + 1; /* about four blocks per multiprocessor */
    if (pieces > most) pieces = most;
    if (pieces < 1) pieces = 1;
    const int64_t piece = (rows + pieces - 1) / pieces;
    const size_t moments_bytes = ((size_t)rows * sizeof(moments) + 255) / 256 * 256;
    void *scratch;
    SYN_TRY(
        syn__cuda_scratch(c, moments_bytes + (size_t)(2 * pieces * n) * sizeof(float), &scratch));
    moments *of_row = static_cast<moments *>(scratch);
    float *sums = reinterpret_cast<float *>(static_cast<char *>(scratch) + moments_bytes);
    const int group = packs ? group_of<T>(n) : 0;
    if (group == SYN_WARP)
        SYN_LAUNCH((held_norm_grad_kernel<T, MEAN, SYN_WARP>), held_blocks(c, rows, SYN_WARP),
                   THREADS, 0, d->stream, x, weight, dy, dx, of_row, walk, rows, n, eps, offset);
    else if (group == THREADS)
        SYN_LAUNCH((held_norm_grad_kernel<T, MEAN, THREADS>), held_blocks(c, rows, THREADS),
                   THREADS, 0, d->stream, x, weight, dy, dx, of_row, walk, rows, n, eps, offset);
    else
        SYN_LAUNCH((norm_grad_kernel<T, MEAN>), syn_blocks(rows, 1, 1), syn_row_threads(n), 0,
                   d->stream, x, weight, dy, dx, of_row, walk, rows, n, eps, offset);
    const dim3 grid((unsigned)tiles, (unsigned)pieces);
    if (packs)
        SYN_LAUNCH((columns_kernel<T, WIDE>), grid, TILE * LINES, 0, d->stream, x, dy, of_row, sums,
                   walk, rows, piece, n);
    else
        SYN_LAUNCH((columns_kernel<T, 1>), grid, TILE * LINES, 0, d->stream, x, dy, of_row, sums,
                   walk, rows, piece, n);
    SYN_LAUNCH(pieces_kernel, dim3(syn_blocks(n, 256, 1), MEAN ? 2 : 1), 256, 0, d->stream, sums,
               static_cast<float *>(c->out[1].data),
               MEAN ? static_cast<float *>(c->out[2].data) : NULL, pieces, n);
    return SYN_OK;
}

template <bool MEAN> static syn_status norm_grad_cuda(syn_call *c) {
    SYN_WITH_FLOAT(c->in[0].spec.dtype, T, SYN_TRY((launch_norm_grad<T, MEAN>(c))));
    return syn__launched(c);
}

const syn__cuda_row syn__cuda_norms[] = {{SYN_OP_LAYERNORM, norm_cuda<true>},
                                         {SYN_OP_RMSNORM, norm_cuda<false>},
                                         {SYN_OP_LAYERNORM_GRAD, norm_grad_cuda<true>},
                                         {SYN_OP_RMSNORM_GRAD, norm_grad_cuda<false>},
                                         {SYN_OP_NONE, NULL}};
