/* A vocabulary as a JSON object writes it, {"token": id, ...}: the texts of tokens and their ids,
   both ways. */
#ifndef MODELS_TOKENIZER_VOCAB_PRIVATE_H
#define MODELS_TOKENIZER_VOCAB_PRIVATE_H

#include "syntorch/base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__QUOTE_BYTES 48

typedef struct syn__vocab {
    char *text; /* of all tokens, in file order */
    size_t text_bytes, text_cap;
    uint32_t *end; /* entry i is text[end[i - 1] .. end[i]) */
    int32_t *id;
    size_t elems, end_cap, id_cap;
    uint32_t *slot; /* hash table of entry + 1, 0 marks a free slot */
    size_t slot_mask;
    uint32_t *by_id; /* entry + 1 of an id */
    size_t longest_bytes;
    char *joined; /* room for two tokens */
} syn__vocab;

/* Reads the object that comes next. Every id 0..n-1 must be there once and every text once, else
   SYN_E_FORMAT with a sentence that `name`, a file's, begins. Free it also after a failure; err
   must not be NULL. */
syn_status syn__vocab_read(syn__vocab *vocab, const char *name, syn_json *json,
                           syn_error *err) SYN_MUST_USE;
void syn__vocab_free(syn__vocab *vocab);
/* -1 if there is no such token. */
int32_t syn__vocab_find(const syn__vocab *vocab, const char *text, size_t bytes);
/* The text of an id below `elems`. */
const char *syn__vocab_text(const syn__vocab *vocab, size_t id, size_t *bytes);

/* A token for an error sentence: printable ASCII kept, other bytes as \xNN, cut if long. */
const char *syn__quote(char out[SYN__QUOTE_BYTES], const char *text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
