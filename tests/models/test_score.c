/* Tests scoring of whole sequences with causal models: logits of every position and perplexities
   are compared with the reference formulas, the rows must be the same on every device, and errors
   are tested. tests/programs/test_inference_scores.py compares all families with transformers. */
#include "models/generate.h"
#include "models/score.h"
#include "syntorch/base/memory.h"
#include "tests/support/gpt_reference.h"
#include "tests/support/ranks.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

enum { TEXTS = 2, TOKENS = 7, LONG = 61, MOST = 4 };
static const int32_t texts[TEXTS * TOKENS] = {1, 2, 3, 4, 5, 6, 7, 90, 256, 70, 7, 7, 0, 96};

static void fill_long(int32_t out[LONG]) {
    for (int i = 0; i < LONG; i++) out[i] = (i * i * 31 + 7 * i + 11) % 257;
}

/* ---- Against the reference ---- */

struct job {
    int tp;
    bool fused;
    const ref_model *weights;
    float *logits[MOST]; /* by rank: (TEXTS * TOKENS, V0) */
    syn_perplexity request, got[MOST];
};

static syn_status make(const test_rank *me, const struct job *job, syn_model **m, syn_error *err) {
    const syn_model_options how = {.tp = me->tp, .fused_attention = job->fused, .seed = 1};
    SYN_TRY(syn_model_new(m, me->ctx, &job->weights->config, &how, err));
    return ref_load(job->weights, me->ctx, me->index, job->tp);
}

static syn_status logits_rank(const test_rank *me, void *arg, syn_error *err) {
    struct job *job = arg;
    const syn_spec spec = {SYN_I32, 2, {TEXTS, TOKENS}};
    const int64_t n = TEXTS * TOKENS, rows[2] = {n, job->weights->config.n_embd},
                  v = job->weights->config.vocab_size;
    syn_model *m = NULL;
    syn_status s = make(me, job, &m, err);
    if (s == SYN_OK) {
        const syn_tensor hidden = syn_causal_hidden(m, syn_input(me->ctx, "texts", &spec, texts));
        const syn_tensor x = syn_causal_logits(m, syn_reshape(me->ctx, hidden, rows, 2));
        job->logits[me->index] = calloc((size_t)(n * v), sizeof(float));
        s = syn_tensor_read_f32(me->ctx, x, job->logits[me->index], (size_t)(n * v));
    }
    syn_model_free(m);
    return s;
}

static void logits_of_every_position_are_the_references(void) {
    ref_model m = ref_filled(&small_gpt);
    const int64_t v = small_gpt.vocab_size;
    for (int i = 0; i < 6; i++) {
        struct job job = {.tp = 1 << i % 3, .fused = i / 3, .weights = &m};
        syn_error err = {0};
        const syn_status s = run_ranks(job.tp, logits_rank, &job, &err);
        double worst = 0;
        for (int r = 0; r < job.tp; r++) {
            for (int b = 0; b < TEXTS && s == SYN_OK; b++) {
                double *want = ref_forward(&m, texts + b * TOKENS, TOKENS);
                const double e = ref_error(job.logits[r] + b * TOKENS * v, want, TOKENS * v);
                if (!(e <= worst)) worst = isnan(e) ? INFINITY : e;
                free(want);
            }
            free(job.logits[r]);
        }
        CHECK_OK(s, err);
        CHECK_MSG(worst <= 1e-5, "tp %d, fused %d: off by %g", job.tp, job.fused, worst);
    }
    ref_free(&m);
}

static syn_status perplexity_rank(const test_rank *me, void *arg, syn_error *err) {
    struct job *job = arg;
    syn_model *m = NULL;
    syn_perplexity *p = &job->got[me->index];
    *p = job->request;
    syn_status s = make(me, job, &m, err);
    if (s == SYN_OK) s = syn_perplexity_run(m, p, err);
    syn_model_free(m);
    return s;
}

/* The sum of -log of the probabilities of the window's tokens from index `from` on. */
static double window_sum(const ref_model *m, const int32_t *window, int64_t length, int64_t from) {
    const int64_t v = m->config.vocab_size;
    double *logits = ref_forward(m, window, length), sum = 0;
    for (int64_t t = from; t < length; t++) {
        const double *row = logits + (t - 1) * v;
        double all = 0;
        for (int64_t i = 0; i < v; i++) all += exp(row[i]);
        sum += log(all) - row[window[t]];
    }
    free(logits);
    return sum;
}

