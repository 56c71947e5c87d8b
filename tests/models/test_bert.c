/* Compares BERT's hidden states and every head with the reference formulas (bert_reference.h), for
   every sharding and every way to batch the inputs. */
#include "syntorch/base/half.h"
#include "tests/support/bert_reference.h"
#include "tests/support/ranks.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

#define LIMIT 1e-5 /* largest error, relative to the largest element of an output */

enum { MAX_BATCH = 3, MAX_TOKENS = 24, N_PICKED = 4 };

typedef enum padding { NO_MASK, NOTHING_MASKED, RIGHT, HOLES } padding;

/* One run of the model with all heads, on all ranks. */
struct job {
    syn_model_config config;
    const ref_model *weights; /* weights to write into the model; NULL: the model keeps its own */
    int tp;
    bool fused, types;
    padding padding;
    double masked; /* value of the mask at padding; 0 means -infinity */
    syn_dtype dtype;
    int64_t batch, n_tokens;
    /* Each rank's outputs, stored one after the other: hidden (B, T, h), pooled (B, h), next
       sentence (B, 2), words (N_PICKED, V), all words (B T, V). */
    float *out[4];
    /* By rank: whether a shard of the model's own weights differs from own_weights. */
    bool odd_shard[4];
};

static int32_t token_at(const struct job *job, int64_t b, int64_t t) {
    return (int32_t)((b * 37 + t * 29 + t * t * 5 + 130) % job->config.vocab_size);
}

static int32_t type_at(const struct job *job, int64_t b, int64_t t) {
    return job->types ? (int32_t)((t / 3 + b) % job->config.n_types) : 0;
}

static bool visible_at(const struct job *job, int64_t b, int64_t t) {
    if (job->padding == RIGHT) return t < job->n_tokens - 3 * b || t == 0;
    if (job->padding == HOLES) return (t * 7 + b * 3) % 4 != 0 || t == b % job->n_tokens;
    return true;
}

/* The rows of the batch's B T rows for which word logits are compared: the last row, the first row,
   and one row twice. */
static int32_t picked(const struct job *job, int i) {
    const int64_t rows = job->batch * job->n_tokens;
    const int64_t at[N_PICKED] = {rows - 1, 0, rows / 2, rows - 1};
    return (int32_t)at[i];
}

/* ---- The model ---- */

/* The outputs, as indices of their numbers of elements. */
enum { HIDDEN, POOLED, FOLLOWS, SOME_WORDS, ALL_WORDS, OUTPUTS };
static void sizes_of(const struct job *job, int64_t n[OUTPUTS]) {
    const int64_t rows = job->batch * job->n_tokens;
    n[HIDDEN] = rows * job->config.n_embd;
    n[POOLED] = job->batch * job->config.n_embd;
    n[FOLLOWS] = job->batch * 2;
    n[SOME_WORDS] = N_PICKED * job->config.vocab_size;
    n[ALL_WORDS] = rows * job->config.vocab_size;
}

struct inputs {
    syn_tensor tokens, types, mask, picked;
};

static struct inputs inputs_of(const struct job *job, syn_ctx *ctx) {
    int32_t tokens[MAX_BATCH * MAX_TOKENS], types[MAX_BATCH * MAX_TOKENS], at[N_PICKED];
    float mask[MAX_BATCH * MAX_TOKENS];
    const float masked = job->masked < 0 ? (float)job->masked : -INFINITY;
    for (int64_t b = 0; b < job->batch; b++)
        for (int64_t t = 0; t < job->n_tokens; t++) {
            const int64_t i = b * job->n_tokens + t;
            tokens[i] = token_at(job, b, t);
            types[i] = type_at(job, b, t);
            mask[i] = visible_at(job, b, t) ? 0.0f : masked;
        }
    for (int i = 0; i < N_PICKED; i++) at[i] = picked(job, i);
    const syn_spec ids = {SYN_I32, 2, {job->batch, job->n_tokens}};
    const syn_spec floats = {SYN_F32, 2, {job->batch, job->n_tokens}};
    const syn_spec list = {SYN_I32, 1, {N_PICKED}};
    struct inputs in = {syn_input(ctx, "tokens", &ids, tokens), SYN_BERT_NO_TYPES, SYN_NO_MASK,
                        syn_input(ctx, "picked", &list, at)};
    if (job->types) in.types = syn_input(ctx, "types", &ids, types);
    if (job->padding != NO_MASK) in.mask = syn_input(ctx, "mask", &floats, mask);
    return in;
}

