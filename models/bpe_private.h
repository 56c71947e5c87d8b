/* Internals of the byte-level BPE tokenizer, shared by models/bpe_*.c, models/tokenizer.c and their
   tests. */
#ifndef MODELS_BPE_PRIVATE_H
#define MODELS_BPE_PRIVATE_H

#include "models/added_private.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__BPE_MAX_FILE_BYTES ((size_t)64 << 20)
#define SYN__BPE_END_OF_TEXT    "<|endoftext|>"
#define SYN__BPE_NO_RANK        UINT32_MAX

/* One merge: `key` holds the left id in the upper half, the right id in the lower. */
typedef struct syn__bpe_pair {
    uint64_t key;
    uint32_t rank; /* SYN__BPE_NO_RANK marks a free slot */
    int32_t id;    /* of the joined token */
} syn__bpe_pair;

/* A token that the merges make of its own bytes: a word equal to it needs no merging. */
typedef struct syn__bpe_word {
    uint32_t hash;
    int32_t id; /* -1 marks a free slot */
} syn__bpe_word;

#define SYN__BPE_FRAME_IDS 8

/* What is put around a text. */
typedef struct syn__bpe_frame {
    int32_t before[SYN__BPE_FRAME_IDS], behind[SYN__BPE_FRAME_IDS];
    size_t n_before, n_behind;
    bool prefix_space; /* each piece between tokens begins with a space, a new one if need be */
    int32_t bos;       /* of the token that begins texts; -1: none */
} syn__bpe_frame;

/* Vocabulary and merges; both tables are open-addressed, of a power of two of slots, at most half
   full. */
typedef struct syn__bpe {
    int32_t vocab_elems;  /* with the added tokens */
    int32_t base_elems;   /* without */
    syn__added added;     /* tokens that are looked for in a text before it is cut into words */
    syn__bpe_frame frame; /* nothing, but for bos -1, until the caller says so */
    char *bytes;          /* of all tokens, in id order */
    uint32_t *begin;      /* vocab_elems + 1 offsets into bytes */
    int32_t byte_id[256]; /* the token of each single byte */
    syn__bpe_pair *pairs;
    size_t pair_mask;
    syn__bpe_word *words;
    size_t word_mask;
} syn__bpe;

/* Scratch of syn__bpe_merge for long words; zero it before use. One thread at a time. */
typedef struct syn__bpe_work {
    uint64_t *heap;
    uint32_t *links; /* next, prev and rank, each of `elems` */
    size_t elems;
} syn__bpe_work;

/* Reads both files' contents; the names begin the error sentences. Tokens of `added` that are in
   the vocabulary as it spells them have their ids there, the others the next ones; an id that was
   said must be that (SYN_E_FORMAT). Takes what `added` holds, also after a failure; NULL:
   "<|endoftext|>" alone, if the vocabulary has it. */
syn_status syn__bpe_read(syn__bpe **out, const char *vocab_name, const char *vocab_data,
                         size_t vocab_bytes, const char *merges_name, const char *merges_data,
                         size_t merges_bytes, syn__added *added, syn_error *err) SYN_MUST_USE;
void syn__bpe_free(syn__bpe *bpe);

/* Hash of a short string; not stable between machines. */
uint32_t syn__bpe_hash(const char *text, size_t bytes);
/* Slots of a table for `elems` entries. */
size_t syn__bpe_slots(size_t elems);
/* The slot of a merge, or the free slot where it would go. */
syn__bpe_pair *syn__bpe_find_pair(const syn__bpe *bpe, int32_t left, int32_t right);
/* The slot of a word, or the free slot where it would go. */
syn__bpe_word *syn__bpe_find_word(const syn__bpe *bpe, const char *word, size_t bytes,
                                  uint32_t hash);

/* Splits `word` into bytes and joins pairs, lowest rank first, leftmost first among equals. `ids`
   has room for `bytes` ids. O(n log n). */
syn_status syn__bpe_merge(const syn__bpe *bpe, syn__bpe_work *work, const char *word, size_t bytes,
                          int32_t *ids, size_t *ids_elems, syn_error *err) SYN_MUST_USE;
void syn__bpe_work_free(syn__bpe_work *work);

/* GPT-2's pre-tokenizer: the pattern that cuts a text into the words that are merged one by one. */
typedef struct syn__bpe_pattern syn__bpe_pattern;
/* SYN_E_UNSUPPORTED without PCRE2. */
syn_status syn__bpe_pattern_new(syn__bpe_pattern **out, syn_error *err) SYN_MUST_USE;
void syn__bpe_pattern_free(syn__bpe_pattern *pattern);
/* Makes syn__bpe_is_word possible. */
syn_status syn__bpe_pattern_add_words(syn__bpe_pattern *pattern, syn_error *err) SYN_MUST_USE;
/* Unicode version of the regular expression library ("14.0.0"); "" without one. */
void syn__bpe_pattern_unicode(char out[64]);

/* A walk over the words of a text. */
typedef struct syn__bpe_split {
    const syn__bpe_pattern *pattern;
    const char *text;
    size_t bytes, pos;
    void *match; /* PCRE2's match data */
} syn__bpe_split;
/* Prepares a walk; free it also after a failure. */
syn_status syn__bpe_split_begin(syn__bpe_split *split, const syn__bpe_pattern *pattern,
                                syn_error *err) SYN_MUST_USE;
void syn__bpe_split_free(syn__bpe_split *split);
/* Points the walk at a text, which must be valid UTF-8 and outlive the walk. */
void syn__bpe_split_set(syn__bpe_split *split, const char *text, size_t bytes);
/* The next word, text[*begin .. *begin + *bytes); 0 bytes at the end. */
syn_status syn__bpe_split_next(syn__bpe_split *split, size_t *begin, size_t *bytes,
                               syn_error *err) SYN_MUST_USE;

/* Whether the character at `pos` is one of a word, \w: a letter, mark, decimal digit, connecting
   punctuation or joiner. user: a syn__bpe_split. */
bool syn__bpe_is_word(const void *user, const char *text, size_t bytes, size_t pos);

/* Every id of a text, which must be valid UTF-8; *ids is the caller's. */
syn_status syn__bpe_encode(const syn__bpe *bpe, const syn__bpe_pattern *pattern, const char *text,
                           size_t bytes, int32_t **ids, size_t *ids_elems,
                           syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
