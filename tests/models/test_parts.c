/* Tests models that are split into ranges of layers, like pipeline stages. The parts must have the
   same parameters as the whole model, and their results must be bit-identical. */
#include "comm/comm.h"
#include "models/generate.h"
#include "syntorch/base/memory.h"
#include "syntorch/mesh.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

enum { BATCH = 2, PROMPT = 5, STEPS = 3, LAYERS = 4, WIDTH = 32, VOCAB = 37, MAX_PARTS = 3 };

/* A small model with LAYERS layers and a vocabulary of VOCAB tokens. */
static syn_model_config config_of(bool bert) {
    syn_model_config c = bert ? small_bert : small_gpt;
    c.n_layer = LAYERS;
    c.vocab_size = VOCAB;
    return c;
}

static const int32_t tokens[BATCH * PROMPT] = {1, 2, 3, 4, 5, 36, 0, 36, 7, 8};
static const int32_t padding[BATCH] = {0, 2};

/* The ways to split a model. The first is the whole model. */
static const struct {
    int n;
    syn_model_part parts[MAX_PARTS];
} cuts[] = {
    {1, {{0, LAYERS, true, true, 0}}},
    {2, {{0, 2, true, false, 0}, {2, 2, false, true, 0}}},
    {3, {{0, 1, true, false, 0}, {1, 2, false, false, 0}, {3, 1, false, true, 0}}},
    {3, {{0, 0, true, false, 0}, {0, LAYERS, false, false, 0}, {LAYERS, 0, false, true, 0}}},
};
enum { CUTS = sizeof cuts / sizeof cuts[0] };

struct job {
    syn_model_config config;
    int tp;
    bool fused, padded;
    bool apart;     /* each part is in a separate context */
    bool backwards; /* the last part is created first */
    bool same;      /* whether all splits gave the same results on this rank */
};

/* The parts of a model, in one or several contexts. */
struct pieces {
    int n;
    syn_model *model[MAX_PARTS];
    syn_ctx *ctx[MAX_PARTS];
};

static syn_status open_pieces(struct pieces *p, const struct job *job, int cut, syn_comm *comm,
                              const syn_group *tp, syn_error *err) {
    *p = (struct pieces){.n = cuts[cut].n};
    for (int k = 0; k < p->n; k++) {
        const int i = job->backwards ? p->n - 1 - k : k;
        if (k == 0 || job->apart) SYN_TRY(syn_ctx_new(&p->ctx[i], SYN_DEVICE_CPU, comm, err));
        else p->ctx[i] = p->ctx[job->backwards ? p->n - 1 : 0];
        const syn_model_options how = {.tp = tp,
                                       .part = cut ? &cuts[cut].parts[i] : NULL,
                                       .heads = ALL_HEADS,
                                       .fused_attention = job->fused,
                                       .seed = 5};
        SYN_TRY(syn_model_new(&p->model[i], p->ctx[i], &job->config, &how, err));
    }
    return SYN_OK;
}

static void close_pieces(struct pieces *p) {
    for (int i = 0; i < p->n; i++) {
        syn_model_free(p->model[i]);
        if (i == 0 || p->ctx[i] != p->ctx[0]) syn_ctx_free(p->ctx[i]);
    }
}

/* Copies x from the context of part i - 1 to the context of part i. */
static syn_tensor hand_over(const struct pieces *p, int i, syn_tensor x) {
    float data[BATCH * PROMPT * WIDTH];
    if (i == 0 || p->ctx[i] == p->ctx[i - 1]) return x;
    const syn_spec spec = *syn_tensor_spec(p->ctx[i - 1], x);
    const syn_status s = syn_tensor_read(p->ctx[i - 1], x, data, (size_t)syn_spec_bytes(&spec));
    return s == SYN_OK ? syn_input(p->ctx[i], "activations", &spec, data) : (syn_tensor){0};
}

/* ---- Results of the parts ---- */

/* The logits after the prompt, and after each of the next STEPS tokens. */
static syn_status run_gpt(const struct job *job, struct pieces *p,
                          float out[1 + STEPS][BATCH * VOCAB], syn_error *err) {
    for (int i = 0; i < p->n; i++) {
        SYN_TRY(syn_causal_begin(p->model[i], BATCH, PROMPT + STEPS, err));
        if (job->padded) SYN_TRY(syn_causal_set_padding(p->model[i], padding, err));
    }
    for (int step = 0; step <= STEPS; step++) {
        const syn_spec spec = {SYN_I32, 2, {BATCH, step ? 1 : PROMPT}};
        syn_tensor x = syn_input(p->ctx[0], "tokens", &spec, tokens + step);
        for (int i = 0; i < p->n; i++) x = syn_causal_forward(p->model[i], hand_over(p, i, x));
        syn_ctx *last = p->ctx[p->n - 1];
        SYN_TRY(syn_tensor_read(last, x, out[step], sizeof out[step]));
    }
    return SYN_OK;
}

