/* Tests configurations of GPT: presets, HuggingFace's files, rejected files, and values derived
   from the configuration, which are compared with published ones. */
#include "tests/support/config_text.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include "models/family_private.h"

/* The config.json of the released GPT-2, including keys that the reader ignores. */
static const char *const gpt2_file =
    "{\"activation_function\": \"gelu_new\", \"architectures\": [\"GPT2LMHeadModel\"],\n"
    " \"attn_pdrop\": 0.1, \"bos_token_id\": 50256, \"eos_token_id\": 50256,\n"
    " \"initializer_range\": 0.02, \"layer_norm_epsilon\": 1e-05, \"model_type\": \"gpt2\",\n"
    " \"n_ctx\": 1024, \"n_embd\": 768, \"n_head\": 12, \"n_layer\": 12, \"n_positions\": 1024,\n"
    " \"task_specific_params\": {\"text-generation\": {\"do_sample\": true, \"max_length\": 50}},\n"
    " \"vocab_size\": 50257}";

static const char *const general_file =
    "{\"num_hidden_layers\":3,\"hidden_size\":64,\"num_attention_heads\":4,\"max_position_"
    "embeddings\":32,\n"
    " \"intermediate_size\":96,\"vocab_size\":300,\"activation_function\":\"gelu\",\"tie_word_"
    "embeddings\":"
    "false,\n"
    " \"layer_norm_eps\":1e-12,\"initializer_range\":0.5,\"_name_or_path\":\"/models/my-gpt/\"}";

static const char *const small_file =
    "{\"n_layer\":2,\"n_embd\":64,\"n_head\":4,\"n_positions\":16,\"vocab_size\":100}";

static const char *small_with(const char *from, const char *to) {
    return config_with(small_file, from, to);
}

/* ---- Accepted files ---- */

static void gpt2_file_is_the_preset(void) {
    syn_model_config file, preset;
    syn_error err;
    CHECK_OK(config_parse_as(&file, "models/gpt2/config.json", gpt2_file, &err), err);
    CHECK_OK(syn_model_config_preset(&preset, "gpt2", &err), err);
    CHECK_STR(file.name, "gpt2");
    CHECK_STR(preset.name, "gpt2");
    CHECK_INT(file.n_inner, 3072);
    CHECK(file.activation == SYN_GELU_TANH && file.tied);
    CHECK(config_same(&file, &preset));
}

static void general_names(void) {
    syn_model_config c;
    syn_error err;
    CHECK_OK(config_parse(&c, general_file, &err), err);
    CHECK_STR(c.name, "my-gpt");
    CHECK_INT(c.n_layer, 3);
    CHECK_INT(c.n_embd, 64);
    CHECK_INT(c.n_head, 4);
    CHECK_INT(c.n_positions, 32);
    CHECK_INT(c.n_inner, 96);
    CHECK_INT(c.vocab_size, 300);
    CHECK_INT(c.end.n_ids, 0);
    CHECK_NEAR(c.norm_epsilon, 1e-12, 0);
    CHECK_NEAR(c.initializer_range, 0.5, 0);
    CHECK(c.activation == SYN_GELU_ERF && !c.tied);
}

/* GPT2Config of transformers uses activation_function. For it, hidden_act is an unknown key whose
   value has no effect. */
static void hidden_act_is_ignored(void) {
    static const struct {
        const char *keys;
        syn_activation activation;
    } all[] = {{"{\"activation_function\":\"gelu\",\"hidden_act\":\"gelu_new\",", SYN_GELU_ERF},
               {"{\"hidden_act\":\"gelu\",\"activation_function\":\"gelu_new\",", SYN_GELU_TANH},
               {"{\"model_type\":\"gpt2\",\"hidden_act\":\"gelu\",", SYN_GELU_TANH},
               {"{\"hidden_act\":\"tanh\",", SYN_GELU_TANH}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        syn_model_config c;
        syn_error err = {0};
        CHECK_OK(config_parse(&c, small_with("{", all[i].keys), &err), err);
        CHECK_MSG(c.activation == all[i].activation, "%s", all[i].keys);
    }
}

