/* Tests the dense families with Llama's layers that models/llama.c does not have, gpt-oss, and the
   files of DistilBERT, RoBERTa and OPT: traces must be
   the same on every device and communicator, sizes must match the published ones, and files are
   read with transformers' defaults, refused, and written as they were read.
   tests/programs/test_llama.py and tests/models/test_training.c test the models' results. */
#include "models/bert.h"
#include "tests/support/config_text.h"
#include "tests/support/files.h"
#include "tests/support/small_models.h"
#include "tests/support/test.h"

/* A file of each family: one with the keys that transformers requires, and one with other values
   for the family's own keys. */
#define SHAPE                                                                             \
    "\"num_hidden_layers\": 3, \"hidden_size\": 32, \"num_attention_heads\": 4, "         \
    "\"num_key_value_heads\": 2, \"intermediate_size\": 24, \"max_position_embeddings\":" \
    " 32, \"vocab_size\": 61"
static const struct {
    const char *type, *more;
} files[] = {
    {"starcoder2", "\"sliding_window\": 3"},
    {"starcoder2",
     "\"use_bias\": false, \"hidden_act\": \"gelu\", \"tie_word_embeddings\": false, "
     "\"norm_epsilon\": 0.001, \"residual_dropout\": 0.5, \"embedding_dropout\": 0.25"},
    {"phi3", "\"sliding_window\": 3"},
    {"olmo2", "\"attention_bias\": true"},
    {"olmo2", "\"head_dim\": 6, \"tie_word_embeddings\": true"},
    {"granite", "\"embedding_multiplier\": 12, \"residual_multiplier\": 0.22"},
    {"granite", "\"attention_multiplier\": 0.1, \"logits_scaling\": 8, \"mlp_bias\": true"},
    {"gemma2", "\"sliding_window\": 3"},
    {"gemma2", "\"attn_logit_softcapping\": null, \"final_logit_softcapping\": 3, "
               "\"query_pre_attn_scalar\": 7, \"attention_bias\": true"},
    {"gemma3_text", "\"sliding_window\": 3, \"final_logit_softcapping\": 3"},
    {"gemma3_text", "\"sliding_window\": 3, \"sliding_window_pattern\": 2, \"rope_theta\": 1e5, "
                    "\"rope_local_base_freq\": 1e3, \"rope_scaling\": {\"rope_type\": \"linear\", "
                    "\"factor\": 8}"},
    {"smollm3", "\"no_rope_layer_interval\": 2"},
    {"smollm3", "\"no_rope_layers\": [0, 1, 1], \"use_sliding_window\": true, "
                "\"sliding_window\": 3"},
    {"smollm3", "\"layer_types\": [\"sliding_attention\", \"full_attention\", "
                "\"sliding_attention\"], \"sliding_window\": 3"},
    {"gpt_oss", "\"num_local_experts\": 4, \"sliding_window\": 3"},
    {"gpt_oss",
     "\"num_local_experts\": 3, \"num_experts_per_tok\": 2, \"attention_bias\": false, "
     "\"head_dim\": 6, \"swiglu_alpha\": 1, \"swiglu_limit\": 2, \"rope_scaling\": null, "
     "\"layer_types\": [\"full_attention\", \"full_attention\", \"sliding_attention\"], "
     "\"quantization_config\": {\"a\": {\"b\": [1]}, \"quant_method\": \"mxfp4\"}"},
    {"phi3", "\"head_dim\": 12, \"partial_rotary_factor\": 0.5, \"resid_pdrop\": 0.5"},
    {"phi3", "\"original_max_position_embeddings\": 4, \"rope_scaling\": {\"type\": \"su\", "
             "\"short_factor\": [1, 1.5, 2, 3], \"long_factor\": [1, 2, 4, 8.5]}"},
    {"opt", "\"ffn_dim\": 24"},
    {"opt", "\"ffn_dim\": 24, \"enable_bias\": false, \"tie_word_embeddings\": false"},
};

