/* Products of many rows with AVX-512, included by packed_avx512.c and packed_avx512bf16.c. Blocks
   of x and w are first packed into panels, in the order in which the inner loop reads them, so the
   inner loop does not depend on the matrices' orientation and dtype (Goto and van de Geijn 2008,
   "Anatomy of high-performance matrix multiplication"). Along k a panel consists of 32-bit units:
   one f32, or a pair of bf16 where the CPU has bf16 dot products. */
#ifndef OPS_PACKED_BODY_H
#define OPS_PACKED_BODY_H

#include "ops/lanes.h"
#include "ops/products_private.h"

#if SYN_LANES == 16
#include <string.h>

#include "syntorch/base/half.h"

#ifdef __AVX512BF16__
#define PER_UNIT 2
#else
#define PER_UNIT 1
#endif

#define TILE_ROWS     6 /* with 4 vectors each: 24 of 32 registers hold sums */
#define TILE_VECTORS  4
#define TILE_COLUMNS  (TILE_VECTORS * 16)
#define COLUMNS       768         /* columns of a block of w */
#define UNITS         512         /* units along k of a block */
#define COLUMNS_ASIDE 512         /* like COLUMNS, if sums have a separate buffer (aside) */
#define UNITS_ASIDE   384         /* the same; all buffers then take about 2 MiB together */
#define AREA          (252 * 384) /* units of a block of x */
#define LATE          24          /* a tile's output is prefetched this many units before its end */
#define AHEAD         8           /* units that packing prefetches ahead */
#define MIN(a, b)     ((a) < (b) ? (a) : (b))

#define FOR_EACH(i, n, most)         \
    LANE_UNROLL                      \
    for (int i = 0; i < (most); i++) \
        if (i < (n))

static int64_t units_of(int64_t k) {
    return (k + PER_UNIT - 1) / PER_UNIT;
}

/* Panel stride in units; the padding keeps panels from mapping to the same cache sets. */
static int64_t panel_units(int64_t units, int64_t width) {
    return units * width + 16;
}

/* ---- panels ---- */

typedef struct matrix {
    const void *at;
    int64_t ld;
    syn_dtype dtype;
    bool along; /* rows run along k; otherwise along the lanes (rows of x, columns of w) */
} matrix;

LANE_FN const void *element(const void *from, int64_t at, /* constant */ syn_dtype dtype) {
    return (const char *)from + at * (dtype == SYN_F32 ? 4 : 2);
}

LANE_FN __m512i wide(__m256i bits, /* constant */ syn_dtype dtype) {
    if (dtype == SYN_F16) return _mm512_castps_si512(_mm512_cvtph_ps(bits));
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16);
}

static __mmask16 first_of_16(int64_t n) {
    return n >= 16 ? 0xffff : n > 0 ? (__mmask16)((1u << n) - 1u) : 0;
}

/* 16 units along k of one lane. `left`: number of elements that exist; missing elements are 0. */
LANE_FN __m512i units_along(const void *from, int64_t left, /* constant */ syn_dtype dtype) {
    if (dtype == SYN_F32) return _mm512_maskz_loadu_epi32(first_of_16(left), from);
    if (PER_UNIT == 2)
        return _mm512_maskz_loadu_epi16(left >= 32 ? 0xffffffffu
                                        : left > 0 ? (__mmask32)((1u << left) - 1u)
                                                   : 0,
                                        from);
    return wide(_mm256_maskz_loadu_epi16(first_of_16(left), from), dtype);
}

/* One unit of each of 16 lanes. second: whether bf16 pairs have a second element. */
LANE_FN __m512i units_across(const void *from, int64_t ld, __mmask16 lanes, bool second,
                             /* constant */ syn_dtype dtype) {
    if (dtype == SYN_F32) return _mm512_maskz_loadu_epi32(lanes, from);
    const __m256i bits = _mm256_maskz_loadu_epi16(lanes, from);
    if (PER_UNIT == 1) return wide(bits, dtype);
    const __m256i next =
        _mm256_maskz_loadu_epi16(second ? lanes : 0, second ? element(from, ld, dtype) : from);
    return _mm512_or_si512(_mm512_cvtepu16_epi32(bits),
                           _mm512_slli_epi32(_mm512_cvtepu16_epi32(next), 16));
}

