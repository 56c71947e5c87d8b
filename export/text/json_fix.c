/* Makes valid JSON from text that the lenient parser accepts. */
#include "export/text/json_fix.h"

#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define DIGITS_MAX 4300 /* most digits of an integer that Python accepts by default */

static const struct {
    const char *met, *done;
} texts[] = {
#define SYN_X(id, met, done) [SYN__FIX_##id] = {met, done},
    SYN__FIX_LIST(SYN_X)
#undef SYN_X
};

const char *syn__fix_met(syn__fix_kind kind) {
    return texts[kind].met;
}

const char *syn__fix_done(syn__fix_kind kind) {
    return texts[kind].done;
}

void syn__fix_count(syn__fix *fix, syn__fix_kind kind, const char *at) {
    syn__fix_note *note = &fix->notes[kind];
    if (note->count++ == 0) note->first = (size_t)(at - fix->loose.begin);
}

void syn__fix_change(syn__fix *fix, const char *from, const char *to, const char *with,
                     size_t bytes) {
    syn__buf_put(&fix->out, fix->mark, (size_t)(from - fix->mark));
    syn__buf_put(&fix->out, with, bytes);
    fix->mark = to;
}

static void change_noted(syn__fix *fix, syn__fix_kind kind, const char *from, size_t from_bytes,
                         const char *with) {
    syn__fix_count(fix, kind, from);
    syn__fix_change(fix, from, from + from_bytes, with, strlen(with));
}

/* ---- Between values ---- */

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

void syn__fix_gap(syn__fix *fix, const char *from, const char *to, bool comma) {
    bool wanted = comma;
    for (const char *p = from; p < to; p++) {
        if (is_space(*p)) continue;
        if (*p != ',') change_noted(fix, SYN__FIX_SPACE, p, 1, "");
        else if (!wanted) change_noted(fix, SYN__FIX_EXTRA_COMMA, p, 1, "");
        else wanted = false;
    }
    if (wanted) change_noted(fix, SYN__FIX_MISSING_COMMA, to, 0, ",");
}

/* ---- Strings ---- */

/* Returns the first byte at or after p that needs a check (a quote, a backslash, a control
   character or a non-ASCII byte), or `end`. Reads up to 15 bytes beyond `end`. */
static inline const char *next_odd(const char *p, const char *end) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
    const __m128i space = _mm_set1_epi8(' ');
    for (; p < end; p += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
        /* The comparison is signed, so non-ASCII bytes are less than space, too. */
        const __m128i odd =
            _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash)),
                         _mm_cmplt_epi8(x, space));
        const unsigned mask = (unsigned)_mm_movemask_epi8(odd);
        if (mask == 0) continue;
        p += __builtin_ctz(mask);
        return p < end ? p : end;
    }
    return end;
#else
    while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= ' ' &&
           (unsigned char)*p < 0x80)
        p++;
    return p;
#endif
}

/* The value of the escape \uXXXX at p; -1 if it is not one. */
static int32_t unicode_escape(const char *p, const char *end) {
    return end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? syn__loose_hex4(p + 2, end) : -1;
}

/* Repairs the escape at p and returns its end. */
static const char *fix_escape(syn__fix *fix, const char *p, const char *end) {
    if (end - p >= 2 && p[1] != '\0' && strchr("\"\\/bfnrt", p[1]) != NULL) return p + 2;
    const int32_t code = unicode_escape(p, end);
    if (code >= 0xD800 && code < 0xDC00) {
        const int32_t low = unicode_escape(p + 6, end);
        if (low >= 0xDC00 && low <= 0xDFFF) return p + 12;
    }
    if (code >= 0xD800 && code <= 0xDFFF) {
        change_noted(fix, SYN__FIX_SURROGATE, p, 6, "\\ufffd");
    } else if (code < 0) { /* "\'" as in JavaScript, or a backslash in a Windows path */
        change_noted(fix, SYN__FIX_ESCAPE, p, 1, end - p >= 2 && p[1] == '\'' ? "" : "\\\\");
        return p + 1;
    }
    return p + 6;
}

static void fix_odd_string(syn__fix *fix, const char *p, const char *end) {
    while ((p = next_odd(p, end)) < end) {
        const size_t n = syn_utf8_char_bytes(p, (size_t)(end - p));
        if (*p == '\\') {
            p = fix_escape(fix, p, end);
            continue;
        }
        if (*p == '"') {
            change_noted(fix, SYN__FIX_QUOTE, p, 1, "\\\"");
        } else if ((unsigned char)*p < ' ') {
            static const char hex[] = "0123456789abcdef";
            const char as[] = {'\\', 'u', '0', '0', hex[*p >> 4], hex[*p & 15], '\0'};
            change_noted(fix, SYN__FIX_CONTROL, p, 1, as);
        } else if (n == 0) {
            change_noted(fix, SYN__FIX_UTF8, p, 1, "\xEF\xBF\xBD");
        }
        p += n != 0 ? n : 1;
    }
}

static inline void fix_string(syn__fix *fix, syn__str text) {
    const char *end = text.text + text.bytes, *odd = next_odd(text.text, end);
    if (odd < end) fix_odd_string(fix, odd, end);
}

