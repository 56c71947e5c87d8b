/* The row kernels of every level that runs here against double precision and against each other. */
#include <float.h>

#include "ops/rows.h"
#include "tests/support/guarded.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

static const double root_half = 0.70710678118654752440, root_2_over_pi = 0.79788456080286535588;

/* Distance in units of the float spacing at `want`. */
static double ulps(float got, double want) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : (double)INFINITY;
    if (fabs(want) > (double)FLT_MAX * (1 + 0x1p-25)) want = want > 0 ? HUGE_VAL : -HUGE_VAL;
    if (isinf(want) || isinf(got)) return (double)got == want ? 0 : (double)INFINITY;
    int exponent;
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, exponent - 24 > -149 ? exponent - 24 : -149);
}

static float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double gelu_tanh(double x) {
    return x / (1 + exp(-2 * root_2_over_pi * (x + 0.044715 * x * x * x)));
}

static double gelu_erf(double x) {
    return x * 0.5 * erfc(-x * root_half);
}

/* What is allowed at x, in ulps. The exponent of gelu's tanh form is rounded before the exponential
   is taken. */
static double tanh_bound(double x) {
    return x < -1 ? 3 + 4 * root_2_over_pi * (-x + 0.044715 * -x * x * x) : 4;
}
static double erf_bound(double x) {
    return x < -12 ? 16 : 6; /* far out the factor of x is below the normal range */
}
static double three(double x) {
    (void)x;
    return 3;
}

static const struct curve {
    const char *name;
    size_t kernel; /* offset in syn_row_kernels */
    double (*exact)(double x);
    double (*bound)(double x);
} curves[] = {{"tanh", offsetof(syn_row_kernels, tanh), tanh, three},
              {"gelu_tanh", offsetof(syn_row_kernels, gelu_tanh), gelu_tanh, tanh_bound},
              {"gelu_erf", offsetof(syn_row_kernels, gelu_erf), gelu_erf, erf_bound}};
enum { CURVES = (int)(sizeof curves / sizeof *curves) };

static syn_unary_row kernel_of(const syn_row_kernels *k, const struct curve *c) {
    syn_unary_row f;
    memcpy(&f, (const char *)k + c->kernel, sizeof f);
    return f;
}

/* All exponents and signs. The scalar formulas of gelu lose digits where tanh and erf are near -1:
   those are held to an absolute error. */
static void test_curves(void) {
    enum { N = 4096, STEP = 4099 };
    static float x[N], y[N];
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++) {
        if (!syn_simd_runs(level)) continue;
        for (int c = 0; c < CURVES; c++) {
            double worst = 0, at = 0;
            const bool absolute = level == SYN_SIMD_SCALAR && c > 0;
            for (uint64_t first = 0; first < 0x100000000u; first += (uint64_t)N * STEP) {
                for (uint32_t i = 0; i < N; i++) x[i] = from_bits((uint32_t)(first + i * STEP));
                kernel_of(syn__row_kernels_at(level), &curves[c])(x, y, N);
                for (int i = 0; i < N; i++) {
                    if (isinf(x[i]) && c > 0) continue; /* a test of its own */
                    const double want = curves[c].exact((double)x[i]);
                    const double off =
                        absolute ? fabs((double)y[i] - want) / (3e-7 * fabs((double)x[i]) + 1e-44)
                                 : ulps(y[i], want) / curves[c].bound((double)x[i]);
                    if (y[i] == 0 && fabs(want) < 4 * (double)FLT_MIN) continue;
                    if (isnan(x[i]) ? !isnan(y[i]) : !(off <= worst))
                        worst = off, at = (double)x[i];
                }
            }
            CHECK_MSG(worst <= 1, "%s, %s: %g times its bound at %.9g", syn_simd_name(level),
                      curves[c].name, worst, at);
        }
    }
}

/* Where anything but a number goes in or comes out, all levels agree with the scalar formulas. */
static void test_specials(void) {
    static const float specials[] = {INFINITY, -INFINITY, NAN,   0.0f,     -0.0f,  1e-45f, -1e-45f,
                                     1e-38f,   -1e-38f,   3e38f, -FLT_MAX, 1e20f,  -1e20f, 30.0f,
                                     -30.0f,   9.5f,      88.8f, -88.8f,   -104.0f};
    enum { N = (int)(sizeof specials / sizeof *specials) };
    float want[N], got[N];
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (int c = 0; c < CURVES && syn_simd_runs(level); c++) {
            kernel_of(&syn__rows_scalar, &curves[c])(specials, want, N);
            kernel_of(syn__row_kernels_at(level), &curves[c])(specials, got, N);
            for (int i = 0; i < N; i++) {
                const bool same = isnan(want[i]) ? isnan(got[i])
                                  : isinf(want[i])
                                      ? got[i] == want[i]
                                      : fabsf(got[i] - want[i]) <= 1e-6f * fabsf(want[i]) + 1e-7f;
                CHECK_MSG(
                    same && (isnan(want[i]) || want[i] != 0 || signbit(got[i]) == signbit(want[i])),
                    "%s, %s of %g: %g, not %g", syn_simd_name(level), curves[c].name,
                    (double)specials[i], (double)got[i], (double)want[i]);
            }
        }
}

