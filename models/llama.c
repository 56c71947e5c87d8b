/* Llama (Touvron et al. 2023) and three families with the same layers: Mistral (Jiang et al. 2023),
   Qwen2 and Qwen3 (Yang et al. 2024, 2025). A layer has RMSNorm before each branch, rotary
   embedding, grouped-query attention and SwiGLU. With tensor parallelism, attention is sharded by
   heads, the MLP is column- then row-parallel, and the token embedding is sharded by vocabulary
   rows. The families differ only in names, defaults, presets and configuration keys, so they share
   this file. */
#include <stdio.h>
#include <string.h>

#include "models/llama_private.h"

#define AT(member) offsetof(struct llama, member)
#define IN(member) offsetof(struct llama_layer, member)

const syn__param_row syn__llama_embed_rows[] = {
    {"embed_tokens", SYN__VOCAB_TABLE, SYN__DIM_VOCAB, SYN__DIM_HIDDEN, .at = AT(tokens)}, {0}};

static const syn__param_row layer_rows[] = {
    SYN__LLAMA_ATTENTION_ROWS(IN), SYN__LLAMA_MLP_ROWS(IN, 0), {0}};

const syn__param_row syn__llama_head_rows[] = {
    {"norm", SYN__RMS_NORM, 0, SYN__DIM_HIDDEN, .at = AT(norm)},
    {"lm_head", SYN__VOCAB_TABLE, SYN__DIM_VOCAB, SYN__DIM_HIDDEN, .at = AT(lm_head),
     .flags = SYN__NO_PREFIX, .tied = "embed_tokens"},
    {0}};

/* ---- computation ---- */

/* tokens (B, T) -> (B, T, C) */
syn_tensor syn__llama_embed(syn_model *m, syn_tensor tokens) {
    const struct llama *llama = m->params;
    syn_push_scope(m->ctx, "embed_tokens");
    syn_tensor x = syn__model_embed(m, llama->tokens, tokens);
    x = syn__model_scale(m, x, m->config.embedding_factor, "scaled");
    syn_pop_scope(m->ctx);
    return x;
}

/* x (B, T, H D/tp) -> heads (B, H/tp, T, D), normalized if the model has norms of queries and keys,
   then with the rotary embedding of layer i applied. copies: number of ranks with the same
   heads. */
static syn_tensor rotated(syn_model *m, int64_t i, syn_tensor x, const syn_layer_norm *norm,
                          int copies, const char *label) {
    const bool wide = m->config.wide_norm;
    if (wide) x = syn__model_wide_norm(m, x, norm, copies, label);
    x = syn_heads_split(m->ctx, x, syn__model_head_dim(m));
    if (norm->weight.id && !wide) x = syn__model_shared_norm(m, x, norm, label);
    return syn__model_apply_layer_rotary(m, i, x);
}

syn_tensor syn__llama_attention(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    const struct llama_layer *l = layer;
    const int copies = syn_model_kv_ranks(&m->config, syn__model_tp(m));
    x = syn__model_enter(m, x); /* once for q, k and v */
    syn_tensor q = syn_column_linear(m->ctx, x, &l->q, false, NULL, "q_proj");
    syn_tensor k = syn__model_kv_linear(m, x, &l->k, "k_proj");
    syn_tensor v = syn__model_kv_linear(m, x, &l->v, "v_proj");
    q = rotated(m, i, q, &l->q_norm, 1, "q_norm");
    k = rotated(m, i, k, &l->k_norm, copies, "k_norm");
    v = syn_heads_split(m->ctx, v, syn__model_head_dim(m));
    const syn_tensor keys = syn__causal_keys(m, i, k), values = syn__causal_values(m, i, v);
    return syn__model_attend(m, i, q, keys, values);
}

syn_tensor syn__llama_gated(syn_model *m, syn_tensor x, const syn_layer_linear *gate,
                            const syn_layer_linear *up) {
    const syn_tensor a = syn_column_linear(m->ctx, x, gate, false, NULL, "gate_proj");
    const syn_tensor b = syn_column_linear(m->ctx, x, up, false, NULL, "up_proj");
    return syn_swiglu(m->ctx, a, b);
}

