/* UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef SYNTORCH_UTF8_H
#define SYNTORCH_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes (1..4) of the character that starts at `text`, of which `bytes` are there; 0 if it
   is not one. */
size_t syn_utf8_char_bytes(const char *text, size_t bytes);
/* Where none starts, the bytes (1..3) for which one U+FFFD stands: what would start one, or one
   byte (Unicode, section 3.9; Python and HuggingFace do so). */
size_t syn_utf8_broken_bytes(const char *text, size_t bytes);
/* As syn_utf8_char_bytes, and 0 also for what XML 1.0 forbids even as a reference (section 2.2):
   control characters but tab and line ends, U+FFFE and U+FFFF. */
size_t syn_utf8_xml_char_bytes(const char *text, size_t bytes);
bool syn_utf8_valid(const char *text, size_t bytes);
/* Writes a code point (valid, not a surrogate) to out; returns its bytes (1..4). */
size_t syn_utf8_encode(unsigned code_point, char out[4]);

#ifdef __cplusplus
}
#endif
#endif
