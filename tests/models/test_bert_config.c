/* Tests configurations of BERT: presets, HuggingFace's files, rejected files, and values derived
   from the configuration. Parameter counts are those of transformers. */
#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"
#include "tests/support/config_text.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include "models/bert.h"

/* The config.json of bert-base-uncased on HuggingFace's hub, including keys that the reader
   ignores. */
static const char *const hub_file =
    "{\"architectures\": [\"BertForMaskedLM\"], \"attention_probs_dropout_prob\": 0.1,\n"
    " \"gradient_checkpointing\": false, \"hidden_act\": \"gelu\", \"hidden_dropout_prob\": 0.1,\n"
    " \"hidden_size\": 768, \"initializer_range\": 0.02, \"intermediate_size\": 3072,\n"
    " \"layer_norm_eps\": 1e-12, \"max_position_embeddings\": 512, \"model_type\": \"bert\",\n"
    " \"num_attention_heads\": 12, \"num_hidden_layers\": 12, \"pad_token_id\": 0,\n"
    " \"position_embedding_type\": \"absolute\", \"transformers_version\": \"4.6.0.dev0\",\n"
    " \"type_vocab_size\": 2, \"use_cache\": true, \"vocab_size\": 30522}";

static const char *const odd_file =
    "{\"model_type\":\"bert\",\"num_hidden_layers\":3,\"hidden_size\":64,\"num_attention_heads\":4,"
    "\"max_position_embeddings\":32,\"intermediate_size\":96,\"vocab_size\":300,\"hidden_act\":"
    "\"gelu_new\",\"type_vocab_size\":3,\"layer_norm_eps\":1e-5,\"initializer_range\":0.5,"
    "\"hidden_dropout_prob\":0.3,\"attention_probs_dropout_prob\":0,"
    "\"pad_token_id\":7,\"is_decoder\":false,\"add_cross_attention\":false,"
    "\"tie_word_embeddings\":true,\"_name_or_path\":\"/models/my-bert/\"}";

static const char *const small_file =
    "{\"num_hidden_layers\":2,\"hidden_size\":64,\"num_attention_heads\":4,"
    "\"max_position_embeddings\":16,\"intermediate_size\":96,\"vocab_size\":100,"
    "\"model_type\":\"bert\"}";

static const char *small_with(const char *from, const char *to) {
    return config_with(small_file, from, to);
}

/* ---- What is read ---- */

static void hub_file_is_the_preset(void) {
    syn_model_config file, preset;
    syn_error err;
    CHECK_OK(config_parse_as(&file, "models/bert-base-uncased/config.json", hub_file, &err), err);
    CHECK_OK(syn_model_config_preset(&preset, "bert-base-uncased", &err), err);
    CHECK_STR(preset.name, "bert-base-uncased");
    CHECK(config_same(&file, &preset));
}

/* BertConfig uses hidden_act and ignores activation_function. GPT-2's configuration does the
   opposite. */
static void activation_function_is_ignored(void) {
    syn_model_config c;
    syn_error err = {0};
    CHECK_OK(config_parse(&c, small_with("{", "{\"activation_function\":\"gelu_new\","), &err),
             err);
    CHECK_INT(c.activation, SYN_GELU_ERF);
    CHECK_OK(config_parse(&c,
                          small_with("{", "{\"hidden_act\":\"gelu_new\","
                                          "\"activation_function\":\"tanh\","),
                          &err),
             err);
    CHECK_INT(c.activation, SYN_GELU_TANH);
}

static void absent_keys_have_the_defaults_of_transformers(void) {
    syn_model_config c;
    syn_error err;
    CHECK_OK(config_parse(&c, small_with("\"max_position_embeddings\":16,", ""), &err), err);
    CHECK_INT(c.n_positions, 512);
    CHECK_INT(c.n_types, 2);
    CHECK_INT(c.pad_id, 0);
    CHECK_INT(c.activation, SYN_GELU_ERF);
    CHECK(c.norm_epsilon == 1e-12 && c.initializer_range == 0.02 && c.tied);
}

