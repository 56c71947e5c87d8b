/* A vocabulary from a JSON object {"token": id, ...}: maps texts to ids and back. */
#ifndef MODELS_TOKENIZER_VOCAB_PRIVATE_H
#define MODELS_TOKENIZER_VOCAB_PRIVATE_H

#include "syntorch/base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__QUOTE_BYTES 48

typedef struct syn__vocab {
    char *text; /* all tokens, concatenated in file order */
    size_t text_bytes, text_cap;
    uint32_t *end; /* entry i is text[end[i - 1] .. end[i]) */
    int32_t *id;
    size_t elems, end_cap, id_cap;
    uint32_t *slot; /* hash table with entry + 1; 0: free slot */
    size_t slot_mask;
    uint32_t *by_id; /* entry + 1 for each id */
    size_t longest_bytes;
    char *joined; /* scratch memory for two tokens */
} syn__vocab;

/* Reads the object that comes next. Ids must be 0..n-1, each exactly once, and texts must be
   unique, else SYN_E_FORMAT. `name` is the file's name for errors. Free the vocabulary after a
   failure, too; err must not be NULL. */
syn_status syn__vocab_read(syn__vocab *vocab, const char *name, syn_json *json,
                           syn_error *err) SYN_MUST_USE;
void syn__vocab_free(syn__vocab *vocab);
/* -1 if there is no such token. */
int32_t syn__vocab_find(const syn__vocab *vocab, const char *text, size_t bytes);
/* The text of an id, which must be below `elems`. */
const char *syn__vocab_text(const syn__vocab *vocab, size_t id, size_t *bytes);

/* Formats a token for an error message: keeps printable ASCII, writes other bytes as \xNN,
   truncates long texts. */
const char *syn__quote(char out[SYN__QUOTE_BYTES], const char *text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
