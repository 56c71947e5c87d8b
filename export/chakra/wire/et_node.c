/* The wire format of messages: writes records to protobuf's wire format, and decodes them. */
#include "export/chakra/wire/et_node.h"

#include <math.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/types.h"

/* ---- Fields that the records lack ---- */

bool syn__et_is_extra_field(syn__et_record record, uint32_t number) {
    static const uint32_t last[] = {
        [SYN__ET_RECORD_META] = SYN__ET_GLOBAL_METADATA_ATTR,
        [SYN__ET_RECORD_NODE] = SYN__ET_NODE_ATTR,
        [SYN__ET_RECORD_ATTR] = SYN__ET_ATTRIBUTE_PROTO_DOC_STRING,
        [SYN__ET_RECORD_IO] = SYN__ET_IOINFO_TYPES,
    };
    syn__et_member member;
    if (number <= last[record]) return false;
    if (record == SYN__ET_RECORD_ATTR && syn__et_type_of(number) != NULL) return false;
    return syn__et_member_of(syn__et_message_of(record), number, &member);
}

/* Finds the next field of a message that is in the schema but not in the record. *out is the
   field's wire form, with its tag. */
static bool next_added(syn__et_record record, syn__et_reader *r, syn__str *out) {
    syn__et_field f;
    for (const char *begin = r->cur; syn__et_read_field(r, &f); begin = r->cur) {
        *out = (syn__str){begin, (size_t)(r->cur - begin)};
        if (syn__et_is_extra_field(record, f.number)) return true;
    }
    return false;
}

static size_t added_bytes(syn__et_record record, syn__str added) {
    if (added.bytes == 0) return 0;
    syn__et_reader r = {added.text, added.text + added.bytes, NULL};
    syn__str field;
    size_t bytes = 0;
    while (next_added(record, &r, &field)) bytes += field.bytes;
    return bytes;
}

static void put_added(syn__buf *buf, syn__et_record record, syn__str added) {
    if (added.bytes == 0) return;
    syn__et_reader r = {added.text, added.text + added.bytes, NULL};
    syn__str field;
    while (next_added(record, &r, &field)) syn__buf_put(buf, field.text, field.bytes);
}

/* ---- Values ---- */

syn__et_attr syn__et_number(const char *name, uint32_t field, uint64_t bits) {
    return (syn__et_attr){.name = syn__str_of(name), .field = field, .bits = bits};
}

syn__et_attr syn__et_data(syn__str name, uint32_t field, syn__str data) {
    return (syn__et_attr){.name = name, .field = field, .data = data};
}

bool syn__et_attr_integer(const syn__et_attr *a, int64_t *out) {
    const syn__et_value value = syn__et_value_of(a->field);
    const syn__et_type *type = value.type;
    if (type == NULL || value.is_list) return false;
    if (type->form != SYN__ET_FORM_INT && type->form != SYN__ET_FORM_BOOL) return false;
    const bool beyond = !type->is_signed && a->bits > INT64_MAX;
    *out = beyond ? INT64_MAX : (int64_t)a->bits;
    return true;
}

/* ---- Writing ---- */

/* Plain proto3 fields are omitted if they hold their default; a oneof member is always written. */

static size_t str_bytes(syn__str s) {
    return 1 + syn__et_varint_bytes(s.bytes) + s.bytes;
}

static uint64_t zigzag(uint64_t v) {
    return v << 1 ^ (0 - (v >> 63));
}
static uint64_t unzigzag(uint64_t v) {
    return v >> 1 ^ (0 - (v & 1));
}

void syn__et_put_bits(syn__buf *buf, const syn__et_type *type, uint64_t bits) {
    if (type->wire != SYN__ET_WIRE_VARINT) syn__et_put_fixed(buf, bits, type->bits / 8);
    else syn__et_put_varint(buf, type->zigzag ? zigzag(bits) : bits);
}

static bool is_text(syn__et_value value) {
    return value.is_list || value.type->wire == SYN__ET_WIRE_LEN;
}

static size_t value_bytes(const syn__et_attr *a, syn__et_value value) {
    const size_t key = syn__et_varint_bytes((uint64_t)a->field << 3);
    if (is_text(value)) return key + syn__et_varint_bytes(a->data.bytes) + a->data.bytes;
    if (value.type->wire == SYN__ET_WIRE_VARINT)
        return key + syn__et_varint_bytes(value.type->zigzag ? zigzag(a->bits) : a->bits);
    return key + value.type->bits / 8;
}