/* The published recipe for windows, implemented directly: the mean loss over the new tokens of each
   window, averaged over all windows. The weight of a window is its number of new tokens minus
   one. */
static double reference_loss(const ref_model *m, const int32_t *text, int64_t max_length,
                             int64_t stride, int64_t *windows, int64_t *counted) {
    double total = 0;
    int64_t seen = 0;
    *windows = *counted = 0;
    for (int64_t begin = 0; seen < LONG; begin += stride, ++*windows) {
        const int64_t end = begin + max_length < LONG ? begin + max_length : LONG;
        const int64_t new = end - seen, first = seen > begin ? seen - begin : 1;
        if (new > 1)
            total += window_sum(m, text + begin, end - begin, first) /
                     (double)(end - begin - first) * (double)(new - 1);
        *counted += new - 1;
        seen = end;
    }
    return total / (double)*counted;
}

static void perplexities_are_the_references(void) {
    static const int64_t ways[][2] = {{24, 24}, {24, 7}, {10, 10}, {10, 3}, {2, 2}, {12, 1}};
    ref_model m = ref_filled(&small_gpt);
    int32_t text[LONG];
    fill_long(text);
    for (size_t w = 0; w < COUNT(ways); w++) {
        int64_t windows, counted;
        const double want = reference_loss(&m, text, ways[w][0], ways[w][1], &windows, &counted);
        for (int tp = 1; tp <= MOST; tp *= 2) {
            syn_error err = {0};
            struct job job = {.tp = tp,
                              .fused = w % 2,
                              .weights = &m,
                              .request = {.tokens = text,
                                          .n_tokens = LONG,
                                          .max_length = ways[w][0],
                                          .stride = ways[w][1]}};
            CHECK_OK(run_ranks(tp, perplexity_rank, &job, &err), err);
            for (int r = 0; r < tp; r++) {
                CHECK_INT(job.got[r].windows, windows);
                CHECK_INT(job.got[r].counted, counted);
                CHECK_NEAR(job.got[r].mean_loss, want, 2e-6 * want);
            }
        }
    }
    ref_free(&m);
}

/* ---- Against the model's own forward ---- */

static syn_model *alone(const syn_model_config *config) {
    return model_alone(SYN_DEVICE_CPU, config, &(syn_model_options){.seed = 1});
}

static void texts_that_are_continued_do_not_notice(void) {
    const syn_spec three = {SYN_I32, 2, {1, 3}}, all = {SYN_I32, 2, {TEXTS, TOKENS}};
    float logits[2][257];
    syn_status s[2];
    syn_error err = {0};
    for (int with = 0; with < 2; with++) {
        syn_model *m = alone(&small_gpt);
        syn_ctx *ctx = syn_model_ctx(m);
        const syn_status begun = syn_causal_begin(m, 1, 6, &err);
        syn_causal_forward(m, syn_input(ctx, "a", &three, texts));
        if (with) syn_causal_hidden(m, syn_input(ctx, "texts", &all, texts));
        const syn_tensor x = syn_causal_forward(m, syn_input(ctx, "b", &three, texts + 3));
        s[with] = syn_tensor_read_f32(ctx, x, logits[with], 257);
        model_drop(m);
        CHECK_OK(begun, err);
    }
    CHECK(s[0] == SYN_OK && s[1] == SYN_OK && memcmp(logits[0], logits[1], sizeof logits[0]) == 0);
}

/* Dynamic rotary frequencies depend on the length of the sequence. In the same context, a short
   sequence may follow a long one. */
