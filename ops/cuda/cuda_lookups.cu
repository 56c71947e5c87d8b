/* Embedding and its gradient, rotary position embedding, and the KV cache. */
#include "ops/cuda/each.cuh"
#include "ops/cuda/sort.cuh"

/* ---- embedding ---- */

/* E: the unit that is copied with one instruction, 2 to 16 bytes. Ids outside the table give
   zeros. */
template <typename E>
static __global__ void embedding_kernel(const E *table, const int32_t *ids, E *out,
                                        const syn_walk<1> walk, int64_t step, int64_t rows,
                                        int64_t first, int64_t width, int64_t n) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t at[1];
        const int64_t place = i / width, column = i - place * width;
        syn_walk_to(walk, place, at);
        const int64_t row = ids[at[0]] - first;
        out[i] = row >= 0 && row < rows ? table[row * step + column] : E();
    }
}

/* A walk over all ids. */
static int64_t walk_ids(syn_walk<1> *walk, const syn_operand *ids) {
    *walk = syn_walk<1>();
    for (int d = 0; d < ids->spec.rank; d++)
        syn_walk_add(walk, ids->spec.dims[d], {ids->strides[d]});
    return syn_walk_done(walk);
}

template <typename E> static void launch_embedding(const syn_call *c, int64_t each) {
    const syn_operand *table = &c->in[0], *ids = &c->in[1];
    syn_walk<1> walk;
    const int64_t width = table->spec.dims[1] / each, n = walk_ids(&walk, ids) * width;
    SYN_LAUNCH(embedding_kernel<E>, syn_blocks(n, SYN_EACH_THREADS, 1), SYN_EACH_THREADS, 0,
               syn__cuda_of(c)->stream, static_cast<const E *>(table->data),
               static_cast<const int32_t *>(ids->data), static_cast<E *>(c->out[0].data), walk,
               table->strides[0] / each, table->spec.dims[0], c->attr[0].i, width, n);
}

static syn_status embedding_cuda(syn_call *c) {
    const syn_operand *table = &c->in[0];
    const int64_t bytes = (int64_t)syn_dtype_bytes((syn_dtype)table->spec.dtype);
    const int64_t pack = 16 / bytes;
    if (table->spec.dims[1] == 0) return SYN_OK;
    if (table->spec.dims[1] % pack == 0 && table->strides[0] % pack == 0 &&
        reinterpret_cast<uintptr_t>(table->data) % 16 == 0)
        launch_embedding<uint4>(c, pack);
    else if (bytes == 4) launch_embedding<uint32_t>(c, 1);
    else launch_embedding<uint16_t>(c, 1);
    return syn__launched(c);
}

/* ---- gradient of embedding ----
   Positions are sorted by id with a stable sort and split into chunks. A block adds the rows of a
   chunk in order. If the positions of an id extend to other chunks, the sums per chunk are stored
   as parts, and a second kernel adds these parts in order. Results are therefore reproducible, and
   no block has to process a frequent id alone. */

enum { CHUNK = 64 };

struct scattering {
    /* Sorted. Positions without a gradient come last, with the id `none`. */
    const uint32_t *ids, *places;
    uint32_t none;
    int64_t n; /* number of positions */
    /* (chunks, 2, width): the chunk's sum for an id that began in an earlier chunk, and for an id
       that continues in the next. */
    float *parts;
    float *table;
    int64_t step, width;
};

static __device__ __forceinline__ bool id_continues(const scattering &s, int64_t end) {
    return end < s.n && s.ids[end] == s.ids[end - 1];
}

template <typename T>
static __global__ void chunks_kernel(const scattering s, const T *dy, const syn_walk<1> walk) {
    const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x;
    const int64_t first = (int64_t)blockIdx.x * CHUNK;
    const int64_t end = first + CHUNK < s.n ? first + CHUNK : s.n;
    if (column >= s.width) return;
    bool before = first > 0 && s.ids[first - 1] == s.ids[first];
    float sum = 0;
    for (int64_t i = first; i < end && s.ids[i] != s.none; i++) {
        int64_t at[1];
        syn_walk_to(walk, s.places[i], at);
        sum += syn_to_float(dy[at[0] + column]);
        if (i + 1 < end && s.ids[i + 1] == s.ids[i]) continue;
        const bool behind = i + 1 == end && id_continues(s, end);
        if (before || behind)
            s.parts[((int64_t)blockIdx.x * 2 + (before ? 0 : 1)) * s.width + column] = sum;
        else s.table[(int64_t)s.ids[i] * s.step + column] += sum;
        sum = 0;
        before = false;
    }
}

