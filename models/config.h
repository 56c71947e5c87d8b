/* Shapes of models: presets, and HuggingFace's config.json. A family of models (GPT, BERT) is a row
   of a registry, found by the file's model_type; what differs between families is in their rows. */
#ifndef MODELS_CONFIG_H
#define MODELS_CONFIG_H

#include "models/stop_criteria.h"
#include "models/tokenizer/tokenizer.h"
#include "syntorch/base/types.h"
#include "syntorch/plan.h"

SYN_API_BEGIN

typedef struct syn_model_family syn_model_family;
extern const syn_model_family syn_gpt_family, syn_bert_family, syn_llama_family, syn_mistral_family,
    syn_qwen2_family, syn_qwen3_family, syn_gpt_neox_family;

typedef enum syn_activation {
    SYN_GELU_TANH, /* gelu_new: the approximation with tanh */
    SYN_GELU_ERF   /* gelu */
} syn_activation;

/* Rotary positions (see syn_rope) beyond the length that a model was trained with first: positions
   divided by a factor, a larger theta for longer texts, or frequencies stretched by their length
   (Llama 3.1; YaRN, Peng et al. 2023). */
typedef enum syn_rope_scaling {
    SYN_ROPE_DEFAULT,
    SYN_ROPE_LINEAR,
    SYN_ROPE_DYNAMIC,
    SYN_ROPE_LLAMA3,
    SYN_ROPE_YARN
} syn_rope_scaling;

typedef struct syn_rotary {
    double theta; /* 0: positions are not rotary */
    double part;  /* of a head's elements that are turned, from the first on */
    syn_rope_scaling scaling;
    double factor;
    int64_t original;        /* llama3, yarn: positions before scaling */
    double low, high;        /* llama3: waves so many times in the original length */
    double fast, slow;       /* yarn: turns in the original length */
    double attention_factor; /* yarn: of cosines and sines; 0: follows from the next two */
    double mscale, mscale_all;
    bool truncate; /* yarn: limits are whole pairs */
} syn_rotary;

/* How likely it is in training that an element is dropped: of the embedding, of each attention's
   weights, of what attention and MLP of a layer add. In [0, 1]. */
typedef struct syn_dropout_rates {
    double embedding, attention, residual;
} syn_dropout_rates;

typedef struct syn_model_config {
    const syn_model_family *family;
    char name[64]; /* preset's name, or the file's "name"/"_name_or_path"/base name */
    int64_t n_layer, n_embd, n_head;
    int64_t n_kv_head;   /* heads of keys and values, which divide those of queries; 0: n_head */
    int64_t head_dim;    /* elements of a head; 0: n_embd / n_head */
    int64_t n_positions; /* longest text */
    int64_t n_inner;     /* width of the MLP */
    int64_t vocab_size;  /* V0: without padding */
    int64_t n_types;     /* BERT: token types (segments) */
    int64_t pad_id;      /* BERT: the token that fills short sequences, whose row of the word
                            embedding learns nothing from being looked up; -1: none does */
    double norm_epsilon;
    double initializer_range; /* deviation of random weights */
    syn_activation activation;
    syn_rotary rotary;
    bool windowed; /* Llama: a query sees itself and window - 1 keys before, if window > 0, */
    int64_t window;
    int64_t full_layers;       /* but in so many layers, the first, all */
    bool parallel_residual;    /* GPT-NeoX: attention and MLP both begin with the layer's input */
    bool qkv_bias;             /* Llama: queries, keys and values have biases; */
    bool attention_bias;       /* all four layers of the attention */
    bool mlp_bias;             /* all three of the MLP */
    bool head_norm;            /* Llama: RMSNorm of each head's queries and keys */
    bool tied;                 /* the head that predicts tokens has the token table as its matrix */
    syn_stop_criteria end;     /* of models that generate: what ends a text */
    syn_dropout_rates dropout; /* for trainers (syn_model_set_dropout): a model drops nothing by
                                  itself */
    char dtype[16]; /* that transformers loads a checkpoint's tensors as, "bfloat16" (the key
                       dtype, once torch_dtype), of a preset that of the published
                       checkpoint; "": not said. Models are made without it */
} syn_model_config;

