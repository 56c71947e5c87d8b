/* Paged KV caches: paged_append and paged_attention. Each block of threads computes one query of a
   head, so a prompt's queries read its keys again and again. This is simple and suits decoding,
   where a sequence has one query. */
#include "ops/cuda/each.cuh"

/* ---- paged_append ---- */

struct appending {
    int64_t tokens, depth, slots, n;
    int64_t cache_head, cache_row, x_head, x_row, slot_step;
    syn__fault *fault;
    uint32_t node;
};

template <typename E>
static __global__ void append_kernel(E *cache, const E *x, const int32_t *slots,
                                     const appending a) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.n;
         i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t row = i / a.depth, head = row / a.tokens, token = row % a.tokens;
        const int64_t d = i % a.depth, slot = slots[token * a.slot_step];
        if (slot >= 0 && slot < a.slots)
            cache[head * a.cache_head + slot * a.cache_row + d] =
                x[head * a.x_head + token * a.x_row + d];
        else syn_fault(a.fault, a.node, SYN__FAULT_SLOT, slot, a.slots);
    }
}

template <typename E> static void launch_append(const syn_call *c, const appending &a) {
    SYN_LAUNCH(append_kernel<E>, syn_blocks(a.n, SYN_EACH_THREADS, 1), SYN_EACH_THREADS, 0,
               syn__cuda_of(c)->stream, static_cast<E *>(c->out[0].data),
               static_cast<const E *>(c->in[1].data), static_cast<const int32_t *>(c->in[2].data),
               a);
}

static syn_status paged_append_cuda(syn_call *c) {
    const syn_operand *cache = &c->out[0], *x = &c->in[1];
    appending a = {};
    a.tokens = x->spec.dims[2];
    a.depth = x->spec.dims[3];
    a.slots = cache->spec.dims[2];
    a.n = syn_elems(&x->spec);
    a.cache_head = cache->strides[1];
    a.cache_row = cache->strides[2];
    a.x_head = x->strides[1];
    a.x_row = x->strides[2];
    a.slot_step = c->in[2].strides[0];
    a.fault = syn__cuda_of(c)->fault;
    a.node = syn__cuda_of(c)->node;
    switch (syn_dtype_bytes((syn_dtype)x->spec.dtype)) {
    case 2:
        launch_append<uint16_t>(c, a);
        break;
    case 4:
        launch_append<uint32_t>(c, a);
        break;
    default:
        launch_append<uint64_t>(c, a);
        break;
    }
    return syn__launched(c);
}

/* ---- paged_attention ---- */

/* Sequences of one launch. Kernel parameters may have 4 KiB. */
enum { SEQUENCES = 128, THREADS = 128 };

struct serving {
    int64_t first;             /* number of the first sequence */
    int n;                     /* sequences */
    int64_t token;             /* the first packed token of sequence `first` */
    int tokens[SEQUENCES + 1]; /* number of tokens of this launch before each sequence */
    int keys[SEQUENCES];
    int64_t heads, group, depth, values, block, blocks, window;
    int64_t q_head, q_row, k_head, k_row, v_head, v_row, table_row, sink_step;
    float scale, cap;
    syn__fault *fault;
    uint32_t node;
};

/* The sequence that a token belongs to. */
static __device__ __forceinline__ int sequence_of(const serving &s, int token) {
    int low = 0, high = s.n;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (s.tokens[middle] <= token) low = middle;
        else high = middle;
    }
    return low;
}

