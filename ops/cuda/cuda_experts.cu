/* Mixtures of experts: routing, the sort by expert, the copies of tokens, and the products of each
   expert's rows. */
#include "ops/cuda/each.cuh"
#include "ops/cuda/select.cuh"
#include "ops/cuda/sort.cuh"
#include "ops/ops.h"

/* Where kernels report errors in data. */
struct faults {
    syn__fault *fault;
    uint32_t node;
};

static faults faults_of(const syn_call *c) {
    const faults f = {syn__cuda_of(c)->fault, syn__cuda_of(c)->node};
    return f;
}

static __device__ __forceinline__ void report(const faults &f, int kind, int64_t value,
                                              int64_t limit) {
    syn_fault(f.fault, f.node, kind, value, limit);
}

/* ---- route and route_grad: one warp per token ---- */

enum { ROUTE_WARPS = 8, ROUTE_THREADS = ROUTE_WARPS * SYN_WARP, ROUTE_SHARED = 48 * 1024 };

struct routing {
    int64_t rows, n, k, groups, top_groups, step; /* step: row stride of the logits */
    float scale;
    bool softmax, normalize;
};

static routing routing_of(const syn_call *c) {
    routing r = {};
    r.rows = c->in[0].spec.dims[0];
    r.n = c->in[0].spec.dims[1];
    r.step = c->in[0].strides[0];
    r.k = c->attr[0].i;
    r.softmax = c->attr[1].i == SYN_SCORE_SOFTMAX;
    r.normalize = c->attr[2].i != 0;
    r.groups = c->attr[3].i;
    r.top_groups = c->attr[4].i;
    r.scale = (float)c->attr[5].f;
    return r;
}

/* The scores of a token. `none` replaces them if no logit is above -infinity. */
struct scoring {
    float max, inverse, none;
};

template <typename T>
static __device__ __forceinline__ scoring scoring_of(const T *x, const routing &r) {
    const int lane = (int)threadIdx.x % SYN_WARP;
    scoring s = {-INFINITY, 0, 0};
    if (!r.softmax) return s;
    float sum = 0;
    int nan = 0;
    for (int64_t i = lane; i < r.n; i += SYN_WARP) {
        const float v = syn_to_float(x[i]);
        s.max = fmaxf(s.max, v);
        nan |= v != v;
    }
    s.max = syn_warp_max(s.max);
    if (__any_sync(SYN_ALL_LANES, nan)) s.none = NAN;
    if (s.max == -INFINITY) return s;
    for (int64_t i = lane; i < r.n; i += SYN_WARP) {
        const float v = syn_to_float(x[i]);
        sum += v == -INFINITY ? 0.0f : expf(v - s.max);
    }
    s.inverse = 1.0f / syn_warp_sum(sum);
    return s;
}

static __device__ __forceinline__ float score_of(float x, const scoring &s, const routing &r) {
    if (!r.softmax) return 1.0f / (1.0f + expf(-x));
    if (s.max == -INFINITY) return s.none;
    return (x == -INFINITY ? 0.0f : expf(x - s.max)) * s.inverse;
}

/* The factor from scores to weights. */
static __device__ __forceinline__ float factor_of(const routing &r, float sum) {
    if (!r.normalize) return r.scale;
    return r.scale / (r.softmax ? sum : sum + 1e-20f);
}

/* The index of the largest element that is not -infinity, or -1. Among equals the lowest index
   wins. All lanes of the warp get it. */
static __device__ __forceinline__ int64_t largest(const float *x, int64_t n) {
    uint64_t best = 0;
    for (int64_t i = (int)threadIdx.x % SYN_WARP; i < n; i += SYN_WARP)
        if (x[i] > -INFINITY) best = syn_larger()(best, syn_key(x[i], i));
#pragma unroll
    for (int apart = SYN_WARP / 2; apart > 0; apart /= 2)
        best = syn_larger()(best, __shfl_xor_sync(SYN_ALL_LANES, best, apart));
    return best ? (int64_t)syn_key_index(best) : -1;
}

/* The value by which groups are chosen, as on the CPU. */
static __device__ __forceinline__ float group_score(const float *x, int64_t n, bool two) {
    float first = -INFINITY, second = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] > first) {
            second = first;
            first = x[i];
        } else if (x[i] > second) second = x[i];
    }
    return two && n > 1 ? first + second : first;
}

/* Sets the entries of all groups except the best ones to -infinity. NaN marks the chosen groups.
   A lane writes only the groups and entries with its own number, modulo 32. */
static __device__ void keep_groups(float *choice, float *groups, const routing &r) {
    const int lane = (int)threadIdx.x % SYN_WARP;
    const int64_t each = r.n / r.groups;
    __syncwarp();
    for (int64_t g = lane; g < r.groups; g += SYN_WARP)
        groups[g] = group_score(choice + g * each, each, !r.softmax);
    for (int64_t i = 0; i < r.top_groups; i++) {
        const int64_t best = largest(groups, r.groups);
        if (best >= 0 && best % SYN_WARP == lane) groups[best] = NAN;
    }
    __syncwarp();
    for (int64_t i = lane; i < r.n; i += SYN_WARP) {
        const float chosen = groups[i / each];
        if (chosen == chosen) choice[i] = -INFINITY;
    }
}

