/* Compares gelu, tanh, scale, add, mul, dropout and scale_mask with double precision, for random
   shapes and layouts. */
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

static double gelu(double x, bool tanh_form) {
    const double pi = 3.14159265358979323846;
    return tanh_form ? 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x * x * x)))
                     : 0.5 * x * (1 + erf(x / sqrt(2.0)));
}

static void test_gelu_values(void) {
    static const double extremes[] = {0,  -0.0, 1e-30, -1e-30, 1e-5, -1e-5,
                                      20, -20,  1e5,   -1e5,   3e38, -3e38};
    enum { N = 2000, EXTREMES = (int)(sizeof extremes / sizeof *extremes) };
    ref x, want;
    x.spec = want.spec = (syn_spec){SYN_F32, 1, {N}};
    for (int i = 0; i < N; i++)
        x.v[i] = i < EXTREMES ? (double)(float)extremes[i] : (double)(float)(-8 + 16.0 * i / N);
    for (int form = 0; form < 2; form++) {
        for (int i = 0; i < N; i++) want.v[i] = gelu(x.v[i], form != 0);
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        CHECK(ref_check(ctx, syn_gelu(ctx, ref_dense(ctx, &x), form != 0), &want, 3e-7));
        syn_ctx_free(ctx);
    }
}

/* Unary ops: each element of the result depends only on the same element of the input and its
   index. */
static void test_unary_layouts(void) {
    static ref x, want;
    for (int round = 0; round < 300; round++) {
        ref_seed((uint64_t)round);
        ref_fill(&x, ref_random_spec(SYN_F32, 1, 6, true), -4, 4);
        want.spec = x.spec;
        const int64_t n = syn_spec_elems(&x.spec), width = x.spec.dims[x.spec.rank - 1];
        const int64_t rows = x.spec.rank > 1 ? x.spec.dims[x.spec.rank - 2] : 1;
        const int64_t offset = ref_int(-3, 6);
        const double factor = ref_real(-3, 3);
        const syn_dropout_options nothing = {.p = 0, .seed = (uint64_t)round};
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor t = ref_wild(ctx, &x);
        for (int64_t i = 0; i < n; i++) want.v[i] = gelu(x.v[i], round % 2 == 0);
        CHECK(ref_check(ctx, syn_gelu(ctx, t, round % 2 == 0), &want, 1e-6));
        for (int64_t i = 0; i < n; i++) want.v[i] = tanh(x.v[i]);
        CHECK(ref_check(ctx, syn_tanh(ctx, t), &want, 1e-6));
        for (int64_t i = 0; i < n; i++) want.v[i] = fmax(x.v[i], 0);
        CHECK(ref_check(ctx, syn_relu(ctx, t), &want, 0));
        for (int64_t i = 0; i < n; i++) want.v[i] = x.v[i] / (1 + exp(-x.v[i]));
        CHECK(ref_check(ctx, syn_silu(ctx, t), &want, 1e-6));
        for (int64_t i = 0; i < n; i++) want.v[i] *= x.v[i];
        CHECK(ref_check(ctx, syn_swiglu(ctx, t, ref_wild(ctx, &x)), &want, 1e-6));
        for (int64_t i = 0; i < n; i++) {
            const double g = fmin(x.v[i], 1.5), u = fmax(g, -1.5);
            want.v[i] = (u + 1) * g / (1 + exp(-1.7 * g));
        }
        CHECK(ref_check(ctx, syn_swiglu_clamped(ctx, t, ref_wild(ctx, &x), 1.7, 1.5), &want, 1e-6));
        for (int64_t i = 0; i < n; i++) want.v[i] = x.v[i] * factor;
        CHECK(ref_check(ctx, syn_scale(ctx, t, factor), &want, 1e-6));
        for (int64_t i = 0; i < n; i++)
            want.v[i] = i % width > i / width % rows + offset ? -(double)INFINITY : x.v[i] * factor;
        CHECK(
            ref_check(ctx, syn_scale_mask(ctx, t, SYN_NO_MASK, factor, true, offset), &want, 1e-6));
        const int64_t window = ref_int(1, 6);
        for (int64_t i = 0; i < n; i++) {
            const int64_t before = i / width % rows + offset - i % width;
            want.v[i] = before < 0 || before >= window ? -(double)INFINITY : x.v[i] * factor;
        }
        CHECK(ref_check(ctx, syn_scale_mask_window(ctx, t, SYN_NO_MASK, factor, offset, window),
                        &want, 1e-6));
        for (int64_t i = 0; i < n; i++) want.v[i] = x.v[i] * factor;
        CHECK(ref_check(ctx, syn_scale_mask(ctx, t, SYN_NO_MASK, factor, false, offset), &want,
                        1e-6));
        if (x.spec.rank > 1)
            CHECK(ref_check(ctx, syn_dropout(ctx, t, SYN_NO_KEYS, &nothing), &x, 0));
        CHECK(ref_check(ctx, syn_contiguous(ctx, t), &x, 0));
        CHECK(ref_check(ctx, syn_tp_enter(ctx, t, &ref_pair), &x, 0));
        syn_ctx_free(ctx);
    }
}

