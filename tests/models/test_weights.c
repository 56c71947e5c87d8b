/* Tests how checkpoints are read into models: every parameter name that HuggingFace has used, each
   rank's slices, and one message for everything that does not fit. Values are compared with an
   independent decoder (weights_fixture.h), and logits with HuggingFace's. */
#include "syntorch/base/json.h"
#include "tests/support/test.h"
#include "tests/support/weights_fixture.h"

/* ---- Names ---- */

static void names_become_parameters(void) {
    static const struct {
        const syn_model_family *family;
        const char *name, *parameter;
        syn__weights_role role;
    } rows[] = {
#define GPT(name, parameter, role) {&syn_gpt_family, name, parameter, SYN__WEIGHTS_##role}
#define BERT(name, parameter, role) \
    { &syn_bert_family, name, parameter, SYN__WEIGHTS_##role }
        GPT("transformer.wte.weight", "wte.weight", PARAMETER),
        GPT("wte.weight", "wte.weight", PARAMETER),
        GPT("transformer.transformer.x", "transformer.x", PARAMETER),
        GPT("transformer.h.11.attn.bias", "h.11.attn.bias", BUFFER),
        GPT("h.0.attn.masked_bias", "h.0.attn.masked_bias", BUFFER),
        GPT("h.0.attn.c_attn.bias", "h.0.attn.c_attn.bias", PARAMETER),
        GPT("h.0.attn.bias.x", "h.0.attn.bias.x", PARAMETER),
        GPT("h..attn.bias", "h..attn.bias", PARAMETER),
        GPT("h.0_attn.bias", "h.0_attn.bias", PARAMETER),
        GPT("attn.bias", "attn.bias", PARAMETER),
        GPT("lm_head.weight", "lm_head.weight", HEAD),
        GPT("lm_head.bias", "lm_head.bias", PARAMETER),
        GPT("bert.pooler.dense.bias", "bert.pooler.dense.bias", PARAMETER),
        GPT("transformer.", "", PARAMETER),
        BERT("bert.embeddings.LayerNorm.gamma", "embeddings.LayerNorm.weight", PARAMETER),
        BERT("embeddings.LayerNorm.beta", "embeddings.LayerNorm.bias", PARAMETER),
        BERT("LayerNorm.gamma", "LayerNorm.weight", PARAMETER),
        BERT("gamma", "gamma", PARAMETER),
        BERT("x.LayerNorm.gamma.y", "x.LayerNorm.gamma.y", PARAMETER),
        BERT("bert.embeddings.position_ids", "embeddings.position_ids", BUFFER),
        BERT("embeddings.token_type_ids", "embeddings.token_type_ids", BUFFER),
        BERT("bert.pooler.dense.weight", "pooler.dense.weight", HEAD),
        BERT("cls.predictions.transform.LayerNorm.beta", "cls.predictions.transform.LayerNorm.bias",
             HEAD),
        BERT("cls.predictions.decoder.weight", "cls.predictions.decoder.weight", HEAD),
        BERT("cls.seq_relationship.bias", "cls.seq_relationship.bias", HEAD),
        BERT("h.0.attn.bias", "h.0.attn.bias", PARAMETER),
        BERT("classifier.weight", "classifier.weight", OTHER),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *out = malloc(strlen(rows[i].name) + SYN__WEIGHTS_LONGER +
                           1); /* a buffer of exactly the size that the function requires */
        const syn__weights_role role =
            syn__weights_parameter_name(rows[i].family, rows[i].name, out);
        CHECK_STR(out, rows[i].parameter);
        CHECK_INT(role, rows[i].role);
        free(out);
    }
}

/* ---- The checkpoints of tests/reference ---- */

struct slices {
    const checkpoint *from;
    const syn_weights *weights;
    const ref_model *want;
    syn_dtype dtype;
    int wrong[4];
};

/* The number of this rank's parameters whose values differ from the slices of the file. */
static int count_wrong(syn_ctx *ctx, const ref_model *want, int rank, int tp, syn_dtype dtype) {
    int wrong = syn_ctx_param_count(ctx) != (size_t)want->n_params;
    for (int i = 0; i < want->n_params; i++) {
        size_t bytes;
        float *shard = ref_shard(&want->params[i], rank, tp, &bytes);
        const syn_tensor t = syn_find_param(ctx, want->params[i].name);
        const syn_dtype held = (syn_dtype)syn_tensor_spec(ctx, t)->dtype;
        void *got = malloc(bytes), *expected = malloc(bytes);
        memcpy(expected, shard, bytes);
        if (held != SYN_F32) {
            bytes /= 2;
            syn_half_narrow(shard, expected, bytes / 2, held);
        }
        wrong += !t.id || (held != SYN_F32 && held != dtype) ||
                 syn_tensor_read(ctx, t, got, bytes) != SYN_OK || memcmp(got, expected, bytes) != 0;
        free(got);
        free(expected);
        free(shard);
    }
    return wrong;
}

static syn_status slices_rank(syn_comm *comm, void *arg, syn_error *err) {
    struct slices *job = arg;
    syn_model *model = NULL;
    syn_ctx *ctx = NULL;
    const syn_status s =
        checkpoint_load(job->from, &model, &ctx, comm, job->weights, job->dtype, err);
    if (s == SYN_OK)
        job->wrong[comm->rank] = count_wrong(ctx, job->want, comm->rank, comm->size, job->dtype);
    syn_model_free(model);
    syn_ctx_free(ctx);
    return s;
}

static bool slices_are_right(const checkpoint *c) {
    syn_error err = {0};
    syn_model_config config;
    struct slices job = {.from = c};
    syn_safetensors *st = NULL;
    syn_weights *weights = NULL;
    ref_model full = {0}, *want = &full;
    bool ok = checkpoint_config(c, &config, &err) == SYN_OK;
    if (ok) full = (c->family == &syn_gpt_family ? ref_new : bref_new)(&config);
    /* The reference has more heads than this model. They are its last parameters. */
    if (c->family == &syn_bert_family && c->heads == SYN_BERT_POOLER) {
        while (strncmp(want->params[want->n_params - 1].name, "cls.", 4) == 0)
            free(want->params[--want->n_params].data);
    } else if (c->family == &syn_bert_family && c->heads == SYN_BERT_MLM) {
        int kept = 0;
        for (int i = 0; i < want->n_params; i++) {
            if (strstr(want->params[i].name, "pooler") || strstr(want->params[i].name, "seq_"))
                free(want->params[i].data);
            else want->params[kept++] = want->params[i];
        }
        want->n_params = kept;
    }
    ok = ok && syn_safetensors_open(&st, reference_path("%s", c->folder), &err) == SYN_OK &&
         decode_all(c, st, want) &&
         syn_weights_open(&weights, reference_path("%s", c->folder), c->family, &err) == SYN_OK &&
         syn_weights_dtype(weights) == c->dtype;
    job.weights = weights;
    job.want = want;
    for (int tp = 1; ok && tp <= 4; tp *= 2)
        for (int d = 0; ok && d < 3; d++) {
            static const syn_dtype dtypes[] = {SYN_F32, SYN_F16, SYN_BF16};
            job.dtype = dtypes[d];
            ok = syn_local_run(tp, slices_rank, &job, &err) == SYN_OK;
            for (int r = 0; r < tp; r++) ok = ok && job.wrong[r] == 0;
            if (!ok) fprintf(stderr, "%s, tp %d, %s\n", c->folder, tp, syn_dtype_name(job.dtype));
        }
    if (!ok) fprintf(stderr, "%s: %s\n", c->folder, err.text);
    syn_weights_free(weights);
    syn_safetensors_free(st);
    ref_free(want);
    return ok;
}

static void each_rank_reads_its_slices(void) {
    for (int i = 0; i < CHECKPOINTS; i++) CHECK(slices_are_right(&checkpoints[i]));
    syn_weights_free(NULL);
    syn_weights_reader_free(NULL);
}

/* ---- Model parts ---- */

static syn_status read_part(const checkpoint *c, const syn_model_config *config,
                            const syn_weights *weights, const syn_model_part *part, syn_ctx *ctx,
                            syn_error *err) {
    syn_weights_reader *reader;
    syn_model *model = NULL;
    SYN_TRY(syn_weights_reader_new(&reader, weights, err));
    const syn_param_source source = syn_weights_source(reader);
    const syn_model_options how = {.part = part, .heads = c->heads};
    syn_ctx_set_param_source(ctx, &source);
    syn_status s = syn_model_new(&model, ctx, config, &how, err);
    if (s == SYN_OK) s = syn_weights_finish(reader, model, NULL, err);
    syn_weights_reader_free(reader);
    syn_model_free(model);
    return s;
}

/* Each part of a model reads its own parameters and skips those of other parts. The models have the
   file's number of layers, are tied or not, and are in one context or in one context per part
   (apart). With `backwards`, the last part is read first. */
static void read_in_parts(const checkpoint *c, bool apart, bool backwards) {
    syn_error err = {0};
    syn_weights *weights;
    syn_model_config config;
    syn_ctx *ctx = NULL;
    size_t n = 0;
    CHECK_OK(checkpoint_config(c, &config, &err), err);
    const syn_model_part parts[3] = {{0, 1, true, false, 0},
                                     {1, config.n_layer - 1, false, false, 0},
                                     {config.n_layer, 0, false, true, 0}};
    CHECK_OK(syn_weights_open(&weights, reference_path("%s", c->folder), c->family, &err), err);
    for (int k = 0; k < 3; k++) {
        if (k == 0 || apart) CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err), err);
        CHECK_OK(read_part(c, &config, weights, &parts[backwards ? 2 - k : k], ctx, &err), err);
        if (k < 2 && !apart) continue;
        n += syn_ctx_param_count(ctx);
        syn_ctx_free(ctx);
    }
    CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err), err);
    CHECK_OK(read_part(c, &config, weights, NULL, ctx, &err), err);
    const bool copied =
        apart && config.tied && (c->family == &syn_gpt_family || c->heads & SYN_BERT_MLM);
    CHECK_INT(n, syn_ctx_param_count(ctx) + copied);
    syn_ctx_free(ctx);
    syn_weights_free(weights);
}

