/* The gradient of fused attention, recomputed from the log-sum-exp as in Dao et al. (2022). With
   weights p = exp(scale q k' + mask - log-sum-exp), dropout factors f and dp = dout v':
   dv = (p f)' dout,  ds = p (dp f - mean),  dq = scale ds k,  dk = scale ds' q,
   where mean is the sum of out dout over a query's depth. One kernel computes dq: each block owns
   a tile of queries and sums over keys. Another computes dk and dv: each block owns a tile of keys
   and sums over the queries of all heads that share them, in a fixed order. No two blocks add to
   the same sum. */
#include "ops/cuda/attention.cuh"
#include "ops/cuda/tiles.cuh"
#include "ops/cuda/walk.cuh"

struct grad_rows {
    syn_head_rows q, k, v, out, dout, dq, dk, dv; /* a gradient without data (dq, dk, dv) is not
                                                     requested */
    const float *log_sum;                         /* (B, H, T) */
    int64_t sum_batch, sum_head;
    float *mean; /* (B, H, T), dense */
};

/* The values of a query from which the weights and gradients of its scores are computed. */
struct grad_query {
    float log_sum, mean; /* log_sum in base 2 */
    uint2 drop;
};

static __device__ __forceinline__ grad_query query_of(const syn_attention &a, const grad_rows &rows,
                                                      int64_t b, int64_t h, int64_t t) {
    grad_query q = {};
    const float sum = rows.log_sum[b * rows.sum_batch + h * rows.sum_head + t];
    q.log_sum = sum == -INFINITY ? 0 : sum * SYN_LOG2_E;
    q.mean = rows.mean[(b * a.heads + h) * a.queries + t];
    if (a.drop) q.drop = syn_drop_row(a, b, h, t);
    return q;
}

static __device__ __forceinline__ float bias_of(const syn_attention &a, int64_t b, int64_t s) {
    return a.mask ? a.mask[b * a.mask_row + s] * SYN_LOG2_E : 0;
}

/* Computes `mean`; each warp processes one query. */
template <typename T>
static __global__ void mean_kernel(const syn_attention a, const grad_rows rows) {
    const int64_t n = a.batches * a.heads * a.queries, per_block = blockDim.x / SYN_WARP;
    for (int64_t i = blockIdx.x * per_block + threadIdx.x / SYN_WARP; i < n;
         i += gridDim.x * per_block) {
        const int64_t t = i % a.queries, h = i / a.queries % a.heads, b = i / a.queries / a.heads;
        const T *out = syn_rows_at<T>(rows.out, b, h) + t * rows.out.row;
        const T *dout = syn_rows_at<T>(rows.dout, b, h) + t * rows.dout.row;
        float sum = 0;
        for (int d = (int)threadIdx.x % SYN_WARP; d < a.value_depth; d += SYN_WARP)
            sum += syn_to_float(out[d]) * syn_to_float(dout[d]);
        sum = syn_warp_sum(sum);
        if (threadIdx.x % SYN_WARP == 0) rows.mean[i] = sum;
    }
}

/* Replaces a thread's scores by p f and its dp by ds, for the first n columns. `query`, `bias` and
   `key` return the values of row r and column c. */
template <class Tile, typename Q, typename B, typename K>
static __device__ __forceinline__ void weigh(const syn_attention &a, float (&s)[Tile::R][Tile::C],
                                             float (&dp)[Tile::R][Tile::C], syn_band band, int n,
                                             Q query, B bias, K key) {
    const float scale = a.scale * SYN_LOG2_E;
#pragma unroll
    for (int r = 0; r < Tile::R; r++)
#pragma unroll
        for (int c = 0; c < Tile::C; c++) {
            const grad_query q = query(r, c);
            const float p = syn_exp2(fmaf(s[r][c], scale, bias(r, c) - q.log_sum));
            const float by = a.drop && syn_drops(a, q.drop, key(r, c)) ? 0 : a.keep;
            s[r][c] = p * by;
            dp[r][c] = p * (dp[r][c] * by - q.mean);
        }
    if (n == Tile::OTHER && syn_sees_all(band, Tile::OWN - 1, n)) return;
#pragma unroll
    for (int r = 0; r < Tile::R; r++)
#pragma unroll
        for (int c = 0; c < Tile::C; c++)
            if (Tile::column(c) >= n || !syn_sees(band, Tile::row(r), Tile::column(c)))
                s[r][c] = dp[r][c] = 0;
}

