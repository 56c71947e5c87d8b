/* Encodes whole texts: splits them at added tokens, runs normalizers and pre-tokenizers, and then
   the model with its cache. */
#include "models/tokenizer/tokenizer_cache_private.h"
#include "models/tokenizer/tokenizer_private.h"

#include "syntorch/base/memory.h"

#include <string.h>

/* ---- words ---- */

static syn_status reserve(syn__encoder *enc, size_t more, syn_error *err) {
    if (enc->cap - enc->n < more)
        SYN_TRY(syn_grow(&enc->ids, &enc->cap, enc->n + more, sizeof *enc->ids, err));
    if (!enc->needs_position_ids) return SYN_OK;
    return syn_grow(&enc->places, &enc->places_cap, enc->n + more, sizeof *enc->places, err);
}

/* Number of white space characters at the beginning or end of a token. */
static uint32_t spaces_of(bool spells, const char *text, size_t bytes, bool at_end) {
    uint32_t n = 0;
    while (bytes > 0) {
        size_t at = 0;
        if (at_end)
            for (at = bytes - 1; at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80;) at--;
        const size_t begin = at;
        uint32_t c = (unsigned char)text[at];
        if (spells) at++;
        else c = syn__char_read(text, &at);
        if (spells ? c != ' ' : c != 0x120 && !syn__char_is_space(c)) break;
        n++;
        if (!at_end) text += at;
        bytes = at_end ? begin : bytes - at;
    }
    return n;
}

/* Returns the place of word->at[begin .. end), which became a token with the given text. */
static syn__place place_of(const syn__encoder *enc, const syn__text *word, size_t begin, size_t end,
                           bool spells, const char *text, size_t text_bytes) {
    syn__place place = {0};
    if (begin < end && end <= word->n) {
        place.begin = word->from[begin];
        place.end = word->to[end - 1];
    }
    if (enc->tok->trims.n > 0) {
        place.spaces_before = spaces_of(spells, text, text_bytes, false);
        place.spaces_behind = spaces_of(spells, text, text_bytes, true);
    }
    return place;
}

/* Returns the number of bytes of the word that a token covers. *at is the number of the token's
   first symbol, and is advanced past its last symbol. */
static size_t bytes_of(const syn__bpe *bpe, int32_t id, const int32_t *symbols,
                       const uint32_t *symbol_bytes, size_t n, size_t *at) {
    const size_t whole = bpe->begin[id + 1] - bpe->begin[id];
    size_t bytes = 0;
    for (size_t text = 0; *at < n && text < whole; ++*at) {
        text += bpe->begin[symbols[*at] + 1] - bpe->begin[symbols[*at]];
        bytes += symbol_bytes[*at];
    }
    return bytes;
}

/* Computes the places of the ids that a word became: those from number `first` on. */
static syn_status place_merged(syn__encoder *enc, const syn__text *word, size_t first,
                               syn_error *err) {
    const syn__bpe *bpe = enc->tok->bpe;
    SYN_TRY(syn_grow(&enc->begun, &enc->begun_cap, word->n, sizeof *enc->begun, err));
    SYN_TRY(
        syn_grow(&enc->begun_bytes, &enc->begun_bytes_cap, word->n, sizeof *enc->begun_bytes, err));
    const size_t n = syn__bpe_split(bpe, word->at, word->n, enc->begun, enc->begun_bytes);
    for (size_t i = first, at = 0, begin = 0, end; i < enc->n; i++, begin = end) {
        const int32_t id = enc->ids[i];
        const char *text = bpe->bytes + bpe->begin[id];
        const size_t bytes = bpe->begin[id + 1] - bpe->begin[id];
        const bool is_word =
            enc->n - first == 1 && bytes == word->n && memcmp(text, word->at, bytes) == 0;
        end = begin + bytes_of(bpe, id, enc->begun, enc->begun_bytes, n, &at);
        if (is_word) end = bytes;
        enc->places[i] = place_of(enc, word, begin, end, enc->tok->spells, text, bytes);
    }
    return SYN_OK;
}

/* Appends the ids of a part of a word. The caller has reserved memory for one id per byte. */
static syn_status merge_part(syn__encoder *enc, const char *word, size_t bytes, syn_error *err) {
    const syn__bpe *bpe = enc->tok->bpe;
    const uint32_t hash = syn__bpe_hash(word, bytes);
    int32_t *ids = enc->ids + enc->n;
    const int32_t id = syn__bpe_find_word(bpe, word, bytes, hash)->id;
    if (id >= 0) {
        ids[0] = id;
        enc->n++;
        return SYN_OK;
    }
    size_t elems = syn__cache_find(enc->cache, word, bytes, hash, ids);
    if (elems == 0) {
        SYN_TRY(syn__bpe_merge(bpe, &enc->work, word, bytes, ids, &elems, err));
        syn__cache_keep(enc->cache, word, bytes, hash, ids, elems);
    }
    enc->n += elems;
    return SYN_OK;
}

