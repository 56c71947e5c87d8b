/* Cross-entropy loss. The gradient replaces the logits. Each block processes a row: it reads the
   row once for maximum and sum, and once more for the gradient. */
#include "ops/cuda/walk.cuh"
#include "ops/ops.h"

enum { MAX_THREADS = 512, SUM_THREADS = 1024 };

/* ---- rows ---- */

/* Calls f(i, pack) for this thread's elements of a row, W elements at a time, or one where a pack
   would not be aligned. If STORES, stores the pack after f has changed it. */
template <bool STORES, typename T, typename F>
static __device__ __forceinline__ void each_pack(T *x, int64_t n, F f) {
    constexpr int wide = syn_wide<T>::n;
    const int64_t first = reinterpret_cast<uintptr_t>(x) / sizeof(T) % wide;
    const int64_t head = first && n > wide - first ? wide - first : first ? n : 0;
    const int64_t packs = (n - head) / wide, tail = head + packs * wide;
    for (int64_t p = threadIdx.x; p < packs; p += blockDim.x) {
        const int64_t i = head + p * wide;
        syn_pack<T, wide> pack = syn_load<T, wide>(x + i);
        f(i, pack);
        if (STORES) syn_store(x + i, pack);
    }
    for (int64_t k = threadIdx.x; k < head + n - tail; k += blockDim.x) {
        const int64_t i = k < head ? k : tail + k - head;
        syn_pack<T, 1> one = {{x[i]}};
        f(i, one);
        if (STORES) x[i] = one.at[0];
    }
}

struct row_sum {
    float max, sum; /* sum of exp(x - max) */
};

/* The value to subtract in exp(x - max); 0 if there is no maximum so far. */
static __device__ __forceinline__ float shift_of(float max) {
    return max == -INFINITY ? 0.0f : max;
}

struct add_pack {
    row_sum *own;
    template <typename T, int W>
    __device__ __forceinline__ void operator()(int64_t, const syn_pack<T, W> &pack) const {
        float max = own->max, sum = 0;
#pragma unroll
        for (int i = 0; i < W; i++) max = fmaxf(max, syn_to_float(pack.at[i]));
        const float shift = shift_of(max);
#pragma unroll
        for (int i = 0; i < W; i++) sum += expf(syn_to_float(pack.at[i]) - shift);
        own->sum = own->sum * expf(own->max - shift) + sum;
        own->max = max;
    }
};

/* All threads get the row's result; -infinity and 0 for n = 0. */
template <typename T>
static __device__ __forceinline__ row_sum sum_of_row(T *x, int64_t n, float *space) {
    row_sum own = {-INFINITY, 0};
    each_pack<false>(x, n, add_pack{&own});
    row_sum all;
    all.max = syn_block_max(own.max, space);
    all.sum = syn_block_sum(own.sum * expf(own.max - shift_of(all.max)), space);
    return all;
}

struct make_gradient {
    float max, scale, weight;
    int64_t target, classes;
    template <typename T, int W>
    __device__ __forceinline__ void operator()(int64_t first, syn_pack<T, W> &pack) const {
#pragma unroll
        for (int i = 0; i < W; i++) {
            float g = scale * expf(syn_to_float(pack.at[i]) - max);
            if (first + i == target) g -= weight;
            pack.at[i] = syn_from_float<T>(first + i < classes ? g : 0.0f);
        }
    }
};

struct make_zero {
    template <typename T, int W>
    __device__ __forceinline__ void operator()(int64_t, syn_pack<T, W> &pack) const {
#pragma unroll
        for (int i = 0; i < W; i++) pack.at[i] = syn_from_float<T>(0.0f);
    }
};

/* The rows of logits, and the other arguments of the kernels. */
struct losses {
    syn_walk<1> at;
    int64_t rows, classes, width, first; /* first class of this rank */
    const int32_t *targets;
    /* max, sum and target_logit are reduced over all ranks; NULL: this rank has all classes. */
    const float *weight, *max, *sum, *target_logit;
    double *of_row;
    syn__fault *fault;
    uint32_t node;
};