syn_tensor syn__llama_mlp(syn_model *m, const void *layer, int64_t i, syn_tensor x) {
    const struct llama_layer *l = layer;
    (void)i;
    return syn__llama_gated(m, syn__model_enter(m, x), &l->gate, &l->up);
}

syn_tensor syn__llama_layer(syn_model *m, void *layer, int64_t i, syn_tensor x) {
    const struct llama_layer *l = layer;
    const syn__branch branches[2] = {SYN__LLAMA_ATTENTION_BRANCH(l), SYN__LLAMA_MLP_BRANCH(l)};
    return syn__model_sequential(m, l, i, x, branches);
}

/* ---- configurations ---- */

#define ROTARY_31(factor_)                                                                  \
    {                                                                                       \
        .theta = 5e5, .part = 1, .scaling = SYN_ROPE_LLAMA3, .factor = (factor_), .low = 1, \
        .high = 4, .original = 8192, .fast = 32, .slow = 1, .truncate = true                \
    }
#define LLAMA2(name_, layers, hidden, heads, keys, inner)                                         \
    SYN__LLAMA_PRESET(llama, name_, layers, hidden, heads, keys, inner, 4096, 32000,              \
                      .norm_epsilon = 1e-5, .rotary = SYN__ROTARY(1e4, 1), .end = {{2}, 1, 2, 1}, \
                      .dtype = "float16")
#define LLAMA3(name_, layers, hidden, heads, inner)                                \
    SYN__LLAMA_PRESET(llama, name_, layers, hidden, heads, 8, inner, 8192, 128256, \
                      .norm_epsilon = 1e-5, .rotary = SYN__ROTARY(5e5, 1),         \
                      .end = {{128001}, 1, 128001, 128000}, .dtype = "bfloat16")
#define LLAMA31(name_, layers, hidden, heads, inner)                                 \
    SYN__LLAMA_PRESET(llama, name_, layers, hidden, heads, 8, inner, 131072, 128256, \
                      .norm_epsilon = 1e-5, .rotary = ROTARY_31(8),                  \
                      .end = {{128001}, 1, 128001, 128000}, .dtype = "bfloat16")
#define QWEN3(name_, layers, hidden, heads, inner, tied_)                                         \
    {                                                                                             \
        .family = &syn_qwen3_family, .name = name_, .n_layer = layers, .n_embd = hidden,          \
        .n_head = heads, .n_kv_head = 8, .head_dim = 128, .n_inner = inner, .n_positions = 40960, \
        .vocab_size = 151936, .initializer_range = 0.02, .norm_epsilon = 1e-6,                    \
        .rotary = SYN__ROTARY(1e6, 1), .tied = tied_, .head_norm = true,                          \
        .end = {{151645}, 1, 151643, 151643}, .dtype = "bfloat16"                                 \
    }
#define QWEN25(name_, layers, hidden, heads, keys, inner, positions, vocab, tied_)        \
    SYN__LLAMA_PRESET(qwen2, name_, layers, hidden, heads, keys, inner, positions, vocab, \
                      .norm_epsilon = 1e-6, .rotary = SYN__ROTARY(1e6, 1), .tied = tied_, \
                      .qkv_bias = true, .end = {{151643}, 1, 151643, 151643}, .dtype = "bfloat16")

/* Sizes: Touvron et al. 2023, table 1, and Dubey et al. 2024, table 3. Positions, rotary theta and
   vocabularies: the released configurations. Llama 3 8b and 70b are those of the first release,
   with 8192 positions; 405b was released with Llama 3.1, and has both names. */
