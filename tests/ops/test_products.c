/* Matrix products at every level against double precision: random shapes, both orientations, rows
   that lie apart, all dtypes, all numbers of threads. The bound is that of a sum of k products in
   any order, k eps sum |x w|, and of results too small for eps (Higham 2002, "Accuracy and
   Stability of
   Numerical Algorithms", 3.1). */
#include <stdint.h>

#include "ops/blas.h"
#include "ops/products_private.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

typedef struct problem {
    syn_product p;
    double *want, *bound; /* (m, n) */
    float *x, *bias, *out;
    void *w;
    size_t out_elems;
} problem;

static const float untouched = -12345.0f;

/* A number of about -2 to 2. */
static void random_weight(syn_dtype dtype, void *w, int64_t at) {
    if (dtype == SYN_F32) {
        ((float *)w)[at] = (float)ref_real(-2, 2);
        return;
    }
    const int fraction_bits = dtype == SYN_F16 ? 10 : 7, bias = dtype == SYN_F16 ? 15 : 127;
    const int64_t exponent = ref_int(0, 30) ? ref_int(bias - 4, bias) : 0; /* rarely subnormal */
    ((uint16_t *)w)[at] = (uint16_t)(ref_int(0, 1) << 15 | exponent << fraction_bits |
                                     ref_int(0, (1 << fraction_bits) - 1));
}

static double weight_at(const syn_product *p, int64_t k, int64_t j) {
    const int64_t at = p->transpose_w ? j * p->ldw + k : k * p->ldw + j;
    return p->w_dtype == SYN_F32 ? (double)((const float *)p->w)[at]
                                 : ref_half(((const uint16_t *)p->w)[at], p->w_dtype);
}

static double x_at(const syn_product *p, int64_t i, int64_t k) {
    return (double)p->x[p->transpose_x ? k * p->ldx + i : i * p->ldx + k];
}

static void *filled(size_t elems, size_t elem_bytes, int byte) {
    void *data = malloc(elems * elem_bytes + (elems == 0));
    memset(data, byte, elems * elem_bytes);
    return data;
}

/* Between and around the elements lie NaN (all bits set) in x, w and bias, and a number that must
   not change in out. Addresses are those of an element, no more. */
static problem make(int64_t m, int64_t n, int64_t k, syn_dtype dtype, bool tx, bool tw,
                    bool with_bias) {
    problem q = {.p = {.m = m, .n = n, .k = k, .w_dtype = dtype}};
    syn_product *p = &q.p;
    p->transpose_x = tx;
    p->transpose_w = tw;
    p->ldx = (tx ? m : k) + ref_int(0, 1) * ref_int(0, 5);
    p->ldw = (tw ? k : n) + ref_int(0, 1) * ref_int(0, 5);
    p->ldo = n + (n == 0) + ref_int(0, 1) * ref_int(0, 5);
    const size_t elem = syn_dtype_bytes(dtype), first = (size_t)ref_int(0, 5);
    q.x = filled((size_t)((tx ? k : m) * p->ldx) + first, sizeof *q.x, 255);
    q.w = filled((size_t)((tw ? n : k) * p->ldw) + first, elem, 255);
    q.bias = filled((size_t)n, sizeof *q.bias, 255);
    q.out_elems = (size_t)(m * p->ldo) + 2 * first + 8;
    q.out = malloc(q.out_elems * sizeof *q.out);
    p->x = q.x + first;
    p->w = (char *)q.w + first * elem;
    p->out = q.out + first;
    if (with_bias) p->bias = q.bias;
    for (int64_t i = 0; i < m; i++)
        for (int64_t c = 0; c < k; c++)
            q.x[first + (size_t)(tx ? c * p->ldx + i : i * p->ldx + c)] = (float)ref_real(-2, 2);
    for (int64_t c = 0; c < k; c++)
        for (int64_t j = 0; j < n; j++)
            random_weight(dtype, (char *)q.w + first * elem, tw ? j * p->ldw + c : c * p->ldw + j);
    for (int64_t j = 0; j < n; j++) q.bias[j] = (float)ref_real(-2, 2);
    q.want = malloc((size_t)(m * n) * sizeof *q.want + 1);
    q.bound = malloc((size_t)(m * n) * sizeof *q.bound + 1);
    return q;
}

