/* Fused attention, forward: softmax(scale q k' + mask) v. Each block processes a tile of queries
   with a running maximum and sum (Milakov and Gimelshein 2018, Dao et al. 2022). With few queries,
   as in decoding, the queries of all heads that share keys form one tile, the keys are divided
   among blocks, and a second kernel combines their results in a fixed order. */
#include "ops/cuda/attention.cuh"
#include "ops/cuda/tiles.cuh"

/* How a call is divided. A unit is a query head or, with few queries, a k/v head with all queries
   that use it. */
struct attend_split {
    int64_t unit_heads, unit_rows; /* units per sample, queries per unit */
    int64_t tiles, parts, tasks;
    float *partial; /* (B, unit_heads, unit_rows, parts, D + 2): sums, maximum, sum of weights */
};

struct attend_rows {
    syn_head_rows q, k, v, out;
    float *log_sum; /* (B, H, T), or NULL */
};

/* The query that is row r of unit u. */
struct query_place {
    int64_t b, head, t;
};
static __device__ __forceinline__ query_place place_of(const syn_attention &a,
                                                       const attend_split &cut, int64_t u,
                                                       int64_t r) {
    const int64_t b = u / cut.unit_heads, first = u % cut.unit_heads;
    if (cut.unit_heads == a.heads) return {b, first, r};
    return {b, first * a.group + r / a.queries, r % a.queries};
}

/* Converts scores to weights in place, updates each row's running maximum and sum, and rescales
   earlier sums. `by` converts scores to base 2. `sum` is the sum over this lane's columns only. */
template <class Tile>
static __device__ __forceinline__ void weigh(float (&s)[Tile::R][Tile::C], float by,
                                             float (&sums)[Tile::R][Tile::A], float (&max)[Tile::R],
                                             float (&sum)[Tile::R]) {
#pragma unroll
    for (int r = 0; r < Tile::R; r++) {
        float top = s[r][0];
#pragma unroll
        for (int c = 1; c < Tile::C; c++) top = fmaxf(top, s[r][c]);
        top = fmaxf(max[r], by * syn_row_reduce<Tile>(top, syn_max_two()));
        const float base = top == -INFINITY ? 0 : top, shrink = syn_exp2(max[r] - base);
        max[r] = top;
        sum[r] *= shrink;
#pragma unroll
        for (int n = 0; n < Tile::A; n++) sums[r][n] *= shrink;
#pragma unroll
        for (int c = 0; c < Tile::C; c++) {
            s[r][c] = syn_exp2(fmaf(s[r][c], by, -base));
            sum[r] += s[r][c];
        }
    }
}

/* One block's work: its queries, its keys, and the elements of the results that it computes. */
struct attend_task {
    int64_t unit, first; /* first: number of the first row within the unit */
    int n;               /* rows */
    int64_t b, shared;   /* b: sample; shared: head of the keys */
    int64_t t0;          /* t0: the first query of all rows; last: the last one, relative to t0 */
    int last;
    int64_t part, from, until; /* number of the part, and its range of keys */
    int depth;                 /* first element of the results */
};

/* Returns the task of a block. Tiles that attend to the most keys come first. */
template <class Tile>
static __device__ __forceinline__ attend_task task_of(const syn_attention &a,
                                                      const attend_split &cut, int64_t number) {
    attend_task k;
    const int pieces = syn_depth_pieces<Tile>(a.value_depth);
    k.depth = (int)(number % pieces) * Tile::DEPTH;
    number /= pieces;
    k.part = number % cut.parts;
    k.unit = number / cut.parts / cut.tiles;
    k.first = (cut.tiles - 1 - number / cut.parts % cut.tiles) * Tile::OWN;
    const int64_t left = cut.unit_rows - k.first;
    k.n = (int)(left < Tile::OWN ? left : Tile::OWN);
    const query_place p = place_of(a, cut, k.unit, k.first),
                      end = place_of(a, cut, k.unit, k.first + k.n - 1);
    const bool one_head = p.head == end.head;
    k.b = p.b;
    k.shared = p.head / a.group;
    k.t0 = one_head ? p.t : 0;
    k.last = (int)((one_head ? end.t : a.queries - 1) - k.t0);
    const int64_t low = syn_keys_of(a, k.t0).from, high = syn_keys_of(a, k.t0 + k.last).until;
    const int64_t tiles = (high - low + Tile::OTHER - 1) / Tile::OTHER;
    const int64_t each = (tiles + cut.parts - 1) / cut.parts * Tile::OTHER;
    k.from = low + k.part * each;
    k.until = k.from + each < high ? k.from + each : high;
    return k;
}