/* ---- Whole rows ---- */

/* A row of kernel `which` for numbers in x (n), a (n), b (n); its results in y. */
enum { KERNELS = (int)(sizeof(syn_row_kernels) / sizeof(void (*)(void))) };
static void every_kernel(const syn_row_kernels *k, int which, const float *x, const float *a,
                         const float *b, float *y, int64_t n) {
    switch (which) {
    case 0:
        k->gelu_tanh(x, y, n);
        break;
    case 1:
        k->gelu_erf(x, y, n);
        break;
    case 2:
        k->tanh(x, y, n);
        break;
    case 3:
        k->softmax(x, y, n);
        break;
    case 4:
        k->add(x, a, y, n);
        break;
    case 5:
        k->mul(x, a, y, n);
        break;
    case 6:
        k->scale(x, 0.7f, y, n);
        break;
    case 7:
        k->scale_mask(x, n % 3 ? a : NULL, 0.7f, n - n / 4, y, n);
        break;
    case 8:
        k->layernorm(x, a, b, 1e-5, y, n);
        break;
    default:
        fprintf(stderr, "kernel %d of ops/rows.h has no case in every_kernel\n", which);
        exit(1);
    }
}

/* Every length, at both ends of memory that ends there, in place and not, against
   the scalar kernels. */
static void test_lengths(void) {
    guarded in[3], out = guarded_new(4096);
    float want[200];
    for (int i = 0; i < 3; i++) in[i] = guarded_new(4096);
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++) {
        if (!syn_simd_runs(level)) continue;
        for (int round = 0; round < KERNELS * 200 * 4; round++) {
            const int which = round % KERNELS;
            const int64_t n = round / KERNELS % 200 + 1;
            const bool at_end = round / KERNELS / 200 % 2, in_place = round / KERNELS / 400;
            float *x[3], *y;
            for (int i = 0; i < 3; i++) {
                x[i] = guarded_floats(&in[i], n, at_end);
                for (int64_t j = 0; j < n; j++) x[i][j] = (float)ref_real(-4, 4);
            }
            y = in_place ? x[0] : guarded_floats(&out, n, at_end);
            every_kernel(&syn__rows_scalar, which, x[0], x[1], x[2], want, n);
            every_kernel(syn__row_kernels_at(level), which, x[0], x[1], x[2], y, n);
            for (int64_t j = 0; j < n; j++)
                CHECK_MSG(y[j] == want[j] ||
                              fabsf(y[j] - want[j]) <=
                                  2e-6f * (fabsf(want[j]) + (which < 2 || which > 6)),
                          "%s, kernel %d, %d of %d: %.9g, not %.9g", syn_simd_name(level), which,
                          (int)j, (int)n, (double)y[j], (double)want[j]);
            CHECK(guarded_untouched(in_place ? &in[0] : &out, y, n));
        }
    }
    for (int i = 0; i < 3; i++) guarded_free(&in[i]);
    guarded_free(&out);
}

/* An element's bits do not depend on where it lies, so that a row may be cut anywhere. */
static void test_cuts(void) {
    enum { N = 100 };
    float x[N], a[N], whole[N], cut[N];
    for (int i = 0; i < N; i++) x[i] = (float)ref_real(-6, 6), a[i] = (float)ref_real(-6, 6);
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (int which = 0; which < 7 && syn_simd_runs(level); which++) {
            if (which == 3) continue; /* softmax is of the whole row */
            every_kernel(syn__row_kernels_at(level), which, x, a, a, whole, N);
            for (int at = 1; at < N; at++) {
                every_kernel(syn__row_kernels_at(level), which, x, a, a, cut, at);
                every_kernel(syn__row_kernels_at(level), which, x + at, a + at, a + at, cut + at,
                             N - at);
                CHECK_MSG(memcmp(cut, whole, sizeof cut) == 0, "%s, kernel %d, cut at %d",
                          syn_simd_name(level), which, at);
            }
        }
}

/* Against the definition, over rows of all widths of numbers. The difference from the largest is
   rounded before the exponential; the sum's error grows with the terms in a lane. */
