/* String slices and growable byte buffers. */
#ifndef EXPORT_BYTES_H
#define EXPORT_BYTES_H

#include <string.h>

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A string slice, not necessarily NUL-terminated. */
typedef struct syn__str {
    const char *text;
    size_t bytes;
} syn__str;

static inline syn__str syn__str_of(const char *text) {
    const syn__str s = {text, strlen(text)};
    return s;
}

static inline bool syn__str_is(syn__str s, const char *text) {
    return s.bytes == strlen(text) && memcmp(s.text, text, s.bytes) == 0;
}

static inline bool syn__str_begins(syn__str s, const char *text) {
    const size_t n = strlen(text);
    return s.bytes >= n && memcmp(s.text, text, n) == 0;
}

/* Whether s contains `text`, which must not be empty. */
static inline bool syn__str_has(syn__str s, const char *text) {
    const size_t n = strlen(text);
    if (s.bytes < n) return false; /* also handles an empty s, whose text may be NULL */
    for (const char *p = s.text, *end = p + s.bytes; (size_t)(end - p) >= n; p++) {
        p = (const char *)memchr(p, *text, (size_t)(end - p) - n + 1);
        if (p == NULL || memcmp(p, text, n) == 0) return p != NULL;
    }
    return false;
}

/* Whether s is valid UTF-8. */
bool syn__str_is_utf8(syn__str s);

/* A growable byte buffer. If memory runs out, `failed` is set and later writes do nothing. */
typedef struct syn__buf {
    char *data;
    size_t bytes, cap;
    bool failed;
} syn__buf;

/* Grows the capacity by at least `bytes`. Returns the end of the content; NULL if memory is out. */
char *syn__buf_grow(syn__buf *buf, size_t bytes);
/* Ensures capacity for `bytes` more bytes and returns the end of the content; NULL if memory is
   out. */
static inline char *syn__buf_reserve(syn__buf *buf, size_t bytes) {
    if (bytes <= buf->cap - buf->bytes && !buf->failed && buf->data != NULL)
        return buf->data + buf->bytes;
    return syn__buf_grow(buf, bytes);
}
void syn__buf_put(syn__buf *buf, const void *data, size_t bytes);
void syn__buf_free(syn__buf *buf);

#ifdef __cplusplus
}
#endif
#endif
