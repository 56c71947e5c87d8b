/* Compares the row kernels of every SIMD level that this machine supports with double precision and
   with each other. */
#include <float.h>

#include "ops/rows.h"
#include "syntorch/base/half.h"
#include "tests/support/guarded.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

static const double root_half = 0.70710678118654752440, root_2_over_pi = 0.79788456080286535588;

/* The distance between `got` and `want` in units of the float spacing at `want`. */
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

/* Error bounds at x, in ulps. The tanh form of gelu rounds the argument of its exponential. */
static double tanh_bound(double x) {
    return x < -1 ? 3 + 4 * root_2_over_pi * (-x + 0.044715 * -x * x * x) : 4;
}
static double silu(double x) {
    return x / (1 + exp(-x));
}
static double erf_bound(double x) {
    return x < -12 ? 16 : 6; /* far from 0, the factor of x is subnormal */
}
static double silu_bound(double x) {
    return x < -87 ? 110 : 4; /* the same for this function */
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
              {"gelu_erf", offsetof(syn_row_kernels, gelu_erf), gelu_erf, erf_bound},
              {"silu", offsetof(syn_row_kernels, silu), silu, silu_bound}};
enum { CURVES = (int)(sizeof curves / sizeof *curves) };

static syn_unary_row kernel_of(const syn_row_kernels *k, const struct curve *c) {
    syn_unary_row f;
    memcpy(&f, (const char *)k + c->kernel, sizeof f);
    return f;
}

/* Inputs of all exponents and both signs. The scalar formulas of gelu lose digits where tanh or erf
   is near -1, so an absolute error is allowed there. */
