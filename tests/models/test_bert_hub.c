/* Compares BERT with HuggingFace's results, using files that HuggingFace's library wrote
   (tests/reference/tiny_bert*), for every stored format and every sharding. */
#include "comm/comm.h"
#include "models/bert.h"
#include "models/weights/weights.h"
#include "tests/support/bert_fixture.h"
#include "tests/support/files.h"
#include "tests/support/gpt_reference.h"
#include "tests/support/ranks.h"
#include "tests/support/test.h"

/* The largest error, relative to the largest element. It is the same for every dtype of weights,
   because the reference was computed with the stored values. */
#define LIMIT 1e-5

enum { WIDTH = 32, VOCAB = 103, MAX_TOKENS = 36 };

static bfix fixture; /* read only once */

static bool read_fixture(void) {
    if (fixture.n_batches > 0) return true;
    return bfix_open(&fixture, "tiny_bert.json", "checkpoints") && fixture.n_batches == 3;
}

struct job {
    const bfix_batch *batch;
    const syn_weights *weights;
    syn_model_config config;
    unsigned heads;
    int tp;
    bool fused;
    double worst[4]; /* largest error of each rank */
};

static void worse(double *worst, const float *got, const double *want, int64_t n) {
    const double e = ref_error(got, want, n);
    if (!(e <= *worst)) *worst = isnan(e) ? INFINITY : e;
}

/* Copies the rows of `from` (B T, width) that are not padding. Returns their number. */
static int64_t pick_valid(const bfix_batch *b, const float *from, int64_t width, float *to) {
    int64_t n = 0;
    for (int64_t i = 0; i < b->mask.n; i++)
        if (b->mask.v[i] > 0)
            memcpy(to + n++ * width, from + i * width, (size_t)width * sizeof *to);
    return n;
}

static syn_status compare_words(const struct job *job, syn_model *bert, syn_tensor hidden,
                                double *worst) {
    const bfix_batch *b = job->batch;
    float all[MAX_TOKENS * VOCAB], valid[MAX_TOKENS * VOCAB], some[MAX_TOKENS * 4];
    const size_t bytes = (size_t)b->tokens.n * VOCAB * sizeof *all;
    SYN_TRY(
        syn_tensor_read(syn_model_ctx(bert), syn_bert_mlm(bert, hidden, SYN_BERT_ALL), all, bytes));
    const int64_t n = pick_valid(b, all, VOCAB, valid);
    for (int64_t i = 0; i < n * 4; i++)
        some[i] = valid[i / 4 * VOCAB + (int64_t)b->mlm_ids.v[i % 4]];
    if (b->mlm_some.n != n * 4 || b->n_words < 2) *worst = INFINITY;
    else worse(worst, some, b->mlm_some.v, n * 4);
    for (int i = 0; i < b->n_words; i++) {
        const int64_t at =
            (int64_t)b->words[i].row.v[0] * bfix_columns(b) + (int64_t)b->words[i].position.v[0];
        worse(worst, all + at * VOCAB, b->words[i].logits.v, VOCAB);
    }
    return SYN_OK;
}