/* A random operand shape that can be broadcast to `out`: some leading dimensions are dropped, and
   others are 1. */
static syn_spec shrink(const syn_spec *out) {
    syn_spec s = {out->dtype, 0, {0}};
    const int drop = ref_int(0, 2) ? 0 : (int)ref_int(0, out->rank);
    for (int d = drop; d < out->rank; d++) s.dims[s.rank++] = ref_int(0, 3) ? out->dims[d] : 1;
    return s;
}

static double stretched(const ref *r, const syn_spec *out, const int64_t *index) {
    int64_t own[SYN_MAX_RANK];
    for (int d = 0; d < r->spec.rank; d++)
        own[d] = r->spec.dims[d] == 1 ? 0 : index[d + out->rank - r->spec.rank];
    return r->v[ref_at(&r->spec, own)];
}

static void test_broadcasting(void) {
    static ref a, b, sum, product;
    for (int round = 0; round < 600; round++) {
        ref_seed((uint64_t)round);
        const syn_spec out = ref_random_spec(SYN_F32, 0, 6, true);
        ref_fill(&a, shrink(&out), -4, 4);
        ref_fill(&b, shrink(&out), -4, 4);
        sum.spec = (syn_spec){SYN_F32, a.spec.rank > b.spec.rank ? a.spec.rank : b.spec.rank, {0}};
        for (int d = 0; d < sum.spec.rank;
             d++) { /* from the last dimension on: the larger size, or 0 if one of them is 0 */
            const int from_a = a.spec.rank - 1 - d, from_b = b.spec.rank - 1 - d;
            const int64_t na = from_a < 0 ? 1 : a.spec.dims[from_a],
                          nb = from_b < 0 ? 1 : b.spec.dims[from_b];
            sum.spec.dims[sum.spec.rank - 1 - d] = na == 0 || nb == 0 ? 0 : na > nb ? na : nb;
        }
        product.spec = sum.spec;
        for (int64_t i = 0; i < syn_spec_elems(&sum.spec); i++) {
            int64_t index[SYN_MAX_RANK];
            ref_index(&sum.spec, i, index);
            const double x = stretched(&a, &sum.spec, index), y = stretched(&b, &sum.spec, index);
            sum.v[i] = x + y;
            product.v[i] = x * y;
        }
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor ta = ref_wild(ctx, &a), tb = ref_wild(ctx, &b);
        CHECK(ref_check(ctx, syn_add(ctx, ta, tb), &sum, 1e-6));
        CHECK(ref_check(ctx, syn_mul(ctx, ta, tb), &product, 1e-6));
        CHECK_INT(ref_count(ctx, SYN_OP_CONTIGUOUS), 0); /* strided operands are not copied */
        CHECK(ref_check(ctx, ta, &a, 0));                /* the operands are not overwritten */
        syn_ctx_free(ctx);
    }
}

/* Rows that are longer than the block of elements that is gathered in one piece. One operand is
   transposed, one is broadcast. */
