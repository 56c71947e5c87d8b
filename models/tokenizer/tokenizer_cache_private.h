/* Caches the ids of words within one encode call. Only texts that are long enough to repeat words
   use the cache. */
#ifndef MODELS_TOKENIZER_CACHE_PRIVATE_H
#define MODELS_TOKENIZER_CACHE_PRIVATE_H

#include "syntorch/base/memory.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__CACHE_SLOTS      4096
#define SYN__CACHE_FROM_BYTES ((size_t)16 << 10)
#define SYN__CACHE_WORD_BYTES 26
#define SYN__CACHE_WORD_IDS   8

/* An entry of the direct-mapped table. Its size is one cache line. */
typedef struct syn__cached_word {
    uint32_t hash;
    uint8_t bytes; /* 0: free slot */
    uint8_t ids_elems;
    char text[SYN__CACHE_WORD_BYTES];
    int32_t ids[SYN__CACHE_WORD_IDS];
} syn__cached_word;

/* Creates a cache. For a text that is too short to profit, *out is NULL, which the functions below
   treat as an empty cache. */
static inline syn_status syn__cache_new(syn__cached_word **out, size_t text_bytes, syn_error *err) {
    *out = NULL;
    if (text_bytes < SYN__CACHE_FROM_BYTES) return SYN_OK;
    *out = (syn__cached_word *)syn_calloc(SYN__CACHE_SLOTS, sizeof **out);
    if (*out != NULL) return SYN_OK;
    return SYN_FAIL_NOMEM(err, SYN__CACHE_SLOTS * sizeof **out, "a cache of words");
}

/* Copies the ids of a word to `ids` and returns their number; 0 if the word is not cached. */
static inline size_t syn__cache_find(const syn__cached_word *cache, const char *word, size_t bytes,
                                     uint32_t hash, int32_t *ids) {
    if (cache == NULL) return 0;
    const syn__cached_word *slot = &cache[hash & (SYN__CACHE_SLOTS - 1)];
    if (slot->hash != hash || slot->bytes != bytes || memcmp(slot->text, word, bytes) != 0)
        return 0;
    memcpy(ids, slot->ids, slot->ids_elems * sizeof *ids);
    return slot->ids_elems;
}

/* Caches a word if word and ids are short enough. */
static inline void syn__cache_keep(syn__cached_word *cache, const char *word, size_t bytes,
                                   uint32_t hash, const int32_t *ids, size_t ids_elems) {
    if (cache == NULL || bytes > SYN__CACHE_WORD_BYTES || ids_elems > SYN__CACHE_WORD_IDS) return;
    syn__cached_word *slot = &cache[hash & (SYN__CACHE_SLOTS - 1)];
    slot->hash = hash;
    slot->bytes = (uint8_t)bytes;
    slot->ids_elems = (uint8_t)ids_elems;
    memcpy(slot->text, word, bytes);
    memcpy(slot->ids, ids, ids_elems * sizeof *ids);
}

#ifdef __cplusplus
}
#endif
#endif
