/* Tests ops that mix 16-bit types and f32: casts, gradients of bf16 parameters and their sums in
   f32, and combinations that are rejected. test_ops_half.c tests the kernels. */
#include "syntorch/base/half.h"

#include "ops/rules.h"
#include "syntorch/gradient.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

/* ---- cast ---- */

static double bits_or_value(float value, syn_dtype dtype) {
    uint16_t bits;
    if (dtype == SYN_F32) return (double)value;
    syn_half_narrow(&value, &bits, 1, dtype);
    return bits;
}

static void test_cast(void) {
    static const syn_dtype types[3] = {SYN_F32, SYN_F16, SYN_BF16};
    static ref x, want;
    for (int round = 0; round < 180; round++) {
        ref_seed((uint64_t)round + 1);
        const syn_dtype from = types[round % 3], to = types[round / 3 % 3];
        const bool wide = ref_int(0, 5) == 0;
        ref_fill(&x,
                 wide ? ref_spec(SYN_F32, 2, (const int64_t[]){1, 3000})
                      : ref_random_spec(SYN_F32, 0, 5, true),
                 -70000, 70000);
        want.spec = x.spec;
        x.spec.dtype = (int32_t)from;
        want.spec.dtype = (int32_t)to;
        for (int64_t i = 0; i < syn_spec_elems(&x.spec); i++) {
            x.v[i] = bits_or_value((float)(i % 7 ? x.v[i] : x.v[i] * 1e-12), from);
            if (from != SYN_F32 && ((int)x.v[i] & 0x7c00) == 0x7c00) x.v[i] = 0x0400;
            const double value = from == SYN_F32 ? x.v[i] : ref_half((uint16_t)x.v[i], from);
            want.v[i] = bits_or_value((float)value, to);
        }
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_CPU, NULL);
        const syn_tensor t = ref_wild(ctx, &x), y = syn_cast(ctx, t, to);
        CHECK(ref_check(ctx, y, &want, 0));
        CHECK((y.id == t.id) == (from == to));
        syn_ctx_free(ctx);
    }
}

/* ---- gradients ---- */

enum { LEAVES = 7 };

/* A small network with all combinations of gradient dtypes. It has a lookup, a normalization, a
   product with bias, slices of one product, a parameter that is used twice, and one that is
   sliced. */
static syn_tensor network(syn_ctx *ctx, const syn_tensor p[LEAVES], syn_tensor ids,
                          syn_tensor classes) {
    syn_tensor x = syn_embedding(ctx, p[0], ids, 0);
    x = syn_add(ctx, x, syn_slice(ctx, p[1], 0, 1, 6));
    x = syn_layernorm(ctx, x, p[2], p[3], 1e-5);
    const syn_tensor y = syn_linear(ctx, x, p[4], p[5], false);
    const syn_tensor a = syn_slice(ctx, y, 1, 0, 8), b = syn_slice(ctx, y, 1, 8, 8);
    x = syn_add(ctx, x, syn_mul(ctx, syn_gelu(ctx, a, true), syn_tanh(ctx, b)));
    x = syn_mul(ctx, x, p[6]);
    const syn_dtype dtype = (syn_dtype)syn_tensor_spec(ctx, x)->dtype;
    x = syn_scale(ctx, syn_cast(ctx, syn_cast(ctx, x, SYN_F32), dtype), 2.0);
    return syn_cross_entropy(ctx, syn_linear(ctx, x, p[0], SYN_NO_BIAS, true), classes, SYN_MEAN,
                             11);
}

/* Computes the gradients of the network, adds those of a second batch, and stores them in `grads`
   one after the other. */
static void network_grads(syn_device device, bool wide, float *grads, uint64_t *hash) {
    static const int64_t dims[LEAVES][2] = {{11, 8}, {9, 8},  {0, 8}, {0, 8},
                                            {8, 16}, {0, 16}, {0, 8}};
    syn_ctx *ctx = ref_ctx(device, NULL);
    syn_tensor p[LEAVES], ids, classes;
    const syn_tensor *all = p;
    static ref values;
    ref_seed(77);
    for (int i = 0; i < LEAVES; i++) {
        const bool row = dims[i][0] == 0;
        ref_fill(&values, ref_spec(SYN_F32, row ? 1 : 2, row ? &dims[i][1] : dims[i]), -1, 1);
        for (int64_t k = 0; k < syn_spec_elems(&values.spec); k++) {
            const double bits = bits_or_value((float)values.v[k], SYN_BF16);
            values.v[k] = wide ? ref_half((uint16_t)bits, SYN_BF16) : bits;
        }
        values.spec.dtype = wide ? SYN_F32 : SYN_BF16;
        p[i] = ref_dense(ctx, &values);
        syn_require_grad(ctx, p[i]);
    }
    for (int batch = 0; batch < 2; batch++) {
        ref_fill(&values, ref_spec(SYN_I32, 1, (const int64_t[]){6}), 0, 10);
        ids = ref_dense(ctx, &values);
        ref_fill(&values, values.spec, 0, 10);
        classes = ref_dense(ctx, &values);
        const syn_tensor loss = network(ctx, all, ids, classes);
        CHECK_MSG(syn_backward(ctx, loss) == SYN_OK, "%s", syn_ctx_error(ctx)->text);
    }
    for (int i = 0; i < LEAVES; i++) {
        const syn_tensor g = syn_grad(ctx, p[i]);
        const size_t n = (size_t)syn_spec_elems(syn_tensor_spec(ctx, g));
        CHECK_INT(syn_tensor_spec(ctx, g)->dtype, SYN_F32);
        if (device == SYN_DEVICE_CPU)
            CHECK(syn_tensor_read(ctx, g, grads, n * sizeof *grads) == SYN_OK);
        grads += n;
    }
    *hash = syn_trace_hash(syn_ctx_trace(ctx));
    syn_ctx_free(ctx);
}

