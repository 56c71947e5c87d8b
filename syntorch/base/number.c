/* Writes floating-point numbers as text and reads them (number.h). */
#include "syntorch/base/number.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Writing ---- */

/* Fast path without printf for values k / 1000, where k is an integer. Most numbers in traces are
   such values: times in us with three decimals. Different decimals of up to 15 digits are different
   doubles, so this is the shortest text. Returns 0 if the value does not have this form. */
static size_t thousandths_text(double value, char *out) {
    const double size = fabs(value);
    const double scaled = size * 1000.0 + 0.5;
    if (!(scaled < 1e15)) return 0;
    uint64_t k = (uint64_t)scaled;
    if (k == 0 || (double)k / 1000.0 != size) return 0;
    char buf[24];
    char *const end = buf + sizeof buf;
    char *first = end;
    for (int i = 0; i < 3; i++, k /= 10) {
        if (first == end && k % 10 == 0) continue; /* skip trailing zeros */
        *--first = (char)('0' + k % 10);
    }
    if (first != end) *--first = '.';
    do *--first = (char)('0' + k % 10);
    while ((k /= 10) != 0);
    if (value < 0) *--first = '-';
    const size_t bytes = (size_t)(end - first);
    memcpy(out, first, bytes);
    out[bytes] = '\0';
    return bytes;
}

/* Replaces the locale's decimal point, which may be several bytes, by '.'. */
static size_t plain_number(char *text) {
    size_t used = 0;
    for (const char *p = text; *p != '\0'; p++) {
        const bool plain = (*p >= '0' && *p <= '9') || *p == '-' || *p == '+' || *p == 'e';
        if (plain) text[used++] = *p;
        else if (used == 0 || text[used - 1] != '.') text[used++] = '.';
    }
    text[used] = '\0';
    return used;
}

/* Changes text to the next larger decimal with the same number of digits. Returns false if the last
   digit is 9. */
static bool step_up(char *text) {
    char *last = text + strcspn(text, "e") - 1;
    if (*last < '0' || *last >= '9') return false;
    ++*last;
    return true;
}

size_t syn_number_text(double value, char out[SYN_NUMBER_TEXT]) {
    const char *word = isnan(value)   ? "nan"
                       : isinf(value) ? (value < 0 ? "-inf" : "inf")
                       /* "-0" would be read as the integer 0 */
                       : value == 0.0 ? (signbit(value) ? "-0.0" : "0")
                                      : NULL;
    if (word != NULL) {
        memcpy(out, word, strlen(word) + 1);
        return strlen(word);
    }
    const size_t bytes = thousandths_text(value, out);
    if (bytes != 0) return bytes;
    /* A double can hold any decimal of 15 digits. Subnormals may need fewer. */
    for (int digits = fabs(value) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        snprintf(out, SYN_NUMBER_TEXT, "%.*g", digits, value);
        if (strtod(out, NULL) == value) break; /* both functions use the same locale */
        /* Doubles just above a power of two are twice as far apart as those just below it. At a
           power of two, the nearest decimal may therefore read back as another double although the
           next larger decimal reads back as this one. */
        if (digits == 16 && step_up(out) && strtod(out, NULL) == value) break;
    }
    return plain_number(out);
}

/* ---- Reading ---- */

typedef struct parts {
    const char *digits, *end; /* integer part and fraction, including the '.' */
    int64_t exponent;         /* power of ten after removing the '.' */
    bool negative;
} parts;

static bool is_digit(const char *p, const char *end) {
    return p < end && *p >= '0' && *p <= '9';
}

/* RFC 8259, section 6: [-] int [frac] [exp]. */
static bool split(const char *p, const char *end, parts *out) {
    out->negative = p < end && *p == '-';
    if (out->negative) p++;
    out->digits = p;
    if (!is_digit(p, end)) return false;
    if (*p == '0' && is_digit(p + 1, end)) return false;
    while (is_digit(p, end)) p++;
    out->exponent = 0;
    if (p < end && *p == '.') {
        const char *fraction = ++p;
        while (is_digit(p, end)) p++;
        if (p == fraction) return false;
        out->exponent = fraction - p;
    }
    out->end = p;
    if (p == end) return true;
    if (*p != 'e' && *p != 'E') return false;
    p++;
    const bool down = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) p++;
    if (!is_digit(p, end)) return false;
    int64_t exponent = 0;
    for (; is_digit(p, end); p++) {
        if (exponent < INT64_MAX / 100) exponent = exponent * 10 + (*p - '0');
    }
    out->exponent += down ? -exponent : exponent;
    return p == end;
}

/* Succeeds if the digits and the power of ten are exact doubles. Only one operation then rounds, so
   the result is the nearest double (Clinger, PLDI 1990). */
static bool convert_fast(const parts *n, double *out) {
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (FLT_EVAL_METHOD != 0 || n->end - n->digits > 19) return false;
    if (n->exponent < -22 || n->exponent > 22) return false;
    uint64_t mantissa = 0;
    for (const char *p = n->digits; p < n->end; p++) {
        if (*p != '.') mantissa = mantissa * 10 + (uint64_t)(*p - '0');
    }
    if (mantissa > (uint64_t)1 << 53) return false;
    const double m = (double)mantissa;
    *out = n->exponent < 0 ? m / powers[-n->exponent] : m * powers[n->exponent];
    return true;
}

/* strtod rounds a decimal by comparing it with the midpoint of two doubles. A midpoint has fewer
   than MAX_DIGITS digits. The digits of the decimal after the first MAX_DIGITS therefore matter
   only in whether any of them is not 0. */
#define MAX_DIGITS 780

/* Calls strtod with "<digits>e<exponent>", which does not depend on the locale because it has no
   decimal point. */
static double convert_slow(const parts *n) {
    char copy[MAX_DIGITS + 32];
    size_t used = 0;
    int64_t dropped = 0;
    bool sticky = false;
    for (const char *p = n->digits; p < n->end; p++) {
        if (*p == '.' || (used == 0 && *p == '0')) continue;
        if (used < MAX_DIGITS) {
            copy[used++] = *p;
        } else {
            dropped++;
            sticky = sticky || *p != '0';
        }
    }
    if (used == 0) return 0.0;
    if (sticky) {
        copy[used++] = '1';
        dropped--;
    }
    snprintf(copy + used, 32, "e%lld", (long long)(n->exponent + dropped));
    return strtod(copy, NULL);
}

bool syn_number_parse(const char *text, size_t bytes, double *out) {
    parts n;
    double size;
    if (!split(text, text + bytes, &n)) return false;
    if (!convert_fast(&n, &size)) size = convert_slow(&n);
    *out = n.negative ? -size : size;
    return true;
}
