/* What the attention kernels share: shapes, which keys a query attends to, dropout, and loading
   rows to shared memory. The forward and the gradient kernels have the same structure. A block owns
   a tile of rows: of keys for the gradients of keys and values, otherwise of queries. It iterates
   over tiles of the other rows. For each pair of tiles it computes scores, and uses them as the
   weights of a sum of rows. tiles.cuh computes these two products. */
#ifndef OPS_CUDA_ATTENTION_CUH
#define OPS_CUDA_ATTENTION_CUH

#include "ops/cuda/device.cuh"
#include "ops/dropout.h"

#define SYN_LOG2_E 1.44269504f
#define SYN_LN_2   0.693147181f

/* Rows (b, head, i) of D dense elements; strides in elements. */
struct syn_head_rows {
    void *data;
    int64_t batch, head, row;
};

struct syn_attention {
    int64_t batches, heads, shared; /* B, heads of q, heads of k and v */
    int64_t group;                  /* heads / shared */
    int64_t queries, keys;          /* T, S */
    int depth, value_depth;         /* D, Dv: head_dim of queries and keys, and of values */
    int widest;                     /* the larger of the two */
    bool packs;                     /* all rows that are read start and end at multiples of 16
                                       bytes */
    bool causal;
    int64_t offset, window; /* window 0: none */
    float scale;
    const float *mask; /* (B, S), or NULL */
    int64_t mask_row;
    const void *sinks; /* (heads), in the dtype of q, or NULL */
    int64_t sinks_stride;
    /* Dropout. row: dropout row of query 0 of head 0. column: dropout column of key 0. keep is 1
       without dropout. */
    uint64_t seed;
    const int32_t *samples; /* (B), or NULL: sample + b */
    int64_t samples_stride, sample, row;
    uint32_t column;
    int32_t limit;
    float keep;
    bool drop;
};

struct syn_range {
    int64_t from, until;
};

static __device__ __forceinline__ int64_t syn_within(int64_t x, int64_t most) {
    return x < 0 ? 0 : x < most ? x : most;
}

/* syn_keys_of: the keys that query t attends to. syn_queries_of: the queries that attend to key
   s. */
static __device__ __forceinline__ syn_range syn_keys_of(const syn_attention &a, int64_t t) {
    if (!a.causal) return {0, a.keys};
    const int64_t until = a.offset + t + 1;
    return {a.window ? syn_within(until - a.window, a.keys) : 0, syn_within(until, a.keys)};
}
static __device__ __forceinline__ syn_range syn_queries_of(const syn_attention &a, int64_t s) {
    if (!a.causal) return {0, a.queries};
    const int64_t from = s - a.offset;
    return {syn_within(from, a.queries),
            a.window ? syn_within(from + a.window, a.queries) : a.queries};
}
/* The columns that row 0 of the own tile uses in a tile of other rows. The band of each following
   row is shifted by one column. */
struct syn_band {
    int from, until;
};
static __device__ __forceinline__ int syn_near(int64_t x) {
    const int64_t far = 1 << 30; /* farther than any tile reaches */
    return (int)(x < -far ? -far : x < far ? x : far);
}
/* syn_band_of_query: the band if own row 0 is query t and column 0 is key s. syn_band_of_key: the
   band if own row 0 is key s and column 0 is query t. */
static __device__ __forceinline__ syn_band syn_band_of_query(const syn_attention &a, int64_t t,
                                                             int64_t s) {
    const int64_t until = a.causal ? a.offset + t + 1 - s : INT64_MAX;
    return {a.window ? syn_near(until - a.window) : syn_near(INT64_MIN), syn_near(until)};
}
static __device__ __forceinline__ syn_band syn_band_of_key(const syn_attention &a, int64_t s,
                                                           int64_t t) {
    const int64_t from = a.causal ? s - a.offset - t : INT64_MIN;
    return {syn_near(from), a.window ? syn_near(from + a.window) : syn_near(INT64_MAX)};
}
static __device__ __forceinline__ bool syn_sees(syn_band band, int row, int column) {
    return column >= band.from + row && column < band.until + row;
}
/* Whether rows 0 to `last` use all of n columns. */
static __device__ __forceinline__ bool syn_sees_all(syn_band band, int last, int n) {
    return band.from + last <= 0 && band.until >= n;
}

/* Dropout start and salt of a query; limit and keep are the same for all queries. */
static __device__ __forceinline__ uint2 syn_drop_row(const syn_attention &a, int64_t b, int64_t h,
                                                     int64_t t) {
    const int32_t sample = a.samples ? a.samples[b * a.samples_stride] : (int32_t)(a.sample + b);
    const syn_dropout_row row = syn__dropout_row(0, a.seed, sample, a.row + h * a.queries + t);
    uint2 d;
    d.x = row.start + a.column;
    d.y = row.salt;
    return d;
}
static __device__ __forceinline__ bool syn_drops(const syn_attention &a, uint2 row, int64_t key) {
    const syn_dropout_row d = {row.x, row.y, a.limit, a.keep};
    return syn__drops(&d, (uint32_t)key);
}

