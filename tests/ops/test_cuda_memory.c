/* Memory that work under way uses: scratch memory of a captured step, staging memory of copies, and
   where a kernel of a graph notes what is wrong. */
#include "syntorch/context.h"
#include "tests/support/ops_reference.h"
#include "tests/support/test.h"

enum { WIDTH = 16 };

/* Six ops, two of which use scratch memory. */
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

/* Between two steps something else asks for more scratch memory than there was: that of the graph
   is gone. */
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
        const bool counts = ref_cuda_calls("cudaMalloc") > 0; /* the emulated device does */
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
        /* From the third on, but for the eighth. */
        if (k && counts) CHECK_INT(ref_cuda_calls("cudaGraphLaunch") - graphs, 7);
        CHECK_OK(syn_ctx_status(ctx), *syn_ctx_error(ctx));
        syn_ctx_free(ctx);
    }
    for (int i = 0; i < STEPS; i++) CHECK_NEAR(got[1][i], got[0][i], 1e-4);
}

/* The sentence names the op, though a graph ran it. */
static void test_what_is_wrong_within_a_graph(void) {
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
              "cross_entropy in head: a target is 16, which is no class of 16");
    syn_ctx_free(ctx);
}

/* More than the staging memory holds goes in before the device has read any of it. */
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

/* The CPU tells nothing of itself. */
static void test_what_a_device_is(void) {
    if (!ref_has_cuda()) SKIP("no CUDA device");
    for (int k = 0; k < 2; k++) {
        syn_error err = {0};
        syn_ctx *ctx = NULL;
        syn_device_facts facts;
        NEED_OK(syn_ctx_new(&ctx, k ? SYN_DEVICE_CUDA : SYN_DEVICE_CPU, NULL, &err), err);
        syn_ctx_device_facts(ctx, &facts);
        CHECK((facts.name[0] != '\0') == k && (facts.multiprocessors > 0) == k);
        CHECK_INT(facts.devices, k ? ref_cuda_devices() : 0);
        syn_ctx_free(ctx);
    }
}

static const test_case cases[] = {
    {"scratch memory that is gone", test_scratch_memory_that_is_gone},
    {"what is wrong within a graph", test_what_is_wrong_within_a_graph},
    {"copies in of a busy device", test_copies_in_of_a_busy_device},
    {"what a device is", test_what_a_device_is},
};
TEST_MAIN(cases)
