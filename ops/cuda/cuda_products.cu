/* Matrix products: linear, matmul, matmul_add. */
#include "ops/cuda/cuda_products.h"

#include "ops/cuda/walk.cuh"

/* ---- a plain kernel, for products that cuBLASLt does not support ---- */

/* A block computes TILE * TILE results, a thread TILE / DOWN of them. */
enum { TILE = 32, DOWN = 8 };

/* Element (row, column) of op(x) or op(w) is at row * down + column * right. */
struct plain_product {
    int64_t m, n, k, batch, x_down, x_right, w_down, w_right, x_step, w_step, out_step;
    bool add;
};

template <typename T>
static __device__ __forceinline__ float element(const T *x, int64_t row, int64_t rows,
                                                int64_t column, int64_t columns, int64_t down,
                                                int64_t right) {
    return row < rows && column < columns ? syn_to_float(x[row * down + column * right]) : 0.0f;
}

template <typename T, typename O>
static __global__ void plain_kernel(const T *x, const T *w, const O *bias, O *out,
                                    const plain_product p) {
    __shared__ float a[TILE][TILE + 1], b[TILE][TILE + 1];
    const int right = (int)threadIdx.x % TILE, down = (int)threadIdx.x / TILE;
    const int64_t wide = (p.n + TILE - 1) / TILE, high = (p.m + TILE - 1) / TILE;
    for (int64_t tile = blockIdx.x; tile < wide * high * p.batch; tile += gridDim.x) {
        const int64_t column = tile % wide * TILE, row = tile / wide % high * TILE;
        const int64_t entry = tile / wide / high;
        float sums[TILE / DOWN] = {};
        for (int64_t k = 0; k < p.k; k += TILE) {
            for (int i = down; i < TILE; i += DOWN) {
                a[i][right] = element(x + entry * p.x_step, row + i, p.m, k + right, p.k, p.x_down,
                                      p.x_right);
                b[i][right] = element(w + entry * p.w_step, k + i, p.k, column + right, p.n,
                                      p.w_down, p.w_right);
            }
            __syncthreads();
            for (int i = 0; i < TILE; i++)
#pragma unroll
                for (int r = 0; r < TILE / DOWN; r++)
                    sums[r] = fmaf(a[down + r * DOWN][i], b[i][right], sums[r]);
            __syncthreads();
        }
        if (column + right >= p.n) continue;
        for (int r = 0; r < TILE / DOWN; r++) {
            const int64_t at = row + down + r * DOWN;
            if (at >= p.m) break;
            O *to = out + entry * p.out_step + at * p.n + column + right;
            float sum = sums[r];
            if (bias) sum += syn_to_float(bias[column + right]);
            if (p.add) sum += syn_to_float(*to);
            *to = syn_from_float<O>(sum);
        }
    }
}

template <typename T, typename O>
static void launch_plain(const syn_call *c, const syn__product *p) {
    plain_product s = {};
    s.m = p->m;
    s.n = p->n;
    s.k = p->k;
    s.batch = p->batch;
    s.x_down = p->transpose_x ? 1 : p->ldx;
    s.x_right = p->transpose_x ? p->ldx : 1;
    s.w_down = p->transpose_w ? 1 : p->ldw;
    s.w_right = p->transpose_w ? p->ldw : 1;
    s.x_step = p->x_step;
    s.w_step = p->w_step;
    s.out_step = p->out_step;
    s.add = p->add;
    const int64_t tiles = (p->n + TILE - 1) / TILE * ((p->m + TILE - 1) / TILE) * p->batch;
    SYN_LAUNCH((plain_kernel<T, O>), syn_blocks(tiles, 1, 1), TILE * DOWN, 0,
               syn__cuda_of(c)->stream, static_cast<const T *>(p->x), static_cast<const T *>(p->w),
               static_cast<const O *>(p->bias), static_cast<O *>(p->out), s);
}

static void plain(const syn_call *c, const syn__product *p) {
    SYN_WITH_FLOAT(p->x_dtype, T, if (p->out_dtype == SYN_F32) launch_plain<T, float>(c, p);
                   else launch_plain<T, T>(c, p));
}

/* ---- 16-bit w and f32 x ---- */

template <typename T>
static __global__ void widen_kernel(const T *from, int64_t ld, float *to, int64_t rows,
                                    int64_t columns) {
    const int64_t n = rows * columns, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        to[i] = syn_to_float(from[ld == columns ? i : i / columns * ld + i % columns]);
}

/* Converts w to dense f32 in scratch memory. */
static syn_status widen(const syn_call *c, syn__product *p) {
    const int64_t rows = p->transpose_w ? p->n : p->k, columns = p->transpose_w ? p->k : p->n;
    void *wide;
    SYN_TRY(syn__cuda_scratch(c, (size_t)(rows * columns) * sizeof(float), &wide));
    SYN_WITH_FLOAT(p->w_dtype, T,
                   SYN_LAUNCH(widen_kernel<T>, syn_blocks(rows * columns, 256, 4), 256, 0,
                              syn__cuda_of(c)->stream, static_cast<const T *>(p->w), p->ldw,
                              static_cast<float *>(wide), rows, columns));
    p->w = wide;
    p->w_dtype = SYN_F32;
    p->ldw = columns;
    return SYN_OK;
}

/* ---- the ops ---- */

/* largest batch of one cuBLASLt call */
enum { MAX_ENTRIES = 65535 };

