/* Fused attention with SIMD lanes (ops/lanes.h), included by attention_avx2.c and
   attention_avx512.c. Keys are processed block by block, with a running maximum and sum per query
   (online softmax: Milakov and Gimelshein 2018; blocks: Dao et al. 2022).

   With many queries, each lane processes one query. The tile of queries is transposed once. Scores
   (keys, queries) = k q' and results (value_depth, queries) = v' p are then sums of scalars from k
   or v times vectors of queries. Keys and values are read in place, whatever their strides are, and
   no maximum, exponential or sum combines different lanes. With few queries, as in decoding,
   queries are processed one at a time, with lanes along the depth. */
#ifndef OPS_ATTENTION_BODY_H
#define OPS_ATTENTION_BODY_H

#include "ops/attention.h"
#include "ops/dropout_lanes.h"
#include "ops/lanes_math.h"
#include "ops/rows.h"

#if SYN_LANES > 0
#include <math.h>
#include <string.h>

enum {
    VECS = 3,                     /* vectors of queries per tile */
    TILE = VECS * SYN_LANES,      /* queries per call */
    BLOCK = 64,                   /* keys per block, a multiple of ROWS */
    ROWS = 4,                     /* rows of a product that are summed at the same time */
    FEW = SYN_LANES == 16 ? 6 : 4 /* up to FEW queries are processed one at a time */
};

/* The product that computes scores and results. For each row r, it sets out[r] to out[r] * shrink +
   a sum of n terms, each a scalar of row r times a vector of x. shrink NULL: out is overwritten.
   From term to term, the rows advance by `step` and x by TILE. There is one function per number of
   vectors, so that all sums stay in registers. */
typedef void (*product)(const float *x, const float *const rows[ROWS], int64_t step, int64_t n,
                        const vec *shrink, float *out);

/* Up to VECS vectors; the first `vecs` are used. Named members instead of an array, because clang
   keeps arrays in memory. */
typedef struct three {
    vec a, b, c;
} three;

LANE_FN three three_load(/* constant */ int vecs, const float *p) {
    const vec a = vec_load(p);
    return (three){a, vecs > 1 ? vec_load(p + SYN_LANES) : a,
                   vecs > 2 ? vec_load(p + 2 * SYN_LANES) : a};
}

LANE_FN void three_store(/* constant */ int vecs, float *p, three x) {
    vec_store(p, x.a);
    if (vecs > 1) vec_store(p + SYN_LANES, x.b);
    if (vecs > 2) vec_store(p + 2 * SYN_LANES, x.c);
}

LANE_FN three three_fma(/* constant */ int vecs, float number, three x, three sum) {
    const vec by = vec_set(number);
    return (three){vec_fma(by, x.a, sum.a), vecs > 1 ? vec_fma(by, x.b, sum.b) : sum.b,
                   vecs > 2 ? vec_fma(by, x.c, sum.c) : sum.c};
}

LANE_FN three three_begin(/* constant */ int vecs, const float *p, const vec *shrink) {
    const vec zero = vec_set(0.0f);
    if (!shrink) return (three){zero, zero, zero};
    const three x = three_load(vecs, p);
    return (three){vec_mul(x.a, shrink[0]), vec_mul(x.b, shrink[1]), vec_mul(x.c, shrink[2])};
}

LANE_FN void multiply(/* constant */ int vecs, const float *x, const float *const rows[ROWS],
                      int64_t step, int64_t n, const vec *shrink, float *out) {
    const float *const row0 = rows[0], *const row1 = rows[1], *const row2 = rows[2],
                       *const row3 = rows[3];
    three sum0 = three_begin(vecs, out, shrink), sum1 = three_begin(vecs, out + TILE, shrink),
          sum2 = three_begin(vecs, out + 2 * TILE, shrink),
          sum3 = three_begin(vecs, out + 3 * TILE, shrink);
    for (int64_t i = 0; i < n; i++, x += TILE) {
        const three column = three_load(vecs, x);
        sum0 = three_fma(vecs, row0[i * step], column, sum0);
        sum1 = three_fma(vecs, row1[i * step], column, sum1);
        sum2 = three_fma(vecs, row2[i * step], column, sum2);
        sum3 = three_fma(vecs, row3[i * step], column, sum3);
    }
    three_store(vecs, out, sum0);
    three_store(vecs, out + TILE, sum1);
    three_store(vecs, out + 2 * TILE, sum2);
    three_store(vecs, out + 3 * TILE, sum3);
}

