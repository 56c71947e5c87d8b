/* Product kernels with SIMD lanes (ops/lanes.h), included by products_avx2.c and
   products_avx512.c. ops/products_scalar.c shows what they compute.

   With few rows, memory bandwidth is the limit: w is read once, in memory order, with prefetching.
   With more rows, blocks of w in the L2 cache are multiplied by rows of x in the L1 cache, tile by
   tile (ops/products_tiles.h; Goto and van de Geijn 2008, "Anatomy of high-performance matrix
   multiplication"). */
#ifndef OPS_PRODUCTS_BODY_H
#define OPS_PRODUCTS_BODY_H

#include "ops/products_tiles.h"

#if SYN_LANES > 0
#define DOT_ROWS      (SYN_LANES == 16 ? 6 : 3) /* rows of x, each with DOTS vectors of sums */
#define DOTS          4                         /* columns whose sums run along k */
#define LENGTH        1536                      /* maximum number of elements in a sum along k */
#define GROUP_COLUMNS 32                        /* columns per group of rows of x */
/* Up to this many rows of x, w (n, k) is read in several streams. */
#define FEW_STREAMED(dtype) ((dtype) == SYN_F32 ? 2 * DOT_ROWS : DOT_ROWS)
#define NEAR                8192 /* prefetch distance in w, in bytes */
#define MANY_ALONG          384  /* minimum number of rows for copying w (n, k) */
#define SHORT               256  /* if k is below this, MANY_ACROSS applies instead */

/* ---- one row, w (k, n) ---- */

/* Adds `count` rows of w, each times its element of x, to the output, which stays in the cache.
   Each row is read from start to end. */
LANE_FN void lines(const float *x, const void *w, int64_t ldw, int64_t n, float *out,
                   /* constant */ int count, syn_dtype dtype) {
    vec a[LINES];
    FOR_EACH(r, count, LINES) a[r] = vec_set(x[r]);
    for (int64_t j = 0; j < n; j += COLUMNS) FOR_EACH(v, 2, 2) {
            const int64_t at = j + v * SYN_LANES;
            vec even = vec_load(out + at), odd = vec_set(0.0f);
            FOR_EACH(r, count, LINES) {
                const vec b = widen(w, r * ldw + at, dtype);
                if (v * vector_bytes(dtype) % 64 == 0)
                    prefetch_l2(element(w, (r + count) * ldw + at, dtype), 64);
                if (r % 2 == 0) even = vec_fma(a[r], b, even);
                else odd = vec_fma(a[r], b, odd);
            }
            vec_store(out + at, vec_add(even, odd));
        }
}

LANE_FN void one_row(const syn_product *p, /* constant */ syn_dtype dtype) {
    const int64_t n = p->n - p->n % COLUMNS;
    const float *x = p->x;
    float *out = p->out;
    if (p->bias) memcpy(out, p->bias, (size_t)n * sizeof *out);
    else memset(out, 0, (size_t)n * sizeof *out);
    int64_t k = 0;
    for (; k + LINES <= p->k; k += LINES)
        lines(x + k, element(p->w, k * p->ldw, dtype), p->ldw, n, out, LINES, dtype);
    for (; k < p->k; k++) lines(x + k, element(p->w, k * p->ldw, dtype), p->ldw, n, out, 1, dtype);
    copied(p, n);
}

/* ---- few rows, w (n, k): sums along k ---- */