static syn_status product(const syn_call *c, syn__product p) {
    bool done = false;
    if (syn__product_has_few_rows(&p)) return syn__product_few_rows(c, &p);
    if (p.x_dtype != p.w_dtype) SYN_TRY(widen(c, &p));
    SYN_TRY(syn__product_cublas(c, &p, &done));
    if (!done) plain(c, &p);
    return syn__launched(c);
}

/* The row stride of a matrix, which is the last two dimensions; the row length if there is only one
   row. */
static int64_t leading(const syn_operand *o) {
    const int last = o->spec.rank - 1;
    return o->spec.dims[last - 1] > 1 ? o->strides[last - 1] : o->spec.dims[last];
}

static syn_status linear_cuda(syn_call *c) {
    const syn_spec *x = &c->in[0].spec;
    syn__product p = {};
    p.k = x->dims[x->rank - 1];
    p.n = c->out[0].spec.dims[x->rank - 1];
    p.m = p.n > 0 ? syn_elems(&c->out[0].spec) / p.n : 0;
    if (p.m == 0) return SYN_OK;
    p.batch = 1;
    p.x = c->in[0].data;
    p.w = c->in[1].data;
    p.bias = c->n_in == 3 ? c->in[2].data : NULL;
    p.out = c->out[0].data;
    p.ldx = p.k;
    for (int d = 0; d < x->rank - 1; d++) /* rows have a constant stride */
        if (x->dims[d] > 1) p.ldx = c->in[0].strides[d];
    p.ldw = leading(&c->in[1]);
    p.x_dtype = p.out_dtype = (syn_dtype)x->dtype;
    p.w_dtype = (syn_dtype)c->in[1].spec.dtype;
    p.transpose_w = c->attr[0].i != 0;
    return product(c, p);
}

/* A walk over the leading dimensions of x, w and out, merged where possible. */
static syn_walk<3> entries_of(const syn_operand *in, const syn_operand *out) {
    syn_walk<3> walk = {};
    for (int d = 0; d < out->spec.rank - 2; d++) {
        const int64_t strides[3] = {in[0].strides[d], in[1].strides[d], out->strides[d]};
        syn_walk_add(&walk, out->spec.dims[d], strides);
    }
    syn_walk_done(&walk);
    return walk;
}

/* Removes the longest dimension from the walk. Returns its length, and sets `steps` to its
   strides. */
static int64_t take_longest(syn_walk<3> *walk, int64_t (&steps)[3]) {
    int longest = 0;
    for (int d = 1; d < walk->rank; d++)
        if (walk->dims[d] > walk->dims[longest]) longest = d;
    const int64_t n = walk->dims[longest];
    for (int k = 0; k < 3; k++) steps[k] = walk->strides[k][longest];
    walk->dims[longest] = 1;
    return n;
}

static void *ahead(const void *data, int64_t elements, syn_dtype dtype) {
    return static_cast<char *>(const_cast<void *>(data)) +
           elements * (int64_t)(dtype == SYN_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* Multiplies in[0] by in[1]. Overwrites the output, or adds to it. */
static syn_status multiply(const syn_call *c, const syn_operand *in, bool add) {
    const syn_operand *out = &c->out[0];
    const int r = out->spec.rank;
    syn__product p = {};
    p.transpose_x = c->attr[0].i != 0;
    p.transpose_w = c->attr[1].i != 0;
    p.m = out->spec.dims[r - 2];
    p.n = out->spec.dims[r - 1];
    p.k = in[0].spec.dims[r - (p.transpose_x ? 2 : 1)];
    p.ldx = leading(&in[0]);
    p.ldw = leading(&in[1]);
    p.x_dtype = p.w_dtype = (syn_dtype)in[0].spec.dtype;
    p.out_dtype = (syn_dtype)out->spec.dtype;
    p.add = add;
    if (syn_elems(&out->spec) == 0) return SYN_OK;
    syn_walk<3> outer = entries_of(in, out);
    int64_t steps[3], at[3], others = 1;
    const int64_t n = take_longest(&outer, steps);
    p.x_step = steps[0];
    p.w_step = steps[1];
    p.out_step = steps[2];
    for (int d = 0; d < outer.rank; d++) others *= outer.dims[d];
    for (int64_t i = 0; i < others; i++)
        for (int64_t first = 0; first < n; first += MAX_ENTRIES) {
            int64_t rest = i;
            for (int k = 0; k < 3; k++) at[k] = first * steps[k];
            for (int d = outer.rank - 1; d >= 0; rest /= outer.dims[d--])
                for (int k = 0; k < 3; k++) at[k] += rest % outer.dims[d] * outer.strides[k][d];
            p.batch = n - first < MAX_ENTRIES ? n - first : (int64_t)MAX_ENTRIES;
            p.x = ahead(in[0].data, at[0], p.x_dtype);
            p.w = ahead(in[1].data, at[1], p.w_dtype);
            p.out = ahead(out->data, at[2], p.out_dtype);
            SYN_TRY(product(c, p));
        }
    return SYN_OK;
}

static syn_status matmul_cuda(syn_call *c) {
    return multiply(c, c->in, false);
}

static syn_status matmul_add_cuda(syn_call *c) {
    return multiply(c, &c->in[1], true);
}

const syn__cuda_row syn__cuda_products[] = {{SYN_OP_LINEAR, linear_cuda},
                                            {SYN_OP_MATMUL, matmul_cuda},
                                            {SYN_OP_MATMUL_ADD, matmul_add_cuda},
                                            {SYN_OP_NONE, NULL}};