static void every_key(void) {
    syn_model_config c;
    syn_error err;
    CHECK_OK(config_parse(&c, odd_file, &err), err);
    CHECK_STR(c.name, "my-bert");
    CHECK_INT(c.n_layer, 3);
    CHECK_INT(c.n_embd, 64);
    CHECK_INT(c.n_head, 4);
    CHECK_INT(c.n_positions, 32);
    CHECK_INT(c.n_inner, 96);
    CHECK_INT(c.vocab_size, 300);
    CHECK_INT(c.n_types, 3);
    CHECK_INT(c.pad_id, 7);
    CHECK_NEAR(c.norm_epsilon, 1e-5, 0);
    CHECK_NEAR(c.initializer_range, 0.5, 0);
    CHECK_INT(c.activation, SYN_GELU_TANH);
}

static void defaults(void) {
    syn_model_config c;
    syn_error err;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(
            config_parse(&c,
                         i == 0 ? small_file
                                : small_with("{", "{\"pad_token_id\":null,\"type_vocab_size\":null,"
                                                  "\"layer_norm_eps\":null,"),
                         &err),
            err);
        CHECK_STR(c.name, "m");
        CHECK_INT(c.n_types, 2);
        CHECK_INT(c.pad_id, i == 0 ? 0 : -1);
        CHECK_NEAR(c.norm_epsilon, 1e-12, 0);
        CHECK_NEAR(c.initializer_range, 0.02, 0);
        CHECK(c.activation == SYN_GELU_ERF && c.tied);
    }
    CHECK_OK(config_parse_as(&c, "//", small_file, &err), err);
    CHECK_STR(c.name, "bert");
    CHECK_OK(config_parse(&c, small_with("{", "{\"_name_or_path\":null,"), &err), err);
    CHECK_STR(c.name, "m");
}

/* An untied head has a separate matrix. */
static void untied_heads(void) {
    syn_model_config tied, untied;
    syn_error err;
    CHECK_OK(config_parse(&tied, small_file, &err), err);
    CHECK_OK(config_parse(&untied, small_with("{", "{\"tie_word_embeddings\":false,"), &err), err);
    CHECK(!untied.tied);
    CHECK_INT(syn_model_config_params(&untied, SYN_BERT_MLM) -
                  syn_model_config_params(&tied, SYN_BERT_MLM),
              tied.vocab_size * tied.n_embd);
    CHECK_INT(syn_model_config_params(&untied, 0), syn_model_config_params(&tied, 0));
}

/* A written configuration is the same after it is read again, also if its name needs JSON
   escapes. */
static void saved_files_are_read_again(void) {
    const char *path = in_folder("config.json");
    syn_model_config c, again;
    syn_error err = {0};
    for (int i = 0; i < 3; i++) {
        if (i == 0) CHECK_OK(syn_model_config_preset(&c, "bert-large-cased", &err), err);
        else CHECK_OK(config_parse(&c, odd_file, &err), err);
        if (i == 2) {
            snprintf(c.name, sizeof c.name, "a \"quoted\" \\ name");
            c.initializer_range = 0.1 + 0.2;
            c.activation = SYN_GELU_ERF;
            c.pad_id = -1;
        }
        CHECK_OK(syn_model_config_save(&c, SYN_BERT_MLM, path, &err), err);
        CHECK_OK(syn_model_config_load(&again, path, &err), err);
        CHECK(config_same(&c, &again));
        CHECK_INT(again.pad_id, i == 2 ? -1 : i == 1 ? 7 : 0);
    }
    char *text; /* the text of the last file written */
    size_t bytes;
    CHECK_OK(syn_read_file(path, 65536, &text, &bytes, &err), err);
    CHECK_HAS(text, "\"pad_token_id\": null");
    syn_free(text);
    CHECK_INT(syn_model_config_save(&c, SYN_BERT_MLM, "/nowhere/config.json", &err), SYN_E_IO);
    CHECK_HAS(err.text, "/nowhere");
}

/* ---- Bad files ---- */