struct bert_results {
    float hidden[BATCH * PROMPT * WIDTH], words[BATCH * PROMPT * VOCAB], next[BATCH * 2];
};

static syn_status run_bert(const struct job *job, struct pieces *p, struct bert_results *out) {
    const syn_spec ids = {SYN_I32, 2, {BATCH, PROMPT}}, mask = {SYN_F32, 2, {BATCH, PROMPT}};
    float hidden[BATCH * PROMPT] = {0};
    for (int b = 0; b < BATCH; b++)
        for (int t = 0; t < padding[b]; t++) hidden[b * PROMPT + PROMPT - 1 - t] = -INFINITY;
    syn_tensor x = syn_input(p->ctx[0], "tokens", &ids, tokens);
    for (int i = 0; i < p->n; i++) {
        const syn_tensor m =
            job->padded ? syn_input(p->ctx[i], "mask", &mask, hidden) : SYN_NO_MASK;
        x = syn_bert_forward(p->model[i], hand_over(p, i, x), SYN_BERT_NO_TYPES, m);
    }
    syn_model *last = p->model[p->n - 1];
    syn_ctx *ctx = p->ctx[p->n - 1];
    const syn_tensor words = syn_bert_mlm(last, x, SYN_BERT_ALL);
    const syn_tensor next = syn_bert_nsp(last, syn_bert_pooled(last, x));
    SYN_TRY(syn_tensor_read(ctx, x, out->hidden, sizeof out->hidden));
    SYN_TRY(syn_tensor_read(ctx, words, out->words, sizeof out->words));
    return syn_tensor_read(ctx, next, out->next, sizeof out->next);
}

/* ---- Comparison ---- */

/* Whether the parameter `name` is the same in both contexts. */
static bool same_param(syn_ctx *a, syn_ctx *b, const char *name) {
    const syn_tensor x = syn_find_param(a, name), y = syn_find_param(b, name);
    const size_t bytes = (size_t)syn_spec_bytes(syn_tensor_spec(a, x));
    void *mine = malloc(bytes), *other = malloc(bytes);
    const bool same = x.id && y.id && mine && other &&
                      syn_spec_equal(syn_tensor_spec(a, x), syn_tensor_spec(b, y)) &&
                      syn_tensor_read(a, x, mine, bytes) == SYN_OK &&
                      syn_tensor_read(b, y, other, bytes) == SYN_OK &&
                      memcmp(mine, other, bytes) == 0;
    free(mine);
    free(other);
    return same;
}

/* The parts have the parameters of the whole model, each exactly once. The only exception is a tied
   table, which two contexts have if they have the embedding and the head. */
static bool same_params(const struct job *job, const struct pieces *whole, const struct pieces *p) {
    size_t n = 0;
    for (int i = 0; i < p->n; i++) {
        if (i > 0 && p->ctx[i] == p->ctx[0]) continue;
        const size_t mine = syn_ctx_param_count(p->ctx[i]);
        for (size_t k = 0; k < mine; k++)
            if (!same_param(whole->ctx[0], p->ctx[i], syn_ctx_param(p->ctx[i], k).name))
                return false;
        n += mine;
    }
    const size_t twice = job->apart && p->n > 1 && job->config.tied;
    return n == syn_ctx_param_count(whole->ctx[0]) + twice;
}

