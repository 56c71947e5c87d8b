/* Internal declarations of byte-pair encoding (BPE), shared by bpe_*.c, tokenizer*.c and tests. */
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

/* A merge. `key`: the left id in the upper 32 bits, the right id in the lower. */
typedef struct syn__bpe_pair {
    uint64_t key;
    uint32_t rank; /* merges are applied lowest rank first; SYN__BPE_NO_RANK: free slot */
    int32_t id;    /* id of the merged token */
} syn__bpe_pair;

/* A token whose bytes merge to exactly this token. A word that equals the token needs no
   merging. */
typedef struct syn__bpe_word {
    uint32_t hash;
    int32_t id; /* -1: free slot */
} syn__bpe_word;

/* How words become tokens, apart from the merges. */
typedef struct syn__bpe_rules {
    bool by_chars;      /* words are split into characters first; false: into bytes */
    bool ignore_merges; /* a word that is a token becomes this token, even if merging would give
                           other tokens */
    /* For characters that are not tokens: */
    bool byte_fallback; /* use the tokens <0x00>..<0xFF> of the character's bytes, if all exist */
    bool fuse_unk;      /* consecutive unknown characters become a single unknown token */
    int32_t unk;        /* id of the unknown token; -1: drop the character */
} syn__bpe_rules;

/* Vocabulary and merges. `pairs` and `words` are hash tables with open addressing. Their sizes are
   powers of two, and they are at most half full. */
typedef struct syn__bpe {
    syn__bpe_rules rules;
    int32_t vocab_elems;
    char *bytes;          /* text of all tokens, concatenated in id order: with by_chars the text in
                             the file, otherwise the bytes that the file spells */
    uint32_t *begin;      /* vocab_elems + 1 offsets into bytes */
    int32_t byte_id[256]; /* token of each byte; with by_chars its fallback token, or -1 */
    int32_t ascii_id[128]; /* with by_chars: token of each ASCII character, or -1 */
    bool cuts;             /* with by_chars: whether words may be split before U+2581, except after
                              a byte in `glues` */
    bool glues[256];       /* whether a merge may join a token that ends in this byte to U+2581 */
    syn__bpe_pair *pairs;
    size_t pair_mask, n_pairs;
    syn__bpe_word *words;
    size_t word_mask;
} syn__bpe;

/* Scratch memory of syn__bpe_merge for long words, zero-initialized. Not thread-safe. */
typedef struct syn__bpe_work {
    uint64_t *heap;
    uint32_t *links; /* three arrays of `elems`: next, prev, rank */
    size_t elems;
} syn__bpe_work;

/* Creates the encoder with the tokens of a vocabulary. The caller then adds all merges and calls
   syn__bpe_finish. `name` is the file's name for errors. Without by_chars, fails with SYN_E_FORMAT
   if one of the 256 bytes has no token. The caller frees *out, even after a failure. */
syn_status syn__bpe_new(syn__bpe **out, const syn__vocab *vocab, const syn__bpe_rules *rules,
                        const char *name, syn_error *err) SYN_MUST_USE;
/* Reserves memory for `merges` merges in total. */
syn_status syn__bpe_reserve(syn__bpe *bpe, size_t merges, syn_error *err) SYN_MUST_USE;
/* Adds the next merge, for which syn__bpe_reserve must have reserved memory. Returns false on
   failure. `why` is then the reason; it is empty if an earlier merge, *known, has the same two
   tokens. */
bool syn__bpe_put_merge(syn__bpe *bpe, const syn__vocab *vocab, const char *left, size_t left_bytes,
                        const char *right, size_t right_bytes, char why[SYN__BPE_WHY_BYTES],
                        const syn__bpe_pair **known);
syn_status syn__bpe_finish(syn__bpe *bpe, const syn__vocab *vocab, syn_error *err) SYN_MUST_USE;
/* Whether a vocabulary has a token for each of the 256 bytes, in GPT-2's spelling. */
bool syn__bpe_has_bytes(const syn__vocab *vocab);
/* Converts a token from GPT-2's spelling to the bytes that it spells. If the token does not spell
   bytes, returns false and writes its UTF-8 text. Writes at most `bytes` bytes. */
bool syn__bpe_unspell(const char *text, size_t bytes, char *out, size_t *out_bytes);
/* Writes GPT-2's spelling of a byte and returns its length, 1 or 2. */
size_t syn__bpe_spell(unsigned char byte, char out[4]);

/* Reads GPT-2's vocab.json and merges.txt. The names are for errors. Also fills `vocab`, which the
   caller frees, even after a failure. */
syn_status syn__bpe_read(syn__bpe **out, syn__vocab *vocab, const char *vocab_name,
                         const char *vocab_data, size_t vocab_bytes, const char *merges_name,
                         const char *merges_data, size_t merges_bytes, syn_error *err) SYN_MUST_USE;
void syn__bpe_free(syn__bpe *bpe);

/* Hash of a short string. Depends on the machine's byte order. */
uint32_t syn__bpe_hash(const char *text, size_t bytes);
/* Table size for `elems` entries. */
size_t syn__bpe_slots(size_t elems);
/* Returns the slot of a merge, or the free slot where it can be inserted. */
syn__bpe_pair *syn__bpe_find_pair(const syn__bpe *bpe, int32_t left, int32_t right);
/* Returns the slot of a word, or the free slot where it can be inserted. */
syn__bpe_word *syn__bpe_find_word(const syn__bpe *bpe, const char *word, size_t bytes,
                                  uint32_t hash);

/* Splits a word into the ids of its bytes or characters, before merging. Returns the number of ids,
   at most `bytes`. If id_bytes is not NULL, stores the length in bytes of the text of each id. */
size_t syn__bpe_split(const syn__bpe *bpe, const char *word, size_t bytes, int32_t *ids,
                      uint32_t *id_bytes);
/* Splits a word and merges, lowest rank first and, among equal ranks, leftmost first. `ids` must
   have space for `bytes` ids. Takes O(n log n) time. */
syn_status syn__bpe_merge(const syn__bpe *bpe, syn__bpe_work *work, const char *word, size_t bytes,
                          int32_t *ids, size_t *ids_elems, syn_error *err) SYN_MUST_USE;
void syn__bpe_work_free(syn__bpe_work *work);

#ifdef __cplusplus
}
#endif
#endif
