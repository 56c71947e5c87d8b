/* A family's fields: rows of the table by which config.json is read, written and hashed, and values
   that HuggingFace's files write alike. Internal. */
#ifndef MODELS_CONFIG_PRIVATE_H
#define MODELS_CONFIG_PRIVATE_H

#include "models/config.h"
#include "syntorch/base/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits of a file's numbers, an order of magnitude beyond the largest models known. With them the
   bytes of weights, gradients, Adam's state (16 bytes a parameter) and of a KV cache of one
   sequence stay below 2^62. */
#define SYN__MAX_LAYERS    100000
#define SYN__MAX_EMBD      ((int64_t)1 << 18)
#define SYN__MAX_INNER     ((int64_t)1 << 20)
#define SYN__MAX_POSITIONS ((int64_t)1 << 20)
#define SYN__MAX_VOCAB     ((int64_t)1 << 24)

/* What a file gives. */
typedef struct syn__config_file {
    syn_model_config config;                 /* first, so that rows fit a configuration too */
    char path_name[SYN__SETTING_NAME_BYTES]; /* of _name_or_path */
    int64_t n_ctx; /* an old name of n_positions, which counts where both are given */
    int64_t layer_types, full_layers; /* how many there are, and how many of them, the first, have
                                         no window */
    syn_rotary beside, rope_scaling;  /* theta and part beside the groups, at first the family's; an
                                         old name of rope_parameters, which counts where both are
                                         given */
} syn__config_file;

#define SYN__AT(member) offsetof(syn__config_file, config.member)
#define SYN__REQUIRED   SYN__SETTING_REQUIRED
#define SYN__NULLABLE   SYN__SETTING_NULLABLE
#define SYN__SAVED      SYN__SETTING_SAVED
#define SYN__NONE       SYN__SETTING_NONE
#define SYN__NEEDED     (SYN__REQUIRED | SYN__SAVED)
#define SYN__MAY_BE     (SYN__NULLABLE | SYN__SAVED)
#define SYN__TABLE_OF(rows) \
    { (rows), sizeof(rows) / sizeof((rows)[0]), true, NULL }
/* Of a model: refuses what would make it another. */
#define SYN__MODEL_TABLE_OF(rows) \
    { (rows), sizeof(rows) / sizeof((rows)[0]), true, syn__config_refused }
#define SYN__ROW_I64(key_, flags_, at, lowest, highest)                             \
    {                                                                               \
        .key = (key_), .type = SYN__SETTING_I64, .flags = (flags_), .offset = (at), \
        .min = (lowest), .max = (double)(highest)                                   \
    }
#define SYN__ROW_F64(key_, flags_, at, lowest, highest)                                     \
    {                                                                                       \
        .key = (key_), .type = SYN__SETTING_F64, .flags = (flags_) | SYN__SETTING_NULLABLE, \
        .offset = (at), .min = (lowest), .max = (highest), .scale = 1                       \
    }
#define SYN__ROW_DROPOUT(key_, member) \
    SYN__ROW_F64(key_, SYN__SAVED | SYN__SETTING_UNHASHED, SYN__AT(dropout.member), 0, 1)
#define SYN__ROW_BOOL(key_, flags_, at) \
    { .key = (key_), .type = SYN__SETTING_BOOL, .flags = (flags_), .offset = (at) }
#define SYN__ROW_ACTIVATION(key_, flags_)                              \
    {                                                                  \
        .key = (key_), .type = SYN__SETTING_CHOICE, .flags = (flags_), \
        .offset = SYN__AT(activation), .choices = syn__activations     \
    }
#define SYN__ROW_CUSTOM(key_, at, function) \
    { .key = (key_), .type = SYN__SETTING_CUSTOM, .offset = (at), .read = (function) }
/* Sizes, by the keys that most families give them. */
#define SYN__ROWS_LAYERS                                                                  \
    SYN__ROW_I64("num_hidden_layers", SYN__NEEDED, SYN__AT(n_layer), 1, SYN__MAX_LAYERS), \
        SYN__ROW_I64("hidden_size", SYN__NEEDED, SYN__AT(n_embd), 1, SYN__MAX_EMBD),      \
        SYN__ROW_I64("num_attention_heads", SYN__NEEDED, SYN__AT(n_head), 1, SYN__MAX_EMBD)
#define SYN__ROWS_WIDTHS                                                                 \
    SYN__ROW_I64("intermediate_size", SYN__NEEDED, SYN__AT(n_inner), 1, SYN__MAX_INNER), \
        SYN__ROW_I64("max_position_embeddings", SYN__SAVED, SYN__AT(n_positions), 1,     \
                     SYN__MAX_POSITIONS),                                                \
        SYN__ROW_I64("vocab_size", SYN__NEEDED, SYN__AT(vocab_size), 1, SYN__MAX_VOCAB)
#define SYN__ROWS_NUMBERS(epsilon_key)                                    \
    SYN__ROW_F64(epsilon_key, SYN__SAVED, SYN__AT(norm_epsilon), 0, 0.1), \
        SYN__ROW_F64("initializer_range", SYN__SAVED, SYN__AT(initializer_range), 1e-9, 10)
