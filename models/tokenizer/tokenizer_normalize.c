/* Normalizers. Most of them work character by character. Unicode's normal forms are in
   tokenizer_forms.c. */
#include "models/tokenizer/tokenizer_normalize_private.h"

#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"

#include <string.h>

/* ---- texts ---- */

void syn__text_buffer_free(syn__text_buffer *b) {
    syn_free(b->at);
    syn_free(b->from);
    syn_free(b->to);
    *b = (syn__text_buffer){0};
}

static syn_status reserve(syn__text_buffer *out, bool followed, size_t n, syn_error *err) {
    if (out->cap - out->n < n) SYN_TRY(syn_grow(&out->at, &out->cap, out->n + n, 1, err));
    if (!followed) return SYN_OK;
    SYN_TRY(syn_grow(&out->from, &out->from_cap, out->n + n, sizeof *out->from, err));
    return syn_grow(&out->to, &out->to_cap, out->n + n, sizeof *out->to, err);
}

syn_status syn__text_put(syn__text_buffer *out, bool followed, const char *bytes, size_t n,
                         uint32_t from, uint32_t to, syn_error *err) {
    SYN_TRY(reserve(out, followed, n, err));
    for (size_t i = 0; i < n; i++) {
        out->at[out->n] = bytes[i];
        if (followed) {
            out->from[out->n] = from;
            out->to[out->n] = to;
        }
        out->n++;
    }
    return SYN_OK;
}

syn_status syn__text_copy(syn__text_buffer *out, const syn__text *in, size_t begin, size_t end,
                          syn_error *err) {
    const size_t n = end - begin;
    if (n == 0) return SYN_OK;
    SYN_TRY(reserve(out, in->from != NULL, n, err));
    memcpy(out->at + out->n, in->at + begin, n);
    if (in->from != NULL) {
        memcpy(out->from + out->n, in->from + begin, n * sizeof *in->from);
        memcpy(out->to + out->n, in->to + begin, n * sizeof *in->to);
    }
    out->n += n;
    return SYN_OK;
}

syn__text syn__text_of(const syn__text_buffer *b, bool followed, bool is_first) {
    return (syn__text){b->at, b->n, followed ? b->from : NULL, followed ? b->to : NULL, is_first};
}

syn__text syn__text_part(const syn__text *in, size_t begin, size_t end) {
    const bool followed = in->from != NULL;
    return (syn__text){in->at + begin, end - begin, followed ? in->from + begin : NULL,
                       followed ? in->to + begin : NULL,
                       followed ? begin < in->n && in->from[begin] == 0
                                : in->is_first && begin == 0};
}

/* ---- character by character ---- */

/* Maps a code point to its replacement. Returns the number of code points in the replacement. */
typedef size_t change_char(const syn__step *step, uint32_t c, uint32_t out[SYN__CHAR_MAX]);

static size_t lower(const syn__step *step, uint32_t c, uint32_t out[SYN__CHAR_MAX]) {
    (void)step;
    return syn__char_lower(c, out);
}

static size_t strip_mark(const syn__step *step, uint32_t c, uint32_t out[SYN__CHAR_MAX]) {
    (void)step;
    out[0] = c;
    return !syn__char_is_any_mark(c);
}

static size_t clean(const syn__step *step, uint32_t c, uint32_t out[SYN__CHAR_MAX]) {
    const syn__char_kind kind = syn__char_kind_of(c);
    out[0] = c;
    if (step->clean && kind == SYN__CHAR_DROPPED) return 0;
    if (step->clean && kind == SYN__CHAR_SPACE) out[0] = ' ';
    if (!step->ideographs || kind != SYN__CHAR_IDEOGRAPH) return 1;
    out[0] = out[2] = ' ';
    out[1] = c;
    return 3;
}

static size_t fold(const syn__step *step, uint32_t c, uint32_t out[SYN__CHAR_MAX]) {
    out[0] = c;
    if (step->accents && syn__char_is_mark(c)) return 0;
    return step->lower ? syn__char_lower(c, out) : 1;
}

/* Fills a table with the replacements of ASCII characters; 0 if a replacement is not a single ASCII
   character. */
static void make_ascii(const syn__step *step, change_char *change, char ascii[256]) {
    uint32_t out[SYN__CHAR_MAX];
    memset(ascii, 0, 256);
    for (uint32_t c = 0; c < 128; c++)
        if (change(step, c, out) == 1 && out[0] < 128) ascii[c] = (char)out[0];
}

/* Replaces ASCII characters from *at on as long as the table has a replacement, and advances *at
   past them. */
static syn_status change_ascii(const syn__text *in, size_t *at, const char ascii[256],
                               syn__text_buffer *out, syn_error *err) {
    const size_t begin = *at;
    const bool followed = in->from != NULL;
    SYN_TRY(reserve(out, followed, in->n - begin, err));
    char *to = out->at + out->n;
    size_t n = 0;
    for (char c; n < in->n - begin && (c = ascii[(unsigned char)in->at[begin + n]]); n++) to[n] = c;
    if (followed) {
        memcpy(out->from + out->n, in->from + begin, n * sizeof *in->from);
        memcpy(out->to + out->n, in->to + begin, n * sizeof *in->to);
    }
    out->n += n;
    *at = begin + n;
    return SYN_OK;
}

