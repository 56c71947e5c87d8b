/* Tests batches of sequences with different lengths. Each sequence must have the same results as in
   a batch of its own, in prefill and in decoding, and the caches of earlier batches must be freed.
   tests/programs/test_inference_weights.py compares such batches with HuggingFace's results. */
#include "models/generate.h"
#include "syntorch/base/memory.h"
#include "tests/support/ranks.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

enum { BATCH = 3, PROMPT = 9, STEPS = 5, VOCAB = 257 };
static const int32_t lengths[BATCH] = {9, 1, 4};

static int32_t token(int b, int i) {
    return (b * 31 + i * 7 + 3) % VOCAB;
}

/* Computes the logits of `steps` forward calls: first the prompt, then one token per call. rows:
   number of sequences. alone: index of the only sequence to run. */
typedef struct job {
    int tp, alone; /* alone -1: run all sequences */
    bool fused;
    float logits[STEPS][BATCH][VOCAB];
} job;

static syn_status run(job *j, syn_ctx *ctx, syn_model *gpt, syn_error *err) {
    const int first = j->alone < 0 ? 0 : j->alone, rows = j->alone < 0 ? BATCH : 1;
    const int width = j->alone < 0 ? PROMPT : lengths[j->alone];
    int32_t tokens[BATCH * PROMPT] = {0}, padding[BATCH];
    for (int r = 0; r < rows; r++) {
        const int b = first + r;
        padding[r] = width - lengths[b];
        for (int i = 0; i < lengths[b]; i++) tokens[r * width + padding[r] + i] = token(b, i);
    }
    SYN_TRY(syn_causal_begin(gpt, rows, width + STEPS, err));
    if (j->alone < 0) SYN_TRY(syn_causal_set_padding(gpt, padding, err));
    for (int s = 0; s < STEPS; s++) {
        const syn_spec spec = {SYN_I32, 2, {rows, s ? 1 : width}};
        if (s)
            for (int r = 0; r < rows; r++) tokens[r] = token(first + r, lengths[first + r] + s - 1);
        const syn_tensor out = syn_causal_forward(gpt, syn_input(ctx, "tokens", &spec, tokens));
        if (syn_tensor_read(ctx, out, j->logits[s], (size_t)rows * VOCAB * 4) != SYN_OK)
            return syn_ctx_check(ctx, err);
    }
    return SYN_OK;
}

static syn_status rank_main(const test_rank *me, void *arg, syn_error *err) {
    job mine = *(job *)arg;
    syn_model *gpt = NULL;
    const syn_model_options how = {.tp = me->tp, .fused_attention = mine.fused, .seed = 3};
    syn_status s = syn_model_new(&gpt, me->ctx, &small_gpt, &how, err);
    if (s == SYN_OK) s = run(&mine, me->ctx, gpt, err);
    if (me->index == 0) *(job *)arg = mine;
    syn_model_free(gpt);
    return s;
}

static void as_alone(void) {
    for (int way = 0; way < 6; way++) {
        static job all, one;
        syn_error err = {0};
        all = (job){.tp = 1 << way / 2, .alone = -1, .fused = way % 2};
        CHECK_OK(run_ranks(all.tp, rank_main, &all, &err), err);
        for (int b = 0; b < BATCH; b++) {
            one = (job){.tp = 1, .alone = b};
            CHECK_OK(run_ranks(1, rank_main, &one, &err), err);
            for (int s = 0; s < STEPS; s++) {
                float largest = 0, worst = 0;
                for (int v = 0; v < VOCAB; v++) {
                    largest = fmaxf(largest, fabsf(one.logits[s][0][v]));
                    const float e = fabsf(one.logits[s][0][v] - all.logits[s][b][v]);
                    worst = e <= worst ? worst : isnan(e) ? INFINITY : e;
                }
                CHECK_MSG(worst <= 1e-5f * largest, "tp %d, %s, sequence %d, step %d: %g of %g",
                          all.tp, all.fused ? "fused" : "unfused", b, s, (double)worst,
                          (double)largest);
            }
        }
    }
}

static syn_model *open_gpt(syn_device device) {
    return model_alone(device, &small_gpt, &(syn_model_options){.seed = 3});
}