/* In bf16, everything except sums is rounded to 8 bits. About ten roundings accumulate. */
static void test_gradients_of_bf16(void) {
    enum { ELEMS = 11 * 8 + 9 * 8 + 8 + 8 + 8 * 16 + 16 + 8 };
    static float wide[ELEMS], half[ELEMS], none[ELEMS];
    uint64_t hash = 0, hashes[2] = {0};
    double error = 0, size = 0;
    network_grads(SYN_DEVICE_CPU, true, wide, &hash);
    network_grads(SYN_DEVICE_CPU, false, half, &hashes[0]);
    network_grads(SYN_DEVICE_META, false, none, &hashes[1]);
    CHECK(hashes[0] == hashes[1] && hash != hashes[0]);
    for (int i = 0; i < ELEMS; i++) {
        error += ((double)half[i] - (double)wide[i]) * ((double)half[i] - (double)wide[i]);
        size += (double)wide[i] * (double)wide[i];
    }
    CHECK_MSG(sqrt(error / size) < 0.02 && sqrt(error / size) > 1e-5, "%g", sqrt(error / size));
}

/* ---- what is rejected ---- */

static void test_mixed(void) {
    static const char *const sentences[] = {
        "add: input 1 must be bf16 like input 0, but is f32[2,3]",
        "mul: input 1 must be f32 like input 0, but is bf16[2,3]",
        "layernorm: input 1 must be bf16 like input 0, but is f32[3]",
        "layernorm: input 2 must be f32 like input 0, but is f16[3]",
        "accumulate: input 0 must be f16, but is bf16[2,3]",
        "slice_add: input 0 must be f32, but is bf16[2,3]",
        "gelu_grad: input 1 must be like input 0, but is f32[2,3]",
        "scale_mask: input 1 must be f32, but is bf16[1,3]",
        "cast: input 0 must be f32, f16 or bf16, but is i32[2]",
        "cast: the new dtype must be f32, f16 or bf16",
        ("concat: input 1 must be like input 0 except in the concatenated dimension, but is "
         "f32[2,3]"),
        "kv_append: input 1 must be (B, H, T, D) like the cache, but is bf16[1,1,2,3]",
        "sum_to: input 0 must be f32, f16 or bf16, but is i32[2]",
    };
    for (size_t i = 0; i < COUNT(sentences); i++) {
        syn_ctx *ctx = ref_ctx(SYN_DEVICE_META, NULL);
        const syn_tensor f = ZEROS(ctx, SYN_F32, 2, 3), b = ZEROS(ctx, SYN_BF16, 2, 3),
                         h = ZEROS(ctx, SYN_F16, 2, 3), row = ZEROS(ctx, SYN_F32, 3),
                         h_row = ZEROS(ctx, SYN_F16, 3), b_row = ZEROS(ctx, SYN_BF16, 3),
                         of_ids = ZEROS(ctx, SYN_I32, 2);
        const syn_tensor pairs[3][2] = {{b, h}, {b, f}, {b, f}};
        const syn_attr attr[2] = {{.i = 0}, {.i = 0}};
        syn_tensor out[2];
        if (i == 0) syn_add(ctx, b, f);
        if (i == 1) syn_mul(ctx, f, b);
        if (i == 2) syn_layernorm(ctx, b, row, b_row, 1e-5);
        if (i == 3) syn_layernorm(ctx, f, row, h_row, 1e-5);
        if (i == 4) syn__call_op(ctx, SYN_OP_ACCUMULATE, pairs[0], 2, NULL, 0, NULL, out);
        if (i == 5) syn__call_op(ctx, SYN_OP_SLICE_ADD, pairs[1], 2, attr, 2, NULL, out);
        if (i == 6) syn__call_op(ctx, SYN_OP_GELU_GRAD, pairs[2], 2, attr, 1, NULL, out);
        if (i == 7)
            syn_scale_mask(ctx, ZEROS(ctx, SYN_BF16, 1, 1, 2, 3), ZEROS(ctx, SYN_BF16, 1, 3), 1,
                           false, 0);
        if (i == 8) syn_cast(ctx, of_ids, SYN_F32);
        if (i == 9) syn_cast(ctx, f, SYN_I32);
        if (i == 10) syn_concat(ctx, pairs[1], 2, 0);
        if (i == 11)
            syn_kv_append(ctx, ZEROS(ctx, SYN_F32, 1, 1, 4, 3), ZEROS(ctx, SYN_BF16, 1, 1, 2, 3),
                          0);
        if (i == 12) syn_sum_to(ctx, of_ids, NULL, 0);
        CHECK_STR(syn_ctx_error(ctx)->text, sentences[i]);
        syn_ctx_free(ctx);
    }
}

static const test_case cases[] = {
    {"cast", test_cast},
    {"gradients of bf16", test_gradients_of_bf16},
    {"mixed", test_mixed},
};
TEST_MAIN(cases)
