/* Compares matrix products at every SIMD level with double precision: random shapes, both
   orientations, strided rows, all dtypes and numbers of threads. The error bound for a sum of k
   products in any order is k eps sum |x w| (Higham 2002, "Accuracy and Stability of Numerical
   Algorithms", 3.1), plus a bound for results so small that eps does not apply. */
#include <stdint.h>

#include "ops/blas.h"
#include "ops/products_private.h"
#include "syntorch/base/half.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

/* The dtypes and the orientation of a product. */
typedef struct kind {
    syn_dtype x, w, out;
    bool transpose_x, transpose_w, bias, add;
} kind;

typedef struct problem {
    syn_product p;
    double *want, *bound; /* expected result and error bound, both (m, n) */
    unsigned char *x, *w, *bias, *out, *begin;
    /* Number of bytes of `out` and of `begin`, which has the initial contents of `out`. */
    size_t out_bytes;
    size_t first; /* number of bytes before p.out */
} problem;

/* Stores a random number with a magnitude of at most 2. */
static void random_number(syn_dtype dtype, void *to, int64_t at) {
    if (dtype == SYN_F32) {
        ((float *)to)[at] = (float)ref_real(-2, 2);
        return;
    }
    const int fraction_bits = dtype == SYN_F16 ? 10 : 7, bias = dtype == SYN_F16 ? 15 : 127;
    /* A few numbers are subnormal. */
    const int64_t exponent = ref_int(0, 30) ? ref_int(bias - 4, bias) : 0;
    ((uint16_t *)to)[at] = (uint16_t)(ref_int(0, 1) << 15 | exponent << fraction_bits |
                                      ref_int(0, (1 << fraction_bits) - 1));
}

static double number_at(syn_dtype dtype, const void *from, int64_t at) {
    return dtype == SYN_F32 ? (double)((const float *)from)[at]
                            : ref_half(((const uint16_t *)from)[at], dtype);
}

static double x_at(const syn_product *p, int64_t i, int64_t k) {
    return number_at(p->x_dtype, p->x, p->transpose_x ? k * p->ldx + i : i * p->ldx + k);
}

static double w_at(const syn_product *p, int64_t k, int64_t j) {
    return number_at(p->w_dtype, p->w, p->transpose_w ? j * p->ldw + k : k * p->ldw + j);
}

static void *filled(size_t bytes, int byte) {
    void *data = malloc(bytes + (bytes == 0));
    memset(data, byte, bytes);
    return data;
}

/* A random matrix that begins `before` elements into the buffer, with rows `ld` elements apart.
   Elements between and around the rows are NaN (all bits set). */
static void *random_matrix(unsigned char **buffer, syn_dtype dtype, int64_t rows, int64_t columns,
                           int64_t ld, size_t before) {
    const size_t elem = syn_dtype_bytes(dtype);
    *buffer = filled(((size_t)(rows * ld) + before) * elem, 255);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            random_number(dtype, *buffer + before * elem, i * ld + j);
    return *buffer + before * elem;
}

/* Addresses are aligned only to an element. The bytes around the output must not change. */
static problem make(int64_t m, int64_t n, int64_t k, kind of) {
    const bool tx = of.transpose_x, tw = of.transpose_w;
    problem q = {.p = {.m = m, .n = n, .k = k, .transpose_x = tx, .transpose_w = tw}};
    syn_product *p = &q.p;
    p->x_dtype = of.x;
    p->w_dtype = of.w;
    p->out_dtype = of.out;
    p->add = of.add;
    p->ldx = (tx ? m : k) + ref_int(0, 1) * ref_int(0, 5);
    p->ldw = (tw ? k : n) + ref_int(0, 1) * ref_int(0, 5);
    p->ldo = n + (n == 0) + ref_int(0, 1) * ref_int(0, 5);
    const size_t before = (size_t)ref_int(0, 5), elem = syn_dtype_bytes(of.out);
    p->x = random_matrix(&q.x, of.x, tx ? k : m, tx ? m : k, p->ldx, before);
    p->w = random_matrix(&q.w, of.w, tw ? n : k, tw ? k : n, p->ldw, before);
    p->bias = random_matrix(&q.bias, of.x, 1, n, n, 0);
    if (!of.bias || of.add) p->bias = NULL;
    q.first = before * elem;
    q.out_bytes = ((size_t)(m * p->ldo) + 2 * before + 8) * elem;
    q.begin = filled(q.out_bytes, 0xa5);
    q.out = filled(q.out_bytes, 0);
    p->out = q.out + q.first;
    for (int64_t i = 0; i < m && of.add; i++)
        for (int64_t j = 0; j < n; j++) random_number(of.out, q.begin + q.first, i * p->ldo + j);
    q.want = malloc((size_t)(m * n) * sizeof *q.want + 1);
    q.bound = malloc((size_t)(m * n) * sizeof *q.bound + 1);
    return q;
}

