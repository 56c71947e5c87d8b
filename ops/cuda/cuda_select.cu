/* Token selection: argmax, top_k, repetition_penalty. A row is divided among many blocks, and their
   selections are combined. Equal values are ordered by their indices, so results are
   reproducible. */
#include "ops/cuda/select.cuh"

enum { THREADS = SYN_SELECT_THREADS };

/* ---- argmax ---- */

/* The largest key of elements from .. end - 1 of a row, W at a time. */
template <typename T, int W>
static __device__ __forceinline__ uint64_t best_of(const T *x, int64_t from, int64_t end) {
    uint64_t best = 0;
    for (int64_t i = from + (int64_t)threadIdx.x * W; i < end; i += (int64_t)blockDim.x * W) {
        const syn_pack<T, W> pack = syn_load<T, W>(x + i);
#pragma unroll
        for (int k = 0; k < W; k++)
            best = syn_larger()(best, syn_key(syn_to_float(pack.at[k]), i + k));
    }
    return best;
}

template <typename T>
static __global__ void best_kernel(const T *x, uint64_t *keys, const syn_select_rows r) {
    constexpr int wide = syn_wide<T>::n;
    __shared__ uint64_t space[THREADS];
    for (int64_t b = blockIdx.x; b < r.rows * r.parts; b += gridDim.x) {
        const T *row = syn_row_at(x, r, b / r.parts);
        const int64_t from = b % r.parts * SYN_PART;
        const int64_t end = from + SYN_PART < r.n ? from + SYN_PART : r.n;
        const bool packs = reinterpret_cast<uintptr_t>(row) % 16 == 0;
        const int64_t some = packs ? from + (end - from) / wide * wide : from;
        const uint64_t packed = best_of<T, wide>(row, from, some);
        const uint64_t best = syn_larger()(packed, best_of<T, 1>(row, some, end));
        const uint64_t all = syn_join(best, space, syn_larger());
        if (threadIdx.x == 0) keys[b] = all;
    }
}

void syn__launch_best(const syn_call *c, const syn_select_rows &r, uint64_t *keys) {
    SYN_WITH_FLOAT(c->in[0].spec.dtype, T,
                   SYN_LAUNCH(best_kernel<T>, syn_blocks(r.rows * r.parts, 1, 1),
                              syn_select_threads(r.n, SYN_EACH_OF_PART), 0, syn__cuda_of(c)->stream,
                              static_cast<const T *>(c->in[0].data), keys, r));
}

template <typename T>
static __global__ void argmax_kernel(const T *x, const uint64_t *parts, int32_t *out,
                                     const syn_select_rows r) {
    __shared__ uint64_t space[THREADS];
    for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
        const uint64_t best = syn_largest(parts + row * r.parts, r.parts, 1, space);
        /* As on the CPU: no element is larger than a NaN. */
        const float first = syn_to_float(*syn_row_at(x, r, row));
        if (threadIdx.x == 0) out[row] = first != first ? 0 : syn_key_index(best);
    }
}

void syn__launch_argmax(const syn_call *c, const syn_select_rows &r, const uint64_t *parts,
                        int32_t *out) {
    SYN_WITH_FLOAT(c->in[0].spec.dtype, T,
                   SYN_LAUNCH(argmax_kernel<T>, syn_blocks(r.rows, 1, 1),
                              syn_select_threads(r.parts, 1), 0, syn__cuda_of(c)->stream,
                              static_cast<const T *>(c->in[0].data), parts, out, r));
}

static syn_status argmax_cuda(syn_call *c) {
    const syn_select_rows r = syn_number_rows_of(&c->in[0]);
    void *parts;
    SYN_TRY(syn__cuda_scratch(c, (size_t)(r.rows * r.parts) * sizeof(uint64_t), &parts));
    syn__launch_best(c, r, static_cast<uint64_t *>(parts));
    syn__launch_argmax(c, r, static_cast<const uint64_t *>(parts),
                       static_cast<int32_t *>(c->out[0].data));
    return syn__launched(c);
}