/* The sums of the lanes of four vectors. */
LANE_FN __m128 four_sums(vec a, vec b, vec c, vec d) {
#if SYN_LANES == 16
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512 all =
        _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 half = _mm256_add_ps(vec_lower(all), vec_upper(all));
#else
    const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const __m256 half =
        _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
#endif
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

/* Multiplies `rows` rows of x by DOTS columns of w. Unless the columns are far apart (in_streams),
   one row of the next block is prefetched from start to end during each quarter of the steps. */
LANE_FN void dots(const tile *t, /* constant */ int rows, bool far, syn_dtype dtype) {
    vec sum[DOT_ROWS][DOTS], a[DOT_ROWS];
    FOR_EACH(r, rows, DOT_ROWS)
    FOR_EACH(c, DOTS, DOTS) sum[r][c] = vec_set(0.0f);
    const float *x = t->x;
    const void *w = t->w;
    const int64_t k = t->k, whole = k - k % SYN_LANES, ldx = t->ldx, ldw = t->ldw;
    int64_t p = 0;
    for (int q = 0; q < DOTS; q++) {
        const int64_t end = whole * (q + 1) / DOTS;
        const char *next = t->next + q * t->next_bytes;
        for (; p < end; p += SYN_LANES, next += DOTS * vector_bytes(dtype)) {
            if (!far) prefetch_l1(next, DOTS * vector_bytes(dtype));
            FOR_EACH(r, rows, DOT_ROWS) a[r] = vec_load(x + r * ldx + p);
            FOR_EACH(c, DOTS, DOTS) {
                const vec b = widen(w, c * ldw + p, dtype);
                FOR_EACH(r, rows, DOT_ROWS) sum[r][c] = vec_fma(a[r], b, sum[r][c]);
            }
        }
    }
    float rest_x[SYN_LANES] = {0}, rest_w[DOTS][SYN_LANES] = {{0}};
    for (int c = 0; c < DOTS && whole < k; c++)
        widen_few(w, c * ldw + whole, rest_w[c], k - whole, dtype);
    FOR_EACH(r, rows, DOT_ROWS) {
        if (whole < k) {
            memcpy(rest_x, x + r * ldx + whole, (size_t)(k - whole) * sizeof(float));
            FOR_EACH(c, DOTS, DOTS)
            sum[r][c] = vec_fma(vec_load(rest_x), vec_load(rest_w[c]), sum[r][c]);
        }
        const __m128 s = four_sums(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
        if (far) {
            float each[DOTS];
            _mm_storeu_ps(each, s);
            for (int c = 0; c < DOTS; c++)
                t->out[r * t->ldo + c * t->apart] =
                    (t->init ? t->init[r * t->ld_init + c * t->apart] : 0.0f) + each[c];
            continue;
        }
        const __m128 init = t->init ? _mm_loadu_ps(t->init + r * t->ld_init) : _mm_setzero_ps();
        _mm_storeu_ps(t->out + r * t->ldo, _mm_add_ps(init, s));
    }
}

LANE_FN void dots_rows(const tile *t, int64_t rows, /* constant */ bool far, syn_dtype dtype) {
#define CASE(n)                                    \
    case n:                                        \
        if (n <= DOT_ROWS) dots(t, n, far, dtype); \
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

/* Computes n columns from j on, for `length` steps from k on. A few rows of x in the L1 cache are
   multiplied by the rows of w in the L2 cache. next: the part of w to prefetch during the first
   columns. */
LANE_FN void along_block(const syn_product *p, int64_t k, int64_t length, int64_t j, int64_t n,
                         const char *next, /* constant */ syn_dtype dtype) {
    const int64_t groups = (p->m + DOT_ROWS - 1) / DOT_ROWS;
    tile t = {.k = length, .ldx = p->ldx, .ldw = p->ldw};
    t.next_bytes = p->ldw * (int64_t)syn_dtype_bytes(dtype);
    for (int64_t g = 0; g < groups; g++) {
        const int64_t i = p->m * g / groups, rows = p->m * (g + 1) / groups - i;
        for (int64_t c = j; c < j + n; c += DOTS) {
            t.x = (const float *)p->x + i * p->ldx + k;
            t.w = element(p->w, c * p->ldw + k, dtype);
            t.next = next + (c - j) * t.next_bytes;
            place(&t, p, i, c, k);
            dots_rows(&t, rows, false, dtype);
        }
    }
}

#if SYN_LANES == 8
/* Few rows of x, up to FEW_STREAMED. Reads DOTS parts of w at the same time, each from start to
   end. The hardware then prefetches all of them, which on Zen 3 is up to twice as fast as one part
   with prefetch instructions. */
LANE_FN void in_streams(const syn_product *p, /* constant */ syn_dtype dtype) {
    const int64_t each = p->n / DOTS, pieces = (p->k + LENGTH - 1) / LENGTH;
    tile t = {.ldx = p->ldx, .ldw = each * p->ldw, .apart = each};
    for (int64_t i = 0; i < each * pieces; i++) {
        const int64_t j = i / pieces, q = i % pieces, k = p->k * q / pieces;
        t.k = p->k * (q + 1) / pieces - k;
        t.w = t.next = element(p->w, j * p->ldw + k, dtype);
        for (int64_t r = 0, rows; r < p->m; r += rows) {
            rows = MIN(p->m - r, DOT_ROWS);
            t.x = (const float *)p->x + r * p->ldx + k;
            place(&t, p, r, j, k);
            dots_rows(&t, rows, true, dtype);
        }
    }
    copied(p, each * DOTS);
}
#endif

/* Multiplies one row of x by one column of w, as four sums over quarters of the column. Each
   element of w is read once. Without SIMD of 16 lanes, in_streams is faster. */
LANE_FN void long_dot(const tile *t, /* constant */ syn_dtype dtype) {
    vec sum[DOTS];
    const float *x = t->x;
    const int64_t k = t->k, quarter = k / DOTS / SYN_LANES * SYN_LANES;
    const char *next = t->next;
    FOR_EACH(c, DOTS, DOTS) sum[c] = vec_set(0.0f);
    for (int64_t p = 0; p < quarter; p += SYN_LANES, next += DOTS * vector_bytes(dtype)) {
        prefetch_l1(next, DOTS * vector_bytes(dtype));
        FOR_EACH(c, DOTS, DOTS) {
            const int64_t at = c * quarter + p;
            sum[c] = vec_fma(vec_load(x + at), widen(t->w, at, dtype), sum[c]);
        }
    }
    for (int64_t p = DOTS * quarter; p < k; p += SYN_LANES) {
        float rest_x[SYN_LANES] = {0}, rest_w[SYN_LANES] = {0};
        const int64_t n = MIN(k - p, SYN_LANES);
        memcpy(rest_x, x + p, (size_t)n * sizeof *x);
        widen_few(t->w, p, rest_w, n, dtype);
        sum[0] = vec_fma(vec_load(rest_x), vec_load(rest_w), sum[0]);
    }
    float s[DOTS];
    _mm_storeu_ps(s, four_sums(sum[0], sum[1], sum[2], sum[3]));
    *t->out = (t->init ? *t->init : 0.0f) + s[0] + s[1] + s[2] + s[3];
}

LANE_FN void long_dots(const syn_product *p, /* constant */ syn_dtype dtype) {
    const int64_t pieces = (p->k + DOTS * LENGTH - 1) / (DOTS * LENGTH);
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t q = 0; q < pieces; q++) {
            const int64_t k = p->k * q / pieces, end = p->k * (q + 1) / pieces;
            tile t = {.k = end - k, .x = (const float *)p->x + k};
            t.w = element(p->w, j * p->ldw + k, dtype);
            t.next = element(t.w, q + 1 < pieces ? t.k : p->ldw - k, dtype);
            place(&t, p, 0, j, k);
            long_dot(&t, dtype);
        }
}

/* Few rows: process all pieces of a group of columns before the next group, so that w is read in
   order. More rows: process all columns for one piece of k, so that the piece of x stays in the
   cache. */
LANE_FN void along(const syn_product *p, /* constant */ syn_dtype dtype) {
    const int64_t pieces = (p->k + LENGTH - 1) / LENGTH, whole = p->n - p->n % DOTS;
    const bool few = p->m < MANY_ACROSS;
    const int64_t step = few ? DOTS : GROUP_COLUMNS, blocks = (whole + step - 1) / step;
    const int64_t bytes = DOTS * p->k / pieces * (int64_t)syn_dtype_bytes(dtype);
    const int64_t ahead = 1 + NEAR / bytes; /* prefetch distance in blocks */
    for (int64_t i = 0; i < pieces * blocks; i++) {
        const int64_t q = few ? i % pieces : i / blocks, k = p->k * q / pieces;
        const int64_t j = (few ? i / pieces : i % blocks) * step;
        const int64_t then = few ? p->k * ((i + ahead) % pieces) / pieces : k;
        const int64_t after = few ? (i + ahead) / pieces * DOTS : j + DOTS;
        along_block(p, k, p->k * (q + 1) / pieces - k, j, MIN(whole - j, step),
                    element(p->w, after * p->ldw + then, dtype), dtype);
    }
    copied(p, whole);
}

LANE_FN void product_of(const syn_product *p, /* constant */ syn_dtype dtype) {
    const bool long_sums = p->transpose_w && p->k >= SHORT;
    if (p->transpose_x || p->m >= (long_sums ? MANY_ALONG : MANY_ACROSS)) copied(p, 0);
#if SYN_LANES == 8
    else if (p->transpose_w && p->m <= FEW_STREAMED(dtype)) in_streams(p, dtype);
#endif
    else if (p->transpose_w && p->m == 1 && (p->k > LENGTH || dtype == SYN_F32))
        long_dots(p, dtype);
    else if (p->transpose_w) along(p, dtype);
    else if (p->m == 1) one_row(p, dtype);
    else few_rows(p);
}

LANE_FN void product(const syn_product *p) {
    if (p->w_dtype == SYN_F32) product_of(p, SYN_F32);
    else if (p->w_dtype == SYN_F16) product_of(p, SYN_F16);
    else product_of(p, SYN_BF16);
}

#endif
#endif
