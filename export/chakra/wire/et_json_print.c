/* Prints the parts of a JSON document in two layouts: compact, or as Python's
   json.dumps(indent=2) does. */
#include "export/chakra/wire/et_json_print.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "export/text/python_json.h"
#include "syntorch/base/number.h"
#include "syntorch/base/utf8.h"

typedef syn__et_printer printer;

/* ---- Structure ---- */

static void new_line(printer *p) {
    if (!p->python) return;
    syn_sink_char(p->sink, '\n');
    for (int i = 0; i < p->depth; i++) syn_sink_write(p->sink, "  ", 2);
}

void syn__et_print_begin(printer *p, char bracket) {
    syn_sink_char(p->sink, bracket);
    p->depth++;
    p->filled = false;
}

void syn__et_print_end(printer *p, char bracket) {
    p->depth--;
    if (p->filled) new_line(p);
    p->filled = true;
    syn_sink_char(p->sink, bracket);
}

void syn__et_print_item(printer *p) {
    if (p->filled) syn_sink_char(p->sink, ',');
    p->filled = true;
    new_line(p);
}

/* The key is written in one call, because a trace has millions of keys. */
void syn__et_print_key(printer *p, const char *name) {
    char text[64];
    size_t n = 0;
    if (p->python) syn__et_print_item(p);
    else if (p->filled) text[n++] = ',';
    p->filled = true;
    text[n++] = '"';
    for (bool upper = false; *name != '\0'; name++) {
        if (*name == '_') {
            upper = true;
            continue;
        }
        if (n == sizeof text - 4) {
            syn_sink_write(p->sink, text, n);
            n = 0;
        }
        text[n++] = upper && *name >= 'a' && *name <= 'z' ? (char)(*name - 'a' + 'A') : *name;
        upper = false;
    }
    text[n++] = '"';
    text[n++] = ':';
    if (p->python) text[n++] = ' ';
    syn_sink_write(p->sink, text, n);
}

/* ---- Strings ---- */

/* Most strings need no escapes and are written in one call. */
static void plain_text(syn_sink *sink, syn__str s) {
    size_t from = 0;
    for (size_t i = 0; i < s.bytes; i++) {
        const unsigned char c = (unsigned char)s.text[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        syn_sink_write(sink, s.text + from, i - from);
        from = i + 1;
        if (c == '"' || c == '\\') {
            syn_sink_char(sink, '\\');
            syn_sink_char(sink, (char)c);
        } else {
            syn_sink_printf(sink, "\\u%04x", (unsigned)c);
        }
    }
    syn_sink_write(sink, s.text + from, s.bytes - from);
}

/* Escapes everything except printable ASCII, as json.dumps does. */
static void python_text(syn_sink *sink, syn__str s) {
    const char *p = s.text, *const end = p + s.bytes;
    char code[SYN__PYTHON_ESCAPE];
    while (p < end) {
        const char *const from = p;
        while (p < end && *p >= ' ' && *p < 127 && *p != '"' && *p != '\\') p++;
        syn_sink_write(sink, from, (size_t)(p - from));
        if (p == end) break;
        const size_t n = syn_utf8_char_bytes(p, (size_t)(end - p));
        if (n != 0) syn_sink_write(sink, code, syn__python_escape(p, n, code));
        p += n != 0 ? n : 1;
    }
}

void syn__et_print_text(printer *p, syn__str s) {
    syn_sink_char(p->sink, '"');
    if (p->python) python_text(p->sink, s);
    else plain_text(p->sink, s);
    syn_sink_char(p->sink, '"');
}

/* ---- Numbers ---- */

/* Returns the decimal, with at least six digits and no more than needed, that rounds to the same
   float. */
static double shortest_float(float value) {
    char text[40];
    double rounded = (double)value;
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, (double)value);
        rounded = strtod(text, NULL); /* printf and strtod use the same locale */
        if ((float)rounded == value) break;
    }
    return rounded;
}

static void put_float(const printer *p, const syn__et_type *type, uint64_t bits) {
    char text[SYN_NUMBER_TEXT];
    double value = syn__et_float_of(type, bits);
    if (isnan(value)) {
        syn_sink_text(p->sink, "\"NaN\"");
    } else if (isinf(value)) {
        syn_sink_text(p->sink, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    } else if (!p->python) {
        syn_sink_double(p->sink, value);
    } else {
        if (type->bits != 64) value = shortest_float((float)value);
        syn_sink_write(p->sink, text, syn__python_float(value, text));
    }
}

static void put_integer(syn_sink *sink, const syn__et_type *type, uint64_t bits) {
    if (type->bits == 64) syn_sink_char(sink, '"');
    if (type->is_signed) syn_sink_i64(sink, (int64_t)bits);
    else syn_sink_u64(sink, bits);
    if (type->bits == 64) syn_sink_char(sink, '"');
}

void syn__et_print_scalar(printer *p, const syn__et_type *type, uint64_t bits, syn__str data) {
    switch (type->form) {
    case SYN__ET_FORM_BOOL:
        syn_sink_text(p->sink, bits != 0 ? "true" : "false");
        return;
    case SYN__ET_FORM_FLOAT:
        put_float(p, type, bits);
        return;
    case SYN__ET_FORM_STRING:
        syn__et_print_text(p, data);
        return;
    case SYN__ET_FORM_BYTES:
        syn__et_json_base64(p->sink, data);
        return;
    case SYN__ET_FORM_INT:
        put_integer(p->sink, type, bits);
        return;
    }
}

void syn__et_print_enum(printer *p, const char *name, int32_t number) {
    if (name != NULL) syn_sink_printf(p->sink, "\"%s\"", name);
    else syn_sink_i64(p->sink, number);
}
