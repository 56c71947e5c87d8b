/* Texts to train on, as ids: made from questions and their contexts once, kept in a file. */
#ifndef MODELS_TEXTS_H
#define MODELS_TEXTS_H

#include "models/tokenizer/tokenizer.h"
#include "models/training/squad.h"
#include "syntorch/base/workers.h"

SYN_API_BEGIN

/* Immutable: any number of threads may use one. */
typedef struct syn_texts syn_texts;

typedef enum syn_texts_form {
    SYN_TEXTS_PLAIN, /* question, a space, context */
    SYN_TEXTS_PAIR,  /* [CLS] question [SEP] context [SEP], the second of type 1 */
    SYN_TEXTS_JOINED /* the same ids where [SEP] is a token in the one text "question [SEP] context"
                        (as a tokenizer called with that text gives them): all of type 0 */
} syn_texts_form;

typedef struct syn_texts_how {
    syn_texts_form form;
    int64_t max_tokens; /* of a text, special tokens among them: what is too long is cut at its end;
                           of a pair the longer of the two ("longest_first") */
} syn_texts_how;

/* Spread over the workers. SYN_E_INVALID with the number of the question that has no UTF-8. */
syn_status syn_texts_new(syn_texts **out, const syn_squad *squad, const syn_tokenizer *tok,
                         const syn_texts_how *how, syn_workers *workers,
                         syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_texts_free(syn_texts *texts);

typedef struct syn_text {
    const int32_t *ids; /* the texts' own */
    int32_t n;
    int32_t first; /* how many of them are of type 0 */
} syn_text;
int64_t syn_texts_count(const syn_texts *texts);
syn_text syn_texts_get(const syn_texts *texts, int64_t i);
/* All ids of all texts. */
int64_t syn_texts_tokens(const syn_texts *texts);

/* What the texts depend on: questions, tokenizer (syn_tokenizer_checksum, or 0 for that of bytes),
   form and length. */
uint64_t syn_texts_key(const syn_squad *squad, uint64_t tokenizer, const syn_texts_how *how);
/* The file takes its place when it is whole. */
syn_status syn_texts_save(const syn_texts *texts, const char *path, uint64_t key,
                          syn_error *err) SYN_MUST_USE;
/* *out stays NULL, without an error, if there is no such file, or one with another key or other
   contents than were saved. */
syn_status syn_texts_load(syn_texts **out, const char *path, uint64_t key,
                          syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
