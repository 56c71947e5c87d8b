/* Tests memory that queued work still uses: the scratch memory of a captured step, the staging
   memory of copies, and the memory in which kernels of a graph report errors. */
#include "syntorch/context.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

enum { WIDTH = 16 };

/* A step of six ops, two of which use scratch memory. */
static syn_tensor loss_of_step(syn_ctx *ctx, syn_tensor x, int32_t target) {
    const int64_t row[2] = {1, WIDTH}, one[1] = {1};
    const syn_spec spec = {SYN_I32, 1, {1}};
    const syn_tensor targets = syn_input(ctx, "targets", &spec, &target);
    const syn_tensor logits = syn_tanh(ctx, syn_scale(ctx, syn_reshape(ctx, x, row, 2), 1.5));
    syn_push_scope(ctx, "head");
    const syn_tensor loss = syn_cross_entropy(ctx, logits, targets, SYN_MEAN, WIDTH);
    syn_pop_scope(ctx);
    const syn_tensor squares = syn_reshape(ctx, syn_square_sum(ctx, &x, 1), one, 1);
    return syn_add(ctx, syn_silu(ctx, syn_reshape(ctx, loss, one, 1)), squares);
}

static syn_ctx *open_losses(syn_device device, syn_tensor *x) {
    syn_error err = {0};
    syn_ctx *ctx = NULL;
    const syn_spec spec = {SYN_F32, 1, {WIDTH}};
    float data[WIDTH];
    for (int i = 0; i < WIDTH; i++) data[i] = 0.1f * (float)i;
    NEED_OK(syn_ctx_new(&ctx, device, NULL, &err), err);
    *x = syn_input(ctx, "x", &spec, data);
    syn_next_step(ctx);
    return ctx;
}

/* Between two steps, another op needs more scratch memory than exists. This frees the scratch
   memory that the graph uses. */
static void test_scratch_memory_that_is_gone(void) {
    enum { MUCH = 1 << 20, STEPS = 10 };
    static const float zeros[MUCH];
    if (!ref_has_cuda()) SKIP("no CUDA device");
    float got[2][STEPS];
    for (int k = 0; k < 2; k++) {
        syn_tensor x;
        syn_ctx *ctx = open_losses(k ? SYN_DEVICE_CUDA : SYN_DEVICE_CPU, &x);
        const syn_mark mark = syn_ctx_mark(ctx);
        const uint64_t graphs = ref_cuda_calls("cudaGraphLaunch");
        /* Only the emulated device counts calls. */
        const bool counts = ref_cuda_calls("cudaMalloc") > 0;
        for (int i = 0; i < STEPS; i++) {
            const syn_tensor loss = loss_of_step(ctx, x, i);
            CHECK_OK(syn_tensor_read(ctx, loss, &got[k][i], sizeof(float)), *syn_ctx_error(ctx));
            if (i == 6) {
                const syn_spec much = {SYN_F32, 1, {MUCH}};
                const syn_tensor y = syn_input(ctx, "y", &much, zeros);
                syn_square_sum(ctx, &y, 1);
            }
            syn_forget(ctx, mark, NULL, 0);
            syn_next_step(ctx);
        }
        /* Every step after the second is one graph launch, except the eighth. */
        if (k && counts) CHECK_INT(ref_cuda_calls("cudaGraphLaunch") - graphs, 7);
        CHECK_OK(syn_ctx_status(ctx), *syn_ctx_error(ctx));
        syn_ctx_free(ctx);
    }
    for (int i = 0; i < STEPS; i++) CHECK_NEAR(got[1][i], got[0][i], 1e-4);
}

/* The error message names the op, even if a graph launched it. */
static void test_errors_of_graph_kernels(void) {
    enum { STEPS = 6 };
    if (!ref_has_cuda()) SKIP("no CUDA device");
    syn_tensor x;
    syn_ctx *ctx = open_losses(SYN_DEVICE_CUDA, &x);
    const syn_mark mark = syn_ctx_mark(ctx);
    const uint64_t graphs = ref_cuda_calls("cudaGraphLaunch");
    for (int i = 0; i <= STEPS; i++) {
        float loss = 0;
        const syn_tensor y = loss_of_step(ctx, x, i < STEPS ? i : WIDTH);
        const syn_status s = syn_tensor_read(ctx, y, &loss, sizeof loss);
        CHECK_INT(s == SYN_OK, i < STEPS);
        syn_forget(ctx, mark, NULL, 0);
        syn_next_step(ctx);
    }
    if (ref_cuda_calls("cudaMalloc") > 0) CHECK(ref_cuda_calls("cudaGraphLaunch") - graphs >= 4);
    CHECK_STR(syn_ctx_error(ctx)->text,
              "cross_entropy in head: a target is 16, which is out of range: there are 16 classes");
    syn_ctx_free(ctx);
}

