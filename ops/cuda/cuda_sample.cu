/* Sampling. Without top_k and top_p, tokens are processed in the order of their ids: kernels sum
   the likelihoods of each part of a row, then find the part and the token where the running sum
   exceeds the random number. With top_k or top_p, tokens are processed in the order of their
   probabilities: kernels sort and sum each run of a row, then bisect the range of keys to find the
   key at which the sum over all runs exceeds a number. Sums are doubles. They are added in another
   order than on the CPU, so the sampled token differs from the CPU's only if a sum is within
   rounding error of the random number. */
#include "ops/cuda/select.cuh"
#include "ops/hash.h"

enum { MOST = SYN_SELECT_THREADS };

struct sampling {
    double temperature, top_p, min_p;
    int64_t top_k;
    uint64_t key; /* key for syn__counter_uniform */
};

/* Divides by the temperature, because its inverse could overflow. */
static __device__ __forceinline__ double likelihood(float x, double max, const sampling &s) {
    return exp(((double)x - max) / s.temperature);
}

struct syn_sum_two {
    __device__ __forceinline__ double operator()(double a, double b) const { return a + b; }
};

/* Inclusive prefix sum of x over the threads. space[t] has the sum of thread t. */
static __device__ __forceinline__ double running_sum(double x, double *space) {
    const int tid = (int)threadIdx.x;
    space[tid] = x;
    __syncthreads();
    for (int apart = 1; apart < (int)blockDim.x; apart *= 2) {
        const double before = tid >= apart ? space[tid - apart] : 0.0;
        __syncthreads();
        space[tid] += before;
        __syncthreads();
    }
    return space[tid];
}

/* The first thread whose prefix sum is above `limit`, or the number of threads if there is none.
 *before: the prefix sum of the thread before it. */
static __device__ __forceinline__ int first_above(double x, double limit, double *space,
                                                  double *before) {
    __shared__ int first;
    if (threadIdx.x == 0) first = (int)blockDim.x;
    const double sum = running_sum(x, space);
    if (sum > limit) atomicMin(&first, (int)threadIdx.x);
    __syncthreads();
    const int found = first;
    *before = found > 0 && found < (int)blockDim.x ? space[found - 1] : 0.0;
    __syncthreads();
    return found;
}

/* ---- tokens in the order of their ids ---- */

/* Likelihood of element i relative to the most likely one; 0 if min_p removes it. */
template <typename T>
static __device__ __forceinline__ double kept(const T *row, int64_t i, int64_t n, double max,
                                              const sampling &s) {
    const double e = i < n ? likelihood(syn_to_float(row[i]), max, s) : 0.0;
    return s.min_p > 0.0 && !(e >= s.min_p) ? 0.0 : e;
}

template <typename T>
static __device__ __forceinline__ double thread_mass(const T *row, int64_t part, int64_t n,
                                                     double max, const sampling &s) {
    const int64_t from = part * SYN_PART + (int64_t)threadIdx.x * SYN_EACH_OF_PART;
    double sum = 0;
    for (int i = 0; i < SYN_EACH_OF_PART; i++) sum += kept(row, from + i, n, max, s);
    return sum;
}

template <typename T>
static __global__ void mass_kernel(const T *x, const uint64_t *best, double *masses,
                                   const syn_select_rows r, const sampling s) {
    __shared__ uint64_t keys[MOST];
    __shared__ double sums[MOST];
    for (int64_t b = blockIdx.x; b < r.rows * r.parts; b += gridDim.x) {
        const int64_t row = b / r.parts;
        const double max =
            (double)syn_key_number(syn_largest(best + row * r.parts, r.parts, 1, keys));
        const double mass = thread_mass(syn_row_at(x, r, row), b % r.parts, r.n, max, s);
        const double sum = syn_join(mass, sums, syn_sum_two());
        if (threadIdx.x == 0) masses[b] = sum;
    }
}

/* Returns the part where the running sum exceeds `limit`, and makes `limit` relative to the
   beginning of that part. Returns -1 if there is no such part because of NaN. */