static syn_status run_rank(syn_comm *comm, void *arg, syn_error *err) {
    struct job mine = *(struct job *)arg;
    static _Thread_local float logits[2][1 + STEPS][BATCH * VOCAB];
    static _Thread_local struct bert_results results[2];
    struct pieces whole, p;
    syn_mesh mesh;
    SYN_TRY(syn_mesh_open(&mesh, comm, &(syn_plan){.tp = mine.tp}, err));
    const syn_group *tp = mesh.group[SYN_AXIS_TP];
    const bool causal = syn_model_is_causal(&mine.config);
    syn_status s = open_pieces(&whole, &mine, 0, comm, tp, err);
    if (s == SYN_OK)
        s = causal ? run_gpt(&mine, &whole, logits[0], err) : run_bert(&mine, &whole, &results[0]);
    mine.same = s == SYN_OK;
    for (int cut = 1; cut < CUTS && s == SYN_OK; cut++) {
        s = open_pieces(&p, &mine, cut, comm, tp, err);
        mine.same = mine.same && s == SYN_OK && same_params(&mine, &whole, &p);
        memset(logits[1], 0, sizeof logits[1]);
        memset(&results[1], 0, sizeof results[1]);
        if (s == SYN_OK)
            s = causal ? run_gpt(&mine, &p, logits[1], err) : run_bert(&mine, &p, &results[1]);
        for (int i = 0; i < p.n; i++) syn_ctx_check(p.ctx[i], err);
        mine.same = mine.same && memcmp(logits[0], logits[1], sizeof logits[0]) == 0 &&
                    memcmp(&results[0], &results[1], sizeof results[0]) == 0;
        close_pieces(&p);
    }
    close_pieces(&whole);
    if (s == SYN_OK && !mine.same) s = SYN_FAIL(err, SYN_E_INVALID, "the parts differ");
    return s;
}

static void check_model(bool bert) {
    for (int way = 0; way < 64; way += TEST_REDUCED ? 5 : 1) {
        struct job job = {.config = config_of(bert),
                          .tp = 1 + way / 16 % 2,
                          .fused = way % 2,
                          .padded = way / 2 % 2,
                          .apart = way / 4 % 2,
                          .backwards = way / 32};
        syn_error err = {0};
        job.config.tied = way / 8 % 2;
        const syn_status s = syn_local_run(job.tp, run_rank, &job, &err);
        CHECK_MSG(s == SYN_OK, "tp %d, fused %d, padded %d, apart %d, tied %d, backwards %d: %s",
                  job.tp, job.fused, job.padded, job.apart, job.config.tied, job.backwards,
                  err.text);
    }
}

static void gpt_in_parts(void) {
    check_model(false);
}

static void bert_in_parts(void) {
    check_model(true);
}

/* ---- Errors ---- */

static syn_model *open_part(bool bert, const syn_model_part *part, syn_device device) {
    const syn_model_config config = config_of(bert);
    return model_alone(device, &config, &(syn_model_options){.part = part, .heads = ALL_HEADS});
}

static void parts_that_there_are_not(void) {
    static const struct {
        syn_model_part part;
        const char *says;
    } bad[] = {
        {{-1, 2, false, false, 0}, "small does not have 2 layers from layer -1 on: it has 4"},
        {{1, -1, false, false, 0}, "does not have -1 layers"},
        {{3, 2, false, true, 0}, "small does not have 2 layers from layer 3 on"},
        {{5, 0, false, false, 0}, "does not have 0 layers from layer 5 on"},
        {{1, INT64_MAX, false, false, 0}, "layers from layer 1 on"},
        {{1, 3, true, true, 0}, "with the embedding must begin with layer 0, not 1"},
        {{0, 3, true, true, 0}, "with the head must end with the last layer, not before layer 3"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const syn_model_options how = {.part = &bad[i].part};
        const syn_model_config config = config_of(false);
        syn_model *m = NULL;
        syn_ctx *ctx;
        syn_error err = {0};
        CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err), err);
        const syn_status s = syn_model_new(&m, ctx, &config, &how, &err);
        const size_t params = syn_ctx_param_count(ctx);
        syn_ctx_free(ctx);
        CHECK_INT(s, SYN_E_INVALID);
        CHECK(m == NULL && params == 0);
        CHECK_HAS(err.text, bad[i].says);
    }
}

/* A table with the same name is not used for a tied head if its shape does not fit. */
static void tables_of_other_models(void) {
    static const syn_model_part first = {0, 2, true, false, 0}, last = {2, 2, false, true, 0};
    for (int i = 0; i < 6; i++) {
        const syn_model_config gpt = config_of(false);
        syn_model_config other = gpt;
        syn_model_options how = {.part = i % 2 ? &last : &first};
        syn_model *m[2] = {NULL, NULL};
        syn_ctx *ctx;
        syn_error err = {0};
        if (i / 2 == 0) other.n_embd = 2 * WIDTH;
        if (i / 2 == 1) other.vocab_size = VOCAB + 1;
        if (i / 2 == 2) how.weight_dtype = SYN_BF16;
        CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err), err);
        CHECK_OK(syn_model_new(&m[0], ctx, &other, &how, &err), err);
        how.part = i % 2 ? &first : &last;
        how.weight_dtype = SYN_F32;
        const syn_status s = syn_model_new(&m[1], ctx, &gpt, &how, &err);
        syn_model_free(m[0]);
        syn_ctx_free(ctx);
        CHECK_INT(s, SYN_E_INVALID);
        CHECK_HAS(err.text, "the context's wte.weight belongs to another model: ");
        CHECK_HAS(err.text, " instead of f32[37,32]");
    }
}