/* What the file format of a decoder can ask for and none of ours does. */
#define SYN__ROWS_DECODER_ONLY                                    \
    SYN__ROW_CUSTOM("add_cross_attention", 0, syn__config_false), \
        SYN__ROW_CUSTOM("is_encoder_decoder", 0, syn__config_false)
/* Of every family. */
#define SYN__ROWS_NAMES                                                                            \
    {.key = "name", .type = SYN__SETTING_NAME, .flags = SYN__NULLABLE, .offset = SYN__AT(name)},   \
        SYN__ROW_CUSTOM("_name_or_path", offsetof(syn__config_file, path_name), syn__config_path), \
        SYN__ROW_CUSTOM("model_type", 0, syn__config_type),                                        \
        SYN__ROW_CUSTOM("quantization_config", 0, syn__config_whole),                              \
        SYN__ROW_CUSTOM("compression_config", 0, syn__config_whole),                               \
        SYN__ROW_CUSTOM("quantization", 0, syn__config_whole),                                     \
        SYN__ROW_CUSTOM("per_layer_config", 0, syn__config_none),                                  \
        {.key = "dtype",                                                                           \
         .type = SYN__SETTING_CUSTOM,                                                              \
         .flags = SYN__SAVED,                                                                      \
         .offset = SYN__AT(dtype),                                                                 \
         .read = syn__config_dtype,                                                                \
         .write = syn__config_dtype_write},                                                        \
        SYN__ROW_CUSTOM("torch_dtype", SYN__AT(dtype), syn__config_torch_dtype)
/* Of those that generate. */
#define SYN__ROWS_ENDING                                                      \
    {.key = "eos_token_id",                                                   \
     .type = SYN__SETTING_CUSTOM,                                             \
     .flags = SYN__SAVED,                                                     \
     .offset = SYN__AT(end),                                                  \
     .read = syn__stop_ids,                                                   \
     .write = syn__stop_write},                                               \
        SYN__ROW_CUSTOM("pad_token_id", SYN__AT(end.fill), syn__stop_fill),   \
        SYN__ROW_CUSTOM("bos_token_id", SYN__AT(end.begin), syn__stop_begin), \
        SYN__ROW_CUSTOM("is_causal", 0, syn__config_true),                    \
        SYN__ROW_CUSTOM("attention_chunk_size", 0, syn__config_null)

extern const syn__setting_choice syn__activations[];
extern const syn__setting_restricted syn__config_refused[];
extern const char *const syn__torch_dtypes[]; /* PyTorch's names of SYN_F32, SYN_F16, SYN_BF16 */

/* For CUSTOM rows. The next token, which must be a string. */
syn_status syn__config_string(syn__settings *s) SYN_MUST_USE;
/* The model_type, which has chosen the family before (config.c); nothing is stored. */
syn_status syn__config_type(syn__settings *s, void *member) SYN_MUST_USE;
/* Where a file of the hub came from: any text, of which the base name is kept. *member:
   char[SYN__SETTING_NAME_BYTES]. */
syn_status syn__config_path(syn__settings *s, void *member) SYN_MUST_USE;
/* The type that a checkpoint is loaded in. *member: the configuration's dtype. The older key counts
   where the newer is not given. */
syn_status syn__config_dtype(syn__settings *s, void *member) SYN_MUST_USE;
syn_status syn__config_torch_dtype(syn__settings *s, void *member) SYN_MUST_USE;
void syn__config_dtype_write(syn_sink *out, const void *member);
/* A choice of the format that must be as it is here; nothing is stored. Null is false. */
syn_status syn__config_true(syn__settings *s, void *member) SYN_MUST_USE;
syn_status syn__config_false(syn__settings *s, void *member) SYN_MUST_USE;
/* What must be null: how weights are quantized; anything else. */
syn_status syn__config_whole(syn__settings *s, void *member) SYN_MUST_USE;
syn_status syn__config_null(syn__settings *s, void *member) SYN_MUST_USE;
/* What must be empty (see syn__settings_empty). */
syn_status syn__config_none(syn__settings *s, void *member) SYN_MUST_USE;

/* An id, a list of ids, or null: of eos_token_id (*member: a syn_stop_criteria, whose ids it
   becomes) and of pad_token_id (*member: its fill). Ids that no vocabulary has become -1. */
syn_status syn__stop_ids(syn__settings *s, void *member) SYN_MUST_USE;
syn_status syn__stop_fill(syn__settings *s, void *member) SYN_MUST_USE;
/* The same of bos_token_id (*member: its begin); null is -1. */
syn_status syn__stop_begin(syn__settings *s, void *member) SYN_MUST_USE;
/* Leaves the ids of the vocabulary. A text goes on with the first end, and begins with it, too,
   where the file does not say. */
void syn__stop_settle(syn_stop_criteria *ending, int64_t vocab);
/* Entries of config.json. */
void syn__stop_write(syn_sink *out, const void *member);
#define SYN__NOT_SAID (-2)
#define SYN__NO_ENDING \
    { .fill = -1, .begin = SYN__NOT_SAID }
/* Defaults of a family's files: ids that end and begin a text. */
#define SYN__ENDING(end_, begin_) \
    { .ids = {end_}, .n_ids = 1, .fill = -1, .begin = (begin_) }

#ifdef __cplusplus
}
#endif
#endif
