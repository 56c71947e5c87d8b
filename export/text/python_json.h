/* Writes JSON text as Python would write the loaded value (json.load): as str() does, or as
   json.dump(indent=4) does. The input is text that the lenient parser (loose_json.h) accepted as a
   value, so it may contain mismatched brackets, missing or doubled commas, bare words and control
   characters. The functions never read outside of the text, and the value they write always has the
   same kind as the input.
   Unlike Python, they write duplicate keys of an object twice. */
#ifndef EXPORT_PYTHON_JSON_H
#define EXPORT_PYTHON_JSON_H

#include "export/text/bytes.h"
#include "syntorch/base/number.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends str() of the value, such as ['a', 1.0, None]. */
void syn__python_text(syn__buf *out, syn__str json);
/* Appends str() of the value at p. Returns the end of that value, at most `end`. */
const char *syn__python_text_next(syn__buf *out, const char *p, const char *end);

/* Appends the value as json.dump(indent=4) writes it at nesting depth `level`, without the
   indentation before its first character. The text is ASCII only, with floats as repr() formats
   them, and NaN and Infinity without quotes. */
void syn__python_json(syn__buf *out, syn__str json, unsigned level);
/* The same for the value at p. Returns the end of that value. */
const char *syn__python_json_next(syn__buf *out, const char *p, const char *end, unsigned level);
/* Appends a newline and the indentation of `level`. */
void syn__python_line(syn__buf *out, unsigned level);
/* Formats a float as repr() does: "3.0", "1e-05", "nan". The result is NUL-terminated. Returns its
   length. */
size_t syn__python_float(double value, char out[SYN_NUMBER_TEXT]);

#define SYN__PYTHON_ESCAPE 12
/* Formats a UTF-8 character of n bytes as json.dump writes it in a string: "\n", "\ud83d\ude00".
   Returns the length. */
size_t syn__python_escape(const char *text, size_t n, char out[SYN__PYTHON_ESCAPE]);

/* Python's str.isprintable for a character beyond ASCII, with Unicode 14.0 as in Python 3.11. */
bool syn__python_printable(uint32_t character);

#ifdef __cplusplus
}
#endif
#endif