template <class Tile> struct grad_shared {
    static constexpr int OWN = Tile::OWN * Tile::ROW, OTHER = Tile::OTHER * Tile::ROW;
    static constexpr size_t bytes =
        (2 * OWN + Tile::STAGES * 2 * OTHER) * sizeof(typename Tile::element) +
        Tile::WEIGHTS * sizeof(float) + Tile::STAGES * Tile::OTHER * sizeof(grad_query);
    /* The number of blocks per multiprocessor for which registers must suffice (__launch_bounds__):
       3 for tiles that otherwise need only slightly too many. */
    static constexpr int blocks = Tile::THREADS == 128 && Tile::DEPTH <= 64 ? 3 : 1;
};

/* Computes dq. Own rows are queries and dout; other rows are keys and values. */
template <class Tile, typename T>
static __global__ void __launch_bounds__(Tile::THREADS)
    queries_kernel(const syn_attention a, const grad_rows rows, int64_t tiles) {
    typedef typename Tile::element E;
    typedef grad_shared<Tile> in;
    constexpr int R = Tile::R, C = Tile::C;
    SYN_DYNAMIC_SHARED(E, own);
    E *const others = own + 2 * in::OWN;
    float *const buffer = reinterpret_cast<float *>(others + Tile::STAGES * 2 * in::OTHER);
    float *const biases = buffer + Tile::WEIGHTS;
    const int pieces = syn_depth_pieces<Tile>(a.widest);
    for (int64_t number = blockIdx.x; number < a.batches * a.heads * tiles * pieces;
         number += gridDim.x) {
        const int64_t task = number / pieces;
        const int depth = (int)(number % pieces) * Tile::DEPTH; /* first element of the results */
        const int64_t h = task / tiles % a.heads, b = task / tiles / a.heads;
        const int64_t first = (tiles - 1 - task % tiles) * Tile::OWN, left = a.queries - first;
        const int n = (int)(left < Tile::OWN ? left : Tile::OWN);
        const T *const q = syn_rows_at<T>(rows.q, b, h) + first * rows.q.row;
        const T *const dout = syn_rows_at<T>(rows.dout, b, h) + first * rows.dout.row;
        const T *const k = syn_rows_at<T>(rows.k, b, h / a.group);
        const T *const v = syn_rows_at<T>(rows.v, b, h / a.group);
        const int64_t from = syn_keys_of(a, first).from,
                      until = syn_keys_of(a, first + n - 1).until;
        grad_query of[R] = {};
        float sums[R][Tile::A] = {};
#pragma unroll
        for (int r = 0; r < R; r++)
            if (Tile::row(r) < n) of[r] = query_of(a, rows, b, h, first + Tile::row(r));
        const auto fetch_own = [&](int d) {
            syn_fetch_rows<Tile, Tile::OWN>(own, q, n, a, a.depth, d,
                                            [&](int r) { return r * rows.q.row; });
            syn_fetch_rows<Tile, Tile::OWN>(own + in::OWN, dout, n, a, a.value_depth, d,
                                            [&](int r) { return r * rows.dout.row; });
        };
        const auto fetch_keys = [&](int64_t s, int stage, int d) {
            const int keys = (int)(until - s < Tile::OTHER ? until - s : Tile::OTHER);
            E *const to = others + stage * 2 * in::OTHER;
            syn_fetch_rows<Tile, Tile::OTHER>(to, k + s * rows.k.row, keys, a, a.depth, d,
                                              [&](int r) { return r * rows.k.row; });
            syn_fetch_rows<Tile, Tile::OTHER>(to + in::OTHER, v + s * rows.v.row, keys, a,
                                              a.value_depth, d,
                                              [&](int r) { return r * rows.v.row; });
        };
        const auto fetch = [&](int64_t s, int stage) {
            const int keys = (int)(until - s < Tile::OTHER ? until - s : Tile::OTHER);
            fetch_keys(s, stage, 0);
            for (int i = (int)threadIdx.x; i < keys; i += Tile::THREADS)
                biases[stage * Tile::OTHER + i] = bias_of(a, b, s + i);
        };
        if (from < until) {
            fetch_own(0);
            fetch(from, 0);
        }
        Tile::fetched();
        int stage = 0;
        for (int64_t s0 = from; s0 < until; s0 += Tile::OTHER) {
            const bool more = s0 + Tile::OTHER < until;
            if (Tile::STAGES > 1 && more) fetch(s0 + Tile::OTHER, stage ^ 1);
            Tile::fetched();
            Tile::template await<Tile::STAGES - 1>();
            __syncthreads();
            const E *const keys = others + stage * 2 * in::OTHER;
            const float *const bias = biases + stage * Tile::OTHER;
            float s[R][C], dp[R][C];
            const int n_keys = (int)(until - s0 < Tile::OTHER ? until - s0 : Tile::OTHER);
            Tile::scores(s, own, keys);
            Tile::scores(dp, own + in::OWN, keys + in::OTHER);
            if (Tile::DEEP)
                syn_deeper<Tile>(
                    a.widest, depth,
                    [&](int d, int e) {
                        fetch_own(d);
                        fetch_keys(s0, stage, e);
                    },
                    [&] {
                        syn_add_scores<Tile>(s, own, keys);
                        syn_add_scores<Tile>(dp, own + in::OWN, keys + in::OTHER);
                    });
            weigh<Tile>(
                a, s, dp, syn_band_of_query(a, first, s0), n_keys,
                [&](int r, int) { return of[r]; },
                [&](int, int c) { return bias[Tile::column(c)]; },
                [&](int, int c) { return s0 + Tile::column(c); });
            Tile::add(sums, dp, keys, buffer);
            __syncthreads();
            if (Tile::STAGES > 1) stage ^= 1;
            else if (more) fetch(s0 + Tile::OTHER, 0);
        }
        T *const dq = const_cast<T *>(syn_rows_at<T>(rows.dq, b, h)) + first * rows.dq.row;
#pragma unroll
        for (int r = 0; r < R; r++)
            if (Tile::row(r) < n)
                syn_store_row<Tile>(dq + Tile::row(r) * rows.dq.row + depth, sums[r], a.scale,
                                    a.depth - depth);
        __syncthreads();
    }
}

