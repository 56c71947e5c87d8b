/* Regular expressions as HuggingFace's tokenizers library understands them (Unicode 16), by PCRE2.
   It has two kinds: those of files are Oniguruma's, its own ones the regex crate's. */
#ifndef MODELS_TOKENIZER_REGEX_PRIVATE_H
#define MODELS_TOKENIZER_REGEX_PRIVATE_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What cuts GPT-2's texts into words (encoder.py of github.com/openai/gpt-2). */
#define SYN__REGEX_GPT2 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Whether the library for these was there. */
syn_status syn__regex_ready(syn_error *err) SYN_MUST_USE;

typedef struct syn__regex syn__regex;
/* SYN_E_UNSUPPORTED without PCRE2, or for what it would understand in another way, like \w, of
   which the two kinds have their own ideas, in that of a file; the sentence says what of the
   pattern. */
syn_status syn__regex_new(syn__regex **out, const char *pattern, size_t bytes, bool of_file,
                          syn_error *err) SYN_MUST_USE;
void syn__regex_free(syn__regex *regex);

/* Room for one match, for any expressions. One thread at a time. */
typedef struct syn__match syn__match;
syn_status syn__match_new(syn__match **out, syn_error *err) SYN_MUST_USE;
void syn__match_free(syn__match *match);

/* The first match at `from` or later, text[*begin .. *end), never empty; *begin = *end = bytes if
   there is none. The text must be valid UTF-8. */
syn_status syn__regex_find(const syn__regex *regex, syn__match *match, const char *text,
                           size_t bytes, size_t from, size_t *begin, size_t *end,
                           syn_error *err) SYN_MUST_USE;
/* Whether there is a match right at `at`. */
bool syn__regex_is_at(const syn__regex *regex, syn__match *match, const char *text, size_t bytes,
                      size_t at);
/* Unicode version of the library ("14.0.0"); "" without one. */
void syn__regex_unicode(char out[64]);

#ifdef __cplusplus
}
#endif
#endif
