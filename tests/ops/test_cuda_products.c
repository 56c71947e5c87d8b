/* Compares matrix products on CUDA with the CPU: sizes near those of tiles and packs, few rows,
   operands in any layout, and batches with one or several strides. */

#include "tests/support/both_devices.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

/* The tolerance for sums of k products of numbers up to 1. A 16-bit result may differ by one
   unit. */
static double tolerance(syn_dtype out) {
    return out == SYN_F32 ? 1e-5 : out == SYN_F16 ? 2e-3 : 1.6e-2;
}

static syn_tensor matrix(syn_ctx *ctx, syn_dtype dtype, int64_t rows, int64_t columns,
                         double most) {
    const syn_spec spec = {(int32_t)dtype, 2, {rows, columns}};
    return ref_int(0, 2) ? both_dense(ctx, spec, -most, most) : both_wild(ctx, spec, -most, most);
}

/* A bias whose address may not be a multiple of 16 bytes. */
static syn_tensor random_bias(syn_ctx *ctx, syn_dtype dtype, int64_t n) {
    const syn_spec spec = {(int32_t)dtype, 1, {n}};
    return ref_int(0, 1) ? both_wild(ctx, spec, -1, 1) : both_dense(ctx, spec, -1, 1);
}

static void linear_of(both_run *r, int64_t m, int64_t n, int64_t k) {
    const syn_dtype dtype = both_float(), narrow = dtype == SYN_F32 ? both_float() : dtype;
    const bool turned = ref_int(0, 1);
    const double most = 1 / sqrt((double)k + 1);
    const syn_tensor x = matrix(r->ctx, dtype, m, k, 1);
    const syn_tensor w = matrix(r->ctx, narrow, turned ? n : k, turned ? k : n, most);
    const syn_tensor bias = ref_int(0, 1) ? random_bias(r->ctx, dtype, n) : SYN_NO_BIAS;
    r->out[0] = syn_linear(r->ctx, x, w, bias, turned);
    r->n = 1;
    r->tol = tolerance(dtype);
}

static void linears(both_run *r) {
    const int64_t m = both_size(140), n = both_size(140), k = both_size(200);
    linear_of(r, ref_int(0, 29) ? m : 0, ref_int(0, 29) ? n : 0, ref_int(0, 29) ? k : 0);
}

/* Few rows, for which there are special kernels. */
static void few_rows(both_run *r) {
    linear_of(r, ref_int(1, 4), both_size(ref_int(0, 1) ? 300 : 5000), both_size(700));
}

/* Sums that are so long that several blocks or warps share one. */
static void long_rows(both_run *r) {
    linear_of(r, ref_int(1, 4), ref_int(0, 1) ? 8 * ref_int(1, 9) : both_size(40),
              ref_int(0, 1) ? 64 * ref_int(20, 90) : ref_int(1000, 6000));
}

/* The rows of x are strided, or all rows are the same row. */
static void rows_apart(both_run *r) {
    const syn_dtype dtype = both_float();
    const int64_t m = both_size(20), n = both_size(70), k = both_size(70);
    const syn_spec stored = {(int32_t)dtype, 3, {m, 3, k}};
    const syn_tensor x = syn_slice(r->ctx, both_dense(r->ctx, stored, -1, 1), 1, 1, 1);
    r->out[0] =
        syn_linear(r->ctx, x, matrix(r->ctx, dtype, k, n, 1 / sqrt((double)k)), SYN_NO_BIAS, false);
    r->n = 1;
    r->tol = tolerance(dtype);
}

/* A tensor (B, H, M, K). Its dimensions B and H can be merged, cannot be merged, or are swapped. */
static syn_tensor entries(syn_ctx *ctx, syn_spec spec) {
    const syn_spec turned = {
        spec.dtype, 4, {spec.dims[0], spec.dims[2], spec.dims[1], spec.dims[3]}};
    switch (ref_int(0, 2)) {
    case 0:
        return both_dense(ctx, spec, -1, 1);
    case 1:
        return syn_permute(ctx, both_dense(ctx, turned, -1, 1), (int[]){0, 2, 1, 3}, 4);
    default:
        return both_wild(ctx, spec, -1, 1);
    }
}

static void matmuls(both_run *r) {
    const syn_dtype dtype = both_float();
    const bool ta = ref_int(0, 1), tb = ref_int(0, 1);
    const int64_t b = ref_int(0, 29) ? ref_int(1, 3) : 0, h = ref_int(1, 4);
    const int64_t m = both_size(70), n = both_size(70), k = ref_int(0, 29) ? both_size(70) : 0;
    const syn_spec x = {(int32_t)dtype, 4, {b, h, ta ? k : m, ta ? m : k}};
    const syn_spec y = {(int32_t)dtype, 4, {b, h, tb ? n : k, tb ? k : n}};
    const syn_spec sum = {SYN_F32, 4, {b, h, m, n}};
    const syn_tensor p = entries(r->ctx, x), q = entries(r->ctx, y);
    r->out[0] = syn_matmul(r->ctx, p, q, ta, tb);
    r->out[1] = syn_matmul_add(r->ctx, both_dense(r->ctx, sum, -9, 9), p, q, ta, tb);
    r->n = 2;
    r->tol = 4 * tolerance(dtype);
}

