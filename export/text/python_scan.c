/* Scans JSON text for python_json.c; see python_scan.h. */
#include "export/text/python_scan.h"

#include <math.h>
#include <stdio.h>

#include "export/text/loose_json.h"
#include "syntorch/base/utf8.h"

#define QUOTE_REACH 4096 /* see loose_json.c */
#define EXACT       15   /* decimal digits that every double can represent (DBL_DIG) */

bool syn__pen_grow(syn__pen *pen, size_t bytes) {
    syn__pen_close(pen);
    char *p = syn__buf_reserve(pen->buf, bytes + SYN__PEN_SLACK);
    if (p == NULL) return false;
    pen->p = p;
    pen->limit = pen->buf->data + pen->buf->cap;
    return true;
}

/* ---- Strings ---- */

/* Returns the first unescaped quote at or after p. */
static const char *next_quote(const char *p, const char *end) {
    while (p < end && *p != '"') p += *p == '\\' && end - p > 1 ? 2 : 1;
    return p < end ? p : end;
}

/* Whether the text after a quote, at `behind`, shows that the quote ends a string. The rules are
   those of loose_json.c; one of them is for two adjacent quotes at the end of a value. */
static bool may_follow(const char *behind, const char *end) {
    const char *p = behind;
    while (p < end && (unsigned char)*p <= ' ') p++;
    if (p < end && p == behind && *p == '"')
        return p + 1 < end && (p[1] == '\0' || strchr(",]}", p[1]) == NULL);
    return p == end || strchr(",]}:\"[{", *p) != NULL;
}

const char *syn__python_string_end(const char *p, const char *end) {
    const char *const first = next_quote(p, end), *quote = first;
    if (first == end || syn__python_usual_end(first, end)) return first;
    while (quote < end && quote - first < QUOTE_REACH) {
        if (may_follow(quote + 1, end)) return quote;
        quote = next_quote(quote + 1, end);
    }
    return first;
}

static uint32_t utf8_character(const char **p, const char *end) {
    const size_t n = syn_utf8_char_bytes(*p, (size_t)(end - *p));
    const unsigned char *c = (const unsigned char *)*p;
    *p += n ? n : 1;
    switch (n) {
    case 0:
        return 0xFFFD;
    case 1:
        return c[0];
    case 2:
        return (c[0] & 0x1Fu) << 6 | (c[1] & 0x3Fu);
    case 3:
        return (c[0] & 0x0Fu) << 12 | (c[1] & 0x3Fu) << 6 | (c[2] & 0x3Fu);
    default:
        return (c[0] & 0x07u) << 18 | (c[1] & 0x3Fu) << 12 | (c[2] & 0x3Fu) << 6 | (c[3] & 0x3Fu);
    }
}

uint32_t syn__python_decode(const char **p, const char *end) {
    static const char from[] = "\"\\/'bfnrt", to[] = "\"\\/'\b\f\n\r\t";
    if (**p != '\\' || end - *p < 2) return utf8_character(p, end);
    const char c = (*p)[1];
    const char *known = c ? strchr(from, c) : NULL, *const digits = *p + 2;
    *p = digits;
    if (known != NULL) return (uint32_t)to[known - from];
    if (c == 'u') {
        const uint32_t code = syn__loose_unicode(p, end);
        if (*p != digits) return code;
    }
    *p = digits - 1;
    return '\\'; /* the backslash escapes nothing; see loose_text.c */
}

/* ---- Numbers and words ---- */

/* Whether the text of a number is certainly repr() of its value, so that it need not be parsed. No
   two decimals of up to 15 digits have the same double, so no shorter decimal has the value. The
   same is true for multiples of 0.001 below 2^43, where doubles are less than 0.001 apart. */