/* The largest error of rounding x to dtype. */
static double rounding(syn_dtype dtype, double x) {
    if (dtype == SYN_F32) return 0;
    return fmax(fabs(x) * (dtype == SYN_F16 ? 0x1p-11 : 0x1p-8),
                dtype == SYN_F16 ? 0x1p-25 : 0x1p-134);
}

/* The smallest magnitude that counts. bf16 instructions flush numbers below 2^-126 to zero. */
static double smallest(const syn_product *p) {
    return p->x_dtype == SYN_BF16 ? 0x1p-124 : 0x1p-149;
}

static void solve(problem *q) {
    const syn_product *p = &q->p;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = p->bias ? number_at(p->x_dtype, p->bias, j) : 0;
            if (p->add) sum = number_at(p->out_dtype, q->begin + q->first, i * p->ldo + j);
            double size = fabs(sum);
            for (int64_t k = 0; k < p->k; k++) {
                const double product = x_at(p, i, k) * w_at(p, k, j);
                sum += product;
                size += fabs(product);
            }
            const double error = (double)(p->k + 2) * (0x1p-24 * size + smallest(p));
            q->want[i * p->n + j] = sum;
            q->bound[i * p->n + j] = error + rounding(p->out_dtype, fabs(sum) + error);
        }
}

static void drop(problem *q) {
    free(q->want);
    free(q->bound);
    free(q->x);
    free(q->w);
    free(q->bias);
    free(q->out);
    free(q->begin);
}

static void begin(problem *q) {
    memcpy(q->out, q->begin, q->out_bytes);
}

static bool inside(const problem *q, size_t byte) {
    const syn_product *p = &q->p;
    const size_t elem = syn_dtype_bytes(p->out_dtype);
    if (byte < q->first || p->n == 0) return false;
    const int64_t at = (int64_t)((byte - q->first) / elem);
    return at / p->ldo < p->m && at % p->ldo < p->n;
}

static void name(const problem *q, const char *how) {
    const syn_product *p = &q->p;
    fprintf(stderr, "%s: m %lld n %lld k %lld %s%s times %s%s to %s%s%s: ", how, (long long)p->m,
            (long long)p->n, (long long)p->k, syn_dtype_name(p->x_dtype), p->transpose_x ? "'" : "",
            syn_dtype_name(p->w_dtype), p->transpose_w ? "'" : "", syn_dtype_name(p->out_dtype),
            p->bias ? " bias" : "", p->add ? " add" : "");
}

static bool right(const problem *q, const char *how) {
    const syn_product *p = &q->p;
    for (size_t at = 0; at < q->out_bytes; at++) {
        if (inside(q, at) || q->out[at] == q->begin[at]) continue;
        name(q, how);
        fprintf(stderr, "byte %zu, outside, was written\n", at);
        return false;
    }
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            const double got = number_at(p->out_dtype, p->out, i * p->ldo + j);
            const double want = q->want[i * p->n + j];
            if (fabs(got - want) <= q->bound[i * p->n + j]) continue;
            name(q, how);
            fprintf(stderr, "element (%lld, %lld): %.9g, want %.9g\n", (long long)i, (long long)j,
                    got, want);
            return false;
        }
    return true;
}

/* Checks the product at every SIMD level, both with the level's own kernels and as dispatched. */
static bool right_at_all_levels(problem *q, syn_workers *workers) {
    char how[64];
    bool ok = true;
    solve(q);
    for (syn_simd level = SYN_SIMD_SCALAR; ok && level < SYN_SIMD_COUNT; level++) {
        if (!syn_simd_supported(level)) continue;
        const int threads = syn_workers_count(workers);
        begin(q);
        syn__product_run_own_kernels(&q->p, level, workers);
        snprintf(how, sizeof how, "%s kernels, %d threads", syn_simd_name(level), threads);
        ok = right(q, how);
        if (!ok) break;
        begin(q);
        syn__product_run_at(&q->p, level, workers);
        snprintf(how, sizeof how, "%s, %d threads", syn_simd_name(level), threads);
        ok = right(q, how);
    }
    return ok;
}

/* A pool of threads; NULL for one thread. With a pool, OpenBLAS uses one thread per call. */
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