static __device__ __forceinline__ int64_t part_above(const double *masses, int64_t parts,
                                                     double *limit, double *space) {
    for (int64_t first = 0; first < parts; first += blockDim.x) {
        double before;
        const int64_t i = first + threadIdx.x;
        const int found = first_above(i < parts ? masses[i] : 0.0, *limit, space, &before);
        if (found < (int)blockDim.x) {
            *limit -= before;
            return first + found;
        }
        *limit -= space[blockDim.x - 1];
        __syncthreads();
    }
    return -1;
}

template <typename T>
static __global__ void draw_kernel(const T *x, const uint64_t *best, const double *masses,
                                   int32_t *out, const syn_select_rows r, const sampling s) {
    __shared__ uint64_t keys[MOST];
    __shared__ double space[MOST];
    for (int64_t b = blockIdx.x; b < r.rows; b += gridDim.x) {
        const T *row = syn_row_at(x, r, b);
        const double max =
            (double)syn_key_number(syn_largest(best + b * r.parts, r.parts, 1, keys));
        double sum = 0, before;
        for (int64_t i = threadIdx.x; i < r.parts; i += blockDim.x) sum += masses[b * r.parts + i];
        sum = syn_join(sum, space, syn_sum_two());
        double limit = syn__counter_uniform(s.key, (uint64_t)b) * sum;
        const int64_t part = part_above(masses + b * r.parts, r.parts, &limit, space);
        if (threadIdx.x == 0) out[b] = (int32_t)(r.n - 1);
        if (part < 0) continue;
        const double mass = thread_mass(row, part, r.n, max, s);
        const double most = syn_join(mass, space, syn_sum_two()) * (1 - 0x1p-48);
        if (!(limit < most)) limit = most; /* sums of parts are rounded differently */
        const int found = first_above(mass, limit, space, &before);
        if ((int)threadIdx.x != found) continue;
        for (int64_t i = part * SYN_PART + (int64_t)found * SYN_EACH_OF_PART,
                     end = i + SYN_EACH_OF_PART;
             i < end; i++) {
            const double e = kept(row, i, r.n, max, s);
            if (e > 0.0) out[b] = (int32_t)i;
            before += e;
            if (before > limit) break;
        }
    }
}

/* ---- tokens by probability ---- */

/* For each sorted run: prefix sums of the likelihoods. */
static __global__ void run_mass_kernel(const uint64_t *keys, double *masses,
                                       const syn_select_rows r, int64_t length, const sampling s) {
    __shared__ uint64_t largest[MOST];
    __shared__ double space[MOST];
    for (int64_t b = blockIdx.x; b < r.rows * r.runs; b += gridDim.x) {
        const int64_t row = b / r.runs;
        const double max = (double)syn_key_number(
            syn_largest(keys + row * r.runs * length, r.runs, length, largest));
        const int64_t from = (int64_t)threadIdx.x * SYN_EACH_OF_RUN;
        double e[SYN_EACH_OF_RUN], sum = 0;
        for (int i = 0; i < SYN_EACH_OF_RUN; i++) {
            const uint64_t key = from + i < length ? keys[b * length + from + i] : 0;
            e[i] = key ? likelihood(syn_key_number(key), max, s) : 0.0;
            sum += e[i];
        }
        running_sum(sum, space);
        double at = threadIdx.x ? space[threadIdx.x - 1] : 0.0;
        for (int i = 0; i < SYN_EACH_OF_RUN; i++) {
            at += e[i];
            if (from + i < length) masses[b * length + from + i] = at;
        }
        __syncthreads();
    }
}

/* The sorted runs of one row. The first low[i] keys of run i are known to be selected; the keys
   from number up[i] on are known not to be selected. */
struct sorted_runs {
    const uint64_t *keys;
    const double *masses; /* NULL: each key has mass 1 */
    int64_t runs, length;
    int32_t *low, *up, *cut;
};

