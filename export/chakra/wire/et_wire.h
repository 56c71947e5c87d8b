/* Protobuf's wire format (protobuf.dev/programming-guides/encoding): functions that append fields
   to a buffer, and a bounds-checked reader. */
#ifndef EXPORT_ET_WIRE_H
#define EXPORT_ET_WIRE_H

#include "export/text/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__ET_VARINT_MAX 10 /* bytes of the longest varint */

enum { SYN__ET_WIRE_VARINT = 0, SYN__ET_WIRE_I64 = 1, SYN__ET_WIRE_LEN = 2, SYN__ET_WIRE_I32 = 5 };

static inline size_t syn__et_varint_bytes(uint64_t v) {
    size_t n = 1;
    while (v >= 0x80) {
        v >>= 7;
        n++;
    }
    return n;
}

/* Writes v to out, which needs SYN__ET_VARINT_MAX bytes. Returns the end of the varint. */
static inline char *syn__et_varint(char *out, uint64_t v) {
    while (v >= 0x80) {
        *out++ = (char)(unsigned char)(v | 0x80);
        v >>= 7;
    }
    *out++ = (char)(unsigned char)v;
    return out;
}

void syn__et_put_varint(syn__buf *buf, uint64_t v);
void syn__et_put_fixed(syn__buf *buf, uint64_t bits, size_t bytes); /* little-endian, 4 or 8 */
/* Appends a field's key. */
void syn__et_put_tag(syn__buf *buf, uint32_t field, uint32_t wire);
/* Appends key, length and bytes. */
void syn__et_put_str(syn__buf *buf, uint32_t field, syn__str s);

/* ---- Reading ---- */

/* Iterates over the fields of one message. `why` is NULL or, after an error, says what is wrong at
   `cur`, as part of an error message. */
typedef struct syn__et_reader {
    const char *cur, *end;
    const char *why;
} syn__et_reader;

typedef struct syn__et_field {
    uint32_t number, wire;
    uint64_t value; /* VARINT, I64, I32 */
    syn__str data;  /* LEN */
} syn__et_field;

/* Reads the varint at r->cur. Returns false and sets `why` if it is truncated or over 64 bits. */
bool syn__et_read_varint(syn__et_reader *r, uint64_t *out);
/* Reads `bytes` (4 or 8) little-endian bytes at r->cur. */
bool syn__et_read_fixed(syn__et_reader *r, size_t bytes, uint64_t *out);
/* Reads the next field. Returns false at the end of the message (why: NULL) or at damaged data. */
bool syn__et_read_field(syn__et_reader *r, syn__et_field *out);
/* Reads the next message of a file, in which each message is preceded by its length. Returns false
   at the end of the file (why: NULL) or at damaged data. */
bool syn__et_read_message(syn__et_reader *r, syn__str *out);

#ifdef __cplusplus
}
#endif
#endif
