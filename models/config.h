/* Model configurations, from presets or from HuggingFace's config.json. Each model family (GPT,
   BERT, ...) is an entry of a registry, and the file's model_type selects the entry. Everything
   that differs between families is in these entries. */
#ifndef MODELS_CONFIG_H
#define MODELS_CONFIG_H

#include "models/stop_criteria.h"
#include "models/tokenizer/tokenizer.h"
#include "syntorch/base/types.h"
#include "syntorch/plan.h"

SYN_API_BEGIN

typedef struct syn_model_family syn_model_family;
extern const syn_model_family syn_gpt_family, syn_bert_family, syn_llama_family, syn_mistral_family,
    syn_qwen2_family, syn_qwen3_family, syn_gpt_neox_family, syn_mixtral_family,
    syn_qwen2_moe_family, syn_qwen3_moe_family, syn_starcoder2_family, syn_phi3_family,
    syn_olmo2_family, syn_granite_family, syn_smollm3_family, syn_gemma2_family,
    syn_gemma3_text_family, syn_distilbert_family, syn_deepseek_v2_family, syn_deepseek_v3_family,
    syn_kimi_k2_family, syn_gpt_oss_family, syn_roberta_family, syn_opt_family;

typedef enum syn_activation {
    SYN_GELU_TANH, /* gelu_new: the tanh approximation */
    SYN_GELU_ERF,  /* gelu */
    SYN_RELU       /* relu */
} syn_activation;

/* How rotary position embeddings (see syn_rope) are extended beyond the length that the model was
   first trained with. LINEAR divides positions by a factor. DYNAMIC increases theta for longer
   sequences. LLAMA3 (Llama 3.1) and YARN (Peng et al. 2023) scale frequencies by wavelength.
   LONGROPE (Ding et al. 2024) divides each frequency by a factor of its own; sequences of more than
   `original` tokens have other factors. */
typedef enum syn_rope_scaling {
    SYN_ROPE_DEFAULT,
    SYN_ROPE_LINEAR,
    SYN_ROPE_DYNAMIC,
    SYN_ROPE_LLAMA3,
    SYN_ROPE_YARN,
    SYN_ROPE_LONGROPE
} syn_rope_scaling;

/* A factor for each rotated pair of a head's elements. */
enum { SYN_MAX_ROTARY_FACTORS = 64 };
typedef struct syn_rotary_factors {
    int64_t n;
    float at[SYN_MAX_ROTARY_FACTORS];
} syn_rotary_factors;

typedef struct syn_rotary {
    double theta; /* 0: no rotary embedding */
    double part;  /* fraction of each head's elements that are rotated; these elements come first */
    syn_rope_scaling scaling;
    double factor;
    int64_t original;        /* llama3, yarn, longrope: number of positions before scaling */
    double low, high;        /* llama3: low_freq_factor and high_freq_factor */
    double fast, slow;       /* yarn: beta_fast and beta_slow, rotations in the original length */
    double attention_factor; /* yarn, longrope: multiplies cosines and sines; 0: computed from
                                factor, mscale and mscale_all */
    double mscale, mscale_all;
    bool truncate; /* yarn: round the limits of the ramp to whole pairs */
    syn_rotary_factors short_factors, long_factors; /* longrope: of short and of long sequences */
} syn_rotary;

/* Dropout probabilities in training, each in [0, 1]: of the embedding, of the attention weights,
   and of the outputs of attention and MLP before they are added to the residual stream. */
typedef struct syn_dropout_rates {
    double embedding, attention, residual;
} syn_dropout_rates;

/* Multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2", section 2.1): keys and values are
   computed from a latent vector per token, which is all that the KV cache stores besides the rotary
   part of the keys. That part is the same for all heads. */