static void test_softmax(void) {
    static float x[5000], y[5000];
    for (syn_simd level = SYN_SIMD_AVX2; level < SYN_SIMD_COUNT; level++)
        for (int round = 0; round < 300 && syn_simd_runs(level); round++) {
            const int64_t n = round < 200 ? round + 1 : ref_int(200, 5000);
            const double width = pow(10, ref_real(-2, 2.5));
            double max = -(double)INFINITY, sum = 0;
            for (int64_t i = 0; i < n; i++) {
                x[i] = ref_int(0, 9) ? (float)ref_real(-width, width) : -INFINITY;
                max = fmax(max, (double)x[i]);
            }
            syn__row_kernels_at(level)->softmax(x, y, n);
            for (int64_t i = 0; i < n; i++) sum += exp((double)x[i] - max);
            for (int64_t i = 0; i < n && max > -(double)INFINITY; i++) {
                const double want = exp((double)x[i] - max) / sum;
                const double off = ulps(y[i], want) / (5 + max - (double)x[i] + (double)n / 100);
                CHECK_MSG(off <= 1 && (x[i] > -INFINITY || y[i] == 0),
                          "%s, %d of %d: %.9g, not %.9g", syn_simd_name(level), (int)i, (int)n,
                          (double)y[i], want);
            }
        }
}

static void test_softmax_specials(void) {
    enum { N = 37 };
    float x[N], y[N];
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (int at = 0; at < N && syn_simd_runs(level); at++) {
            const syn_row_kernels *k = syn__row_kernels_at(level);
            for (int i = 0; i < N; i++) x[i] = -INFINITY;
            k->softmax(x, y, N);
            for (int i = 0; i < N; i++) CHECK(y[i] == 0 && !signbit(y[i]));
            x[at] = -3e38f; /* the only one */
            k->softmax(x, y, N);
            for (int i = 0; i < N; i++) CHECK(y[i] == (i == at ? 1.0f : 0.0f));
            static const float broken[2] = {NAN, INFINITY}; /* infinity - infinity is none */
            for (int b = 0; b < 2; b++)
                for (int others = 0; others < 2; others++) {
                    for (int i = 0; i < N; i++) x[i] = others ? (float)i : -INFINITY;
                    x[at] = broken[b];
                    k->softmax(x, y, N);
                    for (int i = 0; i < N; i++) CHECK(isnan(y[i]));
                }
        }
}

/* Rows far from zero, with one element that dwarfs the others, of equal elements, at both ends of
   float's range. */
static void test_layernorm(void) {
    enum { N = 1600 };
    static float x[N], w[N], b[N], y[N];
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (int round = 0; round < 400 && syn_simd_runs(level); round++) {
            const int64_t n = ref_int(1, 3) == 1 ? ref_int(1, 70) : ref_int(1, N);
            const double centre = round % 2 ? ref_real(-1e4, 1e4) : 0;
            const double width =
                round % 5 == 4 ? 0 : pow(10, round % 7 == 6 ? ref_real(-36, 36) : ref_real(-2, 2));
            const double eps = round % 3 ? 1e-5 : 1e-12;
            double sum = 0, squares = 0;
            for (int64_t i = 0; i < n; i++) {
                x[i] = (float)(centre + ref_real(-width, width));
                w[i] = (float)ref_real(-2, 2), b[i] = (float)ref_real(-2, 2);
            }
            if (round % 11 == 3) x[n / 2] = 3e4f;
            for (int64_t i = 0; i < n; i++) sum += (double)x[i];
            for (int64_t i = 0; i < n; i++) squares += pow((double)x[i] - sum / (double)n, 2);
            const double deviation = sqrt(squares / (double)n + eps);
            syn__row_kernels_at(level)->layernorm(x, w, b, eps, y, n);
            for (int64_t i = 0; i < n; i++) {
                const double norm = ((double)x[i] - sum / (double)n) / deviation;
                const double want = norm * (double)w[i] + (double)b[i];
                const double tolerance =
                    1e-6 * (fabs(norm * (double)w[i]) + fabs((double)b[i]) + 0.1);
                CHECK_MSG(fabs((double)y[i] - want) <= tolerance,
                          "%s, round %d, %d of %d: %.9g, not %.9g", syn_simd_name(level), round,
                          (int)i, (int)n, (double)y[i], want);
            }
        }
}

static void test_layernorm_specials(void) {
    enum { N = 40 };
    float x[N], one[N], zero[N], y[N];
    static const float broken[3] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < N; i++) one[i] = 1, zero[i] = 0;
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (int b = 0; b < 3 && syn_simd_runs(level); b++) {
            for (int i = 0; i < N; i++) x[i] = (float)i;
            x[7] = broken[b];
            syn__row_kernels_at(level)->layernorm(x, one, zero, 1e-5, y, N);
            for (int i = 0; i < N; i++) CHECK(isnan(y[i]));
        }
}

