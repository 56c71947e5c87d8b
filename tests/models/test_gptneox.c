/* Tests the trace of GPT-NeoX, and files that are rejected. The trace must be the same on every
   device and communicator, a layer with a parallel residual must have one all-reduce, flops must
   match the formulas, and sizes must match the published ones. tests/programs/test_llama.py and
   tests/models/test_training.c test the model's results. */
#include "tests/support/small_models.h"
#include "tests/support/test.h"

enum { MAX_RANKS = 8, LAYERS = 2, WIDTH = 32, INNER = 72, BATCH = 2, PROMPT = 5 };

static syn_model_config small(bool parallel) {
    return (syn_model_config){.family = &syn_gpt_neox_family,
                              .name = "small",
                              .n_layer = LAYERS,
                              .n_embd = WIDTH,
                              .n_head = 8,
                              .n_positions = 24,
                              .n_inner = INNER,
                              .vocab_size = 257,
                              .norm_epsilon = 1e-5,
                              .initializer_range = 0.02,
                              .rotary = {.theta = 1e4, .part = 0.5},
                              .parallel_residual = parallel,
                              .attention_bias = parallel,
                              .tied = !parallel,
                              .end = {.fill = -1}};
}

static void one_trace_on_every_device_and_communicator(void) {
    seen_traces seen = {.n = 0};
    for (int i = 0; i < 12; i++) {
        generation_job job = {.config = small(i < 6),
                              .tp = 1 << i % 3,
                              .fused = i / 3 % 2,
                              .seed = 1,
                              .batch = i % 2 ? 3 : 1,
                              .prompt = 5,
                              .new_tokens = 4};
        CHECK_MSG(new_trace_everywhere(&seen, job.tp, generation_rank, &job, &job.seed), "case %d",
                  i);
    }
}

/* Sums over the nodes of a rank's layers in step 0. */
struct sums {
    uint64_t linear;
    int reduces;
    int joins; /* number of dependencies of an MLP's ops on ops of an attention */
    int64_t bytes;
};

static void sum_up(const syn_graph *g, struct sums *s) {
    syn_cursor cur = {0};
    bool *attention = calloc(g->ranks[0].n_nodes, sizeof *attention);
    for (uint32_t i = 0; attention && i < g->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(g, 0, i, &cur);
        if (n->step != 0 || strncmp(n->scope, "layers.", 7) != 0) continue;
        if (strcmp(n->op, "linear") == 0) s->linear += n->flops;
        for (uint32_t k = 0; k < n->n_deps && strstr(n->scope, ".mlp"); k++)
            s->joins += attention[n->deps[k].node];
        attention[i] = strstr(n->scope, ".attention") != NULL;
        if (n->comm != SYN_COMM_ALL_REDUCE) continue;
        s->reduces++;
        s->bytes += (int64_t)n->comm_bytes;
    }
    free(attention);
    syn_cursor_free(&cur);
}

/* With a parallel residual, the MLP does not depend on the attention of the same layer. */
static void a_parallel_residual_has_one_all_reduce(void) {
    for (int i = 0; i < 8; i++) {
        const bool parallel = i / 4 == 0;
        const int tp = 1 << i % 4, reduces = tp == 1 ? 0 : parallel ? 1 : 2;
        generation_job job = {.config = small(parallel),
                              .tp = tp,
                              .fused = true,
                              .batch = BATCH,
                              .prompt = PROMPT,
                              .new_tokens = 1};
        syn_ctx *ctx[MAX_RANKS] = {NULL};
        CHECK(keep_ranks(tp, SYN_DEVICE_META, WITHOUT_TRANSPORT, generation_rank, &job, ctx));
        for (int r = 0; r < tp; r++) {
            struct sums s = {0};
            syn_graph *g = rank_graph(ctx[r]);
            sum_up(g, &s);
            syn_graph_free(g);
            const int matrices = 4 * WIDTH * WIDTH + 2 * WIDTH * INNER;
            CHECK_INT((int64_t)s.linear, 2 * BATCH * PROMPT * LAYERS * matrices / tp);
            CHECK_INT(s.reduces, LAYERS * reduces);
            /* The normalization and the residual depend on it. */
            CHECK_INT(s.joins, parallel ? 0 : 2 * LAYERS);
            CHECK_INT(s.bytes, LAYERS * reduces * BATCH * PROMPT * WIDTH * 4);
        }
        drop_ranks(MAX_RANKS, ctx);
    }
}

