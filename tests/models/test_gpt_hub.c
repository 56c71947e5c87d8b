/* Compares GPT with HuggingFace's results: with the same weights and prompts, logits and greedy
   tokens must be the same for every tp. tests/reference/make_gpt2_fixture.py created the
   fixture. */
#include "comm/comm.h"
#include "models/generate.h"
#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"
#include "tests/support/files.h"
#include "tests/support/gpt_reference.h"
#include "tests/support/ranks.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

enum { VOCAB = 97, MAX_TEXT = 32, MODELS = 2, TEXTS = 3 };

struct text {
    int n_tokens, n_greedy, n_logits; /* n_logits: number of logits, n_tokens * VOCAB */
    int32_t tokens[MAX_TEXT], greedy[MAX_TEXT];
    double logits[MAX_TEXT * VOCAB];
};

static struct text fixture[MODELS][TEXTS];

static syn_model_config config_of(int model) {
    syn_model_config c = small_gpt;
    c.n_embd = 64;
    c.n_positions = 32;
    c.vocab_size = VOCAB;
    if (model == 0) c.n_inner = 256;
    else c.activation = SYN_GELU_ERF;
    c.tied = model == 0;
    return c;
}

/* Reads the numbers of an array, or of an array of arrays one after the other. */
static bool read_numbers(syn_json *json, double *out, int cap, int *n) {
    const int depth = json->depth;
    *n = 0;
    do {
        const syn_json_type type = syn_json_next(json);
        if (type == SYN_JSON_ERROR || type == SYN_JSON_END) return false;
        if (type == SYN_JSON_NUMBER && *n < cap) out[(*n)++] = json->number;
        else if (type == SYN_JSON_NUMBER) return false;
    } while (json->depth > depth);
    return true;
}

static bool read_tokens(syn_json *json, int32_t *out, int *n) {
    double numbers[MAX_TEXT];
    if (!read_numbers(json, numbers, MAX_TEXT, n)) return false;
    for (int i = 0; i < *n; i++) out[i] = (int32_t)numbers[i];
    return true;
}

static bool read_document(syn_json *json) {
    int model = -1, text = -1;
    for (;;) {
        const syn_json_type type = syn_json_next(json);
        if (type == SYN_JSON_END) return model == MODELS - 1 && text == TEXTS - 1;
        if (type == SYN_JSON_ERROR) return false;
        if (type != SYN_JSON_KEY) continue;
        struct text *t = model >= 0 && text >= 0 ? &fixture[model][text] : NULL;
        bool ok = true;
        if (strcmp(json->text, "config") == 0) {
            if (++model == MODELS) return false;
            ok = syn_json_skip(json);
            text = -1;
        } else if (strcmp(json->text, "tokens") == 0) {
            if (++text == TEXTS) return false;
            t = &fixture[model][text];
            ok = read_tokens(json, t->tokens, &t->n_tokens);
        } else if (strcmp(json->text, "greedy") == 0) {
            ok = read_tokens(json, t->greedy, &t->n_greedy);
        } else if (strcmp(json->text, "logits") == 0) {
            ok = read_numbers(json, t->logits, MAX_TEXT * VOCAB, &t->n_logits);
        }
        if (!ok) return false;
    }
}

static bool read_fixture(void) {
    static bool read;
    if (read) return true;
    const char *path = reference_path("gpt2_logits.json");
    size_t bytes;
    syn_error err = {0};
    syn_json json;
    char *data = file_bytes(path, &bytes);
    if (!data) return false;
    syn_json_init(&json, path, data, bytes, &err);
    read = read_document(&json);
    syn_json_free(&json);
    free(data);
    for (int m = 0; m < MODELS; m++)
        for (int i = 0; i < TEXTS; i++)
            read = read && fixture[m][i].n_logits == fixture[m][i].n_tokens * VOCAB &&
                   fixture[m][i].n_greedy == 8;
    if (!read) fprintf(stderr, "%s: unexpected contents. %s\n", path, err.text);
    return read;
}

