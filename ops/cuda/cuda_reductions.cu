/* Sums: sum_to, which undoes broadcasting, square_sum of a list, and clip_factor. The order of
   additions depends only on shapes and layouts. */
#include "ops/cuda/lists.cuh"

enum { THREADS = 256 };

/* ---- sum_to ---- */

/* How a sum is divided. The rows to sum are split into pieces. A block sums one piece of `chunk`
   rows for `across` elements (`places`) of the result. Adjacent threads and packs are along the
   rows or along the places, whichever are dense. */
struct summation {
    syn_walk<1> kept, summed;
    int64_t places, rows; /* number of places and of rows; in packs for the one of the two along
                             which packs are */
    int64_t chunk, pieces, groups;
    int across; /* a power of 2 up to THREADS */
};

/* y: (pieces, places). COLUMNS: whether packs are along the places. */
template <typename T, typename Sum, int W, bool COLUMNS>
static __global__ void __launch_bounds__(THREADS, 4)
    sum_kernel(const T *x, float *y, const summation s) {
    enum { SUMS = COLUMNS ? W : 1 };
    __shared__ Sum sums[SUMS][THREADS];
    const int down = THREADS / s.across, tid = (int)threadIdx.x;
    const int column = COLUMNS ? tid % s.across : tid / down;
    const int row = COLUMNS ? tid / s.across : tid % down;
    for (int64_t b = blockIdx.x; b < s.groups * s.pieces; b += gridDim.x) {
        const int64_t piece = b / s.groups, place = b % s.groups * s.across + column;
        const int64_t from = piece * s.chunk;
        const int64_t end = from + s.chunk < s.rows ? from + s.chunk : s.rows;
        Sum sum[SUMS] = {};
        int64_t base[1], at[1];
        if (place < s.places) {
            syn_walk_to(s.kept, place, base);
#pragma unroll 4
            for (int64_t r = from + row; r < end; r += down) {
                syn_walk_to(s.summed, r, at);
                const syn_pack<T, W> pack = syn_load<T, W>(x + base[0] + at[0]);
#pragma unroll
                for (int i = 0; i < W; i++) sum[COLUMNS ? i : 0] += (Sum)syn_to_float(pack.at[i]);
            }
        }
        for (int i = 0; i < SUMS; i++) sums[i][row * s.across + column] = sum[i];
        __syncthreads();
        for (int apart = down / 2; apart > 0; apart /= 2) {
            const int at_row = tid / s.across;
            if (at_row < apart)
                for (int i = 0; i < SUMS; i++) sums[i][tid] += sums[i][tid + apart * s.across];
            __syncthreads();
        }
        const int64_t first = b % s.groups * s.across;
        if (tid < s.across && first + tid < s.places)
            for (int i = 0; i < SUMS; i++)
                y[(piece * s.places + first + tid) * SUMS + i] = (float)sums[i][tid];
        __syncthreads();
    }
}

/* The smallest power of 2 that is at least n, but at most `most`, which is a power of 2. */
static int power_from(int64_t n, int most) {
    int p = 1;
    while (p < most && p < n) p *= 2;
    return p;
}

/* Chooses the pieces. There are enough to keep the device busy, each is large enough for a block,
   and no thread adds more than 128 packs in sequence. whole: a single piece. */
static void cut_rows(summation *s, bool columns, bool whole) {
    enum { BLOCKS = 1024, LEAST = 4, MOST = 128 };
    s->across = columns ? power_from(s->places, SYN_WARP)
                        : THREADS / power_from((s->rows + 3) / 4, THREADS);
    const int64_t down = THREADS / s->across;
    s->groups = (s->places + s->across - 1) / s->across;
    s->pieces = (BLOCKS + s->groups - 1) / s->groups;
    const int64_t least = (s->rows + MOST * down - 1) / (MOST * down);
    const int64_t most = (s->rows + LEAST * down - 1) / (LEAST * down);
    if (s->pieces < least) s->pieces = least;
    if (s->pieces > most) s->pieces = most;
    if (s->pieces < 1 || whole) s->pieces = 1;
    s->chunk = (s->rows + s->pieces - 1) / s->pieces;
}