/* One unit of each of 8 lanes. */
LANE_FN void eight_across(const void *from, int64_t ld, uint32_t *to,
                          /* constant */ syn_dtype dtype) {
    if (dtype == SYN_F32) {
        _mm256_storeu_si256((__m256i *)(void *)to, _mm256_loadu_si256(from));
        return;
    }
    const __m128i bits = _mm_loadu_si128(from);
    if (PER_UNIT == 1) {
        _mm256_storeu_si256((__m256i *)(void *)to,
                            _mm512_castsi512_si256(wide(_mm256_castsi128_si256(bits), dtype)));
        return;
    }
    const __m128i next = _mm_loadu_si128(element(from, ld, dtype));
    _mm_storeu_si128((__m128i *)(void *)to, _mm_unpacklo_epi16(bits, next));
    _mm_storeu_si128((__m128i *)(void *)(to + 4), _mm_unpackhi_epi16(bits, next));
}

/* Transposes a 16 x 16 matrix: lane j of r[i] becomes lane i of r[j]. */
LANE_FN void transpose(__m512i *r) {
    __m512i t[16];
    FOR_EACH(i, 8, 8) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    FOR_EACH(i, 4, 4) {
        r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    FOR_EACH(i, 4, 4) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
    }
    FOR_EACH(i, 4, 4) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
        r[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
        r[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd);
    }
}

/* Packs up to 16 lanes that are stored along k, `depth` elements each. A panel has `width` units
   per step of k. */
LANE_FN void pack_along(const void *from, int64_t ld, int64_t lanes, int64_t depth,
                        /* constant */ int width, uint32_t *to, syn_dtype dtype) {
    const __mmask16 mask = first_of_16(width);
    const int64_t units = units_of(depth);
    for (int64_t u = 0; u < units; u += 16) {
        __m512i r[16];
        const int64_t left = depth - u * PER_UNIT;
        LANE_UNROLL
        for (int i = 0; i < 16; i++)
            r[i] = i < lanes ? units_along(element(from, i * ld + u * PER_UNIT, dtype), left, dtype)
                             : _mm512_setzero_si512();
        LANE_UNROLL
        for (int i = 0; i < 16; i++)
            _mm_prefetch(element(from, (16 + i) * ld + u * PER_UNIT, dtype), _MM_HINT_T0);
        transpose(r);
        LANE_UNROLL
        for (int i = 0; i < 16; i++)
            if (i < units - u) _mm512_mask_storeu_epi32(to + (u + i) * width, mask, r[i]);
    }
}

/* Packs all lanes, panel by panel, of a matrix that is stored along the lanes. */
LANE_FN void pack_across(const void *from, int64_t ld, int64_t lanes, int64_t depth,
                         /* constant */ int width, uint32_t *to, syn_dtype dtype) {
    const int64_t units = units_of(depth), apart = panel_units(units, width);
    for (int64_t u = 0; u < units; u++) {
        const void *row = element(from, u * PER_UNIT * ld, dtype);
        const bool second = u * PER_UNIT + PER_UNIT - 1 < depth;
        const void *ahead = element(row, AHEAD * PER_UNIT * ld, dtype);
        for (int64_t l = 0; l < lanes; l += 64 / (dtype == SYN_F32 ? 4 : 2))
            for (int i = 0; i < PER_UNIT; i++)
                _mm_prefetch(element(ahead, l + i * ld, dtype), _MM_HINT_T0);
        for (int64_t l = 0; l < lanes; l += width)
            if (width < 8 && lanes - l >= 8 && second) {
                eight_across(element(row, l, dtype), ld, to + l / width * apart + u * width, dtype);
            } else
                for (int i = 0; i < width; i += 16) {
                    const __m512i r =
                        units_across(element(row, l + i, dtype), ld,
                                     first_of_16(MIN(lanes - l, width) - i), second, dtype);
                    _mm512_mask_storeu_epi32(to + l / width * apart + u * width + i,
                                             first_of_16(width - i), r);
                }
    }
}

