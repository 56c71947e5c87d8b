/* Tests the trace of a GPT run. It must be the same on every device and communicator. Its flops,
   bytes, collectives, parameters and caches must match the published formulas (Narayanan et al.
   2021, sec. 3; Shoeybi et al. 2019, sec. 3). */
#include "syntorch/context_private.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

#define MAX_TP    8
#define MAX_STEPS 4

/* Sums over the nodes of one rank, or of one of its steps. */
struct sums {
    int64_t params; /* number of elements */
    int64_t states; /* bytes of the caches */
};
struct step_sums {
    uint64_t layer_linear, layer_attention, head; /* flops */
    uint64_t weight_bytes;                        /* bytes that linear ops read */
    int layer_reduces, other_reduces, gathers, casts, others;
    uint64_t reduce_bytes, gather_bytes,
        cast_bytes; /* bytes per collective or cast; UINT64_MAX if they are not all equal */
};

/* A run on all ranks. The contexts with the traces stay alive until the end. */
struct job {
    generation_job how;
    syn_ctx *ctx[MAX_TP];
    struct sums sums[MAX_TP]; /* set by sum_up */
    struct step_sums steps[MAX_TP][MAX_STEPS];
};

static bool run(struct job *job, syn_device device, int how) {
    return keep_ranks(job->how.tp, device, how, generation_rank, &job->how, job->ctx);
}

static void drop(struct job *job) {
    drop_ranks(MAX_TP, job->ctx);
}

/* ---- The same trace everywhere ---- */

static void one_trace_on_every_device_and_communicator(void) {
    seen_traces seen = {.n = 0};
    for (int i = 0; i < 24; i++) {
        struct job job = {.how = {.config = small_gpt,
                                  .tp = 1 << i % 3,
                                  .fused = i / 3 % 2,
                                  .seed = 1,
                                  .batch = i / 6 % 2 ? 3 : 1,
                                  .prompt = 5,
                                  .new_tokens = 4}};
        job.how.config.tied = i / 12 % 2;
        CHECK_MSG(new_trace_everywhere(&seen, job.how.tp, generation_rank, &job.how, &job.how.seed),
                  "case %d", i);
    }
}

static void presets_trace_alike_on_cpu_and_meta(void) {
    for (int tp = TEST_REDUCED ? 4 : 1; tp <= 4; tp *= 2) {
        struct job job = {.how = {.tp = tp, .seed = 1, .batch = 1, .prompt = 3, .new_tokens = 2}};
        syn_error err = {0};
        uint64_t cpu[MAX_TP], meta[MAX_TP];
        CHECK_OK(syn_model_config_preset(&job.how.config, tp == 2 ? "gpt3-125m" : "gpt2", &err),
                 err);
        if (TEST_REDUCED) job.how.config.n_layer = 2;
        CHECK(trace_hashes(job.how.tp, SYN_DEVICE_CPU, IN_THREADS, generation_rank, &job.how, cpu));
        CHECK(
            trace_hashes(tp, SYN_DEVICE_META, WITHOUT_TRANSPORT, generation_rank, &job.how, meta));
        for (int r = 0; r < tp; r++)
            CHECK_MSG(cpu[r] == meta[r], "%s, tp %d, rank %d", job.how.config.name, tp, r);
    }
}

/* ---- Sums over the graph ---- */

static void add_bytes(uint64_t *to, uint64_t bytes) {
    *to = *to == 0 || *to == bytes ? bytes : UINT64_MAX;
}

static void add_comm(struct step_sums *s, const syn_node *n, bool layer) {
    if (n->comm == SYN_COMM_ALL_REDUCE && n->reduce == SYN_REDUCE_SUM) {
        *(layer ? &s->layer_reduces : &s->other_reduces) += 1;
        add_bytes(&s->reduce_bytes, n->comm_bytes);
    } else if (n->comm == SYN_COMM_ALL_GATHER && strcmp(n->scope, "head") == 0) {
        s->gathers++;
        add_bytes(&s->gather_bytes, n->comm_bytes);
    } else if (n->comm == SYN_COMM_BROADCAST && n->root == 0 && strcmp(n->scope, "sample") == 0) {
        s->casts++;
        add_bytes(&s->cast_bytes, n->comm_bytes);
    } else {
        s->others++;
    }
}

static void sum_tensors(const syn_graph *g, struct sums *s) {
    syn_cursor cur = {0};
    for (uint32_t i = 0; i < g->ranks[0].n_tensors; i++) {
        const syn_graph_tensor *t = syn_graph_tensor_at(g, 0, i, &cur);
        if (t->flags & SYN_TENSOR_PARAM) s->params += syn_spec_elems(&t->spec);
        if ((t->flags & SYN_TENSOR_STATE) && !(t->flags & SYN_TENSOR_VIEW))
            s->states += (int64_t)syn_spec_bytes(&t->spec);
    }
    syn_cursor_free(&cur);
}

