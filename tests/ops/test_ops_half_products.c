/* Compares linear, matmul and matmul_add on 16-bit floats, in every layout, with double precision
   on the same numbers. Also checks the dtypes of their gradients. */
#include "ops/rules.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

static const syn_dtype halves[2] = {SYN_F16, SYN_BF16};

/* Bit patterns of random numbers with a magnitude of at most 2. */
static void fill(ref *r, syn_dtype dtype, int rank, const int64_t *dims) {
    if (dtype == SYN_F16) ref_fill(r, ref_spec(dtype, rank, dims), 0x2c00, 0x4000);
    else ref_fill(r, ref_spec(dtype, rank, dims), 0x3d80, 0x4000);
    for (int64_t i = 0; i < syn_spec_elems(&r->spec); i++)
        if (ref_int(0, 1)) r->v[i] += 0x8000;
}

static double at(const ref *r, int64_t i) {
    if (r->spec.dtype == SYN_F32) return r->v[i];
    return ref_half((uint16_t)r->v[i], (syn_dtype)r->spec.dtype);
}

/* want += op(a) op(b), for each matrix of the batch. */
static void multiply(const ref *a, const ref *b, bool ta, bool tb, ref *want) {
    const int last = a->spec.rank - 1;
    const int64_t k = a->spec.dims[ta ? last - 1 : last];
    const int64_t m = want->spec.dims[last - 1], n = want->spec.dims[last];
    for (int64_t i = 0; i < syn_spec_elems(&want->spec); i++) {
        const int64_t batch = i / (m * n), row = i / n % m, column = i % n;
        for (int64_t p = 0; p < k; p++)
            want->v[i] += at(a, batch * m * k + (ta ? p * m + row : row * k + p)) *
                          at(b, batch * k * n + (tb ? column * k + p : p * n + column));
    }
}

static void zeros(ref *r, syn_dtype dtype, int rank, const int64_t *dims) {
    r->spec = ref_spec(dtype, rank, dims);
    memset(r->v, 0, sizeof r->v);
}

/* Whether t equals *want within half a unit in the last place of its dtype. */
static bool near(syn_ctx *ctx, syn_tensor t, const ref *want) {
    static uint16_t bits[REF_MAX];
    const double unit = want->spec.dtype == SYN_F16 ? 0x1p-11 : 0x1p-8;
    if (want->spec.dtype == SYN_F32) return ref_check(ctx, t, want, 1e-5);
    if (syn_ctx_status(ctx) != SYN_OK || !syn_spec_equal(syn_tensor_spec(ctx, t), &want->spec)) {
        fprintf(stderr, "no such tensor: %s\n", syn_ctx_error(ctx)->text);
        return false;
    }
    if (syn_tensor_read(ctx, t, bits, (size_t)syn_spec_bytes(&want->spec)) != SYN_OK) return false;
    for (int64_t i = 0; i < syn_spec_elems(&want->spec); i++) {
        const double got = ref_half(bits[i], (syn_dtype)want->spec.dtype);
        if (fabs(got - want->v[i]) <= unit * fabs(want->v[i]) + 1e-5) continue;
        fprintf(stderr, "element %lld: %.9g, want %.9g\n", (long long)i, got, want->v[i]);
        return false;
    }
    return true;
}

static void test_linear(void) {
    static ref x, w, bias, want;
    for (int round = 0; round < 300; round++) {
        ref_seed((uint64_t)round);
        const syn_dtype dtype = halves[round % 2];
        const bool t = ref_int(0, 1), with_bias = ref_int(0, 1);
        const int64_t k = ref_int(0, 30), n = ref_int(1, 40), rows[3] = {2, ref_int(1, 9), k};
        const int64_t w_dims[2] = {t ? n : k, t ? k : n};
        fill(&x, dtype, 3, rows);
        fill(&w, dtype, 2, w_dims);
        fill(&bias, dtype, 1, &n);
        zeros(&want, dtype, 3, (int64_t[]){1, 2 * rows[1], n});
        for (int64_t i = 0; with_bias && i < 2 * rows[1] * n; i++) want.v[i] = at(&bias, i % n);
        ref lines = x;
        lines.spec = ref_spec(dtype, 3, (int64_t[]){1, 2 * rows[1], k});
        multiply(&lines, &w, false, t, &want);
        want.spec = ref_spec(dtype, 3, (int64_t[]){2, rows[1], n});
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor b = with_bias ? ref_wild(ctx, &bias) : SYN_NO_BIAS;
        CHECK(near(ctx, syn_linear(ctx, ref_wild(ctx, &x), ref_wild(ctx, &w), b, t), &want));
        syn_ctx_free(ctx);
    }
}

