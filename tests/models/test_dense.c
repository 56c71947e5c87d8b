/* Tests the dense families with Llama's layers that models/llama.c does not have: traces must be
   the same on every device and communicator, sizes must match the published ones, and files are
   read with transformers' defaults, refused, and written as they were read.
   tests/programs/test_llama.py and tests/models/test_training.c test the models' results. */
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
    {"phi3", "\"head_dim\": 12, \"partial_rotary_factor\": 0.5, \"resid_pdrop\": 0.5"},
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
        CHECK_MSG(new_trace_everywhere(&seen, job.tp, generation_rank, &job, &job.seed), "case %d",
                  i);
    }
}

/* The parameter counts of the released checkpoints, which transformers' models have, too. */
static void presets_have_their_sizes(void) {
    static const struct {
        const char *name;
        int64_t params;
    } known[] = {
        {"starcoder2-3b", 3030371328}, {"starcoder2-7b", 7173923840},
        {"phi-3-mini-4k", 3821079552}, {"phi-3-medium-4k", 13960238080},
        {"phi-4", 14659507200},
    };
    for (size_t i = 0; i < COUNT(known); i++) {
        syn_model_config c;
        syn_error err = {0};
        CHECK_OK(syn_model_config_preset(&c, known[i].name, &err), err);
        CHECK_INT(syn_model_config_params(&c, 0), known[i].params);
        CHECK_OK(syn_model_config_check(&c, 2, &err), err);
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
        {"starcoder2", "\"hidden_act\": \"relu\"", "\"hidden_act\" must be gelu_new"},
        {"starcoder2", "\"mlp_bias\": true", "unknown key \"mlp_bias\""},
        {"starcoder2", "\"sliding_window\": 0", "\"sliding_window\" must be"},
        {"starcoder2",
         "\"layer_types\": [\"full_attention\", \"sliding_attention\", \"sliding_attention\"]",
         "all layers of this StarCoder2 must have full attention"},
        {"phi3", "\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1]}",
         "must be default"},
        {"phi3", "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2}",
         "the rotary embedding of a Phi-3 must be \"default\""},
        {"phi3", "\"attention_bias\": true", "unknown key \"attention_bias\""},
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

/* A file that was read is written with the same values. */
static void files_are_written_as_they_were_read(void) {
    const char *path = in_folder("config.json");
    for (size_t i = 0; i < COUNT(files); i++) {
        syn_model_config c, again, other;
        syn_error err = {0};
        read_file(&c, files[i].type, SHAPE, files[i].more);
        CHECK_OK(syn_model_config_save(&c, 0, path, &err), err);
        CHECK_OK(syn_model_config_load(&again, path, &err), err);
        CHECK_MSG(config_same(&c, &again), "%s: %s", files[i].type, files[i].more);
        CHECK(syn_model_config_hash(&c, 1) == syn_model_config_hash(&again, 1));
        for (size_t k = 0; k < i; k++) {
            read_file(&other, files[k].type, SHAPE, files[k].more);
            CHECK(syn_model_config_hash(&other, 1) != syn_model_config_hash(&c, 1));
        }
    }
}

static const test_case cases[] = {
    {"one_trace_on_every_device_and_communicator", one_trace_on_every_device_and_communicator},
    {"presets_have_their_sizes", presets_have_their_sizes},
    {"absent_keys_have_the_defaults_of_transformers",
     absent_keys_have_the_defaults_of_transformers},
    {"refuses_what_it_does_not_know", refuses_what_it_does_not_know},
    {"files_are_written_as_they_were_read", files_are_written_as_they_were_read},
};
TEST_MAIN(cases)
