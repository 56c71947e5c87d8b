/* Declarations that tokenizer_normalize.c and tokenizer_forms.c share. */
#ifndef MODELS_TOKENIZER_NORMALIZE_PRIVATE_H
#define MODELS_TOKENIZER_NORMALIZE_PRIVATE_H

#include "models/tokenizer/tokenizer_steps_private.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A code point during conversion to a normal form. */
typedef struct syn__unit {
    uint32_t c;
    uint32_t order; /* canonical combining class */
    /* Which characters of the input it replaces. 0: the next one. -n: the next one and n more. 1:
       none; it belongs to the character before. The same values as in NormalizedString::transform
       of the tokenizers library */
    int32_t change;
} syn__unit;

/* Converts a text to NFC, NFD, NFKC or NFKD. */
syn_status syn__normal_form(syn__step_kind kind, syn__normal_work *work, const syn__text *in,
                            syn__text_buffer *out, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
