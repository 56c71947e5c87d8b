/* Conversion between numbers and text, independent of the locale. */
#ifndef SYNTORCH_NUMBER_H
#define SYNTORCH_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYN_DECIMAL_TEXT 20 /* the digits of any uint64_t */

/* Writes the digits of `value` so that they end before `end`, without a NUL. Returns the position
   of the first digit. Much faster than printf. */
static inline char *syn_decimal(uint64_t value, char *end) {
    do *--end = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    return end;
}

#define SYN_NUMBER_TEXT 64 /* a buffer of this many bytes always suffices */

/* Writes the shortest decimal that reads back as the same double ("0.1", "1e-05", "3", "-0.0";
   "nan", "inf", "-inf"), NUL-terminated. Returns its length. */
size_t syn_number_text(double value, char out[SYN_NUMBER_TEXT]);

/* Converts a number in JSON's grammar, `bytes` bytes long, to the nearest double. Returns false if
   the text is not such a number. Numbers that are too large give an infinity. */
bool syn_number_parse(const char *text, size_t bytes, double *out);

#ifdef __cplusplus
}
#endif
#endif
