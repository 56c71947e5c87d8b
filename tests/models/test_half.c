/* Compares 16-bit models with transformers, which also computes in 16 bits
   (tests/reference/make_half_fixture.py). Our error relative to transformers' f32 results may be at
   most that of transformers' own 16-bit results. */
#include "models/bert.h"
#include "models/causal.h"
#include "models/weights/safetensors.h"
#include "tests/support/full_formula.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"
#include "tests/support/weights_fixture.h"

/* Factors by which the error may grow because of another order of summation. With several ranks,
   the partial sums are rounded once more. */
#define SLACK     1.1
#define SLACK_CUT 1.25

enum { MAX_LOGITS = 40 * 500 };

static int number_of(const char *name) {
    int p = 0;
    for (; *name; name++) p = (p * 31 + *name) % 65521;
    return p;
}

static double scale_of(const char *name, int rank) {
    const bool norm =
        (strstr(name, "ln_") || strstr(name, "LayerNorm")) && ref_ends(name, ".weight");
    const bool sharp = strstr(name, "c_attn") || strstr(name, ".query.") || strstr(name, ".key.");
    return norm || (rank == 2 && sharp) ? 1 / 4.0 : 1 / 8.0;
}

static const full_formula gpt_formula = {number_of, scale_of, "ln_"},
                          bert_formula = {number_of, scale_of, "LayerNorm"};

/* A model of the fixture. If formula is NULL, it is the checkpoint with this name. */
typedef struct model_of {
    const char *name;
    const full_formula *formula;
    const char *preset;
} model_of;

static const model_of models[] = {{"tiny_gpt2_f32", NULL, NULL},
                                  {"tiny_gpt2_f32_untied", NULL, NULL},
                                  {"tiny_bert_f32", NULL, NULL},
                                  {"gpt2", &gpt_formula, "gpt2"},
                                  {"bert", &bert_formula, "bert-base-uncased"}};

/* How the logits of all positions are computed. */
typedef enum path { BY_TOKEN, BY_PREFILL } path;

typedef struct job {
    const syn_safetensors *fixture;
    const model_of *of;
    syn_dtype dtype;
    bool fused;
    int tp;
    path path;
    double distance; /* error of rank 0's logits */
} job;

static const syn_safetensors_tensor *known(const job *j, const char *what) {
    char name[80];
    snprintf(name, sizeof name, "%s.%s", j->of->name, what);
    return syn_safetensors_find(j->fixture, name);
}

static const int32_t *ids_of(const job *j, const char *what) {
    return (const int32_t *)known(j, what)->data;
}

/* The index of position t of sequence b among the positions that are not padding. */
static int64_t place(const job *j, int64_t b, int64_t t) {
    const int64_t *dims = known(j, "mask")->dims;
    const int32_t *mask = ids_of(j, "mask");
    int64_t at = 0;
    for (int64_t i = 0; i < b * dims[1] + t; i++) at += mask[i];
    return at;
}

/* ---- Results ---- */

static bool is_of(const syn_ctx *ctx, syn_tensor t, syn_dtype dtype) {
    return syn_ctx_status(ctx) != SYN_OK || syn_tensor_spec(ctx, t)->dtype == (int32_t)dtype;
}

/* Tokens begin .. end - 1 of all sequences. */
static syn_tensor tokens_of(const job *j, syn_ctx *ctx, int64_t begin, int64_t end) {
    const int64_t *dims = known(j, "mask")->dims;
    const syn_spec spec = {SYN_I32, 2, {dims[0], end - begin}};
    int32_t ids[128];
    for (int64_t b = 0; b < dims[0]; b++)
        memcpy(ids + b * (end - begin), ids_of(j, "tokens") + b * dims[1] + begin,
               (size_t)(end - begin) * sizeof *ids);
    return syn_input(ctx, "tokens", &spec, ids);
}

static syn_status begin_texts(const job *j, syn_model *m, syn_error *err) {
    const int64_t *dims = known(j, "mask")->dims;
    int32_t padding[8];
    for (int64_t b = 0; b < dims[0]; b++)
        padding[b] = (int32_t)(dims[1] - (place(j, b + 1, 0) - place(j, b, 0)));
    SYN_TRY(syn_causal_begin(m, dims[0], dims[1], err));
    return syn_causal_set_padding(m, padding, err);
}

