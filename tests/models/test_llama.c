/* Tests the traces of Llama, Mistral, Qwen2 and Qwen3. They must be the same on every device and
   communicator. Flops, collectives, parameters and caches must match the formulas of Narayanan et
   al. 2021, sec. 3, adapted to three MLP matrices and to fewer key/value heads than query heads.
   Sizes must match the published ones. tests/programs/test_llama.py and
   tests/models/test_training.c test the models' results. */
#include "tests/support/small_models.h"
#include "tests/support/test.h"

enum { MAX_RANKS = 8 };

/* A model with 8 query heads and 2 key/value heads. Not every tp divides its MLP and vocabulary
   sizes. */
static syn_model_config small(const syn_model_family *family) {
    const bool qwen3 = family == &syn_qwen3_family;
    syn_model_config c = {.family = family,
                          .name = "small",
                          .n_layer = 2,
                          .n_embd = 32,
                          .n_head = 8,
                          .n_kv_head = 2,
                          .head_dim = qwen3 ? 6 : 4,
                          .n_positions = 24,
                          .n_inner = 72,
                          .vocab_size = 257,
                          .norm_epsilon = 1e-5,
                          .initializer_range = 0.02,
                          .rotary = {.theta = 1e4, .part = 1},
                          .end = {.fill = -1}};
    if (family == &syn_mistral_family) c.windowed = true, c.window = 5;
    if (family == &syn_qwen2_family) c.tied = true;
    c.head_norm = qwen3;
    return c;
}

static const syn_model_family *const families[] = {&syn_llama_family, &syn_mistral_family,
                                                   &syn_qwen2_family, &syn_qwen3_family};
enum { FAMILIES = 4 };