template <typename T, typename Sum, int W>
static void launch_sums(cudaStream_t stream, const T *x, float *y, const summation &s,
                        bool columns) {
    const unsigned blocks = syn_blocks(s.groups * s.pieces, 1, 1);
    if (columns) SYN_LAUNCH((sum_kernel<T, Sum, W, true>), blocks, THREADS, 0, stream, x, y, s);
    else SYN_LAUNCH((sum_kernel<T, Sum, W, false>), blocks, THREADS, 0, stream, x, y, s);
}

/* Adds the dense sums of the pieces. Uses double precision, which costs little because there are
   few sums. */
static void join_pieces(cudaStream_t stream, const float *pieces, float *y, int64_t n,
                        int64_t places) {
    summation s = {};
    const int64_t one[1] = {1}, step[1] = {places};
    syn_walk_add(&s.kept, places, one);
    syn_walk_add(&s.summed, n, step);
    s.places = syn_walk_done(&s.kept);
    s.rows = syn_walk_done(&s.summed);
    const bool columns = places > 1;
    cut_rows(&s, columns, true);
    launch_sums<float, double, 1>(stream, pieces, y, s, columns);
}

template <typename T> static syn_status sum_to(const syn_call *c, summation s) {
    constexpr int wide = syn_wide<T>::n;
    const cudaStream_t stream = syn__cuda_of(c)->stream;
    const T *x = static_cast<const T *>(c->in[0].data);
    float *y = static_cast<float *>(c->out[0].data), *pieces = y;
    const int64_t places = s.places, kept_step = s.kept.strides[0][s.kept.rank - 1],
                  summed_step = s.summed.strides[0][s.summed.rank - 1];
    const bool columns = places > 1 && kept_step < summed_step;
    syn_walk<1> &dense = columns ? s.kept : s.summed, &other = columns ? s.summed : s.kept;
    bool packs = (columns ? kept_step : summed_step) == 1 &&
                 syn_walk_packs(dense, 0, x, (int)sizeof(T), wide);
    for (int d = 0; d < other.rank; d++)
        packs = packs && (other.dims[d] == 1 || other.strides[0][d] % wide == 0);
    if (packs) {
        syn_walk_pack(&dense, wide);
        if (columns) s.places /= wide;
        else s.rows /= wide;
    }
    cut_rows(&s, columns, false);
    if (s.pieces > 1) {
        void *scratch;
        SYN_TRY(syn__cuda_scratch(c, (size_t)(s.pieces * places) * sizeof *pieces, &scratch));
        pieces = static_cast<float *>(scratch);
    }
    if (packs) launch_sums<T, float, wide>(stream, x, pieces, s, columns);
    else launch_sums<T, float, 1>(stream, x, pieces, s, columns);
    if (s.pieces > 1) join_pieces(stream, pieces, y, s.pieces, places);
    return syn__launched(c);
}

static syn_status sum_to_cuda(syn_call *c) {
    const syn_operand *x = &c->in[0];
    const syn_spec *shape = &x->spec;
    summation s = {};
    syn_operand rows = *x; /* the dimensions that are summed; the others are replaced by 1 */
    const syn_operand *const operands[1] = {&rows};
    for (int d = 0; d < shape->rank; d++) {
        const int64_t stride[1] = {x->strides[d]};
        if (syn_stride_in(&c->out[0], shape, d) == 0) continue;
        syn_walk_add(&s.kept, shape->dims[d], stride);
        rows.spec.dims[d] = 1;
    }
    s.places = syn_walk_done(&s.kept);
    s.rows = syn_walk_over(&s.summed, &rows.spec, operands);
    if (s.places == 0) return syn__launched(c);
    SYN_WITH_FLOAT(shape->dtype, T, return sum_to<T>(c, s));
    return SYN_OK;
}

/* ---- square_sum ---- */

enum { PIECE = 16384 };

