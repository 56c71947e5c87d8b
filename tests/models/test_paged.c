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
    syn_dtype dtype, weight_dtype;
    int ranks;
    bool ep; /* the ranks share experts and have other sequences; otherwise they share each layer */
    bool split;    /* the model has two parts */
    bool forgets;  /* removes the rows of each step */
    bool compared; /* also compute the logits of each sequence alone */
    size_t schedule;
    uint64_t seed;
    double off; /* the largest difference of a logit on any rank */
} served;

/* The ids of sequence s. */
static void tokens_of(const served *j, int s, int32_t ids[LONGEST]) {
    for (int t = 0; t < LONGEST; t++)
        ids[t] = (int32_t)((s * 31 + t * (7 + s) + t * t) % j->config.vocab_size);
}

/* The parts of a rank's model; the second one is NULL if the first one is whole. */
typedef struct parts {
    syn_model *at[2];
} parts;

static syn_status open_parts(const test_rank *me, const served *j, parts *out, syn_error *err) {
    const int64_t layers = j->config.n_layer;
    const syn_model_part halves[2] = {{0, 1, true, false, 0}, {1, layers - 1, false, true, 0}};
    const syn_model_options how = {.tp = j->ep ? NULL : me->tp,
                                   .ep = j->ep ? me->tp : NULL,
                                   .fused_attention = !(j->config.attention_cap > 0),
                                   .dtype = j->dtype,
                                   .weight_dtype = j->weight_dtype,
                                   .seed = j->seed};
    *out = (parts){{NULL}};
    for (int i = 0; i < (j->split ? 2 : 1); i++) {
        syn_model_options part = how;
        if (j->split) part.part = &halves[i];
        SYN_TRY(syn_model_new(&out->at[i], me->ctx, &j->config, &part, err));
    }
    return SYN_OK;
}

/* The logits of each token of sequence s, computed alone: one token per step. */
static void alone(const parts *m, const served *j, int s, float *logits) {
    syn_ctx *ctx = syn_model_ctx(m->at[0]);
    const syn_spec one = {SYN_I32, 2, {1, 1}};
    int32_t ids[LONGEST];
    syn_error err = {0};
    tokens_of(j, s, ids);
    for (int i = 0; i < 2 && m->at[i]; i++)
        NEED_OK(syn_causal_begin(m->at[i], 1, LONGEST, &err), err);
    for (int t = 0; t < LONGEST; t++) {
        syn_tensor y = syn_input(ctx, "token", &one, &ids[t]);
        for (int i = 0; i < 2 && m->at[i]; i++) y = syn_causal_forward(m->at[i], y);
        const size_t n = (size_t)j->config.vocab_size;
        NEED_OK(syn_tensor_read_f32(ctx, y, logits + (size_t)t * n, n), *syn_ctx_error_slot(ctx));
    }
}

/* A packed step, and the sequence and the token of each row that it returns. */
typedef struct packed {
    syn_packed_step step;
    int32_t ids[SEQUENCES * LONGEST], queries[SEQUENCES], keys[SEQUENCES],
        blocks[SEQUENCES * MAX_BLOCKS], rows[SEQUENCES];
    int64_t sequence[SEQUENCES], token[SEQUENCES], tokens;
} packed;

/* Sequence s has every third block, the last ones first. */
static int32_t block_of(int s, int64_t number) {
    return (int32_t)((MAX_BLOCKS - 1 - number) * SEQUENCES + s);
}

/* Adds n new tokens of sequence s. wanted: the step returns the logits of the last one. */
static void add_sequence(const served *j, int s, int32_t n, bool wanted, int64_t *done, packed *p) {
    const int64_t i = p->step.n++, row = p->step.n_rows;
    int32_t ids[LONGEST];
    tokens_of(j, s, ids);
    memcpy(p->ids + p->tokens, ids + *done, (size_t)n * sizeof *ids);
    p->tokens += n;
    *done += n;
    p->queries[i] = n;
    p->keys[i] = (int32_t)*done;
    for (int b = 0; b < MAX_BLOCKS; b++) p->blocks[i * MAX_BLOCKS + b] = block_of(s, b);
    if (!wanted) return;
    p->rows[row] = (int32_t)p->tokens - 1;
    p->sequence[row] = s;
    p->token[row] = *done - 1;
    p->step.n_rows++;
}

/* Fills in step k, after which sequence s has done[s] tokens. Returns whether there is such a step.
   A rank without sequences computes a token in a block of its own. */
