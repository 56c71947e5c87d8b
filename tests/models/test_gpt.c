/* Compares GPT's logits and tokens with the reference formulas (gpt_reference.h), for every
   sharding and every way to split the input into chunks. */
#include "tests/support/gpt_reference.h"
#include "tests/support/ranks.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

#define LIMIT 1e-5 /* largest error, relative to the largest logit */

static const int32_t prompt[] = {5,  256, 0,   17, 17, 200, 64, 128, 99, 1,  2,  3,  250, 251,
                                 40, 41,  256, 7,  8,  9,   10, 11,  12, 13, 14, 15, 16};

/* One run of the model on all ranks. The tokens are processed in `chunks`. */
struct job {
    syn_model_config config;
    const ref_model *weights; /* weights to write into the model; NULL: the model keeps its own */
    int tp;
    bool fused;
    uint64_t seed;
    int64_t batch;
    int n_chunks;
    int64_t chunks[24];
    /* by rank: logits after each chunk, (n_chunks, batch, V) */
    float *logits[4];
    /* By rank: whether a shard of the model's own weights differs from own_weights. */
    bool odd_shard[4];
};

static int64_t total_tokens(const struct job *job) {
    int64_t n = 0;
    for (int i = 0; i < job->n_chunks; i++) n += job->chunks[i];
    return n;
}

/* Token t of sequence b of the batch, which is the prompt from token b on. */
static int32_t token_at(const struct job *job, int64_t b, int64_t t) {
    return (int32_t)(prompt[b + t] % job->config.vocab_size);
}

static syn_status feed(struct job *job, syn_model *gpt, syn_ctx *ctx, float *to, syn_error *err) {
    int32_t tokens[4 * 24];
    int64_t at = 0;
    const size_t bytes = (size_t)(job->batch * job->config.vocab_size) * sizeof *to;
    SYN_TRY(syn_causal_begin(gpt, job->batch, total_tokens(job), err));
    for (int k = 0; k < job->n_chunks; k++) {
        const int64_t n = job->chunks[k];
        const syn_spec spec = {SYN_I32, 2, {job->batch, n}};
        for (int64_t b = 0; b < job->batch; b++)
            for (int64_t t = 0; t < n; t++) tokens[b * n + t] = token_at(job, b, at + t);
        const syn_tensor logits = syn_causal_forward(gpt, syn_input(ctx, "tokens", &spec, tokens));
        SYN_TRY(syn_tensor_read(ctx, logits, to + k * job->batch * job->config.vocab_size, bytes));
        at += n;
    }
    return syn_causal_position(gpt) == at ? SYN_OK : SYN_E_INVALID;
}

/* Weights to compare the model's own with; only one test sets this. */
static const ref_model *own_weights;

static syn_status run_rank(const test_rank *me, void *arg, syn_error *err) {
    struct job *job = arg;
    syn_model *gpt = NULL;
    float *to = calloc((size_t)(job->n_chunks * job->batch * job->config.vocab_size), sizeof *to);
    job->logits[me->index] = to;
    if (!to) return SYN_FAIL_NOMEM(err, 0, "logits");
    const syn_model_options how = {.tp = me->tp, .fused_attention = job->fused, .seed = job->seed};
    syn_status s = syn_model_new(&gpt, me->ctx, &job->config, &how, err);
    if (s == SYN_OK && own_weights)
        job->odd_shard[me->index] = !ref_is_held(own_weights, me->ctx, me->index, job->tp);
    if (s == SYN_OK && job->weights) s = ref_load(job->weights, me->ctx, me->index, job->tp);
    if (s == SYN_OK) s = feed(job, gpt, me->ctx, to, err);
    syn_model_free(gpt);
    return s;
}

static void free_job(struct job *job) {
    for (int r = 0; r < 4; r++) {
        free(job->logits[r]);
        job->logits[r] = NULL;
    }
}

/* Runs a job and compares every rank's logits after every chunk with the reference. Returns the
   largest error. */
static double job_error(struct job *job, const ref_model *weights) {
    const int64_t v = job->config.vocab_size, n = total_tokens(job);
    syn_error err = {0};
    double worst = 0;
    if (run_ranks(job->tp, run_rank, job, &err) != SYN_OK) {
        fprintf(stderr, "%s\n", err.text);
        free_job(job);
        return INFINITY;
    }
    for (int64_t b = 0; b < job->batch; b++) {
        int32_t tokens[24];
        for (int64_t t = 0; t < n; t++) tokens[t] = token_at(job, b, t);
        double *want = ref_forward(weights, tokens, n);
        int64_t end = 0;
        for (int k = 0; k < job->n_chunks; k++) {
            end += job->chunks[k];
            for (int r = 0; r < job->tp; r++) {
                const double e =
                    ref_error(job->logits[r] + (k * job->batch + b) * v, want + (end - 1) * v, v);
                if (!(e <= worst)) worst = isnan(e) ? INFINITY : e;
            }
        }
        free(want);
    }
    free_job(job);
    return worst;
}

static double error_of(struct job job) {
    ref_model m = ref_filled(&job.config);
    job.weights = &m;
    const double e = job_error(&job, &m);
    ref_free(&m);
    return e;
}

static void logits_of_every_variant(void) {
    for (int i = 0; i < 48; i++) {
        static const int sizes[3] = {1, 2, 4};
        struct job job = {.config = small_gpt,
                          .tp = sizes[i % 3],
                          .fused = i / 3 % 2,
                          .batch = i / 6 % 2 ? 3 : 1};
        job.config.tied = i / 12 % 2;
        job.config.activation = i / 24 % 2 ? SYN_GELU_TANH : SYN_GELU_ERF;
        job.n_chunks = 1;
        job.chunks[0] = 9;
        const double e = error_of(job);
        CHECK_MSG(e <= LIMIT, "tp %d, fused %d, batch %d, tied %d, activation %d: error %g", job.tp,
                  job.fused, (int)job.batch, job.config.tied, (int)job.config.activation, e);
    }
}