static void test_long_strided_rows(void) {
    enum { ROWS = 3, N = 700 };
    static ref a, b, sum;
    const int64_t turned[2] = {N, ROWS}, column[2] = {ROWS, 1}, shape[2] = {ROWS, N};
    ref_fill(&a, ref_spec(SYN_F32, 2, turned), -4, 4);
    ref_fill(&b, ref_spec(SYN_F32, 2, column), -4, 4);
    sum.spec = ref_spec(SYN_F32, 2, shape);
    for (int i = 0; i < ROWS * N; i++) sum.v[i] = a.v[i % N * ROWS + i / N] + b.v[i / N];
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor ta = syn_permute(ctx, ref_dense(ctx, &a), (const int[]){1, 0}, 2);
    const syn_tensor tb = ref_dense(ctx, &b);
    CHECK(ref_check(ctx, syn_add(ctx, ta, tb), &sum, 1e-6));
    CHECK(ref_check(ctx, syn_add(ctx, tb, ta), &sum, 1e-6));
    syn_ctx_free(ctx);
}

enum { SAMPLES = 5, ROWS = 100, COLUMNS = 200, MASK = SAMPLES * ROWS * COLUMNS };

/* Applies dropout to ones of shape (samples, rows, columns). keys: the keys of the samples, or
   NULL. */
static void mask_of(float *out, const syn_dropout_options *how, const int32_t *keys,
                    int64_t samples, int64_t rows, int64_t columns) {
    static float ones[MASK];
    for (int i = 0; i < MASK; i++) ones[i] = 1;
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_spec spec = {SYN_F32, 3, {samples, rows, columns}}, of_keys = {SYN_I32, 1, {samples}};
    const syn_tensor y =
        syn_dropout(ctx, syn_input(ctx, "x", &spec, ones),
                    keys ? syn_input(ctx, "keys", &of_keys, keys) : SYN_NO_KEYS, how);
    if (syn_tensor_read(ctx, y, out, (size_t)syn_spec_bytes(&spec)) != SYN_OK) abort();
    syn_ctx_free(ctx);
}

/* The number of elements that both masks keep, minus its expected value for independent masks, in
   standard deviations. */
static double both_stay(const float *a, const float *b, int n, double p) {
    double both = 0;
    for (int i = 0; i < n; i++) both += a[i] != 0 && b[i] != 0;
    const double q = (1 - p) * (1 - p);
    return fabs(both - q * n) / sqrt(q * (1 - q) * n);
}

/* Elements are independent: neighbours, rows, samples and seeds, and the same element with another
   key. */
static void test_dropout_statistics(void) {
    static float a[MASK], b[MASK];
    static const double ps[] = {0.1, 0.5, 0.9};
    static const int32_t other_keys[SAMPLES] = {-1, INT32_MIN, INT32_MAX, 1 << 30, 70000};
    for (size_t k = 0; k < COUNT(ps); k++) {
        const double p = ps[k], sigma = sqrt(p * (1 - p) * MASK);
        double kept = 0;
        mask_of(a, &(syn_dropout_options){.p = p, .seed = 7}, NULL, SAMPLES, ROWS, COLUMNS);
        mask_of(b, &(syn_dropout_options){.p = p, .seed = 8}, NULL, SAMPLES, ROWS, COLUMNS);
        for (int i = 0; i < MASK; i++) {
            CHECK(a[i] == 0.0f || a[i] == (float)(1 / (1 - p)));
            kept += a[i] != 0;
        }
        CHECK_NEAR(kept, (1 - p) * MASK, 4 * sigma);
        CHECK(both_stay(a, b, MASK, p) < 4);
        mask_of(b, &(syn_dropout_options){.p = p, .seed = 7}, other_keys, SAMPLES, ROWS, COLUMNS);
        CHECK(both_stay(a, b, MASK, p) < 4);
        for (int lag = 1; lag <= 2 * COLUMNS; lag++) /* of 400 lags, a few may exceed 4 */
            CHECK_MSG(both_stay(a, a + lag, MASK - lag, p) < 5, "%d apart", lag);
        CHECK(both_stay(a, a + ROWS * COLUMNS, MASK - ROWS * COLUMNS, p) < 4);
        for (int c = 0; c < COLUMNS; c++) {
            double column = 0;
            for (int r = 0; r < SAMPLES * ROWS; r++) column += a[r * COLUMNS + c] != 0;
            CHECK_NEAR(column, (1 - p) * SAMPLES * ROWS, 5 * sigma / sqrt(COLUMNS));
        }
        for (int r = 0; r < SAMPLES * ROWS; r++) {
            double row = 0;
            for (int c = 0; c < COLUMNS; c++) row += a[r * COLUMNS + c] != 0;
            CHECK_NEAR(row, (1 - p) * COLUMNS, 5 * sigma / sqrt(SAMPLES * ROWS));
        }
    }
}

