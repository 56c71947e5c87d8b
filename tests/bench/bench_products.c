/* ./dev bench products: compares matrix products with OpenBLAS, which uses the same number of
   threads, and with the memory bandwidth. All runs of a line alternate. Times are medians; ratios
   are medians of the ratios of adjacent runs. The exit status is 1 if a limit is missed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ops/blas.h"
#include "ops/products.h"
#include "syntorch/base/half.h"
#include "syntorch/base/memory.h"
#include "tests/support/bench.h"
#include "tools/cli.h"

#define OUT ((size_t)3072 * 3072) /* enough for 64 rows of logits or 2048 of a layer */
enum { MAX_PRODUCTS = 49, MAX_ROWS = 2048, MAX_COLUMNS = 50257, MAX_RUNS = 64 };
/* Number of elements of GPT-2 124M's matrices. */
#define WEIGHTS ((size_t)12 * 768 * 9216 + (size_t)768 * 50257)

static int threads;
static syn_workers *workers;
static float *weights, *x, *out;
static uint16_t *halves, *half_x;

/* ---- Timed functions ---- */

typedef struct work {
    syn_product p[MAX_PRODUCTS];
    int n;
    size_t elems; /* number of weights so far */
} work;

static void add(work *w, int64_t m, int64_t k, int64_t n, syn_dtype dtype, bool head) {
    const void *at =
        dtype == SYN_F32 ? (const void *)(weights + w->elems) : (const void *)(halves + w->elems);
    w->p[w->n++] = (syn_product){.m = m,
                                 .n = n,
                                 .k = k,
                                 .x = x,
                                 .ldx = k,
                                 .w = at,
                                 .ldw = head ? k : n,
                                 .w_dtype = dtype,
                                 .transpose_w = head,
                                 .out = out,
                                 .ldo = n};
    w->elems += (size_t)(n * k);
}

/* The three products of a layer's matrix in training: forward, and the gradients of the input and
   of the weight. */
typedef enum pass { FORWARD, INPUT, WEIGHT, PASSES } pass;

static void add_pass(work *w, pass which, int64_t m, int64_t k, int64_t n, syn_dtype dtype) {
    const bool half = dtype != SYN_F32;
    syn_product *p = &w->p[w->n++];
    *p = (syn_product){.m = which == WEIGHT ? k : m,
                       .n = which == INPUT ? k : n,
                       .k = which == FORWARD ? k
                            : which == INPUT ? n
                                             : m,
                       .x = half ? (const void *)half_x : x,
                       .x_dtype = dtype,
                       .w = half ? (const void *)(halves + w->elems) : weights + w->elems,
                       .w_dtype = dtype,
                       .transpose_x = which == WEIGHT,
                       .transpose_w = which == INPUT,
                       .out = out,
                       .out_dtype = which == WEIGHT ? SYN_F32 : dtype};
    p->ldx = p->transpose_x ? p->m : p->k;
    p->ldw = p->transpose_w ? p->k : p->n;
    p->ldo = p->n;
    w->elems += (size_t)(p->k * p->n);
}

static const int64_t shapes[4][2] = {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}};

/* All linear layers of GPT-2 124M, for m tokens. */
static work whole_model(int64_t m, syn_dtype dtype) {
    work w = {.n = 0};
    for (int layer = 0; layer < 12; layer++)
        for (int i = 0; i < 4; i++) add(&w, m, shapes[i][0], shapes[i][1], dtype, false);
    add(&w, m, 768, 50257, dtype, true);
    return w;
}

static double flops(const work *w) {
    double sum = 0;
    for (int i = 0; i < w->n; i++)
        sum += 2 * (double)w->p[i].m * (double)w->p[i].n * (double)w->p[i].k;
    return sum;
}

static double bytes(const work *w) {
    return (double)w->elems * (double)syn_dtype_bytes(w->p[0].w_dtype);
}

typedef enum how { OURS, OPENBLAS, READING } how;

static void run(const work *w, how way) {
    if (way == READING)
        read_bytes(workers, w->p[0].w_dtype == SYN_F32 ? (void *)weights : (void *)halves,
                   (int64_t)bytes(w));
    for (int i = 0; way != READING && i < w->n; i++) {
        const syn_product *p = &w->p[i];
        if (way == OURS) syn_product_run(p, workers);
        else
            syn_blas_gemm(p->transpose_x, p->transpose_w, p->m, p->n, p->k, p->x, p->ldx, p->w,
                          p->ldw, 0.0f, p->out, p->ldo);
    }
}

