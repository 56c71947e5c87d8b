/* Internal. What the families with Llama's layers share: their parameters, computation and
 * configuration keys. models/llama.c has the families with one MLP per layer, models/llama_moe.c
 * those with experts. */
#ifndef MODELS_LLAMA_PRIVATE_H
#define MODELS_LLAMA_PRIVATE_H

#include "models/family_private.h"

#ifdef __cplusplus
extern "C" {
#endif

struct llama {
    syn_tensor tokens, lm_head; /* if tied, lm_head is tokens */
    syn_layer_norm norm;
};

struct llama_layer {
    syn_layer_norm input_norm, post_norm, q_norm, k_norm;
    syn_layer_norm after_attention, after_mlp; /* norms of the branches' outputs */
    syn_layer_linear q, k, v, o, gate, up, down;
};

extern const syn__param_row syn__llama_embed_rows[], syn__llama_head_rows[];

/* Rows of a layer. in: the offset of a member of struct llama_layer. norm_: the kind of the norms
 * before attention and MLP. */
#define SYN__LLAMA_ATTENTION_ROWS(in) SYN__LLAMA_ATTENTION_ROWS_AS(in, SYN__RMS_NORM)
#define SYN__LLAMA_ATTENTION_ROWS_AS(in, norm_)                                    \
    {"input_layernorm", norm_, 0, SYN__DIM_HIDDEN, .at = in(input_norm)},          \
        SYN__LLAMA_QKVO_ROWS(in, SYN__DIM_HEAD, SYN__DIM_HEAD), {                  \
        "post_attention_layernorm", norm_, 0, SYN__DIM_HIDDEN, .at = in(post_norm) \
    }
/* Without those norms. q_dim, k_dim: the widths of the norms of queries and keys. */
#define SYN__LLAMA_QKVO_ROWS(in, q_dim, k_dim)                                                    \
    {"self_attn.q_proj", SYN__COLUMN_LINEAR, SYN__DIM_HIDDEN,                                     \
     SYN__DIM_QUERIES,   .at = in(q),        .flags = SYN__QKV_BIAS},                             \
        {"self_attn.k_proj",          SYN__COLUMN_LINEAR, SYN__DIM_HIDDEN,       SYN__DIM_KEYS,   \
         .layout = SYN__SHARED_HEADS, .at = in(k),        .flags = SYN__QKV_BIAS},                \
        {"self_attn.v_proj",          SYN__COLUMN_LINEAR, SYN__DIM_HIDDEN,       SYN__DIM_KEYS,   \
         .layout = SYN__SHARED_HEADS, .at = in(v),        .flags = SYN__QKV_BIAS},                \
        {"self_attn.q_norm", SYN__RMS_NORM, 0, q_dim, .at = in(q_norm), .flags = SYN__HEAD_NORM}, \
        {"self_attn.k_norm", SYN__RMS_NORM, 0, k_dim, .at = in(k_norm), .flags = SYN__HEAD_NORM}, \
        {"self_attn.o_proj", SYN__ROW_LINEAR, SYN__DIM_QUERIES,                                   \
         SYN__DIM_HIDDEN,    .at = in(o),     .flags = SYN__OUT_BIAS | SYN__RESIDUAL},            \
    {                                                                                             \
        "self_attn.rotary_emb.inv_freq", .kind = SYN__IGNORED                                     \
    }
/* extra: further flags */
#define SYN__LLAMA_MLP_ROWS(in, extra)                                          \
    {"mlp.gate_proj", SYN__COLUMN_LINEAR, SYN__DIM_HIDDEN,                      \
     SYN__DIM_INNER,  .at = in(gate),     .flags = SYN__MLP_BIAS | (extra)},    \
        {"mlp.up_proj",  SYN__COLUMN_LINEAR, SYN__DIM_HIDDEN,                   \
         SYN__DIM_INNER, .at = in(up),       .flags = SYN__MLP_BIAS | (extra)}, \
    {                                                                           \
        "mlp.down_proj", SYN__ROW_LINEAR, SYN__DIM_INNER, SYN__DIM_HIDDEN,      \
            .at = in(down), .flags = SYN__MLP_BIAS | SYN__RESIDUAL | (extra)    \
    }

syn_tensor syn__llama_embed(syn_model *m, syn_tensor tokens);
/* The insides of a layer's branches (syn__branch). layer: a struct llama_layer. */
syn_tensor syn__llama_attention(syn_model *m, const void *layer, int64_t i, syn_tensor x);
syn_tensor syn__llama_mlp(syn_model *m, const void *layer, int64_t i, syn_tensor x);
/* gate, up: this rank's columns, x (..., C) -> silu(gate x) * (up x). */
syn_tensor syn__llama_gated(syn_model *m, syn_tensor x, const syn_layer_linear *gate,
                            const syn_layer_linear *up);
syn_tensor syn__llama_layer(syn_model *m, void *layer, int64_t i, syn_tensor x);
#define SYN__LLAMA_ATTENTION_BRANCH(layer)                                                       \
    {                                                                                            \
        "self_attn", &(layer)->input_norm, "input_layernorm", syn__llama_attention, &(layer)->o, \
            "o_proj", SYN__SITE_ATTENTION_OUT                                                    \
    }
#define SYN__LLAMA_MLP_BRANCH(layer)                                                            \
    {                                                                                           \
        "mlp", &(layer)->post_norm, "post_attention_layernorm", syn__llama_mlp, &(layer)->down, \
            "down_proj", SYN__SITE_MLP_OUT                                                      \
    }

/* ---- configurations ---- */

#define SYN__LLAMA_PRESET(family_, name_, layers, hidden, heads, keys, inner, positions, vocab, \
                          ...)                                                                  \
    {                                                                                           \
        .family = &syn_##family_##_family, .name = name_, .n_layer = layers, .n_embd = hidden,  \
        .n_head = heads, .n_kv_head = keys, .head_dim = (hidden) / (heads), .n_inner = inner,   \
        .n_positions = positions, .vocab_size = vocab, .initializer_range = 0.02, __VA_ARGS__   \
    }
