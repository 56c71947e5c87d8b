/* Chooses the kernel of a matrix product and splits the product among threads. */
#include "ops/products.h"

#include <string.h>

#include "ops/blas.h"
#include "ops/products_private.h"
#include "syntorch/base/half.h"

/* OpenBLAS is at least as fast as kernels that do not pack if a product has at least MANY_ROWS
   rows, and n and k are at least LONG. */
#define MANY_ROWS 1024
#define LONG      256
/* Minimum numbers of rows for which packing pays off. FLOATS: f32 products; PAIRS: products of bf16
   pairs; MANY_HALVES: other 16-bit products. ACROSS: w is stored as (k, n); ALONG: w is stored as
   (n, k). If x is transposed and k is at least MANY_STEPS, f32 products are left to OpenBLAS. */
#define FLOATS_ACROSS 96
#define FLOATS_ALONG  24
#define PAIRS_ACROSS  2
#define PAIRS_ALONG   12
#define MANY_HALVES   49
#define SHORT         64 /* minimum n and, unless x is transposed, k for packing f32 */
#define MANY_STEPS    768
#define MIN(a, b)     ((a) < (b) ? (a) : (b))

typedef void (*kernel)(const syn_product *p);

/* ---- parts ---- */

/* Parts start at multiples of these numbers of rows and columns. COLUMN_UNIT is a multiple of the
   number of columns of every kernel's tiles. */
#define ROW_UNIT    4
#define COLUMN_UNIT 64

static int64_t units(int64_t n, int64_t unit) {
    return (n + unit - 1) / unit;
}

/* First element of part i of `parts`, in whole units. */
static int64_t border(int64_t n, int64_t unit, int64_t i, int64_t parts) {
    const int64_t at = units(n, unit) * i / parts * unit;
    return MIN(at, n);
}

/* Estimated time of the largest part of a grid of `across` parts along n and `down` along m, in
   cycles per step of k: 16 multiplications per cycle, and two cycles to load an element of w. */
static double part_cost(const syn_product *p, int64_t across, int64_t down) {
    const int64_t columns = units(units(p->n, COLUMN_UNIT), across) * COLUMN_UNIT;
    const int64_t rows = units(units(p->m, ROW_UNIT), down) * ROW_UNIT;
    return (double)MIN(columns, p->n) * ((double)MIN(rows, p->m) / 16 + 2);
}

/* Address of element `at` of a matrix with that dtype. */
static const void *element(const void *from, int64_t at, syn_dtype dtype) {
    return (const char *)from + at * (int64_t)syn_dtype_bytes(dtype);
}

static void *place(void *from, int64_t at, syn_dtype dtype) {
    return (char *)from + at * (int64_t)syn_dtype_bytes(dtype);
}

syn_product syn_product_part(const syn_product *p, int64_t i, int64_t parts) {
    int64_t across = parts;
    for (int64_t a = parts - 1; a > 0; a--)
        if (parts % a == 0 && part_cost(p, a, parts / a) < part_cost(p, across, parts / across))
            across = a;
    const int64_t j = border(p->n, COLUMN_UNIT, i % across, across);
    const int64_t r = border(p->m, ROW_UNIT, i / across, parts / across);
    syn_product part = *p;
    part.n = border(p->n, COLUMN_UNIT, i % across + 1, across) - j;
    part.m = border(p->m, ROW_UNIT, i / across + 1, parts / across) - r;
    part.w = element(p->w, p->transpose_w ? j * p->ldw : j, p->w_dtype);
    part.x = element(p->x, p->transpose_x ? r : r * p->ldx, p->x_dtype);
    part.out = place(p->out, r * p->ldo + j, p->out_dtype);
    if (p->bias) part.bias = element(p->bias, j, p->x_dtype);
    return part;
}

bool syn_product_is_small(const syn_product *p, int64_t count) {
    return (double)count * (double)p->k * part_cost(p, 1, 1) < 200000;
}

typedef void (*method)(const syn_product *p, kernel run);

struct shared {
    const syn_product *p;
    int64_t parts;
    method how;
    kernel run;
};

static void one_part(void *arg, int64_t i, int worker) {
    const struct shared *s = arg;
    const syn_product part = syn_product_part(s->p, i, s->parts);
    (void)worker;
    if (part.m > 0 && part.n > 0) s->how(&part, s->run);
}

/* Runs the level's kernel. */
static void by_kernel(const syn_product *p, kernel run) {
    run(p);
}