/* The seconds per run, measured over several runs that together take a few hundredths of a second.
   After a product, OpenBLAS's threads keep a core busy for a tenth of a second, so the function
   waits until they sleep. It then runs one untimed product, to wake up the threads that are
   timed. */
static double seconds(const work *w, how way) {
    static how last = READING;
    const struct timespec pause = {0, 150000000};
    const int runs = 1 + (int)(4e9 / (flops(w) + 20 * bytes(w)));
    work first = *w;
    first.n = 1;
    if (last == OPENBLAS && way != OPENBLAS) nanosleep(&pause, NULL);
    last = way;
    syn_blas_set_threads(way == OPENBLAS ? threads : 1);
    run(&first, way == READING ? OURS : way);
    const double begin = now_s();
    for (int i = 0; i < runs; i++) run(w, way);
    return (now_s() - begin) / runs;
}

/* The times of a and b, and a / b. a and b alternate, after one warm-up run of each. */
typedef struct pair {
    double a_s, b_s, ratio;
} pair;

static pair in_turn(const work *a, how way_a, const work *b, how way_b, int runs) {
    double t[3][MAX_RUNS];
    for (int i = -1; i < runs; i++) {
        const double sa = seconds(a, way_a), sb = seconds(b, way_b);
        if (i < 0) continue;
        t[0][i] = sa;
        t[1][i] = sb;
        t[2][i] = sa / sb;
    }
    return (pair){median(t[0], runs), median(t[1], runs), median(t[2], runs)};
}

/* ---- Reports ---- */

static void limit(const char *what, double value, double most) {
    const bool ok = value <= most;
    missed += !ok;
    printf("  %-64s %7.3f <= %-6.3f %s\n", what, value, most, ok ? "ok" : "MISSED");
    fflush(stdout);
}

static const char *name(syn_dtype dtype) {
    return syn_dtype_name(dtype);
}

/* Compares one row with sgemv and with reading the same bytes, and 16-bit weights with f32. */
static void one_row(void) {
    const work f32 = whole_model(1, SYN_F32);
    char what[96];
    printf("one row, all of GPT-2 124M's matrices:\n");
    pair p = in_turn(&f32, OURS, &f32, OPENBLAS, 9);
    snprintf(what, sizeof what, "f32 %.2f ms, of sgemv's %.2f ms", 1e3 * p.a_s, 1e3 * p.b_s);
    limit(what, p.ratio, 1 / 0.95);
    for (syn_dtype d = SYN_F32; d <= SYN_BF16; d++) {
        const work w = whole_model(1, d);
        p = in_turn(&w, OURS, &w, READING, 9);
        snprintf(what, sizeof what, "%s %.1f GB/s, time of reading at %.1f GB/s", name(d),
                 1e-9 * bytes(&w) / p.a_s, 1e-9 * bytes(&w) / p.b_s);
        limit(what, p.ratio, 1.25);
        if (d == SYN_F32) continue;
        p = in_turn(&w, OURS, &f32, OURS, 9);
        snprintf(what, sizeof what, "%s %.2f ms, of f32's %.2f ms", name(d), 1e3 * p.a_s,
                 1e3 * p.b_s);
        limit(what, p.ratio, 1 / 1.7);
    }
}

static void few_rows(void) {
    static const int64_t rows[] = {2, 4, 8, 16, 32, 64};
    char what[96];
    printf("few rows, all of GPT-2 124M's matrices:\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (syn_dtype d = SYN_F32; d <= SYN_BF16; d += SYN_BF16) {
            const work w = whole_model(rows[i], d), f32 = whole_model(rows[i], SYN_F32);
            const pair p = in_turn(&w, OURS, &f32, OPENBLAS, 7);
            snprintf(
                what, sizeof what, "%2lld rows, %-4s %6.2f ms, %3.0f GFLOP/s, of sgemm's %.2f ms",
                (long long)rows[i], name(d), 1e3 * p.a_s, 1e-9 * flops(&w) / p.a_s, 1e3 * p.b_s);
            limit(what, p.ratio, 1.03);
        }
}