static void read_file(syn_model_config *c, const char *type, const char *shape, const char *more) {
    char json[900];
    syn_error err = {0};
    memset(c, 0, sizeof *c);
    snprintf(json, sizeof json, "{\"model_type\": \"%s\", %s%s%s}", type, shape, *more ? ", " : "",
             more);
    CHECK_OK(config_parse(c, json, &err), err);
}

static void one_trace_on_every_device_and_communicator(void) {
    seen_traces seen = {.n = 0};
    for (int i = 0; i < (int)COUNT(files) * 4 && test_failures == 0; i++) {
        generation_job job = {.tp = i % 4 == 3 ? 4 : 1 + i % 2,
                              .fused = i / 2 % 2,
                              .seed = 1,
                              .batch = i % 2 ? 3 : 1,
                              .prompt = 5,
                              .new_tokens = 4};
        read_file(&job.config, files[i / 4].type, SHAPE, files[i / 4].more);
        if (job.fused && job.config.attention_cap > 0) continue; /* never fused */
        CHECK_MSG(new_trace_everywhere(&seen, job.tp, generation_rank, &job, &job.seed), "case %d",
                  i);
    }
}

/* Writes a configuration and reads it again. */
static void check_written(const syn_model_config *c, const char *what) {
    syn_model_config again;
    syn_error err = {0};
    const char *path = in_folder("config.json");
    CHECK_OK(syn_model_config_save(c, 0, path, &err), err);
    CHECK_OK(syn_model_config_load(&again, path, &err), err);
    CHECK_MSG(config_same(c, &again), "%s", what);
    CHECK_MSG(syn_model_config_hash(c, 1) == syn_model_config_hash(&again, 1), "%s", what);
}

/* The parameter counts of the released checkpoints, which transformers' models have, too. */
static void presets_have_their_sizes(void) {
    static const struct {
        const char *name;
        int64_t params;
    } known[] = {
        {"starcoder2-3b", 3030371328},  {"starcoder2-7b", 7173923840},
        {"phi-3-mini-4k", 3821079552},  {"phi-3-medium-4k", 13960238080},
        {"phi-4", 14659507200},         {"olmo-2-1b", 1484916736},
        {"olmo-2-7b", 7298617344},      {"olmo-2-13b", 13716198400},
        {"olmo-2-32b", 32234279936},    {"granite-3.3-2b", 2533539840},
        {"granite-3.3-8b", 8170864640}, {"smollm3-3b", 3075098624},
        {"gemma-2-2b", 2614341888},     {"gemma-2-9b", 9241705984},
        {"gemma-2-27b", 27227128320},   {"gemma-3-270m", 268098176},
        {"gemma-3-1b", 999885952},      {"gemma-3-4b", 3880263168},
        {"gemma-3-12b", 11766034176},   {"gemma-3-27b", 27009346304},
    };
    for (size_t i = 0; i < COUNT(known); i++) {
        syn_model_config c;
        syn_error err = {0};
        CHECK_OK(syn_model_config_preset(&c, known[i].name, &err), err);
        CHECK_INT(syn_model_config_params(&c, 0), known[i].params);
        CHECK_OK(syn_model_config_check(&c, 2, &err), err);
        /* A file without this length gets the number of positions. */
        c.rotary.original = c.n_positions;
        if (c.local_rotary.theta > 0) c.local_rotary.original = c.n_positions;
        check_written(&c, known[i].name);
    }
}

