/* Elementwise ops (gelu, tanh, silu, swiglu, scale, dropout, scale_mask, cast) and their
   gradients, and softmax, which works on rows. The formulas are those of ops/rows_scalar.c. */
#include "ops/cuda/each.cuh"
#include "ops/dropout.h"

/* ---- ops that depend on the element's value only ---- */

static __device__ __forceinline__ float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

static __device__ __forceinline__ float silu_slope(float x) {
    x = fminf(fmaxf(x, -100.0f), 100.0f);
    const float s = sigmoid(x);
    return s + x * s * (1.0f - s);
}

/* Returns x if it is NaN, otherwise y. fminf and fmaxf do not preserve NaN. */
static __device__ __forceinline__ float keep_nan(float x, float y) {
    return x == x ? y : x;
}

struct gelu_tanh {
    __device__ void operator()(const float *x, float *y, int64_t) const {
        const float v = *x;
        *y = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
};
struct gelu_erf {
    __device__ void operator()(const float *x, float *y, int64_t) const {
        *y = 0.5f * *x * (1.0f + erff(*x * 0.7071067812f));
    }
};
struct gelu_tanh_grad { /* x, dy */
    __device__ void operator()(const float *in, float *dx, int64_t) const {
        const float v = keep_nan(in[0], fminf(fmaxf(in[0], -16.0f), 16.0f));
        const float t = tanhf(0.7978845608f * (v + 0.044715f * v * v * v));
        const float du = 0.7978845608f * (1.0f + 0.134145f * v * v);
        *dx = in[1] * (0.5f * (1.0f + t) + 0.5f * v * (1.0f - t * t) * du);
    }
};
struct gelu_erf_grad {
    __device__ void operator()(const float *in, float *dx, int64_t) const {
        const float x = in[0];
        *dx = in[1] *
              (0.5f * (1.0f + erff(x * 0.7071067812f)) + x * 0.3989422804f * expf(-0.5f * x * x));
    }
};
struct tanh_one {
    __device__ void operator()(const float *x, float *y, int64_t) const { *y = tanhf(*x); }
};
struct tanh_one_grad { /* y, dy */
    __device__ void operator()(const float *in, float *dx, int64_t) const {
        *dx = in[1] * (1.0f - in[0] * in[0]);
    }
};
struct relu {
    __device__ void operator()(const float *x, float *y, int64_t) const {
        *y = *x < 0.0f ? 0.0f : *x;
    }
};
struct relu_grad { /* y, dy */
    __device__ void operator()(const float *in, float *dx, int64_t) const {
        *dx = in[0] <= 0.0f ? 0.0f : in[1];
    }
};
struct silu {
    __device__ void operator()(const float *x, float *y, int64_t) const { *y = *x * sigmoid(*x); }
};
struct silu_grad {
    __device__ void operator()(const float *in, float *dx, int64_t) const {
        *dx = in[1] * keep_nan(in[0], silu_slope(in[0]));
    }
};
struct swiglu { /* gate, up */
    __device__ void operator()(const float *in, float *y, int64_t) const {
        *y = in[0] * sigmoid(in[0]) * in[1];
    }
};
struct swiglu_grad { /* gate, up, dy -> dgate, dup */
    __device__ void operator()(const float *in, float *out, int64_t) const {
        out[0] = in[2] * in[1] * keep_nan(in[0], silu_slope(in[0]));
        out[1] = in[2] * (in[0] * sigmoid(in[0]));
    }
};
struct swiglu_clamped { /* gate, up */
    float alpha, limit;
    __device__ void operator()(const float *in, float *y, int64_t) const {
        const float g = keep_nan(in[0], fminf(in[0], limit));
        const float u = keep_nan(in[1], fminf(fmaxf(in[1], -limit), limit));
        *y = (u + 1.0f) * (g * sigmoid(alpha * g));
    }
};
struct swiglu_clamped_grad { /* gate, up, dy -> dgate, dup */
    float alpha, limit;
    __device__ void operator()(const float *in, float *out, int64_t) const {
        const float g = keep_nan(in[0], fminf(in[0], limit)), z = alpha * g;
        const float u = keep_nan(in[1], fminf(fmaxf(in[1], -limit), limit));
        out[0] = in[0] > limit ? 0 : in[2] * (u + 1.0f) * keep_nan(z, silu_slope(z));
        out[1] = fabsf(in[1]) > limit ? 0 : in[2] * (g * sigmoid(z));
    }
};
struct scale {
    float factor;
    __device__ void operator()(const float *x, float *y, int64_t) const { *y = *x * factor; }
};

static syn_status gelu_cuda(syn_call *c) {
    return c->attr[0].i ? syn_each<1, 1>(c, gelu_tanh()) : syn_each<1, 1>(c, gelu_erf());
}
static syn_status gelu_grad_cuda(syn_call *c) {
    return c->attr[0].i ? syn_each<1, 2>(c, gelu_tanh_grad()) : syn_each<1, 2>(c, gelu_erf_grad());
}
static syn_status tanh_cuda(syn_call *c) {
    return syn_each<1, 1>(c, tanh_one());
}
static syn_status tanh_grad_cuda(syn_call *c) {
    return syn_each<1, 2>(c, tanh_one_grad());
}
static syn_status relu_cuda(syn_call *c) {
    return syn_each<1, 1>(c, relu());
}
static syn_status relu_grad_cuda(syn_call *c) {
    return syn_each<1, 2>(c, relu_grad());
}
static syn_status silu_cuda(syn_call *c) {
    return syn_each<1, 1>(c, silu());
}
static syn_status silu_grad_cuda(syn_call *c) {
    return syn_each<1, 2>(c, silu_grad());
}
static syn_status swiglu_cuda(syn_call *c) {
    if (c->n_attr == 0) return syn_each<1, 2>(c, swiglu());
    const swiglu_clamped f = {(float)c->attr[0].f, (float)c->attr[1].f};
    return syn_each<1, 2>(c, f);
}
static syn_status swiglu_grad_cuda(syn_call *c) {
    if (c->n_attr == 0) return syn_each<2, 3>(c, swiglu_grad());
    const swiglu_clamped_grad f = {(float)c->attr[0].f, (float)c->attr[1].f};
    return syn_each<2, 3>(c, f);
}
static syn_status scale_cuda(syn_call *c) {
    const scale f = {(float)c->attr[0].f};
    return syn_each<1, 1>(c, f);
}

/* ---- ops that also depend on the element's position ---- */

/* x (B, ..., C): each sample has `rows` rows of `columns` packs. */
struct dropout_params {
    uint64_t seed;
    int64_t sample, row, column;
    syn_divisor rows, columns;
    int32_t limit;
    float keep;
    const int32_t *keys; /* or NULL: sample + index in the batch */
};

/* A pack is within one row, so the row's generator is computed once per pack. */
template <typename T, int W>
static __global__ void dropout_kernel(const syn_each_pointers<T, 1, 1> p, const dropout_params d,
                                      int64_t n) {
    const int64_t step = (int64_t)gridDim.x * SYN_EACH_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * SYN_EACH_THREADS + threadIdx.x; i < n; i += step) {
        int64_t at[1];
        syn_pack<T, W> pack;
        syn_walk_to(p.walk, i, at);
        const syn_pack<T, W> x = syn_load<T, W>(p.in[0] + at[0]);
        const int64_t line = syn_quotient(i, d.columns), b = syn_quotient(line, d.rows);
        const int32_t key = d.keys ? d.keys[b] : (int32_t)(d.sample + b);
        syn_dropout_row drop = syn__dropout_row(0, d.seed, key, d.row + line - b * d.rows.by);
        drop.limit = d.limit;
        const uint32_t column = (uint32_t)(d.column + (i - line * d.columns.by) * W);
#pragma unroll
        for (int w = 0; w < W; w++)
            pack.at[w] = syn_from_float<T>(
                syn__drops(&drop, column + (uint32_t)w) ? 0.0f : syn_to_float(x.at[w]) * d.keep);
        syn_store(p.out[0] + i * W, pack);
    }
}