#define PRODUCT(vecs)                                                                       \
    static void product_##vecs(const float *x, const float *const rows[ROWS], int64_t step, \
                               int64_t n, const vec *shrink, float *out) {                  \
        multiply(vecs, x, rows, step, n, shrink, out);                                      \
    }
PRODUCT(1)
PRODUCT(2)
PRODUCT(3)
static const product products[VECS] = {product_1, product_2, product_3};

/* Keys or values of a block; rows are `stride` apart. */
typedef struct block {
    const float *x;
    int64_t stride;
} block;

LANE_FN int64_t padded(int64_t depth) {
    return (depth + SYN_LANES - 1) / SYN_LANES * SYN_LANES;
}

/* The rows of x for keys s .. s + n - 1, of `depth` elements each: in place if they are f32 and
   consecutive, otherwise converted to f32 in `buffer` (BLOCK, padded). */
static block block_of(const syn_attention_tile *a, const void *x, int64_t depth, int64_t stride,
                      int64_t s, int64_t n, float *buffer) {
    const int64_t pad = padded(depth);
    if (a->dtype == SYN_F32 && !a->slots) return (block){(const float *)x + s * stride, stride};
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = syn__key_row(a, s + i) * stride;
        if (a->dtype == SYN_F32)
            memcpy(buffer + i * pad, (const float *)x + from, (size_t)depth * sizeof *buffer);
        else
            syn__row_kernels()->widen((const uint16_t *)x + from, a->dtype, buffer + i * pad,
                                      depth);
    }
    return (block){buffer, pad};
}

/* State of a tile: its scratch memory, and the running maximum and sum of its queries. */
typedef struct tile {
    const syn_attention_tile *a;
    int vecs;         /* vectors that contain queries */
    product multiply; /* the function for that many vectors */
    float *q, *p, *o; /* q (depth, TILE), p (BLOCK, TILE), o (value_depth + 3, TILE) */
    float *buffer;    /* (BLOCK, padded), see block_of */
    vec max[VECS], sum[VECS], shrink[VECS]; /* shrink: factor of the sums so far */
} tile;

/* Caps scores in base 2. */
LANE_FN vec cap_scores(const syn_attention_tile *a, vec x) {
    const float cap = a->cap * LOG2_E;
    return vec_mul(vec_set(cap), vec_tanh(vec_div(x, vec_set(cap))));
}

/* Caps a key's row of scores, adds the mask to them, sets the scores of queries that may not attend
   to the key to -infinity, and updates `max`. */
static void mask_row(const tile *t, int64_t key, float *p, vec max[VECS]) {
    const syn_attention_tile *a = t->a;
    const vec lane = vec_lane_number(), none = vec_set(-INFINITY);
    const vec bias = vec_set(a->mask ? a->mask[key] * LOG2_E : 0.0f);
    const int64_t from = a->step ? key - a->visible + 1 : 0;   /* first query that uses the key */
    const int64_t until = a->window ? from + a->window : TILE; /* the first later query that does
                                                                  not */
    for (int v = 0; v < t->vecs; v++) {
        vec x = vec_load(p + v * SYN_LANES);
        if (a->cap > 0) x = cap_scores(a, x);
        x = vec_add(x, bias);
        if (from > v * SYN_LANES)
            x = vec_select(vec_less(lane, vec_set((float)(from - v * SYN_LANES))), none, x);
        if (until < (v + 1) * SYN_LANES)
            x = vec_select(vec_less(lane, vec_set((float)(until - v * SYN_LANES))), x, none);
        max[v] = vec_max(x, max[v]);
        vec_store(p + v * SYN_LANES, x);
    }
}

/* Stores the scores of keys s0 .. s0 + n - 1, in base 2, in t->p, and updates `max`. If n is not a
   multiple of ROWS, the last key's scores are computed more than once. */