static syn_status run_gpt(const job *j, syn_model *m, float *logits, syn_error *err) {
    static _Thread_local float last[8 * 500];
    syn_ctx *ctx = syn_model_ctx(m);
    const int64_t *dims = known(j, "mask")->dims, v = syn_model_get_config(m)->vocab_size;
    const syn_mark mark = syn_ctx_mark(ctx);
    for (int64_t t = 0; t < dims[1]; t++) {
        const bool whole = j->path == BY_PREFILL || t == 0;
        if (whole) SYN_TRY(begin_texts(j, m, err));
        const syn_tensor y =
            syn_causal_forward(m, tokens_of(j, ctx, j->path == BY_PREFILL ? 0 : t, t + 1));
        if (!is_of(ctx, y, j->dtype)) return SYN_FAIL(err, SYN_E_SHAPE, "logits of another type");
        if (syn_tensor_read_f32(ctx, y, last, (size_t)(dims[0] * v)) != SYN_OK) break;
        for (int64_t b = 0; b < dims[0]; b++)
            if (ids_of(j, "mask")[b * dims[1] + t])
                memcpy(logits + place(j, b, t) * v, last + b * v, (size_t)v * sizeof *last);
        if (j->path == BY_PREFILL) syn_release(ctx, mark, NULL, 0);
    }
    return syn_ctx_check(ctx, err);
}

static syn_status run_bert(const job *j, syn_model *m, float *logits, syn_error *err) {
    static _Thread_local float all[2 * MAX_LOGITS];
    syn_ctx *ctx = syn_model_ctx(m);
    const int64_t *dims = known(j, "mask")->dims, n = dims[0] * dims[1],
                  v = syn_model_get_config(m)->vocab_size;
    const syn_spec ids = {SYN_I32, 2, {dims[0], dims[1]}},
                   floats = {SYN_F32, 2, {dims[0], dims[1]}};
    float mask[128];
    for (int64_t i = 0; i < n; i++) mask[i] = ids_of(j, "mask")[i] ? 0 : -INFINITY;
    const syn_tensor types = syn_input(ctx, "types", &ids, ids_of(j, "types"));
    const syn_tensor hidden = syn_bert_forward(m, tokens_of(j, ctx, 0, dims[1]), types,
                                               syn_input(ctx, "mask", &floats, mask));
    const syn_tensor y = syn_bert_mlm(m, hidden, SYN_BERT_ALL);
    if (!is_of(ctx, y, j->dtype)) return SYN_FAIL(err, SYN_E_SHAPE, "logits of another type");
    if (syn_tensor_read_f32(ctx, y, all, (size_t)(n * v)) == SYN_OK)
        for (int64_t i = 0, at = 0; i < n; i++)
            if (ids_of(j, "mask")[i])
                memcpy(logits + v * at++, all + i * v, (size_t)v * sizeof *all);
    return syn_ctx_check(ctx, err);
}

/* |x - want| / |want| */
static double distance(const float *x, const syn_safetensors_tensor *want) {
    double apart = 0, size = 0;
    for (int64_t i = 0; i < want->elems; i++) {
        const double w = (double)decode(want, i), d = (double)x[i] - w;
        apart += d * d;
        size += w * w;
    }
    return sqrt(apart / size);
}

/* ---- models ---- */

static syn_status config_of(const model_of *of, syn_model_config *c, syn_error *err) {
    if (!of->preset)
        return syn_model_config_load(c, reference_path("%s/config.json", of->name), err);
    SYN_TRY(syn_model_config_preset(c, of->preset, err));
    c->n_layer = 4, c->n_embd = 128, c->n_head = 4, c->n_inner = 512;
    c->vocab_size = 500, c->n_positions = 40;
    return SYN_OK;
}

static syn_status check_params(const job *j, const syn_ctx *ctx, syn_error *err) {
    for (size_t i = 0; i < syn_ctx_param_count(ctx); i++)
        if (!is_of(ctx, syn_ctx_param(ctx, i).tensor, j->dtype))
            return SYN_FAIL(err, SYN_E_SHAPE, "%s is of another type", syn_ctx_param(ctx, i).name);
    return SYN_OK;
}

static syn_status run_rank(const test_rank *me, void *arg, syn_error *err) {
    job *j = arg;
    syn_model_config config;
    syn_weights *weights = NULL;
    syn_weights_reader *reader = NULL;
    syn_model *m = NULL;
    syn_param_source source = {NULL, NULL};
    SYN_TRY(config_of(j->of, &config, err));
    const syn_model_options how = {
        .tp = me->tp, .heads = SYN_BERT_MLM, .fused_attention = j->fused, .dtype = j->dtype};
    syn_status s = SYN_OK;
    if (j->of->formula) {
        source = full_source(j->of->formula);
    } else {
        s = syn_weights_open(&weights, reference_path("%s", j->of->name), config.family, err);
        if (s == SYN_OK) s = syn_weights_reader_new(&reader, weights, err);
        if (s == SYN_OK) source = syn_weights_source(reader);
    }
    syn_ctx_set_param_source(me->ctx, &source);
    if (s == SYN_OK) s = syn_model_new(&m, me->ctx, &config, &how, err);
    float *logits = calloc(MAX_LOGITS, sizeof *logits);
    if (s == SYN_OK && logits)
        s = (syn_model_is_causal(&config) ? run_gpt : run_bert)(j, m, logits, err);
    if (s == SYN_OK) s = check_params(j, me->ctx, err);
    if (me->index == 0) j->distance = distance(logits, known(j, "logits"));
    free(logits);
    syn_model_free(m);
    syn_weights_reader_free(reader);
    syn_weights_free(weights);
    return s;
}