static void caches_are_given_back(void) {
    syn_error err = {0};
    syn_model *gpt = open_gpt(SYN_DEVICE_CPU);
    const syn_ctx *ctx = syn_model_ctx(gpt);
    CHECK_OK(syn_causal_begin(gpt, 2, 20, &err), err);
    const size_t peak = syn_ctx_peak_bytes(ctx);
    for (int i = 0; i < 5; i++) CHECK_OK(syn_causal_begin(gpt, 2, 20, &err), err);
    CHECK_INT(syn_ctx_peak_bytes(ctx), peak);
    model_drop(gpt);
}

static void a_dropped_tensor_is_gone(void) {
    syn_error err = {0};
    syn_ctx *ctx;
    float x[4] = {1, 2, 3, 4};
    const syn_spec spec = {SYN_F32, 1, {4}};
    CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_CPU, NULL, &err), err);
    const syn_tensor a = syn_input(ctx, "a", &spec, x), b = syn_input(ctx, "b", &spec, x);
    const syn_tensor view = syn_slice(ctx, a, 0, 1, 2);
    syn_drop(ctx, view); /* drops all tensors with the view's storage */
    syn_drop(ctx, a);
    CHECK_OK(syn_tensor_read(ctx, b, x, sizeof x), *syn_ctx_error(ctx));
    CHECK(syn_tensor_read(ctx, a, x, sizeof x) == SYN_E_INVALID);
    syn_ctx_free(ctx);
}

static void refused(void) {
    syn_error err = {0};
    syn_model *gpt = open_gpt(SYN_DEVICE_META);
    const int32_t good[2] = {0, 3}, negative[2] = {-1, 0}, all[2] = {0, 20};
    CHECK(syn_causal_set_padding(gpt, good, &err) == SYN_E_INVALID);
    CHECK_HAS(err.text, "between syn_causal_begin and the first forward step");
    err.code = SYN_OK;
    CHECK_OK(syn_causal_begin(gpt, 2, 20, &err), err);
    CHECK(syn_causal_set_padding(gpt, negative, &err) == SYN_E_INVALID);
    CHECK_HAS(err.text, "-1 padding tokens do not fit into a sequence of 20 tokens");
    err.code = SYN_OK;
    CHECK(syn_causal_set_padding(gpt, all, &err) == SYN_E_INVALID);
    err.code = SYN_OK;
    CHECK_OK(syn_causal_set_padding(gpt, good, &err), err);
    const syn_spec spec = {SYN_I32, 2, {2, 4}};
    CHECK(syn_causal_forward(gpt, syn_input(syn_model_ctx(gpt), "t", &spec, NULL)).id != 0);
    CHECK(syn_causal_set_padding(gpt, good, &err) == SYN_E_INVALID);
    err.code = SYN_OK;
    syn_generation g = {.batch = 2,
                        .prompt_tokens = 3,
                        .new_tokens = 1,
                        .padding = good, /* the whole second sequence is padding */
                        .sampling = {0, 0, 1, 0, 0}};
    CHECK(syn_generate(gpt, &g, &err) == SYN_E_INVALID);
    CHECK_HAS(err.text, "3 padding tokens fill sequence 1");
    model_drop(gpt);
}

static void out_of_memory(void) {
    const int32_t padding[2] = {0, 3};
    for (uint64_t n = 0;; n++) {
        syn_error err = {0};
        syn_model *gpt = open_gpt(SYN_DEVICE_CPU);
        syn_ctx *ctx = syn_model_ctx(gpt);
        CHECK_OK(syn_causal_begin(gpt, 2, 20, &err), err);
        const syn_spec spec = {SYN_I32, 2, {2, 4}};
        static const int32_t tokens[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        const syn_tensor t = syn_input(ctx, "t", &spec, tokens);
        syn_memory_fail_after(n);
        syn_status s = syn_causal_set_padding(gpt, padding, &err);
        if (s == SYN_OK && syn_causal_forward(gpt, t).id == 0) s = syn_ctx_status(ctx);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        model_drop(gpt);
        if (s == SYN_OK) return;
        CHECK_MSG(s == SYN_E_NOMEM, "after %d allocations: %d", (int)n, (int)s);
    }
}

static const test_case cases[] = {
    {"as_alone", as_alone},
    {"caches_are_given_back", caches_are_given_back},
    {"a_dropped_tensor_is_gone", a_dropped_tensor_is_gone},
    {"refused", refused},
    {"out_of_memory", out_of_memory},
};

TEST_MAIN(cases)