typedef struct syn_latent_config {
    int64_t kv;         /* elements of the latent (kv_lora_rank); 0: ordinary attention */
    int64_t q;          /* elements of the queries' latent; 0: queries are computed from x */
    int64_t nope, rope; /* elements of a head's queries and keys without and with rotary embedding;
                           their sum is head_dim */
    int64_t value;      /* elements of a head's values */
    bool interleaved;   /* rotary pairs are adjacent elements instead of elements rope / 2 apart */
} syn_latent_config;

/* Mixture of experts: layers in which each token uses k of n MLPs. Layer i has experts if i >=
   first, (i + 1) is a multiple of `every`, and bit i of `dense` is 0; other layers have one MLP. */
#define SYN_MAX_DENSE_LAYERS 512 /* number of layers that `dense` can name */
typedef struct syn_experts_config {
    int64_t n;            /* experts per layer; 0: the model has no experts */
    int64_t k;            /* experts per token */
    int64_t inner;        /* width of an expert; 0: n_inner */
    int64_t shared_inner; /* width of the shared expert, which all tokens use; 0: none */
    bool shared_gate;     /* the output of the shared expert is multiplied by a sigmoid */
    int64_t shared;       /* DeepSeek: the shared expert counts as so many experts */
    bool normalize;       /* the weights of a token's experts are divided by their sum */
    bool sigmoid;         /* scores are sigmoids instead of a softmax */
    bool biased;          /* a bias is added to the scores for the choice of experts */
    bool limited;         /* a token uses only experts of the best top_groups of `groups` groups */
    int64_t groups, top_groups;
    double scale;        /* the weights are multiplied by it; 0: they are not */
    double alpha, limit; /* the MLP has syn_swiglu_clamped; limit 0: syn_swiglu */
    int64_t first, every;
    uint64_t dense[SYN_MAX_DENSE_LAYERS / 64];
    double aux_coefficient; /* factor of the auxiliary loss, which balances the experts' load */
    bool aux;               /* output_router_logits: transformers adds this loss in training */
} syn_experts_config;

/* A set of layers, by number. */
enum { SYN_MAX_SET_LAYERS = 512 };
typedef struct syn_layer_set {
    uint64_t bits[SYN_MAX_SET_LAYERS / 64];
} syn_layer_set;

typedef struct syn_model_config {
    const syn_model_family *family;
    char name[64]; /* the preset's name; for a file, the value of "name" or "_name_or_path", or the
                      file's base name */
    int64_t n_layer, n_embd, n_head;
    int64_t n_kv_head;      /* number of key/value heads, which divides n_head; 0: n_head */
    int64_t head_dim;       /* elements per head; 0: n_embd / n_head */
    int64_t n_positions;    /* maximum sequence length */
    int64_t first_position; /* row of the position table that the first token uses; rows before it
                               are unused */
    int64_t n_inner;        /* width of the MLP */
    int64_t vocab_size;     /* number of tokens V0, without padding */
    int64_t n_types;        /* BERT: token types (segments) */
    int64_t pad_id; /* BERT: id of the padding token; its row of the word embedding gets no gradient
                       from lookups; -1: none */
    double norm_epsilon;
    double initializer_range; /* standard deviation of random weights */
    syn_activation activation;
    syn_rotary rotary;
    bool windowed;           /* Llama: sliding-window attention, if window > 0 */
    int64_t window;          /* a token attends to itself and the window - 1 tokens before it */
    int64_t full_layers;     /* the first full_layers layers use full attention */
    syn_layer_set full;      /* further layers with full attention */
    syn_layer_set no_rope;   /* layers without rotary embedding */
    syn_rotary local_rotary; /* of layers with a window; theta 0: `rotary` */
    bool parallel_residual;  /* GPT-NeoX: attention and MLP both read the layer's input */
    bool qkv_bias;           /* Llama: the query, key and value projections have biases */
    bool attention_bias;     /* all four linear layers of the attention have biases */
    bool mlp_bias;           /* all three linear layers of the MLP have biases */
    bool head_norm;          /* Llama: RMSNorm on each head's queries and keys */
    bool wide_norm;          /* RMSNorm on the queries of all heads, and on the keys */
    bool norm_offset;        /* RMSNorm multiplies by 1 + weight */
    /* Factors, 0: none. The embedding and the outputs of attention and MLP are multiplied by
       theirs, logits are divided by theirs. */
    double embedding_factor, residual_factor, logit_divisor;
    /* Attention scores are multiplied by attention_factor, or else divided by sqrt(query_scale), or
       else by sqrt(head_dim). */
    double attention_factor;
    int64_t query_scale;
    double attention_cap, logit_cap; /* scores and logits x become cap tanh(x / cap); 0: none */
    syn_latent_config latent;
    int64_t mtp; /* Llama: layers for multi-token prediction in checkpoints, after the n_layer
                    others; models have them only in training (syn_model_part) */
    bool tied;   /* the output head uses the token embedding as its matrix */
    syn_experts_config experts;
    syn_stop_criteria end;     /* causal models: what ends a sequence */
    syn_dropout_rates dropout; /* for syn_model_set_dropout; a model applies none by itself */
    char dtype[16]; /* dtype that transformers loads a checkpoint's tensors in, such as "bfloat16"
                       (key dtype, formerly torch_dtype); for a preset, the dtype of the published
                       checkpoint; "": unknown. Creating a model does not use it */
} syn_model_config;

