/* Slow paths of string slices and byte buffers; see bytes.h. */
#include "export/text/bytes.h"

#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"

bool syn__str_is_utf8(syn__str s) {
    /* Nearly all text is ASCII: skip eight bytes at a time until a byte is not ASCII. */
    size_t at = 0;
    for (uint64_t word; s.bytes - at >= 8; at += 8) {
        memcpy(&word, s.text + at, 8);
        if (word & UINT64_C(0x8080808080808080)) break;
    }
    return syn_utf8_valid(s.text + at, s.bytes - at);
}

char *syn__buf_grow(syn__buf *buf, size_t bytes) {
    size_t want;
    if (buf->failed) return NULL;
    if (!syn_add_size(buf->bytes, bytes, &want) ||
        syn_grow(&buf->data, &buf->cap, want, 1, NULL) != SYN_OK) {
        buf->failed = true;
        return NULL;
    }
    return buf->data + buf->bytes;
}

void syn__buf_put(syn__buf *buf, const void *data, size_t bytes) {
    char *out = bytes > 0 ? syn__buf_reserve(buf, bytes) : NULL;
    if (out == NULL) return;
    memcpy(out, data, bytes);
    buf->bytes += bytes;
}

void syn__buf_free(syn__buf *buf) {
    syn_free(buf->data);
    *buf = (syn__buf){0};
}