/* scratch: the buffers of all warps, or NULL if they are in shared memory. */
template <typename T>
static __global__ void route_kernel(const T *logits, const float *bias, float *weights,
                                    int32_t *experts, float *scratch, const routing r) {
    SYN_DYNAMIC_SHARED(float, shared);
    const int lane = (int)threadIdx.x % SYN_WARP, warp = (int)threadIdx.x / SYN_WARP;
    const int64_t number = (int64_t)blockIdx.x * ROUTE_WARPS + warp, each = 2 * r.n + r.groups;
    float *scores = scratch ? scratch + number * each : shared + warp * each;
    float *choice = scores + r.n, *groups = choice + r.n;
    for (int64_t row = number; row < r.rows; row += (int64_t)gridDim.x * ROUTE_WARPS) {
        const T *x = logits + row * r.step;
        int32_t *to = experts + row * r.k;
        float sum = 0;
        const scoring s = scoring_of(x, r);
        for (int64_t i = lane; i < r.n; i += SYN_WARP) {
            scores[i] = score_of(syn_to_float(x[i]), s, r);
            choice[i] = bias ? scores[i] + bias[i] : scores[i];
        }
        if (r.top_groups < r.groups) keep_groups(choice, groups, r);
        __syncwarp();
        for (int64_t j = 0; j < r.k; j++) {
            int64_t best = largest(choice, r.n);
            if (best < 0) best = 0; /* only if logits are NaN or -infinity */
            if (best % SYN_WARP == lane) choice[best] = -INFINITY;
            if (lane == 0) to[j] = (int32_t)best;
            sum += scores[best];
        }
        const float factor = factor_of(r, sum);
        __syncwarp();
        for (int64_t j = lane; j < r.k; j += SYN_WARP)
            weights[row * r.k + j] = scores[to[j]] * factor;
        __syncwarp();
    }
}

static syn_status route_cuda(syn_call *c) {
    const syn__cuda_at *d = syn__cuda_of(c);
    const routing r = routing_of(c);
    const size_t floats = ROUTE_WARPS * (size_t)(2 * r.n + r.groups),
                 bytes = floats * sizeof(float);
    const bool fits = bytes <= ROUTE_SHARED;
    const unsigned all = syn_blocks(r.rows, ROUTE_WARPS, 1), few = 4 * (unsigned)d->sms,
                   blocks = fits || all < few ? all : few;
    void *scratch = NULL;
    if (r.rows == 0) return SYN_OK;
    if (!fits) SYN_TRY(syn__cuda_scratch(c, blocks * bytes, &scratch));
    SYN_WITH_FLOAT(c->in[0].spec.dtype, T,
                   SYN_LAUNCH(route_kernel<T>, blocks, ROUTE_WARPS * SYN_WARP, fits ? bytes : 0,
                              d->stream, static_cast<const T *>(c->in[0].data),
                              c->n_in > 1 ? static_cast<const float *>(c->in[1].data) : NULL,
                              static_cast<float *>(c->out[0].data),
                              static_cast<int32_t *>(c->out[1].data), static_cast<float *>(scratch),
                              r));
    return syn__launched(c);
}

/* The formulas are in op_route.c. A token with an expert that does not exist gets no gradient. */
template <typename T>
static __global__ void route_grad_kernel(const T *logits, const int32_t *experts,
                                         const float *dweights, T *out, int64_t experts_step,
                                         int64_t dweights_step, const routing r, const faults f) {
    const int lane = (int)threadIdx.x % SYN_WARP, warp = (int)threadIdx.x / SYN_WARP;
    for (int64_t row = (int64_t)blockIdx.x * ROUTE_WARPS + warp; row < r.rows;
         row += (int64_t)gridDim.x * ROUTE_WARPS) {
        const T *x = logits + row * r.step;
        const int32_t *e = experts + row * experts_step;
        const float *dw = dweights + row * dweights_step;
        T *dx = out + row * r.n;
        int bad = 0;
        for (int64_t j = lane; j < r.k; j += SYN_WARP)
            if (e[j] < 0 || e[j] >= r.n) {
                report(f, SYN__FAULT_EXPERT, e[j], r.n);
                bad = 1;
            }
        if (__any_sync(SYN_ALL_LANES, bad)) {
            for (int64_t i = lane; i < r.n; i += SYN_WARP) dx[i] = syn_from_float<T>(0.0f);
            continue;
        }
        const scoring s = scoring_of(x, r);
        float sum = 0, dot = 0, all = 0;
        for (int64_t j = 0; j < r.k; j++) sum += score_of(syn_to_float(x[e[j]]), s, r);
        const float factor = factor_of(r, sum);
        if (r.normalize)
            for (int64_t j = 0; j < r.k; j++)
                dot += dw[j] * (score_of(syn_to_float(x[e[j]]), s, r) / sum);
        if (r.softmax)
            for (int64_t j = 0; j < r.k; j++)
                all += score_of(syn_to_float(x[e[j]]), s, r) * (factor * (dw[j] - dot));
        for (int64_t i = lane; i < r.n; i += SYN_WARP) {
            const float score = score_of(syn_to_float(x[i]), s, r);
            float dscore = 0;
            for (int64_t j = 0; j < r.k; j++)
                if (e[j] == i) dscore = factor * (dw[j] - dot);
            dx[i] = syn_from_float<T>(r.softmax ? score * (dscore - all)
                                                : dscore * score * (1.0f - score));
        }
    }
}

static syn_status route_grad_cuda(syn_call *c) {
    const routing r = routing_of(c);
    SYN_WITH_FLOAT(
        c->in[0].spec.dtype, T,
        SYN_LAUNCH(route_grad_kernel<T>, syn_blocks(r.rows, ROUTE_WARPS, 1), ROUTE_WARPS * SYN_WARP,
                   0, syn__cuda_of(c)->stream, static_cast<const T *>(c->in[0].data),
                   static_cast<const int32_t *>(c->in[1].data),
                   static_cast<const float *>(c->in[2].data), static_cast<T *>(c->out[0].data),
                   c->in[1].strides[0], c->in[2].strides[0], r, faults_of(c)));
    return syn__launched(c);
}