static void share(const syn_product *p, method how, kernel run, syn_workers *workers) {
    struct shared s = {p, syn_workers_count(workers), how, run};
    if (syn_product_is_small(p, 1)) s.parts = 1;
    syn_workers_run(workers, s.parts, one_part, &s);
}

/* ---- one row ---- */

#define MAX_SUMS 16384

struct split {
    const syn_product *p;
    int64_t parts;
    kernel run;
    float sums[MAX_SUMS]; /* n sums for each part but the first, which writes to the output */
};

static void one_piece(void *arg, int64_t i, int worker) {
    struct split *s = arg;
    syn_product piece = *s->p;
    const int64_t k = border(piece.k, COLUMN_UNIT, i, s->parts);
    (void)worker;
    piece.k = border(piece.k, COLUMN_UNIT, i + 1, s->parts) - k;
    piece.x = element(piece.x, k, piece.x_dtype);
    piece.w = element(piece.w, k * piece.ldw, piece.w_dtype);
    if (i > 0) piece.bias = NULL;
    if (i > 0) piece.out = s->sums + (i - 1) * piece.n;
    s->run(&piece);
}

/* One row times w (k, n), split along k so that each thread reads memory in order. Returns false
   if the product is too small, or if adding the threads' sums would take too long. */
static bool split(const syn_product *p, kernel run, syn_workers *workers) {
    struct split s;
    s.p = p;
    s.parts = syn_workers_count(workers);
    s.run = run;
    if (p->m != 1 || p->transpose_x || p->transpose_w || syn_product_is_small(p, 1)) return false;
    if (s.parts < 2 || s.parts > 4 || (s.parts - 1) * p->n > MAX_SUMS) return false;
    if (p->k < s.parts * COLUMN_UNIT) return false;
    syn_workers_run(workers, s.parts, one_piece, &s);
    float *out = p->out;
    for (int64_t i = 0; i < s.parts - 1; i++)
        for (int64_t j = 0; j < p->n; j++) out[j] += s.sums[i * p->n + j];
    return true;
}

/* ---- OpenBLAS ---- */

static void begin_with_bias(const syn_product *p) {
    float *out = p->out;
    for (int64_t i = 0; i < p->m; i++, out += p->ldo)
        if (p->bias) memcpy(out, p->bias, (size_t)p->n * sizeof *out);
        else memset(out, 0, (size_t)p->n * sizeof *out);
}

static void by_blas(const syn_product *p, kernel run) {
    (void)run;
    if (p->bias) begin_with_bias(p);
    syn_blas_gemm(p->transpose_x, p->transpose_w, p->m, p->n, p->k, p->x, p->ldx, p->w, p->ldw,
                  p->bias || p->add ? 1.0f : 0.0f, p->out, p->ldo);
}

/* For 16-bit w, which is converted one panel at a time. A panel has up to LONGEST elements of each
   stored row, and as many rows as fit. */
static void by_blas_in_panels(const syn_product *p, kernel run) {
    enum { PANEL = 65536, LONGEST = 8192 };
    float panel[PANEL];
    const bool t = p->transpose_w;
    const int64_t rows = t ? p->n : p->k, columns = t ? p->k : p->n;
    (void)run;
    begin_with_bias(p);
    for (int64_t j = 0; j < columns; j += LONGEST) {
        const int64_t width = MIN(columns - j, LONGEST);
        for (int64_t i = 0, n; i < rows; i += n) {
            n = MIN(rows - i, PANEL / width);
            for (int64_t r = 0; r < n; r++)
                syn_half_widen((const uint16_t *)p->w + (i + r) * p->ldw + j, panel + r * width,
                               (size_t)width, p->w_dtype);
            const int64_t k = t ? j : i;
            syn_blas_gemm(p->transpose_x, t, p->m, t ? n : width, t ? width : n,
                          (const float *)p->x + (p->transpose_x ? k * p->ldx : k), p->ldx, panel,
                          width, 1.0f, (float *)p->out + (t ? i : j), p->ldo);
        }
    }
}

/* ---- blocks: for dtypes that the kernels cannot read or write ---- */

#define ROWS  32
#define WIDTH 512
#define DEPTH 512

/* Returns n elements as f32: in place if they are f32, otherwise converted to the buffer. */
static const float *widened(const void *from, int64_t n, syn_dtype dtype, float *buffer) {
    if (dtype == SYN_F32) return from;
    syn_half_widen(from, buffer, (size_t)n, dtype);
    return buffer;
}

