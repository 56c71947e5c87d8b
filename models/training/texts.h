/* The tokenized samples for training. They are made from SQuAD questions and contexts once, and
 * stored in a file for later runs. */
#ifndef MODELS_TEXTS_H
#define MODELS_TEXTS_H

#include "models/tokenizer/tokenizer.h"
#include "models/training/squad.h"
#include "syntorch/base/workers.h"

SYN_API_BEGIN

/* Immutable: any number of threads may use it. */
typedef struct syn_texts syn_texts;

typedef enum syn_texts_form {
    SYN_TEXTS_PLAIN, /* question, a space, context */
    SYN_TEXTS_PAIR,  /* [CLS] question [SEP] context [SEP]; context and last [SEP] have type 1 */
    SYN_TEXTS_JOINED /* the single text "question [SEP] context", tokenized like any text, with
                        [CLS] before and [SEP] after it; has the ids of PAIR if [SEP] is a token,
                        but all ids have type 0 */
} syn_texts_form;

typedef struct syn_texts_options {
    syn_texts_form form;
    int64_t max_tokens; /* per sample, including special tokens; longer samples are truncated at
                           their end, pairs at the end of the longer text ("longest_first" in
                           transformers) */
} syn_texts_options;

/* Tokenizes all questions, using the workers. Fails with SYN_E_INVALID and the question's number if
 * a text is not UTF-8. */
syn_status syn_texts_new(syn_texts **out, const syn_squad *squad, const syn_tokenizer *tok,
                         const syn_texts_options *how, syn_workers *workers,
                         syn_error *err) SYN_MUST_USE;
/* NULL is allowed. */
void syn_texts_free(syn_texts *texts);

typedef struct syn_text {
    const int32_t *ids; /* owned by the texts */
    int32_t n;
    int32_t first; /* the first `first` ids have type 0, the others type 1 */
} syn_text;
int64_t syn_texts_count(const syn_texts *texts);
syn_text syn_texts_get(const syn_texts *texts, int64_t i);
/* The number of ids in all samples. */
int64_t syn_texts_tokens(const syn_texts *texts);

/* A hash of everything that the samples depend on: questions, tokenizer, form and length.
 * tokenizer: its syn_tokenizer_checksum; 0 for the byte tokenizer. */
uint64_t syn_texts_key(const syn_squad *squad, uint64_t tokenizer, const syn_texts_options *how);
/* Writes the samples to a file. An existing file is replaced only when the new one is complete. */
syn_status syn_texts_save(const syn_texts *texts, const char *path, uint64_t key,
                          syn_error *err) SYN_MUST_USE;
/* Reads such a file. Sets *out to NULL and returns SYN_OK if the file does not exist, has another
 * key or is damaged. */
syn_status syn_texts_load(syn_texts **out, const char *path, uint64_t key,
                          syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
