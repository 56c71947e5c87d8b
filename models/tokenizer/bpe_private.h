/* Internals of byte-pair encoding, shared by models/bpe_*.c, models/tokenizer*.c and tests. */
#ifndef MODELS_BPE_PRIVATE_H
#define MODELS_BPE_PRIVATE_H

#include "models/tokenizer/tokenizer_vocab_private.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__BPE_MAX_FILE_BYTES ((size_t)64 << 20)
#define SYN__BPE_END_OF_TEXT    "<|endoftext|>"
#define SYN__BPE_NO_RANK        UINT32_MAX
#define SYN__BPE_WHY_BYTES      160

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

/* How words become tokens, besides merging. */
typedef struct syn__bpe_rules {
    bool by_chars;      /* a word begins as characters, not as bytes */
    bool ignore_merges; /* a word that is a token is that token, whatever merging makes of it */
    /* of characters that are no token: */
    bool byte_fallback; /* the tokens <0x00>..<0xFF> of its bytes, if all are there */
    bool fuse_unk;      /* several in a row are one unknown token */
    int32_t unk;        /* id of that token; -1: they are passed over */
} syn__bpe_rules;

/* Vocabulary and merges; both tables are open-addressed, of a power of two of slots, at most half
   full. */
typedef struct syn__bpe {
    syn__bpe_rules rules;
    int32_t vocab_elems;
    char *bytes;           /* of all tokens, in id order; by_chars: as the file spells them */
    uint32_t *begin;       /* vocab_elems + 1 offsets into bytes */
    int32_t byte_id[256];  /* the token of each single byte, by_chars the fallback's or -1 */
    int32_t ascii_id[128]; /* by_chars: the token of each, or -1 */
    bool cuts;             /* by_chars: a word may be cut before U+2581 behind a byte that is not */
    bool glues[256];       /*    ... among these: no merge joins what it separates */
    syn__bpe_pair *pairs;
    size_t pair_mask, n_pairs;
    syn__bpe_word *words;
    size_t word_mask;
} syn__bpe;

/* Scratch of syn__bpe_merge for long words; zero it before use. One thread at a time. */
typedef struct syn__bpe_work {
    uint64_t *heap;
    uint32_t *links; /* next, prev and rank, each of `elems` */
    size_t elems;
} syn__bpe_work;

/* Begins with the tokens of a vocabulary; then put all merges, then finish. `name`, a file's,
   begins error sentences: SYN_E_FORMAT if one of the 256 bytes is no token, but by_chars. */
syn_status syn__bpe_new(syn__bpe **out, const syn__vocab *vocab, const syn__bpe_rules *rules,
                        const char *name, syn_error *err) SYN_MUST_USE;
/* Room for so many merges in all. */
syn_status syn__bpe_reserve(syn__bpe *bpe, size_t merges, syn_error *err) SYN_MUST_USE;
/* The next merge, there being room. False if it is none: `why` says it, or is empty if *known, the
   merge of the same two tokens that is there already, says it. */
bool syn__bpe_put_merge(syn__bpe *bpe, const syn__vocab *vocab, const char *left, size_t left_bytes,
                        const char *right, size_t right_bytes, char why[SYN__BPE_WHY_BYTES],
                        const syn__bpe_pair **known);
syn_status syn__bpe_finish(syn__bpe *bpe, const syn__vocab *vocab, syn_error *err) SYN_MUST_USE;
/* Whether a vocabulary has a token for each of the 256 bytes, as GPT-2 spells them. */
bool syn__bpe_has_bytes(const syn__vocab *vocab);
/* Writes the bytes that a token spells, or its own UTF-8 if it cannot have come from bytes (false);
   never more than `bytes`. */
bool syn__bpe_unspell(const char *text, size_t bytes, char *out, size_t *out_bytes);
/* Writes how a byte is spelled, 1 or 2 bytes; returns how many. */
size_t syn__bpe_spell(unsigned char byte, char out[4]);

/* Reads GPT-2's vocab.json and merges.txt; the names begin the error sentences. `vocab` is filled,
   and to be freed also after a failure. */
syn_status syn__bpe_read(syn__bpe **out, syn__vocab *vocab, const char *vocab_name,
                         const char *vocab_data, size_t vocab_bytes, const char *merges_name,
                         const char *merges_data, size_t merges_bytes, syn_error *err) SYN_MUST_USE;
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

/* What a word begins as: the ids of its bytes or characters, at most `bytes`; and, unless NULL, of
   how many bytes each is. */
size_t syn__bpe_split(const syn__bpe *bpe, const char *word, size_t bytes, int32_t *ids,
                      uint32_t *id_bytes);
/* The same, with pairs joined, lowest rank first, leftmost first among equals. `ids` has room for
   `bytes` ids. O(n log n). */
syn_status syn__bpe_merge(const syn__bpe *bpe, syn__bpe_work *work, const char *word, size_t bytes,
                          int32_t *ids, size_t *ids_elems, syn_error *err) SYN_MUST_USE;
void syn__bpe_work_free(syn__bpe_work *work);

#ifdef __cplusplus
}
#endif
#endif