static void score_block(const tile *t, int64_t s0, int64_t n, vec max[VECS]) {
    const syn_attention_tile *a = t->a;
    const block k = block_of(a, a->k, a->depth, a->k_stride, s0, n, t->buffer);
    for (int64_t s = 0; s < n; s += ROWS) {
        const float *rows[ROWS];
        for (int r = 0; r < ROWS; r++) rows[r] = k.x + (s + r < n ? s + r : n - 1) * k.stride;
        t->multiply(t->q, rows, 1, a->depth, NULL, t->p + s * TILE);
    }
    for (int64_t s = 0; s < n; s++) mask_row(t, s0 + s, t->p + s * TILE, max);
}

/* Converts scores to weights 2^(score - max) and sums them. Computes `shrink`, the factor that
   corrects earlier sums for the new maximum. */
static void weigh_block(tile *t, int64_t n, const vec max[VECS]) {
    for (int v = 0; v < t->vecs; v++) {
        /* max is -infinity for a query without a key so far; any finite number works then */
        const vec top = vec_select(vec_less(vec_set(-INFINITY), max[v]), max[v], vec_set(0.0f));
        t->shrink[v] = vec_exp2(vec_sub(t->max[v], top));
        t->max[v] = max[v];
        vec sum = vec_mul(t->sum[v], t->shrink[v]);
        float *p = t->p + v * SYN_LANES;
        for (int64_t s = 0; s < n; s++, p += TILE) {
            const vec w = vec_exp2(vec_sub(vec_load(p), top));
            sum = vec_add(sum, w);
            vec_store(p, w);
        }
        t->sum[v] = sum;
    }
}

/* Adds the block's weighted values to t->o. */
static void add_block(const tile *t, int64_t s0, int64_t n) {
    const syn_attention_tile *a = t->a;
    const block v = block_of(a, a->v, a->value_depth, a->v_stride, s0, n, t->buffer);
    const int64_t depth = a->value_depth;
    for (int64_t d = 0; d < depth; d += ROWS) {
        const float *rows[ROWS];
        for (int r = 0; r < ROWS; r++) rows[r] = v.x + (d + r < depth ? d + r : depth - 1);
        t->multiply(t->p, rows, v.stride, n, t->shrink, t->o + d * TILE);
    }
}

/* Sets the weights that dropout removes to zero, for keys s0 .. s0 + n - 1. */
static void drop_block(const tile *t, int64_t s0, int64_t n) {
    const syn_attention_tile *a = t->a;
    uint32_t start[TILE] = {0}, salt[TILE] = {0};
    for (int64_t i = 0; i < a->queries; i++) {
        start[i] = a->drop[i].start + a->column + (uint32_t)s0;
        salt[i] = a->drop[i].salt;
    }
    for (int v = 0; v < t->vecs; v++) {
        const vec_int at = int_load(start + v * SYN_LANES), key = int_load(salt + v * SYN_LANES);
        float *p = t->p + v * SYN_LANES;
        for (int64_t s = 0; s < n; s++, p += TILE) {
            const vec_mask drops =
                vec_drops_at(int_add(at, int_set((uint32_t)s)), key, a->drop->limit);
            vec_store(p, vec_select(drops, vec_set(0.0f), vec_load(p)));
        }
    }
}

static void transpose_queries(const tile *t) {
    const syn_attention_tile *a = t->a;
    const float scale = a->scale * LOG2_E;
    for (int64_t d = 0; d < a->depth; d++) {
        float *to = t->q + d * TILE;
        for (int64_t i = 0; i < a->queries; i++) to[i] = a->q[i * a->q_stride + d] * scale;
        for (int64_t i = a->queries; i < TILE; i++) to[i] = 0;
    }
}

/* Natural log-sum-exp, from the largest score in base 2 and the sum of 2^(score - max). */
static float log_of_sum(float max, float sum) {
    return max == -INFINITY ? max + sum : (max + log2f(sum)) / LOG2_E;
}

static void transpose_results(const tile *t) {
    const syn_attention_tile *a = t->a;
    const float keep = a->drop ? a->drop->keep : 1.0f;
    float sum[TILE];
    for (int v = 0; v < VECS; v++) vec_store(sum + v * SYN_LANES, t->sum[v]);
    for (int64_t i = 0; i < a->queries; i++) {
        const float inverse = sum[i] == 0.0f ? 0.0f : keep / sum[i];
        for (int64_t d = 0; d < a->value_depth; d++)
            a->out[i * a->out_stride + d] = t->o[d * TILE + i] * inverse;
    }
    if (!a->log_sum) return;
    float max[TILE];
    for (int v = 0; v < VECS; v++) vec_store(max + v * SYN_LANES, t->max[v]);
    for (int64_t i = 0; i < a->queries; i++) a->log_sum[i] = log_of_sum(max[i], sum[i]);
}

