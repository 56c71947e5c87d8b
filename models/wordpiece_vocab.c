/* BERT's vocab.txt, and the cutting of words into its tokens. */
#include "models/wordpiece_private.h"

#include "syntorch/memory.h"
#include "syntorch/utf8.h"

#include <string.h>

#define MARKS       "##"
#define MARKS_BYTES 2

static const char *const specials[SYN__WORDPIECE_SPECIALS] = {SYN__WORDPIECE_UNKNOWN, "[SEP]",
                                                              "[PAD]", "[CLS]", "[MASK]"};

const char *syn__wordpiece_special(size_t index) {
    return specials[index];
}

/* Bytes of the white space (Unicode's White_Space) that ends a text, 0 if none does. */
static size_t last_space_bytes(const char *text, size_t bytes) {
    static const char *const wide[] = {
        "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\xa8",
        "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80",
    };
    if (bytes == 0) return 0;
    const char last = text[bytes - 1];
    if (last == ' ' || (last >= '\t' && last <= '\r')) return 1;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        const size_t n = strlen(wide[i]);
        if (bytes >= n && memcmp(text + bytes - n, wide[i], n) == 0) return n;
    }
    if (bytes < 3 || memcmp(text + bytes - 3, "\xe2\x80", 2) != 0) return 0;
    return (unsigned char)last <= 0x8a ? 3 : 0; /* U+2000..200A */
}

static syn_status check_text(const char *name, const char *data, size_t bytes, syn_error *err) {
    if (bytes >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "%s:1: the file begins with a byte order mark, which would become part of "
                        "the first token; save it as UTF-8 without",
                        name);
    size_t line = 1;
    for (size_t pos = 0, step; pos < bytes; pos += step) {
        step = syn_utf8_char_bytes(data + pos, bytes - pos);
        line += data[pos] == '\n';
        if (step == 0)
            return SYN_FAIL(err, SYN_E_FORMAT, "%s:%zu: not valid UTF-8 (byte 0x%02x)", name, line,
                            (unsigned)(unsigned char)data[pos]);
    }
    return SYN_OK;
}

/* The token of every line, one behind the other. */
static syn_status read_lines(syn__wordpiece *wp, const char *data, size_t bytes, syn_error *err) {
    size_t lines = 0, used = 0, id = 0;
    for (size_t i = 0; i < bytes; i++) lines += data[i] == '\n' || i + 1 == bytes;
    wp->bytes = syn_malloc(bytes);
    wp->begin = syn_malloc((lines + 1) * sizeof *wp->begin);
    if (wp->bytes == NULL || wp->begin == NULL)
        return SYN_FAIL_NOMEM(err, bytes + lines * sizeof *wp->begin, "the tokens of a vocabulary");
    for (size_t pos = 0; pos < bytes; id++) {
        const char *line = data + pos, *newline = memchr(line, '\n', bytes - pos);
        size_t n = newline == NULL ? bytes - pos : (size_t)(newline - line);
        pos += n + 1;
        for (size_t space; (space = last_space_bytes(line, n)) > 0;) n -= space;
        wp->begin[id] = (uint32_t)used;
        memcpy(wp->bytes + used, line, n);
        used += n;
        if (n > wp->longest_bytes) wp->longest_bytes = n;
    }
    wp->begin[id] = (uint32_t)used;
    wp->vocab_elems = (int32_t)id;
    return SYN_OK;
}

/* The slot of a token, by what follows its first `skip` bytes, or the free one for it. */
static syn__bpe_word *find_slot(const syn__wordpiece *wp, size_t skip, const char *text,
                                size_t bytes, uint32_t hash) {
    syn__bpe_word *slots = skip == 0 ? wp->words : wp->pieces;
    const size_t mask = skip == 0 ? wp->word_mask : wp->piece_mask;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        if (slots[i].id < 0) return &slots[i];
        const uint32_t begin = wp->begin[slots[i].id];
        if (slots[i].hash == hash && wp->begin[slots[i].id + 1] - begin == bytes + skip &&
            memcmp(wp->bytes + begin + skip, text, bytes) == 0)
            return &slots[i];
    }
}

static syn_status new_slots(syn__bpe_word **out, size_t *mask, size_t elems, syn_error *err) {
    const size_t slots = syn__bpe_slots(elems);
    *out = syn_malloc(slots * sizeof **out);
    if (*out == NULL) return SYN_FAIL_NOMEM(err, slots * sizeof **out, "the index of a vocabulary");
    for (size_t i = 0; i < slots; i++) (*out)[i] = (syn__bpe_word){0, -1};
    *mask = slots - 1;
    return SYN_OK;
}

