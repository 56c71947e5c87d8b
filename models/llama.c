/* Llama (Touvron et al. 2023) and three families with the same layers: Mistral (Jiang et al. 2023),
   Qwen2 and Qwen3 (Yang et al. 2024, 2025). A layer has RMSNorm before each branch, rotary
   embedding, grouped-query attention and SwiGLU. With tensor parallelism, attention is sharded by
   heads, the MLP is column- then row-parallel, and the token embedding is sharded by vocabulary
   rows. The families differ only in names, defaults, presets and configuration keys, so they share
   this file. */
#include <stdio.h>

#include "models/family_private.h"

struct llama {
    syn_tensor tokens, lm_head; /* if tied, lm_head is tokens */
    syn_layer_norm norm;
};

struct llama_layer {
    syn_layer_norm input_norm, post_norm, q_norm, k_norm;
    syn_layer_linear q, k, v, o, gate, up, down;
};

#define AT(member) offsetof(struct llama, member)
#define IN(member) offsetof(struct llama_layer, member)
#define HIDDEN     SYN__DIM_HIDDEN
#define INNER      SYN__DIM_INNER
#define QKV        SYN__QKV_BIAS
#define OUT        (SYN__OUT_BIAS | SYN__RESIDUAL)
#define MLP        SYN__MLP_BIAS
#define HEAD_NORM  SYN__HEAD_NORM

static const syn__param_row embed_rows[] = {
    {"embed_tokens", SYN__VOCAB_TABLE, SYN__DIM_VOCAB, HIDDEN, .at = AT(tokens)}, {0}};

static const syn__param_row layer_rows[] = {
    {"input_layernorm", SYN__RMS_NORM, 0, HIDDEN, .at = IN(input_norm)},
    {"self_attn.q_proj", SYN__COLUMN_LINEAR, HIDDEN, SYN__DIM_QUERIES, .at = IN(q), .flags = QKV},
    {"self_attn.k_proj", SYN__COLUMN_LINEAR, HIDDEN, SYN__DIM_KEYS, .layout = SYN__SHARED_HEADS,
     .at = IN(k), .flags = QKV},
    {"self_attn.v_proj", SYN__COLUMN_LINEAR, HIDDEN, SYN__DIM_KEYS, .layout = SYN__SHARED_HEADS,
     .at = IN(v), .flags = QKV},
    {"self_attn.q_norm", SYN__RMS_NORM, 0, SYN__DIM_HEAD, .at = IN(q_norm), .flags = HEAD_NORM},
    {"self_attn.k_norm", SYN__RMS_NORM, 0, SYN__DIM_HEAD, .at = IN(k_norm), .flags = HEAD_NORM},
    {"self_attn.o_proj", SYN__ROW_LINEAR, SYN__DIM_QUERIES, HIDDEN, .at = IN(o), .flags = OUT},
    {"post_attention_layernorm", SYN__RMS_NORM, 0, HIDDEN, .at = IN(post_norm)},
    {"mlp.gate_proj", SYN__COLUMN_LINEAR, HIDDEN, INNER, .at = IN(gate), .flags = MLP},
    {"mlp.up_proj", SYN__COLUMN_LINEAR, HIDDEN, INNER, .at = IN(up), .flags = MLP},
    {"mlp.down_proj", SYN__ROW_LINEAR, INNER, HIDDEN, .at = IN(down), .flags = MLP | SYN__RESIDUAL},
    {"self_attn.rotary_emb.inv_freq", .kind = SYN__IGNORED},
    {0}};

static const syn__param_row head_rows[] = {{"norm", SYN__RMS_NORM, 0, HIDDEN, .at = AT(norm)},
                                           {"lm_head", SYN__VOCAB_TABLE, SYN__DIM_VOCAB, HIDDEN,
                                            .at = AT(lm_head), .flags = SYN__NO_PREFIX,
                                            .tied = "embed_tokens"},
                                           {0}};

/* ---- computation ---- */