/* The sink in base 2, with which a query's maximum begins. */
LANE_FN float sink_of(const syn_attention_tile *a) {
    return a->has_sink ? a->sink * LOG2_E : -INFINITY;
}

static void attend_tile(const syn_attention_tile *a) {
    tile t = {.a = a, .vecs = (int)((a->queries + SYN_LANES - 1) / SYN_LANES), .q = a->scratch};
    t.multiply = products[t.vecs - 1];
    t.p = t.q + a->depth * TILE;
    t.o = t.p + BLOCK * TILE;
    t.buffer = t.o + (a->value_depth + ROWS) * TILE;
    for (int v = 0; v < VECS; v++) {
        t.max[v] = vec_set(sink_of(a));
        t.sum[v] = vec_set(a->has_sink ? 1.0f : 0.0f);
    }
    for (int64_t i = 0; i < (a->value_depth + ROWS - 1) * TILE; i += SYN_LANES)
        vec_store(t.o + i, vec_set(0.0f));
    transpose_queries(&t);
    const int64_t end = syn__visible_end(a, a->queries - 1);
    for (int64_t s = syn__first_visible_key(a, 0); s < end; s += BLOCK) {
        const int64_t n = end - s < BLOCK ? end - s : BLOCK;
        vec max[VECS];
        for (int v = 0; v < t.vecs; v++) max[v] = t.max[v];
        score_block(&t, s, n, max);
        weigh_block(&t, n, max);
        if (a->drop) drop_block(&t, s, n);
        add_block(&t, s, n);
    }
    transpose_results(&t);
}

/* ---- one query at a time, lanes along the depth ---- */

/* A vector of the elements of a row from `at` on. `left`: number of elements left in the row; lanes
   after them are 0. */
LANE_FN vec load_part(const void *row, int64_t at, int64_t left, /* constant */ syn_dtype dtype) {
    const float *p = (const float *)row + at;
    if (dtype == SYN_F32)
        return left >= SYN_LANES ? vec_load(p) : vec_load_mask(vec_first(left), p);
    const uint16_t *half = (const uint16_t *)row + at;
    uint16_t few[SYN_LANES] = {0};
    if (left < SYN_LANES) half = memcpy(few, half, (size_t)left * sizeof *half);
    return dtype == SYN_F16 ? vec_f16(half) : vec_bf16(half);
}

/* Stores the scores of keys s0 .. s0 + n - 1 in w, in base 2. Returns the new maximum. */
LANE_FN float score_keys(const syn_attention_tile *a, const float *q, int64_t s0, int64_t n,
                         float max, float *w, /* constant */ syn_dtype dtype) {
    for (int64_t s = 0; s < n; s++) {
        const int64_t row = syn__key_row(a, s0 + s) * a->k_stride;
        vec acc = vec_set(0.0f);
        for (int64_t d = 0; d < a->depth; d += SYN_LANES)
            acc = vec_fma(vec_load(q + d), load_part(a->k, row + d, a->depth - d, dtype), acc);
        w[s] = vec_sum(acc);
        if (a->cap > 0) w[s] = a->cap * LOG2_E * tanhf(w[s] / (a->cap * LOG2_E));
        if (a->mask) w[s] += a->mask[s0 + s] * LOG2_E;
        max = w[s] > max ? w[s] : max;
    }
    return max;
}

/* Sets w = 2^(w - top) and returns the sum. w has space for whole vectors. */
static float weigh_keys(float *w, int64_t n, float top) {
    vec sum = vec_set(0.0f);
    for (int64_t s = 0; s < n; s += SYN_LANES) {
        const vec e = vec_exp2(vec_sub(vec_load(w + s), vec_set(top)));
        vec_store(w + s, e);
        sum = vec_add(sum, n - s >= SYN_LANES ? e : vec_select(vec_first(n - s), e, vec_set(0.0f)));
    }
    return vec_sum(sum);
}

