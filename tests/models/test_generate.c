/* Tests generation: greedy tokens are compared with the reference formulas (gpt_reference.h),
   sampled tokens must be the same for every tp, and end-of-text tokens and every error are
   tested. */
#include "models/generate.h"
#include "syntorch/base/memory.h"
#include "tests/support/gpt_reference.h"
#include "tests/support/ranks.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

enum { BATCH = 3, PROMPT = 5, NEW = 12 };
static const int32_t prompts[BATCH * PROMPT] = {1, 2, 3, 4, 5, 90, 80, 70, 60, 50, 7, 7, 7, 7, 96};

struct job {
    int tp;      /* number of ranks */
    bool staged; /* the ranks are stages of a pipeline instead */
    bool fused;
    const ref_model *weights;
    syn_generation request;
    syn_generation results[4];
    size_t peak_bytes;
};

static syn_status run_rank(const test_rank *me, void *arg, syn_error *err) {
    struct job *job = arg;
    syn_model *gpt = NULL;
    const int64_t layers = job->weights->config.n_layer;
    const int i = me->index, n = job->tp;
    const syn_model_part part = {i * layers / n, (i + 1) * layers / n - i * layers / n, i == 0,
                                 i == n - 1, 0};
    const syn_model_options how = {.tp = job->staged ? NULL : me->tp,
                                   .part = job->staged ? &part : NULL,
                                   .fused_attention = job->fused,
                                   .seed = 1};
    syn_generation *g = &job->results[i];
    *g = job->request;
    if (job->staged) g->pp = me->tp;
    syn_status s = syn_model_new(&gpt, me->ctx, &job->weights->config, &how, err);
    if (s == SYN_OK) s = ref_load(job->weights, me->ctx, job->staged ? 0 : i, job->staged ? 1 : n);
    if (s == SYN_OK) s = syn_generate(gpt, g, err);
    if (me->index == 0) job->peak_bytes = syn_ctx_peak_bytes(me->ctx);
    syn_model_free(gpt);
    return s;
}

static void free_results(struct job *job) {
    for (int r = 0; r < 4; r++) {
        syn_free(job->results[r].tokens);
        syn_free(job->results[r].logits);
        job->results[r].tokens = NULL;
        job->results[r].logits = NULL;
    }
}

static bool run(struct job *job) {
    syn_error err = {0};
    const bool ok = run_ranks(job->tp, run_rank, job, &err) == SYN_OK;
    if (!ok) fprintf(stderr, "%s\n", err.text);
    return ok;
}

static syn_generation request(double temperature) {
    return (syn_generation){.batch = BATCH,
                            .prompt_tokens = PROMPT,
                            .new_tokens = NEW,
                            .prompt = prompts,
                            .sampling = {temperature, 0, 1.0, 11, 0},
                            .want_logits = true};
}

/* Applies a repetition penalty to the logits of a sequence in the same way as
   RepetitionPenaltyLogitsProcessor of transformers. */
static void penalize(double *logits, int64_t vocab, const int32_t *text, int n, double penalty) {
    for (int64_t v = 0; v < vocab; v++) {
        bool seen = false;
        for (int i = 0; i < n; i++) seen = seen || text[i] == v;
        if (seen) logits[v] *= logits[v] < 0 ? penalty : 1 / penalty;
    }
}

/* The most likely continuation according to the reference: NEW tokens for each sequence. */
static void penalized_reference(const ref_model *m, double penalty, int32_t out[BATCH * NEW]) {
    for (int b = 0; b < BATCH; b++) {
        int32_t text[PROMPT + NEW];
        memcpy(text, prompts + b * PROMPT, sizeof(int32_t) * PROMPT);
        for (int i = 0; i < NEW; i++) {
            double *logits = ref_forward(m, text, PROMPT + i);
            double *last = logits + (PROMPT + i - 1) * m->config.vocab_size;
            penalize(last, m->config.vocab_size, text, PROMPT + i, penalty);
            text[PROMPT + i] = ref_argmax(last, m->config.vocab_size);
            free(logits);
        }
        memcpy(out + b * NEW, text + PROMPT, sizeof(int32_t) * NEW);
    }
}

static void greedy_reference(const ref_model *m, int32_t out[BATCH * NEW]) {
    penalized_reference(m, 1, out);
}