/* Sets the weights that dropout removes to zero, for keys from s0 on. */
template <class Tile>
static __device__ __forceinline__ void drop(const syn_attention &a, const attend_split &cut,
                                            const attend_task &k, int64_t s0,
                                            float (&s)[Tile::R][Tile::C]) {
#pragma unroll
    for (int r = 0; r < Tile::R; r++) {
        const query_place o = place_of(a, cut, k.unit, k.first + Tile::row(r));
        const uint2 drops = syn_drop_row(a, o.b, o.head, o.t);
#pragma unroll
        for (int c = 0; c < Tile::C; c++)
            if (syn_drops(a, drops, s0 + Tile::column(c))) s[r][c] = 0;
    }
}

/* Stores a row's result, or its partial result for this part of the keys. */
template <class Tile, typename T>
static __device__ __forceinline__ void
store(const syn_attention &a, const attend_split &cut, const attend_rows &rows,
      const attend_task &k, int64_t row, const float (&sums)[Tile::A], float max, float sum) {
    /* true for exactly one of the lanes and depth pieces that share the row */
    const bool leads = Tile::column(0) == 0 && k.depth == 0;
    if (cut.partial) {
        const int64_t place = (k.unit * cut.unit_rows + row) * cut.parts + k.part;
        float *to = cut.partial + place * (a.value_depth + 2);
        syn_store_row<Tile>(to + k.depth, sums, 1, a.value_depth - k.depth);
        if (!leads) return;
        to[a.value_depth] = max;
        to[a.value_depth + 1] = sum;
        return;
    }
    const query_place o = place_of(a, cut, k.unit, row);
    T *to = const_cast<T *>(syn_rows_at<T>(rows.out, o.b, o.head)) + o.t * rows.out.row;
    syn_store_row<Tile>(to + k.depth, sums, sum == 0 ? 0 : a.keep / sum,
                        a.value_depth - k.depth);
    if (rows.log_sum && leads)
        rows.log_sum[(o.b * a.heads + o.head) * a.queries + o.t] =
            sum == 0 ? -INFINITY : max * SYN_LN_2 + logf(sum);
}