template <typename T>
static void launch_dropout(const syn_call *c, dropout_params d, int64_t columns) {
    constexpr int W = syn_wide<T>::n;
    const cudaStream_t stream = syn__cuda_of(c)->stream;
    syn_each_pointers<T, 1, 1> p;
    int64_t n;
    const bool packs = syn_each_of(c, columns % W == 0, &p, &n);
    d.columns = syn_divisor_of(packs ? columns / W : columns);
    const unsigned blocks = syn_blocks(n, SYN_EACH_THREADS, 1);
    if (packs) SYN_LAUNCH((dropout_kernel<T, W>), blocks, SYN_EACH_THREADS, 0, stream, p, d, n);
    else SYN_LAUNCH((dropout_kernel<T, 1>), blocks, SYN_EACH_THREADS, 0, stream, p, d, n);
}

static syn_status dropout_cuda(syn_call *c) {
    const syn_spec *x = &c->in[0].spec;
    const int64_t n = syn_elems(x), columns = x->dims[x->rank - 1];
    if (n == 0) return SYN_OK;
    const syn_dropout_row how = syn__dropout_row(c->attr[0].f, 0, 0, 0);
    dropout_params d = {};
    d.seed = (uint64_t)c->attr[1].i;
    d.sample = c->attr[2].i;
    d.row = c->attr[3].i;
    d.column = c->attr[4].i;
    d.rows = syn_divisor_of(n / x->dims[0] / columns);
    d.limit = how.limit;
    d.keep = how.keep;
    d.keys = c->n_in > 1 ? static_cast<const int32_t *>(c->in[1].data) : NULL;
    SYN_WITH_FLOAT(x->dtype, T, launch_dropout<T>(c, d, columns));
    return syn__launched(c);
}

