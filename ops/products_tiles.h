/* Building blocks of products_body.h: tiles of sums, which read w in place or from an f32 copy.
   Parameters after the comment "constant" are compile-time constants in every call, so that loops
   over them are unrolled and sums stay in registers. */
#ifndef OPS_PRODUCTS_TILES_H
#define OPS_PRODUCTS_TILES_H

#include "ops/lanes.h"
#include "ops/products_private.h"

#if SYN_LANES > 0
#include <string.h>

#include "syntorch/base/half.h"

#if SYN_LANES == 16
#define TILE_ROWS 12 /* with 2 vectors, or half as many with 4: 24 of 32 registers hold sums */
/* Up to this many rows, tiles with 4 vectors are faster if 2 vectors of w have less than 128
   bytes. */
#define MAX_WIDE 6
#else
#define TILE_ROWS 6 /* with 2 vectors each: 12 of 16 registers hold sums */
#define MAX_WIDE  9
#endif
#define COLUMNS     (2 * SYN_LANES) /* columns per tile */
#define WIDTH       256             /* columns per block */
#define DEPTH       256             /* steps along k per block */
#define LINES       8               /* rows of w processed at a time for one row of x */
#define MANY_ACROSS 49              /* minimum number of rows for which copying w (k, n) pays off */
#define MIN(a, b)   ((a) < (b) ? (a) : (b))

/* Loops with a constant bound and a constant condition, which every compiler unrolls. */
#define FOR_EACH(i, n, most)         \
    LANE_UNROLL                      \
    for (int i = 0; i < (most); i++) \
        if (i < (n))

/* Row strides of copies, in floats; the padding keeps rows from mapping to the same cache sets. */
#define W_ROW (WIDTH + 16)
#define X_ROW (DEPTH + 16)

LANE_FN const void *element(const void *w, int64_t at, /* constant */ syn_dtype dtype) {
    return dtype == SYN_F32 ? (const void *)((const float *)w + at)
                            : (const void *)((const uint16_t *)w + at);
}

LANE_FN vec widen(const void *w, int64_t at, /* constant */ syn_dtype dtype) {
    const void *from = element(w, at, dtype);
    return dtype == SYN_F32 ? vec_load(from) : dtype == SYN_F16 ? vec_f16(from) : vec_bf16(from);
}

static void widen_few(const void *w, int64_t at, float *to, int64_t n, syn_dtype dtype) {
    const void *from = element(w, at, dtype);
    if (dtype == SYN_F32) memcpy(to, from, (size_t)n * sizeof *to);
    else syn_half_widen(from, to, (size_t)n, dtype);
}

/* Prefetches `bytes` bytes into the L2 cache. */
LANE_FN void prefetch_l2(const void *from, /* constant */ int bytes) {
    for (int b = 0; b < bytes; b += 64) _mm_prefetch((const char *)from + b, _MM_HINT_T1);
}

/* Prefetches `bytes` bytes into the L1 cache. */
LANE_FN void prefetch_l1(const void *from, /* constant */ int bytes) {
    for (int b = 0; b < bytes; b += 64) _mm_prefetch((const char *)from + b, _MM_HINT_T0);
}

LANE_FN int vector_bytes(/* constant */ syn_dtype dtype) {
    return SYN_LANES * (dtype == SYN_F32 ? 4 : 2);
}

/* ---- tiles: sums across columns ---- */

/* The product of up to TILE_ROWS rows of x and COLUMNS columns of w, over k steps: out = init + x
   w. */
typedef struct tile {
    int64_t k;
    const float *x, *init; /* init NULL: zeros */
    const void *w;
    float *out;
    int64_t ldx, ld_init, ldw, ldo; /* ld_init 0: the same row for all */
    const char *next;               /* what to prefetch meanwhile: the next part of w */
    int64_t next_bytes;             /* row stride of next, in bytes */
    int64_t apart;                  /* distance of columns of out and init (in_streams) */
} tile;