template <class Tile, typename T>
static __global__ void __launch_bounds__(Tile::THREADS)
    attend_kernel(const syn_attention a, const attend_split cut, const attend_rows rows) {
    typedef typename Tile::element E;
    constexpr int R = Tile::R, C = Tile::C, OTHER = Tile::OTHER, KEYS = OTHER * Tile::ROW;
    SYN_DYNAMIC_SHARED(E, own);
    E *const others = own + Tile::OWN * Tile::ROW; /* keys and values of each stage */
    float *const buffer = reinterpret_cast<float *>(others + Tile::STAGES * 2 * KEYS);
    float *const biases = buffer + Tile::WEIGHTS; /* (STAGES, OTHER) */
    const float scale = a.scale * SYN_LOG2_E;
    /* If so, the largest product is also the largest score, so products need not be scaled
       first. */
    const bool ready = scale > 0 && !a.mask;
    const int64_t tasks = cut.tasks * syn_depth_pieces<Tile>(a.value_depth);
    for (int64_t number = blockIdx.x; number < tasks; number += gridDim.x) {
        const attend_task task = task_of<Tile>(a, cut, number);
        const T *const k = syn_rows_at<T>(rows.k, task.b, task.shared);
        const T *const v = syn_rows_at<T>(rows.v, task.b, task.shared);
        int at[R]; /* query of each row, relative to t0 */
        float sums[R][Tile::A] = {}, max[R], sum[R] = {};
#pragma unroll
        for (int r = 0; r < R; r++) {
            const query_place o = place_of(a, cut, task.unit, task.first + Tile::row(r));
            max[r] = -INFINITY;
            at[r] = (int)(o.t - task.t0);
            if (!a.sinks || task.part > 0 || Tile::row(r) >= task.n) continue;
            /* the sink counts once, in the first part and in the lane with column 0 */
            max[r] = SYN_LOG2_E *
                     syn_to_float(static_cast<const T *>(a.sinks)[o.head * a.sinks_stride]);
            sum[r] = Tile::column(0) == 0 ? 1 : 0;
        }
        const auto fetch_own = [&](int d) {
            syn_fetch_rows<Tile, Tile::OWN>(
                own, static_cast<const T *>(rows.q.data), task.n, a, a.depth, d, [&](int r) {
                    const query_place o = place_of(a, cut, task.unit, task.first + r);
                    return o.b * rows.q.batch + o.head * rows.q.head + o.t * rows.q.row;
                });
        };
        const auto fetch_keys = [&](int64_t s, int stage, int d) {
            const int n = (int)(task.until - s < OTHER ? task.until - s : OTHER);
            syn_fetch_rows<Tile, OTHER>(others + stage * 2 * KEYS, k + s * rows.k.row, n, a,
                                        a.depth, d, [&](int r) { return r * rows.k.row; });
        };
        const auto fetch = [&](int64_t s, int stage) {
            const int n = (int)(task.until - s < OTHER ? task.until - s : OTHER);
            fetch_keys(s, stage, 0);
            syn_fetch_rows<Tile, OTHER>(others + (stage * 2 + 1) * KEYS, v + s * rows.v.row, n, a,
                                        a.value_depth, task.depth,
                                        [&](int r) { return r * rows.v.row; });
            for (int i = (int)threadIdx.x; a.mask && i < n; i += Tile::THREADS)
                biases[stage * OTHER + i] = a.mask[task.b * a.mask_row + s + i] * SYN_LOG2_E;
        };
        if (task.from < task.until) {
            fetch_own(0);
            fetch(task.from, 0);
        }
        Tile::fetched();
        int stage = 0;
        for (int64_t s0 = task.from; s0 < task.until; s0 += OTHER) {
            const bool more = s0 + OTHER < task.until;
            if (Tile::STAGES > 1 && more) fetch(s0 + OTHER, stage ^ 1);
            Tile::fetched();
            Tile::template await<Tile::STAGES - 1>();
            __syncthreads();
            const E *const keys = others + stage * 2 * KEYS;
            const float *const bias = biases + stage * OTHER;
            float s[R][C];
            Tile::scores(s, own, keys);
            if (Tile::DEEP)
                syn_deeper<Tile>(
                    a.depth, 0,
                    [&](int d, int e) {
                        fetch_own(d);
                        fetch_keys(s0, stage, e);
                    },
                    [&] { syn_add_scores<Tile>(s, own, keys); });
            if (!ready) {
#pragma unroll
                for (int r = 0; r < R; r++)
#pragma unroll
                    for (int c = 0; c < C; c++)
                        s[r][c] = s[r][c] * scale + (a.mask ? bias[Tile::column(c)] : 0);
            }
            const syn_band band = syn_band_of_query(a, task.t0, s0);
            const int n = (int)(more ? OTHER : task.until - s0);
            if (n < OTHER || !syn_sees_all(band, task.last, OTHER)) {
#pragma unroll
                for (int r = 0; r < R; r++)
#pragma unroll
                    for (int c = 0; c < C; c++)
                        if (Tile::column(c) >= n || !syn_sees(band, at[r], Tile::column(c)))
                            s[r][c] = -INFINITY;
            }
            weigh<Tile>(s, ready ? scale : 1, sums, max, sum);
            if (a.drop) drop<Tile>(a, cut, task, s0, s);
            Tile::add(sums, s, keys + KEYS, buffer);
            __syncthreads();
            if (Tile::STAGES > 1) stage ^= 1;
            else if (more) fetch(s0 + OTHER, 0);
        }
#pragma unroll
        for (int r = 0; r < R; r++) {
            sum[r] = syn_row_reduce<Tile>(sum[r], syn_add_two());
            if (Tile::row(r) < task.n)
                store<Tile, T>(a, cut, rows, task, task.first + Tile::row(r), sums[r], max[r],
                               sum[r]);
        }
        __syncthreads();
    }
}