/* The gradient of a weight. It is added to a sum in f32, even if the inputs are 16-bit. */
static void weights(both_run *r) {
    const syn_dtype dtype = both_float();
    const int64_t rows = both_size(300), m = both_size(70), n = both_size(70);
    const syn_tensor x = matrix(r->ctx, dtype, rows, m, 1), y = matrix(r->ctx, dtype, rows, n, 1);
    const syn_spec sum = {SYN_F32, 2, {m, n}};
    r->out[0] = syn_matmul_add(r->ctx, both_dense(r->ctx, sum, -1, 1), x, y, true, false);
    r->n = 1;
    r->tol = 2e-5;
}

/* One cuBLASLt plan is used for all products of the same kind. */
static void test_plans_are_kept(void) {
    static const char *const none[] = {"cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmulDescCreate",
                                       "cudaMalloc", "cudaStreamSynchronize"};
    const syn_spec x = {SYN_BF16, 2, {64, 96}}, y = {SYN_BF16, 2, {96, 32}};
    uint64_t before[COUNT(none)];
    syn_error err = {0};
    syn_ctx *ctx;
    if (!ref_has_cuda()) SKIP("no CUDA device");
    NEED_OK(syn_ctx_new(&ctx, SYN_DEVICE_CUDA, NULL, &err), err);
    const uint64_t first = ref_cuda_calls("cublasLtMatmul");
    const syn_tensor a = both_dense(ctx, x, -1, 1), b = both_dense(ctx, y, -1, 1);
    const syn_mark mark = syn_ctx_mark(ctx);
    for (int i = 0; i < 5; i++) {
        const syn_tensor c = syn_linear(ctx, a, b, SYN_NO_BIAS, false);
        syn_matmul(ctx, a, c, true, false);
        CHECK_OK(syn_ctx_status(ctx), *syn_ctx_error(ctx));
        syn_forget(ctx, mark, NULL, 0);
        for (size_t k = 0; i == 1 && k < COUNT(none); k++) before[k] = ref_cuda_calls(none[k]);
    }
    for (size_t k = 0; k < COUNT(none); k++)
        CHECK_MSG(ref_cuda_calls(none[k]) == before[k], "%s", none[k]);
    if (ref_cuda_calls("cudaMalloc") > 0) CHECK_INT(ref_cuda_calls("cublasLtMatmul") - first, 10);
    syn_ctx_free(ctx);
}

/* 1 + 2^-12 cannot be represented in TF32, which may be used only if requested. */
static void test_tf32_is_asked_for(void) {
    enum { ROWS = 8 };
    const syn_spec x = {SYN_F32, 2, {ROWS, 1}}, y = {SYN_F32, 2, {1, 1}};
    const float wanted = 1.000244140625f, one = 1;
    float data[ROWS], got[ROWS];
    if (!ref_has_cuda()) SKIP("no CUDA device");
    for (int i = 0; i < ROWS; i++) data[i] = wanted;
    for (int tf32 = 0; tf32 < 2; tf32++) {
        syn_error err = {0};
        syn_ctx *ctx;
        setenv("SYNTORCH_CUDA_TF32", tf32 ? "1" : "0", 1);
        NEED_OK(syn_ctx_new(&ctx, SYN_DEVICE_CUDA, NULL, &err), err);
        const syn_tensor z = syn_linear(ctx, syn_input(ctx, "x", &x, data),
                                        syn_input(ctx, "y", &y, &one), SYN_NO_BIAS, false);
        CHECK_INT(syn_tensor_read(ctx, z, got, sizeof got), SYN_OK);
        if (!tf32) CHECK(got[0] == wanted && got[ROWS - 1] == wanted);
        /* Real hardware may be more precise. */
        else if (ref_cuda_calls("cudaMalloc") > 0) CHECK(got[0] == 1);
        syn_ctx_free(ctx);
    }
    unsetenv("SYNTORCH_CUDA_TF32");
}

#define EACH(f, n)               \
    static void test_##f(void) { \
        both_rounds(f, n);       \
    }
EACH(linears, 150)
EACH(few_rows, 120)
EACH(long_rows, 60)
EACH(rows_apart, 40)
EACH(matmuls, 120)
EACH(weights, 60)

static const test_case cases[] = {{"linears", test_linears},
                                  {"few rows", test_few_rows},
                                  {"long rows", test_long_rows},
                                  {"rows apart", test_rows_apart},
                                  {"matmuls", test_matmuls},
                                  {"weights", test_weights},
                                  {"plans are kept", test_plans_are_kept},
                                  {"tf32 is asked for", test_tf32_is_asked_for}};
TEST_MAIN(cases)
