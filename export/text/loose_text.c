/* Decodes the slices that the lenient parser returns, which are strings and numbers, and finds the
   ends of words. */
#include <math.h>

#include "export/text/loose_json.h"
#include "syntorch/base/number.h"
#include "syntorch/base/utf8.h"

__extension__ typedef unsigned __int128 u128;

/* ---- Strings ---- */

#define NO_CHARACTER 0xFFFDu

int32_t syn__loose_hex4(const char *p, const char *end) {
    int32_t v = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const char c = p[i];
        const int lower = c | 0x20;
        if (c >= '0' && c <= '9') v = v * 16 + (c - '0');
        else if (lower >= 'a' && lower <= 'f') v = v * 16 + (lower - 'a' + 10);
        else return -1;
    }
    return v;
}

uint32_t syn__loose_unicode(const char **p, const char *end) {
    const int32_t high = syn__loose_hex4(*p, end);
    if (high < 0) return NO_CHARACTER;
    *p += 4;
    if (high >= 0xD800 && high < 0xDC00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
        const int32_t low = syn__loose_hex4(*p + 2, end);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            *p += 6;
            return 0x10000u + ((uint32_t)(high - 0xD800) << 10) + (uint32_t)(low - 0xDC00);
        }
    }
    return (uint32_t)high;
}

/* Writes a backslash and the character after it, which JSON does not escape: the program that wrote
   the string did not escape backslashes ("C:\dir"). */
static size_t put_plain(char c, char *out) {
    out[0] = '\\';
    out[1] = c;
    return 2;
}

/* Decodes the escape after a backslash at *p. The output needs no more space than the escape,
   because an escape is at least as long as the character that it encodes. */
static size_t put_escape(const char **p, const char *end, char *out) {
    static const char from[] = "\"\\/'bfnrt", to[] = "\"\\/'\b\f\n\r\t";
    const char c = *(*p)++;
    const char *known = c ? strchr(from, c) : NULL;
    if (known) return *out = to[known - from], 1;
    if (c != 'u') return put_plain(c, out);
    const char *const digits = *p;
    const uint32_t code = syn__loose_unicode(p, end);
    if (*p == digits) return put_plain(c, out);
    return syn_utf8_encode(code >= 0xD800 && code <= 0xDFFF ? NO_CHARACTER : code, out);
}

size_t syn__loose_decode(syn__str text, char *out) {
    const char *p = text.text, *end = p + text.bytes;
    char *const begin = out;
    while (p < end) {
        if (*p == '\\' && p + 1 < end) {
            p++;
            out += put_escape(&p, end, out);
            continue;
        }
        const size_t n = syn_utf8_char_bytes(p, (size_t)(end - p));
        if (n == 0) *out++ = '?'; /* not U+FFFD, whose three bytes may not fit */
        for (size_t i = 0; i < n; i++) *out++ = p[i];
        p += n ? n : 1;
    }
    return (size_t)(out - begin);
}

/* ---- Numbers ---- */

bool syn__loose_u64(syn__str text, uint64_t *out) {
    const bool negative = text.bytes > 0 && text.text[0] == '-';
    const char *p = text.text + negative, *end = text.text + text.bytes;
    uint64_t v = 0;
    if (p == end || end - p > 20) return false;
    for (; p < end; p++) {
        const unsigned digit = (unsigned)(*p - '0');
        if (digit > 9 || v > (UINT64_MAX - digit) / 10) return false;
        v = v * 10 + digit;
    }
    if (negative && v > (uint64_t)1 << 63) return false;
    *out = negative ? 0 - v : v;
    return true;
}

bool syn__loose_i64(syn__str text, int64_t *out) {
    uint64_t v = 0;
    const bool negative = text.bytes > 0 && text.text[0] == '-';
    if (!syn__loose_u64(text, &v) || (!negative && v > INT64_MAX)) return false;
    *out = (int64_t)v;
    return true;
}