static void refuses_bad_files(void) {
    static const config_refusal bad[] = {
        {"\"num_hidden_layers\":2", "\"num_hidden_layers\":1000000000", "m.json:1:22: ",
         "\"num_hidden_layers\" must be an integer from 1 to 100000, not 1000000000"},
        {"\"num_hidden_layers\":2", "\"num_hidden_layers\":0", "m.json:1:22: ", "not 0"},
        {"\"num_hidden_layers\":2", "\"num_hidden_layers\":\"2\"", "m.json:1:22: ", "not \"2\""},
        {"\"num_hidden_layers\":2,", "", "", "lacks \"num_hidden_layers\""},
        {",\"vocab_size\":100", "", "", "lacks \"vocab_size\""},
        {"\"intermediate_size\":96,", "", "", "lacks \"intermediate_size\""},
        {"\"hidden_size\":64", "\"hidden_size\":64,\"hidden_size\":64", "",
         "\"hidden_size\" appears twice"},
        {"\"num_attention_heads\":4", "\"num_attention_heads\":5",
         "m.json:1:63: ", "\"num_attention_heads\" 5 does not divide \"hidden_size\" 64"},
        {"\"hidden_size\":64", "\"hidden_size\":262148", "", "from 1 to 262144"},
        {"{", "{\"pad_token_id\":100,",
         "m.json:1:17: ", "\"pad_token_id\" 100 is outside a vocabulary of 100 (\"vocab_size\")"},
        {"{", "{\"pad_token_id\":-1,", "", "\"pad_token_id\""},
        {"{", "{\"type_vocab_size\":0,", "", "\"type_vocab_size\" must be an integer from 1"},
        {"{", "{\"hidden_act\":\"tanh\",", "m.json:1:15: ", "not \"tanh\""},
        {"{", "{\"hidden_act\":1,", "m.json:1:15: ", "must be a string"},
        {"{", "{\"layer_norm_eps\":1,", "", "\"layer_norm_eps\" must be a number from 0 to"},
        {"{", "{\"initializer_range\":\"big\",", "", "not \"big\""},
        {"{", "{\"model_type\":\"electra\",", "m.json:1:15: ",
         "\"model_type\" is \"electra\", but only \"gpt2\", \"gpt3\", \"bert\", \"llama\""},
        {"{", "{\"position_embedding_type\":\"relative_key\",",
         "m.json:1:28: ", "\"position_embedding_type\" must be \"absolute\", not \"relative_key\""},
        {"{", "{\"position_embedding_type\":null,", "", "must be a string"},
        {"{", "{\"is_decoder\":true,", "m.json:1:15: ", "\"is_decoder\" must be false"},
        {"{", "{\"add_cross_attention\":true,", "", "\"add_cross_attention\" must be false"},
        {"{", "{\"is_encoder_decoder\":1,", "", "\"is_encoder_decoder\" must be false"},
        {"{", "{\"tie_word_embeddings\":0,", "", "\"tie_word_embeddings\" must be true or false"},
        {"{", "{\"_name_or_path\":7,", "", "\"_name_or_path\" must be a string or null"},
        {"{", "[", "m.json:1:1: ", ""},
    };
    config_check_refused(small_file, bad, sizeof bad / sizeof bad[0]);
}

static void refuses_every_cut(void) {
    config_check_cuts(hub_file);
}

static void survives_allocation_failures(void) {
    config_check_without_memory(hub_file);
}

/* ---- What follows from the numbers ---- */

/* Parameter counts of transformers 4.57.6 for five classes: BertModel with and without pooler,
   BertForMaskedLM, BertForNextSentencePrediction, BertForPreTraining. */
static void parameter_counts(void) {
    static const unsigned heads[5] = {0, SYN_BERT_POOLER, SYN_BERT_MLM, SYN_BERT_NSP,
                                      SYN_BERT_POOLER | SYN_BERT_MLM | SYN_BERT_NSP};
    static const struct {
        const char *name;
        int64_t params[5];
    } models[] = {
        {"bert-base-uncased", {108891648, 109482240, 109514298, 109483778, 110106428}},
        {"bert-base-cased", {107719680, 108310272, 108340804, 108311810, 108932934}},
        {"bert-large-uncased", {334092288, 335141888, 335174458, 335143938, 336226108}},
        {"bert-large-cased", {332529664, 333579264, 333610308, 333581314, 334661958}},
        {NULL, {109600, 113760, 114188, 113890, 118478}}, /* the file with unusual sizes */
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        syn_model_config c;
        syn_error err = {0};
        if (models[i].name) CHECK_OK(syn_model_config_preset(&c, models[i].name, &err), err);
        else CHECK_OK(config_parse(&c, odd_file, &err), err);
        for (int k = 0; k < 5; k++)
            CHECK_INT(syn_model_config_params(&c, heads[k]), models[i].params[k]);
    }
}

