/* Tokens that files add to a vocabulary, and where a text holds them: as HuggingFace's tokenizers
   library does. */
#ifndef MODELS_TOKENIZER_ADDED_PRIVATE_H
#define MODELS_TOKENIZER_ADDED_PRIVATE_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__added_token {
    char *text; /* not empty, need not end in NUL */
    size_t bytes;
    char *found; /* as it stands in texts: what the normalizers make of a normalized one, or text */
    size_t found_bytes;
    char *shown; /* as decoders see it: the same, or the bytes that spells */
    size_t shown_bytes;
    int64_t said; /* the id that a file says; -1: none */
    int32_t id;
    bool single_word;    /* not beside a letter, number, mark or underscore */
    bool lstrip, rstrip; /* takes the white space before it, behind it */
    bool special;
    bool normalized; /* looked for in what those that are not have left */
} syn__added_token;

typedef struct syn__added {
    syn__added_token *tokens; /* in the order they were added */
    size_t n, cap;
    uint32_t *slots;     /* a hash table of index + 1; 0: free */
    size_t n_slots;      /* a power of two, at least twice n */
    uint32_t *sorted[2]; /* by text: those not normalized, those normalized */
    size_t n_sorted[2];
    uint32_t *by_id;
    bool begins[2][256];    /* whether a token begins with this byte */
    uint8_t pairs[2][8192]; /* a bit a pair of bytes: whether one can begin with both */
    bool any_single_word;
} syn__added;

/* Appends a copy of `text`, of `bytes` > 0 bytes; *token is valid until the next call. A text that
   is there already is not added again: *token is that one. */
syn_status syn__added_put(syn__added *added, const char *text, size_t bytes,
                          syn__added_token **token, syn_error *err) SYN_MUST_USE;
const syn__added_token *syn__added_find(const syn__added *added, const char *text, size_t bytes);
/* NULL if no added token has the id; after the index was made. */
const syn__added_token *syn__added_by_id(const syn__added *added, int32_t id);
/* After the last one has its id, and its `found` if that is not its text: makes the index. */
syn_status syn__added_index(syn__added *added, syn_error *err) SYN_MUST_USE;
void syn__added_free(syn__added *added);

/* A piece of a text: a token, or (id -1) what lies between. */
typedef struct syn__added_piece {
    size_t begin, end;
    int32_t id;
} syn__added_piece;

typedef struct syn__added_pieces {
    syn__added_piece *at;
    size_t n, cap;
} syn__added_pieces;

/* Whether the character of `text`, valid UTF-8, that begins at `pos` is of a word. */
typedef bool syn__is_word(const void *user, const char *text, size_t bytes, size_t pos);
/* Cuts a text at the tokens that are `normalized` or not: from the left, the longest of those that
   begin at one place; pieces replaces what it held. Pieces may overlap where the one before takes
   white space that holds another token. */
syn_status syn__added_cut(const syn__added *added, bool normalized, const char *text, size_t bytes,
                          syn__is_word *is_word, const void *user, syn__added_pieces *pieces,
                          syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