/* Returns the end of the part that begins at `at`. Words are split before each U+2581 that no merge
   can join to the text before it, because both sides then merge independently. */
static size_t part_end(const syn__bpe *bpe, const char *word, size_t bytes, size_t at) {
    for (const char *meta; bpe->cuts && at + 1 < bytes; at = (size_t)(meta - word)) {
        meta = memchr(word + at + 1, 0xe2, bytes - at - 1);
        if (meta == NULL) break;
        if (bytes - (size_t)(meta - word) >= 3 && memcmp(meta, "\xe2\x96\x81", 3) == 0 &&
            !bpe->glues[(unsigned char)meta[-1]])
            return (size_t)(meta - word);
    }
    return bytes;
}

static syn_status encode_bpe(syn__encoder *enc, const syn__text *word, syn_error *err) {
    const syn__bpe *bpe = enc->tok->bpe;
    const size_t first = enc->n;
    SYN_TRY(reserve(enc, word->n, err));
    for (size_t at = 0, end; at < word->n; at = end) {
        end = part_end(bpe, word->at, word->n, at);
        SYN_TRY(merge_part(enc, word->at + at, end - at, err));
    }
    return enc->needs_position_ids ? place_merged(enc, word, first, err) : SYN_OK;
}

static syn_status encode_wordpiece(syn__encoder *enc, const syn__text *word, syn_error *err) {
    const syn__wordpiece *wp = enc->tok->wordpiece;
    const size_t first = enc->n;
    SYN_TRY(reserve(enc, word->n, err));
    int32_t *ids = enc->ids + first;
    const uint32_t hash = syn__bpe_hash(word->at, word->n);
    const int32_t id = syn__wordpiece_find(wp, word->at, word->n, hash);
    size_t n = id >= 0 && word->n <= wp->max_chars;
    if (n == 1) ids[0] = id;
    if (n == 0) n = syn__cache_find(enc->cache, word->at, word->n, hash, ids);
    if (n == 0) {
        n = syn__wordpiece_cut(wp, word->at, word->n, ids);
        syn__cache_keep(enc->cache, word->at, word->n, hash, ids, n);
    }
    enc->n += n;
    for (size_t i = first, begin = 0, end; enc->needs_position_ids && i < enc->n;
         i++, begin = end) {
        size_t bytes;
        const char *text = syn__wordpiece_text(wp, enc->ids[i], &bytes);
        end = n == 1 ? word->n : begin + bytes - (i == first ? 0 : wp->prefix_bytes);
        enc->places[i] = place_of(enc, word, begin, end, enc->tok->spells, text, bytes);
    }
    return SYN_OK;
}

/* ---- texts ---- */

static syn_status put_token(syn__encoder *enc, const syn__text *at, int32_t id, syn_error *err) {
    SYN_TRY(reserve(enc, 1, err));
    if (enc->needs_position_ids)
        enc->places[enc->n] = place_of(enc, at, 0, at->n, false, at->at, at->n);
    enc->ids[enc->n++] = id;
    return SYN_OK;
}

static bool is_word(const void *user, const char *text, size_t bytes, size_t pos) {
    const syn__encoder *enc = user;
    return syn__regex_is_at(enc->tok->word, enc->match, text, bytes, pos);
}

/* First splits the text at added tokens that are not normalized. Then normalizes the text between
   these tokens and splits it at the other added tokens. */
static syn_status encode_pieces(syn__encoder *enc, bool normalized, const syn__text *in,
                                syn_error *err) {
    syn__added_pieces *pieces = &enc->pieces[normalized];
    SYN_TRY(syn__added_cut(&enc->tok->added, normalized, in->at, in->n, is_word, enc, pieces, err));
    for (size_t i = 0; i < pieces->n; i++) {
        const syn__added_piece *p = &pieces->at[i];
        syn__text piece = syn__text_part(in, p->begin, p->end);
        if (p->id >= 0) {
            SYN_TRY(put_token(enc, &piece, p->id, err));
        } else if (normalized) {
            SYN_TRY(syn__encode_cut(enc, 0, &piece, err));
        } else {
            SYN_TRY(syn__normalize(&enc->tok->normalizers, &enc->normal, &piece, &piece, err));
            SYN_TRY(encode_pieces(enc, true, &piece, err));
        }
    }
    return SYN_OK;
}