/* Sets block->x to rows from i on and steps k .. k + block->k - 1, as f32. */
static void widen_x(const syn_product *p, syn_product *block, int64_t i, int64_t k, float *buffer) {
    const bool t = p->transpose_x;
    const int64_t rows = t ? block->k : block->m, columns = t ? block->m : block->k;
    block->x = element(p->x, t ? k * p->ldx + i : i * p->ldx + k, p->x_dtype);
    if (p->x_dtype == SYN_F32) return;
    for (int64_t r = 0; r < rows; r++)
        widened(element(block->x, r * p->ldx, p->x_dtype), columns, p->x_dtype,
                buffer + r * columns);
    block->x = buffer;
    block->ldx = columns;
    block->x_dtype = SYN_F32;
}

/* Stores n sums with the output's dtype. */
static void put(const float *from, int64_t n, void *to, syn_dtype dtype) {
    if (dtype == SYN_F32) memcpy(to, from, (size_t)n * sizeof *from);
    else syn_half_narrow(from, to, (size_t)n, dtype);
}

static void add_rows(float *to, int64_t ld_to, const float *from, int64_t m, int64_t n) {
    for (int64_t r = 0; r < m; r++)
        for (int64_t c = 0; c < n; c++) to[r * ld_to + c] += from[r * n + c];
}

/* Computes the f32 sums of a block, the rows from i on and the columns from j on. */
static void block_sums(const syn_product *p, syn_product block, int64_t i, int64_t j, kernel run,
                       float *sums) {
    float x[ROWS * DEPTH], bias[WIDTH], more[ROWS * WIDTH];
    if (p->bias) block.bias = widened(element(p->bias, j, p->x_dtype), block.n, p->x_dtype, bias);
    block.add = false;
    block.out_dtype = SYN_F32;
    block.ldo = block.n;
    block.out = sums;
    if (p->k <= 0) begin_with_bias(&block);
    for (int64_t k = 0; k < p->k; k += DEPTH) {
        syn_product piece = block;
        piece.k = MIN(p->k - k, DEPTH);
        if (k > 0) piece.out = more;
        if (k > 0) piece.bias = NULL;
        widen_x(p, &piece, i, k, x);
        piece.w = element(p->w, p->transpose_w ? j * p->ldw + k : k * p->ldw + j, p->w_dtype);
        run(&piece);
        if (k > 0) add_rows(sums, block.n, more, block.m, block.n);
    }
}

/* Any product: computes f32 sums block by block, then adds or rounds them to the output. */
static void in_blocks(const syn_product *p, kernel run) {
    float sums[ROWS * WIDTH];
    for (int64_t i = 0; i < p->m; i += ROWS)
        for (int64_t j = 0; j < p->n; j += WIDTH) {
            syn_product block = *p;
            block.m = MIN(ROWS, p->m - i);
            block.n = MIN(WIDTH, p->n - j);
            block_sums(p, block, i, j, run, sums);
            for (int64_t r = 0; r < block.m; r++) {
                const float *from = sums + r * block.n;
                void *to = place(p->out, (i + r) * p->ldo + j, p->out_dtype);
                if (p->add) add_rows(to, 0, from, 1, block.n);
                else put(from, block.n, to, p->out_dtype);
            }
        }
}

/* ---- few rows of 16-bit x: converts all of x to f32 once ---- */

#define MAX_X    196608 /* maximum number of elements of x */
#define MAX_WIDE 262144 /* maximum number of elements of x, bias and output together */
#define LEAST    1024   /* minimum number of columns at a time, unless n is smaller */

static bool is_plain(const syn_product *p) {
    return p->x_dtype == SYN_F32 && p->out_dtype == SYN_F32 && !p->add;
}

/* Number of columns computed at a time. */
static int64_t wide_columns(const syn_product *p) {
    const int64_t fit = (MAX_WIDE - p->m * p->k) / (p->m + 1);
    return p->n <= fit ? p->n : fit - fit % COLUMN_UNIT;
}

static bool wide_fits(const syn_product *p) {
    return !p->add && p->k > 0 && p->m * p->k <= MAX_X &&
           (wide_columns(p) == p->n || wide_columns(p) >= LEAST);
}

static void run_converted(const syn_product *p, kernel run, syn_workers *workers) {
    const int64_t most = wide_columns(p);
    float memory[p->m * p->k + (p->m + 1) * most];
    syn_product wide = *p;
    widen_x(p, &wide, 0, 0, memory);
    float *out = memory + p->m * p->k, *bias = out + p->m * most;
    wide.out = out;
    wide.out_dtype = SYN_F32;
    for (int64_t j = 0; j < p->n; j += most) {
        wide.n = wide.ldo = MIN(p->n - j, most);
        wide.w = element(p->w, p->transpose_w ? j * p->ldw : j, p->w_dtype);
        if (p->bias) wide.bias = widened(element(p->bias, j, p->x_dtype), wide.n, p->x_dtype, bias);
        if (!split(&wide, run, workers)) share(&wide, by_kernel, run, workers);
        for (int64_t i = 0; i < p->m; i++)
            put(out + i * wide.n, wide.n, place(p->out, i * p->ldo + j, p->out_dtype),
                p->out_dtype);
    }
}