/* Name of preset i of all families; NULL after the last. */
const char *syn_model_preset(size_t i);
syn_status syn_model_config_preset(syn_model_config *config, const char *name,
                                   syn_error *err) SYN_MUST_USE;
/* Reads HuggingFace's config.json. All numbers are range-checked. A missing key that has no default
   is an error, and so is a feature that the family does not support. Other keys are ignored.
   Defaults are those of transformers' configuration classes. A file without a model_type is read as
   a GPT. The keys of each family follow. "|" separates alternative names of one key, and a default
   is in parentheses.
   GPT-2 requires n_layer|num_hidden_layers, n_embd|hidden_size, n_head|num_attention_heads and
   vocab_size. Optional: n_positions|max_position_embeddings (n_ctx, or else 1024),
   n_inner|intermediate_size (4 n_embd), layer_norm_epsilon|layer_norm_eps, initializer_range,
   activation_function, tie_word_embeddings, embd_pdrop, attn_pdrop and resid_pdrop (0.1 each),
   eos_token_id, pad_token_id. As in transformers, hidden_act is ignored. Ids outside the vocabulary
   never end a sequence.
   DistilBERT, RoBERTa and OPT have the keys in their tables in models/bert.c and models/opt.c.
   BERT requires vocab_size, hidden_size, num_hidden_layers, num_attention_heads and
   intermediate_size. Optional: max_position_embeddings (512), type_vocab_size, hidden_act,
   layer_norm_eps, initializer_range, hidden_dropout_prob for embedding and residual (0.1),
   attention_probs_dropout_prob (0.1), pad_token_id, tie_word_embeddings. activation_function is
   ignored.
   Llama, Mistral and Qwen require num_hidden_layers, hidden_size, num_attention_heads,
   intermediate_size and vocab_size. Optional: num_key_value_heads (Llama: the number of query
   heads, Mistral 8, Qwen 32), head_dim, max_position_embeddings, rms_norm_eps, initializer_range,
   hidden_act, attention_dropout (0), tie_word_embeddings, rope_parameters (or rope_theta,
   partial_rotary_factor and rope_scaling), eos_token_id, pad_token_id and bos_token_id. Some of
   these families have further keys, which are the rows of their tables in models/llama.c. Other
   families with Llama's layers have the same keys, except for those in their tables.
   GPT-NeoX requires the same keys. Optional: those of Llama except num_key_value_heads, head_dim
   and rms_norm_eps; layer_norm_eps, hidden_dropout for embedding and residual (0),
   use_parallel_residual (true), attention_bias (true), rotary_pct (0.25) and rotary_emb_base
   (10000). The last two may also be in rope_parameters. */