/* ---- the losses of a router; the formulas are in op_router.c ---- */

struct router {
    routing scores, exps; /* exps: of a softmax, for the log-sum-exp */
    const int64_t *counts;
    int64_t count_step;
    float balance, z;
};

static router router_of(const syn_call *c, int logits) {
    const syn_operand *x = &c->in[logits], *counts = &c->in[logits + 1];
    router r = {};
    r.scores.rows = x->spec.dims[0];
    r.scores.n = x->spec.dims[1];
    r.scores.step = x->strides[0];
    r.scores.softmax = c->attr[0].i == SYN_SCORE_SOFTMAX;
    r.exps = r.scores;
    r.exps.softmax = true;
    r.counts = static_cast<const int64_t *>(counts->data);
    r.count_step = counts->strides[0];
    r.balance = (float)c->attr[1].f;
    r.z = (float)c->attr[2].f;
    return r;
}

static __device__ __forceinline__ float slope_of(const router &r, int64_t e) {
    return r.balance * (float)r.counts[e * r.count_step];
}

/* A token's scores. `dot` is the sum of the products of its probabilities and the slopes; a
   probability is a score times `share`. */
struct token {
    scoring scores, exps;
    float share, dot, log_sum;
};

template <typename T>
static __device__ __forceinline__ token token_of(const T *x, const router &r) {
    const int lane = (int)threadIdx.x % SYN_WARP;
    token t = {{0, 0, 0}, {0, 0, 0}, 1, 0, 0};
    float sum = 0;
    if (r.z != 0) {
        t.exps = scoring_of(x, r.exps);
        t.log_sum = t.exps.max - logf(t.exps.inverse);
    }
    if (r.balance == 0) return t;
    t.scores = scoring_of(x, r.scores);
    for (int64_t i = lane; i < r.scores.n; i += SYN_WARP) {
        const float score = score_of(syn_to_float(x[i]), t.scores, r.scores);
        sum += score;
        t.dot += score * slope_of(r, i);
    }
    if (!r.scores.softmax) t.share = 1.0f / (syn_warp_sum(sum) + 1e-20f);
    t.dot = syn_warp_sum(t.dot) * t.share;
    return t;
}

template <typename T>
static __global__ void router_loss_kernel(const T *logits, double *sums, const router r) {
    __shared__ double warps[ROUTE_WARPS];
    const int lane = (int)threadIdx.x % SYN_WARP, warp = (int)threadIdx.x / SYN_WARP;
    double sum = 0;
    for (int64_t row = (int64_t)blockIdx.x * ROUTE_WARPS + warp; row < r.scores.rows;
         row += (int64_t)gridDim.x * ROUTE_WARPS) {
        const token t = token_of(logits + row * r.scores.step, r);
        sum += (double)t.dot + (double)r.z * (double)t.log_sum * (double)t.log_sum;
    }
    if (lane == 0) warps[warp] = sum;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int i = 1; i < ROUTE_WARPS; i++) sum += warps[i];
    sums[blockIdx.x] = sum;
}

static __global__ void router_join_kernel(const double *sums, int64_t n, float *to) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += sums[i];
    *to += (float)sum;
}

static syn_status router_loss_add_cuda(syn_call *c) {
    const syn__cuda_at *d = syn__cuda_of(c);
    const router r = router_of(c, 1);
    const unsigned all = syn_blocks(r.scores.rows, ROUTE_WARPS, 1), few = 4 * (unsigned)d->sms,
                   blocks = all < few ? all : few;
    void *sums;
    if (r.scores.rows == 0) return SYN_OK;
    SYN_TRY(syn__cuda_scratch(c, blocks * sizeof(double), &sums));
    SYN_WITH_FLOAT(c->in[1].spec.dtype, T,
                   SYN_LAUNCH(router_loss_kernel<T>, blocks, ROUTE_WARPS * SYN_WARP, 0, d->stream,
                              static_cast<const T *>(c->in[1].data), static_cast<double *>(sums),
                              r));
    SYN_LAUNCH(router_join_kernel, 1, 1, 0, d->stream, static_cast<const double *>(sums),
               (int64_t)blocks, static_cast<float *>(c->out[0].data));
    return syn__launched(c);
}

template <typename T>
static __global__ void router_loss_grad_kernel(const T *logits, T *out, const router r) {
    const int lane = (int)threadIdx.x % SYN_WARP, warp = (int)threadIdx.x / SYN_WARP;
    for (int64_t row = (int64_t)blockIdx.x * ROUTE_WARPS + warp; row < r.scores.rows;
         row += (int64_t)gridDim.x * ROUTE_WARPS) {
        const T *x = logits + row * r.scores.step;
        const token t = token_of(x, r);
        for (int64_t i = lane; i < r.scores.n; i += SYN_WARP) {
            const float v = syn_to_float(x[i]);
            float dx = 0;
            if (r.balance != 0) {
                const float score = score_of(v, t.scores, r.scores);
                dx = score * t.share * (slope_of(r, i) - t.dot) *
                     (r.scores.softmax ? 1.0f : 1.0f - score);
            }
            if (r.z != 0) dx += 2 * r.z * t.log_sum * score_of(v, t.exps, r.exps);
            out[row * r.scores.n + i] = syn_from_float<T>(dx);
        }
    }
}