static void drop_keys(const syn_attention_tile *a, int64_t query, int64_t s0, int64_t n, float *w) {
    for (int64_t s = 0; s < n; s += SYN_LANES) {
        const vec_mask drops = vec_drops(&a->drop[query], a->column + (uint32_t)(s0 + s));
        vec_store(w + s, vec_select(drops, vec_set(0.0f), vec_load(w + s)));
    }
}

enum { PARTS = 4 };

/* o = o * shrink + the weighted values of keys s0 .., for `parts` vectors from depth d on. */
LANE_FN void add_part(const syn_attention_tile *a, /* constant */ int parts, const float *w,
                      int64_t s0, int64_t n, float shrink, int64_t d, float *o, syn_dtype dtype) {
    vec acc[PARTS];
    LANE_UNROLL
    for (int i = 0; i < parts; i++)
        acc[i] = vec_mul(vec_load(o + d + i * SYN_LANES), vec_set(shrink));
    for (int64_t s = 0; s < n; s++) {
        const int64_t row = syn__key_row(a, s0 + s) * a->v_stride + d;
        const vec by = vec_set(w[s]);
        LANE_UNROLL
        for (int i = 0; i < parts; i++)
            acc[i] = vec_fma(
                by, load_part(a->v, row + i * SYN_LANES, a->value_depth - d - i * SYN_LANES, dtype),
                acc[i]);
    }
    LANE_UNROLL
    for (int i = 0; i < parts; i++) vec_store(o + d + i * SYN_LANES, acc[i]);
}

LANE_FN void add_values(const syn_attention_tile *a, const float *w, int64_t s0, int64_t n,
                        float shrink, float *o, /* constant */ syn_dtype dtype) {
    const int64_t depth = a->value_depth;
    int64_t d = 0;
    for (; d + PARTS * SYN_LANES <= depth; d += PARTS * SYN_LANES)
        add_part(a, PARTS, w, s0, n, shrink, d, o, dtype);
    for (; d < depth; d += SYN_LANES) add_part(a, 1, w, s0, n, shrink, d, o, dtype);
}

LANE_FN void attend_one(const syn_attention_tile *a, int64_t query,
                        /* constant */ syn_dtype dtype) {
    const int64_t end = syn__visible_end(a, query), depth = a->depth, values = a->value_depth;
    const int64_t pad = padded(depth), value_pad = padded(values);
    const float scale = a->scale * LOG2_E;
    float *q = a->scratch, *o = q + pad, *w = o + value_pad, *out = a->out + query * a->out_stride;
    float max = sink_of(a), sum = a->has_sink;
    for (int64_t d = 0; d < pad; d++) q[d] = d < depth ? a->q[query * a->q_stride + d] * scale : 0;
    for (int64_t d = 0; d < value_pad; d++) o[d] = 0;
    for (int64_t s = syn__first_visible_key(a, query); s < end; s += BLOCK) {
        const int64_t n = end - s < BLOCK ? end - s : BLOCK;
        const float before = max;
        max = score_keys(a, q, s, n, max, w, dtype);
        const float top = max == -INFINITY ? 0 : max, shrink = exp2f(before - top);
        sum = sum * shrink + weigh_keys(w, n, top);
        if (a->drop) drop_keys(a, query, s, n, w);
        add_values(a, w, s, n, shrink, o, dtype);
    }
    const float inverse = sum == 0 ? 0 : (a->drop ? a->drop->keep : 1) / sum;
    for (int64_t d = 0; d < values; d++) out[d] = o[d] * inverse;
    if (a->log_sum) a->log_sum[query] = log_of_sum(max, sum);
}

static void attend(const syn_attention_tile *a) {
    if (a->queries > FEW) attend_tile(a);
    else
        for (int64_t i = 0; i < a->queries; i++) {
            if (a->dtype == SYN_F32) attend_one(a, i, SYN_F32);
            else if (a->dtype == SYN_F16) attend_one(a, i, SYN_F16);
            else attend_one(a, i, SYN_BF16);
        }
}

static size_t scratch_floats(int64_t depth, int64_t value_depth, int64_t keys) {
    const int64_t wide = depth > value_depth ? depth : value_depth;
    (void)keys;
    return (size_t)((depth + value_depth + BLOCK + ROWS) * TILE + BLOCK * padded(wide));
}
#endif

#endif
