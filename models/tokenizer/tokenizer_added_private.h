/* Tokens that files add to a vocabulary, and the search for them in texts, as in HuggingFace's
   tokenizers library. */
#ifndef MODELS_TOKENIZER_ADDED_PRIVATE_H
#define MODELS_TOKENIZER_ADDED_PRIVATE_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__added_token {
    char *text; /* not empty; may contain NUL */
    size_t bytes;
    char *found; /* the text to search for: `text`; for normalized tokens, the normalizers' result
                    for it */
    size_t found_bytes;
    char *shown; /* the text that decoders get: `found`, or the bytes that it spells */
    size_t shown_bytes;
    int64_t given; /* id given in a file; -1: none */
    int32_t id;
    bool single_word;    /* matches only if no letter, number, mark or underscore is next to it */
    bool lstrip, rstrip; /* the match includes white space before it, after it */
    bool special;
    bool normalized; /* searched for after normalization, in the text between the tokens that are
                        not normalized */
} syn__added_token;

typedef struct syn__added {
    syn__added_token *tokens; /* in the order in which they were added */
    size_t n, cap;
    uint32_t *slots;     /* hash table with index + 1; 0: free */
    size_t n_slots;      /* a power of two, at least twice n */
    uint32_t *sorted[2]; /* indices sorted by `found`: [0] tokens not normalized, [1] normalized */
    size_t n_sorted[2];
    uint32_t *by_id;
    bool begins[2][256];    /* whether some token begins with this byte */
    uint8_t pairs[2][8192]; /* bitmap over pairs of bytes: whether some token can begin with the
                               pair */
    bool any_single_word;
} syn__added;

/* Appends a token with a copy of `text`, which must not be empty. If there is a token with that
   text already, returns it instead. *token is valid until the next call. */
syn_status syn__added_put(syn__added *added, const char *text, size_t bytes,
                          syn__added_token **token, syn_error *err) SYN_MUST_USE;
const syn__added_token *syn__added_find(const syn__added *added, const char *text, size_t bytes);
/* The added token with that id, or NULL. Requires the index. */
const syn__added_token *syn__added_by_id(const syn__added *added, int32_t id);
/* Builds the index. Call it when the ids of all tokens are set, and `found` where it differs from
   `text`. */
syn_status syn__added_index(syn__added *added, syn_error *err) SYN_MUST_USE;
void syn__added_free(syn__added *added);

/* A piece of a text: an added token or, with id -1, text between added tokens. */
typedef struct syn__added_piece {
    size_t begin, end;
    int32_t id;
} syn__added_piece;

typedef struct syn__added_pieces {
    syn__added_piece *at;
    size_t n, cap;
} syn__added_pieces;

/* Whether the character at `pos` of `text` is part of a word. The text is valid UTF-8. */
typedef bool syn__is_word(const void *user, const char *text, size_t bytes, size_t pos);
/* Splits a text at the added tokens whose flag `normalized` has that value. Searches from left to
   right, and takes the longest match at each position. Overwrites `pieces`. A match may include
   white space after it (rstrip), and the search also finds tokens within that white space, so
   pieces may overlap. */
syn_status syn__added_cut(const syn__added *added, bool normalized, const char *text, size_t bytes,
                          syn__is_word *is_word, const void *user, syn__added_pieces *pieces,
                          syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