void syn__fix_key(syn__fix *fix, syn__str key) {
    fix_string(fix, key);
    bool colon = false;
    for (const char *p = key.text + key.bytes + 1; p < fix->loose.cur; p++) {
        if (is_space(*p)) continue;
        if (*p != ':' || colon) change_noted(fix, SYN__FIX_SPACE, p, 1, "");
        else colon = true;
    }
}

/* ---- Numbers and words ---- */

static inline size_t digits(const char *p, const char *end) {
    const char *q = p;
    while (q < end && *q >= '0' && *q <= '9') q++;
    return (size_t)(q - p);
}

/* Whether the text is a number as defined by RFC 8259, section 6. */
static bool is_number(const char *p, const char *end) {
    if (p < end && *p == '-') p++;
    const size_t whole = digits(p, end);
    if (whole == 0 || (whole > 1 && *p == '0')) return false;
    p += whole;
    if (p == end) return whole <= DIGITS_MAX;
    if (*p == '.') {
        const size_t n = digits(++p, end);
        if (n == 0) return false;
        p += n;
    }
    if (p < end && (*p | 0x20) == 'e') {
        if (++p < end && (*p == '+' || *p == '-')) p++;
        const size_t n = digits(p, end);
        if (n == 0) return false;
        p += n;
    }
    return p == end;
}

/* Rewrites "+.5", "007" and "1." as 0.5, 7 and 1.0. If the result is still not a number, puts the
   text in quotes. */
static void fix_number(syn__fix *fix, syn__str text) {
    const char *p = text.text, *const end = text.text + text.bytes;
    const size_t at = fix->out.bytes + (size_t)(p - fix->mark);
    syn__fix_count(fix, SYN__FIX_NUMBER, p);
    syn__fix_change(fix, p, end, "", 0);
    if (*p == '-') syn__buf_put(&fix->out, "-", 1);
    if (*p == '-' || *p == '+') p++;
    while (end - p > 1 && p[0] == '0' && p[1] >= '0' && p[1] <= '9') p++;
    size_t n = digits(p, end);
    if (n == 0) syn__buf_put(&fix->out, "0", 1);
    if (p + n < end && p[n] == '.') n++;
    syn__buf_put(&fix->out, p, n);
    if (n > 0 && p[n - 1] == '.' && digits(p + n, end) == 0) syn__buf_put(&fix->out, "0", 1);
    syn__buf_put(&fix->out, p + n, (size_t)(end - p) - n);
    if (fix->out.failed) return;
    if (is_number(fix->out.data + at, fix->out.data + fix->out.bytes)) return;
    fix->out.bytes = at;
    syn__buf_put(&fix->out, "\"", 1);
    syn__buf_put(&fix->out, text.text, text.bytes);
    syn__buf_put(&fix->out, "\"", 1);
}

/* Whether the word equals `lower`, ignoring case. */
static bool is_word(syn__str text, const char *lower) {
    if (text.bytes != strlen(lower)) return false;
    for (size_t i = 0; i < text.bytes; i++)
        if ((text.text[i] | 0x20) != lower[i]) return false;
    return true;
}

static void fix_word(syn__fix *fix, syn__str text) {
    if (syn__str_is(text, "null") || syn__str_is(text, "true") || syn__str_is(text, "false"))
        return;
    change_noted(fix, SYN__FIX_WORD, text.text, text.bytes,
                 is_word(text, "true")    ? "true"
                 : is_word(text, "false") ? "false"
                                          : "null");
}

/* ---- Values ---- */

/* Repairs the current scalar, or enters the current object or array. Returns false if there is no
   value. */
static inline bool fix_here(syn__fix *fix, size_t *depth) {
    syn__str text;
    switch (syn__loose_value(&fix->loose, &text)) {
    case SYN__LOOSE_OBJECT:
    case SYN__LOOSE_ARRAY:
        if (syn_grow(&fix->open, &fix->open_cap, *depth + 1, 1, NULL) != SYN_OK) {
            fix->out.failed = true;
            return false;
        }
        fix->open[(*depth)++] = *text.text;
        return true;
    case SYN__LOOSE_STRING:
        fix_string(fix, text);
        return true;
    case SYN__LOOSE_NUMBER:
        if (!is_number(text.text, text.text + text.bytes)) fix_number(fix, text);
        return true;
    case SYN__LOOSE_WORD:
        fix_word(fix, text);
        return true;
    default:
        return false;
    }
}

bool syn__fix_value(syn__fix *fix) {
    syn__loose *l = &fix->loose;
    size_t depth = 0, before = 0;
    while (fix_here(fix, &depth)) {
        bool first = depth > before, more = false;
        while (depth > 0 && !more) {
            const char *from = l->cur;
            const bool in_object = fix->open[depth - 1] == '{';
            syn__str key;
            more = in_object ? syn__loose_member(l, &key) : syn__loose_element(l);
            if (l->broken) return false;
            const char *to = !more ? l->cur - 1 : in_object ? key.text - 1 : l->cur;
            syn__fix_gap(fix, from, to, more && !first);
            if (more && in_object) syn__fix_key(fix, key);
            if (!more) depth--;
            first = false;
        }
        if (!more) return true;
        before = depth;
    }
    return false;
}

void syn__fix_free(syn__fix *fix) {
    syn__buf_free(&fix->out);
    syn_free(fix->open);
    memset(fix, 0, sizeof *fix);
}
