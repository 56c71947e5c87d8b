/* Shape of a GPT: presets and HuggingFace-style JSON. GPT-2 and GPT-3 are configurations of one
 * model. */
#ifndef MODELS_GPT_CONFIG_H
#define MODELS_GPT_CONFIG_H

#include "models/gpt_ending.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn_gpt_config {
    char name[64]; /* preset's name, or the file's "name"/"_name_or_path"/base name */
    int64_t n_layer, n_embd, n_head;
    int64_t n_positions; /* longest context */
    int64_t n_inner;     /* width of the MLP; 4 n_embd if the file gives none */
    int64_t vocab_size;  /* V0: without padding */
    double layer_norm_epsilon;
    double initializer_range; /* deviation of random weights; residual projections: divided by
                                 sqrt(2 n_layer) */
    bool gelu_tanh;           /* gelu_new (GPT-2), or erf gelu */
    bool tied;                /* the head is the token embedding */
    syn_gpt_ending end;       /* what ends a text */
} syn_gpt_config;

/* gpt2, gpt2-medium, gpt2-large, gpt2-xl, gpt3-125m ... gpt3-175b, megatron-22b, -530b, -1t.
 * NULL-ended names. */
const char *const *syn_gpt_presets(void);
syn_status syn_gpt_config_preset(syn_gpt_config *config, const char *name,
                                 syn_error *err) SYN_MUST_USE;
/* HuggingFace's config.json of a GPT-2 (n_layer, n_embd, n_head, n_positions or n_ctx, n_inner,
   vocab_size, layer_norm_epsilon, initializer_range, activation_function, tie_word_embeddings,
   eos_token_id, pad_token_id) or the same under the general names num_hidden_layers, hidden_size,
   num_attention_heads, max_position_embeddings, intermediate_size. Other keys are ignored. n_ctx
   counts only without n_positions; ids outside the vocabulary never end a text. Every number is
   range-checked; what is missing and has no default is named. */
syn_status syn_gpt_config_load(syn_gpt_config *config, const char *path,
                               syn_error *err) SYN_MUST_USE;
syn_status syn_gpt_config_parse(syn_gpt_config *config, const char *name, const char *json,
                                size_t bytes, syn_error *err) SYN_MUST_USE;
/* The same as HuggingFace's config.json, which syn_gpt_config_load and transformers read. */
syn_status syn_gpt_config_save(const syn_gpt_config *config, const char *path,
                               syn_error *err) SYN_MUST_USE;
/* Whether the model can be cut for tp ranks; names the numbers that do not divide. */
syn_status syn_gpt_config_check(const syn_gpt_config *config, int tp, syn_error *err) SYN_MUST_USE;
/* Parameters of the whole model: L(12h^2+13h) + (V+S)h + 2h when n_inner = 4h and tied. */
int64_t syn_gpt_config_params(const syn_gpt_config *config);
/* Rows of the stored vocabulary: V0 rounded up to a multiple of divisor * tp. */
int64_t syn_gpt_padded_vocab(const syn_gpt_config *config, int tp, int64_t divisor);

#ifdef __cplusplus
}
#endif
#endif