static syn_status router_loss_grad_cuda(syn_call *c) {
    const router r = router_of(c, 0);
    if (r.scores.rows == 0) return SYN_OK;
    SYN_WITH_FLOAT(c->in[0].spec.dtype, T,
                   SYN_LAUNCH(router_loss_grad_kernel<T>,
                              syn_blocks(r.scores.rows, ROUTE_WARPS, 1), ROUTE_WARPS * SYN_WARP, 0,
                              syn__cuda_of(c)->stream, static_cast<const T *>(c->in[0].data),
                              static_cast<T *>(c->out[0].data), r));
    return syn__launched(c);
}

static __global__ void count_add_kernel(const int64_t *counts, int64_t step, int64_t n,
                                        float *sums) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x)
        sums[i] += (float)counts[i * step];
}

static syn_status count_add_cuda(syn_call *c) {
    const int64_t n = c->in[0].spec.dims[0];
    if (n == 0) return SYN_OK;
    SYN_LAUNCH(count_add_kernel, syn_blocks(n, 256, 1), 256, 0, syn__cuda_of(c)->stream,
               static_cast<const int64_t *>(c->in[1].data), c->in[1].strides[0], n,
               static_cast<float *>(c->out[0].data));
    return syn__launched(c);
}

/* One warp: a layer has few experts. */
static __global__ void router_bias_kernel(float *bias, float *counts, int64_t n, float rate) {
    const int lane = (int)threadIdx.x % SYN_WARP;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)counts[i];
    __syncwarp();
    for (int64_t i = lane; i < n; i += SYN_WARP) {
        const double missing = sum - (double)counts[i] * (double)n;
        bias[i] += missing > 0 ? rate : missing < 0 ? -rate : 0;
        counts[i] = 0;
    }
}

static syn_status router_bias_update_cuda(syn_call *c) {
    SYN_LAUNCH(router_bias_kernel, 1, SYN_WARP, 0, syn__cuda_of(c)->stream,
               static_cast<float *>(c->out[0].data), static_cast<float *>(c->out[1].data),
               c->in[0].spec.dims[0], (float)c->attr[0].f);
    return syn__launched(c);
}

/* ---- sort_by_expert: a stable sort of the entries' numbers by expert ---- */

static __global__ void experts_kernel(const int32_t *experts, int64_t step, int64_t k,
                                      uint32_t *keys, uint32_t *values, int64_t n,
                                      int64_t n_experts, const faults f) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        const int32_t e = experts[i / k * step + i % k];
        const bool bad = e < 0 || e >= n_experts;
        if (bad) report(f, SYN__FAULT_EXPERT, e, n_experts);
        keys[i] = bad ? 0 : (uint32_t)e;
        values[i] = (uint32_t)i;
    }
}

/* The number of sorted keys below `key`. */
static __device__ __forceinline__ int64_t keys_below(const uint32_t *keys, int64_t n, int64_t key) {
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (keys[middle] < key) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Copies the n sorted places, and counts the keys of each expert. */
static __global__ void places_kernel(const uint32_t *keys, const uint32_t *values, int32_t *places,
                                     int64_t *sizes, int64_t n, int64_t n_experts) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n || i < n_experts;
         i += (int64_t)gridDim.x * blockDim.x) {
        if (i < n) places[i] = (int32_t)values[i];
        if (i < n_experts) sizes[i] = keys_below(keys, n, i + 1) - keys_below(keys, n, i);
    }
}

static syn_status sort_by_expert_cuda(syn_call *c) {
    const syn__cuda_at *d = syn__cuda_of(c);
    const syn_operand *experts = &c->in[0];
    const int64_t n = syn_elems(&experts->spec), n_experts = c->attr[0].i;
    void *scratch = NULL;
    if (n > 0) SYN_TRY(syn__cuda_scratch(c, syn_sort_bytes(n), &scratch));
    syn_sort sort = syn_sort_in(scratch, n);
    if (n > 0) {
        SYN_LAUNCH(experts_kernel, syn_blocks(n, SYN_EACH_THREADS, 1), SYN_EACH_THREADS, 0,
                   d->stream, static_cast<const int32_t *>(experts->data), experts->strides[0],
                   experts->spec.dims[1], sort.keys[0], sort.values[0], n, n_experts, faults_of(c));
        syn_sort_launch(&sort, (uint32_t)(n_experts - 1), d->stream);
    }
    SYN_LAUNCH(places_kernel, syn_blocks(n > n_experts ? n : n_experts, SYN_EACH_THREADS, 1),
               SYN_EACH_THREADS, 0, d->stream, sort.keys[0], sort.values[0],
               static_cast<int32_t *>(c->out[0].data), static_cast<int64_t *>(c->out[1].data), n,
               n_experts);
    return syn__launched(c);
}

/* ---- expert_order ---- */

enum { ORDER_THREADS = 256 };

struct ordering {
    int64_t sources, first, experts, rows, step;
};

/* One block. A pair of an expert and a source has consecutive rows in the result and among the rows
   that arrived. */
