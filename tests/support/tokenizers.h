/* Loads tokenizers from tiny vocabularies in the run's folder and from the shared data, and reads
   the texts of SQuAD. */
#ifndef TESTS_TOKENIZERS_H
#define TESTS_TOKENIZERS_H

#include "models/tokenizer/tokenizer.h"
#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"
#include "tests/support/files.h"
#include "tests/support/tokenizer_fixture.h"

/* Whether the fixtures are valid for the Unicode versions of the libraries: 14 to 16 for PCRE2, 14
   to 17 for utf8proc. */
bool regex_unicode_is_known(void);
bool char_unicode_is_known(void);

/* Writes GPT-2's files with the fixture's tiny vocabulary to the run's folder. */
void put_tiny_gpt2(void);
/* Writes BERT's files with all special tokens; [UNK] has id 1, the first letter id 5. */
void put_tiny_bert(void);

/* Load the tokenizer of a folder, of the run's folder, or of a folder in the shared data ("gpt2",
   "bert"). On failure print the error and return NULL. */
syn_tokenizer *load_from(const char *folder);
syn_tokenizer *load_folder(void);
syn_tokenizer *load_shared(const char *name);

/* BERT's tokenizer in the run's folder with a vocabulary of only [UNK], to test how texts are split
   into words. */
syn_tokenizer *words_alone(bool lower_case, bool strip_accents, bool split_ideographs);
/* Adds the words of a text to a hash: up to 100 characters of each word, and a zero. */
uint64_t hash_words(uint64_t hash, const syn_tokenizer *tok, const char *text, size_t bytes);

/* Whether the ids of a text equal a list of decimal numbers. *rest: the rest after the list. */
bool gives(const syn_tokenizer *tok, const char *text, size_t bytes, const char *list,
           const char **rest);

/* Runs `often` with the tokenizer in four threads concurrently. Returns whether all return NULL. */
bool in_four_threads(void *(*often)(void *), syn_tokenizer *tok);

/* Advances to the next "context" or "question"; false at the end or after an error. */
bool squad_next(syn_json *json);

#endif
