/* Ops on elements with any strides: add, mul, accumulate, slice_add, and the copies contiguous,
   concat, slice_grad. All are limited by memory bandwidth: they use packs of 16 bytes where
   alignment allows, and tiles in shared memory where a copy transposes. */
#include "ops/cuda/walk.cuh"

enum { THREADS = 256 };

/* ---- packs, if all operands allow them ---- */

/* Addresses of the operands of a walk; the first is the output. */
template <int N> struct places {
    char *at[N];
    int bytes[N]; /* bytes per element */
};

/* Calls launch(walk, places, whether in packs of `wide` elements). If a single row has elements
   left over after its packs, calls it once more for these elements. */
template <int N, typename F>
static void in_packs(syn_walk<N> walk, const places<N> &p, int wide, F launch) {
    const int64_t rest = walk.rank == 1 && walk.dims[0] > wide ? walk.dims[0] % wide : 0;
    if (rest > 0) {
        syn_walk<N> tail = walk;
        places<N> behind = p;
        walk.dims[0] -= rest;
        tail.dims[0] = rest;
        for (int k = 0; k < N; k++)
            behind.at[k] += walk.dims[0] * walk.strides[k][0] * behind.bytes[k];
        launch(tail, behind, false);
    }
    bool packs = walk.strides[0][walk.rank - 1] == 1;
    for (int k = 0; k < N; k++) packs = packs && syn_walk_packs(walk, k, p.at[k], p.bytes[k], wide);
    if (packs) syn_walk_pack(&walk, wide);
    launch(walk, p, packs);
}

template <int N> static int64_t count_of(const syn_walk<N> &walk) {
    int64_t n = 1;
    for (int d = 0; d < walk.rank; d++) n *= walk.dims[d];
    return n;
}

/* Loads W elements that are `step` apart, as a pack if they are adjacent. */
template <typename T, int W>
static __device__ __forceinline__ syn_pack<T, W> gather(const T *x, int64_t step) {
    if (step == 1) return syn_load<T, W>(x);
    syn_pack<T, W> pack;
#pragma unroll
    for (int i = 0; i < W; i++) pack.at[i] = x[i * step];
    return pack;
}

/* ---- copies ---- */

/* Copies elements as bits: E is an unsigned integer of their size. */
template <typename E, int W>
static __global__ void copy_kernel(E *to, const E *from, const syn_walk<2> walk, int64_t n) {
    const int64_t step = walk.strides[1][walk.rank - 1] / W;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t at[2];
        syn_walk_to(walk, i, at);
        syn_pack<E, W> pack = {};
        if (from) pack = gather<E, W>(from + at[1], step);
        syn_store(to + at[0], pack);
    }
}

/* A transposing copy: `to` is dense in one dimension and `from` is dense in another. around: a walk
   over all other dimensions. */
struct transposition {
    syn_walk<2> around;
    int64_t rows, columns; /* dimensions of `from`, whose rows are dense */
    int64_t from_step, to_step;
    int64_t across, tiles; /* number of tiles per row and in total */
};

template <typename E, int SIDE>
static __global__ void transpose_kernel(E *to, const E *from, const transposition t) {
    __shared__ E tile[SIDE][SIDE + (sizeof(E) < 4 ? 2 : 1)]; /* padded so that a column uses all
                                                                banks */
    const int lane = (int)threadIdx.x % SYN_WARP, warp = (int)threadIdx.x / SYN_WARP;
    const int64_t down = (t.rows + SIDE - 1) / SIDE;
    for (int64_t b = blockIdx.x; b < t.tiles; b += gridDim.x) {
        const int64_t column = b % t.across * SIDE, row = b / t.across % down * SIDE;
        int64_t at[2];
        syn_walk_to(t.around, b / t.across / down, at);
        for (int j = warp; j < SIDE; j += THREADS / SYN_WARP)
            for (int i = lane; i < SIDE; i += SYN_WARP)
                if (row + j < t.rows && column + i < t.columns)
                    tile[j][i] = from[at[1] + (row + j) * t.from_step + column + i];
        __syncthreads();
        for (int j = warp; j < SIDE; j += THREADS / SYN_WARP)
            for (int i = lane; i < SIDE; i += SYN_WARP)
                if (row + i < t.rows && column + j < t.columns)
                    to[at[0] + (column + j) * t.to_step + row + i] = tile[i][j];
        __syncthreads();
    }
}

/* Returns the dimension in which `from` is dense although `to` is not; -1 if there is none, or if
   it is too short for tiles. */
static int transposed_dimension(const syn_walk<2> &walk) {
    const int last = walk.rank - 1;
    if (walk.strides[0][last] != 1 || walk.strides[1][last] == 1 || walk.dims[last] < 16) return -1;
    for (int d = 0; d < last; d++)
        if (walk.strides[1][d] == 1 && walk.dims[d] >= 16) return d;
    return -1;
}