/* The keys that are still undecided. */
struct span {
    int64_t count;
    uint64_t least, most;
};
struct join_spans {
    __device__ __forceinline__ span operator()(const span &a, const span &b) const {
        span s = {a.count + b.count, a.least < b.least ? a.least : b.least,
                  a.most > b.most ? a.most : b.most};
        return s;
    }
};

static __device__ __forceinline__ span span_of(const sorted_runs &r, span *space) {
    span s = {0, UINT64_MAX, 0};
    for (int64_t i = threadIdx.x; i < r.runs; i += blockDim.x) {
        const int32_t low = r.low[i], up = r.up[i];
        if (low == up) continue;
        const span own = {up - low, r.keys[i * r.length + up - 1], r.keys[i * r.length + low]};
        s = join_spans()(s, own);
    }
    return syn_join(s, space, join_spans());
}

/* The sum over the first to[i] keys of each run i. */
static __device__ __forceinline__ double mass_up_to(const sorted_runs &r, const int32_t *to,
                                                    double *space) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < r.runs; i += blockDim.x) {
        if (to[i] == 0) continue;
        sum += r.masses ? r.masses[i * r.length + to[i] - 1] : (double)to[i];
    }
    return syn_join(sum, space, syn_sum_two());
}

/* cut[i]: number of keys of run i that are >= `key`. */
static __device__ __forceinline__ void cut_at(const sorted_runs &r, uint64_t key) {
    for (int64_t i = threadIdx.x; i < r.runs; i += blockDim.x) {
        int32_t low = r.low[i], high = r.up[i];
        while (low < high) {
            const int32_t middle = (low + high) / 2;
            if (r.keys[i * r.length + middle] >= key) low = middle + 1;
            else high = middle;
        }
        r.cut[i] = low;
    }
}

/* Returns the key at which the sum, from the largest key on, reaches `limit` (or exceeds it, if
   `above`), or the last key if there is none. Afterwards `up` is directly after this key. Searches
   the first up[i] keys of each run. */
static __device__ __forceinline__ uint64_t reach(const sorted_runs &r, double limit, bool above,
                                                 span *spans, double *space) {
    for (int64_t i = threadIdx.x; i < r.runs; i += blockDim.x) r.low[i] = 0;
    for (;;) {
        const span s = span_of(r, spans);
        if (s.count <= 1) return s.most;
        cut_at(r, s.least + (s.most - s.least) / 2 + 1);
        const double sum = mass_up_to(r, r.cut, space);
        int32_t *end = sum > limit || (!above && sum == limit) ? r.up : r.low;
        for (int64_t i = threadIdx.x; i < r.runs; i += blockDim.x) end[i] = r.cut[i];
    }
}

/* Removes tokens that are less than min_p times as likely as the most likely one. */
static __device__ __forceinline__ void keep_likely(const sorted_runs &r, double max,
                                                   const sampling &s) {
    for (int64_t i = threadIdx.x; i < r.runs; i += blockDim.x) {
        int32_t low = 0, high = r.up[i];
        while (low < high) {
            const int32_t middle = (low + high) / 2;
            const float x = syn_key_number(r.keys[i * r.length + middle]);
            if (likelihood(x, max, s) < s.min_p) high = middle;
            else low = middle + 1;
        }
        r.up[i] = low;
    }
}

static __global__ void pick_kernel(const uint64_t *keys, const double *masses, int32_t *buffer,
                                   int32_t *out, const syn_select_rows r, int64_t length,
                                   const sampling s) {
    __shared__ span spans[MOST];
    __shared__ double space[MOST];
    for (int64_t b = blockIdx.x; b < r.rows; b += gridDim.x) {
        int32_t *own = buffer + 3 * b * r.runs;
        sorted_runs all = {
            keys + b * r.runs * length, NULL, r.runs, length, own, own + r.runs, own + 2 * r.runs};
        for (int64_t i = threadIdx.x; i < r.runs; i += blockDim.x) {
            const int64_t left = r.n - i * length, some = left < length ? left : length;
            all.up[i] = (int32_t)(some < s.top_k ? some : s.top_k);
            all.low[i] = 0;
        }
        const double max = (double)syn_key_number(span_of(all, spans).most);
        if (s.top_k < r.n) reach(all, (double)s.top_k, false, spans, space);
        all.masses = masses + b * r.runs * length;
        if (s.top_p < 1.0)
            reach(all, s.top_p * mass_up_to(all, all.up, space), false, spans, space);
        if (s.min_p > 0.0) keep_likely(all, max, s);
        const double sum = mass_up_to(all, all.up, space);
        const double limit = syn__counter_uniform(s.key, (uint64_t)b) * sum;
        const uint64_t key = reach(all, limit, true, spans, space);
        if (threadIdx.x == 0) out[b] = syn_key_index(key);
    }
}