static void parts_read_what_is_theirs(void) {
    for (int i = 0; i < CHECKPOINTS; i++)
        for (int way = 0; way < 4; way++) read_in_parts(&checkpoints[i], way % 2, way / 2);
}

/* Layers that the model does not have, and names that no model has, are unexpected. They do not
   count as parameters of another part. */
static void what_no_part_has_is_unexpected(void) {
    const checkpoint *c = &checkpoints[0];
    static const syn_model_part parts[] = {
        {0, 1, true, false, 0}, {0, 1, false, false, 0}, {1, 0, false, true, 0}};
    syn_error err = {0};
    syn_weights *weights;
    syn_model_config config;
    CHECK_OK(checkpoint_config(c, &config, &err), err);
    CHECK(config.n_layer > 1);
    config.n_layer = 1;
    CHECK_OK(syn_weights_open(&weights, reference_path("%s", c->folder), c->family, &err), err);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        syn_error unexpected = {0};
        syn_ctx *ctx;
        CHECK_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, NULL, &err), err);
        CHECK_INT(read_part(c, &config, weights, &parts[i], ctx, &unexpected), SYN_E_SHAPE);
        CHECK_HAS(unexpected.text, " unexpected ('transformer.h.1.");
        syn_ctx_free(ctx);
    }
    syn_weights_free(weights);
    config.n_layer = 12;
    syn_model m = {.config = config, .part = {3, 4, false, false, 0}};
    static const struct {
        const char *name;
        bool leaves;
    } names[] = {{"h.2.ln_1.bias", true},
                 {"h.3.ln_1.bias", false},
                 {"h.6.ln_1.bias", false},
                 {"h.7.ln_1.bias", true},
                 {"h.11.ln_1.bias", true},
                 {"h.12.ln_1.bias", false},
                 {"h.02.ln_1.bias", false},
                 {"h.0.ln_1.bias", true},
                 {"h.99999999999999999999999999.ln_1.bias", false},
                 {"h.2.ln_9.bias", false},
                 {"wpe.weight", true},
                 {"ln_f.weight", true},
                 {"ln_f", false}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK_MSG(syn__model_lacks_param(&m, names[i].name) == names[i].leaves, "%s",
                  names[i].name);
}

