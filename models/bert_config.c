#include "models/bert_config.h"

#include <stdio.h>
#include <string.h>

#include "models/config_private.h"
#include "syntorch/memory.h"
#include "syntorch/sink.h"

#define MAX_TYPES ((int64_t)1 << 16)

/* ---- Presets ---- */

#define UNCASED_VOCAB 30522
#define CASED_VOCAB   28996

/* name, layers, hidden, heads, vocabulary: Devlin et al. 2019, sec. 3, and the released vocab.txt
   files; the rest from the released configurations. */
#define PRESET_LIST(X)                                   \
    X("bert-base-uncased", 12, 768, 12, UNCASED_VOCAB)   \
    X("bert-large-uncased", 24, 1024, 16, UNCASED_VOCAB) \
    X("bert-base-cased", 12, 768, 12, CASED_VOCAB)       \
    X("bert-large-cased", 24, 1024, 16, CASED_VOCAB)

static const syn_bert_config presets[] = {
#define SYN_X(name_, layers, hidden, heads, vocab) \
    {.name = name_,                                \
     .n_layer = layers,                            \
     .n_embd = hidden,                             \
     .n_head = heads,                              \
     .n_positions = 512,                           \
     .n_inner = 4 * (hidden),                      \
     .vocab_size = vocab,                          \
     .n_types = 2,                                 \
     .pad_id = 0,                                  \
     .layer_norm_epsilon = 1e-12,                  \
     .initializer_range = 0.02,                    \
     .gelu_tanh = false,                           \
     .tied = true},
    PRESET_LIST(SYN_X)
#undef SYN_X
};

const char *const *syn_bert_presets(void) {
    static const char *const names[] = {
#define SYN_X(name_, layers, hidden, heads, vocab) name_,
        PRESET_LIST(SYN_X)
#undef SYN_X
            NULL};
    return names;
}