/* The reference formulas that other tests compare with must agree with HuggingFace, too. */
static void the_reference_agrees(void) {
    CHECK(read_fixture());
    for (int m = 0; m < MODELS; m++) {
        const syn_model_config c = config_of(m);
        ref_model model = ref_filled(&c);
        double worst = 0;
        for (int i = 0; i < TEXTS; i++) {
            const struct text *t = &fixture[m][i];
            double *logits = ref_forward(&model, t->tokens, t->n_tokens);
            for (int k = 0; k < t->n_logits; k++)
                if (!(fabs(logits[k] - t->logits[k]) <= worst))
                    worst = fabs(logits[k] - t->logits[k]);
            free(logits);
        }
        ref_free(&model);
        CHECK_MSG(worst < 1e-5, "model %d: logits differ by %g", m, worst);
    }
}

struct job {
    int tp, model, text;
    bool fused;
    const ref_model *weights;
    double worst; /* largest error of rank 0 */
    int right;    /* number of rank 0's greedy tokens that are correct */
};

/* Runs the model token by token, then on the whole sequence in one call, followed by generation. */
static syn_status run_model(struct job *job, syn_ctx *ctx, syn_model *gpt, int rank,
                            syn_error *err) {
    const struct text *t = &fixture[job->model][job->text];
    float logits[VOCAB];
    const syn_spec one = {SYN_I32, 2, {1, 1}};
    double worst = 0;
    SYN_TRY(syn_causal_begin(gpt, 1, t->n_tokens, err));
    for (int i = 0; i < t->n_tokens; i++) {
        const syn_tensor out =
            syn_causal_forward(gpt, syn_input(ctx, "token", &one, &t->tokens[i]));
        SYN_TRY(syn_tensor_read(ctx, out, logits, sizeof logits));
        const double e = ref_error(logits, t->logits + i * VOCAB, VOCAB);
        if (!(e <= worst)) worst = isnan(e) ? INFINITY : e;
    }
    syn_generation g = {.batch = 1,
                        .prompt_tokens = t->n_tokens,
                        .new_tokens = t->n_greedy,
                        .prompt = t->tokens,
                        .sampling = {0, 0, 1, 0, 0},
                        .want_logits = true};
    SYN_TRY(syn_generate(gpt, &g, err));
    const double e = ref_error(g.logits, t->logits + (t->n_tokens - 1) * VOCAB, VOCAB);
    if (!(e <= worst)) worst = isnan(e) ? INFINITY : e;
    if (rank == 0) {
        job->worst = worst;
        for (int i = 0; i < t->n_greedy; i++) job->right += g.tokens[i] == t->greedy[i];
    }
    syn_free(g.tokens);
    syn_free(g.logits);
    return SYN_OK;
}

static syn_status run_rank(const test_rank *me, void *arg, syn_error *err) {
    struct job *job = arg;
    syn_model *gpt = NULL;
    const syn_model_options how = {.tp = me->tp, .fused_attention = job->fused, .seed = 1};
    syn_status s = syn_model_new(&gpt, me->ctx, &job->weights->config, &how, err);
    if (s == SYN_OK) s = ref_load(job->weights, me->ctx, me->index, job->tp);
    if (s == SYN_OK) s = run_model(job, me->ctx, gpt, me->index, err);
    syn_model_free(gpt);
    return s;
}

static void the_model_agrees(void) {
    CHECK(read_fixture());
    for (int m = 0; m < MODELS; m++) {
        const syn_model_config c = config_of(m);
        ref_model model = ref_filled(&c);
        for (int i = 0; i < TEXTS * 8; i++) {
            struct job job = {
                .tp = 1 << i / 2 % 4, .model = m, .text = i / 8, .fused = i % 2, .weights = &model};
            syn_error err = {0};
            const syn_status s = run_ranks(job.tp, run_rank, &job, &err);
            CHECK_OK(s, err);
            CHECK_MSG(job.worst <= 1e-5, "model %d, text %d, tp %d: error %g", m, job.text, job.tp,
                      job.worst);
            CHECK_MSG(job.right == 8, "model %d, text %d, tp %d: %d of 8 tokens", m, job.text,
                      job.tp, job.right);
        }
        ref_free(&model);
    }
}

static const test_case cases[] = {
    {"the_reference_agrees", the_reference_agrees},
    {"the_model_agrees", the_model_agrees},
};

TEST_MAIN(cases)
