/* Gradient of fused attention with SIMD lanes, included by attention_avx2.c and attention_avx512.c
   after attention_body.h. ops/attention_scalar.c shows the formulas. Keys are processed block by
   block, as in the forward op (Dao et al. 2022). Each block needs five products. The first two, k
   q' and v dout', both (keys, queries), give the weights p and the gradient ds of the scores. The
   others are dv += p dout, dk += ds q, and dq' (depth, queries) += k' ds. Each product is a sum of
   scalars, with any stride, times dense vectors. */
#ifndef OPS_ATTENTION_GRAD_BODY_H
#define OPS_ATTENTION_GRAD_BODY_H

#include "ops/attention_body.h"

#if SYN_LANES > 0
#include <string.h>

enum {
    /* Vectors of queries per tile. These vectors, the sums of 4 rows and a scalar fill the
       registers. */
    GRAD_VECS = SYN_LANES == 16 ? 4 : 3,
    GRAD_TILE = GRAD_VECS * SYN_LANES
};

/* A product: out[r] = (add ? out[r] : 0) + a sum of n terms, each a scalar of row r times vectors
   of x. From term to term, scalars advance by `step` and x by x_row. number_row and out_row are the
   strides between rows of scalars and of `out`. */
typedef struct sums {
    const float *x, *number;
    float *out;
    int64_t n, x_row, step, number_row, out_row;
    bool add;
} sums;

/* Loops with a constant bound and a constant condition, which every compiler unrolls. */
#define FOR_EACH(i, n, most)         \
    LANE_UNROLL                      \
    for (int i = 0; i < (most); i++) \
        if (i < (n))

LANE_FN void add_products(const sums *p, /* constant */ int rows, int vecs) {
    vec sum[ROWS][GRAD_VECS], x[GRAD_VECS];
    const float *row[ROWS], *from = p->x;
    const int64_t n = p->n, step = p->step, x_row = p->x_row;
    FOR_EACH(r, rows, ROWS) {
        row[r] = p->number + r * p->number_row;
        FOR_EACH(v, vecs, GRAD_VECS)
        sum[r][v] = p->add ? vec_load(p->out + r * p->out_row + v * SYN_LANES) : vec_set(0.0f);
    }
    for (int64_t i = 0; i < n; i++, from += x_row) {
        FOR_EACH(v, vecs, GRAD_VECS) x[v] = vec_load(from + v * SYN_LANES);
        FOR_EACH(r, rows, ROWS) {
            const vec by = vec_set(row[r][i * step]);
            FOR_EACH(v, vecs, GRAD_VECS) sum[r][v] = vec_fma(by, x[v], sum[r][v]);
        }
    }
    FOR_EACH(r, rows, ROWS)
    FOR_EACH(v, vecs, GRAD_VECS)
    vec_store(p->out + r * p->out_row + v * SYN_LANES, sum[r][v]);
}

/* One function per number of vectors, so that all sums stay in registers. */
#define ADD_ROWS(vecs)                           \
    static void add_rows_##vecs(const sums *p) { \
        add_products(p, ROWS, vecs);             \
    }                                            \
    static void add_row_##vecs(const sums *p) {  \
        add_products(p, 1, vecs);                \
    }
ADD_ROWS(1)
ADD_ROWS(2)
ADD_ROWS(3)
#if SYN_LANES == 16
ADD_ROWS(4)
#endif

typedef void (*add_function)(const sums *p);
static const add_function add_rows[GRAD_VECS] = {add_rows_1, add_rows_2, add_rows_3,
#if SYN_LANES == 16
                                                 add_rows_4
#endif
};
static const add_function add_row[GRAD_VECS] = {add_row_1, add_row_2, add_row_3,
#if SYN_LANES == 16
                                                add_row_4
#endif
};

/* A product of any size: `rows` rows of `across` floats, a multiple of SYN_LANES. */
static void multiply_add(sums p, int64_t rows, int64_t across) {
    const sums all = p;
    for (int64_t at = 0; at < across; at += GRAD_TILE) {
        const int64_t left = (across - at) / SYN_LANES;
        const int vecs = (int)(left < GRAD_VECS ? left : GRAD_VECS);
        int64_t r = 0;
        p = all;
        p.x += at;
        p.out += at;
        for (; r + ROWS <= rows; r += ROWS) {
            add_rows[vecs - 1](&p);
            p.number += ROWS * p.number_row;
            p.out += ROWS * p.out_row;
        }
        for (; r < rows; r++) {
            add_row[vecs - 1](&p);
            p.number += p.number_row;
            p.out += p.out_row;
        }
    }
}