/* Copies more bytes to the device than its staging memory holds, before the device has read any of
   them. */
static void test_copies_in_of_a_busy_device(void) {
    enum { N = 5 << 20 };
    if (!ref_has_cuda()) SKIP("no CUDA device");
    syn_ctx *ctx;
    syn_error err = {0};
    const syn_spec spec = {SYN_I32, 1, {N}};
    int32_t *data = malloc(N * sizeof *data);
    NEED(data, "out of memory");
    for (int i = 0; i < N; i++) data[i] = i;
    setenv("SYN_EMULATED_LAZY", "1", 1);
    CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_CUDA, NULL, &err), err);
    unsetenv("SYN_EMULATED_LAZY");
    const syn_tensor x = syn_input(ctx, "x", &spec, data);
    memset(data, 0, N * sizeof *data);
    CHECK_INT(syn_tensor_read(ctx, x, data, N * sizeof *data), SYN_OK);
    for (int i = 0; i < N; i++) CHECK_INT(data[i], i);
    syn_ctx_free(ctx);
    free(data);
}

/* The CPU reports no device properties. */
static void test_what_a_device_is(void) {
    if (!ref_has_cuda()) SKIP("no CUDA device");
    for (int k = 0; k < 2; k++) {
        syn_error err = {0};
        syn_ctx *ctx = NULL;
        syn_device_info device_info;
        NEED_OK(syn_ctx_new(&ctx, k ? SYN_DEVICE_CUDA : SYN_DEVICE_CPU, NULL, &err), err);
        syn_ctx_device_info(ctx, &device_info);
        CHECK((device_info.name[0] != '\0') == k && (device_info.multiprocessors > 0) == k);
        CHECK_INT(device_info.devices, k ? ref_cuda_devices() : 0);
        syn_ctx_free(ctx);
    }
}

/* Limits the emulated device's memory. Stores the previous limit in `before`, for end_limit. */
static void limit_memory(int64_t bytes, char *before, size_t size) {
    const char *was = getenv("SYN_EMULATED_MEMORY");
    char text[32];
    snprintf(before, size, "%s", was ? was : "");
    snprintf(text, sizeof text, "%lld", (long long)bytes);
    setenv("SYN_EMULATED_MEMORY", text, 1);
}

static void end_limit(const char *before) {
    if (*before) setenv("SYN_EMULATED_MEMORY", before, 1);
    else unsetenv("SYN_EMULATED_MEMORY");
}

enum { MIB = 1 << 20, ROWS = 8, IN = 2048, OUT = 2048 };

/* A product with a 16-bit matrix, which is widened in 16 MiB of scratch memory. */
static syn_tensor widened(syn_ctx *ctx, syn_tensor x, syn_tensor w) {
    const syn_tensor y = syn_linear(ctx, x, w, (syn_tensor){0}, false);
    return syn_square_sum(ctx, &y, 1);
}

/* Scratch memory and cuBLASLt's workspace must grow although the device is full. If cached buffers
   fill it, they are freed; if tensors fill it, the op fails. */
