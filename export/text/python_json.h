/* JSON text in the forms in which Python writes what json.load made of it: str() and
   json.dump(indent=4). The text is what a forgiving reader (loose_json.h) took for a value: it may
   hold mismatched brackets, missing or doubled commas, bare words, control characters. Nothing is
   read outside of it, and whatever it is, something of its kind is written.

   Keys that an object has twice are written twice. */
#ifndef EXPORT_PYTHON_JSON_H
#define EXPORT_PYTHON_JSON_H

#include "export/text/bytes.h"
#include "syntorch/base/number.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends str() of the value: ['a', 1.0, None]. */
void syn__python_text(syn__buf *out, syn__str json);
/* Appends str() of the one value at p; returns its end, at most `end`. */
const char *syn__python_text_next(syn__buf *out, const char *p, const char *end);

/* Appends the value as json.dump(indent=4) writes it `level` levels deep, without the indentation
   before its first character: ASCII only, floats as repr() has them, NaN and Infinity bare. */
void syn__python_json(syn__buf *out, syn__str json, unsigned level);
/* As that of the one value at p; returns its end. */
const char *syn__python_json_next(syn__buf *out, const char *p, const char *end, unsigned level);
/* Appends a line break and the indentation of a level. */
void syn__python_line(syn__buf *out, unsigned level);
/* repr() of a float, "3.0", "1e-05", "nan"; NUL-terminated, returns its length. */
size_t syn__python_float(double value, char out[SYN_NUMBER_TEXT]);

#define SYN__PYTHON_ESCAPE 12
/* The UTF-8 character of n bytes as json.dump writes it within a string, "\n", "\ud83d\ude00";
   returns its length. */
size_t syn__python_escape(const char *text, size_t n, char out[SYN__PYTHON_ESCAPE]);

/* str.isprintable of a character beyond ASCII, Unicode 14.0 (Python 3.11). */
bool syn__python_printable(uint32_t character);

#ifdef __cplusplus
}
#endif
#endif
