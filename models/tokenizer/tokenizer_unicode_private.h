/* Unicode properties of code points, as in HuggingFace's tokenizers library. */
#ifndef MODELS_TOKENIZER_UNICODE_PRIVATE_H
#define MODELS_TOKENIZER_UNICODE_PRIVATE_H

#include "syntorch/base/status.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__CHAR_MAX 32 /* maximum number of code points in a decomposition */

/* How BERT treats a code point. */
typedef enum syn__char_kind {
    SYN__CHAR_LETTER, /* part of a word: everything that is not one of the following */
    SYN__CHAR_SPACE,
    SYN__CHAR_DROPPED, /* removed */
    SYN__CHAR_PUNCTUATION,
    SYN__CHAR_IDEOGRAPH
} syn__char_kind;

/* Fails if the program was built without utf8proc; the functions below must not be called then. */
syn_status syn__char_ready(syn_error *err) SYN_MUST_USE;
/* Unicode version of utf8proc ("15.0.0"); "" without utf8proc. */
const char *syn__char_unicode(void);
syn__char_kind syn__char_kind_of(uint32_t c);
/* Whether c is a combining mark of any kind (category M), which StripAccents removes. */
bool syn__char_is_any_mark(uint32_t c);
/* Whether c is a nonspacing mark (category Mn), which BERT removes as an accent. */
bool syn__char_is_mark(uint32_t c);
/* The canonical combining class. */
unsigned syn__char_combining(uint32_t c);
/* Canonical decomposition (NFD without reordering). Returns the number of code points. */
size_t syn__char_decompose(uint32_t c, uint32_t out[4]);
/* The same with compatibility decomposition (NFKD). */
size_t syn__char_decompose_compat(uint32_t c, uint32_t out[SYN__CHAR_MAX]);
/* Lowercases. Returns the number of code points. */
size_t syn__char_lower(uint32_t c, uint32_t out[2]);

/* Decodes the code point at *pos of valid UTF-8, and advances *pos past it. */
static inline uint32_t syn__char_read(const char *text, size_t *pos) {
    const unsigned char *p = (const unsigned char *)text + *pos;
    const size_t bytes = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    uint32_t c = bytes == 1 ? p[0] : p[0] & (0x7fu >> bytes);
    for (size_t i = 1; i < bytes; i++) c = c << 6 | (p[i] & 0x3fu);
    *pos += bytes;
    return c;
}

/* Whether the next eight bytes are ASCII. */
static inline bool syn__eight_ascii(const char *text) {
    uint64_t eight;
    memcpy(&eight, text, 8);
    return (eight & UINT64_C(0x8080808080808080)) == 0;
}

/* Unicode's White_Space. */
static inline bool syn__char_is_space(uint32_t c) {
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* Canonical composition (NFC): pairs of code points that compose to one. */
typedef struct syn__composer syn__composer;
syn_status syn__composer_new(syn__composer **out, syn_error *err) SYN_MUST_USE;
void syn__composer_free(syn__composer *composer);
/* The composed code point; 0 if the two do not compose. */
uint32_t syn__composer_find(const syn__composer *composer, uint32_t a, uint32_t b);

#ifdef __cplusplus
}
#endif
#endif