/* Scratch memory of a tile of queries. Transposed matrices are (depth, GRAD_TILE) and (value_depth,
   GRAD_TILE), with zeros for missing queries; q is (queries, pad), dout (queries, value_pad). */
typedef struct grad_tile {
    const syn_attention_grad_tile *g;
    int64_t width, pad, value_pad; /* queries, depth and value_depth, in whole vectors */
    float *q_transposed, *dout_transposed, *dq; /* q_transposed: q times scale and log2 e */
    float *q, *dout;                            /* q times scale */
    float *p, *ds;                              /* (BLOCK, GRAD_TILE): p and ds */
    float log_sum[GRAD_TILE], mean[GRAD_TILE];  /* log_sum: base 2; mean: out dout */
    uint32_t start[GRAD_TILE], salt[GRAD_TILE]; /* dropout state per query */
} grad_tile;

static void load_queries(grad_tile *t) {
    const syn_attention_grad_tile *g = t->g;
    const syn_attention_tile *a = &g->of;
    const int64_t depth = a->depth, values = a->value_depth, pad = t->pad - depth,
                  value_pad = t->value_pad - values;
    for (int64_t i = 0; i < t->width; i++) t->log_sum[i] = t->mean[i] = 0;
    for (int64_t i = 0; a->drop && i < t->width; i++) {
        const syn_dropout_row none = {0}, *drop = i < a->queries ? &a->drop[i] : &none;
        t->start[i] = drop->start + a->column;
        t->salt[i] = drop->salt;
    }
    for (int64_t i = 0; i < a->queries; i++) {
        const float *q = a->q + i * a->q_stride, *dout = g->dout + i * g->dout_stride,
                    *out = a->out + i * a->out_stride;
        float *to_q = t->q + i * t->pad, *to_dout = t->dout + i * t->value_pad, mean = 0;
        for (int64_t d = 0; d < depth; d++) to_q[d] = q[d] * a->scale;
        for (int64_t d = 0; d < values; d++) {
            to_dout[d] = dout[d];
            mean += out[d] * dout[d];
        }
        memset(to_q + depth, 0, (size_t)pad * sizeof *to_q);
        memset(to_dout + values, 0, (size_t)value_pad * sizeof *to_dout);
        t->mean[i] = mean;
        t->log_sum[i] = a->log_sum[i] == -INFINITY ? 0 : a->log_sum[i] * LOG2_E;
    }
    for (int64_t d = 0; d < depth; d++) {
        float *to = t->q_transposed + d * GRAD_TILE;
        for (int64_t i = 0; i < t->width; i++)
            to[i] = i < a->queries ? t->q[i * t->pad + d] * LOG2_E : 0;
    }
    for (int64_t d = 0; d < values; d++) {
        float *to = t->dout_transposed + d * GRAD_TILE;
        for (int64_t i = 0; i < t->width; i++)
            to[i] = i < a->queries ? t->dout[i * t->value_pad + d] : 0;
    }
}

static void store_queries(const grad_tile *t) {
    const syn_attention_grad_tile *g = t->g;
    for (int64_t i = 0; i < g->of.queries; i++) {
        float *dq = g->dq + i * g->dq_stride;
        for (int64_t d = 0; d < g->of.depth; d++) {
            const float x = t->dq[d * GRAD_TILE + i] * g->of.scale;
            dq[d] = g->add ? dq[d] + x : x;
        }
    }
}

/* Converts one key's scores to weights p and computes the scores' gradients ds, for the queries
   from `first` on. */
LANE_FN void weigh_key(const grad_tile *t, int64_t key, int64_t first, float *p, float *ds,
                       /* constant */ bool drop) {
    const syn_attention_tile *a = &t->g->of;
    const vec lane = vec_lane_number(), none = vec_set(-INFINITY);
    const vec bias = vec_set(a->mask ? a->mask[key] * LOG2_E : 0.0f);
    const int64_t from = a->step ? key - a->visible + 1 : 0; /* first query that uses the key */
    const int64_t until = a->window ? from + a->window : GRAD_TILE; /* first later query that does
                                                                       not */
    for (int64_t i = first; i < t->width; i += SYN_LANES) {
        vec x = vec_add(vec_load(p + i), bias);
        if (from > i) x = vec_select(vec_less(lane, vec_set((float)(from - i))), none, x);
        if (until < i + SYN_LANES)
            x = vec_select(vec_less(lane, vec_set((float)(until - i))), x, none);
        const vec w = vec_exp2(vec_sub(x, vec_load(t->log_sum + i)));
        vec dp = vec_load(ds + i), dropped = w;
        if (drop) {
            const vec_int at = int_add(int_load(t->start + i), int_set((uint32_t)key));
            const vec_mask drops = vec_drops_at(at, int_load(t->salt + i), a->drop->limit);
            const vec factor = vec_select(drops, vec_set(0.0f), vec_set(a->drop->keep));
            dp = vec_mul(dp, factor);
            dropped = vec_mul(w, factor);
        }
        vec_store(p + i, dropped);
        vec_store(ds + i, vec_mul(w, vec_sub(dp, vec_load(t->mean + i))));
    }
}