static void put_value(syn__buf *buf, const syn__et_attr *a, syn__et_value value) {
    if (is_text(value)) {
        syn__et_put_str(buf, a->field, a->data);
        return;
    }
    syn__et_put_tag(buf, a->field, value.type->wire);
    syn__et_put_bits(buf, value.type, a->bits);
}

static void put_attr(syn__buf *buf, uint32_t field, const syn__et_attr *a) {
    const syn__et_value value = syn__et_value_of(a->field);
    size_t bytes = added_bytes(SYN__ET_RECORD_ATTR, a->added);
    if (a->name.bytes != 0) bytes += str_bytes(a->name);
    if (a->doc.bytes != 0) bytes += str_bytes(a->doc);
    if (value.type != NULL) bytes += value_bytes(a, value);
    syn__et_put_tag(buf, field, SYN__ET_WIRE_LEN);
    syn__et_put_varint(buf, bytes);
    if (a->name.bytes != 0) syn__et_put_str(buf, SYN__ET_ATTRIBUTE_PROTO_NAME, a->name);
    if (a->doc.bytes != 0) syn__et_put_str(buf, SYN__ET_ATTRIBUTE_PROTO_DOC_STRING, a->doc);
    if (value.type != NULL) put_value(buf, a, value);
    put_added(buf, SYN__ET_RECORD_ATTR, a->added);
}

static void put_packed(syn__buf *buf, uint32_t field, const uint64_t *values, size_t n) {
    if (n == 0) return;
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += syn__et_varint_bytes(values[i]);
    syn__et_put_tag(buf, field, SYN__ET_WIRE_LEN);
    syn__et_put_varint(buf, bytes);
    for (size_t i = 0; i < n; i++) syn__et_put_varint(buf, values[i]);
}

static void put_uint(syn__buf *buf, uint32_t field, uint64_t v) {
    if (v == 0) return;
    syn__et_put_tag(buf, field, SYN__ET_WIRE_VARINT);
    syn__et_put_varint(buf, v);
}

static const uint32_t io_fields[3] = {SYN__ET_IOINFO_VALUES, SYN__ET_IOINFO_SHAPES,
                                      SYN__ET_IOINFO_TYPES};

static void put_io(syn__buf *buf, uint32_t field, const syn__et_io *io) {
    if (!io->present) return;
    size_t bytes = added_bytes(SYN__ET_RECORD_IO, io->added);
    for (int i = 0; i < 3; i++) {
        if (io->text[i].bytes != 0) bytes += str_bytes(io->text[i]);
    }
    syn__et_put_tag(buf, field, SYN__ET_WIRE_LEN);
    syn__et_put_varint(buf, bytes);
    for (int i = 0; i < 3; i++) {
        if (io->text[i].bytes != 0) syn__et_put_str(buf, io_fields[i], io->text[i]);
    }
    put_added(buf, SYN__ET_RECORD_IO, io->added);
}

void syn__et_put_attrs(syn__buf *buf, const syn__et_attr *attrs, size_t n) {
    for (size_t i = 0; i < n; i++) put_attr(buf, SYN__ET_NODE_ATTR, &attrs[i]);
}

void syn__et_put_node(syn__buf *buf, const syn__et_node *node) {
    put_uint(buf, SYN__ET_NODE_ID, node->id);
    if (node->name.bytes != 0) syn__et_put_str(buf, SYN__ET_NODE_NAME, node->name);
    /* Enums are int32 on the wire, so numbers above INT32_MAX are sign-extended. */
    put_uint(buf, SYN__ET_NODE_TYPE, (uint64_t)(int64_t)(int32_t)node->type);
    put_packed(buf, SYN__ET_NODE_CTRL_DEPS, node->ctrl, node->n_ctrl);
    put_packed(buf, SYN__ET_NODE_DATA_DEPS, node->data, node->n_data);
    put_uint(buf, SYN__ET_NODE_START_TIME_MICROS, node->start_micros);
    put_uint(buf, SYN__ET_NODE_DURATION_MICROS, node->duration_micros);
    put_io(buf, SYN__ET_NODE_INPUTS, &node->io[0]);
    put_io(buf, SYN__ET_NODE_OUTPUTS, &node->io[1]);
    syn__et_put_attrs(buf, node->attrs, node->n_attrs);
    put_added(buf, SYN__ET_RECORD_NODE, node->added);
}

