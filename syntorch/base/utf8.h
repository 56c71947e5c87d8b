/* UTF-8 as defined by RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef SYNTORCH_UTF8_H
#define SYNTORCH_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The length (1 to 4 bytes) of the character at the beginning of `text`, a text of `bytes` bytes; 0
   if no valid character begins there. */
size_t syn_utf8_char_bytes(const char *text, size_t bytes);
/* For a text that does not begin with a valid character: the number of bytes (1 to 3) to replace by
   one U+FFFD. This is the longest valid beginning of a character, or one byte if there is none
   (Unicode, section 3.9; Python and HuggingFace do the same). */
size_t syn_utf8_broken_bytes(const char *text, size_t bytes);
/* Like syn_utf8_char_bytes, but also returns 0 for characters that XML 1.0 forbids even as
   references (section 2.2): control characters except tab and line ends, U+FFFE and U+FFFF. */
size_t syn_utf8_xml_char_bytes(const char *text, size_t bytes);
bool syn_utf8_valid(const char *text, size_t bytes);
/* Writes the UTF-8 encoding of a code point, which must be valid and no surrogate. Returns its
   length (1 to 4 bytes). */
size_t syn_utf8_encode(unsigned code_point, char out[4]);

#ifdef __cplusplus
}
#endif
#endif