LANE_FN void tile_sums(const tile *t, /* constant */ int rows, int width, syn_dtype dtype) {
    vec sum[TILE_ROWS][4], a[TILE_ROWS], b[4];
    FOR_EACH(r, rows, TILE_ROWS)
    FOR_EACH(v, width, 4) sum[r][v] = vec_set(0.0f);
    const float *x = t->x;
    const void *w = t->w;
    const char *next = t->next;
    const int64_t k = t->k, ldw = t->ldw, next_bytes = t->next_bytes;
    for (int64_t p = 0; p < k; p++) {
        prefetch_l2(next + p * next_bytes, width * vector_bytes(dtype));
        if (rows < width) { /* the smaller operand stays in registers */
            FOR_EACH(r, rows, TILE_ROWS) a[r] = vec_set(x[r * X_ROW + p]);
            FOR_EACH(v, width, 4) {
                b[0] = widen(w, p * ldw + v * SYN_LANES, dtype);
                FOR_EACH(r, rows, TILE_ROWS) sum[r][v] = vec_fma(a[r], b[0], sum[r][v]);
            }
        } else {
            FOR_EACH(v, width, 4) b[v] = widen(w, p * ldw + v * SYN_LANES, dtype);
            FOR_EACH(r, rows, TILE_ROWS) {
                a[0] = vec_set(x[r * X_ROW + p]);
                FOR_EACH(v, width, 4) sum[r][v] = vec_fma(a[0], b[v], sum[r][v]);
            }
        }
    }
    FOR_EACH(r, rows, TILE_ROWS)
    FOR_EACH(v, width, 4) {
        const int64_t at = v * SYN_LANES;
        const vec init = t->init ? vec_load(t->init + r * t->ld_init + at) : vec_set(0.0f);
        vec_store(t->out + r * t->ldo + at, vec_add(init, sum[r][v]));
    }
}

LANE_FN void tile_rows(const tile *t, int64_t rows, bool wide, /* constant */ syn_dtype dtype) {
#define CASE(n)                                                    \
    case n:                                                        \
        if (wide && n <= TILE_ROWS / 2) tile_sums(t, n, 4, dtype); \
        else if (n <= TILE_ROWS) tile_sums(t, n, 2, dtype);        \
        return
    switch (rows) {
        CASE(1);
        CASE(2);
        CASE(3);
        CASE(4);
        CASE(5);
        CASE(6);
        CASE(7);
        CASE(8);
        CASE(9);
        CASE(10);
        CASE(11);
        CASE(12);
    }
#undef CASE
}

static void run_tile(const tile *t, int64_t rows, bool wide, syn_dtype dtype) {
    if (dtype == SYN_F32) tile_rows(t, rows, wide, SYN_F32);
    else if (dtype == SYN_F16) tile_rows(t, rows, wide, SYN_F16);
    else tile_rows(t, rows, wide, SYN_BF16);
}

/* Computes a tile of which only n columns exist. The columns of w after them are zero. */
static void run_narrow(const tile *t, int64_t rows, int64_t n) {
    float out[TILE_ROWS * COLUMNS], init[TILE_ROWS * COLUMNS] = {0};
    tile whole = *t;
    for (int64_t r = 0; t->init && r < rows; r++)
        memcpy(init + r * COLUMNS, t->init + r * t->ld_init, (size_t)n * sizeof *init);
    whole.init = init;
    whole.out = out;
    whole.ld_init = whole.ldo = COLUMNS;
    run_tile(&whole, rows, false, SYN_F32);
    for (int64_t r = 0; r < rows; r++)
        memcpy(t->out + r * t->ldo, out + r * COLUMNS, (size_t)n * sizeof *out);
}

/* ---- blocks ---- */