/* Adds up the parts of an id that begins in this block's chunk and continues in the next. */
static __global__ void parts_kernel(const scattering s) {
    const int64_t column = (int64_t)blockIdx.y * blockDim.x + threadIdx.x;
    int64_t chunk = blockIdx.x, first = chunk * CHUNK, end = first + CHUNK;
    if (column >= s.width || !id_continues(s, end)) return;
    const uint32_t id = s.ids[end - 1];
    if (id == s.none || (first > 0 && s.ids[first - 1] == id)) return;
    float sum = s.parts[(chunk * 2 + 1) * s.width + column];
    do {
        chunk++;
        end = (chunk + 1) * CHUNK;
        sum += s.parts[chunk * 2 * s.width + column];
    } while (end < s.n && s.ids[end - 1] == id && id_continues(s, end));
    s.table[(int64_t)id * s.step + column] += sum;
}

/* Converts ids to row numbers of the table; `none` for ids without a gradient. */
static __global__ void rows_kernel(const int32_t *ids, const syn_walk<1> walk, uint32_t *rows,
                                   uint32_t *places, int64_t first, uint32_t none, int64_t padding,
                                   int64_t n) {
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t at[1];
        syn_walk_to(walk, i, at);
        const int64_t id = ids[at[0]], row = id - first;
        rows[i] = row < 0 || row >= none || id == padding ? none : (uint32_t)row;
        places[i] = (uint32_t)i;
    }
}

/* Adds dy to the table. ids: number of that input; dy is the next one. others: number of
   attributes before the optional padding. */
static syn_status scatter(const syn_call *c, int ids, int others) {
    const syn__cuda_at *d = syn__cuda_of(c);
    const syn_operand *dy = &c->in[ids + 1], *table = &c->out[0];
    const int64_t padding = c->n_attr > others ? c->attr[others].i : -1;
    syn_walk<1> id_walk, dy_walk;
    scattering s = {};
    s.n = walk_ids(&id_walk, &c->in[ids]);
    s.width = table->spec.dims[1];
    s.step = table->strides[0];
    s.none = (uint32_t)table->spec.dims[0];
    s.table = static_cast<float *>(table->data);
    if (s.n == 0 || s.width == 0) return SYN_OK;
    if (s.n > INT32_MAX || table->spec.dims[0] > INT32_MAX)
        return SYN_FAIL(c->err, SYN_E_UNSUPPORTED, "more than 2^31 ids or rows");
    syn_walk_rows(&dy_walk, &dy->spec, {dy});
    const int64_t chunks = (s.n + CHUNK - 1) / CHUNK;
    const size_t parts_bytes = ((size_t)(chunks * 2 * s.width) * sizeof(float) + 255) / 256 * 256;
    void *scratch;
    SYN_TRY(syn__cuda_scratch(c, parts_bytes + syn_sort_bytes(s.n), &scratch));
    s.parts = static_cast<float *>(scratch);
    syn_sort sort = syn_sort_in(static_cast<char *>(scratch) + parts_bytes, s.n);
    SYN_LAUNCH(rows_kernel, syn_blocks(s.n, SYN_EACH_THREADS, 1), SYN_EACH_THREADS, 0, d->stream,
               static_cast<const int32_t *>(c->in[ids].data), id_walk, sort.keys[0], sort.values[0],
               c->attr[0].i, s.none, padding, s.n);
    syn_sort_launch(&sort, s.none, d->stream);
    s.ids = sort.keys[0];
    s.places = sort.values[0];
    const unsigned threads = s.width < 256 ? syn_row_threads(4 * s.width) : 256;
    const dim3 grid((unsigned)chunks, syn_blocks(s.width, threads, 1));
    SYN_WITH_FLOAT(dy->spec.dtype, T,
                   SYN_LAUNCH(chunks_kernel<T>, grid, threads, 0, d->stream, s,
                              static_cast<const T *>(dy->data), dy_walk));
    SYN_LAUNCH(parts_kernel, grid, threads, 0, d->stream, s);
    return SYN_OK;
}

static syn_status embedding_grad_cuda(syn_call *c) {
    const size_t bytes = (size_t)syn_elems(&c->out[0].spec) * sizeof(float);
    if (bytes > 0) {
        SYN_CUDA(cudaMemsetAsync(c->out[0].data, 0, bytes, syn__cuda_of(c)->stream), "a fill",
                 c->err);
        syn__cuda_note_bytes(c, SYN_PIECE_FILL, bytes);
    }
    SYN_TRY(scatter(c, 0, 2));
    return syn__launched(c);
}

static syn_status embedding_grad_add_cuda(syn_call *c) {
    SYN_TRY(scatter(c, 1, 1));
    return syn__launched(c);
}