/* tokens (B, T) -> (B, T, C) */
static syn_tensor embed(syn_model *m, syn_tensor tokens) {
    const struct llama *llama = m->params;
    syn_push_scope(m->ctx, "embed_tokens");
    const syn_tensor x = syn__model_embed(m, llama->tokens, tokens);
    syn_pop_scope(m->ctx);
    return x;
}

/* x (B, T, H D/tp) -> heads (B, H/tp, T, D), normalized if the model has head norms, then with the
   rotary embedding applied. */
static syn_tensor rotated(syn_model *m, syn_tensor x, const syn_layer_norm *norm,
                          const char *label) {
    x = syn_heads_split(m->ctx, x, syn__model_head_dim(m));
    if (norm->weight.id) x = syn__model_shared_norm(m, x, norm, label);
    return syn__model_apply_rotary(m, x);
}

static syn_tensor attention(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    const struct llama_layer *l = layer;
    x = syn__model_enter(m, x); /* once for q, k and v */
    syn_tensor q = syn_column_linear(m->ctx, x, &l->q, false, NULL, "q_proj");
    syn_tensor k = syn__model_kv_linear(m, x, &l->k, "k_proj");
    syn_tensor v = syn__model_kv_linear(m, x, &l->v, "v_proj");
    q = rotated(m, q, &l->q_norm, "q_norm");
    k = rotated(m, k, &l->k_norm, "k_norm");
    v = syn_heads_split(m->ctx, v, syn__model_head_dim(m));
    const syn_tensor keys = syn__causal_keys(m, i, k), values = syn__causal_values(m, i, v);
    return syn__model_attend(m, i, q, keys, values);
}

static syn_tensor mlp(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    const struct llama_layer *l = layer;
    (void)i;
    x = syn__model_enter(m, x);
    const syn_tensor gate = syn_column_linear(m->ctx, x, &l->gate, false, NULL, "gate_proj");
    const syn_tensor up = syn_column_linear(m->ctx, x, &l->up, false, NULL, "up_proj");
    return syn_swiglu(m->ctx, gate, up);
}

static syn_tensor layer(syn_model *m, void *layer, int64_t i, syn_tensor x) {
    const struct llama_layer *l = layer;
    const syn__branch branches[2] = {{"self_attn", &l->input_norm, "input_layernorm", attention,
                                      &l->o, "o_proj", SYN__SITE_ATTENTION_OUT},
                                     {"mlp", &l->post_norm, "post_attention_layernorm", mlp,
                                      &l->down, "down_proj", SYN__SITE_MLP_OUT}};
    return syn__model_sequential(m, l, i, x, branches);
}

/* ---- configurations ---- */

#define ROTARY_31(factor_)                                                                  \
    {                                                                                       \
        .theta = 5e5, .part = 1, .scaling = SYN_ROPE_LLAMA3, .factor = (factor_), .low = 1, \
        .high = 4, .original = 8192, .fast = 32, .slow = 1, .truncate = true                \
    }
#define PRESET(family_, name_, layers, hidden, heads, keys, inner, positions, vocab, ...)      \
    {                                                                                          \
        .family = &syn_##family_##_family, .name = name_, .n_layer = layers, .n_embd = hidden, \
        .n_head = heads, .n_kv_head = keys, .head_dim = (hidden) / (heads), .n_inner = inner,  \
        .n_positions = positions, .vocab_size = vocab, .initializer_range = 0.02, __VA_ARGS__  \
    }
#define LLAMA2(name_, layers, hidden, heads, keys, inner)                                       \
    PRESET(llama, name_, layers, hidden, heads, keys, inner, 4096, 32000, .norm_epsilon = 1e-5, \
           .rotary = SYN__ROTARY(1e4, 1), .end = {{2}, 1, 2, 1}, .dtype = "float16")