static void sum_nodes(const syn_graph *g, struct step_sums steps[MAX_STEPS]) {
    syn_cursor cur = {0}, tensors = {0};
    for (uint32_t i = 0; i < g->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(g, 0, i, &cur);
        if (n->step >= MAX_STEPS) continue;
        struct step_sums *s = &steps[n->step];
        const bool layer = strncmp(n->scope, "h.", 2) == 0;
        if (strcmp(n->op, "linear") == 0) {
            *(layer ? &s->layer_linear : &s->head) += n->flops;
            for (uint32_t k = 1; k < n->n_inputs; k++)
                s->weight_bytes +=
                    syn_spec_bytes(&syn_graph_tensor_at(g, 0, n->inputs[k], &tensors)->spec);
        } else if (layer && (strcmp(n->op, "matmul") == 0 || strcmp(n->op, "attention") == 0)) {
            s->layer_attention += n->flops;
        }
        if (n->comm != SYN_COMM_NONE) add_comm(s, n, layer);
    }
    syn_cursor_free(&cur);
    syn_cursor_free(&tensors);
}

/* Computes the sums of every rank. Returns false if a graph is invalid. */
static bool sum_up(struct job *job) {
    for (int r = 0; r < job->how.tp; r++) {
        syn_graph *g = rank_graph(job->ctx[r]);
        if (g == NULL) return false;
        sum_tensors(g, &job->sums[r]);
        sum_nodes(g, job->steps[r]);
        syn_graph_free(g);
    }
    return true;
}

/* ---- Against the formulas ---- */

/* Checks a step with n tokens of each of b sequences. After the step, the cache has c tokens. The
   symbols b, n, c, h, f and t are those of the papers. */
static void check_step(const struct job *job, uint32_t step, int64_t n, int64_t c) {
    const int64_t b = job->how.batch, h = job->how.config.n_embd, f = job->how.config.n_inner,
                  t = job->how.tp, l = job->how.config.n_layer;
    /* Rows of the vocabulary per rank. */
    const int64_t v = (job->how.config.vocab_size + t - 1) / t;
    for (int r = 0; r < t; r++) {
        const struct step_sums s = job->steps[r][step];
        CHECK_INT(s.layer_linear, l * 2 * b * n * (4 * h * h + 2 * h * f) / t);
        const int64_t vector =
            job->how.fused ? 5 * b * n * c * job->how.config.n_head : 0; /* scale, mask, softmax */
        CHECK_INT(s.layer_attention, l * (4 * b * n * c * h + vector) / t);
        CHECK_INT(s.head, 2 * b * h * v); /* the head computes only the last token's logits */
        const int64_t biases =
            t == 1 ? 3 * h + h + f + h
                   : (3 * h + f) / t; /* the other biases are added after the all-reduce */
        CHECK_INT(s.weight_bytes, 4 * (l * ((4 * h * h + 2 * h * f) / t + biases) + v * h));
        CHECK_INT(s.others, 0);
        if (t == 1) {
            CHECK_INT(s.layer_reduces + s.other_reduces + s.gathers + s.casts, 0);
            continue;
        }
        CHECK_INT(s.layer_reduces, 2 * l);
        CHECK_INT(s.other_reduces, 1);
        CHECK_INT(s.reduce_bytes, 4 * b * n * h);
        CHECK_INT(s.gathers, 1);
        CHECK_INT(s.gather_bytes, 4 * b * v);
        CHECK_INT(s.casts, 1);
        CHECK_INT(s.cast_bytes, 4 * b);
    }
}

static void costs_are_those_of_the_formulas(void) {
    for (int i = 0; i < 16; i++) {
        struct job job = {.how = {.config = small_gpt,
                                  .tp = 1 << i % 4,
                                  .fused = i / 4 % 2,
                                  .batch = i / 8 ? 3 : 1,
                                  .prompt = 7,
                                  .new_tokens = 4}};
        job.how.config.n_inner = i % 3 ? 96 : 128;
        const int before = test_failures;
        CHECK(run(&job, SYN_DEVICE_META, WITHOUT_TRANSPORT) && sum_up(&job));
        check_step(&job, 0, 7, 7);
        for (uint32_t step = 1; step < 4; step++) check_step(&job, step, 1, 7 + step);
        drop(&job);
        CHECK_MSG(test_failures == before, "case %d: tp %d, fused %d, batch %d", i, job.how.tp,
                  job.how.fused, (int)job.how.batch);
    }
}

/* Number of parameters of all ranks together. Replicated parameters are counted once per rank, and
   padding is not counted. */
static int64_t distinct_params(const struct job *job) {
    const syn_model_config *c = &job->how.config;
    const int64_t h = c->n_embd, t = job->how.tp,
                  padding = (c->vocab_size + t - 1) / t * t - c->vocab_size;
    /* Replicated per layer: two norms (2h each) and the biases of the two row-parallel layers.
       Replicated once: positions and the final norm. */
    const int64_t copies = c->n_layer * (4 * h + 2 * h) + c->n_positions * h + 2 * h;
    int64_t sum = 0;
    for (int r = 0; r < t; r++) sum += job->sums[r].params;
    return sum - (t - 1) * copies - padding * h * (c->tied ? 1 : 2);
}

