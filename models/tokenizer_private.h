/* What models/tokenizer.c and models/tokenizer_folder.c share. */
#ifndef MODELS_TOKENIZER_PRIVATE_H
#define MODELS_TOKENIZER_PRIVATE_H

#include "models/bpe_private.h"
#include "models/tokenizer.h"
#include "models/wordpiece_private.h"
#include "syntorch/json.h"

#ifdef __cplusplus
extern "C" {
#endif

struct syn_tokenizer {
    syn_tokenizer_kind kind;
    syn__bpe *bpe;
    syn__bpe_pattern *pattern;
    syn__wordpiece *wordpiece;
    char bytes[256]; /* the tokens of the byte tokenizer */
};

/* ---- the files of a folder (tokenizer_json.c) ---- */

#define SYN__TOK_NAME_BYTES 48

/* Whether the folder has the file. */
syn_status syn__tok_exists(bool *out, const char *folder, const char *file,
                           syn_error *err) SYN_MUST_USE;
/* A file of the folder; the path begins error sentences. Both are the caller's to free, also after
   a failure. */
syn_status syn__tok_read_file(const char *folder, const char *file, size_t max_bytes, char **path,
                              char **data, size_t *bytes, syn_error *err) SYN_MUST_USE;
/* Called behind each key of the object that a file is; must read the value, or skip it. */
typedef syn_status syn__tok_entry(void *user, syn_json *json, syn_error *err);
/* Reads a JSON file if the folder has it. */
syn_status syn__tok_read(const char *folder, const char *file, syn__tok_entry *entry, void *user,
                         syn_error *err) SYN_MUST_USE;

/* SYN_OK if the last token was `end`, else what went wrong. */
syn_status syn__tok_status(const syn_json *json, syn_json_type end,
                           const syn_error *err) SYN_MUST_USE;
syn_status syn__tok_skip(syn_json *json, const syn_error *err) SYN_MUST_USE;
syn_status syn__tok_bool(syn_json *json, bool *out, const char *what) SYN_MUST_USE;
/* A string, null (gives ""), or an object with the string as "content"; cut to what fits. */
syn_status syn__tok_text(syn_json *json, char out[SYN__TOK_NAME_BYTES], const char *what,
                         syn_error *err) SYN_MUST_USE;

/* The same, of the JSON token that was read last. */
syn_status syn__tok_take_text(syn_json *json, char out[SYN__TOK_NAME_BYTES], const char *what,
                              syn_error *err) SYN_MUST_USE;

/* Whose tokenizer a tokenizer_class is; SYN_TOKENIZER_BYTES: of any, or none was named. False if
   the class is one that this program does not know. */
bool syn__tok_kind_of_class(const char *class_name, syn_tokenizer_kind *kind);

/* GPT-2's tokenizer of a folder (tokenizer_bpe.c). */
syn_status syn__tok_open_bpe(syn_tokenizer *tok, const char *folder, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