static void test_curves(void) {
    enum { N = 4096, STEP = 4099 };
    static float x[N], y[N];
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++) {
        if (!syn_simd_supported(level)) continue;
        for (int c = 0; c < CURVES; c++) {
            double worst = 0, at = 0;
            const bool absolute = level == SYN_SIMD_SCALAR && c > 0;
            for (uint64_t first = 0; first < 0x100000000u; first += (uint64_t)N * STEP) {
                for (uint32_t i = 0; i < N; i++) x[i] = from_bits((uint32_t)(first + i * STEP));
                kernel_of(syn__row_kernels_at(level), &curves[c])(x, y, N);
                for (int i = 0; i < N; i++) {
                    if (isinf(x[i]) && c > 0) continue; /* covered by test_specials */
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

/* Derivatives of gelu, for magnitudes from 2^-127 to 2^127 of both signs. */
static double tanh_slope(double x) {
    const double t = tanh(root_2_over_pi * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root_2_over_pi * (1 + 3 * 0.044715 * x * x);
}

static double erf_slope(double x) {
    return 0.5 * erfc(-x * root_half) + x * exp(-x * x / 2) * 0.39894228040143267794;
}

static double silu_slope(double x) {
    const double s = 1 / (1 + exp(-x));
    return s == 0 || s == 1 ? s : s + x * s * (1 - s);
}

static void test_slopes(void) {
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (int i = 0; i < 20000 && syn_simd_supported(level); i++) {
            const float x =
                (float)(i % 2 ? ref_real(-8, 8) : ldexp(ref_real(-1, 1), (int)ref_int(-127, 127)));
            const float dy = (float)ref_real(-2, 2);
            float got[3];
            syn__row_kernels_at(level)->gelu_tanh_grad(&x, &dy, &got[0], 1);
            syn__row_kernels_at(level)->gelu_erf_grad(&x, &dy, &got[1], 1);
            syn__row_kernels_at(level)->silu_grad(&x, &dy, &got[2], 1);
            const double want[3] = {tanh_slope((double)x), erf_slope((double)x),
                                    silu_slope((double)x)};
            for (int form = 0; form < 3; form++)
                CHECK_MSG(fabs((double)got[form] - (double)dy * want[form]) <= 4e-6,
                          "%s, form %d at %.9g: %.9g, not %.9g", syn_simd_name(level), form,
                          (double)x, (double)got[form], (double)dy * want[form]);
        }
}

/* For infinite or NaN inputs or results, all levels agree with the scalar formulas. */
static void test_specials(void) {
    static const float specials[] = {INFINITY, -INFINITY, NAN,   0.0f,     -0.0f,  1e-45f, -1e-45f,
                                     1e-38f,   -1e-38f,   3e38f, -FLT_MAX, 1e20f,  -1e20f, 30.0f,
                                     -30.0f,   9.5f,      88.8f, -88.8f,   -104.0f};
    enum { N = (int)(sizeof specials / sizeof *specials) };
    float want[N], got[N];
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (int c = 0; c < CURVES && syn_simd_supported(level); c++) {
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

/* Every 16-bit number, and f32 numbers of all exponents including ties, are converted to the same
   bits as by syn_half_widen and syn_half_narrow, which test_base tests. A NaN may become any
   NaN. */
static void test_halves(void) {
    enum { N = 4096, STEP = 4099 };
    static float x[N], wide[N], wanted[N];
    static uint16_t got[N], want[N];
    for (int i = 0; i < 2 * SYN_SIMD_COUNT; i++) {
        const syn_dtype dtype = i % 2 ? SYN_F16 : SYN_BF16;
        const syn_simd level = (syn_simd)(i / 2);
        if (!syn_simd_supported(level)) continue;
        const syn_row_kernels *k = syn__row_kernels_at(level);
        for (uint32_t first = 0; first < 65536; first += N) {
            for (uint32_t j = 0; j < N; j++) got[j] = (uint16_t)(first + j);
            k->widen(got, dtype, wide, N);
            syn_half_widen(got, wanted, N, dtype);
            for (int j = 0; j < N; j++)
                CHECK(isnan(wanted[j]) ? isnan(wide[j])
                                       : memcmp(&wide[j], &wanted[j], sizeof *wide) == 0);
        }
        for (uint64_t first = 0; first < 0x100000000u; first += (uint64_t)N * STEP) {
            for (uint32_t j = 0; j < N; j++) {
                const uint32_t bits = (uint32_t)(first + j * STEP);
                x[j] = from_bits(j % 3 == 0   ? bits & 0xffff8000u /* ties of bf16 */
                                 : j % 3 == 1 ? bits & 0xfffff000u /* ties of f16 */
                                              : bits);
            }
            k->narrow(x, dtype, got, N);
            syn_half_narrow(x, want, N, dtype);
            for (int j = 0; j < N; j++)
                CHECK_MSG(got[j] == want[j], "%s, %s of %.9g: %x, not %x", syn_simd_name(level),
                          syn_dtype_name(dtype), (double)x[j], (unsigned)got[j], (unsigned)want[j]);
        }
    }
}

/* ---- Whole rows ---- */

enum kernel {
#define X(name, parameters) KERNEL_##name,
    SYN__ROW_KERNELS(X)
#undef X
        KERNELS
};
static const char *const kernel_names[KERNELS] = {
#define X(name, parameters) #name,
    SYN__ROW_KERNELS(X)
#undef X
};

/* The arguments of a kernel: inputs x, a and b, the result y, and `more` and `also`, which are
   further results or sums to which the kernel adds. Each has n elements; those of `more` and `also`
   are not negative. */
typedef struct rows {
    const float *x, *a, *b;
    float *y, *more, *also;
} rows;

static void every_kernel(const syn_row_kernels *k, enum kernel which, const rows *r, int64_t n) {
    static const syn_adamw adamw = {0.5f, 0.9f, 0.1f, 0.99f, 0.01f, 1e-3f, 0.03f, 1.5f, 0.99f};
    const syn_dropout_row drop = syn__dropout_row(0.3, 5, 7, n);
    double sum = 0.25;
    uint16_t half[200];
    switch (which) {
    case KERNEL_gelu_tanh:
        k->gelu_tanh(r->x, r->y, n);
        break;
    case KERNEL_gelu_erf:
        k->gelu_erf(r->x, r->y, n);
        break;
    case KERNEL_tanh:
        k->tanh(r->x, r->y, n);
        break;
    case KERNEL_relu:
        k->relu(r->x, r->y, n);
        break;
    case KERNEL_gelu_tanh_grad:
        k->gelu_tanh_grad(r->x, r->a, r->y, n);
        break;
    case KERNEL_gelu_erf_grad:
        k->gelu_erf_grad(r->x, r->a, r->y, n);
        break;
    case KERNEL_tanh_grad:
        k->tanh_grad(r->x, r->a, r->y, n);
        break;
    case KERNEL_silu:
        k->silu(r->x, r->y, n);
        break;
    case KERNEL_silu_grad:
        k->silu_grad(r->x, r->a, r->y, n);
        break;
    case KERNEL_swiglu:
        k->swiglu(r->x, r->a, r->y, n);
        break;
    case KERNEL_swiglu_grad:
        k->swiglu_grad(r->x, r->a, r->b, r->y, r->more, n);
        break;
    case KERNEL_swiglu_clamped:
        k->swiglu_clamped(r->x, r->a, 1.7f, 1.5f, r->y, n);
        break;
    case KERNEL_swiglu_clamped_grad:
        k->swiglu_clamped_grad(r->x, r->a, r->b, 1.7f, 1.5f, r->y, r->more, n);
        break;
    case KERNEL_rmsnorm:
        k->rmsnorm(r->x, r->a, 1e-5, r->y, n);
        break;
    case KERNEL_rmsnorm_grad:
        k->rmsnorm_grad(r->x, r->a, r->b, 0.5, r->y, r->more, n);
        break;
    case KERNEL_angles:
        k->angles(r->x, 12345.0f, 0.5f, -0.7f, r->y, r->more, n);
        break;
    case KERNEL_rotate: /* an odd last element must not change */
        k->rotate(r->x, r->a, r->b, r->y, n / 2);
        if (n % 2) r->y[n - 1] = r->x[n - 1];
        break;
    case KERNEL_softmax:
        k->softmax(r->x, r->y, n);
        break;
    case KERNEL_softmax_grad:
        k->softmax_grad(r->x, r->a, r->y, n);
        break;
    case KERNEL_exp_sum:
        k->exp_sum(r->x, r->more, r->y, n);
        for (int64_t i = 1; i < n; i++) r->y[i] = r->y[0];
        break;
    case KERNEL_exp_scale:
        k->exp_scale(r->x, 2.5f, 0.7f, r->y, n);
        break;
    case KERNEL_softmax_log:
        k->softmax_log(r->x, 0.7f, r->more, r->y, n);
        break;
    case KERNEL_add:
        k->add(r->x, r->a, r->y, n);
        break;
    case KERNEL_mul:
        k->mul(r->x, r->a, r->y, n);
        break;
    case KERNEL_scale:
        k->scale(r->x, 0.7f, r->y, n);
        break;
    case KERNEL_dropout:
        k->dropout(r->x, &drop, 0xfffffff0u, r->y, n);
        break;
    case KERNEL_scale_mask:
        k->scale_mask(r->x, n % 3 ? r->a : NULL, 0.7f, n - n / 4, r->y, n);
        break;
    case KERNEL_layernorm:
        k->layernorm(r->x, r->a, r->b, 1e-5, r->y, n);
        break;
    case KERNEL_layernorm_grad:
        k->layernorm_grad(r->x, r->a, r->b, 0.5, r->y, r->more, r->also, n);
        break;
    case KERNEL_square_sum:
        k->square_sum(r->x, &sum, n);
        for (int64_t i = 0; i < n; i++) r->y[i] = (float)sum;
        break;
    case KERNEL_adamw:
        memmove(r->y, r->x, (size_t)n * sizeof *r->y);
        k->adamw(r->y, r->more, r->also, r->a, &adamw, n);
        break;
    case KERNEL_narrow: /* and back to f32, which is exact */
        k->narrow(r->x, SYN_BF16, half, n);
        k->widen(half, SYN_BF16, r->y, n);
        break;
    case KERNEL_widen:
        k->narrow(r->x, SYN_F16, half, n);
        k->widen(half, SYN_F16, r->y, n);
        break;
    case KERNELS:
        break;
    }
}

/* How far levels may differ, relative to 1 + |result|, or to |result| where no subtraction loses
   digits. The kernels add in float. */
static float tolerance(enum kernel which, float want) {
    switch (which) {
    case KERNEL_tanh:
    case KERNEL_softmax:
    case KERNEL_exp_sum:
    case KERNEL_exp_scale:
    case KERNEL_add:
    case KERNEL_mul:
    case KERNEL_scale:
    case KERNEL_square_sum:
        return 2e-6f * fabsf(want);
    case KERNEL_dropout:
    case KERNEL_widen:
    case KERNEL_narrow:
        return 0;
    case KERNEL_softmax_grad:
    case KERNEL_layernorm_grad:
    case KERNEL_rmsnorm_grad:
        return 2e-4f;
    default:
        return 2e-6f * (1 + fabsf(want));
    }
}

/* Compares with the scalar kernels for every length, at the start and at the end of guarded memory,
   in place and not in place. */
static void check_length(syn_simd level, enum kernel which, int64_t n, bool at_end, bool in_place) {
    static guarded memory[6];
    static float want[3][200];
    float *at[6];
    for (int i = 0; i < 6; i++) {
        if (!memory[i].map) memory[i] = guarded_new(4096);
        at[i] = guarded_floats(&memory[i], n, at_end);
        for (int64_t j = 0; j < n; j++) at[i][j] = (float)ref_real(i < 3 ? -4 : 0, 4);
    }
    if (in_place) at[3] = at[0];
    for (int k = 0; k < 3; k++) memcpy(want[k], at[3 + k], (size_t)n * sizeof *want[k]);
    every_kernel(&syn__rows_scalar, which, &(rows){at[0], at[1], at[2], want[0], want[1], want[2]},
                 n);
    every_kernel(syn__row_kernels_at(level), which,
                 &(rows){at[0], at[1], at[2], at[3], at[4], at[5]}, n);
    for (int k = 0; k < 3; k++)
        for (int64_t j = 0; j < n; j++)
            CHECK_MSG(at[3 + k][j] == want[k][j] ||
                          fabsf(at[3 + k][j] - want[k][j]) <= tolerance(which, want[k][j]),
                      "%s, %s, %d of %d: %.9g, not %.9g", syn_simd_name(level), kernel_names[which],
                      (int)j, (int)n, (double)at[3 + k][j], (double)want[k][j]);
    for (int i = 0; i < 6; i++)
        if (i != 3 || !in_place) CHECK(guarded_untouched(&memory[i], at[i], n));
}

static void test_lengths(void) {
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (int which = 0; which < KERNELS && syn_simd_supported(level); which++)
            for (int64_t n = 1; n <= 200 && test_failures == 0; n++)
                for (int how = 0; how < 4; how++)
                    check_length(level, (enum kernel)which, n, how & 1, how & 2);
}

/* The bits of an element do not depend on its position, so a row can be split anywhere. */
static void test_cuts(void) {
    static const enum kernel of_elements[] = {KERNEL_gelu_tanh,
                                              KERNEL_gelu_erf,
                                              KERNEL_tanh,
                                              KERNEL_gelu_tanh_grad,
                                              KERNEL_add,
                                              KERNEL_tanh_grad,
                                              KERNEL_mul,
                                              KERNEL_gelu_erf_grad,
                                              KERNEL_scale,
                                              KERNEL_adamw,
                                              KERNEL_silu,
                                              KERNEL_silu_grad,
                                              KERNEL_swiglu,
                                              KERNEL_swiglu_grad,
                                              KERNEL_swiglu_clamped,
                                              KERNEL_swiglu_clamped_grad,
                                              KERNEL_angles};
    enum { N = 100 };
    float in[5][N], whole[3][N], cut[3][N];
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < N; j++) in[i][j] = (float)ref_real(i < 3 ? -6 : 0, 6);
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (size_t k = 0; k < COUNT(of_elements) && syn_simd_supported(level); k++) {
            const syn_row_kernels *kernels = syn__row_kernels_at(level);
            memcpy(whole[1], in[3], 2 * sizeof *in);
            every_kernel(kernels, of_elements[k],
                         &(rows){in[0], in[1], in[2], whole[0], whole[1], whole[2]}, N);
            for (int at = 1; at < N; at++) {
                memcpy(cut[1], in[3], 2 * sizeof *in);
                every_kernel(kernels, of_elements[k],
                             &(rows){in[0], in[1], in[2], cut[0], cut[1], cut[2]}, at);
                every_kernel(kernels, of_elements[k],
                             &(rows){in[0] + at, in[1] + at, in[2] + at, cut[0] + at, cut[1] + at,
                                     cut[2] + at},
                             N - at);
                CHECK_MSG(memcmp(cut[0], whole[0], sizeof *cut) == 0 &&
                              memcmp(cut[1], whole[1], 2 * sizeof *cut) == 0,
                          "%s, %s, cut at %d", syn_simd_name(level), kernel_names[of_elements[k]],
                          at);
            }
        }
}

/* Angles up to the largest that rope uses are compared with double precision. */
static void test_angles(void) {
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (int round = 0; round < 20000 && syn_simd_supported(level); round++) {
            const bool quarters = round % 3 == 0;
            const float position = quarters ? 1 : (float)ref_int(0, round % 2 ? 1 << 20 : 4096);
            const float frequency =
                (float)(quarters ? 1.5707963267948966 * (double)ref_int(0, 600000)
                                 : pow(10, ref_real(-6, 0)));
            const double at = (double)(frequency * position);
            float cosine, sine;
            syn__row_kernels_at(level)->angles(&frequency, position, 1, 1, &cosine, &sine, 1);
            CHECK_MSG(
                fabs((double)cosine - cos(at)) < 1.2e-7 && fabs((double)sine - sin(at)) < 1.2e-7,
                "%s, %.9g: %.9g, %.9g", syn_simd_name(level), at, (double)cosine, (double)sine);
        }
}

/* Every level drops the same elements, also if the column index wraps around or the row is
   split. */
static void test_dropout(void) {
    enum { N = 300 };
    float ones[N], want[N], got[N];
    for (int i = 0; i < N; i++) ones[i] = 1;
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (int round = 0; round < 200 && syn_simd_supported(level); round++) {
            const double p = round % 4 ? ref_real(0, 0.999) : 0;
            const syn_dropout_row drop =
                syn__dropout_row(p, (uint64_t)round, (int32_t)ref_int(INT32_MIN, INT32_MAX),
                                 ref_int(0, INT64_MAX / 2));
            const uint32_t first = (uint32_t)ref_int(0, UINT32_MAX);
            const int64_t at = ref_int(1, N - 1);
            syn__rows_scalar.dropout(ones, &drop, first, want, N);
            syn__row_kernels_at(level)->dropout(ones, &drop, first, got, at);
            syn__row_kernels_at(level)->dropout(ones, &drop, first + (uint32_t)at, got + at,
                                                N - at);
            CHECK(memcmp(got, want, sizeof got) == 0);
            for (int i = 0; i < N; i++) CHECK(p > 0 || got[i] == 1);
        }
}

/* Compares rows of all widths and ranges with the definition. The difference from the maximum is
   rounded before the exponential, and the error of the sum grows with the number of terms per SIMD
   lane. */
static void test_softmax(void) {
    static float x[5000], y[5000];
    for (syn_simd level = SYN_SIMD_AVX2; level < SYN_SIMD_COUNT; level++)
        for (int round = 0; round < 300 && syn_simd_supported(level); round++) {
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
        for (int at = 0; at < N && syn_simd_supported(level); at++) {
            const syn_row_kernels *k = syn__row_kernels_at(level);
            for (int i = 0; i < N; i++) x[i] = -INFINITY;
            k->softmax(x, y, N);
            for (int i = 0; i < N; i++) CHECK(y[i] == 0 && !signbit(y[i]));
            x[at] = -3e38f; /* the only visible element */
            k->softmax(x, y, N);
            for (int i = 0; i < N; i++) CHECK(y[i] == (i == at ? 1.0f : 0.0f));
            static const float broken[2] = {NAN, INFINITY}; /* infinity - infinity is NaN */
            for (int b = 0; b < 2; b++)
                for (int others = 0; others < 2; others++) {
                    for (int i = 0; i < N; i++) x[i] = others ? (float)i : -INFINITY;
                    x[at] = broken[b];
                    k->softmax(x, y, N);
                    for (int i = 0; i < N; i++) CHECK(isnan(y[i]));
                }
        }
}

/* Rows far from zero, rows with one element that is much larger than the others, rows of equal
   elements, and rows at both ends of the float range. */
static void test_layernorm(void) {
    enum { N = 1600 };
    static float x[N], w[N], b[N], y[N];
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (int round = 0; round < 400 && syn_simd_supported(level); round++) {
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
        for (int b = 0; b < 3 && syn_simd_supported(level); b++) {
            for (int i = 0; i < N; i++) x[i] = (float)i;
            x[7] = broken[b];
            syn__row_kernels_at(level)->layernorm(x, one, zero, 1e-5, y, N);
            for (int i = 0; i < N; i++) CHECK(isnan(y[i]));
        }
}

/* Columns from index `visible` on are hidden, whatever values they have. All columns may be hidden,
   or none. */
static void test_scale_mask(void) {
    enum { N = 50 };
    float x[N], mask[N], y[N];
    for (syn_simd level = 0; level < SYN_SIMD_COUNT; level++)
        for (int64_t visible = -3; visible < N + 5 && syn_simd_supported(level); visible++)
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

static const test_case cases[] = {
    {"halves", test_halves},         {"curves", test_curves},
    {"slopes", test_slopes},         {"specials", test_specials},
    {"lengths", test_lengths},       {"cuts", test_cuts},
    {"softmax", test_softmax},       {"softmax specials", test_softmax_specials},
    {"layernorm", test_layernorm},   {"layernorm specials", test_layernorm_specials},
    {"scale mask", test_scale_mask}, {"dropout", test_dropout},
    {"angles", test_angles},
};
TEST_MAIN(cases)