static syn_status compare(const struct job *job, syn_model *bert, double *worst) {
    syn_ctx *ctx = syn_model_ctx(bert);
    const bfix_batch *b = job->batch;
    const int64_t rows = bfix_rows(b), columns = bfix_columns(b);
    const syn_spec ids = {SYN_I32, 2, {rows, columns}}, floats = {SYN_F32, 2, {rows, columns}};
    int32_t tokens[MAX_TOKENS], types[MAX_TOKENS];
    float mask[MAX_TOKENS], all[MAX_TOKENS * WIDTH], valid[MAX_TOKENS * WIDTH], nsp[8];
    for (int64_t i = 0; i < rows * columns; i++) {
        tokens[i] = (int32_t)b->tokens.v[i];
        types[i] = (int32_t)b->types.v[i];
        mask[i] = b->mask.v[i] > 0 ? 0.0f : -INFINITY;
    }
    const syn_tensor hidden = syn_bert_forward(bert, syn_input(ctx, "tokens", &ids, tokens),
                                               syn_input(ctx, "types", &ids, types),
                                               syn_input(ctx, "mask", &floats, mask));
    const syn_tensor pooled = syn_bert_pooled(bert, hidden);
    SYN_TRY(syn_tensor_read(ctx, hidden, all, (size_t)(rows * columns) * WIDTH * sizeof *all));
    const int64_t n = pick_valid(b, all, WIDTH, valid);
    if (b->hidden.n != n * WIDTH || b->pooled.n != rows * WIDTH) *worst = INFINITY;
    else worse(worst, valid, b->hidden.v, n * WIDTH);
    SYN_TRY(syn_tensor_read(ctx, pooled, all, (size_t)rows * WIDTH * sizeof *all));
    worse(worst, all, b->pooled.v, rows * WIDTH);
    if (!(job->heads & SYN_BERT_NSP)) return SYN_OK;
    SYN_TRY(syn_tensor_read(ctx, syn_bert_nsp(bert, pooled), nsp, (size_t)rows * 2 * sizeof *nsp));
    worse(worst, nsp, b->nsp.v, rows * 2);
    return compare_words(job, bert, hidden, worst);
}

static syn_status run_model(struct job *job, syn_ctx *ctx, const syn_group *tp, int rank,
                            syn_error *err) {
    syn_weights_reader *reader = NULL;
    syn_model *bert = NULL;
    SYN_TRY(syn_weights_reader_new(&reader, job->weights, err));
    const syn_param_source source = syn_weights_source(reader);
    syn_ctx_set_param_source(ctx, &source);
    const syn_model_options how = {.tp = tp,
                                   .heads = job->heads,
                                   .fused_attention = job->fused,
                                   .weight_dtype = syn_weights_dtype(job->weights)};
    syn_status s = syn_model_new(&bert, ctx, &job->config, &how, err);
    if (s == SYN_OK) s = syn_weights_finish(reader, NULL, NULL, err);
    if (s == SYN_OK) {
        s = compare(job, bert, &job->worst[rank]);
    }
    syn_model_free(bert);
    syn_weights_reader_free(reader);
    return s;
}

static syn_status run_rank(const test_rank *me, void *arg, syn_error *err) {
    struct job *job = arg;
    return run_model(job, me->ctx, me->tp, me->index, err);
}

static syn_status open_job(struct job *job, const char *folder, syn_weights **weights,
                           syn_error *err) {
    SYN_TRY(syn_model_config_load(&job->config, reference_path("%s/config.json", folder), err));
    SYN_TRY(syn_weights_open(weights, reference_path("%s", folder), &syn_bert_family, err));
    job->weights = *weights;
    job->heads = strstr(folder, "_bare") ? SYN_BERT_POOLER : SYN_BERT_MLM | SYN_BERT_NSP;
    return SYN_OK;
}

static void every_checkpoint_agrees(void) {
    int n = 0;
    CHECK(read_fixture());
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4 && fixture.batches[i].checkpoints[k][0]; k++, n++) {
            const char *folder = fixture.batches[i].checkpoints[k];
            syn_weights *weights = NULL;
            struct job job = {.batch = &fixture.batches[i]};
            syn_error err = {0};
            CHECK_OK(open_job(&job, folder, &weights, &err), err);
            double worst = 0;
            for (int run = 0; run < 6; run++) {
                job.tp = 1 << run % 3;
                job.fused = run / 3;
                const syn_status s = run_ranks(job.tp, run_rank, &job, &err);
                if (s != SYN_OK) worst = INFINITY;
                for (int r = 0; r < job.tp; r++) worst = fmax(worst, job.worst[r]);
            }
            syn_weights_free(weights);
            CHECK_MSG(worst > 0 && worst <= LIMIT, "%s: error %g. %s", folder, worst, err.text);
        }
    bfix_free(&fixture);
    CHECK_INT(n, 5);
}

static const test_case cases[] = {
    {"every_checkpoint_agrees", every_checkpoint_agrees},
};

TEST_MAIN(cases)
