/* Tests packed steps with a paged KV cache (causal.h): the logits of every family equal those of
   each sequence alone, and traces are the same on every device. tests/ops/test_ops_paged.c tests
   the ops. */
#include "models/family_private.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

enum { SEQUENCES = 3, LONGEST = 24, MAX_VOCAB = 600, MAX_BLOCKS = LONGEST };

/* A batch of sequences in a number of steps. queries[k][s]: new tokens of sequence s in step k. */
static const struct {
    int64_t block_tokens;
    int32_t queries[7][SEQUENCES];
} schedules[] = {
    /* whole prompts one after the other, between the steps of earlier sequences */
    {3, {{5}, {1, 9}, {1, 1, 7}, {1, 1, 1}, {1, 1, 1}}},
    /* chunks of prompts, in the same steps as new tokens; a sequence pauses */
    {1, {{3, 4}, {2, 4, 1}, {1, 0, 8}, {1, 1, 3}, {0, 1, 1}}},
    /* blocks with more slots than most sequences have */
    {16, {{1, 17, 2}, {1, 1, 1}, {8, 4, 1}}},
};

typedef struct served {
    syn_model_config config;
    syn_dtype dtype;
    int tp;
    size_t schedule;
    uint64_t seed;
    bool compared; /* also compute the logits of each sequence alone */
    double off;    /* the largest difference of a logit */
} served;

/* The ids of sequence s. */
static void tokens_of(const served *j, int s, int32_t ids[LONGEST]) {
    for (int t = 0; t < LONGEST; t++)
        ids[t] = (int32_t)((s * 31 + t * (7 + s) + t * t) % j->config.vocab_size);
}

/* The logits of each token of sequence s, computed alone: one token per step. */
static void alone(syn_model *m, const served *j, int s, float *logits) {
    syn_ctx *ctx = syn_model_ctx(m);
    const syn_spec one = {SYN_I32, 2, {1, 1}};
    int32_t ids[LONGEST];
    syn_error err = {0};
    tokens_of(j, s, ids);
    NEED_OK(syn_causal_begin(m, 1, LONGEST, &err), err);
    for (int t = 0; t < LONGEST; t++) {
        const syn_tensor y = syn_causal_forward(m, syn_input(ctx, "token", &one, &ids[t]));
        const size_t n = (size_t)j->config.vocab_size;
        NEED_OK(syn_tensor_read_f32(ctx, y, logits + (size_t)t * n, n), *syn_ctx_error_slot(ctx));
    }
}

/* A packed step, and the tokens of each of its rows. */
typedef struct packed {
    syn_packed_step step;
    int32_t ids[SEQUENCES * LONGEST], queries[SEQUENCES], keys[SEQUENCES],
        blocks[SEQUENCES * MAX_BLOCKS], rows[SEQUENCES];
    int sequence[SEQUENCES], tokens;
} packed;

/* Sequence s has every third block, the last ones first. */
static int32_t block_of(int s, int64_t number) {
    return (int32_t)((MAX_BLOCKS - 1 - number) * SEQUENCES + s);
}

/* Fills in step k, after which sequence s has done[s] tokens. */
static void fill_step(const served *j, int k, int64_t done[SEQUENCES], packed *p) {
    const int32_t *queries = schedules[j->schedule].queries[k];
    memset(p, 0, sizeof *p);
    for (int s = 0; s < SEQUENCES; s++) {
        int32_t ids[LONGEST];
        if (queries[s] == 0) continue;
        tokens_of(j, s, ids);
        const int64_t i = p->step.n++;
        memcpy(p->ids + p->tokens, ids + done[s], (size_t)queries[s] * sizeof *ids);
        p->tokens += queries[s];
        done[s] += queries[s];
        p->queries[i] = queries[s];
        p->keys[i] = (int32_t)done[s];
        p->sequence[i] = s;
        p->rows[i] = p->tokens - 1;
        for (int b = 0; b < MAX_BLOCKS; b++) p->blocks[i * MAX_BLOCKS + b] = block_of(s, b);
    }
    p->step.queries = p->queries;
    p->step.keys = p->keys;
    p->step.blocks = p->blocks;
    p->step.max_blocks = MAX_BLOCKS;
    p->step.rows = p->rows;
    p->step.n_rows = p->step.n;
}

/* Compares the logits of a step with those of the sequences alone. */
static void compare(syn_ctx *ctx, served *j, const packed *p, syn_tensor y, const float *want) {
    static _Thread_local float got[SEQUENCES * MAX_VOCAB];
    const int64_t n = j->config.vocab_size;
    if (syn_tensor_read_f32(ctx, y, got, (size_t)(p->step.n * n)) != SYN_OK) return;
    for (int64_t i = 0; i < p->step.n * n; i++) {
        const int64_t s = p->sequence[i / n], t = p->keys[i / n] - 1;
        const double w = (double)want[(s * LONGEST + t) * n + i % n],
                     off = fabs((double)got[i] - w) / (1 + fabs(w));
        if (!(off <= j->off)) j->off = isnan(off) ? INFINITY : off;
    }
}