void syn__et_put_meta(syn__buf *buf, const syn__et_meta *meta) {
    if (meta->version.bytes != 0)
        syn__et_put_str(buf, SYN__ET_GLOBAL_METADATA_VERSION, meta->version);
    for (size_t i = 0; i < meta->n_attrs; i++)
        put_attr(buf, SYN__ET_GLOBAL_METADATA_ATTR, &meta->attrs[i]);
    put_added(buf, SYN__ET_RECORD_META, meta->added);
}

/* ---- Decoding ---- */

static syn_status fail(syn__et_decoder *d, const char *why, const char *at) {
    d->why = why;
    d->at = at;
    return SYN_E_FORMAT;
}

static syn_status take_text(syn__et_decoder *d, syn__str s, syn__str *out) {
    if (!syn__str_is_utf8(s)) return fail(d, "a string is not valid UTF-8", s.text);
    *out = s;
    return SYN_OK;
}

/* If the record lacks the field, stores the whole message in *added. */
static void note_added(syn__et_record record, uint32_t number, syn__str message, syn__str *added) {
    if (added->bytes == 0 && syn__et_is_extra_field(record, number)) *added = message;
}

static bool good_list(syn__et_decoder *d, const syn__et_type *type, syn__str payload) {
    syn__et_reader r = {payload.text, payload.text + payload.bytes, NULL};
    syn__et_field f;
    while (syn__et_read_field(&r, &f)) {
        if (f.number != SYN__ET_INT64_LIST_VALUES || f.wire != SYN__ET_WIRE_LEN) continue;
        if (type->form == SYN__ET_FORM_STRING && !syn__str_is_utf8(f.data))
            return fail(d, "a string is not valid UTF-8", f.data.text) == SYN_OK;
        if (type->wire == SYN__ET_WIRE_LEN) continue;
        syn__et_reader p = {f.data.text, f.data.text + f.data.bytes, NULL};
        uint64_t v;
        while (p.cur < p.end && p.why == NULL) {
            if (type->wire == SYN__ET_WIRE_VARINT) (void)syn__et_read_varint(&p, &v);
            else (void)syn__et_read_fixed(&p, type->bits / 8, &v);
        }
        if (p.why != NULL) return fail(d, p.why, p.cur) == SYN_OK;
    }
    return r.why == NULL || fail(d, r.why, r.cur) == SYN_OK;
}

/* Converts a number from the wire to the form of syn__et_attr.bits. */
static uint64_t value_bits(const syn__et_type *type, uint64_t v) {
    if (type->form == SYN__ET_FORM_BOOL) return v != 0;
    if (type->form == SYN__ET_FORM_FLOAT || type->bits == 64) return type->zigzag ? unzigzag(v) : v;
    v &= UINT32_MAX;
    if (type->zigzag) v = unzigzag(v);
    return type->is_signed ? (uint64_t)(int64_t)(int32_t)(uint32_t)v : v;
}

double syn__et_float_of(const syn__et_type *type, uint64_t bits) {
    const uint32_t half = (uint32_t)bits;
    double value;
    float single;
    memcpy(&value, &bits, sizeof value);
    memcpy(&single, &half, sizeof single);
    return type->bits == 64 ? value : (double)single;
}

bool syn__et_float_bits(const syn__et_type *type, double value, uint64_t *bits) {
    if (type->bits == 64) {
        memcpy(bits, &value, sizeof *bits);
        return true;
    }
    const float single = (float)value;
    uint32_t half;
    memcpy(&half, &single, sizeof half);
    *bits = half;
    return !isinf(single) || isinf(value);
}

static bool read_packed(syn__et_reader *r, const syn__et_type *type, uint64_t *v) {
    if (r->cur >= r->end || r->why != NULL) return false;
    return type->wire == SYN__ET_WIRE_VARINT ? syn__et_read_varint(r, v)
                                             : syn__et_read_fixed(r, type->bits / 8, v);
}

