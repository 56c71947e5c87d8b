/* Whole texts to ids by byte-level BPE: special token, words, the cache. */
#include "models/bpe_private.h"
#include "models/word_cache_private.h"

#include "syntorch/memory.h"

#include <string.h>

/* State of one encode call. */
typedef struct encoder {
    const syn__bpe *bpe;
    syn__bpe_split split;
    syn__bpe_work work;
    syn__cached_word *cache;
    int32_t *ids;
    size_t ids_elems, ids_cap;
} encoder;

/* Appends the ids of one word that is no token; room for one id a byte is there. */
static syn_status merge_word(encoder *enc, const char *word, size_t bytes, uint32_t hash,
                             syn_error *err) {
    int32_t *ids = enc->ids + enc->ids_elems;
    size_t elems = syn__cache_find(enc->cache, word, bytes, hash, ids);
    if (elems == 0) {
        SYN_TRY(syn__bpe_merge(enc->bpe, &enc->work, word, bytes, ids, &elems, err));
        syn__cache_keep(enc->cache, word, bytes, hash, ids, elems);
    }
    enc->ids_elems += elems;
    return SYN_OK;
}

/* Appends the ids of a text without special tokens. */
static syn_status encode_plain(encoder *enc, const char *text, size_t bytes, syn_error *err) {
    syn__bpe_split_set(&enc->split, text, bytes);
    for (;;) {
        size_t begin, word_bytes;
        SYN_TRY(syn__bpe_split_next(&enc->split, &begin, &word_bytes, err));
        if (word_bytes == 0) return SYN_OK;
        if (enc->ids_cap - enc->ids_elems < word_bytes)
            SYN_TRY(syn_grow(&enc->ids, &enc->ids_cap, enc->ids_elems + word_bytes,
                             sizeof *enc->ids, err));
        const char *word = text + begin;
        const uint32_t hash = syn__bpe_hash(word, word_bytes);
        const int32_t id = syn__bpe_find_word(enc->bpe, word, word_bytes, hash)->id;
        if (id >= 0) enc->ids[enc->ids_elems++] = id;
        else SYN_TRY(merge_word(enc, word, word_bytes, hash, err));
    }
}

/* Offset of the next "<|endoftext|>" from `from` on, or `bytes`. */
static size_t find_special(const encoder *enc, const char *text, size_t bytes, size_t from) {
    const size_t special_bytes = strlen(SYN__BPE_END_OF_TEXT);
    if (enc->bpe->eos < 0) return bytes;
    for (const char *at; bytes - from >= special_bytes; from = (size_t)(at - text) + 1) {
        at = memchr(text + from, '<', bytes - from - special_bytes + 1);
        if (at == NULL) break;
        if (memcmp(at, SYN__BPE_END_OF_TEXT, special_bytes) == 0) return (size_t)(at - text);
    }
    return bytes;
}

static syn_status encode_all(encoder *enc, const char *text, size_t bytes, syn_error *err) {
    SYN_TRY(syn__cache_new(&enc->cache, bytes, err));
    SYN_TRY(syn_grow(&enc->ids, &enc->ids_cap, bytes / 4 + 1, sizeof *enc->ids, err));
    for (size_t pos = 0; pos < bytes;) {
        const size_t special = find_special(enc, text, bytes, pos);
        SYN_TRY(encode_plain(enc, text + pos, special - pos, err));
        pos = special;
        if (special == bytes) break;
        SYN_TRY(syn_grow(&enc->ids, &enc->ids_cap, enc->ids_elems + 1, sizeof *enc->ids, err));
        enc->ids[enc->ids_elems++] = enc->bpe->eos;
        pos += strlen(SYN__BPE_END_OF_TEXT);
    }
    return SYN_OK;
}

syn_status syn__bpe_encode(const syn__bpe *bpe, const syn__bpe_pattern *pattern, const char *text,
                           size_t bytes, int32_t **ids, size_t *ids_elems, syn_error *err) {
    encoder enc = {.bpe = bpe};
    syn_status status = syn__bpe_split_begin(&enc.split, pattern, err);
    if (status == SYN_OK) status = encode_all(&enc, text, bytes, err);
    syn__bpe_split_free(&enc.split);
    syn__bpe_work_free(&enc.work);
    syn_free(enc.cache);
    if (status != SYN_OK) {
        syn_free(enc.ids);
        return status;
    }
    *ids = enc.ids;
    *ids_elems = enc.ids_elems;
    return SYN_OK;
}