/* Results have the inputs' dtype, are f32, or are added to f32. */
static void test_matmul(void) {
    static ref a, b, want, sum;
    for (int round = 0; round < 300; round++) {
        ref_seed((uint64_t)round);
        const syn_dtype dtype = halves[round % 2];
        const bool ta = ref_int(0, 1), tb = ref_int(0, 1);
        const int64_t batch = ref_int(1, 4), m = ref_int(1, 20), k = ref_int(0, 25);
        const int64_t n = ref_int(1, 40), dims[3] = {batch, m, n};
        fill(&a, dtype, 3, (int64_t[]){batch, ta ? k : m, ta ? m : k});
        fill(&b, dtype, 3, (int64_t[]){batch, tb ? n : k, tb ? k : n});
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor in[2] = {ref_wild(ctx, &a), ref_wild(ctx, &b)};
        zeros(&want, dtype, 3, dims);
        multiply(&a, &b, ta, tb, &want);
        CHECK(near(ctx, syn_matmul(ctx, in[0], in[1], ta, tb), &want));
        want.spec.dtype = SYN_F32;
        const syn_attr attr[3] = {{.i = ta}, {.i = tb}, {.i = SYN_F32}};
        syn_tensor wide;
        syn__call_op(ctx, SYN_OP_MATMUL, (syn_tensor[]){ref_dense(ctx, &a), ref_dense(ctx, &b)}, 2,
                     attr, 3, NULL, &wide);
        CHECK(near(ctx, wide, &want));
        ref_fill(&sum, ref_spec(SYN_F32, 3, dims), -2, 2);
        want = sum;
        multiply(&a, &b, ta, tb, &want);
        CHECK(near(ctx, syn_matmul_add(ctx, ref_dense(ctx, &sum), in[0], in[1], ta, tb), &want));
        syn_ctx_free(ctx);
    }
}

static void refused(syn_ctx *ctx, const char *sentence) {
    CHECK_STR(syn_ctx_error(ctx)->text, sentence);
    syn_ctx_free(ctx);
}

static void test_refused(void) {
    syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, NULL);
    syn_tensor h = ZEROS(ctx, SYN_BF16, 3, 3), out;
    const syn_attr attr[3] = {{.i = 0}, {.i = 0}, {.i = SYN_F16}};
    syn__call_op(ctx, SYN_OP_MATMUL, (syn_tensor[]){h, h}, 2, attr, 3, NULL, &out);
    refused(ctx, "matmul: the output dtype must be f32 or the inputs' dtype");
    ctx = ref_ctx(SYN_DEVICE_META, NULL);
    h = ZEROS(ctx, SYN_BF16, 3, 3);
    syn_linear(ctx, h, ZEROS(ctx, SYN_F16, 3, 3), SYN_NO_BIAS, false);
    refused(ctx, "linear: input 1 must be bf16, but is f16[3,3]");
    ctx = ref_ctx(SYN_DEVICE_META, NULL);
    h = ZEROS(ctx, SYN_BF16, 3, 3);
    out = ZEROS(ctx, SYN_BF16, 3, 3);
    syn_matmul_add(ctx, out, h, h, false, false);
    refused(ctx, "matmul_add: input 0 must be f32, contiguous and shaped like the product, but is "
                 "bf16[3,3]");
}

/* The gradient of a parameter is f32 after the first product, and further gradients are added in
   f32. */
static void test_gradient_dtypes(void) {
    static ref x, w, ones, want;
    const int64_t m = 6, k = 5, n = 4;
    ref_seed(1);
    for (int turned = 0; turned < 2; turned++) {
        const int64_t w_dims[2] = {turned ? n : k, turned ? k : n};
        fill(&x, SYN_BF16, 2, (int64_t[]){m, k});
        fill(&w, SYN_BF16, 2, w_dims);
        zeros(&ones, SYN_BF16, 2, (int64_t[]){m, n});
        for (int64_t i = 0; i < m * n; i++) ones.v[i] = 0x3f80;
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor tx = ref_dense(ctx, &x), tw = ref_dense(ctx, &w);
        syn_require_grad(ctx, tw);
        const syn_tensor in[3] = {tx, tw, {0}};
        syn_grad_call call = {.ctx = ctx,
                              .def = &syn_op_table[SYN_OP_LINEAR],
                              .n_in = 2,
                              .n_out = 1,
                              .attr = &(syn_attr){.i = turned},
                              .n_attr = 1,
                              .need = {true, true},
                              .seed = -1};
        memcpy(call.in, in, sizeof in);
        call.dout[0] = ref_dense(ctx, &ones);
        CHECK_INT(syn_grad_dtype(&call, 0), SYN_BF16);
        CHECK_INT(syn_grad_dtype(&call, 1), SYN_F32);
        call.def->grad(&call);
        zeros(&want, SYN_BF16, 2, (int64_t[]){m, k});
        multiply(&ones, &w, false, !turned, &want);
        CHECK(near(ctx, call.din[0], &want));
        zeros(&want, SYN_F32, 2, w_dims);
        multiply(turned ? &ones : &x, turned ? &x : &ones, true, false, &want);
        CHECK(near(ctx, call.din[1], &want));
        call.sum[1] = call.din[1];
        call.need[0] = false;
        call.def->grad(&call);
        for (int64_t i = 0; i < k * n; i++) want.v[i] *= 2;
        CHECK(near(ctx, call.din[1], &want));
        CHECK_INT(ref_count(ctx, SYN_OP_MATMUL_ADD), 1);
        syn_ctx_free(ctx);
    }
}

static const test_case cases[] = {
    {"linear", test_linear},
    {"matmul", test_matmul},
    {"refused", test_refused},
    {"gradient dtypes", test_gradient_dtypes},
};
TEST_MAIN(cases)