/* A part accepts only the output of the previous part as its input. */
static void what_a_part_is_given(void) {
    static const syn_model_part second = {2, 2, false, true, 0}, first = {0, 2, true, false, 0};
    static const struct {
        bool bert;
        const syn_model_part *part;
        syn_spec spec;
        const char *says;
    } bad[] = {
        {false,
         &second,
         {SYN_I32, 2, {1, 3}},
         "the input of layer 2 must be f32 (batch, tokens, 32)"},
        {false, &second, {SYN_F32, 3, {1, 3, 31}}, "not f32[1,3,31]"},
        {false, &second, {SYN_F32, 3, {2, 3, 32}}, "3 tokens of 2 sequences"},
        {false, &second, {SYN_F32, 3, {1, 9, 32}}, "9 tokens of 1 sequences"},
        {false, &first, {SYN_F32, 3, {1, 3, 32}}, "tokens must be i32 (batch, tokens)"},
        {true, &second, {SYN_I32, 2, {1, 3}}, "the input of layer 2 must be f32"},
        {true, &second, {SYN_F32, 3, {1, 25, 32}}, "25 tokens exceed the 24 positions"},
        {true, &first, {SYN_F32, 3, {1, 3, 32}}, "tokens must be i32 (batch, tokens)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        syn_error err = {0};
        syn_model *m = open_part(bad[i].bert, bad[i].part, SYN_DEVICE_META);
        const syn_tensor x = syn_input(syn_model_ctx(m), "x", &bad[i].spec, NULL);
        if (bad[i].bert) {
            syn_bert_forward(m, x, SYN_BERT_NO_TYPES, SYN_NO_MASK);
        } else {
            CHECK_OK(syn_causal_begin(m, 1, 8, &err), err);
            syn_causal_forward(m, x);
        }
        CHECK_INT(model_end(m, &err), SYN_E_SHAPE);
        CHECK_HAS(err.text, bad[i].says);
    }
}

static void parts_and_encoders_generate_nothing(void) {
    static const syn_model_part parts[] = {{0, 2, true, false, 0}, {2, 2, false, true, 0}};
    for (int i = 0; i < 3; i++) {
        syn_generation g = {.batch = 1, .prompt_tokens = 2, .new_tokens = 1, .prompt = tokens};
        syn_model *m = open_part(i == 2, i < 2 ? &parts[i] : NULL, SYN_DEVICE_CPU);
        syn_error err = {0};
        const syn_status s = syn_generate(m, &g, &err);
        model_drop(m);
        CHECK_INT(s, SYN_E_INVALID);
        CHECK_HAS(err.text, i < 2 ? "a part of small cannot generate tokens"
                                  : "small is a BERT, which does not predict the next token");
    }
}

/* BERT's heads can only be used on the part that has them. */
static void heads_of_other_parts(void) {
    static const syn_model_part first = {0, 2, true, false, 0};
    const syn_spec spec = {SYN_F32, 3, {1, 3, WIDTH}};
    syn_model *m = open_part(true, &first, SYN_DEVICE_META);
    syn_error err = {0};
    syn_bert_mlm(m, syn_input(syn_model_ctx(m), "x", &spec, NULL), SYN_BERT_ALL);
    CHECK_INT(model_end(m, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "small was created without the head 'MLM'");
}

static const test_case cases[] = {
    {"gpt_in_parts", gpt_in_parts},
    {"bert_in_parts", bert_in_parts},
    {"parts_that_there_are_not", parts_that_there_are_not},
    {"tables_of_other_models", tables_of_other_models},
    {"what_a_part_is_given", what_a_part_is_given},
    {"parts_and_encoders_generate_nothing", parts_and_encoders_generate_nothing},
    {"heads_of_other_parts", heads_of_other_parts},
};

TEST_MAIN(cases)