static void one_trace_on_every_device_and_communicator(void) {
    seen_traces seen = {.n = 0};
    for (int i = 0; i < FAMILIES * 6; i++) {
        generation_job job = {.config = small(families[i / 6]),
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

/* ---- sums over a rank's graph ---- */

struct sums {
    int64_t params, caches;         /* number of elements */
    uint64_t linear, attention;     /* flops of the layers, in the last step */
    int reduces;                    /* all-reduces in layers, in the last step */
    uint64_t most_bytes, all_bytes; /* bytes of these all-reduces: the largest number and the sum */
};

static void sum_up(const syn_graph *g, uint32_t step, struct sums *s) {
    syn_cursor cur = {0};
    for (uint32_t i = 0; i < g->ranks[0].n_tensors; i++) {
        const syn_graph_tensor *t = syn_graph_tensor_at(g, 0, i, &cur);
        if (t->flags & SYN_TENSOR_PARAM) s->params += syn_spec_elems(&t->spec);
        if ((t->flags & SYN_TENSOR_STATE) && !(t->flags & SYN_TENSOR_VIEW))
            s->caches += syn_spec_elems(&t->spec);
    }
    syn_cursor_free(&cur);
    for (uint32_t i = 0; i < g->ranks[0].n_nodes; i++) {
        const syn_node *n = syn_graph_node(g, 0, i, &cur);
        if (n->step != step || strncmp(n->scope, "layers.", 7) != 0) continue;
        if (strcmp(n->op, "linear") == 0) s->linear += n->flops;
        if (strcmp(n->op, "attention") == 0) s->attention += n->flops;
        if (n->comm != SYN_COMM_ALL_REDUCE) continue;
        s->reduces++;
        s->all_bytes += n->comm_bytes;
        if (n->comm_bytes > s->most_bytes) s->most_bytes = n->comm_bytes;
    }
    syn_cursor_free(&cur);
}

/* Checks a decode step with `context` tokens in the cache, on every rank. */
static void check_preset(const char *name, int tp) {
    generation_job job = {.tp = tp, .fused = true, .batch = 2, .prompt = 99, .new_tokens = 3};
    syn_ctx *ctx[MAX_RANKS] = {NULL};
    syn_error err = {0};
    CHECK_OK(syn_model_config_preset(&job.config, name, &err), err);
    const syn_model_config *c = &job.config;
    const int64_t depth = c->head_dim, copies = syn_model_kv_ranks(c, tp), l = c->n_layer,
                  h = c->n_embd, keys = c->n_kv_head * depth * copies, b = job.batch, seen = 101;
    if (c->n_head % tp || c->n_inner % tp || (c->n_kv_head % tp && tp % c->n_kv_head)) return;
    CHECK_MSG(keep_ranks(tp, SYN_DEVICE_META, WITHOUT_TRANSPORT, generation_rank, &job, ctx),
              "%s, tp %d", name, tp);
    const int before = test_failures;
    int64_t params = 0;
    for (int r = 0; r < tp && test_failures == before; r++) {
        struct sums s = {0};
        syn_graph *g = rank_graph(ctx[r]);
        CHECK(g);
        sum_up(g, 2, &s);
        syn_graph_free(g);
        params += s.params;
        const int64_t matrices = 2 * h * c->n_head * depth + 2 * h * keys + 3 * h * c->n_inner;
        CHECK_INT((int64_t)s.linear, l * 2 * b * matrices / tp);
        CHECK_INT((int64_t)s.attention, l * b * c->n_head / tp * seen * (4 * depth + 5));
        CHECK_INT(s.caches, l * 2 * b * keys / tp * seen);
        CHECK_INT(s.reduces, tp > 1 ? 2 * l : 0);
        CHECK_INT((int64_t)s.all_bytes, tp > 1 ? 2 * l * b * h * 4 : 0);
    }
    drop_ranks(MAX_RANKS, ctx);
    /* Replicated on every rank: norms, and a bias that is added after the all-reduce. On `copies`
       ranks each: the weights of keys and values. */
    const int64_t again = (c->qkv_bias || c->attention_bias ? 2 : 0) * c->n_kv_head * depth +
                          2 * h * c->n_kv_head * depth;
    params -= (tp - 1) * (2 * l + 1) * h + (copies - 1) * l * again;
    params -= ((c->vocab_size + tp - 1) / tp * tp - c->vocab_size) * h * (c->tied ? 1 : 2);
    CHECK_INT(params, syn_model_config_params(c, 0));
    CHECK_MSG(test_failures == before, "%s, tp %d", name, tp);
}

/* The parameter counts of the released checkpoints. */
static void presets_have_their_sizes(void) {
    static const struct {
        const char *name;
        int64_t params;
    } known[] = {{"llama-2-7b", 6738415616},       {"llama-2-13b", 13015864320},
                 {"llama-2-70b", 68976648192},     {"llama-3-8b", 8030261248},
                 {"llama-3-70b", 70553706496},     {"llama-3-405b", 405853388800},
                 {"llama-3.1-405b", 405853388800}, {"mistral-7b", 7241732096},
                 {"qwen2.5-0.5b", 494032768},      {"qwen2.5-1.5b", 1543714304},
                 {"qwen2.5-3b", 3085938688},       {"qwen2.5-7b", 7615616512},
                 {"qwen2.5-14b", 14770033664},     {"qwen2.5-32b", 32763876352},
                 {"qwen2.5-72b", 72706203648},     {"llama-3.1-8b", 8030261248},
                 {"llama-3.1-70b", 70553706496},   {"qwen3-0.6b", 596049920},
                 {"qwen3-1.7b", 1720574976},       {"qwen3-4b", 4022468096},
                 {"qwen3-8b", 8190735360},         {"qwen3-14b", 14768307200},
                 {"qwen3-32b", 32762123264}};
    size_t n = 0;
    for (size_t i = 0; i < COUNT(known); i++) {
        syn_model_config c;
        syn_error err = {0};
        CHECK_OK(syn_model_config_preset(&c, known[i].name, &err), err);
        CHECK_INT(syn_model_config_params(&c, 0), known[i].params);
        CHECK_OK(syn_model_config_check(&c, 2, &err), err);
    }
    for (size_t i = 0; syn_model_preset(i); i++) {
        syn_model_config c;
        syn_error err = {0};
        CHECK_OK(syn_model_config_preset(&c, syn_model_preset(i), &err), err);
        n += c.family == &syn_llama_family || c.family == &syn_mistral_family ||
             c.family == &syn_qwen2_family || c.family == &syn_qwen3_family;
    }
    CHECK_INT((int64_t)n, (int64_t)COUNT(known));
}

static void costs_are_those_of_the_formulas(void) {
    static const char *const names[] = {"llama-2-7b",   "llama-3-8b", "mistral-7b",
                                        "qwen2.5-0.5b", "qwen2.5-7b", "qwen2.5-72b"};
    for (size_t i = 0; i < COUNT(names) && test_failures == 0; i++)
        for (int tp = 1; tp <= MAX_RANKS; tp *= 2) check_preset(names[i], tp);
}

/* Hyphens, case, the publisher and "Instruct" do not matter in the name of a preset. */
static void names_have_variants(void) {
    static const char *const same[][2] = {{"llama3.1-8b", "llama-3.1-8b"},
                                          {"meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"},
                                          {"Qwen/Qwen3-32B", "qwen3-32b"},
                                          {"Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"},
                                          {"meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"}};
    static const char *const unknown[] = {"llama-3.1-8", "llama-3.1-80b", "", "instruct", "qwen3"};
    syn_model_config c;
    for (size_t i = 0; i < COUNT(same); i++) {
        syn_error err = {0};
        CHECK_OK(syn_model_config_preset(&c, same[i][0], &err), err);
        CHECK_STR(c.name, same[i][1]);
    }
    for (size_t i = 0; i < COUNT(unknown); i++)
        CHECK_INT(syn_model_config_preset(&c, unknown[i], NULL), SYN_E_INVALID);
}

/* Settings that are not supported are rejected with their names. Settings that transformers 5
   ignores, and values that mean "none", are ignored. */
static void refuses_what_it_does_not_know(void) {
    static const char good[] =
        "\"num_hidden_layers\": 2, \"hidden_size\": 64, \"num_attention_heads\": 32, "
        "\"intermediate_size\": 40, \"vocab_size\": 61";
    static const struct {
        const char *type, *more, *says;
    } rows[] = {
        {"llama", "", NULL},
        {"qwen2",
         "\"use_cache\": true, \"torch_dtype\": \"bfloat16\", \"num_key_value_heads\": null", NULL},
        {"llama",
         "\"_flash_attn_2_enabled\": true, \"_attn_implementation\": \"sdpa\", \"_x\": [1]", NULL},
        {"llama", "\"sliding_window\": null, \"quantization_config\": null", NULL},
        {"llama", "\"gradient_checkpointing\": true, \"model_max_length\": 4096", NULL},
        {"llama", "\"num_experts\": null, \"use_qk_norm\": false, \"alibi\": [], \"clip_qkv\": 0",
         NULL},
        {"llama", "\"_x\": 1, \"ct_version\": \"2.1\", \"my_notes\": {\"a\": [{}, 7]}", NULL},
        {"llama", "\"embedding_multiplier\": 1.0, \"rotary_pct\": 1, \"rope_ratio\": 1", NULL},
        {"llama", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"why\": [1]}", NULL},
        {"llama", "\"x\": \"\", \"y\": [], \"z\": {}, \"hidden_dropout\": 0.5", NULL},
        {"llama", "\"layer_types\": [\"full_attention\", \"full_attention\"]", NULL},
        {"llama", "\"max_window_layers\": 1, \"use_sliding_window\": true", NULL},
        {"mistral", "\"attention_bias\": false, \"num_key_value_heads\": null", NULL},
        {"mistral",
         "\"num_key_value_heads\": 2, \"layer_types\": [\"sliding_attention\", "
         "\"sliding_attention\"]",
         NULL},
        {"qwen2", "\"mlp_bias\": false, \"is_causal\": true, \"per_layer_config\": {}", NULL},
        {"llama",
         "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, \"finetuned\": true, "
         "\"long_factor\": null}",
         NULL},
        {"llama", "\"rope_scaling\": {\"type\": null, \"rope_type\": \"default\"}", NULL},
        {"llama", "\"sliding_window\": 5", "m.json:1:"},
        {"llama", "\"sliding_window\": 5", "\"sliding_window\" must be null"},
        {"llama", "\"sliding_window\": 0", "\"sliding_window\" must be null"},
        {"qwen3", "\"attention_chunk_size\": 0", "\"attention_chunk_size\" must be null"},
        {"qwen3", "\"layer_types\": []", "\"layer_types\" must be a list of strings, one for"},
        {"llama", "\"embedding_multiplier\": 12",
         "unknown key \"embedding_multiplier\": it may change the model in an"},
        {"llama", "\"no_rope_layers\": [0]", "unknown key \"no_rope_layers\""},
        {"llama", "\"block_configs\": {\"a\": null}", "unknown key \"block_configs\""},
        {"qwen2", "\"num_experts\": 1", "unknown key \"num_experts\""},
        {"mistral", "\"rotary_pct\": 0.5", "m.json:1:"},
        {"gpt2", "\"use_parallel_residual\": true", "unknown key \"use_parallel_residual\""},
        {"bert", "\"use_alibi\": true", "unknown key \"use_alibi\""},
        {"llama", "\"scale\": [", "expected a value"},
        {"llama", "\"is_causal\": false", "\"is_causal\" must be true"},
        {"llama", "\"is_causal\": null", "\"is_causal\" must be true"},
        {"llama", "\"per_layer_config\": {\"0\": {}}", "\"per_layer_config\" must be null"},
        {"llama", "\"quantization\": {\"bits\": 4}",
         "\"quantization\": quantized weights are not supported"},
        {"llama", "\"layer_types\": [\"full_attention\", \"sliding_attention\"]",
         "\"layer_types\": all layers of this Llama must have full attention"},
        {"mistral",
         "\"num_key_value_heads\": 2, \"layer_types\": [\"full_attention\", \"sliding_attention\"]",
         "\"layer_types\": all layers of this Mistral must have the same \"sliding_window\""},
        {"mistral",
         "\"num_key_value_heads\": 2, \"layer_types\": [\"sliding_attention\", "
         "\"sliding_attention\"], \"sliding_window\": "
         "null",
         "\"layer_types\": all layers of this Mistral must have full attention"},
        {"llama", "\"quantization_config\": {}",
         "\"quantization_config\": quantized weights are not supported"},
        {"mistral", "\"attention_bias\": true", "unknown key \"attention_bias\""},
        {"mistral", "\"num_key_value_heads\": 3", "3 does not divide \"num_attention_heads\" 32"},
        {"llama", "\"hidden_act\": \"gelu\"", "\"hidden_act\" must be \"silu\", not \"gelu\""},
        {"llama", "\"attention_bias\": 1", "\"attention_bias\" must be true or false"},
        {"llama", "\"rope_scaling\": {\"type\": \"longrope\"}",
         "\"rope_scaling.type\" must be default, linear, dynamic, llama3 or yarn, not"},
        {"llama", "\"rope_scaling\": {\"type\": \"linear\"}", "\"linear\" scaling need \"factor\""},
        {"llama", "\"rope_parameters\": {\"rope_type\": \"llama3\", \"factor\": 8}",
         "\"llama3\" scaling need \"original_max_position_embeddings\""},
        {"llama", "\"rope_parameters\": {\"rope_type\": \"yarn\", \"long_factor\": 8}",
         "unknown key \"long_factor\" in \"rope_parameters\""},
        {"qwen3", "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 5e5}}",
         "unknown key \"full_attention\" in \"rope_parameters\""},
        {"llama", "\"head_dim\": 1", "a head_dim of 1 is too small for rotary embeddings"},
        {"qwen2", "\"use_sliding_window\": 3", "\"use_sliding_window\" must be true or false"},
        {"qwen2", "\"layer_types\": [\"full_attention\"]",
         "\"layer_types\" has 1 entries for 2 layers"},
        {"qwen3", "\"layer_types\": [\"sliding_attention\", \"full_attention\"]",
         "\"layer_types\" must be \"full_attention\" for the first layers, then"},
        {"qwen3", "\"layer_types\": [\"chunked_attention\", \"full_attention\"]",
         "\"layer_types\" must be \"full_attention\" for the first layers, then"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char json[600];
        syn_model_config c;
        syn_error err = {0};
        const int n = snprintf(json, sizeof json, "{\"model_type\": \"%s\", %s%s%s}", rows[i].type,
                               good, *rows[i].more ? ", " : "", rows[i].more);
        const syn_status s = syn_model_config_parse(&c, "m.json", json, (size_t)n, &err);
        CHECK_MSG((s == SYN_OK) == (rows[i].says == NULL), "%s: %s", json, err.text);
        if (rows[i].says) CHECK_HAS(err.text, rows[i].says);
    }
}

/* Keys that a file does not have get the defaults of transformers' configuration classes. */
static void absent_keys_have_the_defaults_of_transformers(void) {
    static const struct {
        const char *type, *more;
        int64_t keys, depth, positions, window, end, begin;
    } rows[] = {
        {"llama", "", 64, 2, 2048, 0, 2, 1},
        {"mistral", "", 8, 2, 131072, 4096, 2, 1},
        {"qwen2", "", 32, 2, 32768, 0, -1, -1},
        {"qwen3", "", 32, 128, 32768, 0, -1, -1},
        {"qwen3", "\"num_key_value_heads\": null", 64, 128, 32768, 0, -1, -1},
        {"llama", "\"eos_token_id\": null, \"bos_token_id\": null", 64, 2, 2048, 0, -1, -1},
        {"llama", "\"eos_token_id\": [7, 9]", 64, 2, 2048, 0, 7, 1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char json[400];
        syn_model_config c;
        syn_error err = {0};
        const int n = snprintf(json, sizeof json,
                               "{\"model_type\": \"%s\", \"num_hidden_layers\": 2, "
                               "\"hidden_size\": 128, \"num_attention_heads\": 64, "
                               "\"intermediate_size\": 40, \"vocab_size\": 61%s%s}",
                               rows[i].type, *rows[i].more ? ", " : "", rows[i].more);
        CHECK_OK(syn_model_config_parse(&c, "m.json", json, (size_t)n, &err), err);
        CHECK_INT(c.n_kv_head, rows[i].keys);
        CHECK_INT(c.head_dim, rows[i].depth);
        CHECK_INT(c.n_positions, rows[i].positions);
        CHECK_INT(c.windowed ? c.window : 0, rows[i].window);
        CHECK_INT(c.end.n_ids > 0 ? c.end.ids[0] : -1, rows[i].end);
        CHECK_INT(c.end.begin, rows[i].begin);
        CHECK(c.rotary.theta == 1e4 && c.norm_epsilon == 1e-6 && c.initializer_range == 0.02);
        CHECK(!c.tied && c.dropout.attention == 0);
    }
}

static void default_keys_must_divide_the_queries(void) {
    static const char json[] = "{\"model_type\": \"qwen2\", \"num_hidden_layers\": 2, "
                               "\"hidden_size\": 64, \"num_attention_heads\": 4, "
                               "\"intermediate_size\": 40, \"vocab_size\": 61}";
    syn_model_config c;
    syn_error err = {0};
    CHECK(syn_model_config_parse(&c, "m.json", json, sizeof json - 1, &err) != SYN_OK);
    CHECK_HAS(err.text, "\"num_key_value_heads\" 32, the default, does not divide "
                        "\"num_attention_heads\" 4");
}

/* Every number of the rotary embedding is part of the configuration's hash. */
static void hash_has_rotary_positions(void) {
    static const char *const files[] = {
        "\"use_cache\": true",
        "\"rope_theta\": 5e5",
        "\"partial_rotary_factor\": 0.5",
        "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}",
        "\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2}",
        "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2}",
        "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2, \"truncate\": false}",
        "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2, \"beta_fast\": 16}"};
    uint64_t hash[COUNT(files)];
    for (size_t i = 0; i < COUNT(files); i++) {
        char json[400];
        syn_model_config c;
        syn_error err = {0};
        const int n = snprintf(json, sizeof json,
                               "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, "
                               "\"hidden_size\": 32, \"num_attention_heads\": 4, "
                               "\"intermediate_size\": 40, \"vocab_size\": 61, %s}",
                               files[i]);
        CHECK_OK(syn_model_config_parse(&c, "m.json", json, (size_t)n, &err), err);
        hash[i] = syn_model_config_hash(&c, 1);
        for (size_t k = 0; k < i; k++) CHECK_MSG(hash[i] != hash[k], "%s: %s", files[i], files[k]);
    }
}

static const test_case cases[] = {
    {"hash_has_rotary_positions", hash_has_rotary_positions},
    {"one_trace_on_every_device_and_communicator", one_trace_on_every_device_and_communicator},
    {"absent_keys_have_the_defaults_of_transformers",
     absent_keys_have_the_defaults_of_transformers},
    {"default_keys_must_divide_the_queries", default_keys_must_divide_the_queries},
    {"refuses_what_it_does_not_know", refuses_what_it_does_not_know},
    {"presets_have_their_sizes", presets_have_their_sizes},
    {"costs_are_those_of_the_formulas", costs_are_those_of_the_formulas},
    {"names_have_variants", names_have_variants},
};
TEST_MAIN(cases)
