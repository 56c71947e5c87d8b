/* Reads and writes single fields of protobuf's wire format. */
#include "export/chakra/wire/et_wire.h"

void syn__et_put_varint(syn__buf *buf, uint64_t v) {
    char *out = syn__buf_reserve(buf, SYN__ET_VARINT_MAX);
    if (out != NULL) buf->bytes = (size_t)(syn__et_varint(out, v) - buf->data);
}

void syn__et_put_fixed(syn__buf *buf, uint64_t bits, size_t bytes) {
    char little[8];
    for (size_t i = 0; i < bytes; i++) little[i] = (char)(unsigned char)(bits >> (8 * i));
    syn__buf_put(buf, little, bytes);
}

void syn__et_put_tag(syn__buf *buf, uint32_t field, uint32_t wire) {
    syn__et_put_varint(buf, (uint64_t)field << 3 | wire);
}

void syn__et_put_str(syn__buf *buf, uint32_t field, syn__str s) {
    syn__et_put_tag(buf, field, SYN__ET_WIRE_LEN);
    syn__et_put_varint(buf, s.bytes);
    syn__buf_put(buf, s.text, s.bytes);
}

/* ---- Reading ---- */

static bool damaged(syn__et_reader *r, const char *why) {
    r->why = why;
    return false;
}

bool syn__et_read_varint(syn__et_reader *r, uint64_t *out) {
    uint64_t v = 0;
    const char *p = r->cur;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (p == r->end) return damaged(r, "a number is truncated");
        const unsigned char c = (unsigned char)*p++;
        if (shift == 63 && c > 1) break;
        v |= (uint64_t)(c & 0x7Fu) << shift;
        if (c < 0x80) {
            r->cur = p;
            *out = v;
            return true;
        }
    }
    return damaged(r, "a number is longer than 64 bits");
}

bool syn__et_read_fixed(syn__et_reader *r, size_t bytes, uint64_t *out) {
    if ((size_t)(r->end - r->cur) < bytes) return damaged(r, "a number is truncated");
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++) v |= (uint64_t)(unsigned char)r->cur[i] << (8 * i);
    r->cur += bytes;
    *out = v;
    return true;
}

bool syn__et_read_field(syn__et_reader *r, syn__et_field *out) {
    if (r->cur == r->end) return false;
    const char *start = r->cur;
    uint64_t key, bytes;
    if (!syn__et_read_varint(r, &key)) return false;
    out->number = (uint32_t)(key >> 3);
    out->wire = (uint32_t)(key & 7);
    out->value = 0;
    out->data = (syn__str){start, 0};
    if (key > UINT32_MAX || out->number == 0) {
        r->cur = start;
        return damaged(r, "a field has an invalid number");
    }
    switch (out->wire) {
    case SYN__ET_WIRE_VARINT:
        return syn__et_read_varint(r, &out->value);
    case SYN__ET_WIRE_I64:
        return syn__et_read_fixed(r, 8, &out->value);
    case SYN__ET_WIRE_I32:
        return syn__et_read_fixed(r, 4, &out->value);
    case SYN__ET_WIRE_LEN:
        if (!syn__et_read_varint(r, &bytes)) return false;
        if (bytes > (size_t)(r->end - r->cur))
            return damaged(r, "a field extends past its message");
        out->data = (syn__str){r->cur, (size_t)bytes};
        r->cur += bytes;
        return true;
    default:
        r->cur = start;
        return damaged(r, "a field has an unknown wire type");
    }
}

bool syn__et_read_message(syn__et_reader *r, syn__str *out) {
    const char *start = r->cur;
    uint64_t bytes;
    if (r->cur == r->end || !syn__et_read_varint(r, &bytes)) return false;
    if (bytes > (size_t)(r->end - r->cur)) {
        r->cur = start;
        return damaged(
            r, "the file ends inside a message; it is truncated or not a Chakra execution trace");
    }
    *out = (syn__str){r->cur, (size_t)bytes};
    r->cur += bytes;
    return true;
}
