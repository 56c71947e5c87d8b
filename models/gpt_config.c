#include "models/gpt_config.h"

#include <stdio.h>
#include <string.h>

#include "models/config_private.h"
#include "syntorch/memory.h"
#include "syntorch/sink.h"

/* ---- Presets ---- */

#define GPT2_VOCAB     50257
#define GPT2_EOS       50256
#define MEGATRON_VOCAB 51200

/* name, layers, hidden, heads, positions, vocabulary. GPT-2: Radford et al. 2019, table 2, and the
   released hparams. GPT-3: Brown et al. 2020, table 2.1, with 16 heads for 1.3b and width 5120 for
   13b, so that heads divide the width. Megatron: Korthikanti et al. 2022, table 3; its vocabulary
   is GPT-2's, already padded. */
#define PRESET_LIST(X)                                        \
    X("gpt2", 12, 768, 12, 1024, GPT2_VOCAB)                  \
    X("gpt2-medium", 24, 1024, 16, 1024, GPT2_VOCAB)          \
    X("gpt2-large", 36, 1280, 20, 1024, GPT2_VOCAB)           \
    X("gpt2-xl", 48, 1600, 25, 1024, GPT2_VOCAB)              \
    X("gpt3-125m", 12, 768, 12, 2048, GPT2_VOCAB)             \
    X("gpt3-350m", 24, 1024, 16, 2048, GPT2_VOCAB)            \
    X("gpt3-760m", 24, 1536, 16, 2048, GPT2_VOCAB)            \
    X("gpt3-1.3b", 24, 2048, 16, 2048, GPT2_VOCAB)            \
    X("gpt3-2.7b", 32, 2560, 32, 2048, GPT2_VOCAB)            \
    X("gpt3-6.7b", 32, 4096, 32, 2048, GPT2_VOCAB)            \
    X("gpt3-13b", 40, 5120, 40, 2048, GPT2_VOCAB)             \
    X("gpt3-175b", 96, 12288, 96, 2048, GPT2_VOCAB)           \
    X("megatron-22b", 48, 6144, 64, 2048, MEGATRON_VOCAB)     \
    X("megatron-530b", 105, 20480, 128, 2048, MEGATRON_VOCAB) \
    X("megatron-1t", 128, 25600, 160, 2048, MEGATRON_VOCAB)

static const syn_gpt_config presets[] = {
#define SYN_X(name_, layers, hidden, heads, positions, vocab) \
    {.name = name_,                                           \
     .n_layer = layers,                                       \
     .n_embd = hidden,                                        \
     .n_head = heads,                                         \
     .n_positions = positions,                                \
     .n_inner = 4 * (hidden),                                 \
     .vocab_size = vocab,                                     \
     .layer_norm_epsilon = 1e-5,                              \
     .initializer_range = 0.02,                               \
     .gelu_tanh = true,                                       \
     .tied = true,                                            \
     .end = {{GPT2_EOS}, 1, GPT2_EOS}},
    PRESET_LIST(SYN_X)
#undef SYN_X
};

const char *const *syn_gpt_presets(void) {
    static const char *const names[] = {
#define SYN_X(name_, layers, hidden, heads, positions, vocab) name_,
        PRESET_LIST(SYN_X)
#undef SYN_X
            NULL};
    return names;
}

syn_status syn_gpt_config_preset(syn_gpt_config *config, const char *name, syn_error *err) {
    char known[384] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        if (strcmp(presets[i].name, name) == 0) {
            *config = presets[i];
            return SYN_OK;
        }
        const int n = snprintf(known + used, sizeof known - used, "%s%s", i != 0 ? ", " : "",
                               presets[i].name);
        used += n > 0 ? (size_t)n : 0;
    }
    char shown[SYN__SETTING_NAME_BYTES];
    syn__settings_copy(name, strlen(name), shown, sizeof shown);
    return SYN_FAIL(err, SYN_E_INVALID, "there is no model '%s'; the presets are %s", shown, known);
}

/* ---- Files ---- */

static syn_status read_model_type(syn__settings *s, void *member);
typedef struct file_config {
    syn_gpt_config config;
    char path_name[SYN__SETTING_NAME_BYTES]; /* of _name_or_path */
    int64_t n_head_kv;
    int64_t n_ctx; /* an old name of n_positions, which counts where both are given */
    syn__config_ids ends, pad;
    syn__activation activation_function, hidden_act; /* two names of one thing */
    bool unused;
} file_config;

#define AT(member) offsetof(file_config, config.member)
#define REQUIRED   SYN__SETTING_REQUIRED
#define NULLABLE   SYN__SETTING_NULLABLE

