/* Protobuf's JSON mapping of an execution trace's records, written and read. Names are in
   lowerCamelCase. 64-bit integers, NaN and infinities are strings, enums are names, and bytes are
   base64. Fields that hold their proto3 default are omitted, but oneof members are always
   written. */
#include <math.h>

#include "export/chakra/wire/et_json_print.h"
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

typedef syn__et_printer printer;

static void print_elements(printer *p, syn__et_list list) {
    syn__str data;
    uint64_t bits;
    while (syn__et_list_next(&list, &bits, &data)) {
        syn__et_print_item(p);
        syn__et_print_scalar(p, list.type, bits, data);
    }
}

void syn__et_json_list(syn_sink *sink, uint32_t field, syn__str payload) {
    printer p = {.sink = sink};
    syn__et_print_begin(&p, '[');
    print_elements(&p, syn__et_list_of(syn__et_type_of(field), payload));
    syn__et_print_end(&p, ']');
}

/* ---- Fields that the records lack ---- */

static void print_message(printer *p, const syn__et_message *m, syn__str message);

static void print_element(printer *p, const syn__et_member *m, uint64_t bits, syn__str data) {
    if (m->message != NULL) print_message(p, m->message, data);
    else if (m->values != NULL)
        syn__et_print_enum(p, syn__et_value_name(m->values, (int64_t)bits), (int32_t)bits);
    else syn__et_print_scalar(p, m->type, bits, data);
}

/* Prints a field from the message's wire form: all elements of a repeated field, the last value of
   any other. */
static void print_member(printer *p, const syn__et_member *m, syn__str message) {
    if (message.bytes == 0) return;
    const syn__et_type *type = m->type != NULL ? m->type : syn__et_type_of(SYN__ET_BYTES);
    syn__et_list list = syn__et_repeated_of(type, m->number, message);
    syn__str data = {"", 0};
    uint64_t bits = 0;
    bool any = false;
    for (; syn__et_list_next(&list, &bits, &data); any = true) {
        if (!m->is_repeated) continue;
        if (!any) {
            syn__et_print_key(p, m->name);
            syn__et_print_begin(p, '[');
        }
        syn__et_print_item(p);
        print_element(p, m, bits, data);
    }
    if (any && m->is_repeated) {
        syn__et_print_end(p, ']');
    } else if (any) {
        syn__et_print_key(p, m->name);
        print_element(p, m, bits, data);
    }
}

static void print_message(printer *p, const syn__et_message *m, syn__str message) {
    syn__et_member member;
    syn__et_print_begin(p, '{');
    for (size_t i = 0; syn__et_member_at(m, i, &member); i++) print_member(p, &member, message);
    syn__et_print_end(p, '}');
}

/* ---- Members of records ---- */

static void print_string(printer *p, const syn__et_member *m, syn__str s) {
    if (s.bytes == 0) return;
    syn__et_print_key(p, m->name);
    syn__et_print_text(p, s);
}

static void print_number(printer *p, const syn__et_member *m, uint64_t v) {
    if (v == 0) return;
    syn__et_print_key(p, m->name);
    syn__et_print_scalar(p, m->type, v, (syn__str){"", 0});
}

static void print_value(printer *p, const syn__et_member *m, const syn__et_attr *a) {
    syn__et_member values;
    syn__et_print_key(p, m->name);
    if (m->message == NULL) {
        syn__et_print_scalar(p, m->type, a->bits, a->data);
        return;
    }
    syn__et_list list = syn__et_list_of(syn__et_type_of(a->field), a->data), look = list;
    syn__str data;
    uint64_t bits;
    syn__et_print_begin(p, '{');
    /* MessageToJson omits empty lists. */
    if (syn__et_member_at(m->message, 0, &values) &&
        (!p->python || syn__et_list_next(&look, &bits, &data))) {
        syn__et_print_key(p, values.name);
        syn__et_print_begin(p, '[');
        print_elements(p, list);
        syn__et_print_end(p, ']');
    }
    syn__et_print_end(p, '}');
}

static void print_attr(printer *p, const syn__et_attr *a) {
    const syn__et_message *m = syn__et_message_of(SYN__ET_RECORD_ATTR);
    syn__et_member member;
    syn__et_print_begin(p, '{');
    if (syn__et_member_of(m, SYN__ET_ATTRIBUTE_PROTO_NAME, &member))
        print_string(p, &member, a->name);
    if (a->doc.bytes != 0 && syn__et_member_of(m, SYN__ET_ATTRIBUTE_PROTO_DOC_STRING, &member))
        print_string(p, &member, a->doc);
    if (a->field != SYN__ET_NONE && syn__et_member_of(m, a->field, &member))
        print_value(p, &member, a);
    for (size_t i = 0; a->added.bytes != 0 && syn__et_member_at(m, i, &member); i++)
        if (syn__et_is_extra_field(SYN__ET_RECORD_ATTR, member.number))
            print_member(p, &member, a->added);
    syn__et_print_end(p, '}');
}

static void print_attrs(printer *p, const syn__et_member *m, const syn__et_attr *attrs, size_t n) {
    if (n == 0) return;
    syn__et_print_key(p, m->name);
    syn__et_print_begin(p, '[');
    for (size_t i = 0; i < n; i++) {
        syn__et_print_item(p);
        print_attr(p, &attrs[i]);
    }
    syn__et_print_end(p, ']');
}