#define LLAMA3(name_, layers, hidden, heads, inner)                                           \
    PRESET(llama, name_, layers, hidden, heads, 8, inner, 8192, 128256, .norm_epsilon = 1e-5, \
           .rotary = SYN__ROTARY(5e5, 1), .end = {{128001}, 1, 128001, 128000},               \
           .dtype = "bfloat16")
#define QWEN25(name_, layers, hidden, heads, keys, inner, positions, vocab, tied_)               \
    PRESET(qwen2, name_, layers, hidden, heads, keys, inner, positions, vocab,                   \
           .norm_epsilon = 1e-6, .rotary = SYN__ROTARY(1e6, 1), .tied = tied_, .qkv_bias = true, \
           .end = {{151643}, 1, 151643, 151643}, .dtype = "bfloat16")

/* Sizes: Touvron et al. 2023, table 1, and Dubey et al. 2024, table 3. Positions, rotary theta and
   vocabularies: the released configurations. Llama 3 8b and 70b are those of the first release;
   405b was first released with Llama 3.1. */
static const syn_model_config llama_presets[] = {
    LLAMA2("llama-2-7b", 32, 4096, 32, 32, 11008),
    LLAMA2("llama-2-13b", 40, 5120, 40, 40, 13824),
    LLAMA2("llama-2-70b", 80, 8192, 64, 8, 28672),
    LLAMA3("llama-3-8b", 32, 4096, 32, 14336),
    LLAMA3("llama-3-70b", 80, 8192, 64, 28672),
    PRESET(llama, "llama-3-405b", 126, 16384, 128, 8, 53248, 131072, 128256, .norm_epsilon = 1e-5,
           .rotary = ROTARY_31(8), .end = {{128001}, 1, 128001, 128000}, .dtype = "bfloat16"),
};
static const syn_model_config mistral_presets[] = {
    PRESET(mistral, "mistral-7b", 32, 4096, 32, 8, 14336, 32768, 32000, .norm_epsilon = 1e-5,
           .rotary = SYN__ROTARY(1e4, 1), .windowed = true, .window = 4096, .end = {{2}, 1, 2, 1},
           .dtype = "bfloat16"),
};
/* Sizes: Qwen Team 2024, table 1. */
static const syn_model_config qwen2_presets[] = {
    QWEN25("qwen2.5-0.5b", 24, 896, 14, 2, 4864, 32768, 151936, true),
    QWEN25("qwen2.5-1.5b", 28, 1536, 12, 2, 8960, 131072, 151936, true),
    QWEN25("qwen2.5-3b", 36, 2048, 16, 2, 11008, 32768, 151936, true),
    QWEN25("qwen2.5-7b", 28, 3584, 28, 4, 18944, 131072, 152064, false),
    QWEN25("qwen2.5-14b", 48, 5120, 40, 8, 13824, 131072, 152064, false),
    QWEN25("qwen2.5-32b", 64, 5120, 40, 8, 27648, 131072, 152064, false),
    QWEN25("qwen2.5-72b", 80, 8192, 64, 8, 29568, 131072, 152064, false),
};

/* The defaults of transformers' configuration classes. */
#define DEFAULTS(family_, ...)                                                              \
    {                                                                                       \
        .family = &syn_##family_##_family, .norm_epsilon = 1e-6, .initializer_range = 0.02, \
        .rotary = SYN__ROTARY(1e4, 1), __VA_ARGS__                                          \
    }
#define QWEN_DEFAULTS(family_, ...)                                                             \
    DEFAULTS(family_, .n_positions = 32768, .n_kv_head = 32, .window = 4096, .full_layers = 28, \
             .end = SYN__NO_STOP_IDS, __VA_ARGS__)
static const syn_model_config llama_defaults =
                                  DEFAULTS(llama, .n_positions = 2048, .end = SYN__STOP_IDS(2, 1)),
                              mistral_defaults = DEFAULTS(
                                  mistral, .n_positions = 131072, .n_kv_head = 8, .windowed = true,
                                  .window = 4096, .end = SYN__STOP_IDS(2, 1)),
                              qwen2_defaults = QWEN_DEFAULTS(qwen2, .qkv_bias = true),
                              qwen3_defaults =
                                  QWEN_DEFAULTS(qwen3, .head_dim = 128, .head_norm = true);

