/* Shape of a BERT: presets and HuggingFace's JSON. */
#ifndef MODELS_BERT_CONFIG_H
#define MODELS_BERT_CONFIG_H

#include "syntorch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn_bert_config {
    char name[64]; /* preset's name, or the file's "name"/"_name_or_path"/base name */
    int64_t n_layer, n_embd, n_head;
    int64_t n_positions; /* longest sequence */
    int64_t n_inner;     /* width of the MLP */
    int64_t vocab_size;  /* V0: without padding */
    int64_t n_types;     /* token types (segments) */
    int64_t pad_id;      /* the token that fills short sequences */
    double layer_norm_epsilon;
    double initializer_range; /* deviation of random weights */
    bool gelu_tanh;           /* gelu_new, or erf gelu (BERT) */
    bool tied;                /* the head that fills masks has the word table as its matrix */
} syn_bert_config;

/* What stands on the encoder; bits. */
enum {
    SYN_BERT_POOLER = 1, /* tanh of a dense layer of the first token */
    SYN_BERT_MLM = 2,    /* the words masked out */
    SYN_BERT_NSP = 4     /* whether a sentence follows the other; brings the pooler */
};

/* bert-base-uncased, bert-large-uncased, bert-base-cased, bert-large-cased. NULL-ended names. */
const char *const *syn_bert_presets(void);
syn_status syn_bert_config_preset(syn_bert_config *config, const char *name,
                                  syn_error *err) SYN_MUST_USE;
/* HuggingFace's config.json of a BERT (vocab_size, hidden_size, num_hidden_layers,
   num_attention_heads, intermediate_size, max_position_embeddings; with defaults type_vocab_size,
   hidden_act, layer_norm_eps, initializer_range, pad_token_id, tie_word_embeddings). Relative
   positions and decoders are refused; other keys are ignored. Every number is range-checked; what
   is missing and has no default is named. */
syn_status syn_bert_config_load(syn_bert_config *config, const char *path,
                                syn_error *err) SYN_MUST_USE;
syn_status syn_bert_config_parse(syn_bert_config *config, const char *name, const char *json,
                                 size_t bytes, syn_error *err) SYN_MUST_USE;
/* The same as HuggingFace's config.json, which syn_bert_config_load and transformers read; heads:
   which class of transformers has them. */
syn_status syn_bert_config_save(const syn_bert_config *config, unsigned heads, const char *path,
                                syn_error *err) SYN_MUST_USE;
/* Whether the model can be cut for tp ranks; names the numbers that do not divide. */
syn_status syn_bert_config_check(const syn_bert_config *config, int tp,
                                 syn_error *err) SYN_MUST_USE;
/* Parameters of the whole model with these heads: L(12h^2+13h) + (V+S+types+2)h for the encoder
   when n_inner = 4h; pooler h^2+h, MLM h^2+3h+V (and Vh unless its decoder is the word table), NSP
   2h+2. */
int64_t syn_bert_config_params(const syn_bert_config *config, unsigned heads);
/* Rows of the stored vocabulary: V0 rounded up to a multiple of divisor * tp. */
int64_t syn_bert_padded_vocab(const syn_bert_config *config, int tp, int64_t divisor);

#ifdef __cplusplus
}
#endif
#endif