static __global__ void order_kernel(const int64_t *counts, int32_t *places, int64_t *sizes,
                                    const ordering o, const faults f) {
    __shared__ int bad;
    if (threadIdx.x == 0) {
        int64_t all = 0;
        bad = 0;
        for (int64_t i = 0; i < o.sources * o.experts && !bad; i++) {
            const int64_t count = counts[i / o.experts * o.step + o.first + i % o.experts];
            bad = count < 0 || count > o.rows - all;
            all += count;
        }
        bad = bad || all != o.rows;
        if (bad) report(f, SYN__FAULT_SIZES, all, o.rows);
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < o.experts; i += blockDim.x) {
        sizes[i] = 0;
        for (int64_t s = 0; s < o.sources && !bad; s++)
            sizes[i] += counts[s * o.step + o.first + i];
    }
    for (int64_t i = threadIdx.x; i < o.rows && bad; i += blockDim.x) places[i] = 0;
    for (int64_t i = threadIdx.x; i < o.sources * o.experts && !bad; i += blockDim.x) {
        const int64_t expert = i / o.sources, source = i % o.sources;
        int64_t at = 0, from = 0;
        for (int64_t s = 0; s < o.sources; s++)
            for (int64_t e = 0; e < o.experts; e++) {
                const int64_t count = counts[s * o.step + o.first + e];
                if (e < expert || (e == expert && s < source)) at += count;
                if (s < source || (s == source && e < expert)) from += count;
            }
        const int64_t n = counts[source * o.step + o.first + expert];
        for (int64_t k = 0; k < n; k++) places[at + k] = (int32_t)(from + k);
    }
}

static syn_status expert_order_cuda(syn_call *c) {
    const syn_operand *counts = &c->in[0];
    ordering o = {};
    o.sources = counts->spec.dims[0];
    o.first = c->attr[0].i;
    o.experts = c->attr[1].i;
    o.rows = c->attr[2].i;
    o.step = counts->strides[0];
    SYN_LAUNCH(order_kernel, 1, ORDER_THREADS, 0, syn__cuda_of(c)->stream,
               static_cast<const int64_t *>(counts->data), static_cast<int32_t *>(c->out[0].data),
               static_cast<int64_t *>(c->out[1].data), o, faults_of(c));
    return syn__launched(c);
}

/* ---- expert_capacity ---- */

/* One block per expert. */
static __global__ void capacity_kernel(const int32_t *places, const int64_t *sizes, int64_t step,
                                       int64_t place_step, int64_t rows, int64_t capacity,
                                       int32_t *out, int64_t *out_sizes, const faults f) {
    const int64_t e = blockIdx.x;
    int64_t at = 0;
    bool bad = false;
    for (int64_t i = 0; i <= e && !bad; i++) {
        const int64_t count = sizes[i * step];
        bad = count < 0 || count > rows - at;
        if (i < e) at += count;
    }
    if (bad && threadIdx.x == 0) report(f, SYN__FAULT_SIZES, at, rows);
    for (int64_t i = threadIdx.x; i < capacity; i += blockDim.x)
        out[e * capacity + i] =
            !bad && i < sizes[e * step] ? places[(at + i) * place_step] : -1;
    if (threadIdx.x == 0) out_sizes[e] = capacity;
}

static syn_status expert_capacity_cuda(syn_call *c) {
    const syn_operand *places = &c->in[0], *sizes = &c->in[1];
    if (sizes->spec.dims[0] == 0) return SYN_OK;
    SYN_LAUNCH(capacity_kernel, (unsigned)sizes->spec.dims[0], ORDER_THREADS, 0,
               syn__cuda_of(c)->stream, static_cast<const int32_t *>(places->data),
               static_cast<const int64_t *>(sizes->data), sizes->strides[0], places->strides[0],
               places->spec.dims[0], c->attr[0].i, static_cast<int32_t *>(c->out[0].data),
               static_cast<int64_t *>(c->out[1].data), faults_of(c));
    return syn__launched(c);
}

/* ---- moe_permute ---- */

/* E: the unit that is copied with one instruction. A row whose place does not exist gets zeros. */
template <typename E>
static __global__ void permute_kernel(const E *x, const int32_t *places, E *out, int64_t step,
                                      int64_t copies, int64_t limit, int64_t width, int64_t n,
                                      const faults f) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t row = i / width, column = i - row * width;
        const int32_t place = places[row];
        const bool bad = place < 0 || place >= limit;
        if (bad && place != -1 && column == 0) report(f, SYN__FAULT_PLACE, place, limit);
        out[i] = bad ? E() : x[place / copies * step + column];
    }
}

template <typename E> static void launch_permute(const syn_call *c, int64_t each) {
    const syn_operand *x = &c->in[0];
    const int64_t width = x->spec.dims[1] / each, n = c->out[0].spec.dims[0] * width;
    SYN_LAUNCH(permute_kernel<E>, syn_blocks(n, SYN_EACH_THREADS, 1), SYN_EACH_THREADS, 0,
               syn__cuda_of(c)->stream, static_cast<const E *>(x->data),
               static_cast<const int32_t *>(c->in[1].data), static_cast<E *>(c->out[0].data),
               x->strides[0] / each, c->attr[0].i, x->spec.dims[0] * c->attr[0].i, width, n,
               faults_of(c));
}

/* Whether rows of x consist of aligned packs of n elements. */
static bool has_packs(const syn_operand *x, int64_t n) {
    return x->spec.dims[1] % n == 0 && x->strides[0] % n == 0 &&
           reinterpret_cast<uintptr_t>(x->data) % 16 == 0;
}

static syn_status moe_permute_cuda(syn_call *c) {
    const int64_t bytes = (int64_t)syn_dtype_bytes((syn_dtype)c->in[0].spec.dtype);
    if (syn_elems(&c->out[0].spec) == 0) return SYN_OK;
    if (has_packs(&c->in[0], 16 / bytes)) launch_permute<uint4>(c, 16 / bytes);
    else if (bytes == 4) launch_permute<uint32_t>(c, 1);
    else launch_permute<uint16_t>(c, 1);
    return syn__launched(c);
}

/* ---- moe_unpermute ---- */

