/* Declarations that the readers of tokenizer.json share. */
#ifndef MODELS_TOKENIZER_FILE_PRIVATE_H
#define MODELS_TOKENIZER_FILE_PRIVATE_H

#include "models/tokenizer/tokenizer_private.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum syn__step_group {
    SYN__GROUP_NORMALIZERS,
    SYN__GROUP_CUTS,
    SYN__GROUP_DECODERS
} syn__step_group;

/* Reads a step's object, whose opening brace was just read, and appends its steps to `to`. */
syn_status syn__steps_take(syn__step_group group, syn_json *json, syn__steps *to,
                           syn_error *err) SYN_MUST_USE;

/* syn__post_take reads a post_processor's object, whose opening brace was just read; syn__post_read
   reads the whole value. */
syn_status syn__post_take(syn_tokenizer *tok, syn_json *json, syn_error *err) SYN_MUST_USE;
syn_status syn__post_read(syn_tokenizer *tok, syn_json *json, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