static syn_status feed(const struct job *job, syn_model *bert, syn_ctx *ctx, float *to) {
    const struct inputs in = inputs_of(job, ctx);
    int64_t n[OUTPUTS];
    syn_tensor out[OUTPUTS];
    sizes_of(job, n);
    out[HIDDEN] = syn_bert_forward(bert, in.tokens, in.types, in.mask);
    out[POOLED] = syn_bert_pooled(bert, out[HIDDEN]);
    out[FOLLOWS] = syn_bert_nsp(bert, out[POOLED]);
    out[SOME_WORDS] = syn_bert_mlm(bert, out[HIDDEN], in.picked);
    out[ALL_WORDS] = syn_bert_mlm(bert, out[HIDDEN], SYN_BERT_ALL);
    for (int i = 0; i < OUTPUTS; to += n[i++])
        SYN_TRY(syn_tensor_read(ctx, out[i], to, (size_t)n[i] * sizeof *to));
    return SYN_OK;
}

/* Weights to compare the model's own with; only one test sets this. */
static const ref_model *own_weights;

static syn_status run_rank(const test_rank *me, void *arg, syn_error *err) {
    struct job *job = arg;
    syn_model *bert = NULL;
    int64_t n[OUTPUTS], total = 0;
    sizes_of(job, n);
    for (int i = 0; i < OUTPUTS; i++) total += n[i];
    float *to = job->out[me->index] = calloc((size_t)total, sizeof *to);
    if (!to) return SYN_FAIL_NOMEM(err, 0, "outputs");
    const syn_model_options how = {.tp = me->tp,
                                   .heads = ALL_HEADS,
                                   .fused_attention = job->fused,
                                   .seed = 7,
                                   .weight_dtype = job->dtype};
    syn_status s = syn_model_new(&bert, me->ctx, &job->config, &how, err);
    if (s == SYN_OK && own_weights)
        job->odd_shard[me->index] = !ref_is_held(own_weights, me->ctx, me->index, job->tp);
    if (s == SYN_OK && job->weights) s = ref_load(job->weights, me->ctx, me->index, job->tp);
    if (s == SYN_OK) s = feed(job, bert, me->ctx, to);
    syn_model_free(bert);
    return s;
}

/* ---- Against the reference ---- */

/* All outputs of the job, computed by the reference, in the same layout as job.out. The caller
   frees the result. */
static double *wanted(const struct job *job, const ref_model *m) {
    const int64_t h = job->config.n_embd, v = job->config.vocab_size, n = job->n_tokens;
    int64_t size[OUTPUTS];
    sizes_of(job, size);
    double *hidden = bref_alloc(size[0] + size[1] + size[2] + size[3] + size[4]);
    double *pooled = hidden + size[HIDDEN], *follows = pooled + size[POOLED];
    double *some = follows + size[FOLLOWS], *all = some + size[SOME_WORDS];
    for (int64_t b = 0; b < job->batch; b++) {
        int32_t tokens[MAX_TOKENS], types[MAX_TOKENS];
        bool visible[MAX_TOKENS];
        for (int64_t t = 0; t < n; t++) {
            tokens[t] = token_at(job, b, t);
            types[t] = type_at(job, b, t);
            visible[t] = visible_at(job, b, t);
        }
        double *x = bref_forward(m, tokens, types, visible, n);
        memcpy(hidden + b * n * h, x, (size_t)(n * h) * sizeof *x);
        free(x);
        bref_pool(m, hidden + b * n * h, pooled + b * h, follows + b * 2);
    }
    for (int i = 0; i < N_PICKED; i++) bref_words(m, hidden + picked(job, i) * h, some + i * v);
    for (int64_t i = 0; i < job->batch * n; i++) bref_words(m, hidden + i * h, all + i * v);
    return hidden;
}

/* Runs a job and compares all outputs of every rank with the reference. Returns the largest
   error. */