LANE_FN void weigh_keys_of(const grad_tile *t, int64_t s0, int64_t n, int64_t first,
                           /* constant */ bool drop) {
    for (int64_t s = 0; s < n; s++)
        weigh_key(t, s0 + s, first, t->p + s * GRAD_TILE, t->ds + s * GRAD_TILE, drop);
}

/* Processes keys s0 .. s0 + n - 1. Skips queries before `first`, a multiple of SYN_LANES, because
   they attend to none of these keys. */
static void grad_block(const grad_tile *t, int64_t s0, int64_t n) {
    const syn_attention_grad_tile *g = t->g;
    const syn_attention_tile *a = &g->of;
    const int64_t hidden = a->step ? s0 - a->visible + 1 : 0;
    const int64_t first = hidden > 0 ? hidden / SYN_LANES * SYN_LANES : 0;
    const float *k = (const float *)a->k + s0 * a->k_stride,
                *v = (const float *)a->v + s0 * a->v_stride;
    const float *q = t->q + first * t->pad, *dout = t->dout + first * t->value_pad;
    float *p = t->p + first, *ds = t->ds + first;
    const int64_t queries = a->queries - first, width = t->width - first, depth = a->depth,
                  values = a->value_depth, row = GRAD_TILE;
    multiply_add((sums){t->q_transposed + first, k, p, depth, row, 1, a->k_stride, row, false}, n,
                 width);
    multiply_add((sums){t->dout_transposed + first, v, ds, values, row, 1, a->v_stride, row, false},
                 n, width);
    if (a->drop) weigh_keys_of(t, s0, n, first, true);
    else weigh_keys_of(t, s0, n, first, false);
    const int64_t to = s0 * g->dk_stride;
    if (g->dv)
        multiply_add((sums){dout, p, g->dv + to, queries, t->value_pad, 1, row, g->dk_stride, true},
                     n, t->value_pad);
    if (g->dk)
        multiply_add((sums){q, ds, g->dk + to, queries, t->pad, 1, row, g->dk_stride, true}, n,
                     t->pad);
    if (g->dq)
        multiply_add((sums){ds, k, t->dq + first, n, row, a->k_stride, 1, row, true}, depth, width);
}

/* Number of keys in the block that starts with key s. Blocks are smaller where only some queries
   attend to the keys. */
static int64_t block_at(const syn_attention_tile *a, int64_t s, int64_t end) {
    int64_t n = BLOCK;
    if (a->step && s + n > a->visible) {
        n = (a->visible - s) / SYN_LANES * SYN_LANES;
        if (n < SYN_LANES) n = SYN_LANES;
    }
    return end - s < n ? end - s : n;
}

static void attend_grad(const syn_attention_grad_tile *g) {
    const syn_attention_tile *a = &g->of;
    const int64_t depth = a->depth, values = a->value_depth;
    grad_tile t = {.g = g,
                   .width = padded(a->queries),
                   .pad = padded(depth),
                   .value_pad = padded(values),
                   .q_transposed = a->scratch};
    t.dout_transposed = t.q_transposed + depth * GRAD_TILE;
    t.dq = t.dout_transposed + values * GRAD_TILE;
    t.p = t.dq + depth * GRAD_TILE;
    t.ds = t.p + BLOCK * GRAD_TILE;
    t.q = t.ds + BLOCK * GRAD_TILE;
    t.dout = t.q + t.pad * GRAD_TILE;
    const int64_t end = syn__visible_end(a, a->queries - 1);
    memset(t.dq, 0, (size_t)(depth * GRAD_TILE) * sizeof *t.dq);
    if (end > 0) load_queries(&t);
    for (int64_t s = syn__first_visible_key(a, 0), n; s < end; s += n) {
        n = block_at(a, s, end);
        grad_block(&t, s, n);
    }
    if (g->dq) store_queries(&t);
}

static size_t grad_scratch_floats(int64_t depth, int64_t value_depth) {
    const int64_t pads = padded(depth) + padded(value_depth);
    return (size_t)((2 * depth + value_depth + pads + 2 * BLOCK) * GRAD_TILE);
}
#endif

#endif