/* Name of preset i of all families, NULL behind the last. */
const char *syn_model_preset(size_t i);
syn_status syn_model_config_preset(syn_model_config *config, const char *name,
                                   syn_error *err) SYN_MUST_USE;
/* HuggingFace's config.json. Every number is range-checked; what is missing and has no default is
   named; what a family cannot do is refused; other keys are ignored. Defaults are those of
   transformers' configuration classes. A file without a model_type is a GPT's. Its keys, "|"
   between names of one thing:
   GPT-2's n_layer|num_hidden_layers, n_embd|hidden_size, n_head|num_attention_heads, vocab_size;
   with defaults n_positions|max_position_embeddings (or n_ctx; 1024), n_inner|intermediate_size
   (4 n_embd), layer_norm_epsilon|layer_norm_eps, initializer_range,
   activation_function (a hidden_act is ignored, as transformers does), tie_word_embeddings,
   embd_pdrop, attn_pdrop, resid_pdrop (0.1 each), eos_token_id, pad_token_id; ids outside the
   vocabulary never end a text.
   BERT's vocab_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size; with
   defaults max_position_embeddings (512), type_vocab_size, hidden_act, layer_norm_eps,
   initializer_range, hidden_dropout_prob (embedding and residual; 0.1),
   attention_probs_dropout_prob (0.1), pad_token_id, tie_word_embeddings; an activation_function is
   ignored.
   GPT-NeoX has those of Llama, with layer_norm_eps, hidden_act and hidden_dropout (embedding and
   residual; 0), and use_parallel_residual (true), attention_bias (true), rotary_pct (0.25) and
   rotary_emb_base (10000), the last two also in rope_parameters.
   Llama's, Mistral's and Qwen's attention_dropout (0) is the only one of theirs. Without
   num_key_value_heads a Llama has as many as of queries, a Mistral 8 and a Qwen 32. */
syn_status syn_model_config_load(syn_model_config *config, const char *path,
                                 syn_error *err) SYN_MUST_USE;
syn_status syn_model_config_parse(syn_model_config *config, const char *name, const char *json,
                                  size_t bytes, syn_error *err) SYN_MUST_USE;
/* The same as a file that syn_model_config_load and transformers read. heads: see
   syn_model_options; they decide which class of transformers has them. */
syn_status syn_model_config_save(const syn_model_config *config, unsigned heads, const char *path,
                                 syn_error *err) SYN_MUST_USE;
/* Of all that a file holds of it, but its name and dropout. */
uint64_t syn_model_config_hash(const syn_model_config *config, uint64_t seed);
/* Whether ranks can run the model as the plan, a complete one, says. */
syn_status syn_model_plan_check(const syn_model_config *config, const syn_plan *plan,
                                syn_error *err) SYN_MUST_USE;
/* Whether tp ranks can share its layers; names the number that tp does not divide. */
syn_status syn_model_config_check(const syn_model_config *config, int tp,
                                  syn_error *err) SYN_MUST_USE;
/* Parameters of the whole model with these heads. */
int64_t syn_model_config_params(const syn_model_config *config, unsigned heads);
/* The longest text: n_positions, or more if rotary positions are scaled to more. */
int64_t syn_model_max_tokens(const syn_model_config *config);
/* Ranks that have the same heads of keys and values, as there are fewer of those than of ranks: the
   shape's kv of a mesh (syntorch/mesh.h); else 1. */
int syn_model_kv_ranks(const syn_model_config *config, int tp);
/* Rows of the stored vocabulary: V0 rounded up to a multiple of divisor * tp. */
int64_t syn_model_padded_vocab(const syn_model_config *config, int tp, int64_t divisor);

/* What transformers loads its weights as: f32, f16 or bf16. */
void syn_model_config_set_dtype(syn_model_config *config, syn_dtype dtype);
/* False: nothing says it. */
bool syn_model_config_dtype(const syn_model_config *config, syn_dtype *dtype);

/* As config.json's model_type has it: "gpt2", "bert". */
const char *syn_model_type(const syn_model_config *config);
/* Whether it predicts the next token, so that it generates texts (models/causal.h). */
bool syn_model_is_causal(const syn_model_config *config);
syn_tokenizer_kind syn_model_tokenizer(const syn_model_config *config);

SYN_API_END
#endif