static void many_rows(void) {
    static const int64_t rows[] = {128, 256, 1024};
    char what[96];
    printf("many rows, each matrix of a layer:\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int s = 0; s < 4; s++)
            for (syn_dtype d = SYN_F32; d <= SYN_BF16; d += SYN_BF16) {
                const int64_t k = shapes[s][0], n = shapes[s][1];
                work w = {.n = 0}, f32 = {.n = 0};
                add(&w, rows[i], k, n, d, false);
                add(&f32, rows[i], k, n, SYN_F32, false);
                const pair p = in_turn(&w, OURS, &f32, OPENBLAS, 7);
                snprintf(what, sizeof what,
                         "%lld x %lld x %lld, %s %.0f GFLOP/s, of sgemm's at %.0f",
                         (long long)rows[i], (long long)k, (long long)n, name(d),
                         1e-9 * flops(&w) / p.a_s, 1e-9 * flops(&f32) / p.b_s);
                limit(what, p.ratio, d == SYN_F32 ? 1.03 : 1.05);
            }
}

/* The products of a training step with 4 x 64 to 4 x 512 tokens. OpenBLAS computes in f32. */
static void training(void) {
    static const int64_t tokens[] = {256, 512, 1024, 2048};
    static const char *const passes[] = {"forward", "of x", "of w"};
    char what[96];
    printf("training, the matrices of a layer:\n");
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        for (pass which = FORWARD; which < PASSES; which++)
            for (syn_dtype d = SYN_F32; d <= SYN_BF16; d += SYN_BF16) {
                work w = {.n = 0}, f32 = {.n = 0};
                for (int s = 0; s < 4; s++) {
                    add_pass(&w, which, tokens[i], shapes[s][0], shapes[s][1], d);
                    add_pass(&f32, which, tokens[i], shapes[s][0], shapes[s][1], SYN_F32);
                }
                const pair p = in_turn(&w, OURS, &f32, OPENBLAS, 7);
                snprintf(what, sizeof what,
                         "%4lld tokens, %-7s %-4s %4.0f GFLOP/s, of sgemm's %.0f",
                         (long long)tokens[i], passes[which], name(d), 1e-9 * flops(&w) / p.a_s,
                         1e-9 * flops(&f32) / p.b_s);
                limit(what, p.ratio, d == SYN_F32 ? 1.03 : 1 / 1.5);
            }
}

int main(void) {
    syn_error err = {0};
    char text[64];
    threads = cli_cores();
    weights = syn_aligned_malloc(WEIGHTS * sizeof *weights);
    halves = syn_aligned_malloc(WEIGHTS * sizeof *halves);
    x = syn_aligned_malloc((size_t)MAX_ROWS * 3072 * sizeof *x);
    half_x = syn_aligned_malloc((size_t)MAX_ROWS * 3072 * sizeof *half_x);
    out = syn_aligned_malloc(OUT * sizeof *out);
    if (!weights || !halves || !x || !half_x || !out ||
        syn_workers_new(&workers, threads, &err) != SYN_OK) {
        fprintf(stderr, "bench_products: %s\n", err.text[0] ? err.text : "out of memory");
        return 1;
    }
    for (size_t i = 0; i < WEIGHTS; i++) weights[i] = 0.001f * (float)(i % 1999) - 1;
    /* 0x3c00 is 1 in f16 and 2^-7 in bf16, so it is not subnormal in either type. */
    for (size_t i = 0; i < WEIGHTS; i++) halves[i] = (uint16_t)(0x3c00 + i % 512);
    for (size_t i = 0; i < (size_t)MAX_ROWS * 3072; i++) x[i] = 0.01f * (float)(i % 101) - 0.5f;
    for (size_t i = 0; i < (size_t)MAX_ROWS * 3072; i++) half_x[i] = (uint16_t)(0x3c00 + i % 301);
    memset(out, 0, OUT * sizeof *out);
    syn_blas_set_threads(threads);
    printf("%s, %s kernels of ours, %d threads\n", syn_blas_describe(text, sizeof text),
           syn_simd_name(syn_simd_level()), threads);
    one_row();
    few_rows();
    many_rows();
    training();
    syn_workers_free(workers);
    syn_aligned_free(weights);
    syn_aligned_free(halves);
    syn_aligned_free(x);
    syn_aligned_free(half_x);
    syn_aligned_free(out);
    return missed ? 1 : 0;
}