/* Scores (..., T, S), and the mask for scores (B, H, T, S). */
struct masking {
    float factor;
    syn_divisor rows, columns, per_mask;
    int64_t offset, window, mask_step;
    bool causal;
    const float *mask; /* or NULL */
    __device__ void operator()(const float *x, float *y, int64_t i) const {
        const int64_t line = syn_quotient(i, columns), column = i - line * columns.by;
        const int64_t row = line - syn_quotient(line, rows) * rows.by;
        const bool hidden =
            (causal && column - row > offset) || (window > 0 && column - row <= offset - window);
        const float added = mask ? mask[syn_quotient(line, per_mask) * mask_step + column] : 0.0f;
        *y = hidden ? -INFINITY : mask ? *x * factor + added : *x * factor;
    }
};

static syn_status scale_mask_cuda(syn_call *c) {
    const syn_spec *x = &c->in[0].spec;
    if (syn_elems(x) == 0) return SYN_OK;
    masking f = {};
    f.factor = (float)c->attr[0].f;
    const int64_t columns = x->rank > 0 ? x->dims[x->rank - 1] : 1;
    const int64_t rows = x->rank > 1 ? x->dims[x->rank - 2] : 1;
    f.columns = syn_divisor_of(columns);
    f.causal = c->attr[1].i && c->attr[2].i < columns;
    f.offset = c->attr[2].i;
    f.window = c->n_attr > 3 ? c->attr[3].i : 0;
    f.rows = syn_divisor_of(rows);
    f.per_mask = syn_divisor_of(1);
    if (c->n_in > 1) {
        f.mask = static_cast<const float *>(c->in[1].data);
        f.mask_step = c->in[1].strides[0];
        f.per_mask = syn_divisor_of(rows * x->dims[1]);
    }
    return syn_each<1, 1>(c, f);
}

