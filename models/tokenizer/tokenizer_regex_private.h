/* Regular expressions of HuggingFace's tokenizers library (Unicode 16), executed by PCRE2. That
   library uses two engines: Oniguruma for patterns in files, and the Rust crate regex for its own
   patterns. */
#ifndef MODELS_TOKENIZER_REGEX_PRIVATE_H
#define MODELS_TOKENIZER_REGEX_PRIVATE_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Splits GPT-2's texts into words (encoder.py of github.com/openai/gpt-2). */
#define SYN__REGEX_GPT2 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* Fails if the program was built without PCRE2. */
syn_status syn__regex_ready(syn_error *err) SYN_MUST_USE;

typedef struct syn__regex syn__regex;
/* of_file: the pattern is from a file, so in Oniguruma's syntax. Fails with SYN_E_UNSUPPORTED if
   the build has no PCRE2, and for constructs that PCRE2 would interpret differently, such as \w in
   patterns of files. The message names the construct. */
syn_status syn__regex_new(syn__regex **out, const char *pattern, size_t bytes, bool of_file,
                          syn_error *err) SYN_MUST_USE;
void syn__regex_free(syn__regex *regex);

/* Memory for one match of any expression. Not thread-safe. */
typedef struct syn__match syn__match;
syn_status syn__match_new(syn__match **out, syn_error *err) SYN_MUST_USE;
void syn__match_free(syn__match *match);

/* Finds the first match at or after `from` that is not empty: text[*begin .. *end). If there is
   none, *begin = *end = bytes. The text must be valid UTF-8. */
syn_status syn__regex_find(const syn__regex *regex, syn__match *match, const char *text,
                           size_t bytes, size_t from, size_t *begin, size_t *end,
                           syn_error *err) SYN_MUST_USE;
/* Whether a match begins at `at`. */
bool syn__regex_is_at(const syn__regex *regex, syn__match *match, const char *text, size_t bytes,
                      size_t at);
/* Unicode version of PCRE2 ("14.0.0"); "" without PCRE2. */
void syn__regex_unicode(char out[64]);

#ifdef __cplusplus
}
#endif
#endif
