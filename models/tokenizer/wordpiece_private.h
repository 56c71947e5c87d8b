/* Internals of WordPiece, shared by models/wordpiece_*.c, models/tokenizer*.c and their tests:
   words to tokens as WordpieceTokenizer (tokenization.py of google-research/bert). */
#ifndef MODELS_WORDPIECE_PRIVATE_H
#define MODELS_WORDPIECE_PRIVATE_H

#include "models/tokenizer/bpe_private.h"
#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__WORDPIECE_MAX_FILE_BYTES ((size_t)16 << 20)
#define SYN__WORDPIECE_UNKNOWN        "[UNK]"
#define SYN__WORDPIECE_PREFIX         "##"
#define SYN__WORDPIECE_WORD_CHARS     100
/* A vocabulary. Both tables are open-addressed, as those of BPE. */
typedef struct syn__wordpiece {
    int32_t vocab_elems;
    char *bytes;          /* of all tokens, in id order */
    uint32_t *begin;      /* vocab_elems + 1 offsets into bytes */
    syn__bpe_word *words; /* tokens, each of which can begin a word */
    size_t word_mask;
    syn__bpe_word *pieces; /* those that begin with the prefix, by what follows it */
    size_t piece_mask;
    size_t longest_bytes; /* of any token */
    char *prefix;         /* of what is not at the beginning of a word: "##" */
    size_t prefix_bytes;
    size_t max_chars; /* of a word; a longer one is unknown */
    int32_t unk;
} syn__wordpiece;

/* Reads the contents of vocab.txt, a token a line: as HuggingFace does, line n is id n, trailing
   white space goes, of equal lines the last one counts. `name` begins the error sentences. Without
   [UNK], not UTF-8, or with a byte order mark: SYN_E_FORMAT. */
syn_status syn__wordpiece_read(syn__wordpiece **out, const char *name, const char *data,
                               size_t bytes, syn_error *err) SYN_MUST_USE;
/* The same of a vocabulary that is read; -1 < unk. */
syn_status syn__wordpiece_new(syn__wordpiece **out, const syn__vocab *vocab, const char *prefix,
                              size_t prefix_bytes, size_t max_chars, int32_t unk,
                              syn_error *err) SYN_MUST_USE;
void syn__wordpiece_free(syn__wordpiece *wp);

const char *syn__wordpiece_text(const syn__wordpiece *wp, int32_t id, size_t *bytes);
/* Id of a token; -1 if there is none. `hash` is syn__bpe_hash of it. */
int32_t syn__wordpiece_find(const syn__wordpiece *wp, const char *word, size_t bytes,
                            uint32_t hash);
/* The ids of a word, at most one a character: the longest token first, one unknown if a rest has
   none. */
size_t syn__wordpiece_cut(const syn__wordpiece *wp, const char *word, size_t bytes, int32_t *ids);

#ifdef __cplusplus
}
#endif
#endif