/* ---- HuggingFace's logits ---- */

enum { VOCAB = 101, MAX_PROMPT = 16 };

struct prompt {
    int32_t tokens[MAX_PROMPT];
    int n_tokens;
    double logits[VOCAB]; /* logits at the last position */
};

/* Reads numbers until the end of the array. Keeps the last `capacity` numbers. */
static int read_numbers(syn_json *json, double *out, int capacity) {
    const int depth = json->depth;
    int n = 0;
    do {
        const syn_json_type type = syn_json_next(json);
        if (type == SYN_JSON_ERROR || type == SYN_JSON_END) return -1;
        if (type == SYN_JSON_NUMBER) out[n++ % capacity] = json->number;
    } while (json->depth > depth);
    return n;
}

/* Reads the two prompts of a checkpoint from tiny_gpt2.json. */
static bool read_prompts(const char *folder, struct prompt prompts[2]) {
    syn_error err = {0};
    char *text;
    size_t bytes;
    syn_json json;
    bool mine = false;
    int n = 0;
    if (syn_read_file(reference_path("tiny_gpt2.json"), SIZE_MAX, &text, &bytes, &err) != SYN_OK)
        return false;
    syn_json_init(&json, "tiny_gpt2.json", text, bytes, &err);
    while (n < 2 && syn_json_next(&json) != SYN_JSON_END && json.type != SYN_JSON_ERROR) {
        if (json.type == SYN_JSON_STRING) mine = mine || strcmp(json.text, folder) == 0;
        if (!mine || json.type != SYN_JSON_KEY) continue;
        double tokens[MAX_PROMPT];
        if (strcmp(json.text, "tokens") == 0) {
            prompts[n].n_tokens = read_numbers(&json, tokens, MAX_PROMPT);
            for (int i = 0; i < prompts[n].n_tokens; i++) prompts[n].tokens[i] = (int32_t)tokens[i];
        } else if (strcmp(json.text, "logits") == 0) {
            if (read_numbers(&json, prompts[n].logits, VOCAB) % VOCAB != 0) break;
            n++;
        }
    }
    syn_json_free(&json);
    syn_free(text);
    return n == 2;
}