LANE_FN void widen_rows(const void *w, int64_t ldw, int64_t rows, int64_t n, float *to,
                        /* constant */ syn_dtype dtype) {
    for (int64_t i = 0; i < rows; i++, to += W_ROW) {
        int64_t j = 0;
        for (; j + COLUMNS <= n; j += COLUMNS) {
            vec_store(to + j, widen(w, i * ldw + j, dtype));
            vec_store(to + j + SYN_LANES, widen(w, i * ldw + j + SYN_LANES, dtype));
            prefetch_l2(element(w, (i + LINES) * ldw + j, dtype), 2 * vector_bytes(dtype));
        }
        widen_few(w, i * ldw + j, to + j, n - j, dtype);
    }
}

#define TRANSPOSED 16 /* columns that are transposed at a time: one cache line per row */

/* Transposes a piece: to[i][c] = from[c][i]. */
static void transpose(float (*from)[DEPTH], int64_t n, float *to) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int c = 0; c < TRANSPOSED; c += 4) {
            __m128 a[4];
            for (int q = 0; q < 4; q++) a[q] = _mm_load_ps(from[c + q] + i);
            _MM_TRANSPOSE4_PS(a[0], a[1], a[2], a[3]);
            for (int q = 0; q < 4; q++) _mm_storeu_ps(to + (i + q) * W_ROW + c, a[q]);
        }
    for (; i < n; i++)
        for (int c = 0; c < TRANSPOSED; c++) to[i * W_ROW + c] = from[c][i];
}

/* Transposes columns of a w stored as (n, k). Writes a multiple of TRANSPOSED columns, which may be
   more than n. */
LANE_FN void transpose_columns(const void *w, int64_t ldw, int64_t n, int64_t depth, float *to,
                               /* constant */ syn_dtype dtype) {
    _Alignas(64) float columns[TRANSPOSED][DEPTH];
    const int64_t whole = depth - depth % SYN_LANES;
    for (int64_t c = 0; c < n; c += TRANSPOSED) {
        for (int64_t q = 0; q < TRANSPOSED; q++) {
            const int64_t at = MIN(c + q, n - 1) * ldw;
            for (int64_t i = 0; i < whole; i += SYN_LANES) {
                vec_store(columns[q] + i, widen(w, at + i, dtype));
                prefetch_l2(element(w, at + TRANSPOSED * ldw + i, dtype), vector_bytes(dtype));
            }
            widen_few(w, at + whole, columns[q] + whole, depth - whole, dtype);
        }
        transpose(columns, depth, to + c);
    }
}

/* Copies n columns of w from j on, `depth` rows from k on, as f32 with a row stride of W_ROW. Pads
   the rows with zeros to a multiple of COLUMNS. */
LANE_FN void copy_w_of(const syn_product *p, int64_t k, int64_t depth, int64_t j, int64_t n,
                       float *to, /* constant */ syn_dtype dtype) {
    const void *w = element(p->w, p->transpose_w ? j * p->ldw + k : k * p->ldw + j, dtype);
    if (p->transpose_w) transpose_columns(w, p->ldw, n, depth, to, dtype);
    else widen_rows(w, p->ldw, depth, n, to, dtype);
}

static void copy_w(const syn_product *p, int64_t k, int64_t depth, int64_t j, int64_t n,
                   float *to) {
    if (p->w_dtype == SYN_F32) copy_w_of(p, k, depth, j, n, to, SYN_F32);
    else if (p->w_dtype == SYN_F16) copy_w_of(p, k, depth, j, n, to, SYN_F16);
    else copy_w_of(p, k, depth, j, n, to, SYN_BF16);
    const int64_t padding = (COLUMNS - n % COLUMNS) % COLUMNS;
    for (int64_t i = 0; padding && i < depth; i++)
        memset(to + i * W_ROW + n, 0, (size_t)padding * sizeof *to);
}

static void copy_x(const syn_product *p, int64_t i, int64_t rows, int64_t k, int64_t depth,
                   float *to) {
    const float *x = p->x;
    if (!p->transpose_x)
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + r * X_ROW, x + (i + r) * p->ldx + k, (size_t)depth * sizeof *to);
    else
        for (int64_t c = 0; c < depth; c++)
            for (int64_t r = 0; r < rows; r++) to[r * X_ROW + c] = x[(k + c) * p->ldx + i + r];
}

