/* A vocabulary that is read from a JSON object {"token": id, ...}. It maps texts to ids and
   back. */
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
    uint32_t *slot; /* hash table of entry numbers + 1; 0: free slot */
    size_t slot_mask;
    uint32_t *by_id; /* entry number + 1 of each id */
    size_t longest_bytes;
    char *joined; /* scratch memory for two concatenated tokens */
} syn__vocab;

/* Reads the object that comes next. Fails with SYN_E_FORMAT unless the ids are 0..n-1, each exactly
   once, and texts are unique. `name` is the file's name for errors. err must not be NULL. The
   caller frees the vocabulary, even after a failure. */
syn_status syn__vocab_read(syn__vocab *vocab, const char *name, syn_json *json,
                           syn_error *err) SYN_MUST_USE;
void syn__vocab_free(syn__vocab *vocab);
/* The id of a token; -1 if there is no such token. */
int32_t syn__vocab_find(const syn__vocab *vocab, const char *text, size_t bytes);
/* The text of an id, which must be below `elems`. */
const char *syn__vocab_text(const syn__vocab *vocab, size_t id, size_t *bytes);

/* Formats a token for an error message. Keeps printable ASCII, writes other bytes as \xNN, and
   truncates long texts. */
const char *syn__quote(char out[SYN__QUOTE_BYTES], const char *text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
