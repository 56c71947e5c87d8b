/* UTF-8: checking and encoding (utf8.h). */
#include "syntorch/base/utf8.h"

/* The number of valid bytes of the character at the beginning of `text`; 0 if the first byte begins
   no character. Sets *length to the length of the whole character. As RFC 3629, section 4, says,
   the range of the second byte depends on the first byte, and that of later bytes is 80..BF. */
static size_t there(const char *text, size_t bytes, size_t *length) {
    const unsigned char *p = (const unsigned char *)text;
    *length = 1;
    if (bytes == 0) return 0;
    const unsigned lead = p[0];
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return 0;
    *length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (bytes < 2 || p[1] < low || p[1] > high) return 1;
    size_t n = 2;
    while (n < *length && n < bytes && (p[n] & 0xC0u) == 0x80u) n++;
    return n;
}

size_t syn_utf8_char_bytes(const char *text, size_t bytes) {
    size_t length;
    return there(text, bytes, &length) == length ? length : 0;
}

size_t syn_utf8_broken_bytes(const char *text, size_t bytes) {
    size_t length;
    const size_t n = there(text, bytes, &length);
    return n > 0 ? n : 1;
}

size_t syn_utf8_xml_char_bytes(const char *text, size_t bytes) {
    const size_t n = syn_utf8_char_bytes(text, bytes);
    const unsigned char *p = (const unsigned char *)text;
    if (n == 1 && p[0] < 0x20 && p[0] != '\t' && p[0] != '\n' && p[0] != '\r') return 0;
    return n == 3 && p[0] == 0xEF && p[1] == 0xBF && p[2] >= 0xBE ? 0 : n;
}

bool syn_utf8_valid(const char *text, size_t bytes) {
    size_t at = 0;
    while (at < bytes) {
        const size_t n = syn_utf8_char_bytes(text + at, bytes - at);
        if (n == 0) return false;
        at += n;
    }
    return true;
}

size_t syn_utf8_encode(unsigned code_point, char out[4]) {
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    const size_t n = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80u | (code_point & 0x3Fu));
        code_point >>= 6;
    }
    static const unsigned lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    out[0] = (char)(lead[n] | code_point);
    return n;
}