static const syn_model_config llama_presets[] = {
    LLAMA2("llama-2-7b", 32, 4096, 32, 32, 11008),
    LLAMA2("llama-2-13b", 40, 5120, 40, 40, 13824),
    LLAMA2("llama-2-70b", 80, 8192, 64, 8, 28672),
    LLAMA3("llama-3-8b", 32, 4096, 32, 14336),
    LLAMA3("llama-3-70b", 80, 8192, 64, 28672),
    LLAMA31("llama-3.1-8b", 32, 4096, 32, 14336),
    LLAMA31("llama-3.1-70b", 80, 8192, 64, 28672),
    LLAMA31("llama-3-405b", 126, 16384, 128, 53248),
    LLAMA31("llama-3.1-405b", 126, 16384, 128, 53248),
};
static const syn_model_config mistral_presets[] = {
    SYN__LLAMA_PRESET(mistral, "mistral-7b", 32, 4096, 32, 8, 14336, 32768, 32000,
                      .norm_epsilon = 1e-5, .rotary = SYN__ROTARY(1e4, 1), .windowed = true,
                      .window = 4096, .end = {{2}, 1, 2, 1}, .dtype = "bfloat16"),
};
/* Sizes and vocabulary: the released configurations. */
static const syn_model_config qwen3_presets[] = {
    QWEN3("qwen3-0.6b", 28, 1024, 16, 3072, true),  QWEN3("qwen3-1.7b", 28, 2048, 16, 6144, true),
    QWEN3("qwen3-4b", 36, 2560, 32, 9728, true),    QWEN3("qwen3-8b", 36, 4096, 32, 12288, false),
    QWEN3("qwen3-14b", 40, 5120, 40, 17408, false), QWEN3("qwen3-32b", 64, 5120, 64, 25600, false),
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

#define QWEN_DEFAULTS(family_, ...)                                                     \
    SYN__LLAMA_DEFAULTS(family_, .n_positions = 32768, .n_kv_head = 32, .window = 4096, \
                        .full_layers = 28, .end = SYN__NO_STOP_IDS, __VA_ARGS__)
static const syn_model_config llama_defaults = SYN__LLAMA_DEFAULTS(llama, .n_positions = 2048,
                                                                   .end = SYN__STOP_IDS(2, 1)),
                              mistral_defaults = SYN__LLAMA_DEFAULTS(
                                  mistral, .n_positions = 131072, .n_kv_head = 8, .windowed = true,
                                  .window = 4096, .end = SYN__STOP_IDS(2, 1)),
                              qwen2_defaults = QWEN_DEFAULTS(qwen2, .qkv_bias = true),
                              qwen3_defaults =
                                  QWEN_DEFAULTS(qwen3, .head_dim = 128, .head_norm = true);

syn_status syn__llama_activation(syn__settings *s, void *member) {
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
syn_status syn__llama_layer_types(syn__settings *s, void *member) {
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

syn_status syn__llama_read_layer_types(syn__settings *s, void *member) {
    syn__config_file *file = member;
    syn_json_type type = syn_json_next(&s->json);
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type != SYN_JSON_ARRAY_BEGIN)
        return syn__settings_fail(s, "\"%s\" must be a list or null", s->path);
    while ((type = syn_json_next(&s->json)) == SYN_JSON_STRING) {
        const bool full = syn__settings_text_is(s, "full_attention");
        if (!full && !syn__settings_text_is(s, "sliding_attention")) break;
        if (full && file->layer_types < SYN_MAX_SET_LAYERS)
            syn_layer_set_add(&file->full_types, file->layer_types);
        file->layer_types++;
    }
    if (type == SYN_JSON_ERROR) return s->error.code;
    if (type == SYN_JSON_ARRAY_END && file->layer_types > 0) return SYN_OK;
    return syn__settings_fail(
        s, "\"%s\" must be a list of \"full_attention\" and \"sliding_attention\"", s->path);
}

void syn__llama_write_layer_types(syn_sink *out, const void *config) {
    const syn_model_config *c = config;
    syn_sink_text(out, ",\n  \"layer_types\": [");
    for (int64_t i = 0; i < c->n_layer; i++)
        syn_sink_printf(out, "%s\"%s_attention\"", i ? ", " : "",
                        syn_model_layer_window(c, i) ? "sliding" : "full");
    syn_sink_text(out, "]");
}

syn_status syn__llama_set_layer_types(syn__settings *s, const syn__setting_table *table,
                                      syn__config_file *file, const syn_layer_set *otherwise) {
    syn_model_config *c = &file->config;
    const bool listed = file->layer_types > 0;
    int64_t windows = 0;
    if (c->n_layer > SYN_MAX_SET_LAYERS)
        return syn__settings_fail(s, "a %s can have at most %d layers", c->family->title,
                                  SYN_MAX_SET_LAYERS);
    if (listed && file->layer_types != c->n_layer)
        return syn__settings_fail_at(s, table, "layer_types",
                                     "\"layer_types\" has %lld entries for %lld layers",
                                     (long long)file->layer_types, (long long)c->n_layer);
    c->full = listed ? file->full_types : *otherwise;
    for (int64_t i = 0; i < c->n_layer; i++) windows += !syn_layer_set_has(&c->full, i);
    if ((listed || c->windowed) && windows > 0 && c->window <= 0)
        return syn__settings_fail_at(s, table, listed ? "layer_types" : "sliding_window",
                                     "layers with \"sliding_attention\" need a \"sliding_window\"");
    if (listed) c->windowed = windows > 0;
    if (!c->windowed || c->window <= 0) memset(&c->full, 0, sizeof c->full);
    file->layer_types = 0; /* done */
    return SYN_OK;
}

#define QWEN_WINDOW SYN__LLAMA_WINDOW(1), SYN__LLAMA_USE_WINDOW, SYN__LLAMA_WINDOW_LAYERS

static const syn__setting llama_rows[] = {SYN__LLAMA_COMMON_ROWS, SYN__LLAMA_ATTENTION_BIAS,
                                          SYN__ROW_CUSTOM("sliding_window", 0, syn__config_null),
                                          SYN__ROW_BOOL("mlp_bias", SYN__SAVED, SYN__AT(mlp_bias))};
static const syn__setting mistral_rows[] = {SYN__LLAMA_COMMON_ROWS, SYN__LLAMA_WINDOW(1)};
static const syn__setting qwen2_rows[] = {SYN__LLAMA_COMMON_ROWS, QWEN_WINDOW};
static const syn__setting qwen3_rows[] = {SYN__LLAMA_COMMON_ROWS, SYN__LLAMA_ATTENTION_BIAS,
                                          QWEN_WINDOW};

/* In Qwen, the layer types select the layers that use the window. They have no effect in families
   like Llama, where no layer uses a window, and Mistral, where all layers use the same one. There,
   types that differ between layers, or ask for a window that the model does not have, are rejected,
   because transformers fails with them or ignores them. */
static syn_status check_layer_types(syn__settings *s, const syn__setting_table *table,
                                    syn__config_file *file) {
    syn_model_config *c = &file->config;
    const bool alike = c->family->same_layers;
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

syn_status syn__llama_check_file(syn__settings *s, const syn__setting_table *table,
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

#define FAMILY(name_, title_, class_, ...)                                                     \
    SYN__LLAMA_FAMILY(name_, title_, class_, layer_rows, syn__llama_layer, struct llama_layer, \
                      __VA_ARGS__)

const syn_model_family syn_llama_family = FAMILY(llama, "Llama", "LlamaForCausalLM",
                                                 .same_layers = true, SYN__PRESETS(llama_presets)),
                       syn_mistral_family =
                           FAMILY(mistral, "Mistral", "MistralForCausalLM", .same_layers = true,
                                  SYN__PRESETS(mistral_presets)),
                       syn_qwen2_family =
                           FAMILY(qwen2, "Qwen2", "Qwen2ForCausalLM", SYN__PRESETS(qwen2_presets)),
                       syn_qwen3_family =
                           FAMILY(qwen3, "Qwen3", "Qwen3ForCausalLM", SYN__PRESETS(qwen3_presets));