static void greedy_tokens_are_the_likeliest(void) {
    ref_model m = ref_filled(&small_gpt);
    int32_t want[BATCH * NEW];
    greedy_reference(&m, want);
    for (int i = 0; i < 6; i++) {
        struct job job = {.tp = 1 << i % 3, .fused = i / 3, .weights = &m, .request = request(0)};
        bool same = run(&job);
        double worst = 0;
        for (int r = 0; r < job.tp && same; r++) {
            const syn_generation *g = &job.results[r];
            same = same && g->made == NEW && memcmp(g->tokens, want, sizeof want) == 0;
            for (int b = 0; b < BATCH; b++) {
                double *logits = ref_forward(&m, prompts + b * PROMPT, PROMPT);
                const int64_t v = small_gpt.vocab_size;
                const double e = ref_error(g->logits + b * v, logits + (PROMPT - 1) * v, v);
                if (!(e <= worst)) worst = isnan(e) ? INFINITY : e;
                free(logits);
            }
        }
        free_results(&job);
        CHECK_MSG(same, "tp %d, fused %d: not the likeliest tokens", job.tp, job.fused);
        CHECK_MSG(worst <= 1e-5, "tp %d: logits of the prompt differ by %g", job.tp, worst);
    }
    ref_free(&m);
}

/* Stages of a pipeline, of which some may have no layers, generate the same tokens. All
   stages get them, and the logits if they are shared. */
static void stages_generate_the_same(void) {
    ref_model m = ref_filled(&small_gpt);
    int32_t want[BATCH * NEW];
    penalized_reference(&m, 1.7, want);
    CHECK(want[0] != want[1]); /* so that the second token ends the sequence */
    for (int i = 0; i < 6; i++) {
        struct job job = {
            .tp = 2 + i % 3, .staged = true, .fused = i / 3, .weights = &m, .request = request(0)};
        job.request.repetition_penalty = 1.7;
        job.request.share_logits = i / 3;
        job.request.end = (syn_stop_criteria){{want[1]}, 1, want[1], want[1]};
        job.request.batch = 1;
        job.request.new_tokens = 4;
        bool same = run(&job);
        const syn_generation *last = &job.results[job.tp - 1];
        for (int r = 0; r < job.tp && same; r++) {
            const syn_generation *g = &job.results[r];
            const bool has = r == job.tp - 1 || i / 3;
            same = g->made == 2 && memcmp(g->tokens, want, 2 * sizeof *want) == 0 &&
                   (g->logits != NULL) == has &&
                   (!has || memcmp(g->logits, last->logits,
                                   (size_t)small_gpt.vocab_size * sizeof *g->logits) == 0);
        }
        free_results(&job);
        CHECK_MSG(same, "%d stages, %d: not the reference's tokens", job.tp, i / 3);
    }
    ref_free(&m);
}

/* An after-step callback that forgets the rows of the step, so that other tensors than usual stay
   alive between steps. */
static syn_status forget_rows(void *user, int64_t step, bool *keep_rows, syn_error *err) {
    (void)user;
    (void)step;
    (void)err;
    *keep_rows = false;
    return SYN_OK;
}