LANE_FN void pack_of(const matrix *x, int64_t lane, int64_t lanes, int64_t k, int64_t depth,
                     /* constant */ int width, uint32_t *to, syn_dtype dtype) {
    if (!x->along) {
        pack_across(element(x->at, k * x->ld + lane, dtype), x->ld, lanes, depth, width, to, dtype);
        return;
    }
    for (int64_t l = 0; l < lanes; l += width)
        for (int i = 0; i < width; i += 16)
            pack_along(element(x->at, (lane + l + i) * x->ld + k, dtype), x->ld,
                       MIN(lanes - l, width) - i, depth, width,
                       to + l / width * panel_units(units_of(depth), width) + i, dtype);
}

/* Packs panels of `width` lanes; missing lanes of the last panel are 0. */
LANE_FN void pack(const matrix *x, int64_t lane, int64_t lanes, int64_t k, int64_t depth,
                  /* constant */ int width, uint32_t *to) {
    if (PER_UNIT == 2 || x->dtype == SYN_BF16)
        pack_of(x, lane, lanes, k, depth, width, to, SYN_BF16);
    else if (x->dtype == SYN_F16) pack_of(x, lane, lanes, k, depth, width, to, SYN_F16);
    else pack_of(x, lane, lanes, k, depth, width, to, SYN_F32);
}

/* ---- tiles ---- */

/* A tile of sums: out = init + a b. a is a panel of x, b is a panel of w. */
typedef struct tile {
    const uint32_t *a, *b;
    int64_t units, columns;
    const float *init; /* NULL: zeros */
    int64_t ld_init;   /* 0: the same row for all */
    void *out;
    int64_t ldo;
    syn_dtype dtype; /* dtype of out */
} tile;

static void *place(void *to, int64_t at, syn_dtype dtype) {
    return (char *)to + at * (dtype == SYN_F32 ? 4 : 2);
}

LANE_FN vec multiply(vec a, vec b, vec sum) {
#if PER_UNIT == 2
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_castps_si512(a),
                            (__m512bh)_mm512_castps_si512(b));
#else
    return vec_fma(a, b, sum);
#endif
}

LANE_FN __m256i narrow(vec x, syn_dtype dtype) {
    if (dtype == SYN_F16) return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i nan = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_mov_epi32(up, is_nan, nan), 16));
}

LANE_FN void finish(const tile *t, int r, int v, vec sum) {
    const __mmask16 mask = first_of_16(t->columns - v * 16);
    const int64_t at = r * t->ldo + v * 16;
    if (t->init) sum = vec_add(vec_load_mask(mask, t->init + r * t->ld_init + v * 16), sum);
    if (t->dtype == SYN_F32) vec_store_mask((float *)t->out + at, mask, sum);
    else _mm256_mask_storeu_epi16((uint16_t *)t->out + at, mask, narrow(sum, t->dtype));
}

LANE_FN void tile_sums(const tile *t, /* constant */ int rows) {
    vec sum[TILE_ROWS][TILE_VECTORS], b_now[TILE_VECTORS];
    FOR_EACH(r, rows, TILE_ROWS)
    FOR_EACH(v, TILE_VECTORS, TILE_VECTORS) sum[r][v] = vec_set(0.0f);
    const float *a = (const float *)(const void *)t->a, *b = (const float *)(const void *)t->b;
    const float *end = a + t->units * TILE_ROWS, *late = end - MIN(t->units, LATE) * TILE_ROWS;
    for (int part = 0; part < 2; part++, late = end) {
        for (; a < late; a += TILE_ROWS, b += TILE_COLUMNS) {
            FOR_EACH(v, TILE_VECTORS, TILE_VECTORS) b_now[v] = vec_load(b + 16 * v);
            FOR_EACH(r, rows, TILE_ROWS) {
                const vec x = vec_set(a[r]);
                FOR_EACH(v, TILE_VECTORS, TILE_VECTORS)
                sum[r][v] = multiply(x, b_now[v], sum[r][v]);
            }
        }
        FOR_EACH(r, part == 0 ? rows : 0, TILE_ROWS)
        FOR_EACH(v, TILE_VECTORS, TILE_VECTORS)
        _mm_prefetch(place(t->out, r * t->ldo + v * 16, t->dtype), _MM_HINT_T0);
    }
    FOR_EACH(r, rows, TILE_ROWS)
    FOR_EACH(v, TILE_VECTORS, TILE_VECTORS) finish(t, r, v, sum[r][v]);
}