/* The numbers below KINDS enumerate all types and orientations: f32 x with any w, and 16-bit x with
   w of the same dtype and either output dtype. */
enum { KINDS = 28 };
static kind kind_of(int64_t number) {
    static const syn_dtype of[7][3] = {
        {SYN_F32, SYN_F32, SYN_F32}, {SYN_F32, SYN_F16, SYN_F32},   {SYN_F32, SYN_BF16, SYN_F32},
        {SYN_F16, SYN_F16, SYN_F16}, {SYN_BF16, SYN_BF16, SYN_F32}, {SYN_BF16, SYN_BF16, SYN_BF16},
        {SYN_F16, SYN_F16, SYN_F32}};
    const syn_dtype *d = of[number % 7];
    kind k = {
        .x = d[0], .w = d[1], .out = d[2], .transpose_w = number / 7 % 2, .bias = ref_int(0, 1)};
    k.transpose_x = number / 14 % 2;
    k.add = k.out == SYN_F32 && ref_int(0, 2) == 0;
    return k;
}

static bool try_one(int64_t m, int64_t n, int64_t k, int64_t number, syn_workers *workers) {
    problem q = make(m, n, k, kind_of(number));
    const bool ok = right_at_all_levels(&q, workers);
    drop(&q);
    return ok;
}

/* All numbers of rows up to more than three tiles. Columns and lengths do not fill whole
   vectors. */
static void test_rows(void) {
    syn_workers *three = pool(3);
    for (int64_t m = 1; m <= 40; m++)
        for (int number = 0; number < KINDS; number++) {
            ref_seed((uint64_t)(m * KINDS + number));
            const int64_t n = ref_int(1, 90), k = ref_int(1, 60);
            CHECK(try_one(m, n, k, number, m % 2 ? NULL : three));
        }
    syn_workers_free(three);
}

/* All sizes from 0 to a small number. */
static void test_small(void) {
    syn_blas_set_threads(1);
    for (int round = 0; round < TEST_ROUNDS(4000); round++) {
        ref_seed((uint64_t)round);
        const int64_t m = ref_int(0, 5), n = ref_int(0, 9), k = ref_int(0, 9);
        CHECK(try_one(m, n, k, round, NULL));
    }
}

/* Sizes near the limits of blocks (256, 512, 768 and, for pairs, 1024), pieces (1536, or 6144 for
   one row), copies (49, 384), the block that is widened in one piece (262144), and OpenBLAS
   (1024). */
static void test_borders(void) {
    static const int64_t sizes[][3] = {
        {1, 300, 530},   {2, 513, 257},  {13, 290, 600}, {48, 66, 512},   {49, 257, 300},
        {50, 31, 1},     {5, 9, 3200},   {70, 40, 1700}, {383, 35, 270},  {384, 70, 257},
        {1024, 33, 40},  {1, 8300, 9},   {1, 9, 8300},   {290, 285, 299}, {345, 33, 1100},
        {20, 800, 1030}, {1, 11, 1600},  {1, 6, 6401},   {1, 7, 3000},    {1, 131100, 3},
        {2, 90001, 2},   {1, 131073, 2}, {3, 66000, 4}};
    const int few = TEST_REDUCED ? 15 : 8;
    syn_workers *pools[3] = {NULL, pool(2), pool(3)};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int number = (int)i % few; number < KINDS; number += few) {
            ref_seed((uint64_t)number + 100 * i);
            CHECK(try_one(sizes[i][0], sizes[i][1], sizes[i][2], number,
                          pools[(number + (int)i) % 3]));
        }
    for (int i = 1; i < 3; i++) syn_workers_free(pools[i]);
}

/* All runs with the same number of threads must give the same bits. */
static void test_repeatable(void) {
    static const int64_t rows[] = {1, 7, 40, 100, 300};
    const int step = TEST_REDUCED ? 7 : 3;
    for (int threads = 1; threads <= 3; threads++) {
        syn_workers *workers = pool(threads);
        bool same = true;
        for (int i = 0; i < 5 * KINDS / 2; i += step) {
            ref_seed((uint64_t)i);
            problem q = make(rows[i % 5], 700, 300, kind_of(i));
            unsigned char *first = malloc(q.out_bytes);
            for (int run = 0; run < 4; run++) {
                begin(&q);
                syn_product_run(&q.p, workers);
                if (run == 0) memcpy(first, q.out, q.out_bytes);
                same = same && memcmp(first, q.out, q.out_bytes) == 0;
            }
            free(first);
            drop(&q);
        }
        syn_workers_free(workers);
        CHECK(same);
    }
}

