#include "export/chakra/wire/et_node.h"

#include <math.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/types.h"

/* ---- Element types, in the order of their field numbers 3, 5, 7, ... ---- */

#define TYPE(n, camel, form, wire, bits, sgn, zigzag) \
    { n "_val", n "_list", camel "Val", camel "List", form, wire, bits, sgn, zigzag }

static const syn__et_type types[] = {
    TYPE("double", "double", SYN__ET_FORM_FLOAT, SYN__ET_WIRE_I64, 64, true, false),
    TYPE("float", "float", SYN__ET_FORM_FLOAT, SYN__ET_WIRE_I32, 32, true, false),
    TYPE("int32", "int32", SYN__ET_FORM_INT, SYN__ET_WIRE_VARINT, 32, true, false),
    TYPE("int64", "int64", SYN__ET_FORM_INT, SYN__ET_WIRE_VARINT, 64, true, false),
    TYPE("uint32", "uint32", SYN__ET_FORM_INT, SYN__ET_WIRE_VARINT, 32, false, false),
    TYPE("uint64", "uint64", SYN__ET_FORM_INT, SYN__ET_WIRE_VARINT, 64, false, false),
    TYPE("sint32", "sint32", SYN__ET_FORM_INT, SYN__ET_WIRE_VARINT, 32, true, true),
    TYPE("sint64", "sint64", SYN__ET_FORM_INT, SYN__ET_WIRE_VARINT, 64, true, true),
    TYPE("fixed32", "fixed32", SYN__ET_FORM_INT, SYN__ET_WIRE_I32, 32, false, false),
    TYPE("fixed64", "fixed64", SYN__ET_FORM_INT, SYN__ET_WIRE_I64, 64, false, false),
    TYPE("sfixed32", "sfixed32", SYN__ET_FORM_INT, SYN__ET_WIRE_I32, 32, true, false),
    TYPE("sfixed64", "sfixed64", SYN__ET_FORM_INT, SYN__ET_WIRE_I64, 64, true, false),
    TYPE("bool", "bool", SYN__ET_FORM_BOOL, SYN__ET_WIRE_VARINT, 1, false, false),
    TYPE("string", "string", SYN__ET_FORM_STRING, SYN__ET_WIRE_LEN, 0, false, false),
    TYPE("bytes", "bytes", SYN__ET_FORM_BYTES, SYN__ET_WIRE_LEN, 0, false, false),
};

const syn__et_type *syn__et_type_of(uint32_t field) {
    return &types[(field - SYN__ET_DOUBLE) / 2];
}

const char *syn__et_field_name(uint32_t field) {
    if (field == SYN__ET_NONE) return "none";
    const syn__et_type *type = syn__et_type_of(field);
    return syn__et_is_list(field) ? type->list : type->value;
}

uint32_t syn__et_field_by_name(syn__str name) {
    for (uint32_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const syn__et_type *t = &types[i];
        const uint32_t field = SYN__ET_DOUBLE + 2 * i;
        if (name.bytes == 0 || *name.text != *t->value) continue; /* all four begin alike */
        if (syn__str_is(name, t->value) || syn__str_is(name, t->value_json)) return field;
        if (syn__str_is(name, t->list) || syn__str_is(name, t->list_json)) return field + 1;
    }
    return SYN__ET_NONE;
}

const char *syn__et_node_type_name(uint32_t type) {
    static const char *const names[SYN__ET_NODE_TYPES] = {
        "INVALID_NODE", "METADATA_NODE",  "MEM_LOAD_NODE",  "MEM_STORE_NODE",
        "COMP_NODE",    "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE"};
    return type < SYN__ET_NODE_TYPES ? names[type] : NULL;
}