static void presets_have_their_sizes(void) {
    /* The published parameter counts of GPT-2's checkpoints. */
    static const struct {
        const char *name;
        int64_t params;
    } known[] = {{"gpt2", 124439808}, {"gpt2-xl", 1557611200}};
    for (size_t i = 0; syn_model_preset(i); i++)
        for (int tp = 1; tp <= 8; tp *= 2) {
            if (TEST_REDUCED && tp != (i % 2 ? 2 : 8)) continue;
            struct job job = {.how = {.tp = tp, .batch = 2, .prompt = 100, .new_tokens = 3}};
            syn_error err = {0};
            CHECK_OK(syn_model_config_preset(&job.how.config, syn_model_preset(i), &err), err);
            const syn_model_config *c = &job.how.config;
            if (c->family != &syn_gpt_family || c->n_head % tp) continue;
            CHECK_MSG(run(&job, SYN_DEVICE_META, WITHOUT_TRANSPORT) && sum_up(&job), "%s, tp %d",
                      c->name, tp);
            const int64_t params = distinct_params(&job);
            const int before = test_failures;
            check_step(&job, 0, 100, 100);
            check_step(&job, 2, 1, 102);
            const size_t peak = syn_ctx_peak_bytes(job.ctx[0]);
            drop(&job);
            CHECK_MSG(test_failures == before, "%s, tp %d", c->name, tp);
            CHECK_INT(params, syn_model_config_params(c, 0));
            CHECK_INT(job.sums[tp - 1].states,
                      /* A cache of keys and one of values. */
                      2 * c->n_layer * 2 * 102 * c->n_embd * 4 / tp);
            const size_t least = (size_t)(4 * job.sums[0].params + job.sums[0].states);
            CHECK_MSG(peak > least && peak < least + least / 4, "%s: %zu bytes for %zu", c->name,
                      peak, least);
        }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        syn_model_config c;
        syn_error err = {0};
        CHECK_OK(syn_model_config_preset(&c, known[i].name, &err), err);
        CHECK_INT(syn_model_config_params(&c, 0), known[i].params);
    }
    syn_model_config untied = small_gpt;
    untied.tied = false;
    struct job job = {.how = {.config = untied, .tp = 4, .batch = 1, .prompt = 1, .new_tokens = 1}};
    CHECK(run(&job, SYN_DEVICE_META, WITHOUT_TRANSPORT) && sum_up(&job));
    const int64_t params = distinct_params(&job);
    drop(&job);
    CHECK_INT(params, syn_model_config_params(&untied, 0));
}

/* One decode step of GPT-3 175B on 8 ranks with 2048 tokens in the cache. The flops of one layer on
   one rank were computed manually from 24 b h^2 / t and 4 b c h / t. */
static void a_decode_step_of_gpt3(void) {
    struct job job = {.how = {.tp = 8, .batch = 1, .prompt = 2047, .new_tokens = 2}};
    syn_error err = {0};
    CHECK_OK(syn_model_config_preset(&job.how.config, "gpt3-175b", &err), err);
    const bool ok = run(&job, SYN_DEVICE_META, WITHOUT_TRANSPORT) && sum_up(&job);
    const struct step_sums s = job.steps[5][1];
    drop(&job);
    CHECK(ok);
    CHECK_INT(s.layer_linear, 96 * INT64_C(452984832));
    CHECK_INT(s.layer_attention, 96 * INT64_C(12582912));
}

/* The number of buffers that are visited when tensors are freed, in a run on the CPU. */
static int64_t release_visits(int64_t layers) {
    struct job job = {
        .how = {.config = small_gpt, .tp = 1, .batch = 1, .prompt = 3, .new_tokens = 2}};
    job.how.config.n_layer = layers;
    int64_t visits = -1;
    if (run(&job, SYN_DEVICE_CPU, IN_THREADS)) visits = (int64_t)job.ctx[0]->storages.visits;
    drop(&job);
    return visits;
}

/* The cost per layer must not depend on the number of layers. */
static void layers_release_in_linear_time(void) {
    const int64_t ten = release_visits(10), twenty = release_visits(20), forty = release_visits(40);
    CHECK(ten > 0);
    CHECK_INT(forty - twenty, 2 * (twenty - ten));
}

static const test_case cases[] = {
    {"one_trace_on_every_device_and_communicator", one_trace_on_every_device_and_communicator},
    {"presets_trace_alike_on_cpu_and_meta", presets_trace_alike_on_cpu_and_meta},
    {"costs_are_those_of_the_formulas", costs_are_those_of_the_formulas},
    {"presets_have_their_sizes", presets_have_their_sizes},
    {"a_decode_step_of_gpt3", a_decode_step_of_gpt3},
    {"layers_release_in_linear_time", layers_release_in_linear_time},
};

TEST_MAIN(cases)
