/* Building blocks of python_json.c: functions that grow the output, find the ends of strings and
   numbers, and decode single characters. */
#ifndef EXPORT_PYTHON_SCAN_H
#define EXPORT_PYTHON_SCAN_H

#include "export/text/python_json.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A write position in a buffer. p is ahead of buf->bytes until syn__pen_close. */
typedef struct syn__pen {
    syn__buf *buf;
    char *p, *limit;
} syn__pen;

#define SYN__PEN_SLACK 64 /* bytes; enough for any token except strings and long numbers */

/* Ensures capacity for `bytes` more bytes. Returns false if memory is out. */
bool syn__pen_grow(syn__pen *pen, size_t bytes);
static inline bool syn__pen_reserve(syn__pen *pen, size_t bytes) {
    return (size_t)(pen->limit - pen->p) >= bytes || syn__pen_grow(pen, bytes);
}
static inline bool syn__pen_open(syn__pen *pen, syn__buf *buf) {
    pen->buf = buf;
    return (pen->p = syn__buf_reserve(buf, SYN__PEN_SLACK)) != NULL
               ? (pen->limit = buf->data + buf->cap, true)
               : false;
}
static inline void syn__pen_close(syn__pen *pen) {
    pen->buf->bytes = (size_t)(pen->p - pen->buf->data);
}
static inline void syn__pen_put(syn__pen *pen, const char *text, size_t bytes) {
    memcpy(pen->p, text, bytes);
    pen->p += bytes;
}

/* Copies plain ASCII of a string from p to the pen, up to a quote of either kind, a backslash, a
   control character or a non-ASCII byte, and returns where that is. The pen needs capacity for `end
   - p` bytes. */
static inline const char *syn__pen_plain(syn__pen *pen, const char *p, const char *end) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), single = _mm_set1_epi8('\'');
    const __m128i slash = _mm_set1_epi8('\\'), space = _mm_set1_epi8(' '),
                  rubout = _mm_set1_epi8(127);
    while (end - p >= 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
        /* The comparison is signed, so non-ASCII bytes are less than space, too. */
        const __m128i odd = _mm_or_si128(_mm_cmplt_epi8(x, space), _mm_cmpeq_epi8(x, rubout));
        const __m128i mark = _mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, single));
        const __m128i hit = _mm_or_si128(_mm_or_si128(odd, mark), _mm_cmpeq_epi8(x, slash));
        const unsigned mask = (unsigned)_mm_movemask_epi8(hit);
        _mm_storeu_si128((__m128i *)(void *)pen->p, x);
        const unsigned n = mask ? (unsigned)__builtin_ctz(mask) : 16;
        pen->p += n;
        p += n;
        if (mask) return p;
    }
#endif
    while (p < end && *p >= ' ' && *p < 127 && *p != '"' && *p != '\'' && *p != '\\')
        *pen->p++ = *p++;
    return p;
}

/* Returns the quote that ends the string whose text begins at p, or `end` if there is none. A quote
   is treated as unescaped text if the bytes after it cannot follow a string. */
const char *syn__python_string_end(const char *p, const char *end);
/* A quick check whether the byte after the quote can follow a string. */
static inline bool syn__python_usual_end(const char *quote, const char *end) {
    const char next = quote + 1 < end ? quote[1] : ',';
    return next == ',' || next == ']' || next == '}' || next == ':' || next == '\n';
}

/* Decodes one character of a string's text at *p (an escape or UTF-8) and moves *p past it. Lone
   surrogates are returned as they are; invalid UTF-8 gives U+FFFD. */
uint32_t syn__python_decode(const char **p, const char *end);

/* Classes of bytes that can follow a token. */
typedef enum syn__python_mark {
    SYN__PYTHON_VALUE, /* start of a string, number or word */
    SYN__PYTHON_SPACE, /* white space or a control character */
    SYN__PYTHON_COMMA,
    SYN__PYTHON_COLON,
    SYN__PYTHON_OPENS,
    SYN__PYTHON_CLOSES
} syn__python_mark;

static inline syn__python_mark syn__python_mark_of(char c) {
    if ((c >= '0' && c <= '9') || c == '"') return SYN__PYTHON_VALUE;
    if (c == ',') return SYN__PYTHON_COMMA;
    if (c == ':') return SYN__PYTHON_COLON;
    if (c == '[' || c == '{') return SYN__PYTHON_OPENS;
    if (c == ']' || c == '}') return SYN__PYTHON_CLOSES;
    return (unsigned char)c > ' ' ? SYN__PYTHON_VALUE : SYN__PYTHON_SPACE;
}

/* Finds the end of the number or bare word at p and returns it. *text is the word as Python writes
   it. It points into the input, to static memory or to `space`, which has SYN_NUMBER_TEXT bytes.
   Words that Python does not accept become None. at_member: the word is the value of a member (see
   loose_json.h). json: the form of json.dump; otherwise the form of str(). */
const char *syn__python_word(const char *p, const char *end, bool at_member, bool json, char *space,
                             syn__str *text);

static inline bool syn__python_is_digit(char c) {
    return (unsigned)(c - '0') < 10;
}
static inline bool syn__python_is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}
/* Whether a number may end before c. */
static inline bool syn__python_is_stop(char c) {
    return c == ',' || c == ']' || c == '}' || syn__python_is_space(c);
}

/* A fast path for most numbers: copies a short integer without a sign and returns its end. Returns
   NULL if the text at p is something else. The pen needs capacity for SYN__PEN_SLACK bytes. */
static inline const char *syn__python_short_int(syn__pen *pen, const char *p, const char *end) {
    const char *const near = end - p > 32 ? p + 32 : end;
    const char *q = p;
    char *out = pen->p;
    while (q < near && syn__python_is_digit(*q)) *out++ = *q++;
    if (q == p || (q == near ? q != end : !syn__python_is_stop(*q))) return NULL;
    if (*p == '0' && q > p + 1) return NULL;
    pen->p = out;
    return q;
}

#ifdef __cplusplus
}
#endif
#endif