static double job_error(struct job *job, const ref_model *m) {
    syn_error err = {0};
    double worst = 0;
    int64_t n[OUTPUTS];
    sizes_of(job, n);
    if (run_ranks(job->tp, run_rank, job, &err) != SYN_OK) {
        fprintf(stderr, "%s\n", err.text);
        worst = INFINITY;
    }
    double *want = wanted(job, m);
    for (int r = 0; r < job->tp && worst < INFINITY; r++)
        for (int64_t i = 0, at = 0; i < OUTPUTS; at += n[i++]) {
            const double e = ref_error(job->out[r] + at, want + at, n[i]);
            if (!(e <= worst)) worst = isnan(e) ? INFINITY : e;
        }
    free(want);
    for (int r = 0; r < 4; r++) {
        free(job->out[r]);
        job->out[r] = NULL;
    }
    return worst;
}

static double error_of(struct job job) {
    ref_model m = bref_filled(&job.config);
    job.weights = &m;
    const double e = job_error(&job, &m);
    ref_free(&m);
    return e;
}

static void outputs_of_every_variant(void) {
    for (int i = 0; i < 48; i++) {
        struct job job = {.config = small_bert,
                          .tp = 1 << i % 3,
                          .fused = i / 3 % 2,
                          .types = i / 6 % 2,
                          .padding = (padding)(i / 12),
                          .batch = 3,
                          .n_tokens = 9};
        job.config.activation = i / 6 % 2 == i / 24 ? SYN_GELU_TANH : SYN_GELU_ERF;
        const double e = error_of(job);
        CHECK_MSG(e <= LIMIT, "tp %d, fused %d, types %d, padding %d: error %g", job.tp, job.fused,
                  job.types, (int)job.padding, e);
    }
}

/* Other shapes: one head per rank, one layer, an odd width and head_dim, one token type, one token,
   all positions, and vocabulary sizes that need padding or just do not. */
static void outputs_of_odd_shapes(void) {
    static const struct {
        int64_t layers, width, heads, inner, vocab, types, batch, tokens;
        int tp;
    } shapes[] = {
        {1, 4, 4, 4, 1, 1, 2, 3, 4},    {1, 4, 4, 4, 3, 2, 1, 24, 4},
        {3, 12, 4, 20, 5, 1, 3, 2, 4},  {1, 10, 2, 6, 8, 5, 2, 7, 2},
        {2, 9, 3, 7, 11, 2, 2, 5, 1},   {1, 33, 1, 1, 7, 2, 1, 1, 1},
        {2, 64, 8, 64, 4, 2, 1, 13, 4}, {4, 24, 2, 48, 129, 2, 3, 6, 2},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int fused = 0; fused < 2; fused++) {
            struct job job = {.config = small_bert,
                              .tp = shapes[i].tp,
                              .fused = fused,
                              .types = true,
                              .padding = HOLES,
                              .batch = shapes[i].batch,
                              .n_tokens = shapes[i].tokens};
            job.config.n_layer = shapes[i].layers;
            job.config.n_embd = shapes[i].width;
            job.config.n_head = shapes[i].heads;
            job.config.n_inner = shapes[i].inner;
            job.config.vocab_size = shapes[i].vocab;
            job.config.n_types = shapes[i].types;
            job.config.norm_epsilon = 1e-3;
            const double e = error_of(job);
            CHECK_MSG(e <= LIMIT, "shape %zu, fused %d: error %g", i, fused, e);
        }
}

/* The finite mask values that HuggingFace uses have the same effect as -infinity. */
static void a_large_negative_mask_hides_as_well(void) {
    static const double values[] = {-3.4028234663852886e38, -10000};
    for (int i = 0; i < 4; i++) {
        const struct job job = {.config = small_bert,
                                .tp = 1 + i / 2,
                                .fused = i % 2,
                                .padding = i < 2 ? RIGHT : HOLES,
                                .masked = values[i / 2],
                                .batch = 3,
                                .n_tokens = 9};
        const double e = error_of(job);
        CHECK_MSG(e <= LIMIT, "mask %g, fused %d: error %g", job.masked, job.fused, e);
    }
}