/* A number without an exponent: its digits, which fit 64 bits, and the number of digits after the
   point. */
typedef struct decimal {
    uint64_t digits;
    unsigned places;
    bool negative, point, fits;
} decimal;

static decimal read_decimal(syn__str text) {
    const char *p = text.text, *end = p + text.bytes;
    decimal d = {0, 0, p < end && *p == '-', false, false};
    unsigned n = 0;
    for (p += d.negative; p < end; p++) {
        const unsigned digit = (unsigned)(*p - '0');
        if (*p == '.' && !d.point && n > 0) {
            d.point = true;
            continue;
        }
        if (digit > 9 || (n > 0 && d.digits != 0 && n >= 19)) return d;
        d.digits = d.digits * 10 + digit;
        n += d.digits != 0 || n == 0;
        d.places += d.point;
    }
    d.fits = n > 0 && n <= 19;
    return d;
}

static const uint64_t powers[] = {1ull,
                                  10ull,
                                  100ull,
                                  1000ull,
                                  10000ull,
                                  100000ull,
                                  1000000ull,
                                  10000000ull,
                                  100000000ull,
                                  1000000000ull,
                                  10000000000ull,
                                  100000000000ull,
                                  1000000000000ull,
                                  10000000000000ull,
                                  100000000000000ull,
                                  1000000000000000ull,
                                  10000000000000000ull,
                                  100000000000000000ull,
                                  1000000000000000000ull};

/* Returns digits / 10^places, rounded once. Up to 2^53 and 10^22, dividend and divisor are exact
   doubles, so their quotient is rounded correctly. Larger dividends are divided as integers: the
   quotient has at least 57 bits, and its lowest bit is set if there is a remainder, so that
   rounding to 53 bits is correct. */
static double divide(uint64_t digits, unsigned places) {
    if (digits <= (uint64_t)1 << 53) return (double)digits / (double)powers[places];
    if (places == 0) return (double)digits;
    const u128 n = (u128)digits << 64;
    u128 q = n / powers[places];
    bool sticky = n % powers[places] != 0;
    const uint64_t high = (uint64_t)(q >> 64);
    const int shift = high == 0 ? 0 : 64 - __builtin_clzll(high);
    sticky |= (q & (((u128)1 << shift) - 1)) != 0;
    q >>= shift;
    return ldexp((double)((uint64_t)q | sticky), shift - 64);
}

static bool parse_double(syn__str text, double *out, bool *integer) {
    if (!syn_number_parse(text.text, text.bytes, out)) return false;
    *integer = true;
    for (size_t i = 0; i < text.bytes; i++)
        if (strchr(".eE", text.text[i]) != NULL) *integer = false;
    return true;
}

static double value_of(decimal d) {
    const double v = divide(d.digits, d.places);
    return d.negative ? -v : v;
}

bool syn__loose_double(syn__str text, double *out, bool *integer) {
    const decimal d = read_decimal(text);
    if (!d.fits || d.places > 18) return parse_double(text, out, integer);
    *out = value_of(d);
    *integer = !d.point;
    return true;
}

/* Converts a decimal of microseconds to nanoseconds. Returns false if these do not fit int64. */
static bool nanos_of(decimal d, int64_t *ns) {
    uint64_t v = d.digits;
    if (d.places > 3) v /= powers[d.places - 3];
    else if (v > INT64_MAX / powers[3 - d.places]) return false;
    else v *= powers[3 - d.places];
    if (v > INT64_MAX) return false;
    *ns = d.negative ? -(int64_t)v : (int64_t)v;
    return true;
}