/* ---- top_k: sorts runs, then counts for each key the larger keys in the other runs ---- */

/* Runs log2(K) stages of a bitonic sorting network (Batcher 1968), in which the keys of a pair are
   from K/2 * low down to `low` keys apart. A thread holds the K keys of such pairs in registers.
   Runs of `length` keys are sorted alternately in descending and ascending order. */
template <int K>
static __device__ __forceinline__ void sort_stages(uint64_t *keys, int size, int length, int low) {
    for (int i = (int)threadIdx.x; i < size / K; i += (int)blockDim.x) {
        const int at = i / low * (K * low) + i % low;
        const bool down = (at & length) == 0;
        uint64_t key[K];
#pragma unroll
        for (int j = 0; j < K; j++) key[j] = keys[at + j * low];
#pragma unroll
        for (int apart = K / 2; apart > 0; apart /= 2)
#pragma unroll
            for (int j = 0; j < K; j++) {
                if (j & apart) continue;
                const uint64_t a = key[j], b = key[j + apart];
                key[j] = (a < b) == down ? b : a;
                key[j + apart] = (a < b) == down ? a : b;
            }
#pragma unroll
        for (int j = 0; j < K; j++) keys[at + j * low] = key[j];
    }
    __syncthreads();
}

/* size: a power of 2. */
static __device__ __forceinline__ void sort_descending(uint64_t *keys, int size) {
    for (int length = 2; length <= size; length *= 2) {
        int apart = length / 2;
        for (; apart >= 4; apart /= 8) sort_stages<8>(keys, size, length, apart / 4);
        if (apart == 2) sort_stages<4>(keys, size, length, 1);
        if (apart == 1) sort_stages<2>(keys, size, length, 1);
    }
}

template <typename T>
static __global__ void runs_kernel(const T *x, uint64_t *keys, const syn_select_rows r, int size,
                                   int keep) {
    __shared__ uint64_t run[SYN_RUN];
    for (int64_t b = blockIdx.x; b < r.rows * r.runs; b += gridDim.x) {
        const T *row = syn_row_at(x, r, b / r.runs);
        const int64_t from = b % r.runs * SYN_RUN;
        for (int i = (int)threadIdx.x; i < size; i += (int)blockDim.x)
            run[i] = from + i < r.n ? syn_key(syn_to_float(row[from + i]), from + i) : 0;
        __syncthreads();
        sort_descending(run, size);
        for (int i = (int)threadIdx.x; i < keep; i += (int)blockDim.x) keys[b * keep + i] = run[i];
        __syncthreads();
    }
}

void syn__launch_runs(const syn_call *c, const syn_select_rows &r, int64_t keep, uint64_t *keys) {
    int size = 1;
    while (size < SYN_RUN && size < r.n) size *= 2;
    SYN_WITH_FLOAT(c->in[0].spec.dtype, T,
                   SYN_LAUNCH(runs_kernel<T>, syn_blocks(r.rows * r.runs, 1, 1),
                              syn_select_threads(r.n, SYN_EACH_OF_RUN), 0, syn__cuda_of(c)->stream,
                              static_cast<const T *>(c->in[0].data), keys, r, size, (int)keep));
}

/* Returns the number of larger keys among the n keys of a run. Searches from the front, because few
   keys are larger than a selected key. */
static __device__ __forceinline__ int64_t count_above(const uint64_t *run, int64_t n,
                                                      uint64_t key) {
    int64_t low = 0, high = 1;
    while (high <= n && run[high - 1] > key) {
        low = high;
        high *= 2;
    }
    high = high - 1 < n ? high - 1 : n; /* now run[high] is not larger, or does not exist */
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (run[middle] > key) low = middle + 1;
        else high = middle;
    }
    return low;
}