/* The largest allowed error. Fused attention is compared with "sdpa" of transformers, unfused
   attention with "eager". */
static double allowed(const job *j) {
    if (j->dtype == SYN_F32) return 1e-5;
    return (j->tp > 1 ? SLACK_CUT : SLACK) *
           (double)decode(known(j, "distance"), (j->dtype == SYN_F16 ? 2 : 0) + j->fused);
}

static void check(job j) {
    syn_error err = {0};
    CHECK_OK(run_ranks(j.tp, run_rank, &j, &err), err);
    if (getenv("SYN_SHOW"))
        printf("%-22s %-4s tp %d %s %s: %.5f of %.5f\n", j.of->name, syn_dtype_name(j.dtype), j.tp,
               j.fused ? "fused" : "unfused", j.path == BY_TOKEN ? "by token" : "prefill",
               j.distance, allowed(&j));
    CHECK_MSG(j.distance > 0 && j.distance <= allowed(&j),
              "%s in %s, tp %d, %s, %s: %g from f32, more than %g", j.of->name,
              syn_dtype_name(j.dtype), j.tp, j.fused ? "fused" : "unfused",
              j.path == BY_TOKEN ? "by token" : "prefill", j.distance, allowed(&j));
}

static void check_dtype(syn_dtype dtype) {
    if (!getenv("SYN_SOURCE")) SKIP("SYN_SOURCE does not say where the fixtures are");
    syn_safetensors *st;
    syn_error err = {0};
    CHECK_OK(syn_safetensors_open(&st, reference_path("half_logits.safetensors"), &err), err);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int k = 0; k < 8; k += TEST_REDUCED ? 3 : 1) {
            const job j = {.fixture = st,
                           .of = &models[i],
                           .dtype = dtype,
                           .fused = k & 1,
                           .tp = 1 + (k >> 1 & 1),
                           .path = k >> 2 ? BY_PREFILL : BY_TOKEN};
            if (j.path == BY_TOKEN || !strstr(j.of->name, "bert")) check(j);
        }
    syn_safetensors_free(st);
}

static void test_f32(void) {
    check_dtype(SYN_F32);
}

static void test_bf16(void) {
    check_dtype(SYN_BF16);
}

static void test_f16(void) {
    check_dtype(SYN_F16);
}

/* ---- Errors ---- */

static void test_types(void) {
    static const syn_dtype bad[][2] = {
        {SYN_BF16, SYN_F16}, {SYN_F16, SYN_BF16}, {SYN_I32, SYN_F32}, {SYN_F32, SYN_I32}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const syn_model_options how = {.dtype = bad[i][0], .weight_dtype = bad[i][1]};
        syn_model *m = NULL;
        syn_ctx *ctx = NULL;
        syn_error err = {0};
        CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err), err);
        CHECK_INT(syn_model_new(&m, ctx, &small_gpt, &how, &err), SYN_E_UNSUPPORTED);
        CHECK_HAS(err.text, "a model cannot compute in ");
        CHECK(m == NULL && syn_ctx_param_count(ctx) == 0);
        syn_ctx_free(ctx);
    }
}

/* Functions of models accept only tensors with the dtype that the model computes in. */
static void test_given(void) {
    const syn_model_part last = {1, 1, false, true, 0};
    const syn_model_options how = {.dtype = SYN_BF16, .part = &last, .heads = SYN_BERT_MLM};
    for (int i = 0; i < 2; i++) {
        syn_model *m = model_alone(SYN_DEVICE_META, &small_bert, &how);
        syn_ctx *ctx = syn_model_ctx(m);
        const syn_spec spec = {SYN_F32, 3, {2, 3, 32}};
        const syn_tensor x = syn_input(ctx, "x", &spec, NULL);
        if (i == 0) syn_bert_forward(m, x, SYN_BERT_NO_TYPES, SYN_NO_MASK);
        else syn_bert_mlm(m, x, SYN_BERT_ALL);
        CHECK_HAS(syn_ctx_error(ctx)->text,
                  i == 0 ? "the input of layer 1 must be bf16 (batch, tokens, 32), not f32[2,3,32]"
                         : "the head 'MLM' needs bf16 (batch, tokens, 32), not f32[2,3,32]");
        model_drop(m);
    }
}

static const test_case cases[] = {{"f32", test_f32},
                                  {"bf16", test_bf16},
                                  {"f16", test_f16},
                                  {"types", test_types},
                                  {"what is given", test_given}};
TEST_MAIN(cases)