static syn_status serve(const test_rank *me, void *arg, syn_error *err) {
    served mine = *(served *)arg;
    syn_ctx *ctx = me->ctx;
    syn_model *m = NULL;
    const syn_model_options how = {.tp = me->tp,
                                   .fused_attention = !(mine.config.attention_cap > 0),
                                   .dtype = mine.dtype,
                                   .weight_dtype = mine.dtype,
                                   .seed = mine.seed};
    const int64_t n = mine.config.vocab_size;
    const bool data = syn_ctx_has_data(ctx);
    int64_t done[SEQUENCES] = {0};
    packed p;
    SYN_TRY(syn_model_new(&m, ctx, &mine.config, &how, err));
    float *want = mine.compared ? malloc((size_t)(SEQUENCES * LONGEST * n) * sizeof *want) : NULL;
    for (int s = 0; want && s < SEQUENCES; s++) alone(m, &mine, s, want + s * LONGEST * n);
    (void)!syn_causal_begin_paged(m, MAX_BLOCKS * SEQUENCES, schedules[mine.schedule].block_tokens,
                                  syn_ctx_error_slot(ctx));
    for (int k = 0; k < 7 && syn_ctx_status(ctx) == SYN_OK; k++) {
        fill_step(&mine, k, done, &p);
        if (p.tokens == 0) break;
        const syn_spec spec = {SYN_I32, 2, {1, p.tokens}};
        if (!data) p.step.blocks = p.step.rows = NULL;
        const syn_tensor x = syn_input(ctx, "tokens", &spec, data ? p.ids : NULL);
        const syn_tensor y = syn_causal_forward_packed(m, x, &p.step);
        if (want) compare(ctx, &mine, &p, y, want);
    }
    free(want);
    syn_model_free(m);
    if (me->index == 0) ((served *)arg)->off = mine.off;
    return syn_ctx_check(ctx, err);
}

/* The configuration of a small checkpoint of transformers. */
static void read_config(syn_model_config *c, const char *name) {
    char path[1000];
    syn_error err = {0};
    snprintf(path, sizeof path, "%s/tests/reference/tiny_%s/config.json", getenv("SYN_SOURCE"),
             name);
    NEED_OK(syn_model_config_load(c, path, &err), err);
    c->initializer_range = 0.2;
}

static const char *const families[] = {"gpt2_f32",   "opt",       "neox",        "neox_sequential",
                                       "llama",      "mistral",   "qwen2",       "qwen3",
                                       "starcoder2", "phi3",      "olmo2",       "granite",
                                       "smollm3",    "gemma2",    "gemma3_text", "mixtral",
                                       "qwen2_moe",  "qwen3_moe", "deepseek_v2", "deepseek_v3",
                                       "gpt_oss"};

static void logits_are_those_of_each_sequence_alone(void) {
    if (!getenv("SYN_SOURCE")) SKIP("SYN_SOURCE does not say where the configurations are");
    for (size_t f = 0; f < COUNT(families); f++)
        for (int i = 0; i < (int)COUNT(schedules) + 1; i++) {
            served j = {.tp = i == COUNT(schedules) ? 2 : 1,
                        .schedule = (size_t)i % COUNT(schedules),
                        .compared = true};
            syn_error err = {0};
            read_config(&j.config, families[f]);
            CHECK_MSG(run_ranks(j.tp, serve, &j, &err) == SYN_OK, "%s: %s", families[f], err.text);
            CHECK_MSG(j.off < 1e-4, "%s, schedule %d, tp %d: off by %g", families[f], i, j.tp,
                      j.off);
        }
}

static void traces_are_the_same_on_every_device(void) {
    if (!getenv("SYN_SOURCE")) SKIP("SYN_SOURCE does not say where the configurations are");
    seen_traces seen = {.n = 0};
    for (size_t f = 0; f < COUNT(families); f++) {
        served j = {.tp = 1 + (int)f % 2, .schedule = f % COUNT(schedules)};
        read_config(&j.config, families[f]);
        CHECK_MSG(new_trace_everywhere(&seen, j.tp, serve, &j, &j.seed), "%s", families[f]);
    }
}

static const test_case cases[] = {
    {"logits are those of each sequence alone", logits_are_those_of_each_sequence_alone},
    {"traces are the same on every device", traces_are_the_same_on_every_device},
};

TEST_MAIN(cases)
