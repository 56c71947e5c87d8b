/* UTF-8 as defined by RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef SYNTORCH_UTF8_H
#define SYNTORCH_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The length (1..4) of the character at `text`, which has `bytes` bytes; 0 if they are not a valid
   character. */
size_t syn_utf8_char_bytes(const char *text, size_t bytes);
/* Where no valid character starts: the number of bytes (1..3) to replace by one U+FFFD. These are
   the longest valid beginning of a character, or one byte (Unicode, section 3.9; like Python and
   HuggingFace). */
size_t syn_utf8_broken_bytes(const char *text, size_t bytes);
/* Like syn_utf8_char_bytes, but also 0 for characters that XML 1.0 forbids even as references
   (section 2.2): control characters except tab and line ends, U+FFFE and U+FFFF. */
size_t syn_utf8_xml_char_bytes(const char *text, size_t bytes);
bool syn_utf8_valid(const char *text, size_t bytes);
/* Writes a code point (valid, not a surrogate) to out. Returns its length (1..4). */
size_t syn_utf8_encode(unsigned code_point, char out[4]);

#ifdef __cplusplus
}
#endif
#endif