/* Without a pool, OpenBLAS uses its own threads. */
static void test_threads_of_blas(void) {
#ifdef __SANITIZE_THREAD__
    SKIP("the sanitizer does not see how OpenBLAS's threads wait for each other");
#endif
    syn_blas_set_threads(2);
    for (int i = 0; i < 12; i++) {
        ref_seed((uint64_t)i);
        const kind of = {.w = i < 8 ? SYN_F32 : SYN_BF16,
                         .transpose_x = i / 2 % 4 == 1,
                         .transpose_w = i % 2,
                         .bias = i % 3 == 0};
        problem q = make(i % 4 ? 70 : 1, 300, 200, of);
        solve(&q);
        begin(&q);
        syn_product_run(&q.p, NULL);
        const bool ok = right(&q, "OpenBLAS's threads");
        drop(&q);
        CHECK(ok);
    }
    syn_blas_set_threads(1);
}

static void set(void *matrix, syn_dtype dtype, int64_t at, float value) {
    if (dtype == SYN_F32) ((float *)matrix)[at] = value;
    else ((uint16_t *)matrix)[at] = dtype == SYN_F16 ? 0x7c00 : 0x7f80; /* infinity */
    if (dtype != SYN_F32 && isnan(value)) ((uint16_t *)matrix)[at] |= 0x40;
}

static float result_at(const syn_product *p, int64_t i, int64_t j) {
    float wide;
    const int64_t at = i * p->ldo + j;
    if (p->out_dtype == SYN_F32) return ((const float *)p->out)[at];
    syn_half_widen((const uint16_t *)p->out + at, &wide, 1, p->out_dtype);
    return wide;
}

/* A NaN or infinity affects only its own row of x or its own column of w. */
static void test_not_finite(void) {
    for (syn_simd level = SYN_SIMD_SCALAR; level < SYN_SIMD_COUNT; level++)
        for (int round = 0; round < 280 && syn_simd_supported(level); round++) {
            ref_seed((uint64_t)round);
            const int64_t m = ref_int(1, round % 2 ? 3 : 60), n = ref_int(1, 80), k = 40;
            problem q = make(m, n, k, kind_of(round / 2));
            const syn_product *p = &q.p;
            const int64_t i = ref_int(0, m - 1), j = ref_int(0, n - 1), c = ref_int(0, k - 1);
            set(q.x + (size_t)((const unsigned char *)p->x - q.x), p->x_dtype,
                p->transpose_x ? c * p->ldx + i : i * p->ldx + c, NAN);
            set(q.w + (size_t)((const unsigned char *)p->w - q.w), p->w_dtype,
                p->transpose_w ? j * p->ldw + c : c * p->ldw + j, INFINITY);
            begin(&q);
            syn__product_run_own_kernels(p, level, NULL);
            bool ok = true;
            for (int64_t r = 0; r < m; r++)
                for (int64_t s = 0; s < n; s++) {
                    const float got = result_at(p, r, s);
                    ok = ok && (r == i ? isnan(got) != 0 : s == j ? !isfinite(got) : isfinite(got));
                }
            drop(&q);
            CHECK(ok);
        }
}

/* Each element belongs to exactly one part, and the largest part is only slightly larger than the
   average. */
static void test_parts(void) {
    for (int round = 0; round < 2000; round++) {
        ref_seed((uint64_t)round);
        const int64_t m = ref_int(0, 300), n = ref_int(0, 900), parts = ref_int(1, 20);
        const char x[1] = {0}, w[1] = {0};
        char out[1];
        const syn_product p = {.m = m,
                               .n = n,
                               .k = 5,
                               .x = x,
                               .ldx = 5,
                               .w = w,
                               .ldw = n,
                               .w_dtype = SYN_F16,
                               .out = out,
                               .ldo = n};
        int64_t elems = 0, largest = 0, at_w = 0;
        for (int64_t i = 0; i < parts; i++) {
            const syn_product part = syn_product_part(&p, i, parts);
            CHECK(part.m >= 0 && part.n >= 0);
            const int64_t at = (int64_t)(((intptr_t)part.out - (intptr_t)out) / 4);
            const int64_t row = n ? at / n : 0, column = n ? at % n : 0;
            if (part.m * part.n == 0) continue;
            CHECK(row + part.m <= m && column + part.n <= n);
            CHECK_INT((intptr_t)part.x - (intptr_t)x, 4 * 5 * row);
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