/* Combines partial results: one query per block, one element of the depth per thread. */
template <typename T>
static __global__ void join_kernel(const syn_attention a, const attend_split cut,
                                   const attend_rows rows) {
    const int64_t n = a.batches * cut.unit_heads * cut.unit_rows;
    for (int64_t i = blockIdx.x; i < n; i += gridDim.x) {
        const int depth = a.value_depth;
        const float *from = cut.partial + i * cut.parts * (depth + 2);
        const query_place o = place_of(a, cut, i / cut.unit_rows, i % cut.unit_rows);
        T *to = const_cast<T *>(syn_rows_at<T>(rows.out, o.b, o.head)) + o.t * rows.out.row;
        float max = -INFINITY, sum = 0;
        for (int64_t part = 0; part < cut.parts; part++)
            max = fmaxf(max, from[part * (depth + 2) + depth]);
        const float base = max == -INFINITY ? 0 : max;
        for (int64_t part = 0; part < cut.parts; part++) {
            const float *of = from + part * (depth + 2) + depth;
            sum += syn_exp2(of[0] - base) * of[1];
        }
        for (int d = (int)threadIdx.x; d < depth; d += (int)blockDim.x) {
            float x = 0;
            for (int64_t part = 0; part < cut.parts; part++) {
                const float *of = from + part * (depth + 2);
                x += syn_exp2(of[depth] - base) * of[d];
            }
            to[d] = syn_from_float<T>(sum == 0 ? 0 : x * (a.keep / sum));
        }
        if (rows.log_sum && threadIdx.x == 0)
            rows.log_sum[(o.b * a.heads + o.head) * a.queries + o.t] =
                sum == 0 ? -INFINITY : base * SYN_LN_2 + logf(sum);
    }
}

/* ---- on the host ---- */

struct attend_call {
    const syn_call *c;
    syn_attention a;
    attend_split cut;
    attend_rows rows;
};

/* Returns false if the device has too little shared memory. */
template <class Tile, typename T> static bool launch(attend_call *call) {
    const size_t bytes =
        (Tile::OWN + Tile::STAGES * 2 * Tile::OTHER) * Tile::ROW * sizeof(typename Tile::element) +
        (Tile::WEIGHTS + Tile::STAGES * Tile::OTHER) * sizeof(float);
    const syn__cuda_at *at = syn__cuda_of(call->c);
    attend_split *cut = &call->cut;
    if (!syn_want_shared(call->c, attend_kernel<Tile, T>, bytes)) return false;
    cut->tiles = (cut->unit_rows + Tile::OWN - 1) / Tile::OWN;
    cut->tasks = call->a.batches * cut->unit_heads * cut->tiles * cut->parts;
    const int64_t blocks = cut->tasks * syn_depth_pieces<Tile>(call->a.value_depth);
    SYN_LAUNCH((attend_kernel<Tile, T>), syn_blocks(blocks, 1, 1), Tile::THREADS, bytes, at->stream,
               call->a, *cut, call->rows);
    return true;
}

/* up to 16 queries: one warp with tensor cores */
enum { FEW = 16 };

template <typename T> static bool launch_tensor(attend_call *call) {
    const int depth = call->a.widest;
    if (depth > 256) return false;
    if (call->cut.unit_rows <= FEW)
        return depth <= 64    ? launch<syn_tensor_tile<T, 64, 1, 1, 64>, T>(call)
               : depth <= 128 ? launch<syn_tensor_tile<T, 128, 1, 1, 32>, T>(call)
                              : launch<syn_tensor_tile<T, 256, 1, 1, 32>, T>(call);
    return depth <= 64    ? launch<syn_tensor_tile<T, 64, 4, 2, 64>, T>(call)
           : depth <= 80  ? launch<syn_tensor_tile<T, 80, 4, 1, 64>, T>(call)
           : depth <= 96  ? launch<syn_tensor_tile<T, 96, 4, 1, 64>, T>(call)
           : depth <= 128 ? launch<syn_tensor_tile<T, 128, 4, 1, 64>, T>(call)
                          : launch<syn_tensor_tile<T, 256, 4, 1, 16>, T>(call);
}
template <> bool launch_tensor<float>(attend_call *call) {
    (void)call;
    return false;
}

