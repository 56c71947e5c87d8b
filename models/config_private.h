/* Internal. Building blocks for the table of config.json keys that each model family has. With this
   table the library reads, writes and hashes configurations. Also declares readers for values that
   all HuggingFace files write in the same way. */
#ifndef MODELS_CONFIG_PRIVATE_H
#define MODELS_CONFIG_PRIVATE_H

#include "models/config.h"
#include "syntorch/base/settings.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Upper limits of the numbers in a file. They are above the numbers of the known models of all
   supported families. Within these limits, the weights, gradients and Adam's state of a model
   (together 16 bytes per parameter) have fewer than 2^62 bytes, and so has the KV cache of one
   sequence. */
#define SYN__MAX_LAYERS    100000
#define SYN__MAX_EMBD      ((int64_t)1 << 18)
#define SYN__MAX_INNER     ((int64_t)1 << 20)
#define SYN__MAX_POSITIONS ((int64_t)1 << 20)
#define SYN__MAX_VOCAB     ((int64_t)1 << 24)

/* The values read from a config.json. */
typedef struct syn__config_file {
    syn_model_config config; /* first member, so that the rows also work on a syn_model_config */
    char path_name[SYN__SETTING_NAME_BYTES]; /* base name from _name_or_path */
    int64_t n_ctx;                           /* old key of n_positions; used only if the file does
                                                not give n_positions */
    int64_t layer_types, full_layers;        /* layer_types: number of entries of this key;
                                                full_layers: number of entries at its start that
                                                have no window */
    syn_layer_set full_types, rope_layers;   /* layers with full attention according to layer_types;
                                                layers with rotary embedding according to
                                                no_rope_layers */
    int64_t window_pattern;                  /* sliding_window_pattern; 0: not given */
    int64_t word_width;                      /* word_embed_proj_dim; 0: not given */
    double local_theta;                      /* rope_local_base_freq; 0: not given */
    int64_t n_rope_layers, rope_interval;    /* entries of no_rope_layers; no_rope_layer_interval */
    syn_rotary top_level, rope_scaling; /* beside: theta and part from top-level keys, initially the
                                        family's defaults. rope_scaling: the value of this old key,
                                        which replaces rope_parameters if both are given */
} syn__config_file;

#define SYN__AT(member)     offsetof(syn__config_file, config.member)
#define SYN__REQUIRED       SYN__SETTING_REQUIRED
#define SYN__NULLABLE       SYN__SETTING_NULLABLE
#define SYN__SAVED          SYN__SETTING_SAVED
#define SYN__NONE           SYN__SETTING_NONE
#define SYN__REQUIRED_SAVED (SYN__REQUIRED | SYN__SAVED)
#define SYN__OPTIONAL       (SYN__NULLABLE | SYN__SAVED)
#define SYN__TABLE_OF(rows) \
    { (rows), sizeof(rows) / sizeof((rows)[0]), true, NULL }
/* The key table of a model family. It also rejects unsupported keys that would change what the
   model computes. */
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
/* Sizes, under the keys that most families use. */
#define SYN__ROWS_LAYERS                                                                          \
    SYN__ROW_I64("num_hidden_layers", SYN__REQUIRED_SAVED, SYN__AT(n_layer), 1, SYN__MAX_LAYERS), \
        SYN__ROW_I64("hidden_size", SYN__REQUIRED_SAVED, SYN__AT(n_embd), 1, SYN__MAX_EMBD),      \
        SYN__ROW_I64("num_attention_heads", SYN__REQUIRED_SAVED, SYN__AT(n_head), 1,              \
                     SYN__MAX_EMBD)
#define SYN__ROWS_WIDTHS                                                                         \
    SYN__ROW_I64("intermediate_size", SYN__REQUIRED_SAVED, SYN__AT(n_inner), 1, SYN__MAX_INNER), \
        SYN__ROW_I64("max_position_embeddings", SYN__SAVED, SYN__AT(n_positions), 1,             \
                     SYN__MAX_POSITIONS),                                                        \
        SYN__ROW_I64("vocab_size", SYN__REQUIRED_SAVED, SYN__AT(vocab_size), 1, SYN__MAX_VOCAB)
#define SYN__ROWS_NUMBERS(epsilon_key)                                    \
    SYN__ROW_F64(epsilon_key, SYN__SAVED, SYN__AT(norm_epsilon), 0, 0.1), \
        SYN__ROW_F64("initializer_range", SYN__SAVED, SYN__AT(initializer_range), 1e-9, 10)
/* Features of a decoder's file format that none of our families supports. */
#define SYN__ROWS_DECODER_ONLY                                    \
    SYN__ROW_CUSTOM("add_cross_attention", 0, syn__config_false), \
        SYN__ROW_CUSTOM("is_encoder_decoder", 0, syn__config_false)
/* Rows of every family. */
#define SYN__ROWS_NAMES                                                                            \
    {.key = "name", .type = SYN__SETTING_NAME, .flags = SYN__NULLABLE, .offset = SYN__AT(name)},   \
        SYN__ROW_CUSTOM("_name_or_path", offsetof(syn__config_file, path_name), syn__config_path), \
        SYN__ROW_CUSTOM("model_type", 0, syn__config_type),                                        \
        SYN__ROW_CUSTOM("quantization_config", 0, syn__config_unquantized),                        \
        SYN__ROW_CUSTOM("compression_config", 0, syn__config_unquantized),                         \
        SYN__ROW_CUSTOM("quantization", 0, syn__config_unquantized),                               \
        SYN__ROW_CUSTOM("per_layer_config", 0, syn__config_empty),                                 \
        {.key = "dtype",                                                                           \
         .type = SYN__SETTING_CUSTOM,                                                              \
         .flags = SYN__SAVED,                                                                      \
         .offset = SYN__AT(dtype),                                                                 \
         .read = syn__config_dtype,                                                                \
         .write = syn__config_dtype_write},                                                        \
        SYN__ROW_CUSTOM("torch_dtype", SYN__AT(dtype), syn__config_torch_dtype)