static void solve(problem *q) {
    const syn_product *p = &q->p;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = p->bias ? (double)p->bias[j] : 0, size = fabs(sum);
            for (int64_t k = 0; k < p->k; k++) {
                const double product = x_at(p, i, k) * weight_at(p, k, j);
                sum += product;
                size += fabs(product);
            }
            q->want[i * p->n + j] = sum;
            q->bound[i * p->n + j] = (double)(p->k + 2) * (0x1p-24 * size + 0x1p-149);
        }
}

static void drop(problem *q) {
    free(q->want);
    free(q->bound);
    free(q->x);
    free(q->w);
    free(q->bias);
    free(q->out);
}

static void forget(problem *q) {
    for (size_t i = 0; i < q->out_elems; i++) q->out[i] = untouched;
}

static bool right(const problem *q, const char *how) {
    const syn_product *p = &q->p;
    const size_t first = (size_t)(p->out - q->out);
    for (size_t at = 0; at < q->out_elems; at++) {
        const int64_t i = ((int64_t)at - (int64_t)first) / p->ldo,
                      j = ((int64_t)at - (int64_t)first) % p->ldo;
        const bool inside = at >= first && p->n > 0 && i < p->m && j < p->n;
        const double got = (double)q->out[at],
                     want = inside ? q->want[i * p->n + j] : (double)untouched;
        if (fabs(got - want) <= (inside ? q->bound[i * p->n + j] : 0)) continue;
        fprintf(stderr,
                "%s: m %lld n %lld k %lld %s%s%s%s, element (%lld, %lld)%s: %.9g, want %.9g\n", how,
                (long long)p->m, (long long)p->n, (long long)p->k, syn_dtype_name(p->w_dtype),
                p->transpose_x ? " x'" : "", p->transpose_w ? " w'" : "", p->bias ? " bias" : "",
                (long long)i, (long long)j, inside ? "" : " outside", got, want);
        return false;
    }
    return true;
}

/* At every level, by its own kernels and as programs do. */
static bool right_at_all_levels(problem *q, syn_workers *workers) {
    char how[64];
    bool ok = true;
    solve(q);
    for (syn_simd level = SYN_SIMD_SCALAR; ok && level < SYN_SIMD_COUNT; level++) {
        if (!syn_simd_runs(level)) continue;
        const int threads = syn_workers_count(workers);
        forget(q);
        syn__product_own(&q->p, level, workers);
        snprintf(how, sizeof how, "%s kernels, %d threads", syn_simd_name(level), threads);
        ok = right(q, how);
        if (!ok) break;
        forget(q);
        syn__product_run_at(&q->p, level, workers);
        snprintf(how, sizeof how, "%s, %d threads", syn_simd_name(level), threads);
        ok = right(q, how);
    }
    return ok;
}

/* NULL for one. OpenBLAS then has one thread a call. */
static syn_workers *pool(int threads) {
    syn_workers *workers = NULL;
    syn_error err = {0};
    syn_blas_set_threads(1);
    if (threads > 1 && syn_workers_new(&workers, threads, &err) != SYN_OK) {
        fprintf(stderr, "no threads: %s\n", err.text);
        abort();
    }
    return workers;
}

static syn_dtype float_type(int64_t i) {
    static const syn_dtype types[3] = {SYN_F32, SYN_F16, SYN_BF16};
    return types[i % 3];
}

