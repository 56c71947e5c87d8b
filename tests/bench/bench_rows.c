/* ./dev bench rows: compares the row kernels with copying the same number of bytes. The two sides
   of a comparison run alternately. The exit status is 1 if a rate misses its limit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/rows.h"
#include "tests/support/bench.h"
#include "tools/cli.h"

enum { WIDTH = 1024, ROUNDS = 9 };

/* ---- Rows ---- */

struct rows {
    const syn_row_kernels *k; /* NULL: measure the copy */
    int which;
    float *x, *y, *z, *v;
};

static const char *const names[] = {"gelu, tanh form",
                                    "gelu, erf form",
                                    "tanh",
                                    "softmax",
                                    "add",
                                    "mul",
                                    "gelu's slope, tanh",
                                    "gelu's slope, erf",
                                    "softmax's gradient",
                                    "scale",
                                    "mask",
                                    "layernorm",
                                    "layernorm's gradient",
                                    "dropout",
                                    "sum of squares",
                                    "adamw"};
enum { UNARY = 4, BINARY = 5, KERNELS = (int)(sizeof names / sizeof *names) };
/* Limits relative to the rate of copying, which moves 8 bytes per element. A kernel with two inputs
   and a result moves 12 bytes, a sum 4, and adamw with its three results 28. */
static const double limits[KERNELS] = {0.6, 0.4, 0.6, 0.6, 0.5, 0.5, 0.45, 0.4,
                                       0.5, 0.8, 0.8, 0.6, 0.3, 0.6, 1,    0.2};

static void row(const struct rows *r, int64_t at, int worker) {
    static float sums[SYN_WORKERS_MAX][2 * WIDTH];
    static const syn_adamw adamw = {1, 0.9f, 0.1f, 0.999f, 0.001f, 1e-8f, 1e-4f, 1, 1};
    const syn_dropout_row drop = syn__dropout_row(0.1, 1, 2, at / WIDTH);
    const syn_row_kernels *k = r->k;
    const float *x = r->x + at, *z = r->z + at;
    float *y = r->y + at;
    double sum = 0;
    const syn_unary_row unary[UNARY] = {k->gelu_tanh, k->gelu_erf, k->tanh, k->softmax};
    const syn_binary_row binary[BINARY] = {k->add, k->mul, k->gelu_tanh_grad, k->gelu_erf_grad,
                                           k->softmax_grad};
    if (r->which < UNARY) unary[r->which](x, y, WIDTH);
    else if (r->which < UNARY + BINARY) binary[r->which - UNARY](x, z, y, WIDTH);
    else if (r->which == 9) k->scale(x, 0.5f, y, WIDTH);
    else if (r->which == 10) k->scale_mask(x, NULL, 0.5f, WIDTH / 2, y, WIDTH);
    else if (r->which == 11) k->layernorm(x, r->z, r->z, 1e-5, y, WIDTH);
    else if (r->which == 12)
        k->layernorm_grad(x, r->z, z, 1e-5, y, sums[worker], sums[worker] + WIDTH, WIDTH);
    else if (r->which == 13) k->dropout(x, &drop, 0, y, WIDTH);
    else if (r->which == 14) k->square_sum(x, &sum, WIDTH);
    else k->adamw(y, r->z + at, r->v + at, x, &adamw, WIDTH);
    if (sum < 0) die("a negative sum of squares"); /* keeps the compiler from removing the loop */
}

static void some_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct rows *r = arg;
    for (int64_t i = begin; i < end; i++)
        if (r->k) row(r, i * WIDTH, worker);
        else memcpy(r->y + i * WIDTH, r->x + i * WIDTH, WIDTH * sizeof(float));
}

/* The number of elements per second, in 10^9. */
static double rate(syn_workers *w, struct rows *r, int64_t rows) {
    const double begin = now_s();
    syn_workers_ranges(w, rows, 1, some_rows, r);
    return 1e-9 * (double)(rows * WIDTH) / (now_s() - begin);
}

static void row_kernels(syn_workers *w) {
    const int64_t rows = 12 * 1024;
    struct rows r = {NULL,
                     0,
                     filled(rows * WIDTH),
                     filled(rows * WIDTH),
                     filled(rows * WIDTH),
                     filled(rows * WIDTH)};
    /* Means of squares must not be negative. */
    for (int64_t i = 0; i < rows * WIDTH; i++) r.v[i] += 3;
    printf("row kernels, %lld rows of %d, %d threads, 10^9 elements/s:\n", (long long)rows, WIDTH,
           syn_workers_count(w));
    for (int which = 0; which < KERNELS; which++) {
        double got[SYN_SIMD_COUNT][ROUNDS], share[ROUNDS];
        r.which = which;
        for (int round = 0; round < ROUNDS; round++) {
            for (syn_simd level = 0; level <= syn_simd_level(); level++) {
                r.k = syn__row_kernels_at(level);
                got[level][round] = rate(w, &r, level == SYN_SIMD_SCALAR ? 256 : rows);
            }
            r.k = NULL;
            share[round] = got[syn_simd_level()][round] / rate(w, &r, rows);
        }
        char text[120];
        int n = snprintf(text, sizeof text, "%-20s", names[which]);
        for (syn_simd level = 0; level <= syn_simd_level(); level++)
            n += snprintf(text + n, sizeof text - (size_t)n, " %s %.3g", syn_simd_name(level),
                          median(got[level], ROUNDS));
        line(text, median(share, ROUNDS), "of copying", limits[which], false);
    }
    free(r.x);
    free(r.y);
    free(r.z);
    free(r.v);
}

int main(void) {
    syn_workers *w = NULL;
    syn_error err = {0};
    if (syn_workers_new(&w, cli_cores(), &err) != SYN_OK) die(err.text);
    row_kernels(w);
    syn_workers_free(w);
    return missed ? 1 : 0;
}