struct logits {
    const checkpoint *from;
    const syn_weights *weights;
    const struct prompt *prompts;
    double error; /* error of rank 0, relative to the largest logit */
};

static syn_status forward(syn_model *gpt, syn_ctx *ctx, const struct prompt *p, float *logits,
                          syn_error *err) {
    const syn_spec spec = {SYN_I32, 2, {1, p->n_tokens}};
    SYN_TRY(syn_causal_begin(gpt, 1, p->n_tokens, err));
    const syn_tensor out = syn_causal_forward(gpt, syn_input(ctx, "tokens", &spec, p->tokens));
    return syn_tensor_read(ctx, out, logits, VOCAB * sizeof *logits);
}

static syn_status logits_rank(syn_comm *comm, void *arg, syn_error *err) {
    struct logits *job = arg;
    syn_model *model = NULL;
    syn_ctx *ctx = NULL;
    float logits[VOCAB];
    double worst = 0;
    syn_status s = checkpoint_load(job->from, &model, &ctx, comm, job->weights, SYN_F32, err);
    for (int p = 0; p < 2 && s == SYN_OK; p++) {
        double largest = 0, error = 0;
        s = forward(model, ctx, &job->prompts[p], logits, err);
        for (int i = 0; i < VOCAB; i++) {
            largest = fmax(largest, fabs(job->prompts[p].logits[i]));
            error = fmax(error, fabs((double)logits[i] - job->prompts[p].logits[i]));
        }
        worst = fmax(worst, error / largest);
    }
    if (s != SYN_OK) syn_ctx_check(ctx, err);
    if (comm->rank == 0) job->error = worst;
    syn_model_free(model);
    syn_ctx_free(ctx);
    return s;
}

