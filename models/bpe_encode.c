/* Whole texts to ids by byte-level BPE: added tokens, words, the cache. */
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
    syn__added_pieces pieces[2]; /* of tokens not normalized, and normalized */
    char *spaced;
    size_t spaced_cap;
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

/* Appends the ids of a text without added tokens. */
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

static syn_status push(encoder *enc, const int32_t *ids, size_t n, syn_error *err) {
    if (n == 0) return SYN_OK;
    SYN_TRY(syn_grow(&enc->ids, &enc->ids_cap, enc->ids_elems + n, sizeof *enc->ids, err));
    memcpy(enc->ids + enc->ids_elems, ids, n * sizeof *ids);
    enc->ids_elems += n;
    return SYN_OK;
}

/* A piece between tokens, as if it began with a space. */
static syn_status encode_spaced(encoder *enc, const char *text, size_t bytes, syn_error *err) {
    if (text[0] == ' ') return encode_plain(enc, text, bytes, err);
    SYN_TRY(syn_grow(&enc->spaced, &enc->spaced_cap, bytes + 1, 1, err));
    enc->spaced[0] = ' ';
    memcpy(enc->spaced + 1, text, bytes);
    return encode_plain(enc, enc->spaced, bytes + 1, err);
}

/* Tokens that are not normalized come first; the others are looked for in what is left. */
static syn_status encode_pieces(encoder *enc, bool normalized, const char *text, size_t bytes,
                                syn_error *err) {
    syn__added_pieces *pieces = &enc->pieces[normalized];
    SYN_TRY(syn__added_cut(&enc->bpe->added, normalized, text, bytes, syn__bpe_is_word, &enc->split,
                           pieces, err));
    for (size_t i = 0; i < pieces->n; i++) {
        const syn__added_piece *p = &pieces->at[i];
        const char *piece = text + p->begin;
        if (p->id >= 0) SYN_TRY(push(enc, &p->id, 1, err));
        else if (!normalized) SYN_TRY(encode_pieces(enc, true, piece, p->end - p->begin, err));
        else if (enc->bpe->frame.prefix_space)
            SYN_TRY(encode_spaced(enc, piece, p->end - p->begin, err));
        else SYN_TRY(encode_plain(enc, piece, p->end - p->begin, err));
    }
    return SYN_OK;
}

static syn_status encode_all(encoder *enc, const char *text, size_t bytes, syn_error *err) {
    const syn__bpe_frame *frame = &enc->bpe->frame;
    SYN_TRY(syn__cache_new(&enc->cache, bytes, err));
    SYN_TRY(syn_grow(&enc->ids, &enc->ids_cap, bytes / 4 + 1, sizeof *enc->ids, err));
    SYN_TRY(push(enc, frame->before, frame->n_before, err));
    SYN_TRY(encode_pieces(enc, false, text, bytes, err));
    return push(enc, frame->behind, frame->n_behind, err);
}

syn_status syn__bpe_encode(const syn__bpe *bpe, const syn__bpe_pattern *pattern, const char *text,
                           size_t bytes, int32_t **ids, size_t *ids_elems, syn_error *err) {
    encoder enc = {.bpe = bpe};
    syn_status status = syn__bpe_split_begin(&enc.split, pattern, err);
    if (status == SYN_OK) status = encode_all(&enc, text, bytes, err);
    syn__bpe_split_free(&enc.split);
    syn__bpe_work_free(&enc.work);
    syn_free(enc.cache);
    syn_free(enc.pieces[0].at);
    syn_free(enc.pieces[1].at);
    syn_free(enc.spaced);
    if (status != SYN_OK) {
        syn_free(enc.ids);
        return status;
    }
    *ids = enc.ids;
    *ids_elems = enc.ids_elems;
    return SYN_OK;
}