/* The defaults of transformers' configuration classes. */
#define SYN__LLAMA_DEFAULTS(family_, ...)                                                   \
    {                                                                                       \
        .family = &syn_##family_##_family, .norm_epsilon = 1e-6, .initializer_range = 0.02, \
        .rotary = SYN__ROTARY(1e4, 1), __VA_ARGS__                                          \
    }
#define SYN__LLAMA_COMMON_ROWS                                                                \
    SYN__LLAMA_ROWS("rms_norm_eps"), SYN__ROW_CUSTOM("hidden_act", 0, syn__llama_activation), \
        SYN__ROW_CUSTOM("layer_types", 0, syn__llama_layer_types)
/* The same without the activation and the types of layers, and with another key of the norms'
 * epsilon. */
#define SYN__LLAMA_ROWS(epsilon_key) SYN__LLAMA_ROWS_BUT_ROTARY(epsilon_key), SYN__ROWS_ROTARY
#define SYN__LLAMA_ROWS_BUT_ROTARY(epsilon_key)                                       \
    SYN__LLAMA_SIZE_ROWS,                                                             \
        SYN__ROW_I64("head_dim", SYN__OPTIONAL, SYN__AT(head_dim), 1, SYN__MAX_EMBD), \
        SYN__LLAMA_OTHER_ROWS(epsilon_key)
#define SYN__LLAMA_SIZE_ROWS                                                               \
    SYN__ROWS_NAMES, SYN__ROWS_LAYERS,                                                     \
        SYN__ROW_I64("num_key_value_heads", SYN__NONE | SYN__SAVED, SYN__AT(n_kv_head), 1, \
                     SYN__MAX_EMBD)
#define SYN__LLAMA_OTHER_ROWS(epsilon_key)                                                   \
    SYN__ROWS_WIDTHS, SYN__ROWS_NUMBERS(epsilon_key),                                        \
        SYN__ROW_DROPOUT("attention_dropout", attention),                                    \
        SYN__ROW_BOOL("tie_word_embeddings", SYN__SAVED, SYN__AT(tied)), SYN__ROWS_STOP_IDS, \
        SYN__ROWS_DECODER_ONLY, SYN__ROW_CUSTOM("rope_interleaved", 0, syn__config_false),   \
        {.key = "num_nextn_predict_layers",                                                  \
         .type = SYN__SETTING_CUSTOM,                                                        \
         .flags = SYN__SAVED,                                                                \
         .offset = SYN__AT(mtp),                                                             \
         .read = syn__config_mtp,                                                            \
         .write = syn__config_mtp_write},                                                    \
        SYN__ROW_CUSTOM("num_mtp_layers", SYN__AT(mtp), syn__config_mtp),                    \
        SYN__ROW_CUSTOM("use_mrope", 0, syn__config_false)