static const syn__setting rows[] = {
    {"name", SYN__SETTING_NAME, NULLABLE, AT(name), 0, 0, 0, NULL, NULL},
    SYN__ROW_CUSTOM("_name_or_path", offsetof(file_config, path_name), syn__config_path),
    SYN__ROW_CUSTOM("model_type", offsetof(file_config, unused), read_model_type),
    SYN__ROW_I64("n_layer", REQUIRED, AT(n_layer), 1, SYN__MAX_LAYERS),
    SYN__ROW_I64("num_hidden_layers", REQUIRED, AT(n_layer), 1, SYN__MAX_LAYERS),
    SYN__ROW_I64("n_embd", REQUIRED, AT(n_embd), 1, SYN__MAX_EMBD),
    SYN__ROW_I64("hidden_size", REQUIRED, AT(n_embd), 1, SYN__MAX_EMBD),
    SYN__ROW_I64("n_head", REQUIRED, AT(n_head), 1, SYN__MAX_EMBD),
    SYN__ROW_I64("num_attention_heads", REQUIRED, AT(n_head), 1, SYN__MAX_EMBD),
    SYN__ROW_I64("num_key_value_heads", NULLABLE, offsetof(file_config, n_head_kv), 1,
                 SYN__MAX_EMBD),
    SYN__ROW_I64("n_positions", 0, AT(n_positions), 1, SYN__MAX_POSITIONS),
    SYN__ROW_I64("max_position_embeddings", 0, AT(n_positions), 1, SYN__MAX_POSITIONS),
    SYN__ROW_I64("n_ctx", NULLABLE, offsetof(file_config, n_ctx), 1, SYN__MAX_POSITIONS),
    SYN__ROW_I64("n_inner", NULLABLE, AT(n_inner), 1, SYN__MAX_INNER),
    SYN__ROW_I64("intermediate_size", NULLABLE, AT(n_inner), 1, SYN__MAX_INNER),
    SYN__ROW_I64("vocab_size", REQUIRED, AT(vocab_size), 1, SYN__MAX_VOCAB),
    SYN__ROW_CUSTOM("eos_token_id", offsetof(file_config, ends), syn__config_ids_read),
    SYN__ROW_CUSTOM("pad_token_id", offsetof(file_config, pad), syn__config_ids_read),
    SYN__ROW_F64("layer_norm_epsilon", AT(layer_norm_epsilon), 0, 0.1),
    SYN__ROW_F64("layer_norm_eps", AT(layer_norm_epsilon), 0, 0.1),
    SYN__ROW_F64("initializer_range", AT(initializer_range), 1e-9, 10),
    SYN__ROW_CUSTOM("activation_function", offsetof(file_config, activation_function),
                    syn__config_activation),
    SYN__ROW_CUSTOM("hidden_act", offsetof(file_config, hidden_act), syn__config_activation),
    {"tie_word_embeddings", SYN__SETTING_BOOL, 0, AT(tied), 0, 0, 0, NULL, NULL},
    /* What GPT-2's file format can ask for and this model does not do. */
    SYN__ROW_CUSTOM("scale_attn_weights", offsetof(file_config, unused), syn__config_true),
    SYN__ROW_CUSTOM("scale_attn_by_inverse_layer_idx", offsetof(file_config, unused),
                    syn__config_false),
    SYN__ROW_CUSTOM("add_cross_attention", offsetof(file_config, unused), syn__config_false),
    SYN__ROW_CUSTOM("is_encoder_decoder", offsetof(file_config, unused), syn__config_false),
};
static const syn__setting_table table = {rows, sizeof rows / sizeof rows[0], true};

static syn_status read_model_type(syn__settings *s, void *member) {
    (void)member;
    char shown[64];
    SYN_TRY(syn__config_string(s));
    if (syn__settings_text_is(s, "gpt2") || syn__settings_text_is(s, "gpt3")) return SYN_OK;
    return syn__settings_fail(s, "\"%s\" is \"%s\", but only \"gpt2\" and \"gpt3\" are known",
                              s->path, syn__settings_shown(s, shown));
}

/* What no single number shows. */
static syn_status check_file(syn__settings *s, file_config *file) {
    syn_gpt_config *c = &file->config;
    if (c->n_positions == 0) c->n_positions = file->n_ctx;
    if (c->n_positions == 0)
        return syn__settings_fail(
            s, "the file lacks \"n_positions\" or \"max_position_embeddings\" or \"n_ctx\"");
    const bool general = !syn__settings_has(s, &table, "n_head");
    const char *n_head = general ? "num_attention_heads" : "n_head";
    if (c->n_embd % c->n_head != 0)
        return syn__settings_fail_at(
            s, &table, n_head, "\"%s\" %lld does not divide \"%s\" %lld", n_head,
            (long long)c->n_head, syn__settings_has(s, &table, "n_embd") ? "n_embd" : "hidden_size",
            (long long)c->n_embd);
    if (file->n_head_kv != 0 && file->n_head_kv != c->n_head)
        return syn__settings_fail_at(
            s, &table, "num_key_value_heads",
            "\"num_key_value_heads\" %lld differs from \"%s\" %lld: heads that share keys are not "
            "supported",
            (long long)file->n_head_kv, n_head, (long long)c->n_head);
    if (file->activation_function != SYN__ACTIVATION_NONE &&
        file->hidden_act != SYN__ACTIVATION_NONE && file->activation_function != file->hidden_act)
        return syn__settings_fail(
            s, "\"activation_function\" contradicts \"hidden_act\", which means the same");
    return SYN_OK;
}

