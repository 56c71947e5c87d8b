/* Compares bert-base-uncased in full size with HuggingFace's results. The weights are computed by
   the formula of tests/reference/make_full_fixture.py and given to the model like those of a
   checkpoint. */
#include "models/bert.h"
#include "tests/support/full_formula.h"
#include "tests/support/test.h"

enum { LAYERS = 12, WORDS = 30522, POOLED = 32, MAX_TEXT = 128 };

static bfix fixture; /* read only once, because it is large */

static bool read_fixture(void) {
    if (fixture.n_batches > 0) return true;
    return bfix_open(&fixture, "full_bert.json", "tokens") && fixture.n_batches == 2 &&
           fixture.batches[0].n_words == 2 && fixture.batches[1].n_words == 2;
}

/* ---- Weights ---- */

/* The parameter's index in bert_names of the script; -1 if it is not in this list. */
static int number_of(const char *name) {
    static const char *const layer[8] = {"attention.self.query",
                                         "attention.self.key",
                                         "attention.self.value",
                                         "attention.output.dense",
                                         "attention.output.LayerNorm",
                                         "intermediate.dense",
                                         "output.dense",
                                         "output.LayerNorm"};
    static const char *const before[5] = {
        "embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight",
        "embeddings.token_type_embeddings.weight", "embeddings.LayerNorm.weight",
        "embeddings.LayerNorm.bias"};
    static const char *const after[9] = {"pooler.dense.weight",
                                         "pooler.dense.bias",
                                         "cls.predictions.bias",
                                         "cls.predictions.transform.dense.weight",
                                         "cls.predictions.transform.dense.bias",
                                         "cls.predictions.transform.LayerNorm.weight",
                                         "cls.predictions.transform.LayerNorm.bias",
                                         "cls.seq_relationship.weight",
                                         "cls.seq_relationship.bias"};
    char text[96];
    for (int i = 0; i < 5; i++)
        if (strcmp(name, before[i]) == 0) return i;
    for (int i = 0; i < LAYERS * 16; i++) {
        snprintf(text, sizeof text, "encoder.layer.%d.%s.%s", i / 16, layer[i / 2 % 8],
                 i % 2 ? "bias" : "weight");
        if (strcmp(name, text) == 0) return 5 + i;
    }
    for (int i = 0; i < 9; i++)
        if (strcmp(name, after[i]) == 0) return 5 + LAYERS * 16 + i;
    return -1;
}

static double scale_of(const char *name, int rank) {
    if (rank == 1) return strstr(name, "LayerNorm.weight") ? 1 / 4.0 : 1 / 8.0;
    if (strstr(name, ".query.") || strstr(name, ".key.")) return 1 / 8.0;
    return strstr(name, ".intermediate.") ? 1 / 32.0 : 1 / 16.0;
}

static const full_formula formula = {number_of, scale_of, "LayerNorm"};

/* ---- Runs ---- */

static syn_status compare(const bfix_batch *batch, syn_model *bert, double *worst) {
    syn_ctx *ctx = syn_model_ctx(bert);
    const int64_t b = bfix_rows(batch), t = bfix_columns(batch);
    int32_t tokens[MAX_TEXT], types[MAX_TEXT], at[2];
    float mask[MAX_TEXT], pooled[2 * 768], nsp[4];
    if (b * t > MAX_TEXT || batch->mask.n != b * t || batch->types.n != b * t)
        return SYN_FAIL(syn_ctx_error_slot(ctx), SYN_E_INVALID, "odd fixture");
    for (int64_t i = 0; i < b * t; i++) {
        tokens[i] = (int32_t)batch->tokens.v[i];
        types[i] = (int32_t)batch->types.v[i];
        mask[i] = batch->mask.v[i] > 0 ? 0.0f : -INFINITY;
    }
    for (int i = 0; i < 2; i++)
        at[i] = (int32_t)(batch->words[i].row.v[0] * (double)t + batch->words[i].position.v[0]);
    const syn_spec ids = {SYN_I32, 2, {b, t}}, floats = {SYN_F32, 2, {b, t}},
                   two = {SYN_I32, 1, {2}};
    float *logits = malloc(2 * WORDS * sizeof *logits);
    if (!logits) return SYN_FAIL_NOMEM(syn_ctx_error_slot(ctx), 0, "logits");
    const syn_tensor where = syn_input(ctx, "masked", &two, at);
    const syn_tensor hidden = syn_bert_forward(bert, syn_input(ctx, "tokens", &ids, tokens),
                                               syn_input(ctx, "types", &ids, types),
                                               syn_input(ctx, "mask", &floats, mask));
    const syn_tensor p = syn_bert_pooled(bert, hidden), n = syn_bert_nsp(bert, p);
    syn_status s = syn_tensor_read(ctx, p, pooled, (size_t)(b * 768) * sizeof *pooled);
    if (s == SYN_OK) s = syn_tensor_read(ctx, n, nsp, (size_t)(b * 2) * sizeof *nsp);
    if (s == SYN_OK)
        s = syn_tensor_read(ctx, syn_bert_mlm(bert, hidden, where), logits,
                            2 * WORDS * sizeof *logits);
    for (int64_t i = 0; i < b && s == SYN_OK; i++)
        full_worse(worst, pooled + i * 768, batch->pooled.v + i * POOLED, POOLED, 1);
    if (s == SYN_OK) full_worse(worst, nsp, batch->nsp.v, b * 2, 1);
    for (int i = 0; i < 2 && s == SYN_OK; i++)
        full_compare(&batch->words[i], logits + i * WORDS, WORDS, worst);
    free(logits);
    return s;
}

static syn_status run(full_job *job, syn_model *bert, syn_error *err) {
    for (int i = 0; i < 2; i++)
        if (compare(&fixture.batches[i], bert, &job->worst) != SYN_OK)
            return syn_ctx_check(syn_model_ctx(bert), err);
    return SYN_OK;
}

static void check(full_job job) {
    CHECK(read_fixture());
    full_check(&job, "bert-base-uncased", SYN_BERT_MLM | SYN_BERT_NSP, &formula, run);
}

static void agrees_alone(void) {
    check((full_job){.tp = 1});
}

static void agrees_cut_in_two_and_fused(void) {
    check((full_job){.tp = 2, .fused = true});
}

/* Runs on four ranks with f16 weights. f16 represents the formula's weights exactly. The vocabulary
   size 30522 is not divisible by 4. */
static void agrees_cut_in_four_with_weights_of_16_bits(void) {
    check((full_job){.tp = 4, .fused = true, .dtype = SYN_F16});
    bfix_free(&fixture);
}

static const test_case cases[] = {
    {"agrees_alone", agrees_alone},
    {"agrees_cut_in_two_and_fused", agrees_cut_in_two_and_fused},
    {"agrees_cut_in_four_with_weights_of_16_bits", agrees_cut_in_four_with_weights_of_16_bits},
};

TEST_MAIN(cases)