template <typename T> static __global__ void loss_kernel(T *logits, const losses s) {
    __shared__ float space[SYN_WARP];
    for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
        int64_t at[1];
        syn_walk_to(s.at, row, at);
        T *x = logits + at[0];
        const int32_t target = s.targets[row];
        const bool bad =
            target != SYN_IGNORED_TARGET && (target < 0 || (!s.max && target >= s.classes));
        if (bad && threadIdx.x == 0)
            syn_fault(s.fault, s.node, SYN__FAULT_TARGET, target, s.classes);
        if (bad || target == SYN_IGNORED_TARGET) {
            each_pack<true>(x, s.width, make_zero());
            if (threadIdx.x == 0) s.of_row[row] = 0;
            continue;
        }
        const float target_logit = s.max ? s.target_logit[row] : syn_to_float(x[target]);
        const row_sum sum =
            s.max ? row_sum{s.max[row], s.sum[row]} : sum_of_row(x, s.classes, space);
        if (threadIdx.x == 0)
            s.of_row[row] = log((double)sum.sum) + (double)sum.max - (double)target_logit;
        const float weight = *s.weight;
        __syncthreads(); /* all threads have read the target's logit */
        each_pack<true>(
            x, s.width,
            make_gradient{sum.max, weight / sum.sum, weight, target - s.first, s.classes});
    }
}

template <typename T>
static __global__ void part_kernel(const T *logits, const losses s, float *max, float *sum,
                                   float *target_logit) {
    __shared__ float space[SYN_WARP];
    for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
        int64_t at[1];
        syn_walk_to(s.at, row, at);
        const T *x = logits + at[0];
        const row_sum part = sum_of_row(const_cast<T *>(x), s.classes, space);
        if (threadIdx.x) continue;
        const int64_t target = s.targets[row] - s.first;
        max[row] = part.max;
        sum[row] = part.sum;
        target_logit[row] = target >= 0 && target < s.classes ? syn_to_float(x[target]) : 0.0f;
    }
}

/* ---- the loss that is not fused: dense f32 rows ---- */

struct log_rows {
    const float *x, *dy; /* logits or log-softmax; gradient of the log-softmax */
    float *y;
    int64_t rows, classes, width, first, all;
    const int32_t *targets;
    const float *weight, *dloss, *max, *sum, *target_logit;
    double *of_row;
    syn__fault *fault;
    uint32_t node;
};

static __global__ void log_softmax_kernel(const log_rows s) {
    for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
        const int32_t target = s.targets[row];
        const bool bad = target != SYN_IGNORED_TARGET && (target < 0 || target >= s.all);
        const double log_sum = log((double)s.sum[row]) + (double)s.max[row];
        const float shift = (float)log_sum;
        if (threadIdx.x == 0) {
            if (bad) syn_fault(s.fault, s.node, SYN__FAULT_TARGET, target, s.all);
            s.of_row[row] =
                bad || target == SYN_IGNORED_TARGET ? 0 : log_sum - (double)s.target_logit[row];
        }
        for (int64_t i = threadIdx.x; i < s.width; i += blockDim.x)
            s.y[row * s.width + i] = i < s.classes ? s.x[row * s.width + i] - shift : 0.0f;
    }
}

static __global__ void nll_grad_kernel(const log_rows s) {
    for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
        const int32_t target = s.targets[row];
        const int64_t at = target == SYN_IGNORED_TARGET ? -1 : target - s.first;
        const float g = -(*s.weight * *s.dloss);
        for (int64_t i = threadIdx.x; i < s.width; i += blockDim.x)
            s.y[row * s.width + i] = i == at && i < s.classes ? g : 0.0f;
    }
}

static __global__ void log_softmax_grad_kernel(const log_rows s) {
    for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
        const bool ignored = s.targets[row] == SYN_IGNORED_TARGET;
        const float g = *s.weight * *s.dloss;
        for (int64_t i = threadIdx.x; i < s.width; i += blockDim.x) {
            const int64_t at = row * s.width + i;
            s.y[at] = ignored || i >= s.classes ? 0.0f : s.dy[at] + g * expf(s.x[at]);
        }
    }
}

/* ---- sums over rows, in one block and a fixed order ---- */