struct squares {
    const float *x[SYN_MAX_PARAMS];
    int64_t n[SYN_MAX_PARAMS];
    syn_pieces pieces;
};

/* The sum over the block; valid in thread 0. */
static __device__ __forceinline__ double block_sum(double x) {
    __shared__ double sums[THREADS];
    const int tid = (int)threadIdx.x;
    sums[tid] = x;
    __syncthreads();
    for (int apart = THREADS / 2; apart > 0; apart /= 2) {
        if (tid < apart) sums[tid] += sums[tid + apart];
        __syncthreads();
    }
    return sums[0];
}

/* Each thread sums 64 squares in f32; these sums are added in double precision. */
static __global__ void square_kernel(const squares s, double *sums) {
    enum { W = 4 };
    const int t = syn_piece_tensor(s.pieces, blockIdx.x), tid = (int)threadIdx.x;
    const int64_t at = ((int64_t)blockIdx.x - s.pieces.first[t]) * PIECE;
    const float *x = s.x[t] + at;
    const int n = (int)(s.n[t] - at < PIECE ? s.n[t] - at : (int64_t)PIECE);
    const bool packs = reinterpret_cast<uintptr_t>(x) % (W * sizeof(float)) == 0;
    const int some = packs ? n / W * W : 0;
    float sum = 0;
#pragma unroll 4
    for (int i = tid * W; i < some; i += THREADS * W) {
        const syn_pack<float, W> pack = syn_load<float, W>(x + i);
#pragma unroll
        for (int k = 0; k < W; k++) sum = fmaf(pack.at[k], pack.at[k], sum);
    }
    for (int i = some + tid; i < n; i += THREADS) sum = fmaf(x[i], x[i], sum);
    const double all = block_sum((double)sum);
    if (tid == 0) sums[blockIdx.x] = all;
}

static __global__ void square_join_kernel(const double *sums, int64_t n, double divisor,
                                          float *y) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) sum += sums[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *y = (float)(sum / divisor);
}

static syn_status square_sum_cuda(syn_call *c) {
    const cudaStream_t stream = syn__cuda_of(c)->stream;
    squares s = {};
    void *sums;
    for (int t = 0; t < c->n_in; t++) {
        s.x[t] = static_cast<const float *>(c->in[t].data);
        s.n[t] = syn_elems(&c->in[t].spec);
    }
    s.pieces = syn_pieces_of(c->in, c->n_in, PIECE);
    const int64_t n = s.pieces.first[c->n_in];
    SYN_TRY(syn__cuda_scratch(c, (size_t)n * sizeof(double), &sums));
    SYN_LAUNCH(square_kernel, syn_blocks(n, 1, 1), THREADS, 0, stream, s,
               static_cast<double *>(sums));
    SYN_LAUNCH(square_join_kernel, 1, THREADS, 0, stream, static_cast<const double *>(sums), n,
               (double)(c->n_attr ? c->attr[0].i : 1), static_cast<float *>(c->out[0].data));
    return syn__launched(c);
}

/* ---- clip_factor ---- */

static __global__ void clip_kernel(const float *squares, double most, float *factor, float *norm) {
    const double root = sqrt((double)*squares), quotient = most / (root + 1e-6);
    *factor = most > 0 && !(quotient >= 1) ? (float)quotient : 1.0f;
    *norm = (float)root;
}

static syn_status clip_factor_cuda(syn_call *c) {
    SYN_LAUNCH(clip_kernel, 1, 1, 0, syn__cuda_of(c)->stream,
               static_cast<const float *>(c->in[0].data), c->attr[0].f,
               static_cast<float *>(c->out[0].data), static_cast<float *>(c->out[1].data));
    return syn__launched(c);
}

const syn__cuda_row syn__cuda_reductions[] = {{SYN_OP_SUM_TO, sum_to_cuda},
                                              {SYN_OP_SQUARE_SUM, square_sum_cuda},
                                              {SYN_OP_CLIP_FACTOR, clip_factor_cuda},
                                              {SYN_OP_NONE, NULL}};