/* Stores the row of each place. row_at: -1 at first. */
static __global__ void row_at_kernel(const int32_t *places, int32_t *row_at, int64_t rows,
                                     int64_t limit, const faults f) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows;
         i += (int64_t)gridDim.x * blockDim.x) {
        const int32_t place = places[i];
        if (place == -1) continue;
        if (place < 0 || place >= limit) report(f, SYN__FAULT_PLACE, place, limit);
        else if (atomicExch(row_at + place, (int32_t)i) >= 0)
            report(f, SYN__FAULT_TWICE, place, limit);
    }
}

/* Adds the rows of each token in the order of their places; W elements at a time. width: packs per
   row. */
template <typename T, int W>
static __global__ void unpermute_kernel(const T *x, const int32_t *row_at, T *out, int64_t step,
                                        int64_t copies, int64_t width, int64_t n) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t token = i / width, column = (i - token * width) * W;
        float sums[W] = {};
        syn_pack<T, W> y;
        for (int64_t j = 0; j < copies; j++) {
            const int64_t row = row_at[token * copies + j];
            if (row < 0) continue;
            const syn_pack<T, W> pack = syn_load<T, W>(x + row * step + column);
#pragma unroll
            for (int w = 0; w < W; w++) sums[w] += syn_to_float(pack.at[w]);
        }
#pragma unroll
        for (int w = 0; w < W; w++) y.at[w] = syn_from_float<T>(sums[w]);
        syn_store(out + i * W, y);
    }
}

template <typename T, int W>
static void launch_unpermute(const syn_call *c, const int32_t *row_at) {
    const int64_t width = c->out[0].spec.dims[1] / W, n = c->out[0].spec.dims[0] * width;
    SYN_LAUNCH((unpermute_kernel<T, W>), syn_blocks(n, SYN_EACH_THREADS, 1), SYN_EACH_THREADS, 0,
               syn__cuda_of(c)->stream, static_cast<const T *>(c->in[0].data), row_at,
               static_cast<T *>(c->out[0].data), c->in[0].strides[0], c->attr[1].i, width, n);
}

static syn_status moe_unpermute_cuda(syn_call *c) {
    const syn__cuda_at *d = syn__cuda_of(c);
    const int64_t all = c->attr[0].i * c->attr[1].i, rows = c->in[1].spec.dims[0];
    const size_t bytes = (size_t)all * sizeof(int32_t);
    void *scratch = NULL;
    if (all > 0) {
        SYN_TRY(syn__cuda_scratch(c, bytes, &scratch));
        SYN_CUDA(cudaMemsetAsync(scratch, 0xff, bytes, d->stream), "a fill", c->err);
        syn__cuda_note_bytes(c, SYN_PIECE_FILL, bytes);
    }
    int32_t *row_at = static_cast<int32_t *>(scratch);
    SYN_LAUNCH(row_at_kernel, syn_blocks(rows, SYN_EACH_THREADS, 1), SYN_EACH_THREADS, 0, d->stream,
               static_cast<const int32_t *>(c->in[1].data), row_at, rows, all, faults_of(c));
    SYN_WITH_FLOAT(c->in[0].spec.dtype, T,
                   if (has_packs(&c->in[0], syn_wide<T>::n))
                       launch_unpermute<T, syn_wide<T>::n>(c, row_at);
                   else launch_unpermute<T, 1>(c, row_at));
    return syn__launched(c);
}

/* ---- grouped products ---- */

/* A block computes TILE * TILE results, a thread TILE / DOWN of them. */
enum { TILE = 32, DOWN = 8, TILE_THREADS = TILE * DOWN, PLAN_THREADS = 256 };

/* Element (row, column) of a matrix is at row * down + column * right. */
template <typename T> struct matrix {
    const T *at;
    int64_t rows, columns, down, right;
};

/* Loads the tile that begins at (row, column); zeros outside the matrix. Adjacent threads load
   adjacent elements. */
template <typename T>
static __device__ __forceinline__ void load_tile(float (*to)[TILE + 1], const matrix<T> &m,
                                                 int64_t row, int64_t column) {
    const int along = (int)threadIdx.x % TILE, across = (int)threadIdx.x / TILE;
    const bool turned = m.right != 1;
    for (int i = across; i < TILE; i += DOWN) {
        const int r = turned ? along : i, q = turned ? i : along;
        to[r][q] = row + r < m.rows && column + q < m.columns
                       ? syn_to_float(m.at[(row + r) * m.down + (column + q) * m.right])
                       : 0.0f;
    }
}

/* Computes the tile of x w that begins at (row, column). A thread gets the results in the rows
   `across + r * DOWN` of its column. Sums are added in the order of the inner dimension. */
template <typename T, typename W>
static __device__ __forceinline__ void multiply_tile(const matrix<T> &x, const matrix<W> &w,
                                                     int64_t row, int64_t column,
                                                     float (&sums)[TILE / DOWN]) {
    __shared__ float a[TILE][TILE + 1], b[TILE][TILE + 1];
    const int along = (int)threadIdx.x % TILE, across = (int)threadIdx.x / TILE;
    for (int64_t k = 0; k < x.columns; k += TILE) {
        load_tile(a, x, row, k);
        load_tile(b, w, k, column);
        __syncthreads();
        for (int i = 0; i < TILE; i++)
#pragma unroll
            for (int r = 0; r < TILE / DOWN; r++)
                sums[r] = fmaf(a[across + r * DOWN][i], b[i][along], sums[r]);
        __syncthreads();
    }
}

/* The rows of each expert: from rows[e] to rows[e + 1]. Its tiles of rows have the numbers from
   tiles[e] on. */
struct plan {
    int64_t *rows, *tiles; /* experts + 1 each */
    int64_t experts;
};