static bool fill_step(const served *j, int rank, int k, int64_t done[SEQUENCES], packed *p) {
    const int32_t *queries = schedules[j->schedule].queries[k];
    bool any = false;
    memset(p, 0, sizeof *p);
    p->step = (syn_packed_step){.queries = p->queries,
                                .keys = p->keys,
                                .blocks = p->blocks,
                                .max_blocks = MAX_BLOCKS,
                                .rows = p->rows};
    for (int s = 0; s < SEQUENCES; s++) {
        any = any || queries[s] > 0;
        if (queries[s] == 0 || (j->ep && s < rank)) continue;
        add_sequence(j, s, queries[s], (k + s) % 3 > 0 || k == 2, &done[s], p);
    }
    if (p->tokens > 0) return true;
    add_sequence(j, 0, 1, false, &(int64_t){0}, p);
    p->blocks[0] = MAX_BLOCKS * SEQUENCES;
    return any;
}

/* Compares the logits of a step with those of the sequences alone. */
static void compare(syn_ctx *ctx, served *j, const packed *p, syn_tensor y, const float *want) {
    static _Thread_local float got[SEQUENCES * MAX_VOCAB];
    const int64_t n = j->config.vocab_size, all = p->step.n_rows * n;
    if (syn_tensor_read_f32(ctx, y, got, (size_t)all) != SYN_OK) return;
    for (int64_t i = 0; i < all; i++) {
        const double w = (double)want[(p->sequence[i / n] * LONGEST + p->token[i / n]) * n + i % n],
                     off = fabs((double)got[i] - w) / (1 + fabs(w));
        if (!(off <= j->off)) j->off = isnan(off) ? INFINITY : off;
    }
}

static void run_steps(const test_rank *me, const parts *m, served *j, const float *want) {
    syn_ctx *ctx = me->ctx;
    const bool data = syn_ctx_has_data(ctx);
    int64_t done[SEQUENCES] = {0};
    packed p;
    for (int i = 0; i < 2 && m->at[i]; i++)
        (void)!syn_causal_begin_paged(m->at[i], MAX_BLOCKS * SEQUENCES + 1,
                                      schedules[j->schedule].block_tokens, syn_ctx_error_slot(ctx));
    const syn_mark from = syn_ctx_mark(ctx);
    for (int k = 0; fill_step(j, me->index, k, done, &p) && syn_ctx_status(ctx) == SYN_OK; k++) {
        const syn_spec spec = {SYN_I32, 2, {1, p.tokens}};
        if (!data) p.step.blocks = p.step.rows = NULL;
        syn_tensor x = syn_input(ctx, "tokens", &spec, data ? p.ids : NULL);
        for (int i = 0; i < 2 && m->at[i]; i++) x = syn_causal_forward_packed(m->at[i], x, &p.step);
        if (want) compare(ctx, j, &p, x, want);
        if (j->forgets) syn_forget(ctx, from, NULL, 0);
    }
}