/* Computes dk and dv. Own rows are keys and values; other rows are queries and dout. */
template <class Tile, typename T>
static __global__ void __launch_bounds__(Tile::THREADS, grad_shared<Tile>::blocks)
    keys_kernel(const syn_attention a, const grad_rows rows, int64_t tiles) {
    typedef typename Tile::element E;
    typedef grad_shared<Tile> in;
    constexpr int R = Tile::R, C = Tile::C;
    SYN_DYNAMIC_SHARED(E, own);
    E *const others = own + 2 * in::OWN;
    grad_query *const queries =
        reinterpret_cast<grad_query *>(others + Tile::STAGES * 2 * in::OTHER);
    float *const buffer = reinterpret_cast<float *>(queries + Tile::STAGES * Tile::OTHER);
    const int pieces = syn_depth_pieces<Tile>(a.widest);
    for (int64_t number = blockIdx.x; number < a.batches * a.shared * tiles * pieces;
         number += gridDim.x) {
        const int64_t task = number / pieces;
        const int depth = (int)(number % pieces) * Tile::DEPTH; /* first element of the results */
        const int64_t h = task / tiles % a.shared, b = task / tiles / a.shared;
        const int64_t first = task % tiles * Tile::OWN, left = a.keys - first;
        const int n = (int)(left < Tile::OWN ? left : Tile::OWN);
        const T *const k = syn_rows_at<T>(rows.k, b, h) + first * rows.k.row;
        const T *const v = syn_rows_at<T>(rows.v, b, h) + first * rows.v.row;
        const int64_t from = syn_queries_of(a, first).from,
                      until = syn_queries_of(a, first + n - 1).until;
        /* iterate over the tiles of queries of all heads that share the keys */
        const int64_t per_head = from < until ? (until - from + Tile::OTHER - 1) / Tile::OTHER : 0;
        const int64_t steps = per_head * a.group;
        float bias[R] = {}, dk_sums[R][Tile::A] = {}, dv_sums[R][Tile::A] = {};
#pragma unroll
        for (int r = 0; r < R; r++)
            if (Tile::row(r) < n) bias[r] = bias_of(a, b, first + Tile::row(r));
        const auto fetch_own = [&](int d) {
            syn_fetch_rows<Tile, Tile::OWN>(own, k, n, a, a.depth, d,
                                            [&](int r) { return r * rows.k.row; });
            syn_fetch_rows<Tile, Tile::OWN>(own + in::OWN, v, n, a, a.value_depth, d,
                                            [&](int r) { return r * rows.v.row; });
        };
        const auto fetch_queries = [&](int64_t step, int stage, int d) {
            const int64_t head = h * a.group + step / per_head;
            const int64_t t = from + step % per_head * Tile::OTHER;
            const int some = (int)(until - t < Tile::OTHER ? until - t : Tile::OTHER);
            E *const to = others + stage * 2 * in::OTHER;
            syn_fetch_rows<Tile, Tile::OTHER>(to, syn_rows_at<T>(rows.q, b, head) + t * rows.q.row,
                                              some, a, a.depth, d,
                                              [&](int r) { return r * rows.q.row; });
            syn_fetch_rows<Tile, Tile::OTHER>(
                to + in::OTHER, syn_rows_at<T>(rows.dout, b, head) + t * rows.dout.row, some, a,
                a.value_depth, d, [&](int r) { return r * rows.dout.row; });
        };
        const auto fetch = [&](int64_t step, int stage) {
            const int64_t head = h * a.group + step / per_head;
            const int64_t t = from + step % per_head * Tile::OTHER;
            const int some = (int)(until - t < Tile::OTHER ? until - t : Tile::OTHER);
            fetch_queries(step, stage, 0);
            for (int i = (int)threadIdx.x; i < some; i += Tile::THREADS)
                queries[stage * Tile::OTHER + i] = query_of(a, rows, b, head, t + i);
        };
        if (steps > 0) {
            fetch_own(0);
            fetch(0, 0);
        }
        Tile::fetched();
        int stage = 0;
        for (int64_t step = 0; step < steps; step++) {
            const bool more = step + 1 < steps;
            if (Tile::STAGES > 1 && more) fetch(step + 1, stage ^ 1);
            Tile::fetched();
            Tile::template await<Tile::STAGES - 1>();
            __syncthreads();
            const int64_t t0 = from + step % per_head * Tile::OTHER;
            const E *const q = others + stage * 2 * in::OTHER, *const dout = q + in::OTHER;
            const grad_query *const of = queries + stage * Tile::OTHER;
            float s[R][C], dp[R][C];
            const int some = (int)(until - t0 < Tile::OTHER ? until - t0 : Tile::OTHER);
            Tile::scores(s, own, q);
            Tile::scores(dp, own + in::OWN, dout);
            if (Tile::DEEP)
                syn_deeper<Tile>(
                    a.widest, depth,
                    [&](int d, int e) {
                        fetch_own(d);
                        fetch_queries(step, stage, e);
                    },
                    [&] {
                        syn_add_scores<Tile>(s, own, q);
                        syn_add_scores<Tile>(dp, own + in::OWN, dout);
                    });
            weigh<Tile>(
                a, s, dp, syn_band_of_key(a, first, t0), some,
                [&](int, int c) { return of[Tile::column(c)]; },
                [&](int r, int) { return bias[r]; },
                [&](int r, int) { return first + Tile::row(r); });
            if (rows.dv.data) Tile::add(dv_sums, s, dout, buffer);
            if (rows.dk.data) Tile::add(dk_sums, dp, q, buffer);
            __syncthreads();
            if (Tile::STAGES > 1) stage ^= 1;
            else if (more) fetch(step + 1, 0);
        }
        const auto store = [&](const syn_head_rows &to, const float(&sums)[R][Tile::A], float by,
                               int elems) {
            if (!to.data) return;
            T *const at = const_cast<T *>(syn_rows_at<T>(to, b, h)) + first * to.row;
#pragma unroll
            for (int r = 0; r < R; r++)
                if (Tile::row(r) < n)
                    syn_store_row<Tile>(at + Tile::row(r) * to.row + depth, sums[r], by,
                                        elems - depth);
        };
        store(rows.dk, dk_sums, a.scale, a.depth);
        store(rows.dv, dv_sums, 1, a.value_depth);
        __syncthreads();
    }
}

