/* Compares gpt2 in full size with HuggingFace's results: logits after a prompt of 64 tokens, and 50
   greedy tokens. The weights are computed by the formula of
   tests/reference/make_full_fixture.py. */
#include "models/generate.h"
#include "tests/support/full_formula.h"
#include "tests/support/test.h"

enum { LAYERS = 12, PROMPT = 64, GREEDY = 50, WORDS = 50257 };

static bfix fixture; /* read only once, because it is large */

static bool read_fixture(void) {
    if (fixture.n_batches > 0) return true;
    return bfix_open(&fixture, "full_gpt2.json", "tokens") && fixture.n_batches == 1 &&
           fixture.batches[0].tokens.n == PROMPT && fixture.batches[0].greedy.n == GREEDY &&
           fixture.batches[0].n_words == 1;
}

/* The parameter's index in gpt2_names of the script; -1 if it is not in this list. */
static int number_of(const char *name) {
    static const char *const layer[6] = {"ln_1", "attn.c_attn", "attn.c_proj",
                                         "ln_2", "mlp.c_fc",    "mlp.c_proj"};
    static const char *const ends[2] = {"weight", "bias"};
    char text[64];
    if (strcmp(name, "wte.weight") == 0) return 0;
    if (strcmp(name, "wpe.weight") == 0) return 1;
    for (int i = 0; i < LAYERS * 12; i++) {
        snprintf(text, sizeof text, "h.%d.%s.%s", i / 12, layer[i / 2 % 6], ends[i % 2]);
        if (strcmp(name, text) == 0) return 2 + i;
    }
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "ln_f.%s", ends[i]);
        if (strcmp(name, text) == 0) return 2 + LAYERS * 12 + i;
    }
    return -1;
}

static double scale_of(const char *name, int rank) {
    if (rank == 1) return strstr(name, "ln_") && strstr(name, ".weight") ? 1 / 4.0 : 1 / 8.0;
    return strstr(name, "c_attn") ? 1 / 8.0 : strstr(name, "c_fc") ? 1 / 32.0 : 1 / 16.0;
}

static const full_formula formula = {number_of, scale_of, "ln_"};

static syn_status generate(full_job *job, syn_model *gpt, syn_error *err) {
    const bfix_batch *f = &fixture.batches[0];
    int32_t prompt[PROMPT];
    for (int i = 0; i < PROMPT; i++) prompt[i] = (int32_t)f->tokens.v[i];
    syn_generation g = {.batch = 1,
                        .prompt_tokens = PROMPT,
                        .new_tokens = GREEDY,
                        .prompt = prompt,
                        .sampling = {0, 0, 1, 0, 0},
                        .want_logits = true};
    SYN_TRY(syn_generate(gpt, &g, err));
    full_compare(&f->words[0], g.logits, WORDS, &job->worst);
    for (int i = 0; i < GREEDY; i++) job->right += g.tokens[i] == (int32_t)f->greedy.v[i];
    syn_free(g.tokens);
    syn_free(g.logits);
    return SYN_OK;
}

static void check(full_job job) {
    CHECK(read_fixture());
    full_check(&job, "gpt2", 0, &formula, generate);
    CHECK_INT(job.right, GREEDY);
}

static void agrees_alone(void) {
    check((full_job){.tp = 1, .threads = 2});
}

static void agrees_cut_in_two_and_fused(void) {
    check((full_job){.tp = 2, .threads = 1, .fused = true});
}

/* Runs on four ranks with f16 weights. f16 represents the formula's matrices exactly. The
   vocabulary size 50257 is not divisible by 4. */
static void agrees_cut_in_four_with_weights_of_16_bits(void) {
    check((full_job){.tp = 4, .threads = 1, .fused = true, .dtype = SYN_F16});
    bfix_free(&fixture);
}

static const test_case cases[] = {
    {"agrees_alone", agrees_alone},
    {"agrees_cut_in_two_and_fused", agrees_cut_in_two_and_fused},
    {"agrees_cut_in_four_with_weights_of_16_bits", agrees_cut_in_four_with_weights_of_16_bits},
};

TEST_MAIN(cases)