static syn_status change_all(const syn__step *step, change_char *change, const syn__text *in,
                             syn__text_buffer *out, syn_error *err) {
    char ascii[256], utf8[4];
    uint32_t became[SYN__CHAR_MAX];
    const bool followed = in->from != NULL;
    make_ascii(step, change, ascii);
    for (size_t at = 0; at < in->n;) {
        SYN_TRY(change_ascii(in, &at, ascii, out, err));
        if (at == in->n) break;
        const uint32_t from = followed ? in->from[at] : 0, to = followed ? in->to[at] : 0;
        const size_t n = change(step, syn__char_read(in->at, &at), became);
        for (size_t i = 0; i < n; i++)
            SYN_TRY(syn__text_put(out, followed, utf8, syn_utf8_encode(became[i], utf8), from, to,
                                  err));
    }
    return SYN_OK;
}

/* ---- whole texts ---- */

/* The beginning of the character before `end`, which must be > 0. */
static size_t before(const char *text, size_t end) {
    do end--;
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80);
    return end;
}

static syn_status strip(const syn__step *step, const syn__text *in, syn__text_buffer *out,
                        syn_error *err) {
    size_t begin = 0, end = in->n;
    for (size_t next = 0; step->left && next < end; begin = next)
        if (!syn__char_is_space(syn__char_read(in->at, &next))) break;
    while (step->right && end > begin) {
        const size_t last = before(in->at, end);
        size_t at = last;
        if (!syn__char_is_space(syn__char_read(in->at, &at))) break;
        end = last;
    }
    return syn__text_copy(out, in, begin, end, err);
}

static syn_status prepend(const syn__step *step, const syn__text *in, syn__text_buffer *out,
                          syn_error *err) {
    const bool followed = in->from != NULL;
    if (in->n == 0) return SYN_OK;
    SYN_TRY(syn__text_put(out, followed, step->text, step->text_bytes, followed ? in->from[0] : 0,
                          followed ? in->to[0] : 0, err));
    return syn__text_copy(out, in, 0, in->n, err);
}

syn_status syn__step_find(const syn__step *step, syn__match *match, const char *text, size_t n,
                          size_t from, size_t *begin, size_t *end, syn_error *err) {
    if (step->regex) return syn__regex_find(step->regex, match, text, n, from, begin, end, err);
    *begin = *end = n;
    const size_t bytes = step->pattern_bytes;
    for (const char *at; n - from >= bytes; from = (size_t)(at - text) + 1) {
        at = memchr(text + from, step->pattern[0], n - from - bytes + 1);
        if (at == NULL) return SYN_OK;
        if (memcmp(at, step->pattern, bytes) != 0) continue;
        *begin = (size_t)(at - text);
        *end = *begin + bytes;
        return SYN_OK;
    }
    return SYN_OK;
}

static syn_status replace(const syn__step *step, syn__match *match, const syn__text *in,
                          syn__text_buffer *out, syn_error *err) {
    const bool followed = in->from != NULL;
    for (size_t at = 0, begin, end; at < in->n; at = end) {
        SYN_TRY(syn__step_find(step, match, in->at, in->n, at, &begin, &end, err));
        SYN_TRY(syn__text_copy(out, in, at, begin, err));
        if (begin == end) break;
        SYN_TRY(syn__text_put(out, followed, step->text, step->text_bytes,
                              followed ? in->from[end - 1] : 0, followed ? in->to[end - 1] : 0,
                              err));
    }
    return SYN_OK;
}

static syn_status apply(const syn__step *step, syn__normal_work *work, const syn__text *in,
                        syn__text_buffer *out, syn_error *err) {
    switch (step->kind) {
    case SYN__NORM_BERT_CLEAN:
        return change_all(step, clean, in, out, err);
    case SYN__NORM_BERT_FOLD:
        return change_all(step, fold, in, out, err);
    case SYN__NORM_LOWERCASE:
        return change_all(step, lower, in, out, err);
    case SYN__NORM_STRIP_ACCENTS:
        return change_all(step, strip_mark, in, out, err);
    case SYN__NORM_STRIP:
        return strip(step, in, out, err);
    case SYN__NORM_PREPEND:
        return prepend(step, in, out, err);
    case SYN__NORM_REPLACE:
        return replace(step, work->match, in, out, err);
    default:
        return syn__normal_form(step->kind, work, in, out, err);
    }
}

syn_status syn__normalize(const syn__steps *steps, syn__normal_work *work, const syn__text *in,
                          syn__text *out, syn_error *err) {
    *out = *in;
    for (size_t i = 0; i < steps->n; i++) {
        syn__text_buffer *to = &work->buffers[i % 2];
        const syn__text from = *out;
        to->n = 0;
        SYN_TRY(apply(&steps->at[i], work, &from, to, err));
        *out = syn__text_of(to, from.from != NULL, from.is_first);
    }
    return SYN_OK;
}

void syn__normal_work_free(syn__normal_work *work) {
    syn__text_buffer_free(&work->buffers[0]);
    syn__text_buffer_free(&work->buffers[1]);
    syn_free(work->units);
    syn_free(work->composed);
}