syn_status syn_bert_config_preset(syn_bert_config *config, const char *name, syn_error *err) {
    char known[128] = "";
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
static syn_status read_positions(syn__settings *s, void *member);

typedef struct file_config {
    syn_bert_config config;
    char path_name[SYN__SETTING_NAME_BYTES]; /* of _name_or_path */
    syn__activation activation;
    bool unused;
} file_config;

#define AT(member) offsetof(file_config, config.member)
#define UNUSED     offsetof(file_config, unused)
#define REQUIRED   SYN__SETTING_REQUIRED
#define NULLABLE   SYN__SETTING_NULLABLE

static const syn__setting rows[] = {
    {"name", SYN__SETTING_NAME, NULLABLE, AT(name), 0, 0, 0, NULL, NULL},
    SYN__ROW_CUSTOM("_name_or_path", offsetof(file_config, path_name), syn__config_path),
    SYN__ROW_CUSTOM("model_type", UNUSED, read_model_type),
    SYN__ROW_I64("num_hidden_layers", REQUIRED, AT(n_layer), 1, SYN__MAX_LAYERS),
    SYN__ROW_I64("hidden_size", REQUIRED, AT(n_embd), 1, SYN__MAX_EMBD),
    SYN__ROW_I64("num_attention_heads", REQUIRED, AT(n_head), 1, SYN__MAX_EMBD),
    SYN__ROW_I64("max_position_embeddings", REQUIRED, AT(n_positions), 1, SYN__MAX_POSITIONS),
    SYN__ROW_I64("intermediate_size", REQUIRED, AT(n_inner), 1, SYN__MAX_INNER),
    SYN__ROW_I64("vocab_size", REQUIRED, AT(vocab_size), 1, SYN__MAX_VOCAB),
    SYN__ROW_I64("type_vocab_size", NULLABLE, AT(n_types), 1, MAX_TYPES),
    SYN__ROW_I64("pad_token_id", NULLABLE, AT(pad_id), 0, SYN__MAX_VOCAB - 1),
    SYN__ROW_F64("layer_norm_eps", AT(layer_norm_epsilon), 0, 0.1),
    SYN__ROW_F64("initializer_range", AT(initializer_range), 1e-9, 10),
    SYN__ROW_CUSTOM("hidden_act", offsetof(file_config, activation), syn__config_activation),
    {"tie_word_embeddings", SYN__SETTING_BOOL, 0, AT(tied), 0, 0, 0, NULL, NULL},
    /* What the file format can ask for and this model does not do. */
    SYN__ROW_CUSTOM("position_embedding_type", UNUSED, read_positions),
    SYN__ROW_CUSTOM("is_decoder", UNUSED, syn__config_false),
    SYN__ROW_CUSTOM("add_cross_attention", UNUSED, syn__config_false),
    SYN__ROW_CUSTOM("is_encoder_decoder", UNUSED, syn__config_false),
};
static const syn__setting_table table = {rows, sizeof rows / sizeof rows[0], true};

static syn_status read_model_type(syn__settings *s, void *member) {
    (void)member;
    char shown[64];
    SYN_TRY(syn__config_string(s));
    if (syn__settings_text_is(s, "bert")) return SYN_OK;
    return syn__settings_fail(s, "\"%s\" is \"%s\", but only \"bert\" is known", s->path,
                              syn__settings_shown(s, shown));
}

static syn_status read_positions(syn__settings *s, void *member) {
    (void)member;
    char shown[64];
    SYN_TRY(syn__config_string(s));
    if (syn__settings_text_is(s, "absolute")) return SYN_OK;
    return syn__settings_fail(s,
                              "\"%s\" must be \"absolute\", not \"%s\": this model knows no other",
                              s->path, syn__settings_shown(s, shown));
}

/* What no single number shows. */
static syn_status check_file(syn__settings *s, const syn_bert_config *c) {
    if (c->n_embd % c->n_head != 0)
        return syn__settings_fail_at(
            s, &table, "num_attention_heads",
            "\"num_attention_heads\" %lld does not divide \"hidden_size\" %lld",
            (long long)c->n_head, (long long)c->n_embd);
    if (c->pad_id >= c->vocab_size)
        return syn__settings_fail_at(
            s, &table, "pad_token_id",
            "\"pad_token_id\" %lld is outside a vocabulary of %lld (\"vocab_size\")",
            (long long)c->pad_id, (long long)c->vocab_size);
    return SYN_OK;
}

syn_status syn_bert_config_parse(syn_bert_config *config, const char *name, const char *json,
                                 size_t bytes, syn_error *err) {
    syn__settings s;
    file_config file;
    memset(&file, 0, sizeof file);
    syn_bert_config *c = &file.config;
    c->n_types = 2;
    c->layer_norm_epsilon = 1e-12;
    c->initializer_range = 0.02;
    c->tied = true;
    syn__settings_begin(&s, name, json, bytes);
    if (syn__settings_read(&s, &table, &file) == SYN_OK) check_file(&s, c);
    SYN_TRY(syn__settings_end(&s, err));
    c->gelu_tanh = file.activation == SYN__GELU_TANH;
    if (c->name[0] == '\0') memcpy(c->name, file.path_name, sizeof c->name);
    if (c->name[0] == '\0') syn__settings_base_name(name, c->name);
    if (c->name[0] == '\0') memcpy(c->name, "bert", sizeof "bert");
    *config = *c;
    return SYN_OK;
}

syn_status syn_bert_config_load(syn_bert_config *config, const char *path, syn_error *err) {
    char *json;
    size_t bytes;
    SYN_TRY(syn_read_file(path, SYN__SETTING_FILE_BYTES, &json, &bytes, err));
    const syn_status status = syn_bert_config_parse(config, path, json, bytes, err);
    syn_free(json);
    return status;
}

syn_status syn_bert_config_save(const syn_bert_config *c, unsigned heads, const char *path,
                                syn_error *err) {
    syn_sink *out;
    SYN_TRY(syn_sink_open_file(&out, path, err));
    const char *as = heads & SYN_BERT_NSP   ? "BertForPreTraining"
                     : heads & SYN_BERT_MLM ? "BertForMaskedLM"
                                            : "BertModel";
    syn_sink_printf(out, "{\n  \"architectures\": [\"%s\"],\n", as);
    syn_sink_text(out, "  \"model_type\": \"bert\",\n  \"_name_or_path\": ");
    syn_sink_json_string(out, c->name);
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {{"num_hidden_layers", c->n_layer},
                   {"hidden_size", c->n_embd},
                   {"num_attention_heads", c->n_head},
                   {"intermediate_size", c->n_inner},
                   {"max_position_embeddings", c->n_positions},
                   {"vocab_size", c->vocab_size},
                   {"type_vocab_size", c->n_types},
                   {"pad_token_id", c->pad_id}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        syn_sink_printf(out, ",\n  \"%s\": %lld", numbers[i].key, (long long)numbers[i].value);
    syn_sink_text(out, ",\n  \"layer_norm_eps\": ");
    syn_sink_double(out, c->layer_norm_epsilon);
    syn_sink_text(out, ",\n  \"initializer_range\": ");
    syn_sink_double(out, c->initializer_range);
    syn_sink_printf(out, ",\n  \"hidden_act\": \"%s\",\n  \"tie_word_embeddings\": %s\n}\n",
                    c->gelu_tanh ? "gelu_new" : "gelu", c->tied ? "true" : "false");
    return syn_sink_close(out, true, err);
}

/* ---- What follows from the numbers ---- */

syn_status syn_bert_config_check(const syn_bert_config *config, int tp, syn_error *err) {
    const syn__config_sizes sizes = {config->name,      config->n_layer, config->n_embd,
                                     config->n_head,    config->n_inner, config->n_positions,
                                     config->vocab_size};
    SYN_TRY(syn__config_check(&sizes, tp, err));
    if (config->n_types < 1)
        return SYN_FAIL(err, SYN_E_INVALID, "model %s: %lld token types must be at least 1",
                        config->name, (long long)config->n_types);
    return SYN_OK;
}

int64_t syn_bert_config_params(const syn_bert_config *config, unsigned heads) {
    const int64_t h = config->n_embd, f = config->n_inner, v = config->vocab_size;
    const int64_t attention = 4 * h * h + 4 * h; /* q, k, v and the output's dense layer */
    const int64_t mlp = 2 * h * f + f + h;
    const int64_t norms = 4 * h;
    int64_t n = config->n_layer * (attention + mlp + norms) +
                (v + config->n_positions + config->n_types) * h + 2 * h;
    if (heads & (SYN_BERT_POOLER | SYN_BERT_NSP)) n += h * h + h;
    if (heads & SYN_BERT_MLM) n += h * h + h + 2 * h + v + (config->tied ? 0 : v * h);
    if (heads & SYN_BERT_NSP) n += 2 * h + 2;
    return n;
}

int64_t syn_bert_padded_vocab(const syn_bert_config *config, int tp, int64_t divisor) {
    return syn__config_padded(config->vocab_size, tp, divisor);
}