/* A padded sequence has the same hidden states as the same sequence without padding. */
static void padding_changes_nothing(void) {
    struct job job = {
        .config = small_bert, .types = true, .padding = RIGHT, .batch = 3, .n_tokens = 9};
    ref_model m = bref_filled(&small_bert);
    double *batch = wanted(&job, &m), worst = 0;
    for (int64_t b = 0; b < 3; b++) {
        int32_t tokens[MAX_TOKENS], types[MAX_TOKENS];
        int64_t n = 0;
        for (; n < 9 && visible_at(&job, b, n); n++) {
            tokens[n] = token_at(&job, b, n);
            types[n] = type_at(&job, b, n);
        }
        double *alone = bref_forward(&m, tokens, types, NULL, n);
        for (int64_t i = 0; i < n * small_bert.n_embd; i++)
            worst = fmax(worst, fabs(alone[i] - batch[b * 9 * small_bert.n_embd + i]));
        free(alone);
    }
    free(batch);
    ref_free(&m);
    CHECK_MSG(worst < 1e-12, "hidden states differ by %g", worst);
}

/* ---- Weights ---- */

/* A model with 16-bit matrices gives the same results as a model whose weights were rounded to 16
   bits. */
static void weights_of_16_bits(void) {
    for (int i = 0; i < 6; i++) {
        struct job job = {.config = small_bert,
                          .tp = 1 << i % 3,
                          .fused = i % 2,
                          .types = true,
                          .padding = RIGHT,
                          .dtype = i / 3 ? SYN_F16 : SYN_BF16,
                          .batch = 3,
                          .n_tokens = 9};
        ref_model m = bref_filled(&small_bert);
        for (int p = 0; p < m.n_params; p++) {
            ref_param *q = &m.params[p];
            const bool table =
                strstr(q->name, "embeddings.") && !strstr(q->name, "word_embeddings");
            const size_t n = (size_t)(q->rows * q->columns);
            for (size_t k = 0; k < n; k++)
                q->data[k] *= 0.99f; /* most of these values are not representable in 16 bits */
            if (table || !ref_ends(q->name, ".weight") || strstr(q->name, "LayerNorm")) continue;
            uint16_t *half = malloc(n * sizeof *half);
            CHECK(half != NULL);
            syn_half_narrow(q->data, half, n, job.dtype);
            syn_half_widen(half, q->data, n, job.dtype);
            free(half);
        }
        job.weights = &m;
        const double e = job_error(&job, &m);
        ref_free(&m);
        CHECK_MSG(e <= LIMIT, "tp %d, %s: error %g", job.tp, syn_dtype_name(job.dtype), e);
    }
}

/* The random weights of all ranks are shards of one model, and have BERT's standard deviation. */
static void random_weights_are_one_model(void) {
    ref_model m = bref_new(&small_bert), other = bref_new(&small_bert);
    ref_from_model(&m, ALL_HEADS, 7);
    ref_from_model(&other, ALL_HEADS, 8);
    own_weights = &m;
    bool odd = false;
    double worst = 0, off = 0;
    for (int tp = 1; tp <= 4; tp *= 2) {
        struct job job = {.config = small_bert, .tp = tp, .batch = 2, .n_tokens = 8};
        worst = fmax(worst, job_error(&job, &m));
        for (int r = 0; r < tp; r++) odd |= job.odd_shard[r];
    }
    own_weights = NULL;
    for (int i = 0; i < m.n_params; i++) {
        const ref_param *p = &m.params[i];
        const double want = ref_ends(p->name, ".bias")     ? 0
                            : strstr(p->name, "LayerNorm") ? 1
                                                           : small_bert.initializer_range;
        const double n = (double)(p->rows * p->columns);
        off = fmax(off, fabs(ref_deviation(p) - want) * sqrt(n));
    }
    const bool differs = memcmp(m.params[0].data, other.params[0].data, 4096) != 0;
    ref_free(&other);
    ref_free(&m);
    CHECK(!odd);
    CHECK_MSG(worst <= LIMIT, "error %g", worst);
    CHECK_MSG(off <= 4 * small_bert.initializer_range, "a deviation is off by %g / sqrt(n)", off);
    CHECK(differs);
}

static const test_case cases[] = {
    {"outputs_of_every_variant", outputs_of_every_variant},
    {"outputs_of_odd_shapes", outputs_of_odd_shapes},
    {"a_large_negative_mask_hides_as_well", a_large_negative_mask_hides_as_well},
    {"padding_changes_nothing", padding_changes_nothing},
    {"weights_of_16_bits", weights_of_16_bits},
    {"random_weights_are_one_model", random_weights_are_one_model},
};

TEST_MAIN(cases)
