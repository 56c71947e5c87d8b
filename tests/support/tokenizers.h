/* Loads tokenizers from tiny vocabularies in the folder of the run and from the shared data, and
   reads the texts of SQuAD. */
#ifndef TESTS_TOKENIZERS_H
#define TESTS_TOKENIZERS_H

#include "models/tokenizer/tokenizer.h"
#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"
#include "tests/support/files.h"
#include "tests/support/tokenizer_fixture.h"

/* Whether the libraries use Unicode versions for which the fixtures are valid: 14 to 16 for PCRE2,
   14 to 17 for utf8proc. */
bool regex_unicode_is_known(void);
bool char_unicode_is_known(void);

/* Writes GPT-2's files with the fixture's tiny vocabulary to the folder of the run. */
void put_tiny_gpt2(void);
/* Writes BERT's files with all special tokens. [UNK] has the id 1, and the first letter has the id
   5. */
void put_tiny_bert(void);

/* Load the tokenizer of a given folder, of the folder of the run, or of a folder in the shared data
   ("gpt2", "bert"). On failure, they print the error and return NULL. */
syn_tokenizer *load_from(const char *folder);
syn_tokenizer *load_folder(void);
syn_tokenizer *load_shared(const char *name);

/* BERT's tokenizer with [UNK] as its only token, in the folder of the run. It is used to test how
   texts are split into words. */
syn_tokenizer *words_alone(bool lower_case, bool strip_accents, bool split_ideographs);
/* Continues a hash with the words of a text: up to 100 characters of each word, and a zero. */
uint64_t hash_words(uint64_t hash, const syn_tokenizer *tok, const char *text, size_t bytes);

/* Whether the ids of a text equal a list of decimal numbers. *rest points to the text after the
   list. */
bool gives(const syn_tokenizer *tok, const char *text, size_t bytes, const char *list,
           const char **rest);

/* Runs `often` with the tokenizer in four concurrent threads. Returns whether all of them return
   NULL. */
bool in_four_threads(void *(*often)(void *), syn_tokenizer *tok);

/* Advances to the next "context" or "question". Returns false at the end or after an error. */
bool squad_next(syn_json *json);

#endif