template <typename T>
static __global__ void rank_kernel(const T *x, const uint64_t *keys, T *values, int32_t *indices,
                                   const syn_select_rows r, int64_t keep, int64_t k) {
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < r.rows * r.runs * keep;
         i += (int64_t)gridDim.x * THREADS) {
        const int64_t row = i / keep / r.runs, own = i / keep % r.runs;
        const uint64_t key = keys[i];
        int64_t place = i % keep;
        if (key == 0) continue;
        for (int64_t run = 0; run < r.runs && place < k; run++)
            if (run != own) place += count_above(keys + (row * r.runs + run) * keep, keep, key);
        if (place >= k) continue;
        indices[row * k + place] = syn_key_index(key);
        values[row * k + place] = syn_row_at(x, r, row)[syn_key_index(key)];
    }
}

static syn_status top_k_cuda(syn_call *c) {
    const syn_select_rows r = syn_number_rows_of(&c->in[0]);
    const int64_t k = c->attr[0].i, keep = k < SYN_RUN ? k : (int64_t)SYN_RUN;
    void *scratch;
    SYN_TRY(syn__cuda_scratch(c, (size_t)(r.rows * r.runs * keep) * sizeof(uint64_t), &scratch));
    uint64_t *keys = static_cast<uint64_t *>(scratch);
    syn__launch_runs(c, r, keep, keys);
    SYN_WITH_FLOAT(c->in[0].spec.dtype, T,
                   SYN_LAUNCH(rank_kernel<T>, syn_blocks(r.rows * r.runs * keep, THREADS, 1),
                              THREADS, 0, syn__cuda_of(c)->stream,
                              static_cast<const T *>(c->in[0].data), keys,
                              static_cast<T *>(c->out[0].data),
                              static_cast<int32_t *>(c->out[1].data), r, keep, k));
    return syn__launched(c);
}

/* ---- repetition_penalty ---- */

/* Starts from the old logit, so a token that was seen twice is penalized once. */
template <typename T>
static __global__ void penalty_kernel(const T *x, const int32_t *seen, T *y, int64_t rows,
                                      int64_t many, int64_t vocab, int64_t x_stride,
                                      int64_t seen_stride, float penalty, syn__fault *fault,
                                      uint32_t node) {
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < rows * many;
         i += (int64_t)gridDim.x * THREADS) {
        const int64_t row = i / many;
        const int32_t token = seen[row * seen_stride + i % many];
        if (token >= vocab) syn_fault(fault, node, SYN__FAULT_SEEN, token, vocab);
        if (token < 0 || token >= vocab) continue;
        const float old = syn_to_float(x[row * x_stride + token]);
        y[row * vocab + token] = syn_from_float<T>(old < 0 ? old * penalty : old / penalty);
    }
}

static syn_status repetition_penalty_cuda(syn_call *c) {
    const syn__cuda_at *at = syn__cuda_of(c);
    const syn_operand *x = &c->in[0], *seen = &c->in[1];
    const int64_t rows = seen->spec.dims[0], many = seen->spec.dims[1];
    syn__cuda_copy(c, &c->out[0], x);
    SYN_WITH_FLOAT(
        x->spec.dtype, T,
        SYN_LAUNCH(penalty_kernel<T>, syn_blocks(rows * many, THREADS, 1), THREADS, 0, at->stream,
                   static_cast<const T *>(x->data), static_cast<const int32_t *>(seen->data),
                   static_cast<T *>(c->out[0].data), rows, many, x->spec.dims[1], x->strides[0],
                   seen->strides[0], (float)c->attr[0].f, at->fault, at->node));
    return syn__launched(c);
}

const syn__cuda_row syn__cuda_select[] = {{SYN_OP_ARGMAX, argmax_cuda},
                                          {SYN_OP_TOP_K, top_k_cuda},
                                          {SYN_OP_REPETITION_PENALTY, repetition_penalty_cuda},
                                          {SYN_OP_SAMPLE, syn__sample_cuda},
                                          {SYN_OP_NONE, NULL}};
