/* Tests configurations of mixtures of experts: exact numbers of parameters, which layers have
   experts, which plans are refused, and the balanced routing of runs without data. */
#include <math.h>
#include <stdlib.h>

#include "comm/comm.h"
#include "models/causal.h"
#include "models/family_private.h"
#include "models/model.h"
#include "syntorch/gradient.h"
#include "syntorch/mesh.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

/* The numbers of HuggingFace's checkpoints. */
static void test_parameters(void) {
    static const struct {
        const char *name;
        int64_t params;
    } models[] = {{"mixtral-8x7b", 46702792704},     {"mixtral-8x22b", 140620634112},
                  {"qwen2-57b-a14b", 57408658944},   {"qwen3-30b-a3b", 30532122624},
                  {"qwen3-235b-a22b", 235093634560}, {"deepseek-v2-lite", 15706484224},
                  {"deepseek-v2", 235741434880},     {"deepseek-v3", 671026404352},
                  {"kimi-k2", 1026408209408},        {"gpt-oss-20b", 20914757184},
                  {"gpt-oss-120b", 116829156672}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        syn_model_config c;
        syn_error err = {0};
        CHECK_OK(syn_model_config_preset(&c, models[i].name, &err), err);
        CHECK_INT(syn_model_config_params(&c, 0), models[i].params);
    }
}

#define QWEN                                                                              \
    "{\"model_type\": \"qwen3_moe\", \"num_hidden_layers\": 6, \"hidden_size\": 32, "     \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 48, " \
    "\"moe_intermediate_size\": 24, \"num_experts\": 8, \"num_experts_per_tok\": 2, "     \
    "\"vocab_size\": 99, \"max_position_embeddings\": 64"

static syn_status parse(syn_model_config *c, const char *more, syn_error *err) {
    char json[1000];
    const int n = snprintf(json, sizeof json, "%s%s}", QWEN, more);
    return syn_model_config_parse(c, "config.json", json, (size_t)n, err);
}

static void test_layers(void) {
    static const struct {
        const char *more;
        int layers; /* bit i: layer i has experts */
    } files[] = {{"", 63},
                 {", \"mlp_only_layers\": [1, 4]", 45},
                 {", \"decoder_sparse_step\": 2", 42},
                 {", \"decoder_sparse_step\": 3, \"mlp_only_layers\": [5]", 4},
                 {", \"mlp_only_layers\": null", 63}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        syn_model_config c;
        syn_error err = {0};
        CHECK_OK(parse(&c, files[i].more, &err), err);
        for (int64_t layer = 0; layer < 6; layer++)
            CHECK_INT(syn_model_layer_has_experts(&c, layer), files[i].layers >> layer & 1);
    }
}

static void test_refused_files(void) {
    static const struct {
        const char *more, *says;
    } files[] = {
        {", \"num_local_experts\": 4", "\"num_local_experts\""},
        {", \"mlp_only_layers\": [1, 600]", "\"mlp_only_layers\" must have layer numbers from 0"},
        {", \"mlp_only_layers\": [0.5]", "\"mlp_only_layers\" must have layer numbers from 0"},
        {", \"mlp_only_layers\": \"1\"", "\"mlp_only_layers\" must be a list of layer numbers"},
        {", \"mlp_only_layers\": [true]", "\"mlp_only_layers\" must be a list of layer numbers"},
        {", \"decoder_sparse_step\": 0", "\"decoder_sparse_step\""},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        syn_model_config c;
        syn_error err = {0};
        CHECK(parse(&c, files[i].more, &err) != SYN_OK);
        CHECK_HAS(err.text, files[i].says);
    }
    syn_model_config c;
    syn_error err = {0};
    CHECK_OK(parse(&c, "", &err), err);
    c.experts.k = 9;
    CHECK(syn_model_config_check(&c, 1, &err) == SYN_E_INVALID);
    CHECK_HAS(err.text, "a token cannot use 9 of 8 experts");
}

static void test_refused_plans(void) {
    static const struct {
        syn_plan plan;
        const char *says; /* NULL: accepted */
    } plans[] = {
        {{.ranks = 4, .ep = 4}, NULL},
        {{.ranks = 4, .tp = 2, .sp = true, .ep = 4}, NULL},
        {{.ranks = 4, .tp = 2}, NULL},
        {{.ranks = 16, .ep = 16}, "ep 16 does not divide the 8 experts"},
        {{.ranks = 4, .tp = 1, .etp = 2}, "use etp 1"},
        {{.ranks = 40, .tp = 2, .sp = true, .ep = 2, .etp = 5},
         "etp 5 does not divide the experts'"},
        {{.ranks = 4, .tp = 2, .ep = 2, .etp = 1}, "need sequence parallelism (sp) with tp 2"},
        {{.ranks = 28, .tp = 2, .sp = true, .ep = 2, .etp = 7}, "etp 7 does not divide the"},
        {{.ranks = 4, .tp = 2, .ep = 4, .inference = true}, NULL},
        {{.ranks = 4, .tp = 4, .ep = 2, .etp = 2, .inference = true}, NULL},
        {{.ranks = 4, .tp = 4, .ep = 2, .inference = true},
         "etp 1 x ep 2 = 2 must be a multiple of tp 4"},
    };
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        syn_model_config c;
        syn_error err = {0};
        syn_plan plan = plans[i].plan;
        CHECK_OK(parse(&c, "", &err), err);
        CHECK_OK(syn_plan_complete(&plan, &err), err);
        const syn_status s = syn_model_plan_check(&c, &plan, &err);
        CHECK_INT(s == SYN_OK, plans[i].says == NULL);
        if (plans[i].says) CHECK_HAS(err.text, plans[i].says);
    }
    syn_model_config dense;
    syn_error err = {0};
    syn_plan plan = {.ranks = 2, .ep = 2};
    CHECK_OK(syn_model_config_preset(&dense, "gpt2", &err), err);
    CHECK_OK(syn_plan_complete(&plan, &err), err);
    CHECK(syn_model_plan_check(&dense, &plan, &err) == SYN_E_INVALID);
    CHECK_HAS(err.text, "model gpt2 has no experts");
}