/* Every number of rows up to more than three tiles, with columns and steps that fill no vector. */
static void test_rows(void) {
    syn_workers *three = pool(3);
    for (int64_t m = 1; m <= 40; m++)
        for (int round = 0; round < 6; round++) {
            ref_seed((uint64_t)(m * 6 + round));
            problem q = make(m, ref_int(1, 150), ref_int(1, 90), float_type(round), false,
                             round >= 3, round % 2 == 0);
            const bool ok = right_at_all_levels(&q, m % 2 ? NULL : three);
            drop(&q);
            CHECK(ok);
        }
    syn_workers_free(three);
}

/* All sizes from 0 to a few, also of nothing. */
static void test_small(void) {
    syn_blas_set_threads(1);
    for (int round = 0; round < 3000; round++) {
        ref_seed((uint64_t)round);
        problem q = make(ref_int(0, 5), ref_int(0, 9), ref_int(0, 9), float_type(round),
                         ref_int(0, 3) == 0, ref_int(0, 1), ref_int(0, 1));
        const bool ok = right_at_all_levels(&q, NULL);
        drop(&q);
        CHECK(ok);
    }
}

/* Across the borders of blocks (256), pieces (1536), copies (49, 384) and OpenBLAS (1024). */
static void test_borders(void) {
    static const int64_t sizes[][3] = {
        {1, 300, 530},  {2, 513, 257}, {13, 290, 600}, {48, 66, 512},  {49, 257, 300},
        {50, 31, 1},    {5, 9, 3200},  {70, 40, 1700}, {383, 35, 270}, {384, 70, 257},
        {1024, 33, 40}, {1, 8300, 9},  {1, 9, 8300}};
    syn_workers *pools[3] = {NULL, pool(2), pool(3)};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int kind = 0; kind < 6; kind++) {
            ref_seed((uint64_t)kind + 10 * i);
            problem q = make(sizes[i][0], sizes[i][1], sizes[i][2], float_type(kind), false,
                             kind >= 3, kind % 2);
            const bool ok = right_at_all_levels(&q, pools[(kind + (int)i) % 3]);
            drop(&q);
            CHECK(ok);
        }
    for (int kind = 0; kind < 6; kind++) { /* both turned, as gradients are */
        ref_seed((uint64_t)kind);
        problem q = make(ref_int(1, 300), ref_int(280, 300), ref_int(280, 300), float_type(kind),
                         true, kind >= 3, false);
        const bool ok = right_at_all_levels(&q, pools[kind % 3]);
        drop(&q);
        CHECK(ok);
    }
    for (int i = 1; i < 3; i++) syn_workers_free(pools[i]);
}

/* The same bits in every run with as many threads. */
static void test_repeatable(void) {
    static const int64_t rows[] = {1, 7, 40, 100, 300};
    for (int threads = 1; threads <= 3; threads++) {
        syn_workers *workers = pool(threads);
        bool same = true;
        for (int i = 0; i < 15; i++) {
            ref_seed((uint64_t)i);
            problem q = make(rows[i / 3], 700, 300, float_type(i), false, i % 2, true);
            float *first = malloc(q.out_elems * sizeof *first);
            for (int run = 0; run < 6; run++) {
                forget(&q);
                syn_product_run(&q.p, workers);
                if (run == 0) memcpy(first, q.out, q.out_elems * sizeof *first);
                same = same && memcmp(first, q.out, q.out_elems * sizeof *first) == 0;
            }
            free(first);
            drop(&q);
        }
        syn_workers_free(workers);
        CHECK(same);
    }
}

/* Without workers, OpenBLAS's own threads. */
static void test_threads_of_blas(void) {
#ifdef __SANITIZE_THREAD__
    SKIP("the sanitizer does not see how OpenBLAS's threads wait for each other");
#endif
    syn_blas_set_threads(2);
    for (int kind = 0; kind < 12; kind++) {
        ref_seed((uint64_t)kind);
        problem q = make(kind % 4 ? 70 : 1, 300, 200, kind < 8 ? SYN_F32 : SYN_BF16,
                         kind / 2 % 4 == 1, kind % 2, kind % 3 == 0);
        solve(&q);
        forget(&q);
        syn_product_run(&q.p, NULL);
        const bool ok = right(&q, "OpenBLAS's threads");
        drop(&q);
        CHECK(ok);
    }
    syn_blas_set_threads(1);
}