/* Computes the gradient of the sinks; each block processes one head, each warp one query at a time.
   sum_batch, sum_head: strides of the log-sum-exp. */
enum { SINK_WARPS = 8 };
template <typename T>
static __global__ void sinks_kernel(const syn_head_rows out, const syn_head_rows dout,
                                    const float *log_sums, int64_t sum_batch, int64_t sum_head,
                                    const T *sinks, int64_t sinks_stride, T *dsinks,
                                    int64_t batches, int64_t queries, int64_t heads, int depth) {
    __shared__ double sums[SINK_WARPS];
    const int lane = (int)threadIdx.x % SYN_WARP, warp = (int)threadIdx.x / SYN_WARP;
    for (int64_t h = blockIdx.x; h < heads; h += gridDim.x) {
        const float sink = syn_to_float(sinks[h * sinks_stride]);
        double sum = 0;
        for (int64_t i = warp; i < batches * queries; i += SINK_WARPS) {
            const int64_t b = i / queries, t = i % queries;
            const T *x = syn_rows_at<T>(out, b, h) + t * out.row;
            const T *y = syn_rows_at<T>(dout, b, h) + t * dout.row;
            float product = 0;
            for (int d = lane; d < depth; d += SYN_WARP)
                product += syn_to_float(x[d]) * syn_to_float(y[d]);
            product = syn_warp_sum(product);
            const float log_sum = log_sums[b * sum_batch + h * sum_head + t];
            sum -= product * syn_exp2((sink - log_sum) * SYN_LOG2_E);
        }
        if (lane == 0) sums[warp] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int w = 1; w < SINK_WARPS; w++) sum += sums[w];
            dsinks[h] = syn_from_float<T>((float)sum);
        }
        __syncthreads();
    }
}

