/* Protobuf's JSON mapping of an execution trace's records: names in lowerCamelCase, 64-bit integers
   as strings, enums by name, bytes in base64, NaN and infinities as strings; proto3 defaults are
   left out, set oneof members never. */
#include <math.h>

#include "export/chakra/wire/et_node.h"
#include "syntorch/base/number.h"

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void syn__et_json_base64(syn_sink *sink, syn__str s) {
    const unsigned char *p = (const unsigned char *)s.text;
    syn_sink_char(sink, '"');
    for (size_t i = 0; i < s.bytes; i += 3) {
        const size_t n = s.bytes - i < 3 ? s.bytes - i : 3;
        const uint32_t word =
            (uint32_t)p[i] << 16 | (n > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (n > 2 ? p[i + 2] : 0u);
        syn_sink_char(sink, base64_digits[word >> 18]);
        syn_sink_char(sink, base64_digits[word >> 12 & 63]);
        syn_sink_char(sink, n > 1 ? base64_digits[word >> 6 & 63] : '=');
        syn_sink_char(sink, n > 2 ? base64_digits[word & 63] : '=');
    }
    syn_sink_char(sink, '"');
}

static int base64_value(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

bool syn__et_parse_base64(syn__str text, syn__buf *out) {
    while (text.bytes > 0 && text.text[text.bytes - 1] == '=') text.bytes--;
    uint32_t word = 0;
    unsigned bits = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        const int value = base64_value(text.text[i]);
        if (value < 0) return false;
        word = word << 6 | (uint32_t)value;
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        const char byte = (char)(unsigned char)(word >> bits & 0xFF);
        syn__buf_put(out, &byte, 1);
    }
    return bits < 6;
}

/* ---- Writing ---- */

/* A JSON string; most texts need no escapes and go out in one piece. `s` may hold any byte. */
static void json_text(syn_sink *sink, syn__str s) {
    size_t from = 0;
    syn_sink_char(sink, '"');
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
    syn_sink_char(sink, '"');
}

static void json_float(syn_sink *sink, const syn__et_type *type, uint64_t bits) {
    const double value = syn__et_float_of(type, bits);
    if (isnan(value)) syn_sink_text(sink, "\"NaN\"");
    else if (isinf(value) && value > 0) syn_sink_text(sink, "\"Infinity\"");
    else if (isinf(value)) syn_sink_text(sink, "\"-Infinity\"");
    else syn_sink_double(sink, value);
}

static void json_u64(syn_sink *sink, uint64_t v) {
    syn_sink_char(sink, '"');
    syn_sink_u64(sink, v);
    syn_sink_char(sink, '"');
}

static void json_scalar(syn_sink *sink, const syn__et_type *type, uint64_t bits, syn__str data) {
    switch (type->form) {
    case SYN__ET_FORM_BOOL:
        syn_sink_text(sink, bits != 0 ? "true" : "false");
        return;
    case SYN__ET_FORM_FLOAT:
        json_float(sink, type, bits);
        return;
    case SYN__ET_FORM_STRING:
        json_text(sink, data);
        return;
    case SYN__ET_FORM_BYTES:
        syn__et_json_base64(sink, data);
        return;
    case SYN__ET_FORM_INT:
        break;
    }
    if (type->bits == 64) syn_sink_char(sink, '"');
    if (type->is_signed) syn_sink_i64(sink, (int64_t)bits);
    else syn_sink_u64(sink, bits);
    if (type->bits == 64) syn_sink_char(sink, '"');
}

void syn__et_json_list(syn_sink *sink, uint32_t field, syn__str payload) {
    const syn__et_type *type = syn__et_type_of(field);
    syn__et_list list = syn__et_list_of(type, payload);
    syn__str data;
    uint64_t bits;
    syn_sink_char(sink, '[');
    for (const char *comma = ""; syn__et_list_next(&list, &bits, &data); comma = ",") {
        syn_sink_text(sink, comma);
        json_scalar(sink, type, bits, data);
    }
    syn_sink_char(sink, ']');
}

static void json_attr(syn_sink *sink, const syn__et_attr *a) {
    const char *comma = "";
    syn_sink_char(sink, '{');
    if (a->name.bytes != 0) {
        syn_sink_text(sink, "\"name\":");
        json_text(sink, a->name);
        comma = ",";
    }
    if (a->doc.bytes != 0) {
        syn_sink_printf(sink, "%s\"docString\":", comma);
        json_text(sink, a->doc);
        comma = ",";
    }
    if (a->field != SYN__ET_NONE) {
        const syn__et_type *type = syn__et_type_of(a->field);
        const bool list = syn__et_is_list(a->field);
        syn_sink_text(sink, comma);
        syn_sink_char(sink, '"');
        syn_sink_text(sink, list ? type->list_json : type->value_json);
        syn_sink_text(sink, "\":");
        if (list) {
            syn_sink_text(sink, "{\"values\":");
            syn__et_json_list(sink, a->field, a->data);
            syn_sink_char(sink, '}');
        } else {
            json_scalar(sink, type, a->bits, a->data);
        }
    }
    syn_sink_char(sink, '}');
}

/* ',"key":' with the comma only after the first member. */
static void json_key(syn_sink *sink, bool *first, const char *key) {
    syn_sink_text(sink, *first ? "\"" : ",\"");
    syn_sink_text(sink, key);
    syn_sink_text(sink, "\":");
    *first = false;
}

static void json_attrs(syn_sink *sink, bool *first, const syn__et_attr *attrs, size_t n) {
    if (n == 0) return;
    json_key(sink, first, "attr");
    for (size_t i = 0; i < n; i++) {
        syn_sink_char(sink, i == 0 ? '[' : ',');
        json_attr(sink, &attrs[i]);
    }
    syn_sink_char(sink, ']');
}

static void json_deps(syn_sink *sink, bool *first, const char *key, const uint64_t *ids, size_t n) {
    if (n == 0) return;
    json_key(sink, first, key);
    for (size_t i = 0; i < n; i++) {
        syn_sink_char(sink, i == 0 ? '[' : ',');
        json_u64(sink, ids[i]);
    }
    syn_sink_char(sink, ']');
}

static void json_io(syn_sink *sink, bool *first, const char *key, const syn__et_io *io) {
    static const char *const keys[] = {"values", "shapes", "types"};
    if (!io->present) return;
    bool none = true;
    json_key(sink, first, key);
    syn_sink_char(sink, '{');
    for (int i = 0; i < 3; i++) {
        if (io->text[i].bytes == 0) continue;
        json_key(sink, &none, keys[i]);
        json_text(sink, io->text[i]);
    }
    syn_sink_char(sink, '}');
}

void syn__et_json_node(syn_sink *sink, const syn__et_node *node) {
    bool first = true;
    syn_sink_char(sink, '{');
    if (node->id != 0) {
        json_key(sink, &first, "id");
        json_u64(sink, node->id);
    }
    if (node->name.bytes != 0) {
        json_key(sink, &first, "name");
        json_text(sink, node->name);
    }
    if (node->type != SYN__ET_INVALID_NODE) {
        const char *name = syn__et_node_type_name(node->type);
        json_key(sink, &first, "type");
        if (name != NULL) syn_sink_printf(sink, "\"%s\"", name);
        else syn_sink_i64(sink, (int64_t)(int32_t)node->type);
    }
    json_deps(sink, &first, "ctrlDeps", node->ctrl, node->n_ctrl);
    json_deps(sink, &first, "dataDeps", node->data, node->n_data);
    if (node->start_micros != 0) {
        json_key(sink, &first, "startTimeMicros");
        json_u64(sink, node->start_micros);
    }
    if (node->duration_micros != 0) {
        json_key(sink, &first, "durationMicros");
        json_u64(sink, node->duration_micros);
    }
    json_io(sink, &first, "inputs", &node->io[0]);
    json_io(sink, &first, "outputs", &node->io[1]);
    json_attrs(sink, &first, node->attrs, node->n_attrs);
    syn_sink_char(sink, '}');
}

void syn__et_json_meta(syn_sink *sink, const syn__et_meta *meta) {
    bool first = true;
    syn_sink_char(sink, '{');
    if (meta->version.bytes != 0) {
        json_key(sink, &first, "version");
        json_text(sink, meta->version);
    }
    json_attrs(sink, &first, meta->attrs, meta->n_attrs);
    syn_sink_char(sink, '}');
}

/* ---- Reading ---- */

/* "123" or -123 as 64-bit two's complement; false if it is no integer of that size and sign. */
static bool parse_integer(const char *text, bool is_signed, uint32_t bits, uint64_t *out) {
    const bool negative = *text == '-';
    if (negative) text++;
    if (*text == '\0' || (negative && !is_signed)) return false;
    uint64_t v = 0;
    for (; *text != '\0'; text++) {
        const unsigned digit = (unsigned)(unsigned char)*text - '0';
        if (digit > 9 || v > (UINT64_MAX - digit) / 10) return false;
        v = v * 10 + digit;
    }
    const uint64_t half = UINT64_C(1) << (bits - 1);
    const uint64_t limit = !is_signed ? (half - 1) * 2 + 1 : negative ? half : half - 1;
    if (v > limit) return false;
    *out = negative ? 0 - v : v;
    return true;
}

static bool parse_float(const syn_json *json, double *out) {
    static const struct {
        const char *text;
        double value;
    } special[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    if (json->type == SYN_JSON_NUMBER) {
        *out = json->number;
        return true;
    }
    if (json->type != SYN_JSON_STRING) return false;
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(json->text, special[i].text) != 0) continue;
        *out = special[i].value;
        return true;
    }
    return syn_number_parse(json->text, json->text_bytes, out) && isfinite(*out);
}