/* Keys that a file does not have get the defaults of transformers' configuration classes. */
static void absent_keys_have_the_defaults_of_transformers(void) {
    static const char shape[] =
        "\"num_hidden_layers\": 2, \"hidden_size\": 128, \"num_attention_heads\": 64, "
        "\"intermediate_size\": 40, \"vocab_size\": 200000";
    static const struct {
        const char *type;
        int64_t keys, depth, positions, window, end, begin, fill;
        double theta, epsilon, std;
        bool tied;
    } rows[] = {
        {"starcoder2", 2, 2, 4096, 0, 50256, 50256, 50256, 1e4, 1e-5, 0.018042, true},
        {"phi3", 64, 2, 4096, 0, 32000, 1, 32000, 1e4, 1e-5, 0.02, false},
        {"olmo2", 64, 2, 2048, 0, 50279, -1, 1, 1e4, 1e-5, 0.02, false},
        {"granite", 64, 2, 2048, 0, 2, 1, 2, 1e4, 1e-6, 0.02, false},
        {"smollm3", 4, 2, 32768, 0, 128001, 128000, 128004, 2e6, 1e-6, 0.02, true},
        {"gemma2", 4, 256, 8192, 4096, 1, 2, 0, 1e4, 1e-6, 0.02, true},
        {"gemma3_text", 4, 256, 131072, 4096, 1, 2, 0, 1e6, 1e-6, 0.02, true},
        {"gpt_oss", 8, 64, 131072, 128, 0, -1, 0, 150000, 1e-5, 0.02, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        syn_model_config c;
        read_file(&c, rows[i].type, shape, "");
        CHECK_INT(c.n_kv_head, rows[i].keys);
        CHECK_INT(c.head_dim, rows[i].depth);
        CHECK_INT(c.n_positions, rows[i].positions);
        CHECK_INT(c.windowed && c.window > 0 ? c.window : 0, rows[i].window);
        CHECK_INT(c.end.ids[0], rows[i].end);
        CHECK_INT(c.end.begin, rows[i].begin);
        CHECK_INT(c.end.fill, rows[i].fill);
        CHECK(c.rotary.theta == rows[i].theta && c.norm_epsilon == rows[i].epsilon);
        CHECK(c.initializer_range == rows[i].std && c.tied == rows[i].tied);
    }
}

static void refuses_what_it_does_not_know(void) {
    static const struct {
        const char *type, *more, *says;
    } rows[] = {
        {"starcoder2", "\"hidden_act\": \"tanh\"", "\"hidden_act\" must be gelu_new"},
        {"starcoder2", "\"mlp_bias\": true", "unknown key \"mlp_bias\""},
        {"starcoder2", "\"sliding_window\": 0", "\"sliding_window\" must be"},
        {"starcoder2",
         "\"layer_types\": [\"full_attention\", \"sliding_attention\", \"sliding_attention\"]",
         "all layers of this StarCoder2 must have full attention"},
        {"phi3", "\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 1, 1, 1]}",
         "\"longrope\" needs \"short_factor\" and \"long_factor\" of 4 numbers each"},
        {"phi3", "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2}", "\"longrope\" needs"},
        {"phi3", "\"rope_scaling\": {\"type\": \"longrope\", \"long_factor\": [0]}",
         "must be a list of up to 64 numbers from 1e-6 to 1e6"},
        {"phi3", "\"rope_scaling\": {\"type\": \"llama3\"}", "must be default, longrope"},
        {"phi3", "\"attention_bias\": true", "unknown key \"attention_bias\""},
        {"olmo2", "\"clip_qkv\": 8", "unknown key \"clip_qkv\""},
        {"olmo2", "\"mlp_bias\": true", "unknown key \"mlp_bias\""},
        {"gemma2", "\"final_logit_softcapping\": 0", "must be a number from 0.001"},
        {"gemma2", "\"sliding_window\": null", "layers with \"sliding_attention\" need a"},
        {"gemma2", "\"hidden_activation\": \"silu\"", "\"hidden_activation\" must be gelu"},
        {"gemma2", "\"use_bidirectional_attention\": true", "\"use_bidirectional_attention\" must"},
        {"gemma2", "\"sliding_window_pattern\": 3", "unknown key \"sliding_window_pattern\""},
        {"gemma3_text", "\"attn_logit_softcapping\": 3", "unknown key \"attn_logit_softcapping\""},
        {"gemma3_text", "\"rope_parameters\": {\"rope_type\": \"default\"}",
         "unknown key \"rope_type\" in \"rope_parameters\""},
        {"gemma3_text",
         "\"rope_parameters\": {\"sliding_attention\": {\"rope_type\": \"dynamic\", "
         "\"factor\": 2}}",
         "cannot have \"dynamic\" scaling"},
        {"gpt_oss", "\"quantization_config\": {\"quant_method\": \"awq\"}",
         "\"quantization_config\": quantized weights are not supported, except for \"fp8\" in "
         "blocks of 128 x 128 and \"mxfp4\""},
        {"gpt_oss", "\"quantization_config\": {\"bits\": 4}", "are not supported"},
        {"gpt_oss", "\"quantization_config\": true", "are not supported"},
        {"gemma2", "\"quantization_config\": {\"quant_method\": \"mxfp4\"}", "are not supported"},
        {"gemma2",
         "\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [64, 128]}",
         "are not supported"},
        {"gpt_oss", "\"swiglu_limit\": 0", "\"swiglu_limit\" must be"},
        {"gpt_oss", "\"sliding_window\": null", "layers with \"sliding_attention\" need a"},
        {"gpt_oss", "\"hidden_act\": \"gelu\"", "\"hidden_act\" must be \"silu\""},
        {"granite", "\"logits_scaling\": 0", "\"logits_scaling\" must be"},
        {"granite", "\"logit_scale\": 2", "unknown key \"logit_scale\""},
        {"smollm3", "\"no_rope_layers\": [0, 1]", "\"no_rope_layers\" has 2 entries for 3 layers"},
        {"smollm3", "\"no_rope_layers\": [\"x\"]", "must be a list of numbers, one for each layer"},
        {"smollm3", "\"no_rope_layers\": 3", "\"no_rope_layers\" must be a list or null"},
        {"smollm3", "\"layer_types\": [\"full_attention\"]", "has 1 entries for 3 layers"},
        {"smollm3", "\"layer_types\": [\"chunked_attention\"]",
         "must be a list of \"full_attention\""},
        {"smollm3", "\"layer_types\": {}", "\"layer_types\" must be a list or null"},
        {"smollm3",
         "\"layer_types\": [\"full_attention\", \"sliding_attention\", "
         "\"full_attention\"]",
         "need a \"sliding_window\""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char json[900];
        syn_model_config c;
        syn_error err = {0};
        snprintf(json, sizeof json, "{\"model_type\": \"%s\", " SHAPE ", %s}", rows[i].type,
                 rows[i].more);
        CHECK_MSG(config_parse(&c, json, &err) != SYN_OK, "%s", json);
        CHECK_MSG(strstr(err.text, rows[i].says), "%s: %s", json, err.text);
    }
}

/* A file that was read is written with the same values, and each file has another hash. */
static void files_are_written_as_they_were_read(void) {
    for (size_t i = 0; i < COUNT(files); i++) {
        syn_model_config c, other;
        read_file(&c, files[i].type, SHAPE, files[i].more);
        check_written(&c, files[i].more);
        for (size_t k = 0; k < i; k++) {
            read_file(&other, files[k].type, SHAPE, files[k].more);
            CHECK(syn_model_config_hash(&other, 1) != syn_model_config_hash(&c, 1));
        }
    }
}

/* transformers rejects an integer as cap or limit, and would use its own padding id if the file had
 * none. */
static void files_suit_transformers(void) {
    syn_model_config c;
    syn_error err = {0};
    const char *path = in_folder("config.json");
    read_file(&c, "gemma2", SHAPE,
              "\"final_logit_softcapping\": 3, \"attn_logit_softcapping\": 0.5, "
              "\"pad_token_id\": null, \"eos_token_id\": null");
    CHECK_OK(syn_model_config_save(&c, 0, path, &err), err);
    CHECK_HAS(file_text(path), "\"final_logit_softcapping\": 3.0,");
    CHECK_HAS(file_text(path), "\"attn_logit_softcapping\": 0.5");
    CHECK_HAS(file_text(path), "\"pad_token_id\": null");
    CHECK_HAS(file_text(path), "\"layer_types\": [\"sliding_attention\", \"full_attention\", ");
    read_file(&c, "gpt_oss", SHAPE, "\"swiglu_limit\": 7, \"router_aux_loss_coef\": 0");
    CHECK_OK(syn_model_config_save(&c, 0, path, &err), err);
    CHECK_HAS(file_text(path), "\"swiglu_limit\": 7.0");
    CHECK_HAS(file_text(path), "\"swiglu_alpha\": 1.702");
    CHECK_HAS(file_text(path), "\"router_aux_loss_coef\": 0.0");
}

static void distilbert(void) {
    static const char keys[] = "\"n_layers\": 2, \"dim\": 24, \"n_heads\": 4, \"hidden_dim\": 40, "
                               "\"vocab_size\": 61";
    syn_model_config c, other;
    syn_error err = {0};
    CHECK_OK(syn_model_config_preset(&c, "distilbert-base-uncased", &err), err);
    CHECK_INT(syn_model_config_params(&c, 0), 66362880);
    CHECK_INT(syn_model_config_params(&c, SYN_BERT_MLM), 66985530);
    CHECK_OK(syn_model_config_preset(&c, "distilbert-base-cased", &err), err);
    CHECK_INT(syn_model_config_params(&c, SYN_BERT_MLM), 65812036);
    read_file(&c, "distilbert", keys, "\"pad_token_id\": null, \"attention_dropout\": 0.5");
    CHECK(c.dropout.attention == 0.5 && c.dropout.embedding == 0.1 && c.pad_id == -1 && c.tied);
    check_written(&c, "distilbert");
    /* Other names of the same keys. */
    read_file(&other, "distilbert",
              "\"num_hidden_layers\": 2, \"hidden_size\": 24, \"num_attention_heads\": 4, "
              "\"hidden_dim\": 40, \"vocab_size\": 61",
              "\"pad_token_id\": null, \"attention_dropout\": 0.5");
    CHECK(syn_model_config_hash(&c, 1) == syn_model_config_hash(&other, 1));
    CHECK(config_parse(&c,
                       "{\"model_type\": \"distilbert\", \"sinusoidal_pos_embds\": true, "
                       "\"n_layers\": 2, \"dim\": 24, \"n_heads\": 4, \"hidden_dim\": 40, "
                       "\"vocab_size\": 61}",
                       &err) != SYN_OK);
    CHECK_HAS(err.text, "\"sinusoidal_pos_embds\" must be false");
}

static void roberta(void) {
    static const char keys[] = "\"num_hidden_layers\": 2, \"hidden_size\": 24, "
                               "\"num_attention_heads\": 4, \"intermediate_size\": 40, "
                               "\"vocab_size\": 61";
    syn_model_config c;
    syn_error err = {0};
    CHECK_OK(syn_model_config_preset(&c, "roberta-base", &err), err);
    CHECK_INT(syn_model_config_params(&c, SYN_BERT_POOLER), 124645632);
    CHECK_INT(syn_model_config_params(&c, SYN_BERT_MLM), 124697433);
    check_written(&c, "roberta-base");
    CHECK_OK(syn_model_config_preset(&c, "roberta-large", &err), err);
    CHECK_INT(syn_model_config_params(&c, SYN_BERT_POOLER), 355359744);
    CHECK_INT(syn_model_config_params(&c, SYN_BERT_MLM), 355412057);
    read_file(&c, "roberta", keys, "");
    CHECK(c.n_positions == 510 && c.first_position == 2 && c.pad_id == 1 && c.n_types == 2);
    CHECK(c.norm_epsilon == 1e-12 && c.dropout.embedding == 0.1 && c.tied);
    read_file(&c, "roberta", keys, "\"pad_token_id\": 7, \"max_position_embeddings\": 9");
    CHECK(c.n_positions == 1 && c.first_position == 8);
    check_written(&c, "roberta");
    CHECK(config_parse(&c,
                       "{\"model_type\": \"roberta\", \"max_position_embeddings\": 2, "
                       "\"num_hidden_layers\": 2, \"hidden_size\": 24, "
                       "\"num_attention_heads\": 4, \"intermediate_size\": 40, "
                       "\"vocab_size\": 61}",
                       &err) != SYN_OK);
    CHECK_HAS(err.text, "\"max_position_embeddings\" 2 must be above 2");
}

static void opt(void) {
    static const char keys[] = "\"num_hidden_layers\": 2, \"hidden_size\": 24, "
                               "\"num_attention_heads\": 4, \"ffn_dim\": 40, "
                               "\"vocab_size\": 61";
    static const struct {
        const char *name;
        int64_t params;
    } known[] = {{"opt-125m", 125239296},  {"opt-1.3b", 1315758080},  {"opt-2.7b", 2651596800},
                 {"opt-6.7b", 6658473984}, {"opt-13b", 12853473280},  {"opt-30b", 29974540288},
                 {"opt-66b", 65719701504}, {"opt-175b", 174604468224}};
    static const char *const refused[][2] = {
        {"\"word_embed_proj_dim\": 12", "\"word_embed_proj_dim\" 12 differs from"},
        {"\"do_layer_norm_before\": false", "\"do_layer_norm_before\" must be true"},
        {"\"layer_norm_elementwise_affine\": false", "must be true"},
        {"\"layerdrop\": 0.1", "\"layerdrop\" must be null"},
        {"\"_remove_final_layer_norm\": true", "\"_remove_final_layer_norm\" must be false"}};
    syn_model_config c;
    syn_error err = {0};
    for (size_t i = 0; i < COUNT(known); i++) {
        CHECK_OK(syn_model_config_preset(&c, known[i].name, &err), err);
        CHECK_INT(syn_model_config_params(&c, 0), known[i].params);
        check_written(&c, known[i].name);
    }
    read_file(&c, "opt", keys, "\"layerdrop\": 0.0, \"word_embed_proj_dim\": 24");
    CHECK(c.n_positions == 2048 && c.first_position == 2 && c.activation == SYN_RELU && c.tied);
    CHECK(c.dropout.residual == 0.1 && c.dropout.attention == 0 && c.dropout.embedding == 0);
    CHECK(c.end.ids[0] == 2 && c.end.begin == 2 && c.end.fill == 1 && c.mlp_bias);
    read_file(&c, "opt", keys, "\"enable_bias\": false, \"activation_function\": \"gelu\"");
    CHECK(!c.attention_bias && !c.mlp_bias && c.activation == SYN_GELU_ERF);
    check_written(&c, "opt");
    for (size_t i = 0; i < COUNT(refused); i++) {
        char json[400];
        snprintf(json, sizeof json, "{\"model_type\": \"opt\", %s, %s}", keys, refused[i][0]);
        CHECK_MSG(config_parse(&c, json, &err) != SYN_OK, "%s", json);
        CHECK_HAS(err.text, refused[i][1]);
    }
}

static const test_case cases[] = {
    {"one_trace_on_every_device_and_communicator", one_trace_on_every_device_and_communicator},
    {"presets_have_their_sizes", presets_have_their_sizes},
    {"absent_keys_have_the_defaults_of_transformers",
     absent_keys_have_the_defaults_of_transformers},
    {"refuses_what_it_does_not_know", refuses_what_it_does_not_know},
    {"files_are_written_as_they_were_read", files_are_written_as_they_were_read},
    {"files_suit_transformers", files_suit_transformers},
    {"distilbert", distilbert},
    {"roberta", roberta},
    {"opt", opt},
};
TEST_MAIN(cases)