/* Computes the plan in one block. If the sizes do not add up to n rows, no expert has rows. */
static __global__ void plan_kernel(const int64_t *sizes, int64_t n, const plan p, const faults f) {
    __shared__ int64_t rows[PLAN_THREADS], tiles[PLAN_THREADS];
    const int64_t each = (p.experts + PLAN_THREADS - 1) / PLAN_THREADS, first = threadIdx.x * each;
    const int64_t end = first + each < p.experts ? first + each : p.experts;
    int64_t row = 0, tile = 0, all = 0;
    int bad = 0;
    for (int64_t e = first; e < end; e++) {
        const bool wrong = sizes[e] < 0 || sizes[e] > n;
        bad |= wrong;
        row += wrong ? 0 : sizes[e];
        tile += wrong ? 0 : (sizes[e] + TILE - 1) / TILE;
    }
    rows[threadIdx.x] = row;
    tiles[threadIdx.x] = tile;
    bad = __syncthreads_or(bad);
    row = tile = 0;
    for (unsigned t = 0; t < PLAN_THREADS; t++) {
        all += rows[t];
        row += t < threadIdx.x ? rows[t] : 0;
        tile += t < threadIdx.x ? tiles[t] : 0;
    }
    bad = bad || all != n;
    if (bad && threadIdx.x == 0) report(f, SYN__FAULT_SIZES, all, n);
    for (int64_t e = first; e < end; e++) {
        p.rows[e] = bad ? 0 : row;
        p.tiles[e] = bad ? 0 : tile;
        row += bad ? 0 : sizes[e];
        tile += bad ? 0 : (sizes[e] + TILE - 1) / TILE;
    }
    if (end == p.experts && first < end) { /* the thread with the last expert */
        p.rows[end] = bad ? 0 : row;
        p.tiles[end] = bad ? 0 : tile;
    }
}

static syn_status make_plan(const syn_call *c, const syn_operand *sizes, int64_t n, plan *p) {
    void *scratch;
    p->experts = sizes->spec.dims[0];
    const size_t each = (size_t)p->experts + 1;
    SYN_TRY(syn__cuda_scratch(c, 2 * each * sizeof(int64_t), &scratch));
    p->rows = static_cast<int64_t *>(scratch);
    p->tiles = p->rows + each;
    SYN_LAUNCH(plan_kernel, 1, PLAN_THREADS, 0, syn__cuda_of(c)->stream,
               static_cast<const int64_t *>(sizes->data), n, *p, faults_of(c));
    return SYN_OK;
}

/* The expert with tile number `tile`, which exists. */
static __device__ __forceinline__ int64_t expert_of(const plan &p, int64_t tile) {
    int64_t low = 0, high = p.experts;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (p.tiles[middle] <= tile) low = middle;
        else high = middle;
    }
    return low;
}

struct grouped {
    int64_t n, k, x_step, w_step, w_down, w_right; /* w_step: from one matrix to the next */
    int64_t most;                                  /* at least the number of tiles of rows */
};

template <typename T, typename W>
static __global__ void grouped_kernel(const T *x, const W *w, const T *bias, T *out, const plan p,
                                      const grouped g) {
    const int along = (int)threadIdx.x % TILE, across = (int)threadIdx.x / TILE;
    const int64_t wide = (g.n + TILE - 1) / TILE, tiles = p.tiles[p.experts];
    for (int64_t i = blockIdx.x; i < g.most * wide; i += gridDim.x) {
        const int64_t tile = i / wide, column = i % wide * TILE;
        if (tile >= tiles) break;
        const int64_t e = expert_of(p, tile), first = p.rows[e], rows = p.rows[e + 1] - first;
        const int64_t row = (tile - p.tiles[e]) * TILE;
        const matrix<T> a = {x + first * g.x_step, rows, g.k, g.x_step, 1};
        const matrix<W> b = {w + e * g.w_step, g.k, g.n, g.w_down, g.w_right};
        float sums[TILE / DOWN] = {};
        multiply_tile(a, b, row, column, sums);
        if (column + along >= g.n) continue;
        const float add = bias ? syn_to_float(bias[e * g.n + column + along]) : 0.0f;
        for (int r = 0; r < TILE / DOWN; r++) {
            const int64_t at = row + across + r * DOWN;
            if (at < rows)
                out[(first + at) * g.n + column + along] = syn_from_float<T>(sums[r] + add);
        }
    }
}

template <typename T, typename W>
static void launch_grouped(const syn_call *c, const plan &p, const grouped &g) {
    SYN_LAUNCH((grouped_kernel<T, W>), syn_blocks(g.most * ((g.n + TILE - 1) / TILE), 1, 1),
               TILE * DOWN, 0, syn__cuda_of(c)->stream, static_cast<const T *>(c->in[0].data),
               static_cast<const W *>(c->in[1].data),
               c->n_in > 3 ? static_cast<const T *>(c->in[3].data) : NULL,
               static_cast<T *>(c->out[0].data), p, g);
}

static syn_status grouped_linear_cuda(syn_call *c) {
    const syn_operand *x = &c->in[0], *w = &c->in[1];
    const bool t = c->attr[0].i != 0;
    const int64_t rows = x->spec.dims[0], ld = w->strides[1];
    plan p;
    grouped g = {};
    SYN_TRY(make_plan(c, &c->in[2], rows, &p));
    g.n = c->out[0].spec.dims[1];
    g.k = x->spec.dims[1];
    g.x_step = x->strides[0];
    g.w_step = w->strides[0];
    g.w_down = t ? 1 : ld;
    g.w_right = t ? ld : 1;
    g.most = p.experts > 0 ? rows / TILE + p.experts : 0;
    SYN_WITH_FLOAT(w->spec.dtype, W,
                   if (x->spec.dtype == w->spec.dtype) launch_grouped<W, W>(c, p, g);
                   else launch_grouped<float, W>(c, p, g));
    return syn__launched(c);
}

