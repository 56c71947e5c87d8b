/* Compares the ops that only gradient rules build with their definitions in double precision, for
   random shapes and layouts. tests/gradients checks that the rules build the right ops. */
#include "ops/rules.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

enum { ROUNDS = 200 };

static syn_tensor built(syn_ctx *ctx, syn_op op, const syn_tensor *in, int n_in,
                        const syn_attr *attr, int n_attr, syn_tensor *out) {
    syn__call_op(ctx, op, in, n_in, attr, n_attr, NULL, out);
    return out[0];
}

/* A tensor with the elements of r, in a random layout whose last dimension is dense. */
static syn_tensor dense_rows(syn_ctx *ctx, const ref *r) {
    return syn__dense_last_dim(ctx, ref_wild(ctx, r));
}

static int64_t width_of(const ref *r) {
    return r->spec.dims[r->spec.rank - 1];
}

/* ---- elementwise ---- */

static double gelu(double x, bool tanh_form) {
    return tanh_form ? 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)))
                     : 0.5 * x * (1 + erf(x / sqrt(2)));
}

static double silu(double x) {
    return x / (1 + exp(-x));
}

/* Derivatives of gelu and silu are computed as difference quotients, which are exact to ten digits.
   This avoids a second copy of each formula. */
static void test_elements(void) {
    static ref x, dy, want;
    const double step = 1e-5;
    for (int round = 0; round < ROUNDS; round++) {
        ref_seed((uint64_t)round);
        ref_fill(&x, ref_random_spec(SYN_F32, 1, 5, true), -6, 6);
        ref_fill(&dy, x.spec, -2, 2);
        want.spec = x.spec;
        const int64_t n = syn_spec_elems(&x.spec);
        const syn_attr form = {.i = round % 2};
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor in[2] = {dense_rows(ctx, &x), dense_rows(ctx, &dy)};
        syn_tensor out;
        for (int64_t i = 0; i < n; i++)
            want.v[i] =
                dy.v[i] * (gelu(x.v[i] + step, form.i) - gelu(x.v[i] - step, form.i)) / (2 * step);
        CHECK(ref_check(ctx, built(ctx, SYN_OP_GELU_GRAD, in, 2, &form, 1, &out), &want, 2e-6));
        for (int64_t i = 0; i < n; i++)
            want.v[i] = dy.v[i] * (silu(x.v[i] + step) - silu(x.v[i] - step)) / (2 * step);
        CHECK(ref_check(ctx, built(ctx, SYN_OP_SILU_GRAD, in, 2, NULL, 0, &out), &want, 2e-6));
        /* silu(x) * up, where `up` has the values of dy. */
        const syn_tensor gated[3] = {in[0], in[1], in[1]};
        syn_tensor both[2];
        for (int64_t i = 0; i < n; i++) want.v[i] *= dy.v[i];
        built(ctx, SYN_OP_SWIGLU_GRAD, gated, 3, NULL, 0, both);
        CHECK(ref_check(ctx, both[0], &want, 3e-6));
        for (int64_t i = 0; i < n; i++) want.v[i] = dy.v[i] * silu(x.v[i]);
        CHECK(ref_check(ctx, both[1], &want, 2e-6));
        for (int64_t i = 0; i < n; i++) want.v[i] = dy.v[i] * (1 - x.v[i] * x.v[i]);
        CHECK(ref_check(ctx, built(ctx, SYN_OP_TANH_GRAD, in, 2, NULL, 0, &out), &want, 1e-6));
        for (int64_t i = 0; i < n; i++) want.v[i] = x.v[i] > 0 ? dy.v[i] : 0;
        CHECK(ref_check(ctx, built(ctx, SYN_OP_RELU_GRAD, in, 2, NULL, 0, &out), &want, 0));
        for (int64_t i = 0; i < n; i++) want.v[i] = x.v[i] + dy.v[i];
        const syn_tensor sums[2] = {syn_contiguous(ctx, in[0]), ref_wild(ctx, &dy)};
        /* If the condition is false, the sum may be a view, which is also correct. */
        if (sums[0].id != in[0].id || round % 3)
            CHECK(
                ref_check(ctx, built(ctx, SYN_OP_ACCUMULATE, sums, 2, NULL, 0, &out), &want, 1e-6));
        syn_ctx_free(ctx);
    }
}