/* Sets the initial values of the tile's sums, and where the sums are stored. */
static void place(tile *t, const syn_product *p, int64_t i, int64_t j, int64_t k) {
    t->out = (float *)p->out + i * p->ldo + j;
    t->ldo = p->ldo;
    t->init = k > 0 ? t->out : p->bias ? (const float *)p->bias + j : NULL;
    t->ld_init = k > 0 ? p->ldo : 0;
}

/* Computes `depth` steps from k on, for all whole tiles of p->n columns. Returns the number of
   columns of these tiles. w is read in place: each tile of w is multiplied by all rows of x while
   the next tile is prefetched. Tiles are 128 bytes wide, the width at which memory is fastest. */
static int64_t stored_block(const syn_product *p, int64_t k, int64_t depth) {
    _Alignas(64) float x[MANY_ACROSS * X_ROW];
    const bool wide = 2 * vector_bytes(p->w_dtype) < 128 && p->m <= MAX_WIDE;
    const int64_t most = wide ? TILE_ROWS / 2 : TILE_ROWS, groups = (p->m + most - 1) / most;
    const int64_t step = wide ? 2 * COLUMNS : COLUMNS, n = p->n - p->n % step;
    tile t = {.k = depth, .ldw = p->ldw};
    t.next_bytes = p->ldw * (int64_t)syn_dtype_bytes(p->w_dtype);
    copy_x(p, 0, p->m, k, depth, x);
    for (int64_t j = 0; j < n; j += step) {
        t.w = element(p->w, k * p->ldw + j, p->w_dtype);
        t.next = element(t.w, step, p->w_dtype);
        for (int64_t g = 0; g < groups; g++) {
            const int64_t i = p->m * g / groups;
            t.x = x + i * X_ROW;
            place(&t, p, i, j, k);
            run_tile(&t, p->m * (g + 1) / groups - i, wide, p->w_dtype);
        }
    }
    return n;
}

/* Computes n columns from j on, for `depth` steps from k on. A few rows of x at a time are copied
   to the L1 cache and multiplied by a copy of w in the L2 cache, while the next block of w is
   prefetched. */
static void copied_block(const syn_product *p, int64_t k, int64_t depth, int64_t j, int64_t n) {
    _Alignas(64) float w[DEPTH * W_ROW], x[TILE_ROWS * X_ROW];
    const int64_t groups = (p->m + TILE_ROWS - 1) / TILE_ROWS;
    tile t = {.k = depth, .x = x, .ldw = W_ROW};
    const int64_t row_bytes = p->ldw * (int64_t)syn_dtype_bytes(p->w_dtype);
    copy_w(p, k, depth, j, n, w);
    for (int64_t g = 0; g < groups; g++) {
        const int64_t i = p->m * g / groups, rows = p->m * (g + 1) / groups - i;
        copy_x(p, i, rows, k, depth, x);
        for (int64_t c = 0; c < n; c += COLUMNS) {
            t.w = w + c;
            t.next = g == 0 ? element(p->w, (k + DEPTH) * p->ldw + j + c, p->w_dtype) : t.w;
            t.next_bytes = g == 0 ? row_bytes : W_ROW * 4;
            place(&t, p, i, j + c, k);
            if (n - c >= COLUMNS) run_tile(&t, rows, false, SYN_F32);
            else run_narrow(&t, rows, n - c);
        }
    }
}

/* Computes all columns from j on. */
static void copied(const syn_product *p, int64_t j) {
    for (; j < p->n; j += WIDTH)
        for (int64_t k = 0; k < p->k; k += DEPTH)
            copied_block(p, k, MIN(p->k - k, DEPTH), j, MIN(p->n - j, WIDTH));
}

static void few_rows(const syn_product *p) {
    int64_t n = 0;
    for (int64_t k = 0; k < p->k; k += DEPTH) n = stored_block(p, k, MIN(p->k - k, DEPTH));
    copied(p, n);
}

#endif
#endif