/* Copies the text with offsets: each byte maps to its character. */
static syn_status follow(syn__encoder *enc, const char *text, size_t bytes, syn__text *out,
                         syn_error *err) {
    uint32_t c = 0;
    for (size_t at = 0, next = 0; at < bytes; at = next, c++) {
        (void)syn__char_read(text, &next);
        SYN_TRY(syn__text_put(&enc->whole, true, text + at, next - at, c, c + 1, err));
    }
    *out = syn__text_of(&enc->whole, true, true);
    return SYN_OK;
}

/* Whether offsets must be tracked because a pre-tokenizer depends on where its text begins in the
   input. Without offsets, this is unknown after some normalizers. */
static bool must_follow(const syn_tokenizer *tok) {
    for (size_t i = 0; tok->normalizers.n > 0 && i < tok->cuts.n; i++)
        if (tok->cuts.at[i].kind == SYN__CUT_META && tok->cuts.at[i].scheme == SYN__FIRST)
            return true;
    return false;
}

syn_status syn__encoder_run(syn__encoder *enc, const char *text, size_t bytes, syn_error *err) {
    const syn_tokenizer *tok = enc->tok;
    syn__text whole = {text, bytes, NULL, NULL, true};
    enc->followed = enc->needs_position_ids || must_follow(tok);
    enc->normal.composer = tok->composer;
    enc->changed = syn_calloc(tok->cuts.n, sizeof *enc->changed);
    if (enc->changed == NULL)
        return SYN_FAIL_NOMEM(err, tok->cuts.n * sizeof *enc->changed, "the words of a text");
    SYN_TRY(syn__match_new(&enc->match, err));
    enc->normal.match = enc->match;
    SYN_TRY(syn__cache_new(&enc->cache, bytes, err));
    SYN_TRY(syn_grow(&enc->ids, &enc->cap, bytes / 4 + 1, sizeof *enc->ids, err));
    if (enc->followed) SYN_TRY(follow(enc, text, bytes, &whole, err));
    return encode_pieces(enc, false, &whole, err);
}

/* Excludes white space at the ends of tokens from their offsets, like HuggingFace's
   process_offsets. */
static void trim(const syn__step *step, syn__place *places, size_t n) {
    for (size_t i = 0; i < n; i++) {
        syn__place *p = &places[i];
        uint32_t before = p->spaces_before;
        const bool is_first = i == 0 || p->begin == 0;
        if (is_first && step->prefix_space && before == 1) before = 0;
        p->begin = p->end - p->begin < before ? p->end : p->begin + before;
        if (p->spaces_behind > 0 && p->end >= p->spaces_behind)
            p->end = p->end - p->spaces_behind < p->begin ? p->begin : p->end - p->spaces_behind;
    }
}

void syn__encoded_free(syn__encoded *encoded) {
    syn_free(encoded->ids);
    syn_free(encoded->places);
    *encoded = (syn__encoded){0};
}

void syn__encoder_free(syn__encoder *enc) {
    for (size_t i = 0; i < enc->tok->cuts.n && enc->changed; i++)
        syn__text_buffer_free(&enc->changed[i]);
    syn_free(enc->changed);
    syn__match_free(enc->match);
    syn__normal_work_free(&enc->normal);
    syn__text_buffer_free(&enc->whole);
    syn__bpe_work_free(&enc->work);
    syn_free(enc->cache);
    syn_free(enc->pieces[0].at);
    syn_free(enc->pieces[1].at);
    syn_free(enc->begun);
    syn_free(enc->begun_bytes);
}

syn_status syn__encode_plain(const syn_tokenizer *tok, const char *text, size_t bytes, bool places,
                             syn__encoded *out, syn_error *err) {
    syn__encoder enc = {
        .tok = tok, .needs_position_ids = places, .take = tok->bpe ? encode_bpe : encode_wordpiece};
    const syn_status status = syn__encoder_run(&enc, text, bytes, err);
    for (size_t i = 0; status == SYN_OK && places && i < tok->trims.n; i++)
        trim(&tok->trims.at[i], enc.places, enc.n);
    syn__encoder_free(&enc);
    *out = (syn__encoded){enc.ids, enc.places, enc.n};
    if (status != SYN_OK) syn__encoded_free(out);
    return status;
}