/* Accumulates into columns of a larger tensor. */
static void test_accumulate_in_a_view(void) {
    static ref x, dy, want;
    const int64_t dims[2] = {7, 10}, part[2] = {7, 4};
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    ref_fill(&x, ref_spec(SYN_F32, 2, dims), -1, 1);
    ref_fill(&dy, ref_spec(SYN_F32, 2, part), -1, 1);
    want = dy;
    for (int i = 0; i < 28; i++) want.v[i] += x.v[i / 4 * 10 + i % 4 + 3];
    const syn_tensor in[2] = {syn_slice(ctx, ref_dense(ctx, &x), 1, 3, 4), ref_wild(ctx, &dy)};
    syn_tensor out;
    CHECK(ref_check(ctx, built(ctx, SYN_OP_ACCUMULATE, in, 2, NULL, 0, &out), &want, 1e-6));
    syn_ctx_free(ctx);
}

/* ---- rows ---- */

/* dx = J' dy, where J is the Jacobian of softmax with the elements y_i (d_ij - y_j). */
static void test_softmax(void) {
    static ref y, dy, want;
    for (int round = 0; round < ROUNDS; round++) {
        ref_seed((uint64_t)round);
        ref_fill(&y, ref_random_spec(SYN_F32, 1, 5, true), 0, 1);
        ref_fill(&dy, y.spec, -2, 2);
        want.spec = y.spec;
        const int64_t n = width_of(&y);
        for (int64_t i = 0; i < syn_spec_elems(&y.spec); i++) {
            want.v[i] = 0;
            for (int64_t k = i - i % n; k < i - i % n + n; k++)
                want.v[i] += dy.v[k] * y.v[k] * ((k == i) - y.v[i]);
        }
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor in[2] = {dense_rows(ctx, &y), dense_rows(ctx, &dy)};
        syn_tensor out;
        CHECK(ref_check(ctx, built(ctx, SYN_OP_SOFTMAX_GRAD, in, 2, NULL, 0, &out), &want, 5e-6));
        syn_ctx_free(ctx);
    }
}

/* Computes the layernorm, or with `rms` the rmsnorm, of a row. */
static void normalized(bool rms, const double *x, int64_t n, double eps, double *y) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < n && !rms; i++) mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) / sqrt(square + eps);
}

/* The sum of a row's results, each multiplied by its gradient. */
static double row_loss(bool rms, const double *x, const ref *w, double offset, const double *dy,
                       int64_t n, double eps) {
    static double y[REF_MAX];
    double sum = 0;
    normalized(rms, x, n, eps, y);
    for (int64_t i = 0; i < n; i++) sum += y[i] * (w->v[i] + offset) * dy[i];
    return sum;
}

/* Compares dx with difference quotients, and the gradients of the parameters with sums over rows.
   Rows may be far from zero. */
static void test_norms(void) {
    static ref x, w, dy, dx, dw, db;
    static double row[REF_MAX];
    const double eps = 0.1, step = 1e-4;
    for (int round = 0; round < ROUNDS / 2; round++) {
        ref_seed((uint64_t)round);
        const bool rms = round % 4 > 1;
        const double offset = round % 8 > 5 ? 1 : 0;
        const double centre = round % 2 ? ref_real(-50, 50) : 0;
        ref_fill(&x, ref_random_spec(SYN_F32, 1, 4, false), centre - 3, centre + 3);
        ref_fill(&dy, x.spec, -2, 2);
        const int64_t n = width_of(&x);
        ref_fill(&w, (syn_spec){SYN_F32, 1, {n}}, -2, 2);
        dx.spec = x.spec;
        dw.spec = db.spec = w.spec;
        memset(dw.v, 0, sizeof dw.v);
        memset(db.v, 0, sizeof db.v);
        for (int64_t at = 0; at < syn_spec_elems(&x.spec); at += n) {
            for (int64_t i = 0; i < n; i++) {
                const double was = x.v[at + i];
                x.v[at + i] = was + step;
                dx.v[at + i] = row_loss(rms, x.v + at, &w, offset, dy.v + at, n, eps);
                x.v[at + i] = was - step;
                dx.v[at + i] -= row_loss(rms, x.v + at, &w, offset, dy.v + at, n, eps);
                dx.v[at + i] /= 2 * step;
                x.v[at + i] = was;
            }
            normalized(rms, x.v + at, n, eps, row);
            for (int64_t i = 0; i < n; i++) {
                dw.v[i] += dy.v[at + i] * row[i];
                db.v[i] += dy.v[at + i];
            }
        }
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor in[3] = {dense_rows(ctx, &x), ref_dense(ctx, &w), dense_rows(ctx, &dy)};
        syn_tensor out[3];
        const syn_op op = rms ? SYN_OP_RMSNORM_GRAD : SYN_OP_LAYERNORM_GRAD;
        const syn_attr attr[2] = {{.f = eps}, {.f = offset}};
        CHECK(ref_check(ctx, built(ctx, op, in, 3, attr, rms ? 2 : 1, out), &dx, 2e-5));
        CHECK(ref_check(ctx, out[1], &dw, 1e-5));
        if (!rms) CHECK(ref_check(ctx, out[2], &db, 1e-5));
        syn_ctx_free(ctx);
    }
}

