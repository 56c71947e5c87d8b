/* WordPiece: reads vocabularies, such as BERT's vocab.txt, and splits words into tokens. */
#include "models/tokenizer/wordpiece_private.h"

#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"

#include <string.h>

/* Length in bytes of the white space character (Unicode's White_Space) at the end of a text; 0 if
   there is none. */
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
                        "the first token; save it as UTF-8 without a byte order mark",
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

/* Reads one token per line and appends it to the concatenated texts. */
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

/* Returns the slot of a token, or the free slot where it can be inserted. With is_piece, the slot
   is that of a token with the prefix, and the text is the text after the prefix. */
static syn__bpe_word *find_slot(const syn__wordpiece *wp, bool is_piece, const char *text,
                                size_t bytes, uint32_t hash) {
    syn__bpe_word *slots = is_piece ? wp->pieces : wp->words;
    const size_t mask = is_piece ? wp->piece_mask : wp->word_mask;
    const size_t skip = is_piece ? wp->prefix_bytes : 0;
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

/* Returns the length of a token. Sets *is_piece to whether the token begins with the prefix and is
   longer. */
static size_t token_bytes(const syn__wordpiece *wp, size_t id, bool *is_piece) {
    const size_t bytes = wp->begin[id + 1] - wp->begin[id];
    *is_piece = bytes > wp->prefix_bytes &&
                memcmp(wp->bytes + wp->begin[id], wp->prefix, wp->prefix_bytes) == 0;
    return bytes;
}

/* Indexes all tokens except empty ones, which cannot match. */
static syn_status make_index(syn__wordpiece *wp, syn_error *err) {
    const size_t elems = (size_t)wp->vocab_elems;
    size_t words = 0, pieces = 0;
    bool is_piece;
    for (size_t id = 0; id < elems; id++) {
        words += token_bytes(wp, id, &is_piece) > 0;
        pieces += is_piece;
    }
    SYN_TRY(new_slots(&wp->words, &wp->word_mask, words, err));
    SYN_TRY(new_slots(&wp->pieces, &wp->piece_mask, pieces, err));
    for (size_t id = 0; id < elems; id++) {
        const size_t bytes = token_bytes(wp, id, &is_piece);
        if (bytes == 0) continue;
        const char *text = wp->bytes + wp->begin[id];
        uint32_t hash = syn__bpe_hash(text, bytes);
        *find_slot(wp, false, text, bytes, hash) = (syn__bpe_word){hash, (int32_t)id};
        if (!is_piece) continue;
        text += wp->prefix_bytes;
        hash = syn__bpe_hash(text, bytes - wp->prefix_bytes);
        *find_slot(wp, true, text, bytes - wp->prefix_bytes, hash) =
            (syn__bpe_word){hash, (int32_t)id};
    }
    return SYN_OK;
}

static syn_status begin(syn__wordpiece *wp, const char *prefix, size_t prefix_bytes,
                        size_t max_chars, syn_error *err) {
    wp->prefix = syn_strndup(prefix, prefix_bytes);
    wp->prefix_bytes = prefix_bytes;
    wp->max_chars = max_chars;
    return wp->prefix ? SYN_OK : SYN_FAIL_NOMEM(err, prefix_bytes, "a tokenizer");
}

static syn_status fill(syn__wordpiece *wp, const char *name, const char *data, size_t bytes,
                       syn_error *err) {
    static const char unknown[] = SYN__WORDPIECE_UNKNOWN;
    const size_t unknown_bytes = sizeof unknown - 1;
    SYN_TRY(begin(wp, SYN__WORDPIECE_PREFIX, strlen(SYN__WORDPIECE_PREFIX),
                  SYN__WORDPIECE_WORD_CHARS, err));
    SYN_TRY(check_text(name, data, bytes, err));
    SYN_TRY(read_lines(wp, data, bytes, err));
    SYN_TRY(make_index(wp, err));
    wp->unk =
        syn__wordpiece_find(wp, unknown, unknown_bytes, syn__bpe_hash(unknown, unknown_bytes));
    if (wp->unk >= 0) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT,
                    "%s has no line " SYN__WORDPIECE_UNKNOWN
                    ", the token for unknown words; its %d lines are not a BERT vocabulary",
                    name, (int)wp->vocab_elems);
}

