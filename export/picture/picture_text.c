/* Implements the texts of pictures; see picture_text.h. */
#include "export/picture/picture_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"

void syn__pic_clear(syn__pic_text *t) {
    t->n = 0;
    t->s[0] = '\0';
}

void syn__pic_put(syn__pic_text *t, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const size_t space = sizeof t->s - t->n;
    const int n = vsnprintf(t->s + t->n, space, fmt, args);
    va_end(args);
    /* Nothing is appended if the text does not fit. */
    if (n < 0 || (size_t)n >= space) t->s[t->n] = '\0';
    else t->n += (size_t)n;
}

/* Reads the next character of *p, and advances *p. Characters that are not allowed in XML become
   '?'. */
static size_t next_char(const char **p, char out[4]) {
    const size_t left = strnlen(*p, 4), n = syn_utf8_xml_char_bytes(*p, left);
    const unsigned char c = (unsigned char)**p;
    if (n == 0 || c < 0x20 || c == 0x7f) {
        const size_t skipped = syn_utf8_char_bytes(*p, left);
        out[0] = '?';
        *p += skipped != 0 ? skipped : 1;
        return 1;
    }
    memcpy(out, *p, n);
    *p += n;
    return n;
}

/* Bytes that are reserved for the closing tags of a label, so that a truncated label stays
   valid. */
#define TAGS_BYTES 512

static void put_chars(syn__pic_text *t, const char *text, bool html) {
    const size_t keep = html ? TAGS_BYTES : 16;
    char c[5];
    while (*text != '\0') {
        const size_t n = next_char(&text, c);
        c[n] = '\0';
        if (sizeof t->s - t->n < keep) return;
        if (!html || n > 1) syn__pic_put(t, "%s", c);
        else if (c[0] == '&') syn__pic_put(t, "&amp;");
        else if (c[0] == '<') syn__pic_put(t, "&lt;");
        else if (c[0] == '>') syn__pic_put(t, "&gt;");
        else if (c[0] == '"') syn__pic_put(t, "&quot;");
        else syn__pic_put(t, "%s", c);
    }
}

void syn__pic_put_html(syn__pic_text *t, const char *text) {
    put_chars(t, text[0] != '\0' ? text : "\xC2\xA0", true);
}
void syn__pic_put_clean(syn__pic_text *t, const char *text) {
    put_chars(t, text, false);
}

bool syn__pic_is_blank(const char *name) {
    return name[strspn(name, " ")] == '\0';
}

/* Advance widths of DejaVu Sans in hundredths of the font size, for characters 32..126. */
static const uint8_t widths[95] = {
    32, 40, 46, 84, 64, 95, 78, 28, 39,  39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 34, 34, 84, 84, 84, 53, 100, 71, 68, 70, 77, 63, 58, 77, 75, 29, 29, 65, 56, 86, 75, 79,
    60, 79, 70, 64, 59, 74, 68, 99, 68,  61, 68, 39, 34, 39, 84, 50, 50, 62, 64, 55, 64, 62, 35, 64,
    64, 28, 28, 58, 28, 98, 64, 62, 64,  64, 39, 52, 39, 64, 59, 82, 59, 59, 53, 64, 34, 64, 84};

double syn__pic_width(const char *text, double size, bool bold) {
    double sum = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0'; p++) {
        if (*p >= 32 && *p < 127) sum += widths[*p - 32] + (bold ? 7 : 0);
        else if (*p >= 0xC0) sum += *p == 0xC2 ? 45 : 84; /* first byte of a multi-byte character */
    }
    return sum * size / 100.0;
}

static size_t char_bytes(const char *p) {
    const size_t k = syn_utf8_char_bytes(p, strnlen(p, 4));
    return k != 0 ? k : 1;
}

char *syn__pic_shorten(const char *text, size_t max, char *out, size_t out_bytes) {
    size_t n = 0, cut = 0, used = 0;
    for (const char *p = text; *p != '\0'; n++) {
        const size_t k = char_bytes(p);
        if (used + k + 4 > out_bytes || n == max) {
            memcpy(out + cut, "\xE2\x80\xA6", 4);
            return out;
        }
        memcpy(out + used, p, k);
        p += k;
        if (n + 1 < max) cut = used + k; /* leave space for the ellipsis */
        used += k;
    }
    out[used] = '\0';
    return out;
}

char *syn__pic_shorten_front(const char *text, size_t max, char *out, size_t out_bytes) {
    size_t chars = 0, bytes = strlen(text);
    for (const char *p = text; *p != '\0'; p += char_bytes(p)) chars++;
    const bool cut = chars > max || bytes >= out_bytes;
    while (cut && (chars >= max || bytes + 4 > out_bytes)) {
        const size_t k = char_bytes(text);
        text += k, bytes -= k, chars--;
    }
    snprintf(out, out_bytes, "%s%s", cut ? "\xE2\x80\xA6" : "", text);
    return out;
}

/* Formats a number with three significant digits and a unit: 12.5, 126 or 1.02. */
static const char *scaled(double v, const char *unit, char *buf) {
    int digits = v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2;
    int n = snprintf(buf, SYN__PIC_NUMBER, "%.*f", digits, v);
    while (digits > 0 && n > 1 && buf[n - 1] == '0') buf[--n] = '\0', digits--;
    if (n > 1 && buf[n - 1] == '.') buf[--n] = '\0';
    snprintf(buf + n, SYN__PIC_NUMBER - (size_t)n, " %s", unit);
    return buf;
}

const char *syn__pic_bytes(uint64_t bytes, char *buf) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes;
    size_t u = 0;
    while (v >= 1023.5 && u + 1 < sizeof units / sizeof *units) v /= 1024, u++;
    return scaled(v, units[u], buf);
}

const char *syn__pic_flops(uint64_t flops, char *buf) {
    static const char *const units[] = {"FLOP",  "kFLOP", "MFLOP", "GFLOP",
                                        "TFLOP", "PFLOP", "EFLOP"};
    double v = (double)flops;
    size_t u = 0;
    while (v >= 999.5 && u + 1 < sizeof units / sizeof *units) v /= 1000, u++;
    return scaled(v, units[u], buf);
}

const char *syn__pic_count(uint64_t count, char *buf) {
    char digits[24];
    const int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    size_t k = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) buf[k++] = ',';
        buf[k++] = digits[i];
    }
    buf[k] = '\0';
    return buf;
}

const char *syn__pic_time(double ns, char *buf) {
    if (!(ns >= 0) || isinf(ns)) return strcpy(buf, "?");
    if (ns < 999.5) return scaled(ns, "ns", buf);
    if (ns < 999.5e3) return scaled(ns / 1e3, "\xC2\xB5s", buf);
    if (ns < 999.5e6) return scaled(ns / 1e6, "ms", buf);
    return scaled(ns / 1e9, "s", buf);
}