static syn_status read_activation(syn__settings *s, void *member) {
    char shown[64];
    (void)member;
    SYN_TRY(syn__config_string(s));
    if (syn__settings_text_is(s, "silu") || syn__settings_text_is(s, "swish")) return SYN_OK;
    return syn__settings_fail(
        s, "\"%s\" must be \"silu\", not \"%s\": this model supports no other value", s->path,
        syn__settings_shown(s, shown));
}

/* Reads a list with one entry per layer, which must be "full_attention" for the first layers, if
   any, and "sliding_attention" for all others. */
static syn_status read_layer_types(syn__settings *s, void *member) {
    syn__config_file *file = member;
    syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type != SYN_JSON_ARRAY_BEGIN)
        return syn__settings_fail(s, "\"%s\" must be a list or null", s->path);
    while ((type = syn_json_next(&s->json)) == SYN_JSON_STRING) {
        const bool full = syn__settings_text_is(s, "full_attention");
        if ((!full && !syn__settings_text_is(s, "sliding_attention")) ||
            (full && file->full_layers < file->layer_types))
            return syn__settings_fail(s,
                                      "\"%s\" must be \"full_attention\" for the first layers, "
                                      "then \"sliding_attention\" for all others",
                                      s->path);
        file->layer_types++;
        file->full_layers += full;
    }
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_ARRAY_END && file->layer_types > 0) return SYN_OK;
    return syn__settings_fail(s, "\"%s\" must be a list of strings, one for each layer", s->path);
}

#define COMMON_ROWS                                                                        \
    SYN__ROWS_NAMES, SYN__ROWS_LAYERS,                                                     \
        SYN__ROW_I64("num_key_value_heads", SYN__NONE | SYN__SAVED, SYN__AT(n_kv_head), 1, \
                     SYN__MAX_EMBD),                                                       \
        SYN__ROW_I64("head_dim", SYN__OPTIONAL, SYN__AT(head_dim), 1, SYN__MAX_EMBD),      \
        SYN__ROWS_WIDTHS, SYN__ROWS_NUMBERS("rms_norm_eps"),                               \
        SYN__ROW_CUSTOM("hidden_act", 0, read_activation),                                 \
        SYN__ROW_DROPOUT("attention_dropout", attention),                                  \
        SYN__ROW_BOOL("tie_word_embeddings", SYN__SAVED, SYN__AT(tied)), SYN__ROWS_ROTARY, \
        SYN__ROWS_STOP_IDS, SYN__ROWS_DECODER_ONLY,                                        \
        SYN__ROW_CUSTOM("rope_interleaved", 0, syn__config_false),                         \
        SYN__ROW_CUSTOM("use_mrope", 0, syn__config_false),                                \
        SYN__ROW_CUSTOM("layer_types", 0, read_layer_types)

#define ATTENTION_BIAS SYN__ROW_BOOL("attention_bias", SYN__SAVED, SYN__AT(attention_bias))
#define WINDOW \
    SYN__ROW_I64("sliding_window", SYN__NONE | SYN__SAVED, SYN__AT(window), 1, SYN__MAX_POSITIONS)
/* With use_sliding_window, the layers from number max_window_layers on use the window. */
#define QWEN_WINDOW                                                             \
    WINDOW, SYN__ROW_BOOL("use_sliding_window", SYN__SAVED, SYN__AT(windowed)), \
        SYN__ROW_I64("max_window_layers", SYN__SAVED, SYN__AT(full_layers), 0, SYN__MAX_LAYERS)

static const syn__setting llama_rows[] = {COMMON_ROWS, ATTENTION_BIAS,
                                          SYN__ROW_CUSTOM("sliding_window", 0, syn__config_null),
                                          SYN__ROW_BOOL("mlp_bias", SYN__SAVED, SYN__AT(mlp_bias))};