static void run_tile(const tile *t, int64_t rows) {
#define CASE(n)                              \
    case n:                                  \
        if (n <= TILE_ROWS) tile_sums(t, n); \
        return
    switch (rows) {
        CASE(1);
        CASE(2);
        CASE(3);
        CASE(4);
        CASE(5);
        CASE(6);
    }
#undef CASE
}

/* ---- blocks ---- */

typedef struct job {
    const syn_product *p;
    matrix x, w;
    int64_t high, across, deep; /* rows, columns and elements along k per block */
    uint32_t *x_panels, *w_panels;
    float *sums, *bias; /* rows of `across` floats: `sums` has `high` rows, `bias` has one */
} job;

/* The initial values of a block's sums, and where the sums are stored. */
typedef struct ends {
    const float *init;
    int64_t ld_init;
    void *out;
    int64_t ldo;
    syn_dtype dtype;
} ends;

/* Packs a block of x and multiplies it by the packed block of w. Each panel of w stays in the L1
   cache while it is multiplied by all panels of x. */
static void multiply_block(const job *s, int64_t i, int64_t m, int64_t n, int64_t k, int64_t depth,
                           const ends *e) {
    tile t = {.units = units_of(depth), .ldo = e->ldo, .ld_init = e->ld_init, .dtype = e->dtype};
    pack(&s->x, i, m, k, depth, TILE_ROWS, s->x_panels);
    for (int64_t c = 0; c < n; c += TILE_COLUMNS) {
        t.b = s->w_panels + c / TILE_COLUMNS * panel_units(t.units, TILE_COLUMNS);
        t.columns = MIN(n - c, TILE_COLUMNS);
        for (int64_t r = 0; r < m; r += TILE_ROWS) {
            t.a = s->x_panels + r / TILE_ROWS * panel_units(t.units, TILE_ROWS);
            t.init = e->init ? e->init + r * e->ld_init + c : NULL;
            t.out = place(e->out, r * e->ldo + c, e->dtype);
            run_tile(&t, MIN(m - r, TILE_ROWS));
        }
    }
}

/* Splits n into the smallest number of pieces of at most `most` elements and about equal size.
   Returns the size of a piece, a multiple of `unit`. */
static int64_t piece(int64_t n, int64_t most, int64_t unit) {
    const int64_t pieces = (n + most - 1) / most, each = (n + pieces - 1) / pieces;
    return (each + unit - 1) / unit * unit;
}

/* Sets the initial sums of columns j .. j + n - 1 for the first block along k: the old output, the
   bias, or zeros. */
static void first_init(const job *s, int64_t i, int64_t j, int64_t n, ends *e) {
    const syn_product *p = s->p;
    e->init = NULL;
    e->ld_init = 0;
    if (p->add) {
        e->init = (const float *)p->out + i * p->ldo + j;
        e->ld_init = p->ldo;
    } else if (p->bias) {
        const void *bias = element(p->bias, j, p->x_dtype);
        if (p->x_dtype == SYN_F32) memcpy(s->bias, bias, (size_t)n * sizeof(float));
        else syn_half_widen(bias, s->bias, (size_t)n, p->x_dtype);
        e->init = s->bias;
    }
}