/* Columns from `visible` on are hidden whatever they hold; all of them, or none. */
static void test_scale_mask(void) {
    enum { N = 50 };
    float x[N], mask[N], y[N];
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (int64_t visible = -3; visible < N + 5 && syn_simd_runs(level); visible++)
            for (int masked = 0; masked < 2; masked++) {
                for (int i = 0; i < N; i++) {
                    x[i] = i < visible ? (float)i : NAN;
                    mask[i] = i % 5 == 2 ? -INFINITY : (float)(i % 3);
                }
                syn__row_kernels_at(level)->scale_mask(x, masked ? mask : NULL, 0.5f, visible, y,
                                                       N);
                for (int i = 0; i < N; i++)
                    CHECK(y[i] ==
                          (i >= visible ? -INFINITY : 0.5f * (float)i + (masked ? mask[i] : 0)));
            }
}

/* ---- Spread over threads ---- */

/* The bytes of every row op on tensors large enough to be shared, dense and not. */
static unsigned char *all_ops(int threads, size_t *bytes) {
    enum { OPS = 15 };
    syn_error err = {0};
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    if (syn_ctx_set_threads(ctx, threads, &err) != SYN_OK) abort();
    const syn_spec spec = {SYN_F32, 4, {3, 5, 37, 211}}, row = {SYN_F32, 1, {211}},
                   mask_spec = {SYN_F32, 2, {5, 211}}, id_spec = {SYN_I32, 2, {7, 301}};
    const size_t elems = (size_t)syn_spec_elems(&spec);
    float *data = malloc(elems * sizeof *data);
    int32_t ids[7 * 301];
    ref_seed(11);
    for (size_t i = 0; i < elems; i++) data[i] = (float)ref_real(-5, 5);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) ids[i] = (int32_t)ref_int(-2, 580);
    const syn_tensor x = syn_input(ctx, "x", &spec, data), r = syn_input(ctx, "r", &row, data);
    const syn_tensor m = syn_input(ctx, "m", &mask_spec, data);
    const syn_tensor turned = syn_permute(ctx, x, (const int[]){1, 0, 2, 3}, 4);
    const syn_tensor inner = syn_permute(ctx, x, (const int[]){0, 1, 3, 2}, 4);
    const syn_tensor table = syn_reshape(ctx, x, (const int64_t[]){555, 211}, 2);
    const syn_tensor results[OPS] = {
        syn_gelu(ctx, x, true),
        syn_gelu(ctx, turned, false),
        syn_tanh(ctx, x),
        syn_scale(ctx, turned, 0.3),
        syn_dropout(ctx, x, 0.3, 5, 7),
        syn_scale_mask(ctx, turned, m, 0.5, true, 3),
        syn_softmax(ctx, turned),
        syn_layernorm(ctx, turned, r, r, 1e-5),
        syn_add(ctx, x, x),
        syn_add(ctx, turned, r),
        syn_mul(ctx, inner, inner),
        syn_contiguous(ctx, inner),
        syn_contiguous(ctx, turned),
        syn_concat(ctx, (const syn_tensor[]){x, x}, 2, 2),
        syn_embedding(ctx, table, syn_input(ctx, "i", &id_spec, ids), 3)};
    unsigned char *all = NULL;
    *bytes = 0;
    for (int i = 0; i < OPS && syn_ctx_status(ctx) == SYN_OK; i++) {
        const size_t more = (size_t)syn_spec_bytes(syn_tensor_spec(ctx, results[i]));
        all = realloc(all, *bytes + more);
        if (syn_tensor_read(ctx, results[i], all + *bytes, more) == SYN_OK) *bytes += more;
    }
    if (syn_ctx_status(ctx) != SYN_OK) *bytes = 0;
    syn_ctx_free(ctx);
    free(data);
    return all;
}

static void test_threads(void) {
    size_t bytes, same;
    unsigned char *alone = all_ops(1, &bytes);
    CHECK(bytes > 14 * 3 * 5 * 37 * 211 * sizeof(float));
    for (int threads = 2; threads <= 5; threads++) {
        unsigned char *shared = all_ops(threads, &same);
        CHECK(same == bytes);
        CHECK_MSG(memcmp(alone, shared, bytes) == 0, "%d threads", threads);
        free(shared);
    }
    free(alone);
}

static const test_case cases[] = {
    {"curves", test_curves},         {"specials", test_specials},
    {"lengths", test_lengths},       {"cuts", test_cuts},
    {"softmax", test_softmax},       {"softmax specials", test_softmax_specials},
    {"layernorm", test_layernorm},   {"layernorm specials", test_layernorm_specials},
    {"scale mask", test_scale_mask}, {"threads", test_threads},
};
TEST_MAIN(cases)