/* ---- rope ---- */

struct rotation {
    int64_t heads, tokens, depth, half, x_strides[3], at_strides[2];
    int64_t first, step, apart; /* pair i consists of elements first + i * step and `apart` more */
    float factor, sine_factor;
};

/* Each block rotates all heads of one token, so the angles are computed once. */
template <typename T>
static __global__ void rope_kernel(const T *x, const int32_t *positions, const float *frequencies,
                                   T *y, const rotation r) {
    SYN_DYNAMIC_SHARED(float, cosines);
    float *sines = cosines + r.half;
    const int64_t b = blockIdx.x / r.tokens, t = blockIdx.x % r.tokens;
    const float position = (float)positions[b * r.at_strides[0] + t * r.at_strides[1]];
    for (int64_t i = threadIdx.x; i < r.half; i += blockDim.x) {
        const float angle = position * frequencies[i];
        cosines[i] = r.factor * cosf(angle);
        sines[i] = r.sine_factor * sinf(angle);
    }
    __syncthreads();
    const int64_t rest = r.depth - 2 * r.half, each = r.half + rest;
    for (int64_t k = threadIdx.x; k < r.heads * each; k += blockDim.x) {
        const int64_t h = k / each, i = k % each;
        const T *in = x + b * r.x_strides[0] + h * r.x_strides[1] + t * r.x_strides[2];
        T *out = y + ((b * r.heads + h) * r.tokens + t) * r.depth;
        if (i >= r.half) {
            const int64_t other = i - r.half, d = other < r.first ? other : other + 2 * r.half;
            out[d] = in[d];
            continue;
        }
        const int64_t one = r.first + i * r.step, two = one + r.apart;
        const float p = syn_to_float(in[one]), q = syn_to_float(in[two]);
        out[one] = syn_from_float<T>(p * cosines[i] - q * sines[i]);
        out[two] = syn_from_float<T>(q * cosines[i] + p * sines[i]);
    }
}

static syn_status rope_cuda(syn_call *c) {
    const syn_operand *x = &c->in[0], *at = &c->in[1];
    const int64_t *n = x->spec.dims;
    rotation r = {};
    r.heads = n[1];
    r.tokens = n[2];
    r.depth = n[3];
    r.half = c->in[2].spec.dims[0];
    for (int d = 0; d < 3; d++) r.x_strides[d] = x->strides[d];
    r.at_strides[0] = at->spec.dims[0] > 1 ? at->strides[0] : 0;
    r.at_strides[1] = at->strides[1];
    const bool more = c->n_attr > 2, interleaved = more && c->attr[3].i;
    r.first = more ? c->attr[2].i : 0;
    r.step = interleaved ? 2 : 1;
    r.apart = interleaved ? 1 : r.half;
    r.factor = (float)c->attr[0].f;
    r.sine_factor = c->attr[1].i ? -r.factor : r.factor;
    if (syn_elems(&x->spec) == 0) return SYN_OK;
    const size_t shared = 2 * (size_t)r.half * sizeof(float);
    SYN_WITH_FLOAT(x->spec.dtype, T,
                   SYN_LAUNCH(rope_kernel<T>, syn_blocks(n[0] * n[2], 1, 1), SYN_EACH_THREADS,
                              shared, syn__cuda_of(c)->stream, static_cast<const T *>(x->data),
                              static_cast<const int32_t *>(at->data),
                              static_cast<const float *>(c->in[2].data),
                              static_cast<T *>(c->out[0].data), r));
    return syn__launched(c);
}

/* ---- the KV cache ---- */

static syn_status kv_append_cuda(syn_call *c) {
    syn_operand rows = c->out[0]; /* the rows of the cache that x is copied to */
    const size_t bytes = syn_dtype_bytes((syn_dtype)rows.spec.dtype);
    rows.spec = c->in[1].spec;
    rows.data = static_cast<char *>(rows.data) + c->attr[0].i * rows.strides[2] * (int64_t)bytes;
    syn__cuda_copy(c, &rows, &c->in[1]);
    return syn__launched(c);
}

const syn__cuda_row syn__cuda_lookups[] = {{SYN_OP_EMBEDDING, embedding_cuda},
                                           {SYN_OP_EMBEDDING_GRAD, embedding_grad_cuda},
                                           {SYN_OP_EMBEDDING_GRAD_ADD, embedding_grad_add_cuda},
                                           {SYN_OP_ROPE, rope_cuda},
                                           {SYN_OP_KV_APPEND, kv_append_cuda},
                                           {SYN_OP_NONE, NULL}};