static void defaults(void) {
    syn_model_config c;
    syn_error err;
    CHECK_OK(config_parse(&c, small_file, &err), err);
    CHECK_STR(c.name, "m");
    CHECK_INT(c.n_inner, 256);
    CHECK_INT(c.end.n_ids, 0);
    CHECK_NEAR(c.norm_epsilon, 1e-5, 0);
    CHECK_NEAR(c.initializer_range, 0.02, 0);
    CHECK(c.activation == SYN_GELU_TANH && c.tied);
    CHECK_OK(config_parse(
                 &c,
                 small_with("\"n_layer\"", "\"n_inner\":null,\"eos_token_id\":null,\"n_layer\""),
                 &err),
             err);
    CHECK_INT(c.n_inner, 256);
    CHECK_INT(c.end.n_ids, 0);
    /* A file may use both names of a setting if their values are equal. A key with the value null
       counts as missing. */
    CHECK_OK(
        config_parse(&c, small_with("\"n_positions\":16", "\"n_positions\":16,\"n_ctx\":16"), &err),
        err);
    CHECK_OK(config_parse(
                 &c,
                 small_with("\"n_embd\"", "\"intermediate_size\":8,\"n_inner\":null,\"n_embd\""),
                 &err),
             err);
    CHECK_INT(c.n_inner, 8);
}

/* Values that other programs accept must not be rejected: ids that never occur, an epsilon of 0,
   and another value for the old name of n_positions. */
static void harmless_values(void) {
    static const struct {
        const char *keys;
        int32_t n_ids, first, last, fill;
    } rows[] = {
        {"\"eos_token_id\":7,", 1, 7, 7, 7},
        {"\"eos_token_id\":[7,3],\"pad_token_id\":null,", 2, 7, 3, 7},
        {"\"eos_token_id\":[7,3],\"pad_token_id\":9,", 2, 7, 3, 9},
        {"\"eos_token_id\":[],", 0, 0, 0, 0},
        {"\"eos_token_id\":null,", 0, 0, 0, 0},
        {"\"eos_token_id\":100,", 0, 0, 0, 0},
        {"\"eos_token_id\":50256,\"pad_token_id\":50257,", 0, 0, 0, 0},
        {"\"eos_token_id\":-1,\"pad_token_id\":-1,", 0, 0, 0, 0},
        {"\"eos_token_id\":[50256,99,-5,0],", 2, 99, 0, 99},
        {"\"layer_norm_epsilon\":0,\"n_ctx\":4096,", 0, 0, 0, 0},
        {"\"layer_norm_epsilon\":0.0,\"n_ctx\":null,", 0, 0, 0, 0},
    };
    syn_model_config c;
    syn_error err;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char with[200];
        snprintf(with, sizeof with, "{%s", rows[i].keys);
        CHECK_OK(config_parse(&c, small_with("{", with), &err), err);
        CHECK_INT(c.n_positions, 16);
        CHECK_INT(c.end.n_ids, rows[i].n_ids);
        CHECK_INT(c.end.fill, rows[i].fill);
        if (c.end.n_ids == 0) continue;
        CHECK_INT(c.end.ids[0], rows[i].first);
        CHECK_INT(c.end.ids[c.end.n_ids - 1], rows[i].last);
        CHECK(syn_is_stop_token(&c.end, rows[i].last) && !syn_is_stop_token(&c.end, 42));
    }
    CHECK_OK(config_parse(&c, small_with("\"n_positions\":16,", ""), &err), err);
    CHECK_INT(c.n_positions, 1024); /* the default of GPT2Config */
    CHECK_OK(config_parse(&c, small_with("n_positions", "n_ctx"), &err), err);
    CHECK_INT(c.n_positions, 16);
}