/* ---- on the host ---- */

struct grad_call {
    const syn_call *c;
    syn_attention a;
    grad_rows rows;
};

/* Returns false if there is too little shared memory. */
template <class Tile, typename T> static bool launch(const grad_call *call) {
    const size_t bytes = grad_shared<Tile>::bytes;
    const syn_attention *a = &call->a;
    const cudaStream_t stream = syn__cuda_of(call->c)->stream;
    if (!syn_want_shared(call->c, queries_kernel<Tile, T>, bytes) ||
        !syn_want_shared(call->c, keys_kernel<Tile, T>, bytes))
        return false;
    const int64_t of_queries = (a->queries + Tile::OWN - 1) / Tile::OWN,
                  of_keys = (a->keys + Tile::OWN - 1) / Tile::OWN,
                  pieces = syn_depth_pieces<Tile>(a->widest);
    if (call->rows.dk.data || call->rows.dv.data)
        SYN_LAUNCH((keys_kernel<Tile, T>),
                   syn_blocks(a->batches * a->shared * of_keys * pieces, 1, 1), Tile::THREADS,
                   bytes, stream, *a, call->rows, of_keys);
    if (call->rows.dq.data)
        SYN_LAUNCH((queries_kernel<Tile, T>),
                   syn_blocks(a->batches * a->heads * of_queries * pieces, 1, 1), Tile::THREADS,
                   bytes, stream, *a, call->rows, of_queries);
    return true;
}

template <typename T> static bool launch_tensor(const grad_call *call) {
    const int depth = call->a.widest;
    return depth <= 64    ? launch<syn_tensor_tile<T, 64, 4, 1, 32>, T>(call)
           : depth <= 80  ? launch<syn_tensor_tile<T, 80, 4, 1, 32>, T>(call)
           : depth <= 96  ? launch<syn_tensor_tile<T, 96, 4, 1, 32>, T>(call)
           : depth <= 128 ? launch<syn_tensor_tile<T, 128, 4, 1, 32>, T>(call)
           : depth <= 256 ? launch<syn_tensor_tile<T, 256, 2, 1, 16>, T>(call)
                          : false;
}
template <> bool launch_tensor<float>(const grad_call *call) {
    (void)call;
    return false;
}

