/* Tests that steps whose rows are forgotten allocate nothing, neither for tensors nor for kernels,
   in training and in decoding, for every dtype. The first two steps are not counted, because they
   grow the tables. */
#include "models/training/optimizer.h"
#include "syntorch/base/memory.h"
#include "syntorch/gradient.h"
#include "tests/support/device.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

enum { STEPS = 6, BATCH = 3, TOKENS = 20 };

static uint64_t counts[STEPS]; /* number of allocations of each step */

static void train(const syn_model_options *how, int threads) {
    const syn_spec spec = {SYN_I32, 2, {BATCH, TOKENS}};
    const syn_optimizer_options adamw = {.max_grad_norm = 1, .weight_decay = 0.01};
    syn_model *gpt = model_alone(SYN_DEVICE_CPU, &small_gpt, how);
    syn_ctx *ctx = syn_model_ctx(gpt);
    syn_optimizer *optimizer = NULL;
    syn_error err = {0};
    int32_t ids[BATCH * TOKENS];
    for (int i = 0; i < BATCH * TOKENS; i++) ids[i] = i * 7 % 257;
    CHECK_OK(syn_ctx_set_threads(ctx, threads, &err), err);
    syn_require_grads(ctx);
    CHECK_OK(syn_optimizer_new(&optimizer, ctx, &adamw, &err), err);
    const syn_mark mark = syn_ctx_mark(ctx);
    for (int step = 0; step < STEPS; step++) {
        const uint64_t before = syn_memory_calls();
        const syn_tensor loss = syn_causal_loss(gpt, syn_input(ctx, "tokens", &spec, ids),
                                                syn_input(ctx, "next", &spec, ids), SYN_MEAN);
        syn_backward(ctx, loss);
        CHECK_OK(syn_optimizer_step(optimizer, 0.001, &err), err);
        counts[step] = syn_memory_calls() - before;
        syn_forget(ctx, mark, NULL, 0);
    }
    syn_optimizer_free(optimizer);
    model_drop(gpt);
}

static void test_training(void) {
    for (int dtype = 0; dtype < 2; dtype++)
        for (int fused = 0; fused < 2; fused++)
            for (int threads = 1; threads < (ref_on_cuda() ? 2 : 3); threads++) {
                const syn_model_options how = {.dtype = dtype ? SYN_BF16 : SYN_F32,
                                               .weight_dtype = dtype ? SYN_BF16 : SYN_F32,
                                               .fused_attention = fused != 0};
                train(&how, threads);
                CHECK(counts[0] > 0);
                for (int step = 2; step < STEPS; step++)
                    CHECK_MSG(counts[step] == 0, "step %d of %s, fused %d, threads %d: %llu", step,
                              dtype ? "bf16" : "f32", fused, threads,
                              (unsigned long long)counts[step]);
            }
}

static void decode(const syn_model_options *how) {
    const syn_spec prompt = {SYN_I32, 2, {2, 9}}, one = {SYN_I32, 2, {2, 1}};
    const syn_sampling sampling = {0.8, 5, 0.9, 1, 0};
    syn_model *gpt = model_alone(SYN_DEVICE_CPU, &small_gpt, how);
    syn_ctx *ctx = syn_model_ctx(gpt);
    syn_error err = {0};
    int32_t ids[18] = {1, 2, 3, 4, 5};
    CHECK_OK(syn_causal_begin(gpt, 2, 9 + STEPS, &err), err);
    const syn_mark mark = syn_ctx_mark(ctx);
    for (int step = 0; step < STEPS; step++) {
        const uint64_t before = syn_memory_calls();
        const syn_tensor x = syn_input(ctx, "tokens", step ? &one : &prompt, ids);
        const syn_tensor tokens = syn_sample(ctx, syn_causal_forward(gpt, x), &sampling, step);
        CHECK(syn_tensor_read(ctx, tokens, ids, 2 * sizeof *ids) == SYN_OK);
        counts[step] = syn_memory_calls() - before;
        syn_forget(ctx, mark, NULL, 0);
    }
    model_drop(gpt);
}

/* Uses fused attention. Unfused attention stores its scores in tensors, which grow. */
static void test_decoding(void) {
    static const syn_dtype types[] = {SYN_F32, SYN_BF16, SYN_F16};
    for (size_t i = 0; i < COUNT(types); i++) {
        decode(&(syn_model_options){
            .dtype = types[i], .weight_dtype = types[i], .fused_attention = true});
        for (int step = 2; step < STEPS; step++)
            CHECK_MSG(counts[step] == 0, "token %d of %s: %llu", step, syn_dtype_name(types[i]),
                      (unsigned long long)counts[step]);
    }
}

static const test_case cases[] = {
    {"training", test_training},
    {"decoding", test_decoding},
};
TEST_MAIN(cases)