syn_status syn_model_config_load(syn_model_config *config, const char *path,
                                 syn_error *err) SYN_MUST_USE;
syn_status syn_model_config_parse(syn_model_config *config, const char *name, const char *json,
                                  size_t bytes, syn_error *err) SYN_MUST_USE;
/* Writes a config.json that syn_model_config_load and transformers can read. `heads` (see
   syn_model_options) selects the transformers class that the file names. */
syn_status syn_model_config_save(const syn_model_config *config, unsigned heads, const char *path,
                                 syn_error *err) SYN_MUST_USE;
/* Hash of the configuration without its name and its dropout rates. */
uint64_t syn_model_config_hash(const syn_model_config *config, uint64_t seed);
/* Fails unless ranks can run the model as the plan specifies. The plan must be complete. */
syn_status syn_model_plan_check(const syn_model_config *config, const syn_plan *plan,
                                syn_error *err) SYN_MUST_USE;
/* Fails unless the model can be trained with context parallelism (syn_model_options.cp). a2a: the
   number of ranks that exchange heads (1: none); blocks: whether a rank computes attention of
   blocks of keys instead of whole sequences. */
syn_status syn_model_context_check(const syn_model_config *config, int tp, int a2a, bool blocks,
                                   syn_error *err) SYN_MUST_USE;
/* Fails unless the layers can be split among tp ranks; the error names the number that tp does not
   divide. */
syn_status syn_model_config_check(const syn_model_config *config, int tp,
                                  syn_error *err) SYN_MUST_USE;
/* Number of parameters of the whole model with these heads, without layers for multi-token
   prediction. */
int64_t syn_model_config_params(const syn_model_config *config, unsigned heads);
/* Number of those parameters that belong to the experts of routers. */
int64_t syn_model_config_expert_params(const syn_model_config *config);
/* The maximum sequence length: n_positions, or more if scaled rotary embeddings allow more. */
int64_t syn_model_max_tokens(const syn_model_config *config);
/* Fails if a text of `tokens` tokens, whose keys are in the cache, cannot grow to `most`, because
   the rotary embedding (longrope) of so long a text differs. */
syn_status syn_model_check_growth(const syn_model_config *config, int64_t tokens, int64_t most,
                                  syn_error *err) SYN_MUST_USE;
/* Number of tensor-parallel ranks that hold the same key/value heads. It is above 1 if there are
   fewer of these heads than ranks. A mesh's shape has this number as `kv` (syntorch/mesh.h). */
int syn_model_kv_ranks(const syn_model_config *config, int tp);
/* Number of vocabulary rows that are stored: V0 rounded up to a multiple of divisor * tp. */
int64_t syn_model_padded_vocab(const syn_model_config *config, int tp, int64_t divisor);

/* Sets the dtype in which transformers loads the weights: f32, f16 or bf16. */
void syn_model_config_set_dtype(syn_model_config *config, syn_dtype dtype);
/* Gets that dtype. Returns false if it is unknown. */
bool syn_model_config_dtype(const syn_model_config *config, syn_dtype *dtype);

/* The model_type of config.json: "gpt2", "bert". */
const char *syn_model_type(const syn_model_config *config);
bool syn_layer_set_has(const syn_layer_set *set, int64_t i);
/* Adds layer i, which must be below SYN_MAX_SET_LAYERS. */
void syn_layer_set_add(syn_layer_set *set, int64_t i);
/* The window of layer i; 0: full attention. */
int64_t syn_model_layer_window(const syn_model_config *config, int64_t i);
/* Whether layer i has experts, and whether any layer does. */
bool syn_model_layer_has_experts(const syn_model_config *config, int64_t i);
bool syn_model_has_experts(const syn_model_config *config);
/* Whether the model predicts the next token, and so can generate text (models/causal.h). */
bool syn_model_is_causal(const syn_model_config *config);
syn_tokenizer_kind syn_model_tokenizer(const syn_model_config *config);

SYN_API_END
#endif