static __device__ __forceinline__ double sum_of_block(double x) {
    __shared__ double sums[SUM_THREADS];
    const int tid = (int)threadIdx.x;
    sums[tid] = x;
    __syncthreads();
    for (int apart = (int)blockDim.x / 2; apart > 0; apart /= 2) {
        if (tid < apart) sums[tid] += sums[tid + apart];
        __syncthreads();
    }
    return sums[0];
}

/* 1 / (number of targets that are not ignored). */
static __global__ void mean_kernel(const int32_t *targets, int64_t rows, float *weight) {
    int64_t n = 0;
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) n += targets[i] != SYN_IGNORED_TARGET;
    const double all = sum_of_block((double)n);
    if (threadIdx.x == 0) *weight = 1.0f / (float)(all > 0 ? all : 1.0);
}

static __global__ void sum_kernel(const double *of_row, int64_t rows, const float *weight,
                                  float *loss) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) sum += of_row[i];
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) *loss = (float)(sum * (double)*weight);
}

/* ---- the ops ---- */

/* Number of threads for n elements, `each` per thread: a power of 2 from one warp to `most`. */
static unsigned threads_for(int64_t n, int64_t each, unsigned most) {
    unsigned threads = SYN_WARP;
    while (threads < most && (int64_t)threads * each < n) threads *= 2;
    return threads;
}

static losses losses_of(const syn_call *c) {
    const syn_operand *x = &c->in[0];
    losses s = {};
    const int last = x->spec.rank - 1;
    for (int d = 0; d < last; d++) {
        const int64_t stride[1] = {x->strides[d]};
        syn_walk_add(&s.at, x->spec.dims[d], stride);
    }
    s.rows = syn_walk_done(&s.at);
    s.width = x->spec.dims[last];
    s.classes = c->attr[0].i;
    s.first = c->n_attr > 1 ? c->attr[1].i : 0;
    s.targets = static_cast<const int32_t *>(c->in[1].data);
    s.fault = syn__cuda_of(c)->fault;
    s.node = syn__cuda_of(c)->node;
    return s;
}

/* weight: number of the optional weight input. */
static syn_status all_losses(const syn_call *c, losses s, int weight) {
    const cudaStream_t stream = syn__cuda_of(c)->stream;
    const unsigned sum_threads = threads_for(s.rows, 1, SUM_THREADS);
    void *scratch;
    SYN_TRY(syn__cuda_scratch(c, (size_t)(s.rows + 1) * sizeof *s.of_row, &scratch));
    s.of_row = static_cast<double *>(scratch);
    float *mean = reinterpret_cast<float *>(s.of_row + s.rows);
    s.weight = c->n_in > weight ? static_cast<const float *>(c->in[weight].data) : mean;
    if (s.weight == mean)
        SYN_LAUNCH(mean_kernel, 1, sum_threads, 0, stream, s.targets, s.rows, mean);
    SYN_WITH_FLOAT(c->in[0].spec.dtype, T,
                   SYN_LAUNCH(loss_kernel<T>, syn_blocks(s.rows, 1, 1),
                              threads_for(s.width, syn_wide<T>::n, MAX_THREADS), 0, stream,
                              static_cast<T *>(c->in[0].data), s));
    SYN_LAUNCH(sum_kernel, 1, sum_threads, 0, stream, s.of_row, s.rows, s.weight,
               static_cast<float *>(c->out[1].data));
    return syn__launched(c);
}

static syn_status cross_entropy_cuda(syn_call *c) {
    return all_losses(c, losses_of(c), 2);
}

static syn_status cross_entropy_join_cuda(syn_call *c) {
    losses s = losses_of(c);
    s.max = static_cast<const float *>(c->in[2].data);
    s.sum = static_cast<const float *>(c->in[3].data);
    s.target_logit = static_cast<const float *>(c->in[4].data);
    return all_losses(c, s, 5);
}

static syn_status cross_entropy_part_cuda(syn_call *c) {
    const losses s = losses_of(c);
    float *max = static_cast<float *>(c->out[0].data), *sum = static_cast<float *>(c->out[1].data),
          *target_logit = static_cast<float *>(c->out[2].data);
    SYN_WITH_FLOAT(c->in[0].spec.dtype, T,
                   SYN_LAUNCH(part_kernel<T>, syn_blocks(s.rows, 1, 1),
                              threads_for(s.classes, syn_wide<T>::n, MAX_THREADS), 0,
                              syn__cuda_of(c)->stream, static_cast<const T *>(c->in[0].data), s,
                              max, sum, target_logit));
    return syn__launched(c);
}