/* Bytes of the token, and in *skip those of the marks it begins with. */
static size_t token_bytes(const syn__wordpiece *wp, size_t id, size_t *skip) {
    const size_t bytes = wp->begin[id + 1] - wp->begin[id];
    const bool is_piece =
        bytes > MARKS_BYTES && memcmp(wp->bytes + wp->begin[id], MARKS, MARKS_BYTES) == 0;
    *skip = is_piece ? MARKS_BYTES : 0;
    return bytes;
}

/* Enters all tokens but the empty ones, which no text can give. */
static syn_status make_index(syn__wordpiece *wp, syn_error *err) {
    const size_t elems = (size_t)wp->vocab_elems;
    size_t words = 0, pieces = 0, skip;
    for (size_t id = 0; id < elems; id++) {
        const size_t bytes = token_bytes(wp, id, &skip);
        words += bytes > 0 && skip == 0;
        pieces += skip > 0;
    }
    SYN_TRY(new_slots(&wp->words, &wp->word_mask, words, err));
    SYN_TRY(new_slots(&wp->pieces, &wp->piece_mask, pieces, err));
    for (size_t id = 0; id < elems; id++) {
        const size_t bytes = token_bytes(wp, id, &skip);
        if (bytes == 0) continue;
        const char *text = wp->bytes + wp->begin[id] + skip;
        const uint32_t hash = syn__bpe_hash(text, bytes - skip);
        *find_slot(wp, skip, text, bytes - skip, hash) = (syn__bpe_word){hash, (int32_t)id};
    }
    return SYN_OK;
}

/* How ASCII begins and continues words. */
static void make_ascii(syn__wordpiece *wp) {
    for (uint32_t c = 0; c < 0x80; c++) {
        const syn__char_kind kind = syn__char_kind_of(c);
        uint32_t lowered[2] = {c};
        if (wp->rules.lower_case) (void)syn__char_lower(c, lowered);
        wp->ascii[c] = (uint8_t)(kind == SYN__CHAR_LETTER ? lowered[0] : kind);
    }
}

static syn_status fill(syn__wordpiece *wp, const char *name, const char *data, size_t bytes,
                       syn_error *err) {
    SYN_TRY(syn__char_ready(err));
    SYN_TRY(check_text(name, data, bytes, err));
    SYN_TRY(read_lines(wp, data, bytes, err));
    SYN_TRY(make_index(wp, err));
    make_ascii(wp);
    for (size_t i = 0; i < SYN__WORDPIECE_SPECIALS; i++) {
        const size_t n = strlen(specials[i]);
        wp->special[i] = syn__wordpiece_find(wp, specials[i], n, syn__bpe_hash(specials[i], n));
    }
    if (wp->special[0] >= 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT,
                    "%s: no line is " SYN__WORDPIECE_UNKNOWN
                    ", the token that stands for unknown words; its %d lines are no vocabulary of "
                    "BERT",
                    name, (int)wp->vocab_elems);
}

syn_status syn__wordpiece_read(syn__wordpiece **out, syn__wordpiece_rules rules, const char *name,
                               const char *data, size_t bytes, syn_error *err) {
    *out = NULL;
    syn__wordpiece *wp = syn_calloc(1, sizeof *wp);
    if (wp == NULL) return SYN_FAIL_NOMEM(err, sizeof *wp, "a tokenizer");
    wp->rules = rules;
    const syn_status status = fill(wp, name, data, bytes, err);
    if (status == SYN_OK) *out = wp;
    else syn__wordpiece_free(wp);
    return status;
}

void syn__wordpiece_free(syn__wordpiece *wp) {
    if (wp == NULL) return;
    syn_free(wp->bytes);
    syn_free(wp->begin);
    syn_free(wp->words);
    syn_free(wp->pieces);
    syn_free(wp);
}

int32_t syn__wordpiece_find(const syn__wordpiece *wp, const char *word, size_t bytes,
                            uint32_t hash) {
    return find_slot(wp, 0, word, bytes, hash)->id;
}

size_t syn__wordpiece_cut(const syn__wordpiece *wp, const char *word, size_t bytes,
                          int32_t ids[SYN__WORDPIECE_WORD_CHARS]) {
    size_t elems = 0;
    for (size_t pos = 0, end; pos < bytes; pos = end) {
        const size_t skip = pos == 0 ? 0 : MARKS_BYTES;
        const size_t most = wp->longest_bytes - (skip < wp->longest_bytes ? skip : 0);
        int32_t id = -1;
        for (end = bytes - pos > most ? pos + most : bytes; end > pos; end--) {
            const bool inside = end < bytes && ((unsigned char)word[end] & 0xc0) == 0x80;
            if (inside) continue;
            const uint32_t hash = syn__bpe_hash(word + pos, end - pos);
            id = find_slot(wp, skip, word + pos, end - pos, hash)->id;
            if (id >= 0) break;
        }
        if (id < 0) {
            ids[0] = wp->special[0];
            return 1;
        }
        ids[elems++] = id;
    }
    return elems;
}
