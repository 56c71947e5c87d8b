/* Floating-point numbers as text, whatever the locale's decimal point is. */
#ifndef SYNTORCH_NUMBER_H
#define SYNTORCH_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SYN_NUMBER_TEXT 64 /* bytes that always suffice */

/* Shortest decimal that reads back as the same double ("0.1", "1e-05", "3", "-0.0"; "nan", "inf",
   "-inf"), NUL-terminated; returns its length. */
size_t syn_number_text(double value, char out[SYN_NUMBER_TEXT]);

/* Reads a number of JSON's grammar, `bytes` long, to the nearest double. False if it is no such
   number. Beyond the range of double it gives an infinity. */
bool syn_number_parse(const char *text, size_t bytes, double *out);

#ifdef __cplusplus
}
#endif
#endif