/* all: the largest logit of all ranks. */
static __global__ void exp_rescale_kernel(const float *sum, const float *max, const float *all,
                                          float *out, int64_t n) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x)
        out[i] = sum[i] > 0 ? sum[i] * expf(max[i] - all[i]) : 0.0f;
}

static syn_status exp_rescale_cuda(syn_call *c) {
    const int64_t n = syn_elems(&c->out[0].spec);
    SYN_LAUNCH(exp_rescale_kernel, syn_blocks(n, SYN_EACH_THREADS, 1), SYN_EACH_THREADS, 0,
               syn__cuda_of(c)->stream, static_cast<const float *>(c->in[0].data),
               static_cast<const float *>(c->in[1].data), static_cast<const float *>(c->in[2].data),
               static_cast<float *>(c->out[0].data), n);
    return syn__launched(c);
}

/* ---- casts, for any strides ---- */

template <typename To, typename From, int W>
static __global__ void cast_kernel(const From *x, To *y, const syn_walk<1> walk, int64_t n) {
    for (int64_t i = (int64_t)blockIdx.x * SYN_EACH_THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * SYN_EACH_THREADS) {
        int64_t at[1];
        syn_pack<To, W> pack;
        syn_walk_to(walk, i, at);
        const syn_pack<From, W> from = syn_load<From, W>(x + at[0]);
#pragma unroll
        for (int w = 0; w < W; w++) pack.at[w] = syn_from_float<To>(syn_to_float(from.at[w]));
        syn_store(y + i * W, pack);
    }
}

template <typename To, typename From> static void launch_cast(const syn_call *c) {
    enum { W = 4 };
    syn_walk<1> walk = {};
    const syn_spec *shape = &c->in[0].spec;
    for (int d = 0; d < shape->rank; d++)
        syn_walk_add(&walk, shape->dims[d], {c->in[0].strides[d]});
    const int64_t n = syn_walk_done(&walk);
    const From *x = static_cast<const From *>(c->in[0].data);
    To *y = static_cast<To *>(c->out[0].data);
    const bool packs =
        walk.strides[0][walk.rank - 1] == 1 && syn_walk_packs(walk, 0, x, (int)sizeof(From), W);
    const cudaStream_t stream = syn__cuda_of(c)->stream;
    if (packs) {
        syn_walk_pack(&walk, W);
        SYN_LAUNCH((cast_kernel<To, From, W>), syn_blocks(n / W, SYN_EACH_THREADS, 1),
                   SYN_EACH_THREADS, 0, stream, x, y, walk, n / W);
    } else
        SYN_LAUNCH((cast_kernel<To, From, 1>), syn_blocks(n, SYN_EACH_THREADS, 1), SYN_EACH_THREADS,
                   0, stream, x, y, walk, n);
}

template <typename From> static void cast_from(const syn_call *c) {
    SYN_WITH_FLOAT(c->out[0].spec.dtype, To, (launch_cast<To, From>(c)));
}

static syn_status cast_cuda(syn_call *c) {
    SYN_WITH_FLOAT(c->in[0].spec.dtype, From, (cast_from<From>(c)));
    return syn__launched(c);
}

/* ---- softmax ---- */

/* A row that is all -infinity gives zeros; a NaN spreads to its whole row. */
template <typename T>
static __global__ void softmax_kernel(const T *x, T *y, const syn_walk<1> walk, int64_t rows,
                                      int64_t n) {
    __shared__ float space[SYN_WARP];
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        int64_t at[1];
        syn_walk_to(walk, row, at);
        const T *in = x + at[0];
        T *out = y + row * n;
        float max = -INFINITY, sum = 0;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) max = fmaxf(max, syn_to_float(in[i]));
        max = syn_block_max(max, space);
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            const float v = syn_to_float(in[i]);
            sum += v == -INFINITY ? 0.0f : expf(v - (max == -INFINITY ? 0.0f : max));
        }
        sum = syn_block_sum(sum, space);
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            const float v = syn_to_float(in[i]);
            const float e = v == -INFINITY ? 0.0f : expf(v - (max == -INFINITY ? 0.0f : max));
            out[i] = syn_from_float<T>(e * inverse);
        }
    }
}