template <typename T> static bool launch_plain(const grad_call *call) {
    const int depth = call->a.widest;
    return depth <= 64    ? launch<syn_plain_tile<64, 16, 16, 2, 2>, T>(call)
           : depth <= 128 ? launch<syn_plain_tile<128, 16, 16, 2, 1>, T>(call)
           : depth <= 256 ? launch<syn_plain_tile<256, 16, 8, 1, 1>, T>(call)
                          : launch<syn_plain_tile<256, 16, 8, 1, 1, true>, T>(call);
}

/* Output i, (B, T, H, D or Dv), if it is requested. */
static syn_head_rows wanted(const syn_call *c, int i) {
    enum { WANTED = 8 };
    const bool wants = c->n_attr <= WANTED || c->attr[WANTED].i >> i & 1;
    return wants ? syn_token_rows_of(&c->out[i]) : syn_head_rows();
}

static syn_status attention_grad_cuda(syn_call *c) {
    const syn__cuda_at *at = syn__cuda_of(c);
    const syn_dtype dtype = (syn_dtype)c->in[0].spec.dtype;
    grad_call call = {};
    call.c = c;
    call.a = syn__attention_of(c, 6);
    call.a.packs = call.a.packs && syn__head_packs(&c->in[5]);
    const syn_attention *a = &call.a;
    grad_rows *rows = &call.rows;
    const syn_operand *sums = &c->in[4];
    const int64_t queries = a->batches * a->heads * a->queries;
    if (queries * a->keys == 0 || a->widest == 0) {
        for (int i = 0; i < 3; i++) syn__cuda_copy(c, &c->out[i], NULL);
        return syn__launched(c);
    }
    rows->q = syn_head_rows_of(&c->in[0]);
    rows->k = syn_head_rows_of(&c->in[1]);
    rows->v = syn_head_rows_of(&c->in[2]);
    rows->out = syn_token_rows_of(&c->in[3]);
    rows->dout = syn_token_rows_of(&c->in[5]);
    rows->dq = wanted(c, 0);
    rows->dk = wanted(c, 1);
    rows->dv = wanted(c, 2);
    rows->log_sum = static_cast<const float *>(sums->data);
    rows->sum_batch = sums->strides[0];
    rows->sum_head = sums->strides[1];
    void *mean;
    SYN_TRY(syn__cuda_scratch(c, (size_t)queries * sizeof(float), &mean));
    rows->mean = static_cast<float *>(mean);
    SYN_WITH_FLOAT(dtype, T, {
        SYN_LAUNCH(mean_kernel<T>, syn_blocks(queries, 8, 1), 8 * SYN_WARP, 0, at->stream, *a,
                   *rows);
        if (!(syn__tensor_cores(c) && launch_tensor<T>(&call)) && !launch_plain<T>(&call))
            return syn__too_little_shared(c);
    });
    return syn__launched(c);
}

static syn_status sinks_grad_cuda(syn_call *c) {
    const syn_operand *out = &c->in[0], *sums = &c->in[1], *sinks = &c->in[3];
    const int64_t *n = out->spec.dims;
    SYN_WITH_FLOAT(out->spec.dtype, T,
                   SYN_LAUNCH(sinks_kernel<T>, syn_blocks(n[2], 1, 1), SINK_WARPS * SYN_WARP, 0,
                              syn__cuda_of(c)->stream, syn_token_rows_of(out),
                              syn_token_rows_of(&c->in[2]), static_cast<const float *>(sums->data),
                              sums->strides[0], sums->strides[1],
                              static_cast<const T *>(sinks->data), sinks->strides[0],
                              static_cast<T *>(c->out[0].data), n[0], n[1], n[2], (int)n[3]));
    return syn__launched(c);
}

const syn__cuda_row syn__cuda_attention_grad[] = {{SYN_OP_ATTENTION_GRAD, attention_grad_cuda},
                                                  {SYN_OP_SINKS_GRAD, sinks_grad_cuda},
                                                  {SYN_OP_NONE, NULL}};