static syn_status serve(const test_rank *me, void *arg, syn_error *err) {
    served mine = *(served *)arg;
    parts m;
    const int64_t n = LONGEST * mine.config.vocab_size;
    SYN_TRY(open_parts(me, &mine, &m, err));
    float *want = mine.compared ? malloc((size_t)(SEQUENCES * n) * sizeof *want) : NULL;
    for (int s = 0; want && s < SEQUENCES; s++) alone(&m, &mine, s, want + s * n);
    run_steps(me, &m, &mine, want);
    free(want);
    for (int i = 0; i < 2; i++) syn_model_free(m.at[i]);
    const syn_status s = syn_ctx_check(me->ctx, err);
    if (s != SYN_OK || mine.off < (mine.dtype == SYN_F32 ? 1e-4 : 0.1)) return s;
    return SYN_FAIL(err, SYN_E_INVALID, "rank %d is off by %g", me->index, mine.off);
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

/* Whether the packed steps of a family have the right logits, with every schedule in turn. */
static bool right(const char *family, served j) {
    syn_error err = {0};
    read_config(&j.config, family);
    j.compared = true;
    for (j.schedule = 0; j.schedule < COUNT(schedules); j.schedule++)
        if (run_ranks(j.ranks, serve, &j, &err) != SYN_OK) {
            fprintf(stderr, "%s, schedule %zu, %d ranks: %s\n", family, j.schedule, j.ranks,
                    err.text);
            return false;
        }
    return true;
}

static void logits_are_those_of_each_sequence_alone(void) {
    if (!getenv("SYN_SOURCE")) SKIP("SYN_SOURCE does not say where the configurations are");
    for (size_t f = 0; f < COUNT(families); f++)
        for (int ranks = 1; ranks < 3; ranks++)
            CHECK(right(families[f], (served){.ranks = ranks, .forgets = ranks == 1}));
}

static void parts_and_dtypes(void) {
    if (!getenv("SYN_SOURCE")) SKIP("SYN_SOURCE does not say where the configurations are");
    CHECK(right("gpt2_f32", (served){.ranks = 1, .split = true}));
    CHECK(right("llama", (served){.ranks = 2, .split = true}));
    CHECK(right("deepseek_v2", (served){.ranks = 1, .split = true, .weight_dtype = SYN_BF16}));
    CHECK(right("llama", (served){.ranks = 1, .dtype = SYN_BF16}));
    CHECK(right("mistral", (served){.ranks = 1, .dtype = SYN_F16}));
    CHECK(right("deepseek_v3", (served){.ranks = 2, .dtype = SYN_F16}));
}

/* The ranks have different numbers of tokens, and one of them has no sequence in some steps. */
static void ranks_share_experts(void) {
    if (!getenv("SYN_SOURCE")) SKIP("SYN_SOURCE does not say where the configurations are");
    static const char *const sparse[] = {"mixtral", "qwen3_moe", "deepseek_v3", "gpt_oss"};
    for (size_t f = 0; f < COUNT(sparse); f++)
        CHECK(right(sparse[f], (served){.ranks = 2, .ep = true}));
}

static void traces_are_the_same_on_every_device(void) {
    if (!getenv("SYN_SOURCE")) SKIP("SYN_SOURCE does not say where the configurations are");
    seen_traces seen = {.n = 0};
    for (size_t f = 0; f < COUNT(families); f++) {
        served j = {.ranks = 1 + (int)f % 2, .schedule = f % COUNT(schedules)};
        read_config(&j.config, families[f]);
        CHECK_MSG(new_trace_everywhere(&seen, j.ranks, serve, &j, &j.seed), "%s", families[f]);
    }
}

/* ---- errors ---- */

/* Runs a step of T tokens of small_gpt, which has 24 positions, with 6 blocks of 4 tokens. */
static void refuse(syn_packed_step step, int64_t tokens, const char *says) {
    syn_error err = {0};
    syn_model *m = model_alone(SYN_DEVICE_CPU, &small_gpt, &(syn_model_options){.seed = 1});
    syn_ctx *ctx = syn_model_ctx(m);
    const int32_t ids[30] = {0};
    const syn_spec spec = {SYN_I32, 2, {1, tokens}};
    CHECK_OK(syn_causal_begin_paged(m, 6, 4, &err), err);
    CHECK(syn_causal_forward_packed(m, syn_input(ctx, "x", &spec, ids), &step).id == 0);
    CHECK_HAS(syn_ctx_error_slot(ctx)->text, says);
    model_drop(m);
}

#define INTS(...) ((const int32_t[]){__VA_ARGS__})

static void refused_steps(void) {
    const syn_packed_step good = {2, INTS(3, 1), INTS(3, 9), INTS(0, 5, 9, 1, 3, 4),
                                  3, INTS(2, 3), 2};
    const struct {
        int64_t tokens;
        syn_packed_step change; /* members that are not 0 replace those of `good` */
        const char *says;
    } rows[] = {
        {4, {.queries = INTS(3, 0)}, "sequence 1 of a step cannot have 0 new tokens of 9 tokens"},
        {4, {.keys = INTS(2, 9)}, "sequence 0 of a step cannot have 3 new tokens of 2 tokens"},
        {4, {.keys = INTS(3, 25)}, "the 25 tokens of sequence 1 exceed the 24 positions of small"},
        {4, {.max_blocks = 2}, "sequence 1 has 9 tokens, which need 3 blocks instead of 2"},
        {4, {.blocks = INTS(0, 5, 9, 1, 3, 6)}, "block 6 of sequence 1 is not among the 6 blocks"},
        {4, {.blocks = INTS(-1, 5, 9, 1, 3, 5)}, "block -1 of sequence 0 is not among"},
        {5, {0}, "the sequences of a step have 4 new tokens, not 5"},
        {4, {.n = -1}, "a step of -1 sequences and 4 tokens cannot return 2 rows"},
        {4, {.n_rows = 5}, "a step of 2 sequences and 4 tokens cannot return 5 rows"},
        {4, {.rows = INTS(2, 4)}, "row 4 of a step of 4 tokens is out of order"},
        {4, {.rows = INTS(2, 2)}, "row 2 of a step of 4 tokens is out of order"},
        {4, {.rows = INTS(-1, 2)}, "row -1 of a step of 4 tokens is out of order"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const syn_packed_step *c = &rows[i].change;
        const syn_packed_step step = {c->n ? c->n : good.n,
                                      c->queries ? c->queries : good.queries,
                                      c->keys ? c->keys : good.keys,
                                      c->blocks ? c->blocks : good.blocks,
                                      c->max_blocks ? c->max_blocks : good.max_blocks,
                                      c->rows ? c->rows : good.rows,
                                      c->n_rows ? c->n_rows : good.n_rows};
        refuse(step, rows[i].tokens, rows[i].says);
    }
    syn_packed_step without = good;
    without.blocks = NULL;
    refuse(without, 4, "a step on this device needs blocks and rows");
    without = good;
    without.rows = NULL;
    refuse(without, 4, "a step on this device needs blocks and rows");
}

static void refused_models(void) {
    const syn_packed_step one = {1, INTS(1), INTS(1), NULL, 1, NULL, 1};
    const syn_spec spec = {SYN_I32, 2, {1, 1}}, two = {SYN_I32, 2, {2, 1}};
    const syn_model_options how = {.seed = 1};
    syn_error err = {0};
    /* Packed steps need begin_paged, and other steps need begin. */
    syn_model *m = model_alone(SYN_DEVICE_META, &small_gpt, &how);
    syn_ctx *ctx = syn_model_ctx(m);
    CHECK_OK(syn_causal_begin(m, 1, 4, &err), err);
    CHECK(syn_causal_forward_packed(m, syn_input(ctx, "x", &spec, NULL), &one).id == 0);
    CHECK_HAS(syn_ctx_error_slot(ctx)->text, "a packed step needs syn_causal_begin_paged first");
    model_drop(m);
    m = model_alone(SYN_DEVICE_META, &small_gpt, &how);
    ctx = syn_model_ctx(m);
    CHECK(syn_causal_begin_paged(m, 1 << 20, 1 << 11, &err) == SYN_E_INVALID);
    CHECK_HAS(err.text, "cannot have 1048576 blocks of 2048 tokens: it needs 1 to 2^31 - 1 tokens");
    err = (syn_error){0};
    CHECK(syn_causal_begin_paged(m, 0, 16, &err) == SYN_E_INVALID);
    err = (syn_error){0};
    CHECK_OK(syn_causal_begin_paged(m, 2, 4, &err), err);
    CHECK(syn_causal_forward(m, syn_input(ctx, "x", &spec, NULL)).id == 0);
    CHECK_HAS(syn_ctx_error_slot(ctx)->text, "a forward step needs syn_causal_begin first");
    model_drop(m);
    m = model_alone(SYN_DEVICE_META, &small_gpt, &how);
    ctx = syn_model_ctx(m);
    CHECK_OK(syn_causal_begin_paged(m, 2, 4, &err), err);
    CHECK(syn_causal_forward_packed(m, syn_input(ctx, "x", &two, NULL), &one).id == 0);
    CHECK_HAS(syn_ctx_error_slot(ctx)->text, "packed tokens have the batch size 1, not 2");
    model_drop(m);
    m = model_alone(SYN_DEVICE_META, &small_bert, &how);
    CHECK(syn_causal_begin_paged(m, 2, 4, &err) == SYN_E_INVALID);
    CHECK_HAS(err.text, "which does not predict the next token");
    model_drop(m);
}

/* Sequences whose length changes the rotary frequencies cannot be mixed with others. */
static void refused_lengths(void) {
    if (!getenv("SYN_SOURCE")) SKIP("SYN_SOURCE does not say where the configurations are");
    const syn_spec spec = {SYN_I32, 2, {1, 1}};
    syn_model_config config;
    syn_error err = {0};
    read_config(&config, "phi3_longrope");
    const int32_t most = (int32_t)config.rotary.original;
    for (int32_t keys = most; keys < most + 2; keys++) {
        syn_model *m = model_alone(SYN_DEVICE_META, &config, &(syn_model_options){.seed = 1});
        const syn_packed_step step = {1, INTS(1), &keys, NULL, 1, NULL, 1};
        CHECK_OK(syn_causal_begin_paged(m, 1, 64, &err), err);
        const syn_tensor y =
            syn_causal_forward_packed(m, syn_input(syn_model_ctx(m), "x", &spec, NULL), &step);
        CHECK((y.id != 0) == (keys == most));
        if (keys > most)
            CHECK_HAS(syn_ctx_error_slot(syn_model_ctx(m))->text,
                      "has another rotary embedding for such long texts");
        model_drop(m);
    }
}

static const test_case cases[] = {
    {"logits are those of each sequence alone", logits_are_those_of_each_sequence_alone},
    {"parts and dtypes", parts_and_dtypes},
    {"ranks share experts", ranks_share_experts},
    {"traces are the same on every device", traces_are_the_same_on_every_device},
    {"refused steps", refused_steps},
    {"refused models", refused_models},
    {"refused lengths", refused_lengths},
};

TEST_MAIN(cases)
