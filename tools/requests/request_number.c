/* Numbers and dates in files of requests (request_row.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/number.h"
#include "tools/requests/request_row.h"

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10,
                                1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21};

/* Most numbers have few digits and no exponent. They need one multiplication or division by a power
   of ten, both of which doubles hold exactly. */
static bool short_decimal(syn__str text, int power, double *out) {
    const char *p = text.text, *end = p + text.bytes;
    uint64_t digits = 0;
    int n = 0;
    bool dot = false;
    if (p == end || *p == '.' || end[-1] == '.' || text.bytes > 19) return false;
    for (; p < end; p++) {
        if (*p == '.' && !dot) {
            dot = true;
            continue;
        }
        if (*p < '0' || *p > '9') return false;
        digits = digits * 10 + (uint64_t)(*p - '0');
        n += dot;
    }
    power -= n;
    if (digits >> 53 != 0 || power > 21 || power < -21) return false;
    *out = power >= 0 ? (double)digits * powers[power] : (double)digits / powers[-power];
    return true;
}

bool request_decimal(syn__str text, int power, double *out) {
    if (short_decimal(text, power, out)) return true;
    char number[REQUEST_NAME + 4];
    /* A sign or zeros that JSON does not allow in numbers. */
    while (text.bytes > 0 && *text.text == '+') text.text++, text.bytes--;
    while (text.bytes > 1 && text.text[0] == '0' && text.text[1] >= '0' && text.text[1] <= '9')
        text.text++, text.bytes--;
    if (text.bytes == 0 || text.bytes >= REQUEST_NAME) return false;
    if (text.text[text.bytes - 1] == '.') text.bytes--;
    if (memchr(text.text, 'e', text.bytes) || memchr(text.text, 'E', text.bytes)) {
        if (!syn_number_parse(text.text, text.bytes, out)) return false;
        *out *= powers[power];
    } else { /* one rounding: the nearest double to the product */
        const int n = snprintf(number, sizeof number, "%.*se%d", (int)text.bytes, text.text, power);
        if (!syn_number_parse(number, (size_t)n, out)) return false;
    }
    return isfinite(*out) != 0;
}

/* Reads n digits at *p. */
static bool digits(const char **p, const char *end, int n, int64_t *out) {
    *out = 0;
    for (; n > 0; n--, ++*p) {
        if (*p == end || **p < '0' || **p > '9') return false;
        *out = *out * 10 + (**p - '0');
    }
    return true;
}

static bool take(const char **p, const char *end, const char *any) {
    if (*p == end || strchr(any, **p) == NULL) return false;
    ++*p;
    return true;
}

/* Days since 1970-01-01 in the Gregorian calendar, for years from 1970. */
static int64_t days_of(int64_t year, int64_t month, int64_t day) {
    static const int16_t before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    const int64_t past = month > 2 ? year : year - 1; /* leap days before the date */
    return (year - 1970) * 365 + (past / 4 - 492) - (past / 100 - 19) + (past / 400 - 4) +
           before[month - 1] + day - 1;
}

static int64_t days_in_month(int64_t year, int64_t month) {
    return month == 12 ? 31 : days_of(year, month + 1, 1) - days_of(year, month, 1);
}

/* Reads a time zone such as Z, +00:00 or -0800. An empty text is UTC. */
static bool time_zone(const char *p, const char *end, int64_t *minutes) {
    int64_t hour = 0, minute = 0;
    *minutes = 0;
    if (p == end || (end - p == 1 && *p == 'Z')) return true;
    const bool west = *p == '-';
    if (!take(&p, end, "+-") || !digits(&p, end, 2, &hour)) return false;
    if (p < end) (void)take(&p, end, ":");
    if (p < end && !digits(&p, end, 2, &minute)) return false;
    *minutes = (hour * 60 + minute) * (west ? -1 : 1);
    return p == end && hour < 24 && minute < 60;
}

bool request_date(syn__str text, int64_t *day, double *ns) {
    const char *p = text.text, *end = p + text.bytes;
    int64_t year, month, of_month, hour, minute, second = 0, minutes, fraction = 0;
    if (!digits(&p, end, 4, &year) || !take(&p, end, "-") || !digits(&p, end, 2, &month) ||
        !take(&p, end, "-") || !digits(&p, end, 2, &of_month) || !take(&p, end, " T") ||
        !digits(&p, end, 2, &hour) || !take(&p, end, ":") || !digits(&p, end, 2, &minute))
        return false;
    const bool seconds_given = take(&p, end, ":"); /* Excel may omit them */
    if (seconds_given && !digits(&p, end, 2, &second)) return false;
    if (year < 1970 || month < 1 || month > 12 || of_month < 1 ||
        of_month > days_in_month(year, month) || hour > 23 || minute > 59 || second > 60)
        return false;
    if (seconds_given && take(&p, end, ".")) {
        int64_t unit = 100000000;
        if (p == end || *p < '0' || *p > '9') return false;
        for (; p < end && *p >= '0' && *p <= '9'; p++, unit /= 10) fraction += (*p - '0') * unit;
    }
    if (!time_zone(p, end, &minutes)) return false;
    *day = days_of(year, month, of_month);
    const int64_t seconds = (hour * 60 + minute - minutes) * 60 + second;
    *ns = (double)(seconds * 1000000000 + fraction);
    return true;
}
