/* What the configurations of GPT and BERT share: limits, rows of settings tables, values that
   HuggingFace's files write alike, and the checks before a model is cut for ranks. Internal. */
#ifndef MODELS_CONFIG_PRIVATE_H
#define MODELS_CONFIG_PRIVATE_H

#include "models/gpt_ending.h"
#include "syntorch/settings.h"

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

#define SYN__ROW_I64(key, flags, at, min, max) \
    { (key), SYN__SETTING_I64, (flags), (at), (min), (double)(max), 0, NULL, NULL }
#define SYN__ROW_F64(key, at, min, max) \
    { (key), SYN__SETTING_F64, SYN__SETTING_NULLABLE, (at), (min), (max), 1, NULL, NULL }
#define SYN__ROW_CUSTOM(key, at, function) \
    { (key), SYN__SETTING_CUSTOM, 0, (at), 0, 0, 0, NULL, (function) }

/* For CUSTOM rows. The next token, which must be a string. */
syn_status syn__config_string(syn__settings *s) SYN_MUST_USE;
/* *member: a syn__activation. */
typedef enum syn__activation {
    SYN__ACTIVATION_NONE,
    SYN__GELU_ERF,
    SYN__GELU_TANH
} syn__activation;
syn_status syn__config_activation(syn__settings *s, void *member) SYN_MUST_USE;
/* Where a file of the hub came from: any text, of which the base name is kept. *member:
 * char[SYN__SETTING_NAME_BYTES]. */
syn_status syn__config_path(syn__settings *s, void *member) SYN_MUST_USE;
/* A choice of the format that must be as it is here; nothing is stored. */
syn_status syn__config_true(syn__settings *s, void *member) SYN_MUST_USE;
syn_status syn__config_false(syn__settings *s, void *member) SYN_MUST_USE;

/* An id, a list of ids, or null; *member: a syn__config_ids, as the file has them. */
typedef struct syn__config_ids {
    int64_t id[SYN_GPT_ENDS];
    int32_t n;
} syn__config_ids;
syn_status syn__config_ids_read(syn__settings *s, void *member) SYN_MUST_USE;
/* Those within the vocabulary. */
void syn__config_ending(syn_gpt_ending *out, const syn__config_ids *ends,
                        const syn__config_ids *pad, int64_t vocab);

/* Whether a model of these sizes can be cut for tp ranks; names the numbers that do not divide. */
typedef struct syn__config_sizes {
    const char *name;
    int64_t layers, hidden, heads, inner, positions, vocab;
} syn__config_sizes;
syn_status syn__config_check(const syn__config_sizes *sizes, int tp, syn_error *err) SYN_MUST_USE;
/* vocab rounded up to a multiple of divisor * tp. */
int64_t syn__config_padded(int64_t vocab, int tp, int64_t divisor);

#ifdef __cplusplus
}
#endif
#endif