static void long_and_short_texts_follow_each_other(void) {
    const syn_model_config dynamic = {
        .family = &syn_llama_family,
        .name = "dynamic",
        .n_layer = 1,
        .n_embd = 32,
        .n_head = 4,
        .n_kv_head = 2,
        .head_dim = 8,
        .n_positions = 16,
        .n_inner = 40,
        .vocab_size = 257,
        .norm_epsilon = 1e-5,
        .initializer_range = 0.3,
        .rotary = {.theta = 1e4, .part = 1, .scaling = SYN_ROPE_DYNAMIC, .factor = 4},
        .end = {.fill = -1}};
    static const int64_t lengths[] = {40, 12, 40, 12};
    int32_t text[LONG];
    double loss[4];
    syn_error err = {0};
    fill_long(text);
    syn_model *m = alone(&dynamic);
    for (int i = 0; i < 4; i++) {
        syn_perplexity p = {
            .tokens = text, .n_tokens = LONG, .max_length = lengths[i], .stride = lengths[i]};
        const syn_status s = syn_perplexity_run(m, &p, &err);
        loss[i] = p.mean_loss;
        if (s != SYN_OK) model_drop(m);
        CHECK_OK(s, err);
    }
    syn_generation g = {.batch = 1,
                        .prompt_tokens = 5,
                        .new_tokens = 5,
                        .prompt = text,
                        .sampling = {.top_p = 1, .seed = 1}};
    const syn_status s = syn_generate(m, &g, &err);
    syn_free(g.tokens);
    model_drop(m);
    CHECK_OK(s, err);
    CHECK(loss[0] == loss[2] && loss[1] == loss[3] && loss[0] != loss[1]);
}

/* ---- rows ---- */

struct shape {
    const syn_model_config *config;
    int64_t tokens, max_length, stride;
    uint64_t seed;
};

static syn_status shape_rank(const test_rank *me, void *arg, syn_error *err) {
    const struct shape *shape = arg;
    int32_t text[LONG];
    syn_model *m = NULL;
    fill_long(text);
    const syn_model_options how = {.tp = me->tp, .seed = shape->seed};
    syn_perplexity p = {.tokens = syn_ctx_has_data(me->ctx) ? text : NULL,
                        .n_tokens = shape->tokens,
                        .max_length = shape->max_length,
                        .stride = shape->stride};
    syn_status s = syn_model_new(&m, me->ctx, shape->config, &how, err);
    if (s == SYN_OK) s = syn_perplexity_run(m, &p, err);
    syn_model_free(m);
    return s;
}

static void rows_are_the_same_without_data(void) {
    static const int64_t ways[][3] = {{61, 24, 24}, {61, 24, 8}, {30, 24, 24}, {30, 10, 5}};
    seen_traces seen = {0};
    for (int tp = 1; tp <= MOST; tp *= 2)
        for (size_t w = 0; w < COUNT(ways); w++) {
            struct shape shape = {&small_gpt, ways[w][0], ways[w][1], ways[w][2], 1};
            CHECK_MSG(new_trace_everywhere(&seen, tp, shape_rank, &shape, &shape.seed),
                      "tp %d, way %zu", tp, w);
        }
}

static syn_status forget(void *user, int64_t window, bool *keep_rows, syn_error *err) {
    int64_t *windows = user;
    (void)err;
    *keep_rows = false;
    *windows = window + 1;
    return SYN_OK;
}

static void windows_can_be_forgotten(void) {
    int32_t text[LONG];
    double loss[2];
    size_t rows[2];
    int64_t windows = 0;
    fill_long(text);
    for (int i = 0; i < 2; i++) {
        syn_model *m = alone(&small_gpt);
        syn_ctx *ctx = syn_model_ctx(m);
        syn_error err = {0};
        const size_t before = syn_ctx_trace(ctx)->n_nodes;
        syn_perplexity p = {.tokens = text, .n_tokens = LONG, .max_length = 10, .stride = 5};
        if (i) p.after_window = forget, p.after_window_user = &windows;
        const syn_status s = syn_perplexity_run(m, &p, &err);
        loss[i] = p.mean_loss;
        rows[i] = syn_ctx_trace(ctx)->n_nodes - before;
        model_drop(m);
        CHECK_OK(s, err);
        if (i) CHECK_INT(windows, p.windows);
    }
    CHECK(loss[0] == loss[1]);
    CHECK_MSG(rows[0] > 500 && rows[1] < 5, "%zu and %zu rows", rows[0], rows[1]);
}

/* ---- Errors ---- */