/* With p = 10^-7, none of a thousand elements is dropped with any of 50 seeds. A weak hash could
   drop some element with every p. */
static void test_dropout_has_no_weak_element(void) {
    static float a[MASK];
    for (uint64_t seed = 0; seed < 50; seed++) {
        mask_of(a, &(syn_dropout_options){.p = 1e-7, .seed = seed}, NULL, 1, 5, COLUMNS);
        for (int i = 0; i < 5 * COLUMNS; i++)
            CHECK_MSG(a[i] != 0, "seed %llu drops element %d", (unsigned long long)seed, i);
    }
}

/* The mask of a shard depends on its position, and the mask of a sample on its key, wherever the
   sample is in the batch. */
static void test_dropout_shards_agree(void) {
    static float whole[MASK], part[MASK];
    static const int32_t turned[SAMPLES] = {13, 12, 11, 10, 9};
    const syn_dropout_options how = {.p = 0.3, .seed = 99, .sample = 9};
    mask_of(whole, &how, NULL, SAMPLES, ROWS, COLUMNS);
    for (int s = 0; s < SAMPLES; s++) {
        const syn_dropout_options sample = {.p = 0.3, .seed = 99, .sample = 9 + s};
        mask_of(part, &sample, NULL, 1, ROWS, COLUMNS);
        CHECK(memcmp(part, whole + s * ROWS * COLUMNS, ROWS * COLUMNS * sizeof *part) == 0);
    }
    mask_of(part, &how, turned, SAMPLES, ROWS, COLUMNS);
    for (int s = 0; s < SAMPLES; s++)
        CHECK(memcmp(part + (SAMPLES - 1 - s) * ROWS * COLUMNS, whole + s * ROWS * COLUMNS,
                     ROWS * COLUMNS * sizeof *part) == 0);
    for (int64_t cut = 0; cut < COLUMNS; cut += 50) {
        const int64_t first = cut / 2;
        const syn_dropout_options shard = {
            .p = 0.3, .seed = 99, .sample = 9, .row = first, .column = cut + 7};
        mask_of(part, &shard, NULL, SAMPLES, 25, 43);
        for (int i = 0; i < SAMPLES * 25 * 43; i++) {
            const int64_t sample = i / (25 * 43), row = i / 43 % 25 + first;
            CHECK(part[i] == whole[(sample * ROWS + row) * COLUMNS + i % 43 + cut + 7]);
        }
    }
}

/* Dropout depends on the index of an element, not on its address. */
static void test_dropout_layouts(void) {
    static ref x, want;
    for (int round = 0; round < 100; round++) {
        ref_seed((uint64_t)round);
        ref_fill(&x, ref_random_spec(SYN_F32, 2, 5, false), 1, 2);
        const syn_dropout_options how = {.p = 0.4, .seed = (uint64_t)round, .row = 17};
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor dense = syn_dropout(ctx, ref_dense(ctx, &x), SYN_NO_KEYS, &how);
        float data[REF_MAX];
        CHECK(syn_tensor_read(ctx, dense, data, (size_t)syn_spec_bytes(&x.spec)) == SYN_OK);
        want.spec = x.spec;
        for (int64_t i = 0; i < syn_spec_elems(&x.spec); i++) want.v[i] = (double)data[i];
        CHECK(ref_check(ctx, syn_dropout(ctx, ref_wild(ctx, &x), SYN_NO_KEYS, &how), &want, 0));
        syn_ctx_free(ctx);
    }
}

static const test_case cases[] = {
    {"gelu values", test_gelu_values},
    {"unary layouts", test_unary_layouts},
    {"broadcasting", test_broadcasting},
    {"long strided rows", test_long_strided_rows},
    {"dropout statistics", test_dropout_statistics},
    {"dropout has no weak element", test_dropout_has_no_weak_element},
    {"dropout shards agree", test_dropout_shards_agree},
    {"dropout layouts", test_dropout_layouts},
};
TEST_MAIN(cases)