static void fill_defaults(file_config *file, const char *name) {
    syn_gpt_config *c = &file->config;
    c->gelu_tanh = file->activation_function != SYN__GELU_ERF && file->hidden_act != SYN__GELU_ERF;
    if (c->n_inner == 0) c->n_inner = 4 * c->n_embd;
    syn__config_ending(&c->end, &file->ends, &file->pad, c->vocab_size);
    if (c->name[0] == '\0') memcpy(c->name, file->path_name, sizeof c->name);
    if (c->name[0] == '\0') syn__settings_base_name(name, c->name);
    if (c->name[0] == '\0') memcpy(c->name, "gpt", sizeof "gpt");
}

syn_status syn_gpt_config_parse(syn_gpt_config *config, const char *name, const char *json,
                                size_t bytes, syn_error *err) {
    syn__settings s;
    file_config file;
    memset(&file, 0, sizeof file);
    file.config.layer_norm_epsilon = 1e-5;
    file.config.initializer_range = 0.02;
    file.config.tied = true;
    syn__settings_begin(&s, name, json, bytes);
    if (syn__settings_read(&s, &table, &file) == SYN_OK) check_file(&s, &file);
    SYN_TRY(syn__settings_end(&s, err));
    fill_defaults(&file, name);
    *config = file.config;
    return SYN_OK;
}

syn_status syn_gpt_config_load(syn_gpt_config *config, const char *path, syn_error *err) {
    char *json;
    size_t bytes;
    SYN_TRY(syn_read_file(path, SYN__SETTING_FILE_BYTES, &json, &bytes, err));
    const syn_status status = syn_gpt_config_parse(config, path, json, bytes, err);
    syn_free(json);
    return status;
}

/* null, not absent: transformers would take GPT-2's 50256. */
static void save_ending(const syn_gpt_ending *end, syn_sink *out) {
    if (end->n_ids == 0) {
        syn_sink_text(out, ",\n  \"bos_token_id\": null,\n  \"eos_token_id\": null");
        return;
    }
    syn_sink_printf(out, ",\n  \"bos_token_id\": %d,\n  \"eos_token_id\": %s%d", end->ids[0],
                    end->n_ids > 1 ? "[" : "", end->ids[0]);
    for (int32_t i = 1; i < end->n_ids; i++) syn_sink_printf(out, ", %d", end->ids[i]);
    if (end->n_ids > 1) syn_sink_char(out, ']');
    if (end->fill != end->ids[0]) syn_sink_printf(out, ",\n  \"pad_token_id\": %d", end->fill);
}

/* ---- What follows from the numbers ---- */

syn_status syn_gpt_config_save(const syn_gpt_config *c, const char *path, syn_error *err) {
    syn_sink *out;
    SYN_TRY(syn_sink_open_file(&out, path, err));
    syn_sink_text(out, "{\n  \"architectures\": [\"GPT2LMHeadModel\"],\n"
                       "  \"model_type\": \"gpt2\",\n  \"_name_or_path\": ");
    syn_sink_json_string(out, c->name);
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {{"n_layer", c->n_layer}, {"n_embd", c->n_embd},
                   {"n_head", c->n_head},   {"n_positions", c->n_positions},
                   {"n_inner", c->n_inner}, {"vocab_size", c->vocab_size}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        syn_sink_printf(out, ",\n  \"%s\": %lld", numbers[i].key, (long long)numbers[i].value);
    syn_sink_text(out, ",\n  \"layer_norm_epsilon\": ");
    syn_sink_double(out, c->layer_norm_epsilon);
    syn_sink_text(out, ",\n  \"initializer_range\": ");
    syn_sink_double(out, c->initializer_range);
    syn_sink_printf(out, ",\n  \"activation_function\": \"%s\",\n  \"tie_word_embeddings\": %s",
                    c->gelu_tanh ? "gelu_new" : "gelu", c->tied ? "true" : "false");
    save_ending(&c->end, out);
    syn_sink_text(out, "\n}\n");
    return syn_sink_close(out, true, err);
}

syn_status syn_gpt_config_check(const syn_gpt_config *config, int tp, syn_error *err) {
    const syn__config_sizes sizes = {config->name,      config->n_layer, config->n_embd,
                                     config->n_head,    config->n_inner, config->n_positions,
                                     config->vocab_size};
    return syn__config_check(&sizes, tp, err);
}

int64_t syn_gpt_config_params(const syn_gpt_config *config) {
    const int64_t h = config->n_embd, f = config->n_inner, v = config->vocab_size;
    const int64_t attention = 4 * h * h + 4 * h; /* qkv 3h^2 + 3h, projection h^2 + h */
    const int64_t mlp = 2 * h * f + f + h;
    const int64_t norms = 4 * h;
    const int64_t head = config->tied ? 0 : v * h;
    return config->n_layer * (attention + mlp + norms) + (v + config->n_positions) * h + 2 * h +
           head;
}

int64_t syn_gpt_padded_vocab(const syn_gpt_config *config, int tp, int64_t divisor) {
    return syn__config_padded(config->vocab_size, tp, divisor);
}