/* Provides scratch memory for of_row and a mean weight; weight: number of the optional input. */
static syn_status scratch_rows(const syn_call *c, log_rows *s, int weight) {
    void *scratch;
    SYN_TRY(syn__cuda_scratch(c, (size_t)(s->rows + 1) * sizeof *s->of_row, &scratch));
    s->of_row = static_cast<double *>(scratch);
    float *mean = reinterpret_cast<float *>(s->of_row + s->rows);
    s->weight = c->n_in > weight ? static_cast<const float *>(c->in[weight].data) : mean;
    s->fault = syn__cuda_of(c)->fault;
    s->node = syn__cuda_of(c)->node;
    if (s->weight == mean)
        SYN_LAUNCH(mean_kernel, 1, threads_for(s->rows, 1, SUM_THREADS), 0, syn__cuda_of(c)->stream,
                   s->targets, s->rows, mean);
    return SYN_OK;
}

static log_rows log_rows_of(const syn_call *c, int targets) {
    log_rows s = {};
    s.targets = static_cast<const int32_t *>(c->in[targets].data);
    s.rows = syn_spec_elems(&c->in[targets].spec);
    s.classes = c->attr[0].i;
    s.y = static_cast<float *>(c->out[0].data);
    s.width = c->out[0].spec.dims[c->out[0].spec.rank - 1];
    return s;
}

static const float *floats(const syn_call *c, int i) {
    return static_cast<const float *>(c->in[i].data);
}

static syn_status log_softmax_loss_cuda(syn_call *c) {
    const cudaStream_t stream = syn__cuda_of(c)->stream;
    log_rows s = log_rows_of(c, 1);
    SYN_TRY(scratch_rows(c, &s, 5));
    s.x = floats(c, 0);
    s.max = floats(c, 2);
    s.sum = floats(c, 3);
    s.target_logit = floats(c, 4);
    s.all = c->attr[2].i;
    SYN_LAUNCH(log_softmax_kernel, syn_blocks(s.rows, 1, 1), threads_for(s.width, 1, MAX_THREADS),
               0, stream, s);
    SYN_LAUNCH(sum_kernel, 1, threads_for(s.rows, 1, SUM_THREADS), 0, stream, s.of_row, s.rows,
               s.weight, static_cast<float *>(c->out[1].data));
    return syn__launched(c);
}

static syn_status nll_grad_cuda(syn_call *c) {
    log_rows s = log_rows_of(c, 0);
    SYN_TRY(scratch_rows(c, &s, 2));
    s.dloss = floats(c, 1);
    s.first = c->attr[1].i;
    SYN_LAUNCH(nll_grad_kernel, syn_blocks(s.rows, 1, 1), threads_for(s.width, 1, MAX_THREADS), 0,
               syn__cuda_of(c)->stream, s);
    return syn__launched(c);
}

static syn_status log_softmax_grad_cuda(syn_call *c) {
    log_rows s = log_rows_of(c, 2);
    SYN_TRY(scratch_rows(c, &s, 4));
    s.x = floats(c, 0);
    s.dy = floats(c, 1);
    s.dloss = floats(c, 3);
    SYN_LAUNCH(log_softmax_grad_kernel, syn_blocks(s.rows, 1, 1),
               threads_for(s.width, 1, MAX_THREADS), 0, syn__cuda_of(c)->stream, s);
    return syn__launched(c);
}

const syn__cuda_row syn__cuda_losses[] = {{SYN_OP_CROSS_ENTROPY, cross_entropy_cuda},
                                          {SYN_OP_CROSS_ENTROPY_PART, cross_entropy_part_cuda},
                                          {SYN_OP_CROSS_ENTROPY_JOIN, cross_entropy_join_cuda},
                                          {SYN_OP_LOG_SOFTMAX_LOSS, log_softmax_loss_cuda},
                                          {SYN_OP_NLL_GRAD, nll_grad_cuda},
                                          {SYN_OP_LOG_SOFTMAX_GRAD, log_softmax_grad_cuda},
                                          {SYN_OP_NONE, NULL}};