const char *syn__et_short_type(uint32_t type) {
    static const char *const names[SYN__ET_NODE_TYPES] = {
        "INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "SEND", "RECV", "COLL"};
    return type < SYN__ET_NODE_TYPES ? names[type] : NULL;
}

const char *syn__et_collective_name(int64_t comm_type) {
    static const struct {
        int64_t comm_type;
        const char *name;
    } known[] = {
#define SYN_X(id, name, chakra) {chakra, #id},
        SYN_COMM_KIND_LIST(SYN_X)
#undef SYN_X
    };
    for (size_t i = 0; comm_type >= 0 && i < sizeof known / sizeof known[0]; i++)
        if (known[i].comm_type == comm_type) return known[i].name;
    return NULL;
}

bool syn__et_attr_integer(const syn__et_attr *a, int64_t *out) {
    if (a->field == SYN__ET_NONE || syn__et_is_list(a->field)) return false;
    const syn__et_type *type = syn__et_type_of(a->field);
    if (type->form != SYN__ET_FORM_INT && type->form != SYN__ET_FORM_BOOL) return false;
    const bool beyond = !type->is_signed && a->bits > INT64_MAX;
    *out = beyond ? INT64_MAX : (int64_t)a->bits;
    return true;
}

/* ---- Writing ---- */

/* Plain proto3 fields are left out when they hold their default; a oneof member never is. */

static size_t str_bytes(syn__str s) {
    return 1 + syn__et_varint_bytes(s.bytes) + s.bytes;
}

static uint64_t zigzag(uint64_t v) {
    return v << 1 ^ (0 - (v >> 63));
}
static uint64_t unzigzag(uint64_t v) {
    return v >> 1 ^ (0 - (v & 1));
}

static size_t attr_bytes(const syn__et_attr *a) {
    size_t n = 0;
    if (a->name.bytes != 0) n += str_bytes(a->name);
    if (a->doc.bytes != 0) n += str_bytes(a->doc);
    if (a->field == SYN__ET_NONE) return n;
    n += a->field < 16 ? 1 : 2;
    const syn__et_type *type = syn__et_type_of(a->field);
    if (syn__et_is_list(a->field) || type->wire == SYN__ET_WIRE_LEN)
        return n + syn__et_varint_bytes(a->data.bytes) + a->data.bytes;
    if (type->wire == SYN__ET_WIRE_VARINT)
        return n + syn__et_varint_bytes(type->zigzag ? zigzag(a->bits) : a->bits);
    return n + (type->wire == SYN__ET_WIRE_I64 ? 8 : 4);
}

static void put_attr_value(syn__buf *buf, const syn__et_attr *a) {
    const syn__et_type *type = syn__et_type_of(a->field);
    if (syn__et_is_list(a->field) || type->wire == SYN__ET_WIRE_LEN) {
        syn__et_put_str(buf, a->field, a->data);
        return;
    }
    syn__et_put_tag(buf, a->field, type->wire);
    if (type->wire == SYN__ET_WIRE_VARINT)
        syn__et_put_varint(buf, type->zigzag ? zigzag(a->bits) : a->bits);
    else syn__et_put_fixed(buf, a->bits, type->wire == SYN__ET_WIRE_I64 ? 8 : 4);
}

static void put_attr(syn__buf *buf, uint32_t field, const syn__et_attr *a) {
    syn__et_put_tag(buf, field, SYN__ET_WIRE_LEN);
    syn__et_put_varint(buf, attr_bytes(a));
    if (a->name.bytes != 0) syn__et_put_str(buf, 1, a->name);
    if (a->doc.bytes != 0) syn__et_put_str(buf, 2, a->doc);
    if (a->field != SYN__ET_NONE) put_attr_value(buf, a);
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

static void put_io(syn__buf *buf, uint32_t field, const syn__et_io *io) {
    if (!io->present) return;
    size_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        if (io->text[i].bytes != 0) bytes += str_bytes(io->text[i]);
    }
    syn__et_put_tag(buf, field, SYN__ET_WIRE_LEN);
    syn__et_put_varint(buf, bytes);
    for (uint32_t i = 0; i < 3; i++) {
        if (io->text[i].bytes != 0) syn__et_put_str(buf, i + 1, io->text[i]);
    }
}

void syn__et_put_node(syn__buf *buf, const syn__et_node *node) {
    put_uint(buf, 1, node->id);
    if (node->name.bytes != 0) syn__et_put_str(buf, 2, node->name);
    /* Enums are int32 on the wire: values beyond that are sign-extended. */
    put_uint(buf, 3, (uint64_t)(int64_t)(int32_t)node->type);
    put_packed(buf, 4, node->ctrl, node->n_ctrl);
    put_packed(buf, 5, node->data, node->n_data);
    put_uint(buf, 6, node->start_micros);
    put_uint(buf, 7, node->duration_micros);
    put_io(buf, 8, &node->io[0]);
    put_io(buf, 9, &node->io[1]);
    for (size_t i = 0; i < node->n_attrs; i++) put_attr(buf, 10, &node->attrs[i]);
}

void syn__et_put_meta(syn__buf *buf, const syn__et_meta *meta) {
    if (meta->version.bytes != 0) syn__et_put_str(buf, 1, meta->version);
    for (size_t i = 0; i < meta->n_attrs; i++) put_attr(buf, 2, &meta->attrs[i]);
}

/* ---- Decoding ---- */

static syn_status fail(syn__et_decoder *d, const char *why, const char *at) {
    d->why = why;
    d->at = at;
    return SYN_E_FORMAT;
}

static syn_status take_text(syn__et_decoder *d, syn__str s, syn__str *out) {
    if (!syn__str_is_utf8(s)) return fail(d, "a text is not valid UTF-8", s.text);
    *out = s;
    return SYN_OK;
}

static bool good_list(syn__et_decoder *d, uint32_t field, syn__str payload) {
    const syn__et_type *type = syn__et_type_of(field);
    syn__et_reader r = {payload.text, payload.text + payload.bytes, NULL};
    syn__et_field f;
    while (syn__et_read_field(&r, &f)) {
        if (f.number != 1 || f.wire != SYN__ET_WIRE_LEN) continue;
        if (type->form == SYN__ET_FORM_STRING && !syn__str_is_utf8(f.data))
            return fail(d, "a text is not valid UTF-8", f.data.text) == SYN_OK;
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

/* What a number on the wire means as a value of the type: see syn__et_attr.bits. */
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
        if (f.number != 1) continue;
        if (f.wire == type->wire) break;
        if (f.wire == SYN__ET_WIRE_LEN)
            list->packed = (syn__et_reader){f.data.text, f.data.text + f.data.bytes, NULL};
    }
    *bits = value_bits(type, f.value);
    *data = f.data;
    return true;
}

static syn_status decode_value(syn__et_decoder *d, const syn__et_field *f, syn__et_attr *a) {
    const syn__et_type *type = syn__et_type_of(f->number);
    const bool list = syn__et_is_list(f->number);
    if (f->wire != (list ? SYN__ET_WIRE_LEN : type->wire)) return SYN_OK; /* as an unknown field */
    if (list && !good_list(d, f->number, f->data)) return SYN_E_FORMAT;
    if (type->form == SYN__ET_FORM_STRING && !list) SYN_TRY(take_text(d, f->data, &a->data));
    a->field = f->number;
    a->data = f->data;
    a->bits = value_bits(type, f->value);
    return SYN_OK;
}

static syn_status decode_attr(syn__et_decoder *d, syn__str message) {
    if (syn_grow(&d->attrs, &d->cap_attrs, d->n_attrs + 1, sizeof *d->attrs, NULL) != SYN_OK)
        return SYN_E_NOMEM;
    syn__et_attr *a = &d->attrs[d->n_attrs];
    *a = (syn__et_attr){{"", 0}, {"", 0}, SYN__ET_NONE, 0, {"", 0}};
    syn__et_reader r = {message.text, message.text + message.bytes, NULL};
    syn__et_field f;
    while (syn__et_read_field(&r, &f)) {
        if (f.number <= 2 && f.wire == SYN__ET_WIRE_LEN)
            SYN_TRY(take_text(d, f.data, f.number == 1 ? &a->name : &a->doc));
        else if (f.number >= SYN__ET_DOUBLE && f.number <= SYN__ET_LAST)
            SYN_TRY(decode_value(d, &f, a));
    }
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

/* Repeated numbers may come packed or one by one. */
static syn_status decode_deps(syn__et_decoder *d, const syn__et_field *f) {
    const int which = f->number == 4 ? 0 : 1;
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
        if (f.number <= 3 && f.wire == SYN__ET_WIRE_LEN)
            SYN_TRY(take_text(d, f.data, &io->text[f.number - 1]));
    }
    return r.why == NULL ? SYN_OK : fail(d, r.why, r.cur);
}

static syn_status decode_node_field(syn__et_decoder *d, const syn__et_field *f, syn__et_node *n) {
    const bool is_varint = f->wire == SYN__ET_WIRE_VARINT, is_bytes = f->wire == SYN__ET_WIRE_LEN;
    if (f->number == 4 || f->number == 5) return decode_deps(d, f);
    if (is_varint) {
        if (f->number == 1) n->id = f->value;
        if (f->number == 3) n->type = (uint32_t)f->value;
        if (f->number == 6) n->start_micros = f->value;
        if (f->number == 7) n->duration_micros = f->value;
    } else if (is_bytes) {
        if (f->number == 2) return take_text(d, f->data, &n->name);
        if (f->number == 8 || f->number == 9) return decode_io(d, f->data, &n->io[f->number - 8]);
        if (f->number == 10) return decode_attr(d, f->data);
    }
    return SYN_OK;
}

syn_status syn__et_decode_node(syn__et_decoder *d, syn__str message, syn__et_node *out) {
    static const syn__et_io none = {false, {{"", 0}, {"", 0}, {"", 0}}};
    *out = (syn__et_node){.name = {"", 0}, .io = {none, none}};
    d->n_deps[0] = d->n_deps[1] = d->n_attrs = 0;
    syn__et_reader r = {message.text, message.text + message.bytes, NULL};
    syn__et_field f;
    while (syn__et_read_field(&r, &f)) SYN_TRY(decode_node_field(d, &f, out));
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
        if (f.number == 1 && f.wire != SYN__ET_WIRE_LEN)
            return fail(d, "the first message is a node, not GlobalMetadata", message.text);
        if (f.number == 1) SYN_TRY(take_text(d, f.data, &out->version));
        if (f.number == 2 && f.wire == SYN__ET_WIRE_LEN) SYN_TRY(decode_attr(d, f.data));
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