bool syn__loose_micros(syn__str text, double *us, int64_t *ns, bool *integer) {
    const decimal d = read_decimal(text);
    if (d.fits && d.places <= 18) {
        *us = value_of(d);
        *integer = !d.point;
        return nanos_of(d, ns);
    }
    if (!parse_double(text, us, integer) || !(fabs(*us) < 9e15)) return false;
    /* The number has too many digits: ignore those beyond nanoseconds, unless it has an
       exponent. */
    const char *point = memchr(text.text, '.', text.bytes);
    const size_t whole = point ? (size_t)(point - text.text) + 4 : text.bytes;
    if (whole < text.bytes && !memchr(point, 'e', text.bytes - whole + 4) &&
        !memchr(point, 'E', text.bytes - whole + 4)) {
        const decimal cut = read_decimal((syn__str){text.text, whole});
        if (cut.fits) return nanos_of(cut, ns);
    }
    *ns = (int64_t)(*us * 1000);
    return true;
}

/* ---- Words ---- */

/* How many bytes after a bracket or quote within a word to search for the closing one. */
#define WORD_REACH 256
#define WORD_DEPTH 16

static char closing_of(char c) {
    switch (c) {
    case '(':
        return ')';
    case '[':
        return ']';
    case '<':
        return '>';
    case '\'':
        return '\'';
    default:
        return '\0';
    }
}

/* Returns the end of the bracket or quote that opens at p; NULL if nothing closes it within
   reach. */
static const char *past_closing(const char *p, const char *end) {
    char open[WORD_DEPTH];
    size_t depth = 0;
    if (end - p > WORD_REACH) end = p + WORD_REACH;
    for (; p < end && !syn__loose_ends_word(*p); p++) {
        if (depth > 0 && *p == open[depth - 1]) {
            if (--depth == 0) return p + 1;
        } else if (depth == 0 || open[depth - 1] != '\'') {
            const char closing = closing_of(*p);
            if (closing == '\0') continue;
            if (depth == WORD_DEPTH) return NULL;
            open[depth++] = closing;
        }
    }
    return NULL;
}

static const char *past_blanks(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    return p;
}

/* Returns the end of the string that begins at p; NULL if it is a key, or if other values may begin
   before it ends. */
static const char *past_quoted(const char *p, const char *end) {
    if (end - p > WORD_REACH) end = p + WORD_REACH;
    for (p++; p < end && *p != '"'; p++)
        if ((unsigned char)*p < ' ' || strchr(",:{}", *p) != NULL) return NULL;
    if (p == end) return NULL;
    const char *behind = past_blanks(p + 1, end);
    return behind < end && *behind == ':' ? NULL : p + 1;
}

/* Returns the end of the braces that open at p, as in dim3{1, 1}. NULL if nothing closes them
   within reach, or if they contain a key: then they are an object. */
static const char *past_braces(const char *p, const char *end) {
    size_t depth = 0;
    if (end - p > WORD_REACH) end = p + WORD_REACH;
    while (p != NULL && p < end && (unsigned char)*p >= ' ') {
        if (*p == '{') depth++;
        if (*p == '}' && --depth == 0) return p + 1;
        p = *p == '"' ? past_quoted(p, end) : p + 1;
    }
    return NULL;
}

/* Returns the end of the brackets, braces or quotes that open at p. NULL if none open there or
   nothing closes them. */
static const char *past_opened(const char *p, const char *end, bool at_member) {
    if (*p == '{') return past_braces(p, end);
    if (*p == '"') return at_member ? past_quoted(p, end) : NULL;
    return *p == '[' || closing_of(*p) != '\0' ? past_closing(p, end) : NULL;
}

const char *syn__loose_word_end(const char *p, const char *end, bool at_member) {
    const char *const begin = p, *last = p; /* last: the end of the last character that is not a
                                               space */
    while (p < end && *p != ']') {
        const char *behind = past_opened(p, end, at_member);
        if (behind == NULL && syn__loose_ends_word(*p)) break;
        if (*p == ',' && !(at_member && p + 1 < end && syn__loose_in_word(p[1]))) break;
        if (*p == '[' && (behind == NULL || p == begin || p != last)) break;
        if (*p == ' ' || *p == '\t') p++;
        else last = p = behind != NULL ? behind : p + 1;
    }
    return last;
}