static void presets_are_consistent(void) {
    size_t n = 0;
    for (size_t i = 0; syn_model_preset(i); i++) {
        const char *name = syn_model_preset(i);
        syn_model_config c;
        syn_error err = {0};
        CHECK_OK(syn_model_config_preset(&c, name, &err), err);
        if (c.family != &syn_bert_family) continue;
        n++;
        CHECK_STR(c.name, name);
        CHECK_OK(syn_model_config_check(&c, 1, &err), err);
        CHECK_INT(c.vocab_size, strstr(name, "uncased") ? 30522 : 28996);
        CHECK_INT(c.n_embd, 64 * c.n_head);
        CHECK_INT(c.n_inner, 4 * c.n_embd);
        CHECK_INT(c.n_positions, 512);
        CHECK_INT(c.n_types, 2);
        CHECK_INT(c.pad_id, 0);
        CHECK_INT(c.activation, SYN_GELU_ERF);
    }
    CHECK_INT(n, 4);
}

static void cuts_for_ranks(void) {
    syn_model_config c;
    syn_error err = {0}, types = {0}, layers = {0};
    config_check_ranks("bert-base-uncased");
    CHECK_OK(syn_model_config_preset(&c, "bert-base-uncased", &err), err);
    c.n_types = 0;
    CHECK_INT(syn_model_config_check(&c, 1, &types), SYN_E_INVALID);
    CHECK_HAS(types.text, "bert-base-uncased: the number of token types must be at least 1, not 0");
    c.n_layer = 0;
    CHECK_INT(syn_model_config_check(&c, 1, &layers), SYN_E_INVALID);
    CHECK_HAS(layers.text, "layers 0");
}

static void padded_vocabularies(void) {
    syn_model_config c;
    syn_error err = {0};
    CHECK_OK(syn_model_config_preset(&c, "bert-base-uncased", &err), err);
    CHECK_INT(syn_model_padded_vocab(&c, 1, 1), 30522);
    CHECK_INT(syn_model_padded_vocab(&c, 2, 1), 30522);
    CHECK_INT(syn_model_padded_vocab(&c, 4, 1), 30524);
    CHECK_INT(syn_model_padded_vocab(&c, 1, 128), 30592);
    CHECK_INT(syn_model_padded_vocab(&c, 8, 128), 30720);
}

static void tiny_example(void) {
    syn_model_config c;
    syn_error err = {0};
    CHECK_OK(syn_model_config_load(&c, source_path("examples/configs/bert-tiny.json"), &err), err);
    CHECK_STR(c.name, "bert-tiny");
    CHECK_INT(syn_model_config_params(&c, 0),
              2 * (12 * 128 * 128 + 13 * 128) + (30522 + 512 + 2) * 128 + 2 * 128);
    for (int tp = 1; tp <= 8; tp *= 2) CHECK_OK(syn_model_config_check(&c, tp, &err), err);
}

static const test_case cases[] = {
    {"hub_file_is_the_preset", hub_file_is_the_preset},
    {"every_key", every_key},
    {"activation_function_is_ignored", activation_function_is_ignored},
    {"absent_keys_have_the_defaults_of_transformers",
     absent_keys_have_the_defaults_of_transformers},
    {"untied heads", untied_heads},
    {"defaults", defaults},
    {"saved_files_are_read_again", saved_files_are_read_again},
    {"refuses_bad_files", refuses_bad_files},
    {"refuses_every_cut", refuses_every_cut},
    {"survives_allocation_failures", survives_allocation_failures},
    {"parameter_counts", parameter_counts},
    {"presets_are_consistent", presets_are_consistent},
    {"cuts_for_ranks", cuts_for_ranks},
    {"padded_vocabularies", padded_vocabularies},
    {"tiny_example", tiny_example},
};
TEST_MAIN(cases)
