/* Tests the trace of a BERT run. It must be the same on every device and communicator. Its scopes
   must be HuggingFace's module names. Its flops, collectives and parameters must match the
   published formulas (Narayanan et al. 2021, sec. 3; Shoeybi et al. 2019, sec. 3). */
#include "syntorch/base/memory.h"
#include "tests/support/ranks.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

enum { MAX_TP = 8, PICKED = 3 };

/* Sums over the nodes of one rank. */
struct sums {
    int64_t params;                                           /* number of elements */
    uint64_t layer_linear, layer_attention, head, words_head; /* flops */
    int layer_reduces, other_reduces, gathers, enters, others;
    /* Bytes per collective; UINT64_MAX if they are not all equal. */
    uint64_t reduce_bytes, gather_bytes;
};

/* A run on all ranks. The contexts with the traces stay alive until the end. */
struct job {
    syn_model_config config;
    int tp;
    bool fused, types, mask, all_words;
    syn_dtype dtype;
    uint64_t seed;
    int64_t batch, n_tokens;
    syn_ctx *ctx[MAX_TP];
    struct sums sums[MAX_TP]; /* set by sum_up */
};

static syn_status run_rank(const test_rank *me, void *arg, syn_error *err) {
    struct job *job = arg;
    syn_model *bert = NULL;
    syn_ctx *ctx = me->ctx;
    const syn_model_options how = {.tp = me->tp,
                                   .heads = ALL_HEADS,
                                   .fused_attention = job->fused,
                                   .seed = job->seed,
                                   .weight_dtype = job->dtype};
    SYN_TRY(syn_model_new(&bert, ctx, &job->config, &how, err));
    const syn_spec ids = {SYN_I32, 2, {job->batch, job->n_tokens}};
    const syn_spec floats = {SYN_F32, 2, {job->batch, job->n_tokens}};
    const syn_spec list = {SYN_I32, 1, {PICKED}};
    const syn_tensor tokens = syn_input(ctx, "tokens", &ids, NULL);
    const syn_tensor types = job->types ? syn_input(ctx, "types", &ids, NULL) : SYN_BERT_NO_TYPES;
    const syn_tensor mask = job->mask ? syn_input(ctx, "mask", &floats, NULL) : SYN_NO_MASK;
    const syn_tensor at = job->all_words ? SYN_BERT_ALL : syn_input(ctx, "at", &list, NULL);
    const syn_tensor hidden = syn_bert_forward(bert, tokens, types, mask);
    (void)syn_bert_nsp(bert, syn_bert_pooled(bert, hidden));
    (void)syn_bert_mlm(bert, hidden, at);
    syn_model_free(bert);
    return SYN_OK;
}

static bool run(struct job *job, syn_device device, int how) {
    return keep_ranks(job->tp, device, how, run_rank, job, job->ctx);
}

static void drop(struct job *job) {
    drop_ranks(MAX_TP, job->ctx);
}

/* ---- The same trace everywhere ---- */

static void one_trace_on_every_device_and_communicator(void) {
    seen_traces seen = {.n = 0};
    for (int i = 0; i < 48; i++) {
        struct job job = {.config = small_bert,
                          .tp = 1 << i % 3,
                          .fused = i / 3 % 2,
                          .types = i / 6 % 2,
                          .mask = i / 12 % 2,
                          .all_words = i / 24,
                          .seed = 1,
                          .batch = 2,
                          .n_tokens = 5};
        CHECK_MSG(new_trace_everywhere(&seen, job.tp, run_rank, &job, &job.seed), "case %d", i);
    }
}

static void a_preset_traces_alike_on_cpu_and_meta(void) {
    for (int tp = 1; tp <= 4; tp *= 2) {
        struct job job = {.tp = tp, .types = true, .mask = true, .batch = 2, .n_tokens = 6};
        syn_error err = {0};
        uint64_t cpu[MAX_TP], meta[MAX_TP];
        CHECK_OK(syn_model_config_preset(&job.config, "bert-base-uncased", &err), err);
        job.dtype = tp == 2 ? SYN_BF16 : SYN_F32;
        job.config.n_layer = 2; /* two layers are enough, because the others are identical */
        CHECK(trace_hashes(job.tp, SYN_DEVICE_CPU, IN_THREADS, run_rank, &job, cpu));
        CHECK(trace_hashes(tp, SYN_DEVICE_META, WITHOUT_TRANSPORT, run_rank, &job, meta));
        for (int r = 0; r < tp; r++) CHECK_MSG(cpu[r] == meta[r], "tp %d, rank %d", tp, r);
    }
}

/* ---- Sums over the graph ---- */

