/* Writes text, numbers and escapes: the functions of sink.h that are based on syn_sink_write. */
#include <math.h>
#include <string.h>

#include "syntorch/base/number.h"
#include "syntorch/base/sink.h"
#include "syntorch/base/utf8.h"

#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

void syn_sink_text(syn_sink *sink, const char *text) {
    syn_sink_write(sink, text, strlen(text));
}

void syn_sink_char(syn_sink *sink, char c) {
    syn_sink_write(sink, &c, 1);
}

void syn_sink_u64(syn_sink *sink, uint64_t value) {
    char buf[SYN_DECIMAL_TEXT];
    const char *first = syn_decimal(value, buf + sizeof buf);
    syn_sink_write(sink, first, (size_t)(buf + sizeof buf - first));
}

void syn_sink_i64(syn_sink *sink, int64_t value) {
    char buf[SYN_DECIMAL_TEXT + 1];
    char *first = syn_decimal(value < 0 ? 0 - (uint64_t)value : (uint64_t)value, buf + sizeof buf);
    if (value < 0) *--first = '-';
    syn_sink_write(sink, first, (size_t)(buf + sizeof buf - first));
}

void syn_sink_double(syn_sink *sink, double value) {
    char text[SYN_NUMBER_TEXT];
    if (isfinite(value)) syn_sink_write(sink, text, syn_number_text(value, text));
    else syn_sink_text(sink, "null");
}

/* The length of the longest prefix that needs no escape in a JSON string. */
static size_t json_plain(const char *text, size_t bytes) {
    size_t i = 0;
    while (i < bytes) {
        const unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == '"' || c == '\\') break;
        const size_t n = c < 0x80 ? 1 : syn_utf8_char_bytes(text + i, bytes - i);
        if (n == 0) break;
        i += n;
    }
    return i;
}

static void json_escape(syn_sink *sink, unsigned char c) {
    static const char hex[] = "0123456789abcdef";
    static const char letters[] = "btn?fr"; /* the letters of the escapes for 0x08 .. 0x0D; 0x0B has
                                               none */
    if (c >= 0x80) {
        syn_sink_text(sink, REPLACEMENT);
    } else if (c >= 0x20 || (c >= 0x08 && c <= 0x0D && c != 0x0B)) {
        const char pair[2] = {'\\', c >= 0x20 ? (char)c : letters[c - 0x08]};
        syn_sink_write(sink, pair, 2);
    } else {
        const char code[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        syn_sink_write(sink, code, 6);
    }
}

void syn_sink_json_string(syn_sink *sink, const char *text) {
    syn_sink_json_text(sink, text, strlen(text));
}

void syn_sink_json_text(syn_sink *sink, const char *text, size_t bytes) {
    syn_sink_char(sink, '"');
    for (;;) {
        const size_t plain = json_plain(text, bytes);
        syn_sink_write(sink, text, plain);
        if (plain == bytes) break;
        text += plain;
        bytes -= plain;
        const size_t n = (unsigned char)*text < 0x80 ? 1 : syn_utf8_broken_bytes(text, bytes);
        json_escape(sink, (unsigned char)*text);
        text += n;
        bytes -= n;
    }
    syn_sink_char(sink, '"');
}

/* The XML 1.0 escape of the character at `text`; NULL if it needs none. bytes: the length of the
   character, or 0 if XML does not allow it. Tabs and line ends become references, because XML
   parsers replace them by spaces in attribute values. */
static const char *xml_escape(const char *text, size_t bytes) {
    const unsigned char c = (unsigned char)*text;
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    case '\t':
        return "&#9;";
    case '\n':
        return "&#10;";
    case '\r':
        return "&#13;";
    default:
        break;
    }
    return bytes == 0 ? REPLACEMENT : NULL;
}

void syn_sink_xml_text(syn_sink *sink, const char *text) {
    const char *const end = text + strlen(text);
    const char *plain = text;
    while (text < end) {
        const size_t n = syn_utf8_xml_char_bytes(text, (size_t)(end - text));
        const char *escape = xml_escape(text, n);
        size_t skipped = n != 0 ? n : syn_utf8_char_bytes(text, (size_t)(end - text));
        if (skipped == 0) skipped = 1;
        if (escape != NULL) {
            syn_sink_write(sink, plain, (size_t)(text - plain));
            syn_sink_text(sink, escape);
            plain = text + skipped;
        }
        text += skipped;
    }
    syn_sink_write(sink, plain, (size_t)(end - plain));
}