template <typename T>
static __device__ __forceinline__ const T *syn_rows_at(const syn_head_rows &r, int64_t b,
                                                       int64_t h) {
    return static_cast<const T *>(r.data) + b * r.batch + h * r.head;
}

/* Copies ROWS rows, from element `first` of each row on, to shared memory, where the row stride is
   Tile::ROW. Row r is at `from + place(r)` and has `depth` elements. Rows from number n on and
   elements after the depth become zero. */
template <class Tile, int ROWS, typename T, typename F>
static __device__ __forceinline__ void syn_fetch_rows(typename Tile::element *to, const T *from,
                                                      int n, const syn_attention &a, int depth,
                                                      int first, F place) {
    constexpr int wide = syn_wide<T>::n, packs = Tile::DEPTH / wide;
    depth -= first;
    from += first;
    for (int i = (int)threadIdx.x; i < ROWS * packs; i += Tile::THREADS) {
        const int r = i / packs, d = i % packs * wide;
        const bool there = r < n && d < depth;
        const T *row = there ? from + place(r) + d : from;
        typename Tile::element *at = to + r * Tile::ROW + d;
        if (a.packs && there) {
            Tile::fetch(at, row);
            continue;
        }
        syn_pack<T, wide> pack;
#pragma unroll
        for (int k = 0; k < wide; k++)
            pack.at[k] = there && d + k < depth ? row[k] : syn_from_float<T>(0.0f);
        Tile::put(at, pack);
    }
}

/* Number of pieces that the depth is split into. For a deep tile, each piece of the results is
   computed by a separate block, which also computes all scores. */
template <class Tile> static __host__ __device__ __forceinline__ int syn_depth_pieces(int depth) {
    return Tile::DEEP ? (depth + Tile::DEPTH - 1) / Tile::DEPTH : 1;
}
/* Adds the products of the other pieces of the depth to the scores of a deep tile's first piece.
   `fetch(d, e)` loads own rows from element d on and other rows from element e on, and `add` adds
   their product. Afterwards shared memory has the first piece of the own rows, and the piece of the
   other rows that begins at element `last`. */
template <class Tile, typename F, typename S>
static __device__ __forceinline__ void syn_deeper(int depth, int last, F fetch, S add) {
    for (int d = Tile::DEPTH; d < depth; d += Tile::DEPTH) {
        __syncthreads();
        fetch(d, d);
        __syncthreads();
        add();
    }
    __syncthreads();
    fetch(0, last);
    __syncthreads();
}
template <class Tile>
static __device__ __forceinline__ void syn_add_scores(float (&s)[Tile::R][Tile::C],
                                                      const typename Tile::element *own,
                                                      const typename Tile::element *other) {
    float more[Tile::R][Tile::C];
    Tile::scores(more, own, other);
#pragma unroll
    for (int r = 0; r < Tile::R; r++)
#pragma unroll
        for (int c = 0; c < Tile::C; c++) s[r][c] += more[r][c];
}

/* Stores a row of results. Elements n and n + 1 of a thread are adjacent. */
template <class Tile, typename T>
static __device__ __forceinline__ void syn_store_row(T *to, const float (&x)[Tile::A], float by,
                                                     int depth) {
#pragma unroll
    for (int n = 0; n < Tile::A; n += 2) {
        const int d = Tile::column_of_sum(n);
        const syn_pack<T, 2> pack = {
            {syn_from_float<T>(x[n] * by), syn_from_float<T>(x[n + 1] * by)}};
        if (depth % 2 == 0 && d < depth) {
            syn_store(to + d, pack);
            continue;
        }
        if (d < depth) to[d] = pack.at[0];
        if (d + 1 < depth) to[d + 1] = pack.at[1];
    }
}

/* ---- on the host ---- */

static inline syn_head_rows syn_head_rows_of(const syn_operand *o) {
    return {o->data, o->strides[0], o->strides[1], o->strides[2]};
}
/* Returns the same for an operand stored as (B, T, H, D). */
static inline syn_head_rows syn_token_rows_of(const syn_operand *o) {
    return {o->data, o->strides[0], o->strides[2], o->strides[1]};
}

/* first: number of the first optional input: the sinks, the mask or the samples' keys. */
syn_attention syn__attention_of(const syn_call *c, int first);
/* Whether rows of the operand can be loaded 16 bytes at a time. */
bool syn__head_packs(const syn_operand *o);

/* Whether the device has tensor cores for the call's dtype. */
bool syn__tensor_cores(const syn_call *c);
/* Fails with the message that the device has too little shared memory per block. */
syn_status syn__too_little_shared(const syn_call *c);

/* Requests `bytes` of dynamic shared memory for a kernel, which is necessary above 48 KiB. Returns
   false if the device does not have that much. */
template <typename... P>
static inline bool syn_want_shared(const syn_call *c, void (*kernel)(P...), size_t bytes) {
    enum { ALWAYS = 48 << 10 };
    if (bytes <= ALWAYS) return true;
    return bytes <= syn__cuda_of(c)->shared_bytes &&
           cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes) ==
               cudaSuccess;
}

#endif