template <typename T>
static __global__ void softmax_grad_kernel(const T *y, const T *dy, T *dx, const syn_walk<2> walk,
                                           int64_t rows, int64_t n) {
    __shared__ float space[SYN_WARP];
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        int64_t at[2];
        syn_walk_to(walk, row, at);
        const T *p = y + at[0], *d = dy + at[1];
        float dot = 0;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            dot += syn_to_float(p[i]) * syn_to_float(d[i]);
        dot = syn_block_sum(dot, space);
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
            dx[row * n + i] = syn_from_float<T>(syn_to_float(p[i]) * (syn_to_float(d[i]) - dot));
    }
}

static syn_status softmax_cuda(syn_call *c) {
    const syn_spec *shape = &c->in[0].spec;
    const int64_t n = shape->rank > 0 ? shape->dims[shape->rank - 1] : 1;
    if (n == 0) return SYN_OK;
    syn_walk<1> walk;
    const int64_t rows = syn_walk_rows(&walk, shape, {&c->in[0]});
    SYN_WITH_FLOAT(shape->dtype, T,
                   SYN_LAUNCH(softmax_kernel<T>, syn_blocks(rows, 1, 1), syn_row_threads(n), 0,
                              syn__cuda_of(c)->stream, static_cast<const T *>(c->in[0].data),
                              static_cast<T *>(c->out[0].data), walk, rows, n));
    return syn__launched(c);
}

static syn_status softmax_grad_cuda(syn_call *c) {
    const syn_spec *shape = &c->in[0].spec;
    const int64_t n = shape->rank > 0 ? shape->dims[shape->rank - 1] : 1;
    if (n == 0) return SYN_OK;
    syn_walk<2> walk;
    const int64_t rows = syn_walk_rows(&walk, shape, {&c->in[0], &c->in[1]});
    SYN_WITH_FLOAT(shape->dtype, T,
                   SYN_LAUNCH(softmax_grad_kernel<T>, syn_blocks(rows, 1, 1), syn_row_threads(n), 0,
                              syn__cuda_of(c)->stream, static_cast<const T *>(c->in[0].data),
                              static_cast<const T *>(c->in[1].data),
                              static_cast<T *>(c->out[0].data), walk, rows, n));
    return syn__launched(c);
}

const syn__cuda_row syn__cuda_pointwise[] = {{SYN_OP_GELU, gelu_cuda},
                                             {SYN_OP_GELU_GRAD, gelu_grad_cuda},
                                             {SYN_OP_TANH, tanh_cuda},
                                             {SYN_OP_TANH_GRAD, tanh_grad_cuda},
                                             {SYN_OP_RELU, relu_cuda},
                                             {SYN_OP_RELU_GRAD, relu_grad_cuda},
                                             {SYN_OP_SILU, silu_cuda},
                                             {SYN_OP_SILU_GRAD, silu_grad_cuda},
                                             {SYN_OP_SWIGLU, swiglu_cuda},
                                             {SYN_OP_SWIGLU_GRAD, swiglu_grad_cuda},
                                             {SYN_OP_SCALE, scale_cuda},
                                             {SYN_OP_DROPOUT, dropout_cuda},
                                             {SYN_OP_SCALE_MASK, scale_mask_cuda},
                                             {SYN_OP_EXP_RESCALE, exp_rescale_cuda},
                                             {SYN_OP_CAST, cast_cuda},
                                             {SYN_OP_SOFTMAX, softmax_cuda},
                                             {SYN_OP_SOFTMAX_GRAD, softmax_grad_cuda},
                                             {SYN_OP_NONE, NULL}};