static void print_deps(printer *p, const syn__et_member *m, const uint64_t *ids, size_t n) {
    if (n == 0) return;
    syn__et_print_key(p, m->name);
    syn__et_print_begin(p, '[');
    for (size_t i = 0; i < n; i++) {
        syn__et_print_item(p);
        syn__et_print_scalar(p, m->type, ids[i], (syn__str){"", 0});
    }
    syn__et_print_end(p, ']');
}

static void print_io(printer *p, const syn__et_member *m, const syn__et_io *io) {
    syn__et_member part;
    if (!io->present) return;
    syn__et_print_key(p, m->name);
    syn__et_print_begin(p, '{');
    for (size_t i = 0; syn__et_member_at(m->message, i, &part); i++) {
        if (part.number == SYN__ET_IOINFO_VALUES) print_string(p, &part, io->text[0]);
        else if (part.number == SYN__ET_IOINFO_SHAPES) print_string(p, &part, io->text[1]);
        else if (part.number == SYN__ET_IOINFO_TYPES) print_string(p, &part, io->text[2]);
        else print_member(p, &part, io->added);
    }
    syn__et_print_end(p, '}');
}

static void print_type(printer *p, const syn__et_member *m, uint32_t type) {
    if (type == SYN__ET_INVALID_NODE) return;
    syn__et_print_key(p, m->name);
    syn__et_print_enum(p, syn__et_node_type_name(type), (int32_t)type);
}

static void print_node_member(printer *p, const syn__et_member *m, const syn__et_node *node) {
    switch (m->number) {
    case SYN__ET_NODE_ID:
        print_number(p, m, node->id);
        break;
    case SYN__ET_NODE_NAME:
        print_string(p, m, node->name);
        break;
    case SYN__ET_NODE_TYPE:
        print_type(p, m, node->type);
        break;
    case SYN__ET_NODE_CTRL_DEPS:
        print_deps(p, m, node->ctrl, node->n_ctrl);
        break;
    case SYN__ET_NODE_DATA_DEPS:
        print_deps(p, m, node->data, node->n_data);
        break;
    case SYN__ET_NODE_START_TIME_MICROS:
        print_number(p, m, node->start_micros);
        break;
    case SYN__ET_NODE_DURATION_MICROS:
        print_number(p, m, node->duration_micros);
        break;
    case SYN__ET_NODE_INPUTS:
        print_io(p, m, &node->io[0]);
        break;
    case SYN__ET_NODE_OUTPUTS:
        print_io(p, m, &node->io[1]);
        break;
    case SYN__ET_NODE_ATTR:
        print_attrs(p, m, node->attrs, node->n_attrs);
        break;
    default:
        print_member(p, m, node->added);
    }
}

void syn__et_print_node(printer *p, const syn__et_node *node) {
    const syn__et_message *m = syn__et_message_of(SYN__ET_RECORD_NODE);
    syn__et_member member;
    syn__et_print_begin(p, '{');
    for (size_t i = 0; syn__et_member_at(m, i, &member); i++) print_node_member(p, &member, node);
    syn__et_print_end(p, '}');
}

void syn__et_print_meta(printer *p, const syn__et_meta *meta) {
    const syn__et_message *m = syn__et_message_of(SYN__ET_RECORD_META);
    syn__et_member member;
    syn__et_print_begin(p, '{');
    for (size_t i = 0; syn__et_member_at(m, i, &member); i++) {
        if (member.number == SYN__ET_GLOBAL_METADATA_VERSION)
            print_string(p, &member, meta->version);
        else if (member.number == SYN__ET_GLOBAL_METADATA_ATTR)
            print_attrs(p, &member, meta->attrs, meta->n_attrs);
        else print_member(p, &member, meta->added);
    }
    syn__et_print_end(p, '}');
}

void syn__et_json_node(syn_sink *sink, const syn__et_node *node) {
    printer p = {.sink = sink};
    syn__et_print_node(&p, node);
}

void syn__et_json_meta(syn_sink *sink, const syn__et_meta *meta) {
    printer p = {.sink = sink};
    syn__et_print_meta(&p, meta);
}

/* ---- Reading ---- */

/* Parses an integer, such as 123 or "-123", to 64-bit two's complement. Returns false unless it
   fits the type's width and sign. */
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

syn_status syn__et_parse_scalar(syn_json *json, const syn__et_type *type, uint64_t *bits,
                                syn__buf *text) {
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
    return syn_json_fail(json, "this is not a value of type %s", type->name);
}

syn_status syn__et_parse_list(syn_json *json, const syn__et_type *type, uint32_t number,
                              syn__buf *out) {
    syn__buf part = {0}; /* numbers: all elements, packed; strings and bytes: the current element */
    syn_status status = SYN_OK;
    while (status == SYN_OK && syn_json_next(json) != SYN_JSON_ARRAY_END) {
        uint64_t bits = 0;
        if (json->type == SYN_JSON_ERROR) status = SYN_E_FORMAT;
        else status = syn__et_parse_scalar(json, type, &bits, &part);
        if (status != SYN_OK) break;
        if (type->wire == SYN__ET_WIRE_LEN) {
            syn__et_put_str(out, number,
                            (syn__str){part.data != NULL ? part.data : "", part.bytes});
            part.bytes = 0;
        } else {
            syn__et_put_bits(&part, type, bits);
        }
    }
    if (status == SYN_OK && type->wire != SYN__ET_WIRE_LEN && part.bytes != 0)
        syn__et_put_str(out, number, (syn__str){part.data, part.bytes});
    if (part.failed) out->failed = true;
    syn__buf_free(&part);
    return status;
}