static const syn__setting mistral_rows[] = {COMMON_ROWS, WINDOW};
static const syn__setting qwen2_rows[] = {COMMON_ROWS, QWEN_WINDOW};
static const syn__setting qwen3_rows[] = {COMMON_ROWS, ATTENTION_BIAS, QWEN_WINDOW};

/* In Qwen, the layer types select the layers that use the window. They have no effect in Llama,
   where no layer uses a window, and in Mistral, where all layers use the same one. There, types
   that differ between layers, or ask for a window that the model does not have, are rejected,
   because transformers fails with them. */
static syn_status check_layer_types(syn__settings *s, const syn__setting_table *table,
                                    syn__config_file *file) {
    syn_model_config *c = &file->config;
    const bool alike = c->family == &syn_llama_family || c->family == &syn_mistral_family;
    const bool window = c->windowed && c->window > 0;
    if (file->layer_types == 0) return SYN_OK;
    if (file->layer_types != c->n_layer)
        return syn__settings_fail_at(s, table, "layer_types",
                                     "\"layer_types\" has %lld entries for %lld layers",
                                     (long long)file->layer_types, (long long)c->n_layer);
    if (!alike) c->full_layers = file->full_layers;
    if (!alike || file->full_layers == c->n_layer || (window && file->full_layers == 0))
        return SYN_OK;
    return syn__settings_fail_at(
        s, table, "layer_types", "\"layer_types\": all layers of this %s must have %s",
        c->family->title, window ? "the same \"sliding_window\"" : "full attention");
}

static syn_status check_file(syn__settings *s, const syn__setting_table *table,
                             syn__config_file *file) {
    syn_model_config *c = &file->config;
    const bool given = syn__settings_key(s, table, SYN__AT(n_kv_head)) != NULL;
    if (c->n_kv_head < 1) c->n_kv_head = c->n_head;
    if (c->head_dim == 0) c->head_dim = c->n_embd / c->n_head;
    if (c->n_head % c->n_kv_head != 0)
        return syn__settings_fail_at(
            s, table, "num_key_value_heads",
            "\"num_key_value_heads\" %lld%s does not divide \"num_attention_heads\" %lld",
            (long long)c->n_kv_head, given ? "" : ", the default,", (long long)c->n_head);
    SYN_TRY(check_layer_types(s, table, file));
    return syn__rotary_check(s, table, file);
}

#define FAMILY(name_, title_, class, ...)                                                        \
    {                                                                                            \
        .name = #name_, .title = title_, .types = (const char *const[]){#name_, NULL},           \
        .tokenizer = SYN_TOKENIZER_BPE, .defaults = &name_##_defaults,                           \
        .fields = &(const syn__setting_table)SYN__MODEL_TABLE_OF(name_##_rows),                  \
        .check_file = check_file, .architecture = class, .prefix = "model.", .layers = "layers", \
        .attention = "self_attn", .embed_rows = embed_rows, .layer_rows = layer_rows,            \
        .head_rows = head_rows, .out_in = true, .params_bytes = sizeof(struct llama),            \
        .layer_bytes = sizeof(struct llama_layer), .layer = layer, .embed = embed,               \
        .head_scope = "lm_head", __VA_ARGS__                                                     \
    }

const syn_model_family syn_llama_family =
                           FAMILY(llama, "Llama", "LlamaForCausalLM", SYN__PRESETS(llama_presets)),
                       syn_mistral_family = FAMILY(mistral, "Mistral", "MistralForCausalLM",
                                                   SYN__PRESETS(mistral_presets)),
                       syn_qwen2_family =
                           FAMILY(qwen2, "Qwen2", "Qwen2ForCausalLM", SYN__PRESETS(qwen2_presets)),
                       syn_qwen3_family =
                           FAMILY(qwen3, "Qwen3", "Qwen3ForCausalLM", .presets = NULL);
