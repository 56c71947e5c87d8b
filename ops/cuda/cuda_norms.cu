/* layernorm, rmsnorm (which has no mean and no bias), and their gradients. A block goes through a
   row; sums are f32, of what is left after the mean was taken off, so that rows far from zero lose
   nothing. */
#include "ops/cuda/each.cuh"

/* Mean, what rounding left of it, and 1 / deviation of a row; without a mean (MEAN false) it is 0.
   All threads get them. */
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

template <typename T, bool MEAN>
static __global__ void norm_kernel(const T *x, const T *weight, const T *bias, T *y,
                                   const syn_walk<1> walk, int64_t rows, int64_t n, float eps) {
    __shared__ float space[SYN_WARP];
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        int64_t at[1];
        syn_walk_to(walk, row, at);
        const T *in = x + at[0];
        const moments m = moments_of<T, MEAN>(in, n, eps, space);
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            float v = m.normal(syn_to_float(in[i])) * syn_to_float(weight[i]);
            if (MEAN) v += syn_to_float(bias[i]);
            y[row * n + i] = syn_from_float<T>(v);
        }
    }
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
    SYN_LAUNCH((norm_kernel<T, MEAN>), syn_blocks(rows, 1, 1), syn_row_threads(n), 0,
               syn__cuda_of(c)->stream, x, weight, bias, y, walk, rows, n, (float)c->attr[0].f);
}

template <bool MEAN> static syn_status norm_cuda(syn_call *c) {
    SYN_WITH_FLOAT(c->in[0].spec.dtype, T, (launch_norm<T, MEAN>(c)));
    return syn__launched(c);
}

/* ---- gradients ---- */

/* dx of each row, and the row's moments for the columns' sums: see row_layernorm_grad in
   ops/rows_scalar.c. */
template <typename T, bool MEAN>
static __global__ void norm_grad_kernel(const T *x, const T *weight, const T *dy, T *dx,
                                        moments *of_row, const syn_walk<2> walk, int64_t rows,
                                        int64_t n, float eps) {
    __shared__ float space[SYN_WARP];
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        int64_t at[2];
        syn_walk_to(walk, row, at);
        const T *in = x + at[0], *d = dy + at[1];
        const moments m = moments_of<T, MEAN>(in, n, eps, space);
        float g = 0, gx = 0;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            const float one = syn_to_float(d[i]) * syn_to_float(weight[i]);
            g += one;
            gx += one * m.normal(syn_to_float(in[i]));
        }
        g = MEAN ? syn_block_sum(g, space) / (float)n : 0.0f;
        gx = syn_block_sum(gx, space) / (float)n;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            const float h = m.normal(syn_to_float(in[i]));
            const float one = syn_to_float(d[i]) * syn_to_float(weight[i]);
            dx[row * n + i] = syn_from_float<T>((one - g - h * gx) * m.inverse);
        }
        if (threadIdx.x == 0) of_row[row] = m;
    }
}

enum { TILE = 32, LINES = 8 }; /* columns, and rows at a time, of a block of the columns' sums */

/* Of a tile of columns and a piece of the rows: sums[piece] holds dweight, then dbias. */
template <typename T>
static __global__ void columns_kernel(const T *x, const T *dy, const moments *of_row, float *sums,
                                      const syn_walk<2> walk, int64_t rows, int64_t piece,
                                      int64_t n) {
    __shared__ float shared[2][LINES][TILE];
    const int lane = (int)threadIdx.x % TILE, line = (int)threadIdx.x / TILE;
    const int64_t column = (int64_t)blockIdx.x * TILE + lane;
    const int64_t first = (int64_t)blockIdx.y * piece;
    const int64_t end = first + piece < rows ? first + piece : rows;
    float dweight = 0, dbias = 0;
    for (int64_t row = first + line; column < n && row < end; row += LINES) {
        int64_t at[2];
        syn_walk_to(walk, row, at);
        const moments m = of_row[row];
        const float d = syn_to_float(dy[at[1] + column]);
        dweight += d * m.normal(syn_to_float(x[at[0] + column]));
        dbias += d;
    }
    shared[0][line][lane] = dweight;
    shared[1][line][lane] = dbias;
    __syncthreads();
    if (line > 1 || column >= n) return;
    float sum = 0;
    for (int i = 0; i < LINES; i++) sum += shared[line][i][lane];
    sums[((int64_t)blockIdx.y * 2 + line) * n + column] = sum;
}

/* The sums of all pieces, in order. */
static __global__ void pieces_kernel(const float *sums, float *dweight, float *dbias,
                                     int64_t pieces, int64_t n) {
    const int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float *to = blockIdx.y ? dbias : dweight;
    if (column >= n || !to) return;
    float sum = 0;
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
    if (n == 0) return SYN_OK;
    const int64_t tiles = (n + TILE - 1) / TILE, most = (rows + LINES - 1) / LINES;
    int64_t pieces = 4 * d->sms / tiles + 1; /* about four blocks a multiprocessor */
    if (pieces > most) pieces = most;
    if (pieces < 1) pieces = 1;
    const int64_t piece = (rows + pieces - 1) / pieces;
    const size_t moments_bytes = ((size_t)rows * sizeof(moments) + 255) / 256 * 256;
    void *scratch;
    SYN_TRY(
        syn__cuda_scratch(c, moments_bytes + (size_t)(2 * pieces * n) * sizeof(float), &scratch));
    moments *of_row = static_cast<moments *>(scratch);
    float *sums = reinterpret_cast<float *>(static_cast<char *>(scratch) + moments_bytes);
    SYN_LAUNCH((norm_grad_kernel<T, MEAN>), syn_blocks(rows, 1, 1), syn_row_threads(n), 0,
               d->stream, x, weight, dy, static_cast<T *>(c->out[0].data), of_row, walk, rows, n,
               (float)c->attr[0].f);
    SYN_LAUNCH(columns_kernel<T>, dim3((unsigned)tiles, (unsigned)pieces), TILE * LINES, 0,
               d->stream, x, dy, of_row, sums, walk, rows, piece, n);
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