/* The rows of the grouped products of one forward pass of rank `rank` on meta. */
static int64_t rows_on(int32_t rank, int32_t ranks, int64_t tokens) {
    syn_model_config c;
    syn_comm *comm;
    syn_ctx *ctx;
    syn_model *m;
    syn_mesh mesh;
    syn_error err = {0};
    int64_t rows = 0;
    const syn_plan plan = {.ranks = ranks, .ep = ranks};
    const syn_spec spec = {SYN_I32, 2, {1, tokens}}, one = {SYN_F32, 0, {0}};
    NEED_OK(parse(&c, "", &err), err);
    NEED_OK(syn_comm_fake_new(&comm, rank, ranks, &err), err);
    NEED_OK(syn_mesh_open(&mesh, comm, &plan, &err), err);
    NEED_OK(syn_ctx_new(&ctx, SYN_DEVICE_META, comm, &err), err);
    const syn_model_options how = {.ep = mesh.ep, .fused_attention = true};
    NEED_OK(syn_model_new(&m, ctx, &c, &how, &err), err);
    const syn_tensor ids = syn_input(ctx, "tokens", &spec, NULL);
    (void)syn_causal_loss(m, ids, ids, syn_input(ctx, "weight", &one, NULL));
    NEED_OK(syn_ctx_check(ctx, &err), err);
    const syn_trace *t = syn_ctx_trace(ctx);
    for (uint32_t i = 1; i < t->n_nodes; i++)
        if (t->nodes[i].op == SYN_OP_GROUPED_LINEAR)
            rows += syn_trace_spec(t, t->nodes[i].first_out)->dims[0];
    syn_model_free(m);
    syn_ctx_free(ctx);
    syn_comm_close(comm);
    return rows;
}

/* On meta, each token's two copies go to experts in turn, so that all ranks together compute every
   copy once in each of the three products of the six layers. */
static void test_balanced(void) {
    for (int32_t ranks = 2; ranks <= 8; ranks *= 2)
        for (int64_t tokens = 1; tokens <= 21; tokens += 5) {
            int64_t all = 0, least = INT64_MAX, most = 0;
            for (int32_t r = 0; r < ranks; r++) {
                const int64_t rows = rows_on(r, ranks, tokens) / 18;
                all += rows;
                least = rows < least ? rows : least;
                most = rows > most ? rows : most;
            }
            CHECK_INT(all, 2 * tokens * ranks);
            CHECK_MSG(most - least <= ranks, "%d ranks: %lld to %lld rows", ranks, (long long)least,
                      (long long)most);
        }
}

/* ---- loads ---- */

static const char *write_loads(const char *text) {
    const char *path = in_folder("loads.csv");
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) abort();
    return path;
}

/* Loads are shared in proportion, but an expert has at most one row of each token. */
static void test_loads(void) {
    static const struct {
        const char *text;
        int64_t tokens, rows[2][8];
    } loads[] = {{"4,3,2,1,0,0,0,0", 10, {{8, 6, 4, 2}, {8, 6, 4, 2}}},
                 {"1,1,1,1,1,1,1,1\n\n1,1,2,0,0,0,0,0 \n1,1,1,1,1,1,1,1\n1,1,1,1,1,1,1,1\n"
                  "1,1,1,1,1,1,1,1\n1,1,1,1,1,1,1,1",
                  8,
                  {{2, 2, 2, 2, 2, 2, 2, 2}, {4, 4, 8}}},
                 {"100, 1, 1e0, 0.5,0.5,0,0,0", 9, {{9, 3, 3, 2, 1}, {9, 3, 3, 2, 1}}}};
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        syn_model_config c;
        syn_expert_load load;
        syn_error err = {0};
        CHECK_OK(parse(&c, "", &err), err);
        CHECK_OK(syn_expert_load_read(&load, write_loads(loads[i].text), &c, 0, &err), err);
        for (int64_t layer = 0; layer < 2; layer++) {
            int64_t rows[8];
            syn_expert_load_rows(&load, layer, loads[i].tokens, 2, rows);
            for (int e = 0; e < 8; e++)
                CHECK_MSG(rows[e] == loads[i].rows[layer][e], "file %zu, layer %d, expert %d: %lld",
                          i, (int)layer, e, (long long)rows[e]);
        }
        syn_expert_load_free(&load);
    }
}