/* Shared memory: the query, the sums of weighted values, and each key's weight and slot. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    serve_kernel(const serving s, const T *q, const T *k, const T *v, const int32_t *table,
                 const T *sinks, T *out) {
    SYN_DYNAMIC_SHARED(float, query);
    float *const sums = query + s.depth, *const weights = sums + s.values,
                 *const space = weights + THREADS;
    int *const slots = reinterpret_cast<int *>(space + SYN_WARP);
    const int thread = (int)threadIdx.x;
    for (int64_t work = blockIdx.x; work < s.tokens[s.n] * s.heads; work += gridDim.x) {
        const int token = (int)(work / s.heads), number = sequence_of(s, token);
        const int64_t head = work % s.heads, at = s.token + token;
        const int64_t end = s.keys[number] - (s.tokens[number + 1] - token) + 1;
        const int64_t begin = s.window > 0 && end > s.window ? end - s.window : 0;
        const int32_t *blocks = table + (s.first + number) * s.table_row;
        const T *const keys = k + head / s.group * s.k_head;
        const T *const rows = v + head / s.group * s.v_head;
        float max = sinks ? syn_to_float(sinks[head * s.sink_step]) : -INFINITY;
        float sum = sinks ? 1 : 0;
        for (int64_t d = thread; d < s.depth; d += THREADS)
            query[d] = s.scale * syn_to_float(q[head * s.q_head + at * s.q_row + d]);
        for (int64_t d = thread; d < s.values; d += THREADS) sums[d] = 0;
        __syncthreads();
        for (int64_t key = begin; key < end; key += THREADS) {
            const int64_t mine = key + thread;
            const int64_t block = mine < end ? blocks[mine / s.block] : 0;
            const bool valid = block >= 0 && block < s.blocks;
            float score = -INFINITY;
            if (!valid) syn_fault(s.fault, s.node, SYN__FAULT_BLOCK, block, s.blocks);
            const int64_t slot = valid ? block * s.block + mine % s.block : 0;
            if (mine < end) {
                score = 0;
                for (int64_t d = 0; d < s.depth; d++)
                    score = fmaf(query[d], syn_to_float(keys[slot * s.k_row + d]), score);
                if (s.cap > 0) score = s.cap * tanhf(score / s.cap);
            }
            const float top = fmaxf(max, syn_block_max(score, space));
            const float weight = mine < end ? expf(score - top) : 0, shrink = expf(max - top);
            sum = sum * shrink + syn_block_sum(weight, space);
            max = top;
            weights[thread] = weight;
            slots[thread] = (int)slot;
            __syncthreads();
            const int n = (int)(end - key < THREADS ? end - key : (int64_t)THREADS);
            for (int64_t d = thread; d < s.values; d += THREADS) {
                float x = sums[d] * shrink;
                for (int i = 0; i < n; i++)
                    x = fmaf(weights[i], syn_to_float(rows[slots[i] * s.v_row + d]), x);
                sums[d] = x;
            }
            __syncthreads();
        }
        for (int64_t d = thread; d < s.values; d += THREADS)
            out[(at * s.heads + head) * s.values + d] = syn_from_float<T>(sums[d] / sum);
        __syncthreads();
    }
}

template <typename T> static void launch_serve(const syn_call *c, const serving &s) {
    enum { Q, K, V, TABLE, SINKS };
    const size_t shared = (size_t)(s.depth + s.values + 2 * THREADS + SYN_WARP) * sizeof(float);
    SYN_LAUNCH(serve_kernel<T>, syn_blocks(s.tokens[s.n] * s.heads, 1, 1), THREADS, shared,
               syn__cuda_of(c)->stream, s, static_cast<const T *>(c->in[Q].data),
               static_cast<const T *>(c->in[K].data), static_cast<const T *>(c->in[V].data),
               static_cast<const int32_t *>(c->in[TABLE].data),
               c->n_in > SINKS ? static_cast<const T *>(c->in[SINKS].data) : NULL,
               static_cast<T *>(c->out[0].data));
}

static syn_status paged_attention_cuda(syn_call *c) {
    enum { SCALE, CAP, BLOCK, WINDOW, LISTS };
    const syn_operand *q = &c->in[0], *k = &c->in[1], *v = &c->in[2];
    const syn_attr *queries = c->attr + LISTS + 1, *keys = queries + c->attr[LISTS].i + 1;
    serving s = {};
    s.heads = q->spec.dims[1];
    s.group = s.heads / k->spec.dims[1];
    s.depth = q->spec.dims[3];
    s.values = v->spec.dims[3];
    s.block = c->attr[BLOCK].i;
    s.blocks = k->spec.dims[2] / s.block;
    s.window = c->attr[WINDOW].i;
    s.q_head = q->strides[1];
    s.q_row = q->strides[2];
    s.k_head = k->strides[1];
    s.k_row = k->strides[2];
    s.v_head = v->strides[1];
    s.v_row = v->strides[2];
    s.table_row = c->in[3].strides[0];
    s.sink_step = c->n_in > 4 ? c->in[4].strides[0] : 0;
    s.scale = (float)c->attr[SCALE].f;
    s.cap = (float)c->attr[CAP].f;
    s.fault = syn__cuda_of(c)->fault;
    s.node = syn__cuda_of(c)->node;
    for (; s.first < c->attr[LISTS].i; s.first += s.n, s.token += s.tokens[s.n]) {
        const int64_t left = c->attr[LISTS].i - s.first;
        s.n = (int)(left < SEQUENCES ? left : (int64_t)SEQUENCES);
        for (int i = 0; i < s.n; i++) {
            s.tokens[i + 1] = s.tokens[i] + (int)queries[s.first + i].i;
            s.keys[i] = (int)keys[s.first + i].i;
        }
        SYN_WITH_FLOAT(q->spec.dtype, T, launch_serve<T>(c, s));
    }
    return syn__launched(c);
}

const syn__cuda_row syn__cuda_paged[] = {{SYN_OP_PAGED_APPEND, paged_append_cuda},
                                         {SYN_OP_PAGED_ATTENTION, paged_attention_cuda},
                                         {SYN_OP_NONE, NULL}};