/* Other shapes: one head per rank, one layer, an odd width and head_dim, and vocabulary sizes that
   need padding or just do not. */
static void logits_of_odd_shapes(void) {
    static const struct {
        int64_t layers, width, heads, inner, vocab;
        int tp;
    } shapes[] = {
        {1, 4, 4, 4, 1, 4},   {1, 4, 4, 4, 3, 4},  {3, 12, 4, 20, 5, 4},
        {1, 10, 2, 6, 8, 2},  {2, 9, 3, 7, 11, 1}, {1, 33, 1, 1, 7, 1},
        {2, 64, 8, 64, 4, 4}, {1, 1, 1, 1, 2, 1},  {4, 24, 2, 48, 129, 2},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int fused = 0; fused < 2; fused++) {
            struct job job = {.config = small_gpt,
                              .tp = shapes[i].tp,
                              .fused = fused,
                              .batch = 2,
                              .n_chunks = 3,
                              .chunks = {3, 1, 2}};
            job.config.n_layer = shapes[i].layers;
            job.config.n_embd = shapes[i].width;
            job.config.n_head = shapes[i].heads;
            job.config.n_inner = shapes[i].inner;
            job.config.vocab_size = shapes[i].vocab;
            const double e = error_of(job);
            CHECK_MSG(e <= LIMIT, "shape %zu, fused %d: error %g", i, fused, e);
        }
}

/* A sequence that is processed in chunks of one or more tokens has the same results as one that is
   processed in one call. */
static void the_cache_changes_nothing(void) {
    static const int64_t feeds[][25] = {
        {24},
        {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
        {5, 1, 1, 4, 1, 12},
        {23, 1},
        {1, 23}};
    for (size_t i = 0; i < sizeof feeds / sizeof feeds[0]; i++)
        for (int k = 0; k < 4; k++) {
            struct job job = {.config = small_gpt, .tp = k / 2 ? 4 : 1, .fused = k % 2, .batch = 3};
            while (feeds[i][job.n_chunks]) {
                job.chunks[job.n_chunks] = feeds[i][job.n_chunks];
                job.n_chunks++;
            }
            const double e = error_of(job);
            CHECK_MSG(e <= LIMIT, "feed %zu, tp %d, fused %d: error %g", i, job.tp, job.fused, e);
        }
}

/* The random weights of all ranks are shards of one model, and have GPT-2's standard deviations. */
static void random_weights_are_one_model(void) {
    syn_model_config config = small_gpt;
    config.tied = false;
    ref_model m = ref_new(&config);
    ref_from_model(&m, 0, 7);
    own_weights = &m;
    bool odd = false;
    double worst = 0;
    for (int tp = 1; tp <= 4; tp *= 2) {
        struct job job = {
            .config = config, .tp = tp, .seed = 7, .batch = 2, .n_chunks = 2, .chunks = {8, 1}};
        const double e = job_error(&job, &m);
        for (int r = 0; r < tp; r++) odd |= job.odd_shard[r];
        if (e > worst) worst = e;
    }
    own_weights = NULL;
    double deviation[REF_MAX_PARAMS];
    for (int i = 0; i < m.n_params; i++) deviation[i] = ref_deviation(&m.params[i]);
    ref_model copy = m;
    for (int i = 0; i < m.n_params; i++) copy.params[i].data = NULL;
    ref_free(&m);
    CHECK(!odd);
    CHECK_MSG(worst <= LIMIT, "error %g", worst);
    for (int i = 0; i < copy.n_params; i++) {
        const char *name = copy.params[i].name;
        const bool norm = strstr(name, "ln_") != NULL, bias = ref_ends(name, ".bias");
        const double want = bias                            ? 0
                            : norm                          ? 1
                            : strstr(name, "c_proj.weight") ? 0.3 / 2 /* sqrt(2 * 2 layers) */
                                                            : 0.3;
        CHECK_MSG(fabs(deviation[i] - want) <= 0.05 * want, "%s: deviation %g, want %g", name,
                  deviation[i], want);
    }
}

static void another_seed_is_another_model(void) {
    ref_model a = ref_new(&small_gpt), b = ref_new(&small_gpt), c = ref_new(&small_gpt);
    ref_from_model(&a, 0, 1);
    ref_from_model(&b, 0, 1);
    ref_from_model(&c, 0, 2);
    const size_t bytes = (size_t)(257 * 32) * sizeof(float);
    const bool same = memcmp(a.params[0].data, b.params[0].data, bytes) == 0;
    const bool differs = memcmp(a.params[0].data, c.params[0].data, bytes) != 0;
    /* Two parameters with the same shape must have different values. */
    const bool layers =
        memcmp(ref_data(&a, "h.0.attn.c_attn.weight"), ref_data(&a, "h.1.attn.c_attn.weight"),
               32 * 96 * sizeof(float)) != 0;
    ref_free(&a);
    ref_free(&b);
    ref_free(&c);
    CHECK(same);
    CHECK(differs);
    CHECK(layers);
}

static const test_case cases[] = {
    {"logits_of_every_variant", logits_of_every_variant},
    {"logits_of_odd_shapes", logits_of_odd_shapes},
    {"the_cache_changes_nothing", the_cache_changes_nothing},
    {"random_weights_are_one_model", random_weights_are_one_model},
    {"another_seed_is_another_model", another_seed_is_another_model},
};

TEST_MAIN(cases)