static void names_of_models(void) {
    static const struct {
        const char *file, *name;
    } names[] = {{"a/b/tiny.json", "tiny"},
                 {"gpt2/config.json", "gpt2"},
                 {"config.json", "config"},
                 {"x/.json", ".json"},
                 {"//", "gpt"},
                 {"/config.json", "config"},
                 {"plain", "plain"},
                 {"new\nline.json", "new?line"}};
    syn_model_config c;
    syn_error err;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        CHECK_OK(config_parse_as(&c, names[i].file, small_file, &err), err);
        CHECK_STR(c.name, names[i].name);
    }
    char longest[200];
    memset(longest, 'n', sizeof longest);
    memcpy(longest + 61, "\xE2\x82\xAC",
           3); /* truncation would end at byte 64 of this name, so the name is omitted */
    longest[199] = '\0';
    CHECK_OK(config_parse_as(&c, longest, small_file, &err), err);
    CHECK_INT(strlen(c.name), 61);
    CHECK_OK(
        config_parse(&c, small_with("{", "{\"_name_or_path\":\"x/y\",\"name\":\"own\","), &err),
        err);
    CHECK_STR(c.name, "own");
    CHECK_OK(config_parse(&c, small_with("{", "{\"_name_or_path\":\"\","), &err), err);
    CHECK_STR(c.name, "m");
}

/* The dropout keys of each family. Keys that are missing in a file have the default values of
   transformers. */