/* By Zipf's law, the loads of a layer are a permutation of i^-S, which depends on the seed. */
static void test_zipf(void) {
    syn_model_config c;
    syn_expert_load a, b, same;
    syn_error err = {0};
    int moved = 0;
    CHECK_OK(parse(&c, "", &err), err);
    CHECK_OK(syn_expert_load_read(&a, "zipf:1,7", &c, 1, &err), err);
    CHECK_OK(syn_expert_load_read(&same, "zipf:1.0,7", &c, 1, &err), err);
    CHECK_OK(syn_expert_load_read(&b, "zipf:1,8", &c, 1, &err), err);
    CHECK_INT(a.rows, 7);
    for (int64_t layer = 0; layer < 7; layer++) {
        int64_t rows[8], all = 0;
        double sum = 0;
        for (int e = 0; e < 8; e++) {
            const double w = a.weights[layer * 8 + e];
            sum += w;
            CHECK(w == same.weights[layer * 8 + e] && fabs(1 / w - round(1 / w)) < 1e-9);
            moved += w != b.weights[layer * 8 + e];
            moved += w != a.weights[e];
        }
        CHECK(fabs(sum - 761.0 / 280) < 1e-12); /* the eighth harmonic number */
        syn_expert_load_rows(&a, layer, 1000, 2, rows);
        for (int e = 0; e < 8; e++) {
            all += rows[e];
            CHECK(fabs((double)rows[e] - 2000 * a.weights[layer * 8 + e] / sum) <= 1);
        }
        CHECK_INT(all, 2000);
    }
    CHECK(moved > 40);
    syn_expert_load_free(&a);
    syn_expert_load_free(&b);
    syn_expert_load_free(&same);
}

static void test_refused_loads(void) {
    static const struct {
        const char *text, *says;
    } loads[] = {
        {"1,2,3,4,5,6,7\n", "line 1 has 7 weights, but a layer has 8 experts"},
        {"1,2,3,4,5,6,7,8,9\n", "line 1 has 9 weights, but a layer has 8 experts"},
        {"\n1,2,3,4,5,6,7,-8\n", "line 2: weight 8 must be a number of at least 0"},
        {"1,2,x,4,5,6,7,8\n", "line 1: weight 3 must be a number"},
        {"1,2,3,4,5,6,7,inf\n", "line 1: weight 8 must be a number"},
        {"1,2,3,4,5,6,7,\n8\n", "line 1: weight 8 must be a number"},
        {"1 2,3,4,5,6,7,8,9\n", "line 1: weight 1 must be a number"},
        {"0,0,3,0,0,0,0,0\n", "line 1 has 1 weights above 0, but each token uses 2 experts"},
        {"1,2,3,4,5,6,7,8\n1,2,3,4,5,6,7,8\n",
         "has 2 lines with weights, but must have 1, or one for each of the 6 layers with experts"},
        {"\n", "has 0 lines with weights"}};
    syn_model_config c;
    syn_error first = {0};
    CHECK_OK(parse(&c, "", &first), first);
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        syn_expert_load load;
        syn_error err = {0};
        CHECK(syn_expert_load_read(&load, write_loads(loads[i].text), &c, 0, &err) == SYN_E_FORMAT);
        CHECK_HAS(err.text, loads[i].says);
    }
    static const char *const bad[] = {"zipf:",      "zipf:1",    "zipf:1,",
                                      "zipf:-1,2",  "zipf:1,-2", "zipf:101,1",
                                      "zipf:nan,1", "zipf:1,2x", "zipf:1 ,2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        syn_expert_load load;
        syn_error err = {0};
        CHECK_MSG(syn_expert_load_read(&load, bad[i], &c, 0, &err) == SYN_E_INVALID, "%s", bad[i]);
        CHECK_HAS(err.text, "must be zipf:S,SEED");
    }
}

static void test_capacity(void) {
    syn_model_config c;
    syn_error err = {0};
    CHECK_OK(parse(&c, "", &err), err);
    CHECK_INT(syn_expert_capacity_rows(&c, 400, 1.1), 110);
    CHECK_INT(syn_expert_capacity_rows(&c, 401, 1.1), 111);
    CHECK_INT(syn_expert_capacity_rows(&c, 1, 0.001), 1);
    CHECK_INT(syn_expert_capacity_rows(&c, 400, 0), 0);
}

static const test_case cases[] = {
    {"parameters", test_parameters},       {"layers with experts", test_layers},
    {"refused files", test_refused_files}, {"refused plans", test_refused_plans},
    {"balanced routing", test_balanced},   {"loads", test_loads},
    {"loads by Zipf's law", test_zipf},    {"refused loads", test_refused_loads},
    {"capacity", test_capacity},
};
TEST_MAIN(cases)