static void tokens_seen_are_penalized(void) {
    ref_model m = ref_filled(&small_gpt);
    int32_t want[BATCH * NEW], plain[BATCH * NEW];
    penalized_reference(&m, 1.7, want);
    greedy_reference(&m, plain);
    CHECK(memcmp(want, plain, sizeof want) != 0);
    for (int i = 0; i < 6; i++) {
        struct job job = {.tp = 1 << i % 3, .weights = &m, .request = request(0)};
        job.request.repetition_penalty = 1.7;
        job.request.after_step = i / 3 ? forget_rows : NULL;
        bool same = run(&job);
        for (int r = 0; r < job.tp && same; r++)
            same = memcmp(job.results[r].tokens, want, sizeof want) == 0;
        free_results(&job);
        CHECK_MSG(same, "tp %d, %d: not the reference's tokens", job.tp, i / 3);
    }
    struct job job = {.tp = 1, .weights = &m, .request = request(0)};
    job.request.repetition_penalty = -2;
    syn_error err = {0};
    CHECK_INT(run_ranks(1, run_rank, &job, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "the penalty -2 is not a finite number above 0");
    free_results(&job);
    ref_free(&m);
}

/* A sampled token depends only on seed, step and row. Another tp does not change it; another seed
   changes many tokens. */
static void sampled_tokens_depend_on_the_seed_alone(void) {
    ref_model m = ref_filled(&small_gpt);
    int32_t first[BATCH * NEW], other[BATCH * NEW];
    int seeded = 0;
    for (int i = 0; i < 6; i++) {
        struct job job = {.tp = 1 << i % 3, .weights = &m, .request = request(1.5)};
        job.request.sampling.top_k = 40;
        job.request.sampling.top_p = 0.95;
        job.request.sampling.seed = i < 3 ? 11 : 12;
        const bool ok = run(&job);
        bool same = ok, inside = ok;
        int32_t *want = i < 3 ? first : other;
        for (int r = 0; r < job.tp && ok; r++) {
            if (i % 3 == 0) memcpy(want, job.results[r].tokens, sizeof first);
            same = same && memcmp(job.results[r].tokens, want, sizeof first) == 0;
            for (int k = 0; k < BATCH * NEW; k++)
                inside = inside && job.results[r].tokens[k] >= 0 &&
                         job.results[r].tokens[k] < small_gpt.vocab_size;
        }
        free_results(&job);
        CHECK_MSG(same, "tp %d samples other tokens", job.tp);
        CHECK(inside);
    }
    for (int k = 0; k < BATCH * NEW; k++) seeded += first[k] != other[k];
    ref_free(&m);
    CHECK_MSG(seeded > BATCH * NEW / 2, "only %d of %d tokens depend on the seed", seeded,
              BATCH * NEW);
}

/* The first sequence's third token is used as the end-of-text token, so this sequence ends there
   and is padded. The other sequences continue, unless they also generate this token. */
static void end_of_text_stops_and_pads(void) {
    ref_model m = ref_filled(&small_gpt);
    int32_t want[BATCH * NEW];
    greedy_reference(&m, want);
    const int32_t eos = want[2];
    int64_t made = 0;
    for (int b = 0; b < BATCH; b++) {
        int64_t end = 0;
        while (end < NEW && want[b * NEW + end] != eos) end++;
        if (end + 1 > made) made = end + 1 < NEW ? end + 1 : NEW;
        for (int64_t i = end; i < NEW; i++) want[b * NEW + i] = eos;
    }
    for (int tp = 1; tp <= 2; tp++) {
        struct job job = {.tp = tp, .weights = &m, .request = request(0)};
        job.request.end = (syn_stop_criteria){{eos}, 1, eos, eos};
        const bool ok = run(&job);
        bool same = ok;
        int64_t got = -1;
        for (int r = 0; r < tp && ok; r++) {
            got = job.results[r].made;
            for (int b = 0; b < BATCH; b++)
                same = same && memcmp(job.results[r].tokens + b * NEW, want + b * NEW,
                                      (size_t)made * sizeof *want) == 0;
        }
        free_results(&job);
        CHECK_INT(got, made);
        CHECK(same);
        /* If the first sequence is the only one, the run ends with it. */
        job.request.batch = 1;
        const bool alone = run(&job);
        got = job.results[0].made;
        const bool last = alone && job.results[0].tokens[got - 1] == eos;
        free_results(&job);
        CHECK(got <= 3);
        CHECK(last);
    }
    ref_free(&m);
}

/* The peak of the bytes in use while one sequence is prefilled and continued; 0 on failure. */
static size_t peak_of(const syn_model_config *config, int64_t prompt_tokens, int64_t new_tokens) {
    static const int32_t zeros[300];
    ref_model m = ref_filled(config);
    struct job job = {.tp = 1, .weights = &m, .request = request(0)};
    job.request.batch = 1;
    job.request.prompt_tokens = prompt_tokens;
    job.request.new_tokens = new_tokens;
    job.request.prompt = zeros;
    const bool ok = run(&job);
    free_results(&job);
    ref_free(&m);
    return ok ? job.peak_bytes : 0;
}

/* Many steps need no more memory than one step, because each step frees its buffers. */
static void decoding_needs_no_more_memory(void) {
    syn_model_config config = small_gpt;
    config.n_positions = 4096;
    const size_t prefill = peak_of(&config, 300, 1), decode = peak_of(&config, 1, 300);
    /* Compares 300 steps of one token with one step of 300 tokens. Both have caches of the same
       size. */
    CHECK_MSG(decode > 0 && decode < prefill, "%zu bytes at most in decoding, %zu in prefill",
              decode, prefill);
}

/* A layer frees its intermediate results before the next layer runs. Additional layers therefore
   only need memory for their weights and caches. */
static void layers_reuse_each_others_memory(void) {
    syn_model_config two = small_gpt, six = small_gpt;
    two.n_positions = six.n_positions = 300;
    six.n_layer = 6;
    const size_t few = peak_of(&two, 300, 1), many = peak_of(&six, 300, 1);
    CHECK(few > 0 && many > few);
    const int64_t h = two.n_embd, f = two.n_inner,
                  weights = 4 * (4 * h * h + 2 * h * f + 9 * h + f), caches = 4 * 2 * 300 * h;
    /* A quarter more is allowed for size classes. The scores of a single layer have 8 * 300 * 300 *
       4 bytes. */
    CHECK_MSG((double)(many - few) <= 4 * 1.25 * (double)(weights + caches),
              "4 layers more take %zu bytes", many - few);
}

/* ---- Errors ---- */

static syn_model *model(void) {
    return model_alone(SYN_DEVICE_CPU, &small_gpt, &(syn_model_options){.seed = 1});
}

static void generation_refuses_with_the_numbers(void) {
    static const int32_t outside[PROMPT] = {1, 2, 257, 4, 5}, negative[PROMPT] = {1, 2, 3, 4, -1};
    static const struct {
        int64_t batch, prompt, new_tokens;
        double temperature;
        int64_t top_k;
        double top_p;
        const int32_t *tokens;
        const char *says[2];
    } bad[] = {
        {1, 0, 1, 0, 0, 1, prompts, {"0 prompt tokens", "at least 1"}},
        {1, 5, 0, 0, 0, 1, prompts, {"0 new", "at least 1"}},
        {1, -1, 1, 0, 0, 1, prompts, {"-1 prompt tokens", "at least 1"}},
        {0, 5, 1, 0, 0, 1, prompts, {"0 sequences", "empty"}},
        {-7, 5, 1, 0, 0, 1, prompts, {"-7 sequences", "empty"}},
        {1, 5, 21, 0, 0, 1, prompts, {"21 new", "24 positions"}},
        {1, 25, 1, 0, 0, 1, prompts, {"25", "24 positions"}},
        {1, INT64_MAX, 2, 0, 0, 1, prompts, {"9223372036854775807", "24 positions"}},
        {1, 2, INT64_MAX, 0, 0, 1, prompts, {"9223372036854775807", "24 positions"}},
        {INT64_MAX / 4, 5, 1, 0, 0, 1, NULL, {"2305843009213693951", "large"}},
        {1, 5, 1, NAN, 0, 1, prompts, {"temperature", "nan"}},
        {1, 5, 1, -1, 0, 1, prompts, {"temperature", "-1"}},
        {1, 5, 1, INFINITY, 0, 1, prompts, {"temperature", "inf"}},
        {1, 5, 1, 1, -3, 1, prompts, {"top_k", "-3"}},
        {1, 5, 1, 1, 0, 0, prompts, {"top_p", "0"}},
        {1, 5, 1, 1, 0, 1.5, prompts, {"top_p", "1.5"}},
        {1, 5, 1, 1, 0, NAN, prompts, {"top_p", "nan"}},
        {1, 5, 1, 0, 0, 1, outside, {"token 257", "257"}},
        {1, 5, 1, 0, 0, 1, negative, {"token -1", "257"}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        syn_model *gpt = model();
        syn_error err = {0};
        syn_generation g = {.batch = bad[i].batch,
                            .prompt_tokens = bad[i].prompt,
                            .new_tokens = bad[i].new_tokens,
                            .prompt = bad[i].tokens,
                            .sampling = {bad[i].temperature, bad[i].top_k, bad[i].top_p, 1, 0}};
        const syn_status s = syn_generate(gpt, &g, &err);
        model_drop(gpt);
        CHECK_MSG(s != SYN_OK, "case %zu was not refused", i);
        CHECK_MSG(!g.tokens && !g.logits, "case %zu left results", i);
        CHECK_HAS(err.text, bad[i].says[0]);
        CHECK_HAS(err.text, bad[i].says[1]);
    }
}

static void refused_generation_can_be_repeated(void) {
    syn_model *gpt = model();
    syn_generation g = request(0);
    syn_error err = {0}, refusal = {0};
    g.new_tokens = 1000;
    const syn_status refused = syn_generate(gpt, &g, &refusal);
    g.new_tokens = 3;
    const syn_status s = syn_generate(gpt, &g, &err);
    int32_t first[BATCH * 3] = {0}, again[BATCH * 3] = {1};
    if (s == SYN_OK) memcpy(first, g.tokens, sizeof first);
    syn_free(g.tokens);
    syn_free(g.logits);
    /* A second run with the same model begins with empty caches. */
    g = request(0);
    g.new_tokens = 3;
    const syn_status second = syn_generate(gpt, &g, &err);
    const size_t later_steps = syn_ctx_trace(syn_model_ctx(gpt))->step;
    if (second == SYN_OK) memcpy(again, g.tokens, sizeof again);
    syn_free(g.tokens);
    syn_free(g.logits);
    model_drop(gpt);
    CHECK(refused == SYN_E_INVALID);
    CHECK_OK(s, err);
    CHECK_OK(second, err);
    CHECK(memcmp(first, again, sizeof first) == 0);
    CHECK_INT(later_steps, 2 * 3 - 1); /* the prefill counts as a step */
}

static void forward_refuses_what_does_not_fit(void) {
    static const struct {
        syn_spec spec;
        const char *says[2];
    } bad[] = {
        {{SYN_I32, 2, {3, 2}}, {"2 tokens of 3 sequences", "4"}},
        {{SYN_I32, 2, {2, 5}}, {"5 tokens of 2 sequences", "4"}},
        {{SYN_I32, 2, {2, 0}}, {"0 tokens of 2 sequences", "4"}},
        {{SYN_I32, 1, {2}}, {"i32[2]", "(batch, tokens)"}},
        {{SYN_I32, 3, {2, 2, 1}}, {"i32[2,2,1]", "(batch, tokens)"}},
        {{SYN_I64, 2, {2, 2}}, {"i64[2,2]", "must be i32"}},
        {{SYN_F32, 2, {2, 2}}, {"f32[2,2]", "must be i32"}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        syn_model *gpt = model();
        syn_error err = {0};
        CHECK_OK(syn_causal_begin(gpt, 2, 4, &err), err);
        const syn_tensor logits =
            syn_causal_forward(gpt, syn_input(syn_model_ctx(gpt), "tokens", &bad[i].spec, NULL));
        (void)model_end(gpt, &err);
        CHECK_INT(logits.id, 0);
        CHECK_HAS(err.text, bad[i].says[0]);
        CHECK_HAS(err.text, bad[i].says[1]);
    }
    syn_model *gpt = model();
    syn_error err = {0};
    const syn_spec spec = {SYN_I32, 2, {1, 1}};
    const syn_tensor logits =
        syn_causal_forward(gpt, syn_input(syn_model_ctx(gpt), "tokens", &spec, NULL));
    (void)model_end(gpt, &err);
    CHECK_INT(logits.id, 0);
    CHECK_HAS(err.text, "syn_causal_begin");
}

static void models_refuse_what_does_not_divide(void) {
    static const int32_t ranks[3] = {0, 1, 2};
    syn_group group = {1, "tp0", ranks, 3, 0, NULL};
    syn_comm *comm = NULL;
    syn_ctx *ctx = NULL;
    syn_model *gpt = NULL;
    syn_error err = {0}, inner = {0};
    CHECK_OK(syn_comm_fake_new(&comm, 0, 3, &err), err);
    const syn_status made = syn_ctx_new(&ctx, SYN_DEVICE_META, comm, &err);
    syn_model_options how = {.tp = &group, .fused_attention = false, .seed = 1};
    const syn_status heads = syn_model_new(&gpt, ctx, &small_gpt, &how, &err);
    syn_model_config config = small_gpt;
    config.n_head = 32;
    group.size = 1;
    config.n_inner = 33;
    syn_group pair = {1, "tp0", ranks, 2, 0, NULL};
    how.tp = &pair;
    const syn_status width = syn_model_new(&gpt, ctx, &config, &how, &inner);
    syn_ctx_free(ctx);
    syn_comm_close(comm);
    CHECK(made == SYN_OK && gpt == NULL);
    CHECK(heads == SYN_E_INVALID);
    CHECK_HAS(err.text, "tp 3 does not divide the 8 attention heads");
    CHECK(width == SYN_E_INVALID);
    CHECK_HAS(inner.text, "tp 2 does not divide the MLP's width 33");
}

static const test_case cases[] = {
    {"greedy_tokens_are_the_likeliest", greedy_tokens_are_the_likeliest},
    {"tokens_seen_are_penalized", tokens_seen_are_penalized},
    {"stages_generate_the_same", stages_generate_the_same},
    {"sampled_tokens_depend_on_the_seed_alone", sampled_tokens_depend_on_the_seed_alone},
    {"end_of_text_stops_and_pads", end_of_text_stops_and_pads},
    {"decoding_needs_no_more_memory", decoding_needs_no_more_memory},
    {"layers_reuse_each_others_memory", layers_reuse_each_others_memory},
    {"generation_refuses_with_the_numbers", generation_refuses_with_the_numbers},
    {"refused_generation_can_be_repeated", refused_generation_can_be_repeated},
    {"forward_refuses_what_does_not_fit", forward_refuses_what_does_not_fit},
    {"models_refuse_what_does_not_divide", models_refuse_what_does_not_divide},
};

TEST_MAIN(cases)