struct row_product {
    int64_t m, n, a_step, b_step;
    bool add;
};

template <typename T>
static __global__ void grouped_rows_kernel(const T *a, const T *b, float *out, const plan p,
                                           const row_product g) {
    const int along = (int)threadIdx.x % TILE, across = (int)threadIdx.x / TILE;
    const int64_t wide = (g.n + TILE - 1) / TILE, high = (g.m + TILE - 1) / TILE;
    for (int64_t i = blockIdx.x; i < wide * high * p.experts; i += gridDim.x) {
        const int64_t column = i % wide * TILE, row = i / wide % high * TILE, e = i / wide / high;
        const int64_t first = p.rows[e], rows = p.rows[e + 1] - first;
        if (g.add && rows == 0) continue;
        const matrix<T> x = {a + first * g.a_step, g.m, rows, 1, g.a_step};
        const matrix<T> w = {b + first * g.b_step, rows, g.n, g.b_step, 1};
        float sums[TILE / DOWN] = {};
        multiply_tile(x, w, row, column, sums);
        if (column + along >= g.n) continue;
        for (int r = 0; r < TILE / DOWN; r++) {
            const int64_t at = row + across + r * DOWN;
            float *to = out + (e * g.m + at) * g.n + column + along;
            if (at < g.m) *to = g.add ? *to + sums[r] : sums[r];
        }
    }
}

/* Multiplies inputs `first` and first + 1. */
static syn_status multiply_rows(const syn_call *c, int first, bool add) {
    const syn_operand *a = &c->in[first], *b = &c->in[first + 1];
    plan p;
    row_product g = {};
    SYN_TRY(make_plan(c, &c->in[first + 2], a->spec.dims[0], &p));
    g.m = a->spec.dims[1];
    g.n = b->spec.dims[1];
    g.a_step = a->strides[0];
    g.b_step = b->strides[0];
    g.add = add;
    const int64_t tiles = (g.n + TILE - 1) / TILE * ((g.m + TILE - 1) / TILE) * p.experts;
    SYN_WITH_FLOAT(a->spec.dtype, T,
                   SYN_LAUNCH(grouped_rows_kernel<T>, syn_blocks(tiles, 1, 1), TILE * DOWN, 0,
                              syn__cuda_of(c)->stream, static_cast<const T *>(a->data),
                              static_cast<const T *>(b->data), static_cast<float *>(c->out[0].data),
                              p, g));
    return syn__launched(c);
}

static syn_status grouped_product_cuda(syn_call *c) {
    return multiply_rows(c, 0, false);
}

static syn_status grouped_product_add_cuda(syn_call *c) {
    return multiply_rows(c, 1, true);
}

/* Sums each expert's rows in order; a thread has a column of an expert. */
template <typename T>
static __global__ void grouped_sum_kernel(const T *x, T *out, const plan p, int64_t step,
                                          int64_t width) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.experts * width;
         i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t e = i / width, column = i - e * width;
        float sum = 0;
        for (int64_t r = p.rows[e]; r < p.rows[e + 1]; r++)
            sum += syn_to_float(x[r * step + column]);
        out[i] = syn_from_float<T>(sum);
    }
}

static syn_status grouped_sum_cuda(syn_call *c) {
    const syn_operand *x = &c->in[0];
    const int64_t width = x->spec.dims[1];
    plan p;
    SYN_TRY(make_plan(c, &c->in[1], x->spec.dims[0], &p));
    SYN_WITH_FLOAT(x->spec.dtype, T,
                   SYN_LAUNCH(grouped_sum_kernel<T>,
                              syn_blocks(p.experts * width, SYN_EACH_THREADS, 1), SYN_EACH_THREADS,
                              0, syn__cuda_of(c)->stream, static_cast<const T *>(x->data),
                              static_cast<T *>(c->out[0].data), p, x->strides[0], width));
    return syn__launched(c);
}

const syn__cuda_row syn__cuda_experts[] = {{SYN_OP_ROUTE, route_cuda},
                                           {SYN_OP_ROUTE_GRAD, route_grad_cuda},
                                           {SYN_OP_ROUTER_LOSS_ADD, router_loss_add_cuda},
                                           {SYN_OP_ROUTER_LOSS_GRAD, router_loss_grad_cuda},
                                           {SYN_OP_COUNT_ADD, count_add_cuda},
                                           {SYN_OP_ROUTER_BIAS_UPDATE, router_bias_update_cuda},
                                           {SYN_OP_EXPERT_CAPACITY, expert_capacity_cuda},
                                           {SYN_OP_EXPERT_ORDER, expert_order_cuda},
                                           {SYN_OP_SORT_BY_EXPERT, sort_by_expert_cuda},
                                           {SYN_OP_MOE_PERMUTE, moe_permute_cuda},
                                           {SYN_OP_MOE_UNPERMUTE, moe_unpermute_cuda},
                                           {SYN_OP_GROUPED_LINEAR, grouped_linear_cuda},
                                           {SYN_OP_GROUPED_PRODUCT, grouped_product_cuda},
                                           {SYN_OP_GROUPED_PRODUCT_ADD, grouped_product_add_cuda},
                                           {SYN_OP_GROUPED_SUM, grouped_sum_cuda},
                                           {SYN_OP_NONE, NULL}};