bool syn__et_list_next(syn__et_list *list, uint64_t *bits, syn__str *data) {
    const syn__et_type *type = list->type;
    syn__et_field f = {0};
    while (!read_packed(&list->packed, type, &f.value)) {
        if (!syn__et_read_field(&list->fields, &f)) return false;
        if (f.number != list->number) continue;
        if (f.wire == type->wire) break;
        if (f.wire == SYN__ET_WIRE_LEN)
            list->packed = (syn__et_reader){f.data.text, f.data.text + f.data.bytes, NULL};
    }
    *bits = value_bits(type, f.value);
    *data = f.data;
    return true;
}

static syn_status decode_value(syn__et_decoder *d, const syn__et_field *f, syn__et_value value,
                               syn__et_attr *a) {
    const syn__et_type *type = value.type;
    if (f->wire != (value.is_list ? SYN__ET_WIRE_LEN : type->wire))
        return SYN_OK; /* the field is treated as unknown */
    if (value.is_list && !good_list(d, type, f->data)) return SYN_E_FORMAT;
    if (type->form == SYN__ET_FORM_STRING && !value.is_list)
        SYN_TRY(take_text(d, f->data, &a->data));
    a->field = f->number;
    a->data = f->data;
    a->bits = value_bits(type, f->value);
    return SYN_OK;
}

static syn_status decode_attr_field(syn__et_decoder *d, const syn__et_field *f, syn__str message,
                                    syn__et_attr *a) {
    const bool is_name = f->number == SYN__ET_ATTRIBUTE_PROTO_NAME;
    if (is_name || f->number == SYN__ET_ATTRIBUTE_PROTO_DOC_STRING)
        return f->wire == SYN__ET_WIRE_LEN ? take_text(d, f->data, is_name ? &a->name : &a->doc)
                                           : SYN_OK;
    const syn__et_value value = syn__et_value_of(f->number);
    if (value.type != NULL) return decode_value(d, f, value, a);
    note_added(SYN__ET_RECORD_ATTR, f->number, message, &a->added);
    return SYN_OK;
}

static syn_status decode_attr(syn__et_decoder *d, syn__str message) {
    if (syn_grow(&d->attrs, &d->cap_attrs, d->n_attrs + 1, sizeof *d->attrs, NULL) != SYN_OK)
        return SYN_E_NOMEM;
    syn__et_attr *a = &d->attrs[d->n_attrs];
    *a = (syn__et_attr){.name = {"", 0}, .doc = {"", 0}, .data = {"", 0}};
    syn__et_reader r = {message.text, message.text + message.bytes, NULL};
    syn__et_field f;
    while (syn__et_read_field(&r, &f)) SYN_TRY(decode_attr_field(d, &f, message, a));
    if (r.why != NULL) return fail(d, r.why, r.cur);
    d->n_attrs++;
    return SYN_OK;
}

static syn_status push_dep(syn__et_decoder *d, int which, uint64_t id) {
    if (syn_grow(&d->deps[which], &d->cap_deps[which], d->n_deps[which] + 1, sizeof(uint64_t),
                 NULL) != SYN_OK)
        return SYN_E_NOMEM;
    d->deps[which][d->n_deps[which]++] = id;
    return SYN_OK;
}

/* Decodes dependencies. Repeated numbers may be packed in one field or in separate fields. */
static syn_status decode_deps(syn__et_decoder *d, const syn__et_field *f) {
    const int which = f->number == SYN__ET_NODE_CTRL_DEPS ? 0 : 1;
    if (f->wire == SYN__ET_WIRE_VARINT) return push_dep(d, which, f->value);
    if (f->wire != SYN__ET_WIRE_LEN) return SYN_OK;
    syn__et_reader r = {f->data.text, f->data.text + f->data.bytes, NULL};
    while (r.cur < r.end) {
        uint64_t id;
        if (!syn__et_read_varint(&r, &id)) return fail(d, r.why, r.cur);
        SYN_TRY(push_dep(d, which, id));
    }
    return SYN_OK;
}

static syn_status decode_io(syn__et_decoder *d, syn__str message, syn__et_io *io) {
    syn__et_reader r = {message.text, message.text + message.bytes, NULL};
    syn__et_field f;
    io->present = true;
    while (syn__et_read_field(&r, &f)) {
        int part = 0;
        while (part < 3 && f.number != io_fields[part]) part++;
        if (part == 3) note_added(SYN__ET_RECORD_IO, f.number, message, &io->added);
        else if (f.wire == SYN__ET_WIRE_LEN) SYN_TRY(take_text(d, f.data, &io->text[part]));
    }
    return r.why == NULL ? SYN_OK : fail(d, r.why, r.cur);
}

