/* Whole texts to ids: special tokens, words, the cache. */
#include "models/word_cache_private.h"
#include "models/wordpiece_private.h"

#include "syntorch/memory.h"

#include <string.h>

/* State of one encode call. */
typedef struct encoder {
    const syn__wordpiece *wp;
    syn__wordpiece_split split;
    syn__cached_word *cache;
    int32_t *ids;
    size_t ids_elems, ids_cap;
} encoder;

/* Appends the ids of one word; room for them is there. */
static void encode_word(encoder *enc, const char *word, size_t bytes) {
    int32_t *ids = enc->ids + enc->ids_elems;
    const uint32_t hash = syn__bpe_hash(word, bytes);
    const int32_t id = syn__wordpiece_find(enc->wp, word, bytes, hash);
    if (id >= 0) {
        *ids = id;
        enc->ids_elems++;
        return;
    }
    size_t elems = syn__cache_find(enc->cache, word, bytes, hash, ids);
    if (elems == 0) {
        elems = syn__wordpiece_cut(enc->wp, word, bytes, ids);
        syn__cache_keep(enc->cache, word, bytes, hash, ids, elems);
    }
    enc->ids_elems += elems;
}

/* Room for `more` ids. */
static syn_status reserve(encoder *enc, size_t more, syn_error *err) {
    if (enc->ids_cap - enc->ids_elems >= more) return SYN_OK;
    return syn_grow(&enc->ids, &enc->ids_cap, enc->ids_elems + more, sizeof *enc->ids, err);
}

/* Appends the ids of a text without special tokens. */
static syn_status encode_plain(encoder *enc, const char *text, size_t bytes, syn_error *err) {
    const char *word;
    size_t word_bytes;
    syn__wordpiece_split_set(&enc->split, enc->wp, text, bytes);
    while (syn__wordpiece_split_next(&enc->split, &word, &word_bytes)) {
        SYN_TRY(reserve(enc, SYN__WORDPIECE_WORD_CHARS, err));
        if (enc->split.too_long) enc->ids[enc->ids_elems++] = enc->wp->special[0];
        else encode_word(enc, word, word_bytes);
    }
    return SYN_OK;
}

/* Offset of the next special token from `from` on and which it is, or `bytes`. */
static size_t find_special(const syn__wordpiece *wp, const char *text, size_t bytes, size_t from,
                           size_t *which) {
    for (const char *at; from < bytes; from = (size_t)(at - text) + 1) {
        at = memchr(text + from, '[', bytes - from);
        if (at == NULL) break;
        const size_t left = bytes - (size_t)(at - text);
        for (*which = 0; *which < SYN__WORDPIECE_SPECIALS; ++*which) {
            const char *special = syn__wordpiece_special(*which);
            const size_t n = strlen(special);
            if (wp->special[*which] >= 0 && left >= n && memcmp(at, special, n) == 0)
                return (size_t)(at - text);
        }
    }
    return bytes;
}

static syn_status encode_all(encoder *enc, const char *text, size_t bytes, syn_error *err) {
    SYN_TRY(syn__cache_new(&enc->cache, bytes, err));
    SYN_TRY(reserve(enc, bytes / 4 + 1, err));
    for (size_t pos = 0, which = 0; pos < bytes;) {
        const size_t special = find_special(enc->wp, text, bytes, pos, &which);
        SYN_TRY(encode_plain(enc, text + pos, special - pos, err));
        pos = special;
        if (special == bytes) break;
        SYN_TRY(reserve(enc, 1, err));
        enc->ids[enc->ids_elems++] = enc->wp->special[which];
        pos += strlen(syn__wordpiece_special(which));
    }
    return SYN_OK;
}

syn_status syn__wordpiece_encode(const syn__wordpiece *wp, const char *text, size_t bytes,
                                 int32_t **ids, size_t *ids_elems, syn_error *err) {
    encoder enc = {.wp = wp};
    const syn_status status = encode_all(&enc, text, bytes, err);
    syn_free(enc.cache);
    if (status != SYN_OK) {
        syn_free(enc.ids);
        return status;
    }
    *ids = enc.ids;
    *ids_elems = enc.ids_elems;
    return SYN_OK;
}