/* ---- the op ---- */

static syn_status sample_in_order(const syn_call *c, const syn_select_rows &r, const sampling &s) {
    const cudaStream_t stream = syn__cuda_of(c)->stream;
    const int64_t parts = r.rows * r.parts;
    const unsigned threads = syn_select_threads(r.n, SYN_EACH_OF_PART);
    int32_t *out = static_cast<int32_t *>(c->out[0].data);
    void *scratch;
    SYN_TRY(syn__cuda_scratch(c, (size_t)parts * (sizeof(uint64_t) + sizeof(double)), &scratch));
    uint64_t *best = static_cast<uint64_t *>(scratch);
    double *masses = reinterpret_cast<double *>(best + parts);
    syn__launch_best(c, r, best);
    if (s.temperature == 0.0) syn__launch_argmax(c, r, best, out);
    else
        SYN_WITH_FLOAT(c->in[0].spec.dtype, T, {
            const T *x = static_cast<const T *>(c->in[0].data);
            SYN_LAUNCH(mass_kernel<T>, syn_blocks(parts, 1, 1), threads, 0, stream, x, best, masses,
                       r, s);
            SYN_LAUNCH(draw_kernel<T>, syn_blocks(r.rows, 1, 1), threads, 0, stream, x, best,
                       masses, out, r, s);
        });
    return syn__launched(c);
}

static syn_status sample_the_best(const syn_call *c, const syn_select_rows &r, const sampling &s) {
    const cudaStream_t stream = syn__cuda_of(c)->stream;
    const int64_t runs = r.rows * r.runs, length = r.n < SYN_RUN ? r.n : (int64_t)SYN_RUN;
    const size_t bytes = (size_t)length * (sizeof(uint64_t) + sizeof(double)) + 3 * sizeof(int32_t);
    void *scratch;
    SYN_TRY(syn__cuda_scratch(c, (size_t)runs * bytes, &scratch));
    uint64_t *keys = static_cast<uint64_t *>(scratch);
    double *masses = reinterpret_cast<double *>(keys + runs * length);
    int32_t *buffer = reinterpret_cast<int32_t *>(masses + runs * length);
    syn__launch_runs(c, r, length, keys);
    SYN_LAUNCH(run_mass_kernel, syn_blocks(runs, 1, 1), syn_select_threads(r.n, SYN_EACH_OF_RUN), 0,
               stream, keys, masses, r, length, s);
    SYN_LAUNCH(pick_kernel, syn_blocks(r.rows, 1, 1), syn_select_threads(r.runs, 1), 0, stream,
               keys, masses, buffer, static_cast<int32_t *>(c->out[0].data), r, length, s);
    return syn__launched(c);
}

syn_status syn__sample_cuda(syn_call *c) {
    const syn_select_rows r = syn_number_rows_of(&c->in[0]);
    sampling s = {};
    s.temperature = c->attr[0].f;
    s.top_k = c->attr[1].i > 0 && c->attr[1].i < r.n ? c->attr[1].i : r.n;
    s.top_p = c->attr[2].f;
    s.key = syn__counter_hash((uint64_t)c->attr[3].i, (uint64_t)c->attr[4].i + 1);
    s.min_p = c->n_attr > 5 ? c->attr[5].f : 0.0;
    if (s.temperature == 0.0 || (s.top_k == r.n && s.top_p == 1.0)) return sample_in_order(c, r, s);
    return sample_the_best(c, r, s);
}