/* ---- packing ---- */

#if defined(__x86_64__) && !defined(SYN_DOUBLE)
static void by_packed(const syn_product *p, kernel run) {
    float memory[syn__packed_buffer_floats_avx512(p)];
    (void)run;
    syn__packed_avx512(p, memory);
}

#ifdef SYN_HAVE_AVX512_BF16
static void run_row_bf16(const syn_product *p, kernel run) {
    (void)run;
    syn__pairs_avx512bf16(p);
}

static void run_packed_bf16(const syn_product *p, kernel run) {
    float memory[syn__packed_buffer_floats_avx512bf16(p)];
    (void)run;
    syn__packed_avx512bf16(p, memory);
}
#endif

/* The method for a product that is faster with packing or that uses bf16 pairs; NULL for other
   products. */
static method packing(const syn_product *p, syn_simd level) {
    if (level < SYN_SIMD_AVX512 || p->k <= 0) return NULL;
#ifdef SYN_HAVE_AVX512_BF16
    if (level == SYN_SIMD_AVX512_BF16 && p->x_dtype == SYN_BF16 && p->w_dtype == SYN_BF16) {
        if (p->m == 1 && p->transpose_w && !p->transpose_x && !p->add) return run_row_bf16;
        return p->m >= (p->transpose_w ? PAIRS_ALONG : PAIRS_ACROSS) || p->add ? run_packed_bf16
                                                                               : NULL;
    }
#endif
    if (p->x_dtype != SYN_F32) return p->m >= MANY_HALVES || p->add ? by_packed : NULL;
    if (p->add || p->n < SHORT || (p->transpose_x && p->k >= MANY_STEPS)) return NULL;
    if (p->k < SHORT && !p->transpose_x) return NULL;
    return p->m >= (p->transpose_w ? FLOATS_ALONG : FLOATS_ACROSS) ? by_packed : NULL;
}
#else
static method packing(const syn_product *p, syn_simd level) {
    (void)p;
    (void)level;
    return NULL;
}
#endif

void syn__product_run_own_kernels(const syn_product *p, syn_simd level, syn_workers *workers) {
    const kernel run = SYN__AT_LEVEL(syn__product, level);
    const method how = packing(p, level);
    if (p->m <= 0 || p->n <= 0) return;
    if (how) share(p, how, run, workers);
    else if (is_plain(p) && p->k > 0) {
        if (!split(p, run, workers)) share(p, by_kernel, run, workers);
    } else if (wide_fits(p)) run_converted(p, run, workers);
    else share(p, in_blocks, run, workers);
}

/* Whether to use OpenBLAS, because it is faster or because it has several threads and the call has
   none. */
static bool left_to_blas(const syn_product *p, syn_simd level, const syn_workers *workers) {
    if (!syn_blas_found() || p->m <= 0 || p->n <= 0 || p->k <= 0) return false;
    if (p->x_dtype != SYN_F32 || (p->add && p->w_dtype != SYN_F32)) return false;
    if (level == SYN_SIMD_SCALAR) return true;
    if (p->w_dtype != SYN_F32) return false;
    if (!workers && syn_blas_threads() > 1) return true;
    if (packing(p, level)) return false;
    return p->add || p->transpose_x || (p->m >= MANY_ROWS && p->n >= LONG && p->k >= LONG);
}

void syn__product_run_at(const syn_product *p, syn_simd level, syn_workers *workers) {
    if (!left_to_blas(p, level, workers)) syn__product_run_own_kernels(p, level, workers);
    else share(p, p->w_dtype == SYN_F32 ? by_blas : by_blas_in_panels, NULL, workers);
}

void syn_product_run(const syn_product *p, syn_workers *workers) {
    syn_simd level = syn_simd_level();
    /* Products of one row are limited by memory bandwidth, so bf16 pairs are never slower for
       them. */
    if (level == SYN_SIMD_AVX512_BF16 && p->m > 1 && !syn_simd_bf16_dot_is_faster())
        level = SYN_SIMD_AVX512;
    syn__product_run_at(p, level, workers);
}