/* Computes n columns from j on. Between blocks along k, the sums are in the output. */
static void columns_in_place(const job *s, int64_t j, int64_t n) {
    const syn_product *p = s->p;
    for (int64_t k = 0; k < p->k; k += s->deep) {
        const int64_t depth = MIN(p->k - k, s->deep);
        pack(&s->w, j, n, k, depth, TILE_COLUMNS, s->w_panels);
        for (int64_t i = 0; i < p->m; i += s->high) {
            ends e = {.out = place(p->out, i * p->ldo + j, p->out_dtype),
                      .ldo = p->ldo,
                      .dtype = p->out_dtype};
            first_init(s, i, j, n, &e);
            if (k > 0) {
                e.init = e.out;
                e.ld_init = p->ldo;
            }
            multiply_block(s, i, MIN(p->m - i, s->high), n, k, depth, &e);
        }
    }
}

/* Computes n columns from j on. Between blocks along k, the sums are in s->sums; the last block
   rounds them to the output. */
static void columns_aside(const job *s, int64_t j, int64_t n) {
    const syn_product *p = s->p;
    for (int64_t i = 0; i < p->m; i += s->high)
        for (int64_t k = 0; k < p->k; k += s->deep) {
            const int64_t depth = MIN(p->k - k, s->deep);
            ends e = {.out = s->sums, .ldo = s->across, .dtype = SYN_F32};
            if (k + depth == p->k)
                e = (ends){.out = place(p->out, i * p->ldo + j, p->out_dtype),
                           .ldo = p->ldo,
                           .dtype = p->out_dtype};
            first_init(s, i, j, n, &e);
            if (k > 0) {
                e.init = s->sums;
                e.ld_init = s->across;
            }
            pack(&s->w, j, n, k, depth, TILE_COLUMNS, s->w_panels);
            multiply_block(s, i, MIN(p->m - i, s->high), n, k, depth, &e);
        }
}

/* Whether sums are kept in a separate buffer: if the output is 16-bit and there are several blocks
   along k, so that each result is rounded only once. */
static bool aside(const syn_product *p) {
    return p->out_dtype != SYN_F32 && units_of(p->k) > UNITS;
}

/* Chooses the block sizes of a product. */
static job plan(const syn_product *p) {
    const int64_t units = piece(units_of(p->k), aside(p) ? UNITS_ASIDE : UNITS, 16);
    return (job){.p = p,
                 .x = {p->x, p->ldx, p->x_dtype, !p->transpose_x},
                 .w = {p->w, p->ldw, p->w_dtype, p->transpose_w},
                 .high = piece(p->m, AREA / units / TILE_ROWS * TILE_ROWS, TILE_ROWS),
                 .across = piece(p->n, aside(p) ? COLUMNS_ASIDE : COLUMNS, TILE_COLUMNS),
                 .deep = units * PER_UNIT};
}

/* Number of units in all panels of a block. */
static int64_t panels(const job *s, int64_t lanes, int64_t width) {
    return lanes / width * panel_units(s->deep / PER_UNIT, width);
}

static int64_t buffer_floats(const syn_product *p) {
    const job s = plan(p);
    const int64_t sums = aside(p) ? s.high * s.across : 0;
    return panels(&s, s.high, TILE_ROWS) + panels(&s, s.across, TILE_COLUMNS) + s.across + sums +
           16;
}

static void packed(const syn_product *p, float *memory) {
    job s = plan(p);
    memory += (64 - (uintptr_t)memory % 64) % 64 / sizeof *memory;
    s.w_panels = (uint32_t *)(void *)memory;
    s.x_panels = s.w_panels + panels(&s, s.across, TILE_COLUMNS);
    s.bias = (float *)(void *)(s.x_panels + panels(&s, s.high, TILE_ROWS));
    s.sums = s.bias + s.across;
    for (int64_t j = 0; j < p->n; j += s.across)
        if (aside(p)) columns_aside(&s, j, MIN(p->n - j, s.across));
        else columns_in_place(&s, j, MIN(p->n - j, s.across));
}

#endif
#endif
