/* What models/tokenizer/tokenizer_normalize.c and models/tokenizer/tokenizer_forms.c share. */
#ifndef MODELS_TOKENIZER_NORMALIZE_PRIVATE_H
#define MODELS_TOKENIZER_NORMALIZE_PRIVATE_H

#include "models/tokenizer/tokenizer_steps_private.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A code point on its way to a normal form. */
typedef struct syn__unit {
    uint32_t c;
    uint32_t order; /* canonical combining class */
    /* 0: stands for the next character of the text, -n: for that and n more, 1: for none, but as
       if it were of the one before (the tokenizers library's NormalizedString::transform) */
    int32_t change;
} syn__unit;

/* NFC, NFD, NFKC or NFKD of a text. */
syn_status syn__normal_form(syn__step_kind kind, syn__normal_work *work, const syn__text *in,
                            syn__text_buffer *out, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