static void test_scratch_memory_of_a_full_device(void) {
    enum { ALL = 64 };
    if (!ref_has_cuda()) SKIP("no CUDA device");
    if (ref_cuda_calls("cudaMalloc") == 0) SKIP("the device is not emulated");
    float got[2] = {0}, *data = calloc(ROWS * IN, sizeof *data);
    uint16_t *half = malloc(IN * OUT * sizeof *half);
    char before[64];
    const syn_spec of_x = {SYN_F32, 2, {ROWS, IN}}, of_w = {SYN_BF16, 2, {IN, OUT}};
    NEED(data && half, "out of memory");
    for (int i = 0; i < ROWS * IN; i++) data[i] = (float)(i % 7) * 0.01f;
    for (int i = 0; i < IN * OUT; i++) half[i] = (uint16_t)(0x3c00 + i % 64);
    for (int k = 0; k < 2; k++) {
        syn_error err = {0};
        syn_ctx *ctx = NULL;
        NEED_OK(syn_ctx_new(&ctx, k ? SYN_DEVICE_CUDA : SYN_DEVICE_CPU, NULL, &err), err);
        limit_memory((int64_t)ALL * MIB, before, sizeof before);
        const syn_tensor x = syn_input(ctx, "x", &of_x, data), w = syn_input(ctx, "w", &of_w, half);
        const syn_mark mark = syn_ctx_mark(ctx);
        for (int mib = 5; mib < 9; mib++) /* All sizes differ, so that no buffer is reused. */
            syn_state(ctx, "large", &(syn_spec){SYN_F32, 1, {mib * (MIB / 2)}});
        for (int mib = 9; mib < 13; mib++) syn_state(ctx, "large", &(syn_spec){SYN_F32, 1, {mib}});
        syn_forget(ctx, mark, NULL, 0);
        const uint64_t frees = ref_cuda_calls("cudaFree");
        const syn_tensor y = widened(ctx, x, w);
        CHECK_OK(syn_tensor_read(ctx, y, &got[k], sizeof got[k]), *syn_ctx_error(ctx));
        if (k) CHECK(ref_cuda_calls("cudaFree") >= frees + 8);
        end_limit(before);
        syn_ctx_free(ctx);
    }
    CHECK_NEAR(got[1], got[0], 1e-4 * (double)got[0]);
    syn_error err = {0};
    syn_ctx *ctx = NULL;
    NEED_OK(syn_ctx_new(&ctx, SYN_DEVICE_CUDA, NULL, &err), err);
    limit_memory((int64_t)ALL * MIB, before, sizeof before);
    const syn_tensor x = syn_input(ctx, "x", &of_x, data), w = syn_input(ctx, "w", &of_w, half);
    for (int i = 0; i < 11; i++) syn_state(ctx, "large", &(syn_spec){SYN_F32, 1, {MIB}});
    CHECK_INT(syn_tensor_read(ctx, widened(ctx, x, w), got, sizeof *got), SYN_E_NOMEM);
    CHECK_HAS(syn_ctx_error(ctx)->text,
              "out of memory: 16777216 bytes for a kernel's scratch memory, but only 0.0");
    CHECK_HAS(syn_ctx_error(ctx)->text, "of the device's 0.06 GiB are free (tensors use 0.05 GiB)");
    end_limit(before);
    syn_ctx_free(ctx);
    free(data);
    free(half);
}

/* Tensors fill the device, so freeing cached buffers is not enough. */
static void test_workspace_of_a_full_device(void) {
    if (!ref_has_cuda()) SKIP("no CUDA device");
    if (ref_cuda_calls("cudaMalloc") == 0) SKIP("the device is not emulated");
    char before[64];
    syn_error err = {0};
    syn_ctx *ctx = NULL;
    const syn_spec x = {SYN_F32, 2, {64, 64}}, other = {SYN_F32, 1, {1 << 16}};
    NEED_OK(syn_ctx_new(&ctx, SYN_DEVICE_CUDA, NULL, &err), err);
    const syn_tensor in[2] = {syn_input(ctx, "x", &x, NULL), syn_input(ctx, "w", &x, NULL)};
    const syn_mark mark = syn_ctx_mark(ctx);
    syn_state(ctx, "result", &x);
    syn_state(ctx, "other", &other);
    syn_forget(ctx, mark, NULL, 0);
    const uint64_t frees = ref_cuda_calls("cudaFree");
    limit_memory(1, before, sizeof before);
    syn_linear(ctx, in[0], in[1], (syn_tensor){0}, false);
    CHECK_INT(syn_ctx_status(ctx), SYN_E_NOMEM);
    CHECK_HAS(syn_ctx_error(ctx)->text,
              "out of memory: 1024 bytes for cuBLASLt's workspace, where 0.00 of the device's");
    CHECK_INT(ref_cuda_calls("cudaFree") - frees, 1);
    end_limit(before);
    syn_ctx_free(ctx);
}

static const test_case cases[] = {
    {"workspace of a full device", test_workspace_of_a_full_device},
    {"scratch memory of a full device", test_scratch_memory_of_a_full_device},
    {"scratch memory that is gone", test_scratch_memory_that_is_gone},
    {"what is wrong within a graph", test_errors_of_graph_kernels},
    {"copies in of a busy device", test_copies_in_of_a_busy_device},
    {"what a device is", test_what_a_device_is},
};
TEST_MAIN(cases)