static bool is_repr(const char *p, const char *end) {
    if (p < end && *p == '-') p++;
    const char *const whole = p;
    while (p < end && syn__python_is_digit(*p)) p++;
    const ptrdiff_t n_whole = p - whole;
    if (n_whole == 0 || (*whole == '0' && n_whole > 1) || p == end || *p++ != '.') return false;
    const char *const fraction = p;
    while (p < end && syn__python_is_digit(*p)) p++;
    const ptrdiff_t n_fraction = p - fraction;
    if (p != end || n_fraction == 0 || (p[-1] == '0' && n_fraction > 1)) return false;
    if (*whole == '0' && n_fraction > 3 && memcmp(fraction, "000", 3) == 0) return false;
    if (n_whole + n_fraction <= EXACT) return true;
    return n_fraction <= 3 && n_whole <= 13 && (n_whole < 13 || memcmp(whole, "8796", 4) < 0);
}

static bool is_integer(const char *p, const char *end) {
    if (p < end && *p == '-') p++;
    const char *const digits = p;
    while (p < end && syn__python_is_digit(*p)) p++;
    return p == end && p > digits && (*digits != '0' || p == digits + 1);
}

/* Returns the word as str() or json.dump writes it. Unknown words become None or null. */
static syn__str word_text(syn__str word, bool json) {
    static const char *const words[][3] = {
        {"true", "True", "true"},        {"false", "False", "false"},
        {"NaN", "nan", "NaN"},           {"nan", "nan", "NaN"},
        {"Infinity", "inf", "Infinity"}, {"inf", "inf", "Infinity"},
        {"-inf", "-inf", "-Infinity"},   {"-Infinity", "-inf", "-Infinity"},
        {"True", "True", "true"},        {"False", "False", "false"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (syn__str_is(word, words[i][0])) return syn__str_of(words[i][json ? 2 : 1]);
    return syn__str_of(json ? "null" : "None");
}

/* Whether the value may continue after the name or number that ended at p. */
static bool may_continue(const char *p, const char *end, bool at_member) {
    if (at_member && end - p > 1 && *p == ',') return syn__loose_in_word(p[1]);
    while (p < end && (unsigned char)*p <= ' ') p++;
    if (p < end && syn__loose_in_word(*p)) return at_member;
    return p < end && strchr(at_member ? ",]}:" : ",]}:\"[", *p) == NULL;
}

const char *syn__python_word(const char *p, const char *end, bool at_member, bool json, char *space,
                             syn__str *text) {
    const char *q = p;
    while (q < end && syn__loose_in_word(*q)) q++;
    text->text = p;
    text->bytes = (size_t)(q - p);
    double value = 0;
    bool integer = false;
    if (q == p || may_continue(q, end, at_member)) {
        q = syn__loose_word_end(p, end, at_member);
        if (q != p + text->bytes) text->bytes = 0;
    }
    const char first = q - p > 1 && (*p == '-' || *p == '+') ? p[1] : *p;
    if (text->bytes == 0 || (!syn__python_is_digit(first) && first != '.')) {
        *text = word_text(*text, json);
    } else if (syn__str_is(*text, "-0")) {
        *text = syn__str_of("0");
    } else if (!is_repr(p, q) && !is_integer(p, q)) {
        if (syn__loose_double(*text, &value, &integer) && !integer) {
            text->bytes = syn__python_float(value, space);
            text->text = space;
            if (!isfinite(value)) *text = word_text(*text, json);
        } else if (json) {
            *text = word_text((syn__str){"", 0}, json); /* not a number for Python: 1.2.3, 0x1F, +5,
                                                           07 */
        }
    }
    return q;
}

/* ---- Floats ---- */

/* Formats k / 1000 for k below 2^53 without printf; see is_repr. */
static size_t thousandths(double value, char *out) {
    const double size = fabs(value);
    if (!(size < 8796093022208.0) || size == 0) return 0; /* 2^43 */
    uint64_t k = (uint64_t)(size * 1000.0 + 0.5);
    if (k == 0 || (double)k / 1000.0 != size) return 0;
    char text[24], *const last = text + sizeof text, *p = last;
    for (int i = 0; i < 3; i++, k /= 10)
        if (p != last || k % 10 != 0) *--p = (char)('0' + k % 10);
    if (p == last) *--p = '0';
    *--p = '.';
    do *--p = (char)('0' + k % 10);
    while ((k /= 10) != 0);
    if (value < 0) *--p = '-';
    memcpy(out, p, (size_t)(last - p));
    return (size_t)(last - p);
}

/* The digits of a decimal number without leading and trailing zeros, and the power of ten of the
   first digit. */
typedef struct decimal {
    char digits[SYN_NUMBER_TEXT];
    int n, exponent;
} decimal;

static decimal take_decimal(const char *p) {
    decimal d = {.n = 0, .exponent = -1};
    bool point = false;
    for (; *p != '\0' && *p != 'e'; p++) {
        if (*p == '.') point = true;
        if (!syn__python_is_digit(*p)) continue;
        if (!point && (d.n > 0 || *p != '0')) d.exponent++;
        if (point && d.n == 0 && *p == '0') d.exponent--;
        if (d.n > 0 || *p != '0') d.digits[d.n++] = *p;
    }
    if (*p == 'e') {
        const bool negative = *++p == '-';
        int e = 0;
        for (p++; syn__python_is_digit(*p); p++) e = e * 10 + (*p - '0');
        d.exponent += negative ? -e : e;
    }
    while (d.n > 1 && d.digits[d.n - 1] == '0') d.n--;
    return d;
}

/* Replaces d by the next larger decimal with one digit less, if that denotes the same double. This
   is needed because doubles are closer together just below a power of two than above it, so the
   shortest decimal of a double may not be the nearest one. */
static bool shorten(decimal *d, double value) {
    decimal up = *d;
    char text[SYN_NUMBER_TEXT];
    double back = 0;
    if (d->n < 2) return false;
    up.n--;
    int last = up.n - 1;
    while (last > 0 && up.digits[last] == '9') up.digits[last--] = '0';
    if (up.digits[last]++ == '9') return false;
    const int bytes =
        snprintf(text, sizeof text, "%.*se%d", up.n, up.digits, up.exponent - (up.n - 1));
    if (!syn_number_parse(text, (size_t)bytes, &back) || back != value) return false;
    *d = up;
    return true;
}

/* Writes the decimal. Python writes exponents of at least 16 or at most -5. */
static char *put_decimal(const decimal *d, char *out) {
    const bool scientific = d->exponent < -4 || d->exponent >= 16;
    int point = scientific ? 1 : d->exponent + 1; /* number of digits before the point */
    if (point <= 0) {
        *out++ = '0';
        *out++ = '.';
        for (; point < 0; point++) *out++ = '0';
        memcpy(out, d->digits, (size_t)d->n);
        return out + d->n;
    }
    for (int i = 0; i < point; i++) *out++ = i < d->n ? d->digits[i] : '0';
    if (!scientific || d->n > 1) *out++ = '.';
    for (int i = point; i < d->n; i++) *out++ = d->digits[i];
    if (!scientific) {
        if (d->n <= point) *out++ = '0';
        return out;
    }
    const unsigned e = (unsigned)(d->exponent < 0 ? -d->exponent : d->exponent);
    *out++ = 'e';
    *out++ = d->exponent < 0 ? '-' : '+';
    if (e >= 100) *out++ = (char)('0' + e / 100);
    *out++ = (char)('0' + e / 10 % 10);
    *out++ = (char)('0' + e % 10);
    return out;
}

size_t syn__python_float(double value, char out[SYN_NUMBER_TEXT]) {
    size_t n = thousandths(value, out);
    if (n == 0 && (value == 0 || !isfinite(value))) {
        static const char *const words[] = {"0.0", "-0.0", "inf", "-inf", "nan"};
        const int sign = signbit(value) ? 1 : 0;
        const char *word = words[isnan(value) ? 4 : isinf(value) ? 2 + sign : sign];
        n = strlen(word);
        memcpy(out, word, n);
    } else if (n == 0) {
        char text[SYN_NUMBER_TEXT], *p = out;
        int exponent = 0;
        syn_number_text(fabs(value), text);
        decimal d = take_decimal(text);
        while (frexp(fabs(value), &exponent) == 0.5 && shorten(&d, fabs(value))) continue;
        if (value < 0) *p++ = '-';
        n = (size_t)(put_decimal(&d, p) - out);
    }
    out[n] = '\0';
    return n;
}