/* ---- lookups ---- */

static void test_embedding(void) {
    static ref ids, dy, sum, want;
    for (int round = 0; round < ROUNDS; round++) {
        ref_seed((uint64_t)round);
        const int64_t rows = ref_int(1, 9), width = ref_int(1, 40), first = ref_int(-3, 3);
        /* The row that gets no gradient. */
        const int64_t padding = ref_int(0, 1) ? ref_int(0, 9) : -1;
        ref_fill(&ids, ref_random_spec(SYN_I32, 0, 3, true), -4, 14);
        syn_spec spec = ids.spec;
        spec.dtype = SYN_F32;
        spec.dims[spec.rank++] = width;
        if (syn_spec_elems(&spec) > REF_MAX) continue;
        ref_fill(&dy, spec, -2, 2);
        ref_fill(&sum, (syn_spec){SYN_F32, 2, {rows, width}}, -2, 2);
        want.spec = sum.spec;
        for (int which = 0; which < 2; which++) { /* begins with zero, and with a given sum */
            for (int64_t i = 0; i < rows * width; i++) want.v[i] = which ? sum.v[i] : 0;
            for (int64_t i = 0; i < syn_spec_elems(&dy.spec); i++) {
                const int64_t row = (int64_t)ids.v[i / width] - first;
                if (row >= 0 && row < rows && (int64_t)ids.v[i / width] != padding)
                    want.v[row * width + i % width] += dy.v[i];
            }
            syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
            const syn_tensor i = ref_wild(ctx, &ids), d = ref_wild(ctx, &dy);
            const syn_tensor got =
                which ? syn_embedding_grad_add(ctx, ref_dense(ctx, &sum), i, d, first, padding)
                      : syn_embedding_grad(ctx, i, d, first, rows, padding);
            CHECK(ref_check(ctx, got, &want, 5e-6));
            syn_ctx_free(ctx);
        }
    }
}

/* ---- sums and shapes ---- */

/* A random shape that can be broadcast to `out`: some leading dimensions are dropped, and others
   are 1. */
static syn_spec shrink(const syn_spec *out) {
    syn_spec s = {out->dtype, 0, {0}};
    const int drop = ref_int(0, 2) ? 0 : (int)ref_int(0, out->rank);
    for (int d = drop; d < out->rank; d++) s.dims[s.rank++] = ref_int(0, 2) ? out->dims[d] : 1;
    return s;
}

/* The index in `small` of the element that is broadcast to element `at` of `large`. */
static int64_t within(const syn_spec *small, const syn_spec *large, int64_t at) {
    int64_t index[SYN_MAX_RANK], own[SYN_MAX_RANK];
    ref_index(large, at, index);
    for (int d = 0; d < small->rank; d++)
        own[d] = small->dims[d] == 1 ? 0 : index[d + large->rank - small->rank];
    return ref_at(small, own);
}

static void test_sum_and_expand(void) {
    static ref x, sum, want;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        ref_seed((uint64_t)round);
        syn_spec spec = ref_random_spec(SYN_F32, 0, 5, true);
        if (round % 5 == 0) spec = (syn_spec){SYN_F32, 2, {ref_int(60, 200), ref_int(1, 20)}};
        ref_fill(&x, spec, -2, 2);
        sum.spec = shrink(&spec);
        memset(sum.v, 0, sizeof sum.v);
        want.spec = spec;
        for (int64_t i = 0; i < syn_spec_elems(&spec); i++)
            sum.v[within(&sum.spec, &spec, i)] += x.v[i];
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor s = syn_sum_to(ctx, ref_wild(ctx, &x), sum.spec.dims, sum.spec.rank);
        CHECK(ref_check(ctx, s, &sum, 1e-5));
        for (int64_t i = 0; i < syn_spec_elems(&spec); i++)
            want.v[i] = sum.v[within(&sum.spec, &spec, i)];
        CHECK(ref_check(ctx, syn_expand(ctx, s, spec.dims, spec.rank), &want, 1e-5));
        syn_ctx_free(ctx);
    }
}

