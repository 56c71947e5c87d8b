/* ./dev bench rows: the row kernels beside copying as many bytes. Figures of one line are taken in
   turn; exit 1 when one misses its limit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/rows.h"
#include "tests/support/bench.h"
#include "tools/cli.h"

enum { WIDTH = 1024, ROUNDS = 9 };

static float *filled(int64_t n) {
    float *x = aligned_alloc(64, ((size_t)n * sizeof *x + 63) / 64 * 64);
    if (!x) die("out of memory");
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((uint64_t)i * 2654435761u >> 7 & 2047) / 512.0f - 2.0f;
    return x;
}

/* ---- Rows ---- */

struct rows {
    const syn_row_kernels *k; /* NULL: copy */
    int which;
    float *x, *y, *z;
};

static const char *const names[] = {
    "gelu, tanh form", "gelu, erf form", "tanh",     "softmax", "add", "mul",
    "scale",           "mask",           "layernorm"};
enum { KERNELS = (int)(sizeof names / sizeof *names) };
/* Of the rate of copying; add and mul read twice as much. */
static const double limits[KERNELS] = {0.6, 0.4, 0.6, 0.6, 0.5, 0.5, 0.8, 0.8, 0.6};

static void row(const struct rows *r, int64_t at) {
    const syn_row_kernels *k = r->k;
    const float *x = r->x + at;
    float *y = r->y + at;
    const syn_unary_row unary[] = {k->gelu_tanh, k->gelu_erf, k->tanh, k->softmax};
    if (r->which < 4) unary[r->which](x, y, WIDTH);
    else if (r->which == 4) k->add(x, r->z + at, y, WIDTH);
    else if (r->which == 5) k->mul(x, r->z + at, y, WIDTH);
    else if (r->which == 6) k->scale(x, 0.5f, y, WIDTH);
    else if (r->which == 7) k->scale_mask(x, NULL, 0.5f, WIDTH / 2, y, WIDTH);
    else k->layernorm(x, r->z, r->z, 1e-5, y, WIDTH);
}

static void some_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const struct rows *r = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        if (r->k) row(r, i * WIDTH);
        else memcpy(r->y + i * WIDTH, r->x + i * WIDTH, WIDTH * sizeof(float));
}

/* Elements a second, 10^9. */
static double rate(syn_workers *w, struct rows *r, int64_t rows) {
    const double begin = now_s();
    syn_workers_ranges(w, rows, 1, some_rows, r);
    return 1e-9 * (double)(rows * WIDTH) / (now_s() - begin);
}

static void row_kernels(syn_workers *w) {
    const int64_t rows = 12 * 1024;
    struct rows r = {NULL, 0, filled(rows * WIDTH), filled(rows * WIDTH), filled(rows * WIDTH)};
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
        char text[100];
        int n = snprintf(text, sizeof text, "%-16s", names[which]);
        for (syn_simd level = 0; level <= syn_simd_level(); level++)
            n += snprintf(text + n, sizeof text - (size_t)n, " %s %.3g", syn_simd_name(level),
                          median(got[level], ROUNDS));
        line(text, median(share, ROUNDS), "of copying", limits[which], false);
    }
    free(r.x);
    free(r.y);
    free(r.z);
}

int main(void) {
    syn_workers *w = NULL;
    syn_error err = {0};
    if (syn_workers_new(&w, cli_cores(), &err) != SYN_OK) die(err.text);
    row_kernels(w);
    syn_workers_free(w);
    return missed ? 1 : 0;
}