syn_status syn__et_parse_scalar(syn_json *json, uint32_t field, uint64_t *bits, syn__buf *text) {
    const syn__et_type *type = syn__et_type_of(field);
    const bool is_text = json->type == SYN_JSON_STRING;
    double value;
    switch (type->form) {
    case SYN__ET_FORM_BOOL:
        *bits = json->boolean;
        if (json->type == SYN_JSON_BOOL) return SYN_OK;
        break;
    case SYN__ET_FORM_FLOAT:
        if (parse_float(json, &value) && syn__et_float_bits(type, value, bits)) return SYN_OK;
        break;
    case SYN__ET_FORM_STRING:
        if (is_text) syn__buf_put(text, json->text, json->text_bytes);
        if (is_text) return SYN_OK;
        break;
    case SYN__ET_FORM_BYTES:
        if (is_text && syn__et_parse_base64((syn__str){json->text, json->text_bytes}, text))
            return SYN_OK;
        break;
    case SYN__ET_FORM_INT:
        if ((is_text || json->type == SYN_JSON_NUMBER) &&
            parse_integer(json->text, type->is_signed, type->bits, bits))
            return SYN_OK;
        break;
    }
    return syn_json_fail(json, "this is no value of the type %s", type->value);
}

static void put_element(syn__buf *out, const syn__et_type *type, uint64_t bits) {
    if (type->wire != SYN__ET_WIRE_VARINT) syn__et_put_fixed(out, bits, type->bits / 8);
    else syn__et_put_varint(out, type->zigzag ? bits << 1 ^ (0 - (bits >> 63)) : bits);
}

syn_status syn__et_parse_list(syn_json *json, uint32_t field, syn__buf *out) {
    const syn__et_type *type = syn__et_type_of(field);
    syn__buf part = {0}; /* of numbers: all, packed; of texts: one after the other */
    syn_status status = SYN_OK;
    while (status == SYN_OK && syn_json_next(json) != SYN_JSON_ARRAY_END) {
        uint64_t bits = 0;
        if (json->type == SYN_JSON_ERROR) status = SYN_E_FORMAT;
        else status = syn__et_parse_scalar(json, field, &bits, &part);
        if (status != SYN_OK) break;
        if (type->wire == SYN__ET_WIRE_LEN) {
            syn__et_put_str(out, 1, (syn__str){part.data != NULL ? part.data : "", part.bytes});
            part.bytes = 0;
        } else {
            put_element(&part, type, bits);
        }
    }
    if (status == SYN_OK && type->wire != SYN__ET_WIRE_LEN && part.bytes != 0)
        syn__et_put_str(out, 1, (syn__str){part.data, part.bytes});
    if (part.failed) out->failed = true;
    syn__buf_free(&part);
    return status;
}