static void perplexity_refuses_with_the_numbers(void) {
    static const int32_t good[4] = {1, 2, 3, 4}, outside[4] = {1, 2, 257, 4},
                         below[4] = {1, -1, 2, 3};
    static const struct {
        const int32_t *tokens;
        int64_t n, max_length, stride;
        const char *says[2];
    } bad[] = {{good, 1, 24, 24, {"1 tokens", "no perplexity"}},
               {good, 0, 24, 24, {"0 tokens", "no perplexity"}},
               {good, 4, 25, 24, {"windows have 25", "2 to 24"}},
               {good, 4, 1, 1, {"windows have 1", "2 to 24"}},
               {good, 4, 24, 25, {"stride of 25", "1 to 24"}},
               {good, 4, 24, 0, {"stride of 0", "1 to 24"}},
               {outside, 4, 24, 24, {"token 257 at position 2", "257 tokens"}},
               {below, 4, 24, 24, {"token -1 at position 1", "257 tokens"}}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        syn_model *m = alone(&small_gpt);
        syn_error err = {0};
        syn_perplexity p = {.tokens = bad[i].tokens,
                            .n_tokens = bad[i].n,
                            .max_length = bad[i].max_length,
                            .stride = bad[i].stride};
        const syn_status s = syn_perplexity_run(m, &p, &err);
        model_drop(m);
        CHECK_MSG(s == SYN_E_INVALID, "case %zu was not refused", i);
        CHECK_HAS(err.text, bad[i].says[0]);
        CHECK_HAS(err.text, bad[i].says[1]);
    }
}

static void a_loss_that_is_no_number_is_reported(void) {
    int32_t text[LONG];
    fill_long(text);
    ref_model m = ref_filled(&small_gpt);
    *(float *)(uintptr_t)ref_data(&m, "ln_f.bias") = NAN;
    syn_error err = {0};
    struct job job = {
        .tp = 1,
        .weights = &m,
        .request = {.tokens = text, .n_tokens = LONG, .max_length = 20, .stride = 20}};
    const syn_status s = run_ranks(1, perplexity_rank, &job, &err);
    ref_free(&m);
    CHECK(s != SYN_OK);
    CHECK_HAS(err.text, "tokens 1 to 19 is NaN or infinite");
}

/* Errors for sequences that are too long, for parts of models, and for BERT. */
static void hidden_states_refuse(void) {
    const syn_spec many = {SYN_I32, 2, {1, 25}}, few = {SYN_I32, 2, {1, 4}};
    const syn_model_part part = {0, 1, true, false, 0};
    const struct {
        const syn_model_config *config;
        const syn_model_part *part;
        const syn_spec *spec;
        const char *says;
    } bad[] = {{&small_gpt, NULL, &many, "25 tokens exceed the 24 positions"},
               {&small_gpt, &part, &few, "a part of small cannot score texts"},
               {&small_bert, NULL, &few, "does not predict the next token"}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        syn_error err = {0};
        syn_model *m = model_alone(SYN_DEVICE_META, bad[i].config,
                                   &(syn_model_options){.seed = 1, .part = bad[i].part});
        syn_causal_hidden(m, syn_input(syn_model_ctx(m), "texts", bad[i].spec, NULL));
        CHECK_MSG(model_end(m, &err) != SYN_OK, "case %zu was not refused", i);
        CHECK_HAS(err.text, bad[i].says);
    }
}

static void slices_of_logits_are_bounded(void) {
    syn_model_config wide = small_gpt;
    static const int64_t cases[][2] = {{257, 65280}, {1 << 20, 16}, {1 << 24, 1}, {1 << 25, 1}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        wide.vocab_size = cases[i][0];
        syn_model *m = model_alone(SYN_DEVICE_META, &wide, &(syn_model_options){.seed = 1});
        CHECK_INT(syn_logits_rows(m, true), cases[i][1]);
        CHECK_INT(syn_logits_rows(m, false), cases[i][1]);
        model_drop(m);
    }
}

static const test_case cases[] = {
    {"logits_of_every_position_are_the_references", logits_of_every_position_are_the_references},
    {"perplexities_are_the_references", perplexities_are_the_references},
    {"texts_that_are_continued_do_not_notice", texts_that_are_continued_do_not_notice},
    {"long_and_short_texts_follow_each_other", long_and_short_texts_follow_each_other},
    {"rows_are_the_same_without_data", rows_are_the_same_without_data},
    {"windows_can_be_forgotten", windows_can_be_forgotten},
    {"perplexity_refuses_with_the_numbers", perplexity_refuses_with_the_numbers},
    {"a_loss_that_is_no_number_is_reported", a_loss_that_is_no_number_is_reported},
    {"hidden_states_refuse", hidden_states_refuse},
    {"slices_of_logits_are_bounded", slices_of_logits_are_bounded},
};

TEST_MAIN(cases)
