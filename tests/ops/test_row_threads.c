/* Tests that row ops give the same bits with any number of threads as with one. */
#include "ops/rules.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

static const syn_tensor none = {0};

/* Output 0 of an op that only gradient rules build. The op has two or three inputs. */
static syn_tensor built(syn_ctx *ctx, syn_op op, syn_tensor a, syn_tensor b, syn_tensor c,
                        const syn_attr *attr) {
    const syn_tensor in[3] = {a, b, c};
    syn_tensor out[3];
    const int n_attr = op == SYN_OP_RMSNORM_GRAD ? 2 : attr ? 1 : 0;
    syn__call_op(ctx, op, in, c.id ? 3 : 2, attr, n_attr, NULL, out);
    return out[0];
}

/* The bytes of the results of all row ops, on dense and strided tensors that are large enough for
   several threads. */
static unsigned char *all_ops(int threads, size_t *bytes) {
    enum { OPS = 29 };
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
    const syn_tensor ids_in = syn_input(ctx, "i", &id_spec, ids);
    const syn_tensor dy = syn_embedding(ctx, table, ids_in, 3);
    const syn_tensor turned_back =
        syn_permute(ctx, syn_contiguous(ctx, turned), (const int[]){1, 0, 2, 3}, 4);
    const syn_tensor targets = syn_argmax(ctx, x), logits = syn_scale(ctx, x, 1);
    const syn_tensor loss = syn_cross_entropy(ctx, logits, targets, SYN_MEAN, 211);
    const syn_tensor results[OPS] = {
        syn_gelu(ctx, x, true),
        syn_gelu(ctx, turned, false),
        syn_tanh(ctx, x),
        syn_scale(ctx, turned, 0.3),
        syn_dropout(ctx, x, SYN_NO_KEYS, &(syn_dropout_options){.p = 0.3, .seed = 5, .sample = 7}),
        syn_scale_mask(ctx, turned, m, 0.5, true, 3),
        syn_softmax(ctx, turned),
        syn_layernorm(ctx, turned, r, r, 1e-5),
        syn_rmsnorm(ctx, turned, r, 1e-5),
        syn_swiglu(ctx, x, turned_back),
        built(ctx, SYN_OP_SWIGLU_GRAD, x, turned_back, x, NULL),
        built(ctx, SYN_OP_RMSNORM_GRAD, x, r, turned_back,
              (const syn_attr[]){{.f = 1e-5}, {.f = 1}}),
        syn_add(ctx, x, x),
        syn_add(ctx, turned, r),
        syn_mul(ctx, inner, inner),
        syn_contiguous(ctx, inner),
        syn_contiguous(ctx, turned),
        syn_concat(ctx, (const syn_tensor[]){x, x}, 2, 2),
        dy,
        syn_embedding_grad(ctx, ids_in, dy, 3, 555, -1),
        built(ctx, SYN_OP_GELU_GRAD, x, turned_back, none, &(syn_attr){.i = 1}),
        built(ctx, SYN_OP_SOFTMAX_GRAD, x, turned_back, none, NULL),
        built(ctx, SYN_OP_LAYERNORM_GRAD, x, r, turned_back, &(syn_attr){.f = 1e-5}),
        syn_sum_to(ctx, turned, (const int64_t[]){211}, 1),
        syn_sum_to(ctx, inner, (const int64_t[]){5, 1, 37}, 3),
        built(ctx, SYN_OP_ACCUMULATE, syn_scale(ctx, x, 2), turned_back, none, NULL),
        syn_square_sum(ctx, (const syn_tensor[]){x, r}, 2),
        loss,
        syn_current_version(ctx, logits)};
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
    CHECK(bytes > 20 * 3 * 5 * 37 * 211 * sizeof(float));
    for (int threads = 2; threads <= 5; threads++) {
        unsigned char *shared = all_ops(threads, &same);
        CHECK(same == bytes);
        CHECK_MSG(memcmp(alone, shared, bytes) == 0, "%d threads", threads);
        free(shared);
    }
    free(alone);
}

static const test_case cases[] = {
    {"threads", test_threads},
};
TEST_MAIN(cases)