/* Sums of a hundred thousand rows must not lose digits to float rounding. */
static void test_sums_of_many_rows(void) {
    enum { ROWS = 100000, WIDTH = 3 };
    const syn_spec spec = {SYN_F32, 2, {ROWS, WIDTH}};
    float *data = malloc(ROWS * WIDTH * sizeof *data), got[WIDTH];
    double want[WIDTH] = {0};
    for (int i = 0; i < ROWS * WIDTH; i++) {
        data[i] = (float)ref_real(0, 1);
        want[i % WIDTH] += (double)data[i];
    }
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
    const syn_tensor sum =
        syn_sum_to(ctx, syn_input(ctx, "x", &spec, data), (const int64_t[]){WIDTH}, 1);
    CHECK(syn_tensor_read(ctx, sum, got, sizeof got) == SYN_OK);
    for (int i = 0; i < WIDTH; i++) CHECK_NEAR(got[i] / want[i], 1, 1e-5);
    syn_ctx_free(ctx);
    free(data);
}

static void test_slice(void) {
    static ref x, sum, zeros, added;
    for (int round = 0; round < ROUNDS; round++) {
        ref_seed((uint64_t)round);
        ref_fill(&x, ref_random_spec(SYN_F32, 1, 5, true), -2, 2);
        const int axis = (int)ref_int(0, x.spec.rank - 1);
        const int64_t start = ref_int(0, 2);
        syn_spec spec = x.spec;
        spec.dims[axis] += start + ref_int(0, 2);
        if (syn_spec_elems(&spec) > REF_MAX) continue;
        ref_fill(&sum, spec, -2, 2);
        added = sum;
        zeros.spec = spec;
        memset(zeros.v, 0, sizeof zeros.v);
        for (int64_t i = 0; i < syn_spec_elems(&x.spec); i++) {
            int64_t index[SYN_MAX_RANK];
            ref_index(&x.spec, i, index);
            index[axis] += start;
            zeros.v[ref_at(&spec, index)] = x.v[i];
            added.v[ref_at(&spec, index)] += x.v[i];
        }
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_attr attr[3] = {{.i = axis}, {.i = start}, {.i = spec.dims[axis]}};
        const syn_tensor in[2] = {ref_wild(ctx, &sum), ref_wild(ctx, &x)};
        syn_tensor out;
        CHECK(ref_check(ctx, built(ctx, SYN_OP_SLICE_GRAD, in + 1, 1, attr, 3, &out), &zeros, 0));
        CHECK(ref_check(ctx, built(ctx, SYN_OP_SLICE_ADD, in, 2, attr, 2, &out), &added, 1e-6));
        syn_ctx_free(ctx);
    }
}

/* ---- products ---- */

static void test_matmul_add(void) {
    static ref a, b, sum, want;
    for (int round = 0; round < ROUNDS; round++) {
        ref_seed((uint64_t)round);
        const int64_t batch = ref_int(1, 3), m = ref_int(1, 12), k = ref_int(0, 12),
                      n = ref_int(1, 12);
        const bool ta = ref_int(0, 1), tb = ref_int(0, 1);
        ref_fill(&a, (syn_spec){SYN_F32, 3, {batch, ta ? k : m, ta ? m : k}}, -2, 2);
        ref_fill(&b, (syn_spec){SYN_F32, 3, {batch, tb ? n : k, tb ? k : n}}, -2, 2);
        ref_fill(&sum, (syn_spec){SYN_F32, 3, {batch, m, n}}, -2, 2);
        want = sum;
        for (int64_t i = 0; i < batch * m * n; i++) {
            const int64_t s = i / (m * n), r = i / n % m, c = i % n;
            for (int64_t j = 0; j < k; j++)
                want.v[i] += a.v[s * m * k + (ta ? j * m + r : r * k + j)] *
                             b.v[s * k * n + (tb ? c * k + j : j * n + c)];
        }
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        CHECK(ref_check(
            ctx,
            syn_matmul_add(ctx, ref_dense(ctx, &sum), ref_wild(ctx, &a), ref_wild(ctx, &b), ta, tb),
            &want, 1e-5));
        syn_ctx_free(ctx);
    }
}

static const test_case cases[] = {
    {"elements", test_elements},
    {"accumulate in a view", test_accumulate_in_a_view},
    {"softmax", test_softmax},
    {"norms", test_norms},
    {"embedding", test_embedding},
    {"sum and expand", test_sum_and_expand},
    {"sums of many rows", test_sums_of_many_rows},
    {"slice", test_slice},
    {"matmul_add", test_matmul_add},
};
TEST_MAIN(cases)
