/* Tokenizers to load: tiny vocabularies in the run's folder, those of the shared data; the
   texts of SQuAD. */
#ifndef TESTS_TOKENIZERS_H
#define TESTS_TOKENIZERS_H

#include "models/tokenizer/tokenizer.h"
#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"
#include "tests/support/files.h"
#include "tests/support/tokenizer_fixture.h"

/* Whether the libraries' versions of Unicode are such that the fixtures hold: PCRE2's 14 to 16,
   utf8proc's 14 to 17. */
bool regex_unicode_is_known(void);
bool char_unicode_is_known(void);

/* GPT-2's files with the fixture's tiny vocabulary. */
void put_tiny_gpt2(void);
/* BERT's with all special tokens; [UNK] is 1, the first letter 5. */
void put_tiny_bert(void);

/* The tokenizer of a folder, of the run's folder, of one of the shared data ("gpt2", "bert"); NULL,
   after saying why, if it cannot be loaded. */
syn_tokenizer *load_from(const char *folder);
syn_tokenizer *load_folder(void);
syn_tokenizer *load_shared(const char *name);

/* BERT's tokenizer in the run's folder with only [UNK], which shows words alone. */
syn_tokenizer *words_alone(bool lower_case, bool strip_accents, bool split_ideographs);
/* Adds the words of a text, up to 100 characters of each and a zero, to a hash. */
uint64_t hash_words(uint64_t hash, const syn_tokenizer *tok, const char *text, size_t bytes);

/* Whether the ids of a text are those of a list in decimal; *rest is what follows the list. */
bool gives(const syn_tokenizer *tok, const char *text, size_t bytes, const char *list,
           const char **rest);

/* Whether `often` returns NULL for the tokenizer in each of four threads at once. */
bool in_four_threads(void *(*often)(void *), syn_tokenizer *tok);

/* Goes on to the next "context" or "question"; false at the end or after an error. */
bool squad_next(syn_json *json);

#endif