/* What is not finite spreads along its row of x or column of w and no further. */
static void test_not_finite(void) {
    for (syn_simd level = SYN_SIMD_SCALAR; level < SYN_SIMD_COUNT; level++)
        for (int round = 0; round < 120 && syn_simd_runs(level); round++) {
            ref_seed((uint64_t)round);
            const int64_t m = ref_int(1, round % 2 ? 3 : 60), n = ref_int(1, 80), k = 40;
            problem q = make(m, n, k, float_type(round), false, round / 3 % 2, round % 2);
            const int64_t i = ref_int(0, m - 1), j = ref_int(0, n - 1), c = ref_int(0, k - 1);
            const int64_t at = q.p.transpose_w ? j * q.p.ldw + c : c * q.p.ldw + j;
            q.x[q.p.x - q.x + i * q.p.ldx + c] = NAN;
            const uint16_t infinity = q.p.w_dtype == SYN_F16 ? 0x7c00 : 0x7f80;
            char *w = (char *)q.w + ((const char *)q.p.w - (const char *)q.w);
            if (q.p.w_dtype == SYN_F32) ((float *)(void *)w)[at] = INFINITY;
            else ((uint16_t *)(void *)w)[at] = infinity;
            syn__product_own(&q.p, level, NULL);
            bool ok = true;
            for (int64_t r = 0; r < m; r++)
                for (int64_t s = 0; s < n; s++) {
                    const float got = q.p.out[r * q.p.ldo + s];
                    ok = ok && (r == i ? isnan(got) != 0 : s == j ? isinf(got) : isfinite(got));
                }
            drop(&q);
            CHECK(ok);
        }
}

/* Every element belongs to one part, and the largest part is not far above the average. */
static void test_parts(void) {
    for (int round = 0; round < 2000; round++) {
        ref_seed((uint64_t)round);
        const int64_t m = ref_int(0, 300), n = ref_int(0, 900), parts = ref_int(1, 20);
        float out[1], *base = out;
        const char w[1] = {0};
        const syn_product p = {.m = m,
                               .n = n,
                               .k = 5,
                               .x = base,
                               .ldx = 5,
                               .w = w,
                               .ldw = n,
                               .w_dtype = SYN_F16,
                               .out = base,
                               .ldo = n};
        int64_t elems = 0, largest = 0, at_w = 0;
        for (int64_t i = 0; i < parts; i++) {
            const syn_product part = syn_product_part(&p, i, parts);
            CHECK(part.m >= 0 && part.n >= 0);
            const int64_t at = (int64_t)(((intptr_t)part.out - (intptr_t)base) / 4);
            const int64_t row = n ? at / n : 0, column = n ? at % n : 0;
            if (part.m * part.n == 0) continue;
            CHECK(row + part.m <= m && column + part.n <= n);
            CHECK_INT((intptr_t)part.x - (intptr_t)base, 4 * 5 * row);
            at_w = (int64_t)((intptr_t)part.w - (intptr_t)w);
            CHECK_INT(at_w, 2 * column);
            elems += part.m * part.n;
            if (part.m * part.n > largest) largest = part.m * part.n;
        }
        CHECK_INT(elems, m * n);
        if (m >= 100 && n >= 300) CHECK(largest * parts <= 5 * m * n);
    }
}

static const test_case cases[] = {
    {"rows", test_rows},
    {"small", test_small},
    {"borders", test_borders},
    {"repeatable", test_repeatable},
    {"not finite", test_not_finite},
    {"parts", test_parts},
    {"threads of OpenBLAS", test_threads_of_blas},
};
TEST_MAIN(cases)