syn_status syn__wordpiece_read(syn__wordpiece **out, const char *name, const char *data,
                               size_t bytes, syn_error *err) {
    *out = NULL;
    syn__wordpiece *wp = syn_calloc(1, sizeof *wp);
    if (wp == NULL) return SYN_FAIL_NOMEM(err, sizeof *wp, "a tokenizer");
    const syn_status status = fill(wp, name, data, bytes, err);
    if (status == SYN_OK) *out = wp;
    else syn__wordpiece_free(wp);
    return status;
}

static syn_status copy_vocab(syn__wordpiece *wp, const syn__vocab *vocab, syn_error *err) {
    size_t used = 0, bytes;
    wp->bytes = syn_malloc(vocab->text_bytes);
    wp->begin = syn_malloc((vocab->elems + 1) * sizeof *wp->begin);
    if (wp->bytes == NULL || wp->begin == NULL)
        return SYN_FAIL_NOMEM(err, vocab->text_bytes, "the tokens of a vocabulary");
    for (size_t id = 0; id < vocab->elems; id++) {
        const char *text = syn__vocab_text(vocab, id, &bytes);
        wp->begin[id] = (uint32_t)used;
        memcpy(wp->bytes + used, text, bytes);
        used += bytes;
    }
    wp->begin[vocab->elems] = (uint32_t)used;
    wp->vocab_elems = (int32_t)vocab->elems;
    wp->longest_bytes = vocab->longest_bytes;
    return make_index(wp, err);
}

syn_status syn__wordpiece_new(syn__wordpiece **out, const syn__vocab *vocab, const char *prefix,
                              size_t prefix_bytes, size_t max_chars, int32_t unk, syn_error *err) {
    *out = NULL;
    syn__wordpiece *wp = syn_calloc(1, sizeof *wp);
    if (wp == NULL) return SYN_FAIL_NOMEM(err, sizeof *wp, "a tokenizer");
    wp->unk = unk;
    syn_status status = begin(wp, prefix, prefix_bytes, max_chars, err);
    if (status == SYN_OK) status = copy_vocab(wp, vocab, err);
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
    syn_free(wp->prefix);
    syn_free(wp);
}

const char *syn__wordpiece_text(const syn__wordpiece *wp, int32_t id, size_t *bytes) {
    *bytes = wp->begin[id + 1] - wp->begin[id];
    return wp->bytes + wp->begin[id];
}

int32_t syn__wordpiece_find(const syn__wordpiece *wp, const char *word, size_t bytes,
                            uint32_t hash) {
    return find_slot(wp, false, word, bytes, hash)->id;
}

size_t syn__wordpiece_cut(const syn__wordpiece *wp, const char *word, size_t bytes, int32_t *ids) {
    size_t elems = 0, chars = 0;
    for (size_t i = 0; i < bytes; i++) chars += ((unsigned char)word[i] & 0xc0) != 0x80;
    for (size_t pos = 0, end; pos < bytes && chars <= wp->max_chars; pos = end) {
        const size_t most = wp->longest_bytes; /* the texts of pieces are shorter, because they lack
                                                  the prefix */
        int32_t id = -1;
        for (end = bytes - pos > most ? pos + most : bytes; end > pos; end--) {
            const bool inside = end < bytes && ((unsigned char)word[end] & 0xc0) == 0x80;
            if (inside) continue;
            const uint32_t hash = syn__bpe_hash(word + pos, end - pos);
            id = find_slot(wp, pos > 0, word + pos, end - pos, hash)->id;
            if (id >= 0) break;
        }
        if (id < 0) chars = wp->max_chars + 1;
        else ids[elems++] = id;
    }
    if (chars <= wp->max_chars) return elems;
    ids[0] = wp->unk;
    return 1;
}