static syn_status decode_node_number(const syn__et_field *f, uint64_t *out) {
    if (f->wire == SYN__ET_WIRE_VARINT) *out = f->value;
    return SYN_OK;
}

static syn_status decode_node_field(syn__et_decoder *d, const syn__et_field *f, syn__str message,
                                    syn__et_node *n) {
    const bool is_bytes = f->wire == SYN__ET_WIRE_LEN;
    switch (f->number) {
    case SYN__ET_NODE_ID:
        return decode_node_number(f, &n->id);
    case SYN__ET_NODE_NAME:
        return is_bytes ? take_text(d, f->data, &n->name) : SYN_OK;
    case SYN__ET_NODE_TYPE:
        if (f->wire == SYN__ET_WIRE_VARINT) n->type = (uint32_t)f->value;
        return SYN_OK;
    case SYN__ET_NODE_CTRL_DEPS:
    case SYN__ET_NODE_DATA_DEPS:
        return decode_deps(d, f);
    case SYN__ET_NODE_START_TIME_MICROS:
        return decode_node_number(f, &n->start_micros);
    case SYN__ET_NODE_DURATION_MICROS:
        return decode_node_number(f, &n->duration_micros);
    case SYN__ET_NODE_INPUTS:
        return is_bytes ? decode_io(d, f->data, &n->io[0]) : SYN_OK;
    case SYN__ET_NODE_OUTPUTS:
        return is_bytes ? decode_io(d, f->data, &n->io[1]) : SYN_OK;
    case SYN__ET_NODE_ATTR:
        return is_bytes ? decode_attr(d, f->data) : SYN_OK;
    default:
        note_added(SYN__ET_RECORD_NODE, f->number, message, &n->added);
        return SYN_OK;
    }
}

syn_status syn__et_decode_node(syn__et_decoder *d, syn__str message, syn__et_node *out) {
    static const syn__et_io none = {.text = {{"", 0}, {"", 0}, {"", 0}}};
    *out = (syn__et_node){.name = {"", 0}, .io = {none, none}};
    d->n_deps[0] = d->n_deps[1] = d->n_attrs = 0;
    syn__et_reader r = {message.text, message.text + message.bytes, NULL};
    syn__et_field f;
    while (syn__et_read_field(&r, &f)) SYN_TRY(decode_node_field(d, &f, message, out));
    if (r.why != NULL) return fail(d, r.why, r.cur);
    out->ctrl = d->deps[0];
    out->n_ctrl = d->n_deps[0];
    out->data = d->deps[1];
    out->n_data = d->n_deps[1];
    out->attrs = d->attrs;
    out->n_attrs = d->n_attrs;
    return SYN_OK;
}

syn_status syn__et_decode_meta(syn__et_decoder *d, syn__str message, syn__et_meta *out) {
    *out = (syn__et_meta){.version = {"", 0}};
    d->n_attrs = 0;
    syn__et_reader r = {message.text, message.text + message.bytes, NULL};
    syn__et_field f;
    while (syn__et_read_field(&r, &f)) {
        const bool is_bytes = f.wire == SYN__ET_WIRE_LEN;
        if (f.number == SYN__ET_GLOBAL_METADATA_VERSION) {
            if (!is_bytes)
                return fail(d, "the first message is a node, not GlobalMetadata", message.text);
            SYN_TRY(take_text(d, f.data, &out->version));
        } else if (f.number == SYN__ET_GLOBAL_METADATA_ATTR) {
            if (is_bytes) SYN_TRY(decode_attr(d, f.data));
        } else {
            note_added(SYN__ET_RECORD_META, f.number, message, &out->added);
        }
    }
    if (r.why != NULL) return fail(d, r.why, r.cur);
    out->attrs = d->attrs;
    out->n_attrs = d->n_attrs;
    return SYN_OK;
}

void syn__et_decoder_free(syn__et_decoder *d) {
    syn_free(d->deps[0]);
    syn_free(d->deps[1]);
    syn_free(d->attrs);
    *d = (syn__et_decoder){0};
}