/* Biderman et al. 2023, table 1 (numbers of all parameters), and the released checkpoint of the 20B
   model. */
static void presets_have_their_sizes(void) {
    static const struct {
        const char *name;
        int64_t params;
    } known[] = {
        {"pythia-70m", 70426624},    {"pythia-160m", 162322944},  {"pythia-410m", 405334016},
        {"pythia-1b", 1011781632},   {"pythia-1.4b", 1414647808}, {"pythia-2.8b", 2775208960},
        {"pythia-6.9b", 6857302016}, {"pythia-12b", 11846072320}, {"gpt-neox-20b", 20554567680}};
    for (size_t i = 0; i < COUNT(known); i++) {
        syn_model_config c;
        syn_error err = {0};
        CHECK_OK(syn_model_config_preset(&c, known[i].name, &err), err);
        CHECK_INT(syn_model_config_params(&c, 0), known[i].params);
        CHECK_OK(syn_model_config_check(&c, 2, &err), err);
    }
    size_t n = 0;
    for (size_t i = 0; syn_model_preset(i); i++)
        n += strncmp(syn_model_preset(i), "pythia", 6) == 0 ||
             strncmp(syn_model_preset(i), "gpt-neox", 8) == 0;
    CHECK_INT((int64_t)n, (int64_t)COUNT(known));
}

static void files(void) {
    static const struct {
        const char *more, *says;
    } rows[] = {
        {"", NULL},
        {"\"head_dim\": 8, \"classifier_dropout\": 0.1, \"is_decoder\": false", NULL},
        {"\"hidden_act\": \"tanh\"", "\"hidden_act\" must be"},
        {"\"rotary_pct\": 0.5, \"partial_rotary_factor\": 0.25",
         "\"partial_rotary_factor\" contradicts its synonym \"rotary_pct\""},
        {"\"rotary_pct\": 0", "\"rotary_pct\" must be a number from 0.001 to 1, not 0"},
        {"\"rotary_pct\": 0.4", "head_dim 8 gives an odd number of rotated elements, 3"},
        {"\"use_parallel_residual\": 1", "\"use_parallel_residual\" must be true or false"},
        {"\"attention_bias\": null", "\"attention_bias\" must be true or false"},
        {"\"mlp_bias\": true", "unknown key \"mlp_bias\""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char json[400];
        syn_model_config c;
        syn_error err = {0};
        const int n =
            snprintf(json, sizeof json,
                     "{\"model_type\": \"gpt_neox\", \"num_hidden_layers\": 2, \"hidden_size\": "
                     "64, \"num_attention_heads\": 8, \"intermediate_size\": 40, \"vocab_size\": "
                     "61%s%s}",
                     *rows[i].more ? ", " : "", rows[i].more);
        const syn_status s = syn_model_config_parse(&c, "m.json", json, (size_t)n, &err);
        CHECK_MSG((s == SYN_OK) == (rows[i].says == NULL), "%s: %s", json, err.text);
        if (rows[i].says) CHECK_HAS(err.text, rows[i].says);
        else
            CHECK(c.parallel_residual && c.attention_bias && !c.tied && c.n_positions == 2048 &&
                  c.rotary.part == 0.25 && c.rotary.theta == 1e4 && c.end.ids[0] == 2);
    }
}

static const test_case cases[] = {
    {"one_trace_on_every_device_and_communicator", one_trace_on_every_device_and_communicator},
    {"a_parallel_residual_has_one_all_reduce", a_parallel_residual_has_one_all_reduce},
    {"presets_have_their_sizes", presets_have_their_sizes},
    {"files", files},
};
TEST_MAIN(cases)