template <typename E>
static void launch_transpose(cudaStream_t stream, const syn_walk<2> &walk, int transposed, void *to,
                             const void *from) {
    constexpr int side = sizeof(E) < 4 ? 64 : 32; /* tile rows of at least 128 bytes */
    const int last = walk.rank - 1;
    transposition t = {};
    for (int d = 0; d < last; d++) {
        const int64_t strides[2] = {walk.strides[0][d], walk.strides[1][d]};
        if (d != transposed) syn_walk_add(&t.around, walk.dims[d], strides);
    }
    const int64_t around = syn_walk_done(&t.around);
    t.rows = walk.dims[last];
    t.columns = walk.dims[transposed];
    t.from_step = walk.strides[1][last];
    t.to_step = walk.strides[0][transposed];
    t.across = (t.columns + side - 1) / side;
    t.tiles = t.across * ((t.rows + side - 1) / side) * around;
    SYN_LAUNCH((transpose_kernel<E, side>), syn_blocks(t.tiles, 1, 1), THREADS, 0, stream,
               static_cast<E *>(to), static_cast<const E *>(from), t);
}

template <typename E>
static void launch_copy(cudaStream_t stream, const syn_operand *to, const syn_operand *from) {
    constexpr int wide = syn_wide<E>::n;
    syn_walk<2> walk;
    const syn_operand *const operands[2] = {to, from ? from : to};
    if (syn_walk_over(&walk, &to->spec, operands) == 0) return;
    const int transposed = from ? transposed_dimension(walk) : -1;
    if (transposed >= 0) {
        launch_transpose<E>(stream, walk, transposed, to->data, from->data);
        return;
    }
    const places<2> p = {{static_cast<char *>(to->data), static_cast<char *>(operands[1]->data)},
                         {(int)sizeof(E), (int)sizeof(E)}};
    in_packs(walk, p, wide, [=](const syn_walk<2> &part, const places<2> &at, bool packs) {
        E *y = reinterpret_cast<E *>(at.at[0]);
        const E *x = from ? reinterpret_cast<const E *>(at.at[1]) : NULL;
        const int64_t n = count_of(part);
        const unsigned blocks = syn_blocks(n, THREADS, 1);
        if (packs) SYN_LAUNCH((copy_kernel<E, wide>), blocks, THREADS, 0, stream, y, x, part, n);
        else SYN_LAUNCH((copy_kernel<E, 1>), blocks, THREADS, 0, stream, y, x, part, n);
    });
}

static int bytes_of(const syn_operand *o) {
    return o->spec.dtype == SYN_I64                                ? 8
           : o->spec.dtype == SYN_F16 || o->spec.dtype == SYN_BF16 ? 2
                                                                   : 4;
}

void syn__cuda_copy(const syn_call *c, const syn_operand *to, const syn_operand *from) {
    const cudaStream_t stream = syn__cuda_of(c)->stream;
    switch (bytes_of(to)) {
    case 2:
        launch_copy<uint16_t>(stream, to, from);
        break;
    case 4:
        launch_copy<uint32_t>(stream, to, from);
        break;
    default:
        launch_copy<uint64_t>(stream, to, from);
    }
}

/* Elements start .. start + length - 1 of dimension `axis` of `whole`. */
static syn_operand part_of(const syn_operand *whole, int64_t axis, int64_t start, int64_t length) {
    syn_operand part = *whole;
    part.spec.dims[axis] = length;
    part.data = static_cast<char *>(whole->data) + start * whole->strides[axis] * bytes_of(whole);
    return part;
}

static syn_status contiguous_cuda(syn_call *c) {
    syn__cuda_copy(c, &c->out[0], &c->in[0]);
    return syn__launched(c);
}

static syn_status concat_cuda(syn_call *c) {
    const int64_t axis = c->attr[0].i;
    int64_t start = 0;
    for (int i = 0; i < c->n_in; i++) {
        const int64_t length = c->in[i].spec.dims[axis];
        const syn_operand part = part_of(&c->out[0], axis, start, length);
        syn__cuda_copy(c, &part, &c->in[i]);
        start += length;
    }
    return syn__launched(c);
}

static syn_status slice_grad_cuda(syn_call *c) {
    const int64_t axis = c->attr[0].i, start = c->attr[1].i;
    const int64_t end = start + c->in[0].spec.dims[axis];
    const syn_operand before = part_of(&c->out[0], axis, 0, start);
    const syn_operand part = part_of(&c->out[0], axis, start, end - start);
    const syn_operand behind = part_of(&c->out[0], axis, end, c->out[0].spec.dims[axis] - end);
    syn__cuda_copy(c, &before, NULL);
    syn__cuda_copy(c, &part, &c->in[0]);
    syn__cuda_copy(c, &behind, NULL);
    return syn__launched(c);
}