/* Rows of families that generate text. */
#define SYN__ROWS_STOP_IDS                                                    \
    {.key = "eos_token_id",                                                   \
     .type = SYN__SETTING_CUSTOM,                                             \
     .flags = SYN__SAVED,                                                     \
     .offset = SYN__AT(end),                                                  \
     .read = syn__stop_ids,                                                   \
     .write = syn__stop_write},                                               \
        {.key = "pad_token_id",                                               \
         .type = SYN__SETTING_CUSTOM,                                         \
         .flags = SYN__SAVED,                                                 \
         .offset = SYN__AT(end.fill),                                         \
         .read = syn__stop_fill,                                              \
         .write = syn__config_write_no_pad},                                  \
        SYN__ROW_CUSTOM("bos_token_id", SYN__AT(end.begin), syn__stop_begin), \
        SYN__ROW_CUSTOM("is_causal", 0, syn__config_true),                    \
        SYN__ROW_CUSTOM("attention_chunk_size", 0, syn__config_null)

extern const syn__setting_choice syn__activations[];
extern const syn__setting_restricted syn__config_refused[];
extern const char *const syn__torch_dtypes[]; /* PyTorch's names of f32, f16 and bf16 */

/* Readers for CUSTOM rows. syn__config_string reads the next token, which must be a string. */
syn_status syn__config_string(syn__settings *s) SYN_MUST_USE;
/* Skips the model_type, which already selected the family (config.c); stores nothing. */
syn_status syn__config_type(syn__settings *s, void *member) SYN_MUST_USE;
/* Reads _name_or_path, which may be any text, and stores its base name in *member, a
   char[SYN__SETTING_NAME_BYTES]. */
syn_status syn__config_path(syn__settings *s, void *member) SYN_MUST_USE;
/* Reads the dtype in which a checkpoint is loaded. *member: the configuration's dtype. torch_dtype,
   the older key, is used only if dtype is absent. */
syn_status syn__config_dtype(syn__settings *s, void *member) SYN_MUST_USE;
syn_status syn__config_torch_dtype(syn__settings *s, void *member) SYN_MUST_USE;
void syn__config_dtype_write(syn_sink *out, const void *member);
/* syn__config_true fails unless the value is true, and syn__config_false fails unless it is false:
   our models do not support the other value. Null counts as false. Both store nothing. */
syn_status syn__config_true(syn__settings *s, void *member) SYN_MUST_USE;
syn_status syn__config_false(syn__settings *s, void *member) SYN_MUST_USE;
/* Reads the number of layers for multi-token prediction into *member, an int64_t; null is 0. Writes
   it only if it is not 0, because transformers' defaults differ from family to family. */
syn_status syn__config_mtp(syn__settings *s, void *member) SYN_MUST_USE;
void syn__config_mtp_write(syn_sink *out, const void *member);
/* Writes a number with a decimal point, for keys for which transformers does not accept an
   integer. */
void syn__config_write_real(syn_sink *out, const char *key, double value);
/* Fails unless the value is null. _unquantized is for keys that say how weights are quantized,
   _null for all other keys. A group that says FP8 (weights_f8.c) is accepted, and MXFP4 by families
   with such checkpoints. *member: the syn__config_file. */
syn_status syn__config_unquantized(syn__settings *s, void *member) SYN_MUST_USE;
syn_status syn__config_null(syn__settings *s, void *member) SYN_MUST_USE;
/* Fails unless the value is empty (see syn__settings_empty). */
syn_status syn__config_empty(syn__settings *s, void *member) SYN_MUST_USE;

/* In families with a padding id by default: writes null for pad_token_id if syn__stop_write wrote
   no id, because transformers would use the default. *member: the configuration's end.fill. */
void syn__config_write_no_pad(syn_sink *out, const void *member);

/* Both accept an id, a list of ids, or null. syn__stop_ids reads eos_token_id and replaces the ids
   of *member, a syn_stop_criteria. syn__stop_fill reads pad_token_id into *member, the `fill` of a
   syn_stop_criteria. Ids that no vocabulary can have become -1. */
syn_status syn__stop_ids(syn__settings *s, void *member) SYN_MUST_USE;
syn_status syn__stop_fill(syn__settings *s, void *member) SYN_MUST_USE;
/* Reads bos_token_id in the same way into *member, the `begin` of a syn_stop_criteria. Null becomes
   -1. */
syn_status syn__stop_begin(syn__settings *s, void *member) SYN_MUST_USE;
/* Drops ids outside the vocabulary and sets missing ones: `fill` defaults to the first stop id, and
   so does `begin` if the file does not give bos_token_id. */
void syn__stop_normalize(syn_stop_criteria *criteria, int64_t vocab);
/* Writes the ids as entries of config.json. */
void syn__stop_write(syn_sink *out, const void *member);
#define SYN__NOT_GIVEN (-2)
#define SYN__NO_STOP_IDS \
    { .fill = -1, .begin = SYN__NOT_GIVEN }
/* The ids that end and begin a sequence if the file does not give them. */
#define SYN__STOP_IDS(end_, begin_) \
    { .ids = {end_}, .n_ids = 1, .fill = -1, .begin = (begin_) }

#ifdef __cplusplus
}
#endif
#endif