#define SYN__LLAMA_ATTENTION_BIAS \
    SYN__ROW_BOOL("attention_bias", SYN__SAVED, SYN__AT(attention_bias))
/* lowest 0: 0 is accepted, and means no window */
#define SYN__LLAMA_WINDOW(lowest)                                                   \
    SYN__ROW_I64("sliding_window", SYN__NONE | SYN__SAVED, SYN__AT(window), lowest, \
                 SYN__MAX_POSITIONS)
/* With use_sliding_window, the layers from number max_window_layers on use the window. */
#define SYN__LLAMA_USE_WINDOW SYN__ROW_BOOL("use_sliding_window", SYN__SAVED, SYN__AT(windowed))
#define SYN__LLAMA_WINDOW_LAYERS \
    SYN__ROW_I64("max_window_layers", SYN__SAVED, SYN__AT(full_layers), 0, SYN__MAX_LAYERS)

/* In families whose layers may have different attention: reads layer_types into a syn__config_file,
 * and writes those of a configuration. */
#define SYN__LLAMA_LAYER_TYPES                                                     \
    {                                                                              \
        .key = "layer_types", .type = SYN__SETTING_CUSTOM, .flags = SYN__SAVED,    \
        .read = syn__llama_read_layer_types, .write = syn__llama_write_layer_types \
    }
syn_status syn__llama_read_layer_types(syn__settings *s, void *file) SYN_MUST_USE;
void syn__llama_write_layer_types(syn_sink *out, const void *config);
/* Sets the layers with full attention: those of the file's layer_types or, without this key, those
 * in `otherwise`. */
syn_status syn__llama_set_layer_types(syn__settings *s, const syn__setting_table *table,
                                      syn__config_file *file,
                                      const syn_layer_set *otherwise) SYN_MUST_USE;

syn_status syn__llama_activation(syn__settings *s, void *member) SYN_MUST_USE;
syn_status syn__llama_layer_types(syn__settings *s, void *member) SYN_MUST_USE;
syn_status syn__llama_check_file(syn__settings *s, const syn__setting_table *table,
                                 syn__config_file *file) SYN_MUST_USE;

/* Members of a family: its rows of keys are name_rows, its defaults name_defaults. */
#define SYN__LLAMA_FAMILY(name_, title_, class_, layer_rows_, layer_, layer_struct, ...) \
    SYN__LLAMA_FAMILY_AS(name_, title_, class_, layer_rows_, layer_, layer_struct,       \
                         syn__llama_embed, syn__llama_check_file, __VA_ARGS__)
/* The same for a family with an embedding or conditions of its own. */
#define SYN__LLAMA_FAMILY_AS(name_, title_, class_, layer_rows_, layer_, layer_struct, embed_,    \
                             check_, ...)                                                         \
    {                                                                                             \
        .name = #name_, .title = title_, .types = (const char *const[]){#name_, NULL},            \
        .tokenizer = SYN_TOKENIZER_BPE, .defaults = &name_##_defaults,                            \
        .fields = &(const syn__setting_table)SYN__MODEL_TABLE_OF(name_##_rows),                   \
        .check_file = check_, .architecture = class_, .prefix = "model.", .layers = "layers",     \
        .attention = "self_attn", .embed_rows = syn__llama_embed_rows, .layer_rows = layer_rows_, \
        .head_rows = syn__llama_head_rows, .out_in = true, .params_bytes = sizeof(struct llama),  \
        .layer_bytes = sizeof(layer_struct), .layer = layer_, .embed = embed_,                    \
        .head_scope = "lm_head", __VA_ARGS__                                                      \
    }

#ifdef __cplusplus
}
#endif
#endif