static bool starts(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static void add_bytes(uint64_t *to, uint64_t bytes) {
    *to = *to == 0 || *to == bytes ? bytes : UINT64_MAX;
}

static void add_comm(struct sums *s, const syn_node *n) {
    if (n->comm == SYN_COMM_ALL_REDUCE && n->reduce == SYN_REDUCE_SUM) {
        const bool layer = starts(n->scope, "encoder.layer.");
        /* Biases that are added after the sum of row-parallel layers. */
        if (layer && !strstr(n->scope, "output")) s->others++;
        if (!layer && strcmp(n->scope, "embeddings") != 0) s->others++;
        *(layer ? &s->layer_reduces : &s->other_reduces) += 1;
        add_bytes(&s->reduce_bytes, n->comm_bytes);
    } else if (n->comm == SYN_COMM_ALL_GATHER && strcmp(n->scope, "cls.predictions") == 0) {
        s->gathers++;
        add_bytes(&s->gather_bytes, n->comm_bytes);
    } else {
        s->others++;
    }
}

static void sum_nodes(const syn_graph *g, struct sums *s) {
    syn_cursor cur = {0};
    for (uint32_t i = 0; i < g->ranks[0].n_tensors; i++) {
        const syn_graph_tensor *t = syn_graph_tensor_at(g, 0, i, &cur);
        if (t->flags & SYN_TENSOR_PARAM) s->params += syn_spec_elems(&t->spec);
    }
    syn_cursor_free(&cur);
    cur = (syn_cursor){0};
    for (uint32_t i = 0; i < g->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(g, 0, i, &cur);
        const bool layer = starts(n->scope, "encoder.layer.");
        if (strcmp(n->op, "linear") == 0)
            *(layer                                      ? &s->layer_linear
              : strcmp(n->scope, "cls.predictions") == 0 ? &s->words_head
                                                         : &s->head) += n->flops;
        else if (strcmp(n->op, "matmul") == 0 || strcmp(n->op, "attention") == 0)
            s->layer_attention += n->flops;
        s->enters += strcmp(n->op, "tp_enter") == 0;
        if (n->comm != SYN_COMM_NONE) add_comm(s, n);
    }
    syn_cursor_free(&cur);
}

/* Computes the sums of every rank. Returns false if a graph is invalid. */
static bool sum_up(struct job *job) {
    for (int r = 0; r < job->tp; r++) {
        syn_graph *g = rank_graph(job->ctx[r]);
        if (g == NULL) return false;
        sum_nodes(g, &job->sums[r]);
        syn_graph_free(g);
    }
    return true;
}

/* Compares the sums with the formulas, whose symbols are those of the papers. */
static void check_sums(const struct job *job) {
    const int64_t b = job->batch, n = job->n_tokens, h = job->config.n_embd,
                  f = job->config.n_inner, t = job->tp, l = job->config.n_layer;
    const int64_t v = (job->config.vocab_size + t - 1) / t; /* rows of the vocabulary per rank */
    const int64_t words = job->all_words ? b * n : PICKED;
    for (int r = 0; r < t; r++) {
        const struct sums s = job->sums[r];
        CHECK_INT(s.layer_linear, l * 2 * b * n * (4 * h * h + 2 * h * f) / t);
        const int64_t vector =
            job->fused ? 5 * b * n * n * job->config.n_head : 0; /* scale, mask, softmax */
        CHECK_INT(s.layer_attention, l * (4 * b * n * n * h + vector) / t);
        CHECK_INT(s.words_head, 2 * words * h * v);
        CHECK_INT(s.head, 2 * words * h * h + 2 * b * h * h + 2 * b * h * 2);
        CHECK_INT(s.others, 0);
        CHECK_INT(s.layer_reduces, t > 1 ? 2 * l : 0);
        CHECK_INT(s.other_reduces, t > 1);
        CHECK_INT(s.reduce_bytes, t > 1 ? 4 * b * n * h : 0);
        CHECK_INT(s.gathers, t > 1);
        CHECK_INT(s.gather_bytes, t > 1 ? 4 * words * v : 0);
        CHECK_INT(s.enters, t > 1 ? 2 * l + 1 : 0); /* q, k and v use one tp_enter together */
    }
}

static void costs_are_those_of_the_formulas(void) {
    for (int i = 0; i < 16; i++) {
        struct job job = {.config = small_bert,
                          .tp = 1 << i % 4,
                          .fused = i / 4 % 2,
                          .all_words = i / 8,
                          .batch = 1 + i % 3,
                          .n_tokens = 7};
        const int before = test_failures;
        CHECK(run(&job, SYN_DEVICE_META, WITHOUT_TRANSPORT) && sum_up(&job));
        check_sums(&job);
        drop(&job);
        CHECK_MSG(test_failures == before, "case %d: tp %d, fused %d", i, job.tp, job.fused);
    }
}

/* Number of parameters of all ranks together. Replicated parameters are counted once per rank, and
   padding is not counted. */
static int64_t distinct_params(const struct job *job) {
    const syn_model_config *c = &job->config;
    const int64_t h = c->n_embd, t = job->tp,
                  padding = (c->vocab_size + t - 1) / t * t - c->vocab_size;
    /* Replicated per layer: two norms (2h each) and the biases of the two row-parallel layers.
       Replicated once: positions and token types, the first norm, the pooler, the transform with
       its norm, and the next-sentence head. */
    const int64_t copies = c->n_layer * (4 * h + 2 * h) + (c->n_positions + c->n_types) * h +
                           2 * h + 2 * (h * h + h) + 2 * h + 2 * h + 2;
    int64_t sum = 0;
    for (int r = 0; r < t; r++) sum += job->sums[r].params;
    return sum - (t - 1) * copies - padding * (h + 1);
}

static void presets_have_their_sizes(void) {
    for (size_t i = 0; syn_model_preset(i); i++)
        for (int tp = 1; tp <= 8; tp *= 2) {
            struct job job = {.tp = tp, .mask = true, .batch = 2, .n_tokens = 100};
            syn_error err = {0};
            const char *name = syn_model_preset(i);
            CHECK_OK(syn_model_config_preset(&job.config, name, &err), err);
            if (job.config.family != &syn_bert_family || job.config.n_head % tp) continue;
            CHECK_MSG(run(&job, SYN_DEVICE_META, WITHOUT_TRANSPORT) && sum_up(&job), "%s, tp %d",
                      name, tp);
            const int before = test_failures;
            check_sums(&job);
            const int64_t params = distinct_params(&job);
            const size_t peak = syn_ctx_peak_bytes(job.ctx[0]);
            drop(&job);
            CHECK_MSG(test_failures == before, "%s, tp %d", name, tp);
            CHECK_INT(params, syn_model_config_params(&job.config, ALL_HEADS));
            const size_t least = (size_t)(4 * job.sums[0].params);
            CHECK_MSG(peak > least && peak < least + least / 4, "%s: %zu bytes for %zu", name, peak,
                      least);
        }
}

/* ---- Scopes ---- */

/* The modules of HuggingFace's BertForPreTraining, in the order in which forward calls them. */
static void scopes_are_modules(void) {
    static const char *const layer[] = {"attention.self", "attention.output", "intermediate",
                                        "output"};
    struct job job = {.config = small_bert, .tp = 2, .batch = 1};
    char want[32][48];
    int n_want = 0, seen = 0;
    job.n_tokens = 3;
    snprintf(want[n_want++], 48, "embeddings");
    for (int i = 0; i < 8; i++)
        snprintf(want[n_want++], 48, "encoder.layer.%d.%s", i / 4, layer[i % 4]);
    static const char *const after[] = {"pooler", "cls", "cls.predictions",
                                        "cls.predictions.transform", "cls.predictions"};
    for (int i = 0; i < 5; i++) snprintf(want[n_want++], 48, "%s", after[i]);
    CHECK(run(&job, SYN_DEVICE_META, WITHOUT_TRANSPORT));
    const syn_trace *t = syn_ctx_trace(job.ctx[0]);
    bool right = true;
    for (size_t i = 1; i < t->n_nodes && right; i++) {
        const char *scope = syn_trace_text(t, t->nodes[i].scope);
        if (seen > 0 && strcmp(scope, want[seen - 1]) == 0) continue;
        right = seen < n_want && strcmp(scope, want[seen]) == 0;
        if (!right) fprintf(stderr, "node %d is in '%s'\n", (int)i, scope);
        seen++;
    }
    drop(&job);
    CHECK(right);
    CHECK_INT(seen, n_want);
}

/* ---- Memory ---- */

/* The peak of the bytes in use, minus the weights. */
static int64_t activation_bytes(int64_t layers, bool fused, int64_t n_tokens) {
    struct job job = {.config = small_bert,
                      .tp = 1,
                      .fused = fused,
                      .types = true,
                      .batch = 2,
                      .n_tokens = n_tokens};
    job.config.n_layer = layers;
    job.config.n_positions = n_tokens;
    int64_t bytes = -1;
    if (run(&job, SYN_DEVICE_CPU, IN_THREADS) && sum_up(&job))
        bytes = (int64_t)syn_ctx_peak_bytes(job.ctx[0]) - 4 * job.sums[0].params;
    drop(&job);
    return bytes;
}

/* Each layer frees its intermediate results. With unfused attention, at most one square matrix is
   alive in addition to the matrix that is being computed. */
static void layers_release_what_they_made(void) {
    const int64_t n = 64, square = 2 * small_bert.n_head * n * n * 4,
                  row = 2 * n * small_bert.n_embd * 4;
    for (int fused = 0; fused < 2; fused++) {
        const int64_t few = activation_bytes(2, fused, n), many = activation_bytes(9, fused, n);
        CHECK(few > 0 && many > 0);
        CHECK_MSG(many < few + few / 8, "%d bytes, and %d of 9 layers", (int)few, (int)many);
        const int64_t limit = (fused ? 0 : 2 * square) + 14 * row;
        CHECK_MSG(few < limit, "%d bytes of at most %d", (int)few, (int)limit);
    }
}

static const test_case cases[] = {
    {"one_trace_on_every_device_and_communicator", one_trace_on_every_device_and_communicator},
    {"a_preset_traces_alike_on_cpu_and_meta", a_preset_traces_alike_on_cpu_and_meta},
    {"costs_are_those_of_the_formulas", costs_are_those_of_the_formulas},
    {"presets_have_their_sizes", presets_have_their_sizes},
    {"scopes_are_modules", scopes_are_modules},
    {"layers_release_what_they_made", layers_release_what_they_made},
};

TEST_MAIN(cases)