static void dropout_rates(void) {
    static const struct {
        const char *type, *keys;
        syn_dropout_rates rates;
    } rows[] = {
        {"gpt2", "", {0.1, 0.1, 0.1}},
        {"gpt2", "\"attn_pdrop\":0,\"embd_pdrop\":0.25,\"resid_pdrop\":1,", {0.25, 0, 1}},
        {"gpt2", "\"attention_dropout\":0.5,", {0.1, 0.1, 0.1}}, /* this key belongs to Llama */
        {"bert", "", {0.1, 0.1, 0.1}},
        {"bert", "\"hidden_dropout_prob\":0,\"attention_probs_dropout_prob\":0.5,", {0, 0.5, 0}},
        {"llama", "", {0, 0, 0}},
        {"mistral", "\"attention_dropout\":0.5,\"resid_pdrop\":0.2,", {0, 0.5, 0}},
        {"qwen2", "\"attention_dropout\":0.25,", {0, 0.25, 0}},
        {"qwen3", "\"attention_dropout\":null,", {0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char json[400];
        syn_model_config c;
        syn_error err;
        snprintf(json, sizeof json,
                 "{\"model_type\":\"%s\",%s\"num_hidden_layers\":2,\"hidden_size\":64,"
                 "\"num_attention_heads\":8,\"num_key_value_heads\":8,"
                 "\"max_position_embeddings\":16,\"intermediate_size\":96,\"vocab_size\":100}",
                 rows[i].type, rows[i].keys);
        CHECK_OK(config_parse(&c, json, &err), err);
        CHECK_MSG(memcmp(&c.dropout, &rows[i].rates, sizeof c.dropout) == 0, "%s: %g %g %g", json,
                  c.dropout.embedding, c.dropout.attention, c.dropout.residual);
    }
}

/* Written files equal those that transformers writes, and are the same after they are read
   again. */
static void saved_files(void) {
    static const char *const endings[] = {
        "  \"bos_token_id\": null,\n  \"eos_token_id\": null\n}\n",
        "  \"bos_token_id\": 7,\n  \"eos_token_id\": 7\n}\n",
        "  \"bos_token_id\": 5,\n  \"eos_token_id\": [7, 9],\n  \"pad_token_id\": 3\n}\n"};
    static const syn_stop_criteria ends[] = {{{0}, 0, 0, -1}, {{7}, 1, 7, 7}, {{7, 9}, 2, 3, 5}};
    const char *path = in_folder("config.json");
    char want[900];
    syn_error err = {0};
    for (int i = 0; i < 3; i++) {
        syn_model_config c, again;
        CHECK_OK(config_parse(&c, general_file, &err), err);
        c.end = ends[i];
        c.activation = i ? SYN_GELU_TANH : SYN_GELU_ERF;
        c.dropout = (syn_dropout_rates){0, 0.25, 1};
        CHECK_OK(syn_model_config_save(&c, 0, path, &err), err);
        CHECK_OK(syn_model_config_load(&again, path, &err), err);
        snprintf(want, sizeof want,
                 "{\n  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"model_type\": \"gpt2\",\n"
                 "  \"_name_or_path\": \"my-gpt\",\n  \"n_layer\": 3,\n  \"n_embd\": 64,\n"
                 "  \"n_head\": 4,\n  \"n_positions\": 32,\n  \"n_inner\": 96,\n"
                 "  \"vocab_size\": 300,\n  \"layer_norm_epsilon\": 1e-12,\n"
                 "  \"initializer_range\": 0.5,\n  \"activation_function\": \"%s\",\n"
                 "  \"embd_pdrop\": 0,\n  \"attn_pdrop\": 0.25,\n  \"resid_pdrop\": 1,\n"
                 "  \"tie_word_embeddings\": false,\n%s",
                 i ? "gelu_new" : "gelu", endings[i]);
        CHECK_STR(file_text(path), want);
        CHECK(config_same(&c, &again));
        CHECK(syn_model_config_hash(&c, 1) == syn_model_config_hash(&again, 1));
    }
}

/* Every number of a file except dropout is part of the hash. The name is not part of it. */
static void hashes_distinguish_models(void) {
    static const char *const changes[][2] = {{"\"n_layer\":2", "\"n_layer\":3"},
                                             {"\"n_embd\":64", "\"n_embd\":128"},
                                             {"\"n_head\":4", "\"n_head\":8"},
                                             {"\"n_positions\":16", "\"n_positions\":17"},
                                             {"{", "{\"n_inner\":255,"},
                                             {"\"vocab_size\":100", "\"vocab_size\":101"},
                                             {"{", "{\"layer_norm_epsilon\":1e-6,"},
                                             {"{", "{\"initializer_range\":0.03,"},
                                             {"{", "{\"activation_function\":\"gelu\","},
                                             {"{", "{\"tie_word_embeddings\":false,"},
                                             {"{", "{\"eos_token_id\":1,"},
                                             {"{", "{\"pad_token_id\":2,"}};
    enum { N = sizeof changes / sizeof changes[0] };
    syn_model_config c;
    syn_error err;
    uint64_t hash[N + 1];
    CHECK_OK(config_parse(&c, small_file, &err), err);
    hash[N] = syn_model_config_hash(&c, 1);
    CHECK(hash[N] != syn_model_config_hash(&c, 2));
    CHECK_OK(config_parse_as(&c, "other.json", small_file, &err), err);
    CHECK(hash[N] == syn_model_config_hash(&c, 1));
    CHECK_OK(config_parse(&c, small_with("{", "{\"attn_pdrop\":0.5,"), &err), err);
    CHECK(hash[N] == syn_model_config_hash(&c, 1));
    for (int i = 0; i < N; i++) {
        CHECK_OK(config_parse(&c, small_with(changes[i][0], changes[i][1]), &err), err);
        hash[i] = syn_model_config_hash(&c, 1);
        for (int k = 0; k < i; k++) CHECK_MSG(hash[i] != hash[k], "%d and %d", i, k);
        CHECK_MSG(hash[i] != hash[N], "%s changes nothing", changes[i][1]);
    }
}

/* ---- Bad files ---- */

static void refuses_bad_files(void) {
    static const config_refusal bad[] = {
        {"\"n_layer\":2", "\"n_layer\":1000000000",
         "m.json:1:12: ", "\"n_layer\" must be an integer from 1 to 100000, not 1000000000"},
        {"\"n_layer\":2", "\"n_layer\":-2", "m.json:1:12: ", "not -2"},
        {"\"n_layer\":2", "\"n_layer\":0", "m.json:1:12: ", "not 0"},
        {"\"n_layer\":2", "\"n_layer\":2.5", "m.json:1:12: ", "not 2.5"},
        {"\"n_layer\":2", "\"n_layer\":\"2\"", "m.json:1:12: ", "not \"2\""},
        {"\"n_layer\":2", "\"n_layer\":null", "m.json:1:12: ", "not null"},
        {"\"n_layer\":2", "\"n_layer\":true", "m.json:1:12: ", "not true"},
        {"\"n_layer\":2", "\"n_layer\":[2]", "m.json:1:12: ", "not an array"},
        {"\"n_layer\":2", "\"n_layer\":{}", "m.json:1:12: ", "not an object"},
        {"\"n_layer\":2", "\"n_layer\":NaN", "m.json:1:12: ", "\"n_layer\""},
        {"\"n_layer\":2", "\"n_layer\":1e999", "m.json:1:12: ", "\"n_layer\""},
        {"\"n_layer\":2", "\"n_layer\":99999999999999999999999999",
         "m.json:1:12: ", "must be an integer"},
        {"\"n_layer\":2", "\"n_layer\":2,\"n_layer\":2",
         "m.json:1:14: ", "\"n_layer\" appears twice"},
        {"\"n_layer\":2,", "", "m.json:1:58: ", "lacks \"n_layer\" or \"num_hidden_layers\""},
        {",\"vocab_size\":100", "", "", "lacks \"vocab_size\""},
        {"\"n_layer\":2", "\"n_layer\":2,\"num_hidden_layers\":3", "",
         "\"num_hidden_layers\" contradicts its synonym \"n_layer\""},
        {"\"n_layer\":2", "\"num_hidden_layers\":3,\"n_layer\":2", "",
         "\"n_layer\" contradicts its synonym \"num_hidden_layers\""},
        {"\"n_positions\":16", "\"n_positions\":16,\"max_position_embeddings\":17", "",
         "\"max_position_embeddings\" contradicts its synonym \"n_positions\""},
        {"\"n_head\":4", "\"n_head\":5",
         "m.json:1:35: ", "\"n_head\" 5 does not divide \"n_embd\" 64"},
        {"\"n_head\":4", "\"num_attention_heads\":128",
         "m.json:1:48: ", "\"num_attention_heads\" 128 does not divide"},
        {"\"n_embd\":64", "\"n_embd\":262148", "",
         "\"n_embd\" must be an integer from 1 to 262144"},
        {"{", "{\"eos_token_id\":1.5,", "m.json:1:17: ", "\"eos_token_id\" must be an integer, a"},
        {"{", "{\"eos_token_id\":[1,true],", "", "\"eos_token_id\" must be an integer, a list"},
        {"{", "{\"eos_token_id\":[[1]],", "", "\"eos_token_id\" must be an integer, a list"},
        {"{", "{\"eos_token_id\":[1,", "", ""},
        {"{", "{\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17],", "",
         "\"eos_token_id\" lists more than 16 ids"},
        {"{", "{\"pad_token_id\":\"0\",", "", "\"pad_token_id\" must be an integer"},
        {"{", "{\"activation_function\":\"silu\",", "m.json:1:24: ", "not \"silu\""},
        {"{", "{\"activation_function\":1,", "m.json:1:24: ", "must be a string"},
        {"{", "{\"layer_norm_epsilon\":1,",
         "m.json:1:23: ", "\"layer_norm_epsilon\" must be a number from 0 to 0.1, not 1"},
        {"{", "{\"layer_norm_epsilon\":-1e-5,", "", "not -1e-5"},
        {"{", "{\"initializer_range\":\"big\",", "", "not \"big\""},
        {"{", "{\"tie_word_embeddings\":1,", "",
         "\"tie_word_embeddings\" must be true or false, not 1"},
        {"{", "{\"model_type\":\"mamba\",", "m.json:1:15: ",
         "\"model_type\" is \"mamba\", but only \"gpt2\", \"gpt3\", \"bert\", \"llama\""},
        /* this key is checked before all others */
        {"{", "{\"n_head\":-1,\"activation_function\":\"tanh\",\"model_type\":\"bloom\",",
         "m.json:1:", "\"model_type\" is \"bloom\", but only"},
        {"{", "{\"activation_function\":\"tanh\",\"model_type\":null,", "",
         "\"model_type\" must be"},
        {"{", "{\"quantization_config\":{\"bits\":4},", "", "quantized weights are not supported"},
        {"{", "{\"per_layer_config\":{\"0\":{}},", "", "\"per_layer_config\" must be null"},
        {"{", "{\"sliding_window\":4,", "", "\"sliding_window\" must be null"},
        {"{", "{\"is_causal\":false,", "", "\"is_causal\" must be true"},
        {"{", "{\"num_key_value_heads\":2,",
         "m.json:1:24: ", "\"num_key_value_heads\" 2 differs from \"n_head\" 4"},
        {"{", "{\"scale_attn_weights\":false,", "", "\"scale_attn_weights\" must be true"},
        {"{", "{\"add_cross_attention\":true,", "", "\"add_cross_attention\" must be false"},
        {"{", "{\"name\":7,", "", "\"name\" must be a string"},
        {"{", "{\"other\":[1,2,", "", ""},
        {"{", "{\"other\":tru,", "", "expected a value"},
        {"{", "[", "m.json:1:1: ", "the file must be an object, not an array"},
    };
    config_check_refused(small_file, bad, sizeof bad / sizeof bad[0]);
}

static void refuses_every_cut(void) {
    config_check_cuts(gpt2_file);
}

/* A million nested brackets under an ignored key must be rejected because of their depth, without
   deep recursion. */
static void refuses_nesting_bombs(void) {
    const size_t depth = 1000000;
    static const char open[] = "[{";
    for (int kind = 0; kind < 2; kind++) {
        syn_model_config c;
        syn_error err = {0};
        char *json = malloc(depth * 5 + 32);
        CHECK(json != NULL);
        size_t n = (size_t)sprintf(json, "{\"other\":");
        for (size_t i = 0; i < depth; i++) {
            json[n++] = open[kind];
            if (kind == 1) {
                memcpy(json + n, "\"a\":", 4);
                n += 4;
            }
        }
        const syn_status status = syn_model_config_parse(&c, "m.json", json, n, &err);
        free(json);
        CHECK_INT(status, SYN_E_FORMAT);
        CHECK_HAS(err.text, "nested more than");
    }
}

static void missing_files_and_models(void) {
    syn_model_config c;
    syn_error err = {0};
    CHECK_INT(syn_model_config_load(&c, "/nowhere/m.json", &err), SYN_E_IO);
    CHECK_HAS(err.text, "/nowhere/m.json");
    syn_error none = {0};
    CHECK_INT(syn_model_config_preset(&c, "gpt4\n", &none), SYN_E_INVALID);
    CHECK_HAS(none.text, "'gpt4?'");
    CHECK_HAS(none.text, "gpt2, gpt2-medium");
    CHECK_HAS(none.text, "megatron-1t");
    CHECK_HAS(none.text, "bert-base-uncased, ");
}

static void survives_allocation_failures(void) {
    config_check_without_memory(gpt2_file);
}

/* ---- Derived values ---- */

/* Parameter counts that are published or follow from a closed form, with tied embeddings. vocab 0
   means the vocabulary of the preset. */
static void parameter_counts(void) {
    static const struct {
        const char *name;
        int64_t vocab_size, positions, params;
    } models[] = {
        {"gpt2", 0, 0, 124439808},
        {"gpt2-medium", 50304, 0, 354871296},
        {"gpt2-medium", 0, 0, 354823168},
        {"gpt2-large", 0, 0, 774030080},
        {"gpt2-xl", 0, 0, 1557611200},
        {"gpt3-13b", 51200, 2048, 12858214400},
        {"gpt3-175b", 51200, 2048, 174615846912},
        /* the table's numbers, by its formula 12 L h^2 (1 + 13 / 12 h) + (V + S) h and the last
           norm */
        {"megatron-1.7b", 0, 0, 1652230656},
        {"megatron-3.6b", 0, 0, 3562168320},
        {"megatron-7.5b", 0, 0, 7467786240},
        {"megatron-18.4b", 0, 0, 18449756160},
        {"megatron-39.1b", 0, 0, 39096041472},
        {"megatron-76.1b", 0, 0, 76050739200},
        {"megatron-145.6b", 0, 0, 145622261760},
        {"megatron-310.1b", 0, 0, 310130540544},
        {"megatron-22b", 0, 0, 22074273792},
        {"megatron-530b", 0, 0, 529600819200},
        {"megatron-1t", 0, 0, 1008038758400},
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        syn_model_config c;
        syn_error err = {0};
        CHECK_OK(syn_model_config_preset(&c, models[i].name, &err), err);
        if (models[i].vocab_size != 0) c.vocab_size = models[i].vocab_size;
        if (models[i].positions != 0) c.n_positions = models[i].positions;
        CHECK_INT(syn_model_config_params(&c, 0), models[i].params);
    }
}

/* Counted tensor by tensor, for the 5B model of 24 layers, and for an unusual model with its own
   MLP width and an untied head. */
static void parameter_counts_of_other_shapes(void) {
    syn_model_config c;
    syn_error err;
    CHECK_OK(
        config_parse(&c,
                     "{\"n_layer\":24,\"n_embd\":4096,\"n_head\":32,\"n_positions\":2048,\"vocab_"
                     "size\":51200}",
                     &err),
        err);
    CHECK_INT(syn_model_config_params(&c, 0), 5051228160);
    CHECK_OK(config_parse(&c, general_file, &err), err);
    const int64_t layer =
        2 * 64 + (64 * 192 + 192) + (64 * 64 + 64) + 2 * 64 + (64 * 96 + 96) + (96 * 64 + 64);
    CHECK_INT(syn_model_config_params(&c, 0), 3 * layer + 300 * 64 + 32 * 64 + 2 * 64 + 300 * 64);
}

static void presets_are_consistent(void) {
    size_t n = 0;
    for (size_t i = 0; syn_model_preset(i); i++) {
        const char *name = syn_model_preset(i);
        syn_model_config c;
        syn_error err = {0};
        CHECK_OK(syn_model_config_preset(&c, name, &err), err);
        CHECK_STR(c.name, name);
        if (c.family != &syn_gpt_family) continue;
        n++;
        CHECK_OK(syn_model_config_check(&c, 1, &err), err);
        CHECK_INT(c.n_inner, 4 * c.n_embd);
        CHECK(c.end.n_ids == 1 && syn_is_stop_token(&c.end, 50256) && c.tied);
        CHECK_INT(c.activation, SYN_GELU_TANH);
        /* "gpt3-6.7b" must have about 6.7 billion parameters. */
        double size;
        char unit;
        if (sscanf(name, "%*[a-z0-9]-%lf%c", &size, &unit) != 2) continue;
        const double said = size * (unit == 'm' ? 1e6 : unit == 'b' ? 1e9 : 1e12);
        const double has = (double)syn_model_config_params(&c, 0);
        CHECK_MSG(fabs(has / said - 1) < 0.08, "%s has %g parameters", name, has);
    }
    CHECK_INT(n, 23);
}

/* The head_dims: 64 in GPT-2; d_head of Brown et al. 2020, table 2.1; hidden size / heads of
   Korthikanti et al. 2022. */
static void head_widths(void) {
    static const struct {
        const char *name;
        int64_t layers, width;
    } heads[] = {
        {"gpt2", 12, 64},
        {"gpt2-medium", 24, 64},
        {"gpt2-large", 36, 64},
        {"gpt2-xl", 48, 64},
        {"gpt3-125m", 12, 64},
        {"gpt3-350m", 24, 64},
        {"gpt3-760m", 24, 96},
        {"gpt3-1.3b", 24, 128},
        {"gpt3-2.7b", 32, 80},
        {"gpt3-6.7b", 32, 128},
        {"gpt3-13b", 40, 128},
        {"gpt3-175b", 96, 128},
        {"megatron-1.7b", 24, 96},
        {"megatron-3.6b", 30, 96},
        {"megatron-7.5b", 36, 128},
        {"megatron-18.4b", 40, 128},
        {"megatron-22b", 48, 96},
        {"megatron-39.1b", 48, 128},
        {"megatron-76.1b", 60, 128},
        {"megatron-145.6b", 80, 128},
        {"megatron-310.1b", 96, 128},
        {"megatron-530b", 105, 160},
        {"megatron-1t", 128, 160},
    };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        syn_model_config c;
        syn_error err = {0};
        CHECK_OK(syn_model_config_preset(&c, heads[i].name, &err), err);
        CHECK_INT(c.n_embd / c.n_head, heads[i].width);
        CHECK_INT(c.n_layer, heads[i].layers);
    }
}

static void cuts_for_ranks(void) {
    syn_model_config c;
    syn_error err = {0}, shared = {0}, divide = {0}, own = {0};
    config_check_ranks("gpt2");
    CHECK_OK(syn_model_config_preset(&c, "gpt2", &err), err);
    c.n_kv_head = 3;
    CHECK_INT(syn_model_config_check(&c, 2, &shared), SYN_E_INVALID);
    CHECK_HAS(shared.text, "tp 2 neither divides the 3 key/value heads nor is");
    CHECK_INT(syn_model_config_check(&c, 1, &own), SYN_E_INVALID);
    CHECK_HAS(own.text, "as many key/value heads as query heads, not 3 and 12");
    c.n_kv_head = 5;
    CHECK_INT(syn_model_config_check(&c, 1, &divide), SYN_E_INVALID);
    CHECK_HAS(divide.text, "5 key/value heads do not divide the 12 query heads");
}

/* Megatron-LM pads the vocabulary to a multiple of 128 tp: 50257 becomes 50304, 50432, 50688 and
   51200 for tp 1, 2, 4 and 8. */
static void padded_vocabularies(void) {
    static const int64_t want[] = {50304, 50432, 50688, 51200};
    syn_model_config c;
    syn_error err = {0};
    CHECK_OK(syn_model_config_preset(&c, "gpt2", &err), err);
    for (int i = 0; i < 4; i++) CHECK_INT(syn_model_padded_vocab(&c, 1 << i, 128), want[i]);
    CHECK_INT(syn_model_padded_vocab(&c, 1, 1), 50257);
    CHECK_INT(syn_model_padded_vocab(&c, 2, 1), 50258);
    c.vocab_size = 51200;
    CHECK_INT(syn_model_padded_vocab(&c, 8, 128), 51200);
}

static void tiny_example(void) {
    syn_model_config c;
    syn_error err = {0};
    CHECK_OK(syn_model_config_load(&c, source_path("examples/configs/gpt3-tiny.json"), &err), err);
    CHECK_STR(c.name, "gpt3-tiny");
    CHECK_INT(c.n_layer, 2);
    CHECK_INT(c.n_head, 8);
    CHECK_INT(c.n_embd, 128);
    CHECK_INT(c.n_positions, 256);
    CHECK_INT(c.vocab_size, 256);
    CHECK_INT(syn_model_config_params(&c, 0),
              2 * (12 * 128 * 128 + 13 * 128) + (256 + 256) * 128 + 2 * 128);
    for (int tp = 1; tp <= 8; tp *= 2) CHECK_OK(syn_model_config_check(&c, tp, &err), err);
}

static const test_case cases[] = {
    {"gpt2_file_is_the_preset", gpt2_file_is_the_preset},
    {"general_names", general_names},
    {"hidden_act_is_ignored", hidden_act_is_ignored},
    {"defaults", defaults},
    {"harmless_values", harmless_values},
    {"names_of_models", names_of_models},
    {"dropout_rates", dropout_rates},
    {"saved_files", saved_files},
    {"hashes_distinguish_models", hashes_distinguish_models},
    {"refuses_bad_files", refuses_bad_files},
    {"refuses_every_cut", refuses_every_cut},
    {"refuses_nesting_bombs", refuses_nesting_bombs},
    {"missing_files_and_models", missing_files_and_models},
    {"survives_allocation_failures", survives_allocation_failures},
    {"parameter_counts", parameter_counts},
    {"parameter_counts_of_other_shapes", parameter_counts_of_other_shapes},
    {"presets_are_consistent", presets_are_consistent},
    {"head_widths", head_widths},
    {"cuts_for_ranks", cuts_for_ranks},
    {"padded_vocabularies", padded_vocabularies},
    {"tiny_example", tiny_example},
};
TEST_MAIN(cases)
