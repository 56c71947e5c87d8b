/* BasicTokenizer: a text as a row of words, one at a time and without a copy of the text. Words of
   ASCII alone take the short way. */
#include "models/wordpiece_private.h"

#include "syntorch/utf8.h"

void syn__wordpiece_split_set(syn__wordpiece_split *split, const syn__wordpiece *wp,
                              const char *text, size_t bytes) {
    split->wp = wp;
    split->text = text;
    split->bytes = bytes;
    split->pos = 0;
    split->taken = split->waiting_elems = 0;
    split->starter_gone = split->too_long = false;
}

/* The code point at *pos of valid UTF-8; moves *pos behind it. */
static uint32_t read_char(const char *text, size_t *pos) {
    const unsigned char *p = (const unsigned char *)text + *pos;
    if (p[0] < 0x80) {
        *pos += 1;
        return p[0];
    }
    if (p[0] < 0xe0) {
        *pos += 2;
        return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
    }
    if (p[0] < 0xf0) {
        *pos += 3;
        return (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    }
    *pos += 4;
    return (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
}

static void put(syn__wordpiece_split *split, uint32_t c, syn__char_kind kind) {
    split->waiting[split->waiting_elems] = c;
    split->waiting_kind[split->waiting_elems++] = kind;
}

/* What one code point of the text becomes goes to `waiting`: nothing, or up to four. Whether a
   character is dropped, space or ideograph is asked before the rules are applied, whether it is
   punctuation (U+037E is a semicolon) after. */
static void refill(syn__wordpiece_split *split) {
    const syn__wordpiece_rules *rules = &split->wp->rules;
    uint32_t parts[4] = {read_char(split->text, &split->pos)};
    syn__char_kind kind = syn__char_kind_of(parts[0]);
    split->taken = split->waiting_elems = 0;
    if (kind == SYN__CHAR_DROPPED) return;
    if (kind == SYN__CHAR_SPACE) {
        put(split, ' ', SYN__CHAR_SPACE);
        return;
    }
    const bool alone = kind == SYN__CHAR_IDEOGRAPH && rules->split_ideographs;
    const size_t n = rules->strip_accents ? syn__char_decompose(parts[0], parts) : 1;
    for (size_t i = 0; i < n; i++) {
        uint32_t lowered[2] = {parts[i]};
        if (rules->strip_accents && syn__char_is_mark(parts[i])) {
            if (syn__char_combining(parts[i]) == 0) split->starter_gone = true;
            continue;
        }
        const size_t m = rules->lower_case ? syn__char_lower(parts[i], lowered) : 1;
        for (size_t k = 0; k < m; k++) {
            kind = syn__char_kind_of(lowered[k]);
            const bool cuts = alone || kind == SYN__CHAR_PUNCTUATION;
            put(split, lowered[k], cuts ? SYN__CHAR_PUNCTUATION : SYN__CHAR_LETTER);
        }
    }
}

/* Puts c behind the others, or, as the canonical order of NFD has it (Unicode, section 3.11),
   before marks of a higher class; not before chars[fixed]. */
static void insert(uint32_t *chars, size_t elems, size_t fixed, uint32_t c) {
    const unsigned class = syn__char_combining(c);
    size_t at = elems;
    for (; class != 0 && at > fixed && syn__char_combining(chars[at - 1]) > class; at--)
        chars[at] = chars[at - 1];
    chars[at] = c;
}

/* The next word of any characters, or false. */
static bool any_word(syn__wordpiece_split *split, size_t *bytes) {
    uint32_t chars[SYN__WORDPIECE_WORD_CHARS];
    size_t elems = 0, fixed = 0;
    split->starter_gone = false;
    for (;;) {
        if (split->taken == split->waiting_elems) {
            if (split->pos == split->bytes) break;
            refill(split);
            continue;
        }
        const uint32_t c = split->waiting[split->taken];
        const syn__char_kind kind = split->waiting_kind[split->taken];
        if (kind != SYN__CHAR_LETTER && elems > 0) break; /* the next call takes it */
        split->taken++;
        if (kind == SYN__CHAR_SPACE) continue;
        if (split->starter_gone) fixed = elems;
        split->starter_gone = false;
        if (elems == SYN__WORDPIECE_WORD_CHARS) split->too_long = true;
        else if (split->wp->rules.strip_accents) insert(chars, elems++, fixed, c);
        else chars[elems++] = c;
        if (kind == SYN__CHAR_PUNCTUATION) break;
    }
    *bytes = 0;
    for (size_t i = 0; i < elems; i++) *bytes += syn_utf8_encode(chars[i], split->word + *bytes);
    return elems > 0;
}

/* The same for a word of ASCII letters and digits that ends in the text's end, in white space or
   in ASCII punctuation; false, and nothing done, if it is another. */
static bool ascii_word(syn__wordpiece_split *split, size_t *bytes) {
    const uint8_t *becomes = split->wp->ascii;
    const unsigned char *text = (const unsigned char *)split->text + split->pos;
    const size_t left = split->bytes - split->pos;
    const size_t most = left < SYN__WORDPIECE_WORD_CHARS ? left : SYN__WORDPIECE_WORD_CHARS;
    size_t n = 0;
    for (uint8_t c; n < most && (c = becomes[text[n]]) >= ' '; n++) split->word[n] = (char)c;
    if (n < left && becomes[text[n]] != SYN__CHAR_SPACE &&
        becomes[text[n]] != SYN__CHAR_PUNCTUATION)
        return false;
    split->pos += n;
    *bytes = n;
    return true;
}

bool syn__wordpiece_split_next(syn__wordpiece_split *split, const char **word, size_t *bytes) {
    split->too_long = false;
    *word = split->word;
    while (split->taken == split->waiting_elems && split->pos < split->bytes) {
        const uint8_t kind = split->wp->ascii[(unsigned char)split->text[split->pos]];
        if (kind >= ' ' && ascii_word(split, bytes)) return true;
        if (kind >= ' ' || kind == SYN__CHAR_LETTER) break;
        if (kind == SYN__CHAR_PUNCTUATION) {
            split->word[0] = split->text[split->pos++];
            *bytes = 1;
            return true;
        }
        split->pos++; /* space or dropped */
    }
    return any_word(split, bytes);
}