template <typename T> static bool launch_plain(attend_call *call) {
    const int depth = call->a.widest;
    if (call->cut.unit_rows <= FEW)
        return depth <= 64    ? launch<syn_plain_tile<64, 4, 8, 4, 4>, T>(call)
               : depth <= 128 ? launch<syn_plain_tile<128, 4, 8, 4, 4>, T>(call)
               : depth <= 256 ? launch<syn_plain_tile<256, 4, 8, 4, 2>, T>(call)
                              : launch<syn_plain_tile<256, 4, 8, 4, 2, true>, T>(call);
    return depth <= 64    ? launch<syn_plain_tile<64, 16, 16, 4, 2>, T>(call)
           : depth <= 128 ? launch<syn_plain_tile<128, 16, 16, 2, 2>, T>(call)
           : depth <= 256 ? launch<syn_plain_tile<256, 16, 8, 1, 2>, T>(call)
                          : launch<syn_plain_tile<256, 16, 8, 1, 2, true>, T>(call);
}

/* For few queries: chooses the number of parts that the keys are divided into. Blocks of one warp
   should fill the device, but each part must be long enough that combining the results pays off.
   Scratch memory is large enough for the largest number of parts, so that it does not grow from
   step to step with the number of keys. */
static syn_status cut_keys(attend_call *call) {
    enum { BLOCKS = 4, FEWEST = 64 }; /* blocks per multiprocessor; keys per part */
    const syn_attention *a = &call->a;
    attend_split *cut = &call->cut;
    const int64_t units = a->batches * cut->unit_heads,
                  most = (syn__cuda_of(call->c)->sms * BLOCKS + units - 1) / units;
    const int64_t seen =
        a->window && a->window + a->queries < a->keys ? a->window + a->queries : a->keys;
    cut->parts = (seen + FEWEST - 1) / FEWEST;
    if (cut->parts > most) cut->parts = most;
    if (cut->parts <= 1) {
        cut->parts = 1;
        return SYN_OK;
    }
    void *partial;
    SYN_TRY(syn__cuda_scratch(
        call->c, (size_t)(units * cut->unit_rows * most * (a->value_depth + 2)) * sizeof(float),
        &partial));
    cut->partial = static_cast<float *>(partial);
    return SYN_OK;
}

static syn_status attend(attend_call *call) {
    const syn_call *c = call->c;
    const syn__cuda_at *at = syn__cuda_of(c);
    const syn_attention *a = &call->a;
    attend_split *cut = &call->cut;
    const syn_dtype dtype = (syn_dtype)c->in[0].spec.dtype;
    if (a->batches * a->heads * a->queries == 0) return SYN_OK;
    call->rows.q = syn_head_rows_of(&c->in[0]);
    call->rows.k = syn_head_rows_of(&c->in[1]);
    call->rows.v = syn_head_rows_of(&c->in[2]);
    const bool few = a->queries * a->group <= FEW;
    cut->unit_heads = few ? a->shared : a->heads;
    cut->unit_rows = few ? a->queries * a->group : a->queries;
    cut->parts = 1;
    if (few) SYN_TRY(cut_keys(call));
    SYN_WITH_FLOAT(dtype, T, {
        if (!(syn__tensor_cores(c) && launch_tensor<T>(call)) && !launch_plain<T>(call))
            return syn__too_little_shared(c);
        if (cut->partial)
            SYN_LAUNCH(join_kernel<T>,
                       syn_blocks(a->batches * cut->unit_heads * cut->unit_rows, 1, 1), 64, 0,
                       at->stream, *a, *cut, call->rows);
    });
    return syn__launched(c);
}

static syn_status attention_cuda(syn_call *c) {
    attend_call call = {};
    call.c = c;
    call.a = syn__attention_of(c, 3);
    call.rows.out = syn_head_rows_of(&c->out[0]);
    return attend(&call);
}

static syn_status attention_train_cuda(syn_call *c) {
    attend_call call = {};
    call.c = c;
    call.a = syn__attention_of(c, 3);
    call.rows.out = syn_token_rows_of(&c->out[0]);
    call.rows.log_sum = static_cast<float *>(c->out[1].data);
    return attend(&call);
}

const syn__cuda_row syn__cuda_attention[] = {{SYN_OP_ATTENTION, attention_cuda},
                                             {SYN_OP_ATTENTION_TRAIN, attention_train_cuda},
                                             {SYN_OP_NONE, NULL}};