/* ---- elementwise ops with two operands ---- */

struct sum_of {
    __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};
struct product_of {
    __device__ __forceinline__ float operator()(float a, float b) const { return a * b; }
};

/* y may equal a. */
template <typename T, typename B, typename F, int W>
static __global__ void pairs_kernel(T *y, const T *a, const B *b, const syn_walk<3> walk, int64_t n,
                                    F join) {
    const int last = walk.rank - 1;
    const int64_t step_a = walk.strides[1][last] / W, step_b = walk.strides[2][last] / W;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        int64_t at[3];
        syn_walk_to(walk, i, at);
        syn_pack<T, W> x = gather<T, W>(a + at[1], step_a);
        const syn_pack<B, W> z = gather<B, W>(b + at[2], step_b);
#pragma unroll
        for (int k = 0; k < W; k++)
            x.at[k] = syn_from_float<T>(join(syn_to_float(x.at[k]), syn_to_float(z.at[k])));
        syn_store(y + at[0], x);
    }
}

template <typename T, typename B, typename F>
static void launch_pairs(const syn_call *c, const syn_operand *y, const syn_operand *a,
                         const syn_operand *b, F join) {
    constexpr int wide = syn_wide<T>::n;
    const cudaStream_t stream = syn__cuda_of(c)->stream;
    syn_walk<3> walk;
    const syn_operand *const operands[3] = {y, a, b};
    if (syn_walk_over(&walk, &y->spec, operands) == 0) return;
    const places<3> p = {
        {static_cast<char *>(y->data), static_cast<char *>(a->data), static_cast<char *>(b->data)},
        {(int)sizeof(T), (int)sizeof(T), (int)sizeof(B)}};
    in_packs(walk, p, wide, [=](const syn_walk<3> &part, const places<3> &at, bool packs) {
        T *to = reinterpret_cast<T *>(at.at[0]);
        const T *x = reinterpret_cast<const T *>(at.at[1]);
        const B *z = reinterpret_cast<const B *>(at.at[2]);
        const int64_t n = count_of(part);
        const unsigned blocks = syn_blocks(n, THREADS, 1);
        if (packs)
            SYN_LAUNCH((pairs_kernel<T, B, F, wide>), blocks, THREADS, 0, stream, to, x, z, part, n,
                       join);
        else
            SYN_LAUNCH((pairs_kernel<T, B, F, 1>), blocks, THREADS, 0, stream, to, x, z, part, n,
                       join);
    });
}

static syn_status add_cuda(syn_call *c) {
    SYN_WITH_FLOAT(c->out[0].spec.dtype, T,
                   (launch_pairs<T, T>(c, &c->out[0], &c->in[0], &c->in[1], sum_of())));
    return syn__launched(c);
}

static syn_status mul_cuda(syn_call *c) {
    SYN_WITH_FLOAT(c->out[0].spec.dtype, T,
                   (launch_pairs<T, T>(c, &c->out[0], &c->in[0], &c->in[1], product_of())));
    return syn__launched(c);
}

/* Computes to += from. `to` is f32 or has the dtype of `from`. */
static syn_status add_to(const syn_call *c, const syn_operand *to, const syn_operand *from) {
    if (to->spec.dtype == SYN_F32)
        SYN_WITH_FLOAT(from->spec.dtype, B, (launch_pairs<float, B>(c, to, to, from, sum_of())));
    else SYN_WITH_FLOAT(to->spec.dtype, T, (launch_pairs<T, T>(c, to, to, from, sum_of())));
    return syn__launched(c);
}

static syn_status accumulate_cuda(syn_call *c) {
    return add_to(c, &c->out[0], &c->in[1]);
}

static syn_status slice_add_cuda(syn_call *c) {
    const int64_t axis = c->attr[0].i;
    const syn_operand part = part_of(&c->out[0], axis, c->attr[1].i, c->in[1].spec.dims[axis]);
    return add_to(c, &part, &c->in[1]);
}

const syn__cuda_row syn__cuda_shapes[] = {{SYN_OP_ADD, add_cuda},
                                          {SYN_OP_MUL, mul_cuda},
                                          {SYN_OP_ACCUMULATE, accumulate_cuda},
                                          {SYN_OP_SLICE_ADD, slice_add_cuda},
                                          {SYN_OP_CONTIGUOUS, contiguous_cuda},
                                          {SYN_OP_CONCAT, concat_cuda},
                                          {SYN_OP_SLICE_GRAD, slice_grad_cuda},
                                          {SYN_OP_NONE, NULL}};
