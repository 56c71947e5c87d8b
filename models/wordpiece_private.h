/* Internals of BERT's WordPiece tokenizer, shared by models/wordpiece_*.c, models/tokenizer*.c and
   their tests. The steps are those of BasicTokenizer and WordpieceTokenizer (tokenization.py of
   github.com/google-research/bert), in the order of HuggingFace's fast BertTokenizer: drop control
   characters, isolate ideographs, strip accents, lower case, cut at white space and punctuation,
   longest match first. Its slow tokenizer gives other ids where it drops what is unassigned,
   composes (NFC) what is cased, writes a final sigma, or knows a newer Unicode. */
#ifndef MODELS_WORDPIECE_PRIVATE_H
#define MODELS_WORDPIECE_PRIVATE_H

#include "models/bpe_private.h"
#include "syntorch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__WORDPIECE_MAX_FILE_BYTES ((size_t)16 << 20)
#define SYN__WORDPIECE_UNKNOWN        "[UNK]"
/* Code points of a word; a longer one is unknown. */
#define SYN__WORDPIECE_WORD_CHARS 100
/* Tokens that are recognized in the text as they stand, [UNK] first. */
#define SYN__WORDPIECE_SPECIALS 5

/* What becomes of a code point. */
typedef enum syn__char_kind {
    SYN__CHAR_LETTER, /* part of a word: all but the others */
    SYN__CHAR_SPACE,
    SYN__CHAR_DROPPED, /* as if it were not there */
    SYN__CHAR_PUNCTUATION,
    SYN__CHAR_IDEOGRAPH
} syn__char_kind;

/* Whether the library for these was there (without it, none of them may be called) ... */
syn_status syn__char_ready(syn_error *err) SYN_MUST_USE;
/* ... and its Unicode version ("15.0.0"); "" without it. */
const char *syn__char_unicode(void);
syn__char_kind syn__char_kind_of(uint32_t c);
/* A nonspacing mark (Mn), what is stripped as an accent. */
bool syn__char_is_mark(uint32_t c);
/* Canonical combining class. */
unsigned syn__char_combining(uint32_t c);
/* Canonical decomposition (NFD without the reordering); returns how many. */
size_t syn__char_decompose(uint32_t c, uint32_t out[4]);
/* Lower case; returns how many. */
size_t syn__char_lower(uint32_t c, uint32_t out[2]);

typedef struct syn__wordpiece_rules {
    bool lower_case;
    bool strip_accents;
    bool split_ideographs;
} syn__wordpiece_rules;

/* A vocabulary. Both tables are open-addressed, as those of BPE. */
typedef struct syn__wordpiece {
    syn__wordpiece_rules rules;
    int32_t vocab_elems;
    char *bytes;          /* of all tokens, in id order */
    uint32_t *begin;      /* vocab_elems + 1 offsets into bytes */
    syn__bpe_word *words; /* tokens that can begin a word */
    size_t word_mask;
    syn__bpe_word *pieces; /* tokens "##...", by what follows the marks */
    size_t piece_mask;
    size_t longest_bytes;                     /* of any token */
    int32_t special[SYN__WORDPIECE_SPECIALS]; /* -1 if the vocabulary lacks it */
    /* of an ASCII letter or digit what it becomes, of other ASCII the syn__char_kind, else 0 */
    uint8_t ascii[256];
} syn__wordpiece;

/* Reads the contents of vocab.txt, a token a line: as HuggingFace does, line n is id n, trailing
   white space goes, of equal lines the last one counts. `name` begins the error sentences. Without
   [UNK], not UTF-8, or with a byte order mark: SYN_E_FORMAT. */
syn_status syn__wordpiece_read(syn__wordpiece **out, syn__wordpiece_rules rules, const char *name,
                               const char *data, size_t bytes, syn_error *err) SYN_MUST_USE;
void syn__wordpiece_free(syn__wordpiece *wp);

/* The text of special token `index`, [UNK] first. */
const char *syn__wordpiece_special(size_t index);
/* Id of a token that can begin a word; -1 if there is none. `hash` is syn__bpe_hash of it. */
int32_t syn__wordpiece_find(const syn__wordpiece *wp, const char *word, size_t bytes,
                            uint32_t hash);
/* The ids of a word, at most one a character: the longest token first, [UNK] if a rest has none. */
size_t syn__wordpiece_cut(const syn__wordpiece *wp, const char *word, size_t bytes,
                          int32_t ids[SYN__WORDPIECE_WORD_CHARS]);
/* Every id of a text, which must be valid UTF-8; *ids is the caller's. */
syn_status syn__wordpiece_encode(const syn__wordpiece *wp, const char *text, size_t bytes,
                                 int32_t **ids, size_t *ids_elems, syn_error *err) SYN_MUST_USE;

/* A walk over the words of a text after all rules. */
typedef struct syn__wordpiece_split {
    const syn__wordpiece *wp;
    const char *text;
    size_t bytes, pos;
    /* what the code points before pos became and no word has taken yet */
    uint32_t waiting[4];
    syn__char_kind waiting_kind[4];
    size_t taken, waiting_elems;
    bool starter_gone; /* a mark that others must not be sorted across was stripped */
    bool too_long;     /* the last word had more characters than a word may have */
    char word[4 * SYN__WORDPIECE_WORD_CHARS];
} syn__wordpiece_split;
/* Points the walk at a text, which must be valid UTF-8 and outlive the walk. */
void syn__wordpiece_split_set(syn__wordpiece_split *split, const syn__wordpiece *wp,
                              const char *text, size_t bytes);
/* The next word, valid until the next call; false at the end. Of one that is too long only the
   beginning. */
bool syn__wordpiece_split_next(syn__wordpiece_split *split, const char **word, size_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
