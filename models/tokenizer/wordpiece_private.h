/* Internal declarations of WordPiece, shared by wordpiece_*.c, tokenizer*.c and tests. Words are
   split into tokens as by WordpieceTokenizer (tokenization.py of google-research/bert). */
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
/* A vocabulary. `words` and `pieces` are hash tables with open addressing, like those of BPE. */
typedef struct syn__wordpiece {
    int32_t vocab_elems;
    char *bytes;          /* text of all tokens, concatenated in id order */
    uint32_t *begin;      /* vocab_elems + 1 offsets into bytes */
    syn__bpe_word *words; /* all tokens; each can begin a word */
    size_t word_mask;
    syn__bpe_word *pieces; /* tokens that begin with the prefix; the key is the text after it */
    size_t piece_mask;
    size_t longest_bytes; /* length of the longest token */
    char *prefix;         /* marks tokens that continue a word: "##" */
    size_t prefix_bytes;
    size_t max_chars; /* longer words become the unknown token */
    int32_t unk;
} syn__wordpiece;

/* Parses vocab.txt, one token per line, as HuggingFace does: line n has id n, trailing white space
   is removed, and the last of equal lines wins. `name` is for errors. Fails with SYN_E_FORMAT if
   the file lacks [UNK], is not UTF-8 or begins with a byte order mark. */
syn_status syn__wordpiece_read(syn__wordpiece **out, const char *name, const char *data,
                               size_t bytes, syn_error *err) SYN_MUST_USE;
/* Creates the same from a parsed vocabulary. unk must be a valid id. */
syn_status syn__wordpiece_new(syn__wordpiece **out, const syn__vocab *vocab, const char *prefix,
                              size_t prefix_bytes, size_t max_chars, int32_t unk,
                              syn_error *err) SYN_MUST_USE;
void syn__wordpiece_free(syn__wordpiece *wp);

const char *syn__wordpiece_text(const syn__wordpiece *wp, int32_t id, size_t *bytes);
/* The id of a token; -1 if there is none. `hash` is its syn__bpe_hash. */
int32_t syn__wordpiece_find(const syn__wordpiece *wp, const char *word, size_t bytes,
                            uint32_t hash);
/* Splits a word, longest match first. Returns the number of ids, at most one per character. If some
   part of the word matches no token, the whole word becomes a single unknown token. */
size_t syn__wordpiece_cut(const syn__wordpiece *wp, const char *word, size_t bytes, int32_t *ids);

#ifdef __cplusplus
}
#endif
#endif