static void logits_are_those_of_huggingface(void) {
    for (int i = 0; i < CHECKPOINTS; i++) {
        const checkpoint *c = &checkpoints[i];
        syn_error err = {0};
        struct prompt prompts[2];
        syn_weights *weights;
        if (c->family != &syn_gpt_family) continue;
        CHECK(read_prompts(c->folder, prompts));
        CHECK_OK(syn_weights_open(&weights, reference_path("%s", c->folder), c->family, &err), err);
        struct logits job = {c, weights, prompts, INFINITY};
        for (int tp = 1; tp <= 4; tp *= 2) {
            CHECK_OK(syn_local_run(tp, logits_rank, &job, &err), err);
            CHECK_MSG(job.error < 1e-5, "%s, tp %d: %g", c->folder, tp, job.error);
        }
        syn_weights_free(weights);
    }
}

struct steps {
    int64_t calls, last, of;
    bool rises;
};

static void step(void *user, int64_t done, int64_t of) {
    struct steps *s = user;
    s->rises = s->rises && done >= s->last && done <= of && (s->of == 0 || s->of == of);
    s->last = done;
    s->of = of;
    s->calls++;
}

static syn_status load_in_steps(syn_comm *comm, void *arg, syn_error *err) {
    const checkpoint *c = &checkpoints[4]; /* a checkpoint in several files */
    struct steps *steps = arg;
    syn_weights *weights;
    syn_weights_reader *reader;
    syn_model_config config;
    syn_mesh mesh;
    syn_ctx *ctx;
    syn_model *model = NULL;
    SYN_TRY(checkpoint_config(c, &config, err));
    SYN_TRY(syn_weights_open(&weights, reference_path("%s", c->folder), c->family, err));
    SYN_TRY(syn_weights_reader_new(&reader, weights, err));
    SYN_TRY(syn_mesh_open(&mesh, comm, &(syn_plan){.tp = comm->size}, err));
    SYN_TRY(syn_ctx_new(&ctx, SYN_DEVICE_CPU, comm, err));
    const syn_param_source source = syn_weights_source(reader);
    syn_ctx_set_param_source(ctx, &source);
    steps[comm->rank].rises = true;
    syn_weights_set_progress(reader, step, &steps[comm->rank]);
    const syn_model_options how = {.tp = mesh.group[SYN_AXIS_TP]};
    const syn_status s = syn_model_new(&model, ctx, &config, &how, err);
    syn_model_free(model);
    syn_ctx_free(ctx);
    syn_weights_reader_free(reader);
    syn_weights_free(weights);
    return s;
}

/* The reported progress goes from zero to all bytes of the file on every rank, whatever part of the
   file the rank reads. */
static void reading_reports_progress(void) {
    syn_error err = {0};
    syn_safetensors *st;
    int64_t all = 0;
    CHECK_OK(syn_safetensors_open(&st, reference_path("%s", checkpoints[4].folder), &err), err);
    for (size_t i = 0; i < syn_safetensors_count(st); i++)
        all += (int64_t)syn_safetensors_get(st, i)->bytes;
    const int64_t tensors = (int64_t)syn_safetensors_count(st);
    syn_safetensors_free(st);
    for (int tp = 1; tp <= 2; tp++) {
        struct steps steps[2] = {{0}};
        CHECK_OK(syn_local_run(tp, load_in_steps, steps, &err), err);
        for (int r = 0; r < tp; r++) {
            CHECK(steps[r].rises);
            CHECK_INT(steps[r].of, all);
            CHECK_INT(steps[r].calls, tensors);
            if (tp == 1) CHECK_INT(steps[r].last, all);
        }
    }
}

static const test_case cases[] = {
    {"reading_reports_progress", reading_reports_progress},
    {"names_become_parameters", names_become_parameters},
    {"each_rank_reads_its_slices", each_rank_reads_its_slices},
    {"parts_read_what_is_theirs", parts_read_what_is_theirs},
    {"what_no_part_has_is_unexpected", what_no_part_has_is_unexpected},
    {"logits_are_those_of_huggingface", logits_are_those_of_huggingface},
};

TEST_MAIN(cases)
