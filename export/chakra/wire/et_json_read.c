/* Reads the JSON form of a message and converts it to the wire form. Separate from et_json.c,
   which writes that form and parses single values. */
#include "export/chakra/wire/et_json_read.h"

#include "syntorch/base/memory.h"

typedef syn__et_json_reader reader;

syn_status syn__et_json_broken(const reader *r) {
    return r->err != NULL && r->err->code != SYN_OK ? r->err->code : SYN_E_FORMAT;
}

syn_status syn__et_json_no_memory(const reader *r) {
    return SYN_FAIL_NOMEM(r->err, r->message.cap, "a node");
}

static syn__str key_of(const reader *r) {
    return (syn__str){r->json.text, r->json.text_bytes};
}

syn_status syn__et_json_unknown(reader *r) {
    if (r->strict) return syn_json_fail(&r->json, "unknown member \"%.60s\"", r->json.text);
    return syn_json_skip(&r->json) ? SYN_OK : syn__et_json_broken(r);
}

static syn_status twice(reader *r) {
    return syn_json_fail(&r->json, "the member \"%.60s\" appears twice", r->json.text);
}

/* Records in *seen that the member with this number has occurred. If strict, a second occurrence is
   an error. */
static syn_status once(reader *r, uint32_t *seen, unsigned number) {
    if (r->strict && (*seen >> number & 1) != 0) return twice(r);
    *seen |= UINT32_C(1) << number;
    return SYN_OK;
}

static syn_status copy(reader *r, syn__str s, syn__str *out) {
    char *text = (char *)syn__arena_get(&r->arena, s.bytes);
    if (text == NULL) return syn__et_json_no_memory(r);
    if (s.bytes != 0) memcpy(text, s.text, s.bytes);
    *out = (syn__str){text, s.bytes};
    return SYN_OK;
}

/* ---- Values; null means the field's default ---- */

static syn_status read_text(reader *r, const char *what, syn__str *out) {
    const syn_json_type type = syn_json_next(&r->json);
    if (type == SYN_JSON_ERROR) return syn__et_json_broken(r);
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type != SYN_JSON_STRING) return syn_json_fail(&r->json, "%s must be a string", what);
    return copy(r, (syn__str){r->json.text, r->json.text_bytes}, out);
}

static syn_status parse_number(reader *r, const syn__et_type *type, uint64_t *out) {
    if (r->json.type == SYN_JSON_NULL) return SYN_OK;
    r->scratch.bytes = 0;
    return syn__et_parse_scalar(&r->json, type, out, &r->scratch);
}

static syn_status read_number(reader *r, const syn__et_type *type, uint64_t *out) {
    if (syn_json_next(&r->json) == SYN_JSON_ERROR) return syn__et_json_broken(r);
    return parse_number(r, type, out);
}

/* Parses an enum value, which may be a name or a number. */
static syn_status parse_enum(reader *r, const syn__et_member *m, const char *what, int32_t *out) {
    uint64_t bits = 0;
    if (r->json.type == SYN_JSON_STRING) {
        if (syn__et_value_named(m->values, key_of(r), out)) return SYN_OK;
        return syn_json_fail(&r->json, "unknown %s \"%.60s\"", what, r->json.text);
    }
    SYN_TRY(parse_number(r, m->type, &bits));
    *out = (int32_t)bits;
    return SYN_OK;
}

static syn_status read_type(reader *r, const syn__et_member *m, uint32_t *out) {
    int32_t type = 0;
    if (syn_json_next(&r->json) == SYN_JSON_ERROR) return syn__et_json_broken(r);
    SYN_TRY(parse_enum(r, m, "node type", &type));
    *out = (uint32_t)type;
    return SYN_OK;
}

/* ---- Fields that the records lack, converted to wire form ---- */

static bool holds(const syn__buf *fields, uint32_t number) {
    if (fields->bytes == 0) return false;
    syn__et_reader r = {fields->data, fields->data + fields->bytes, NULL};
    syn__et_field f;
    while (syn__et_read_field(&r, &f))
        if (f.number == number) return true;
    return false;
}

static syn_status read_object(reader *r, const syn__et_message *m, syn__buf *out);

/* Appends the token just read as a field in wire form. A default value appends nothing, unless the
   field is repeated. */
static syn_status parse_element(reader *r, const syn__et_member *m, syn__buf *out) {
    syn__buf text = {0};
    uint64_t bits = 0;
    int32_t number = 0;
    syn_status status;
    if (m->message != NULL) status = read_object(r, m->message, &text);
    else if (m->values != NULL) status = parse_enum(r, m, m->name, &number);
    else status = syn__et_parse_scalar(&r->json, m->type, &bits, &text);
    if (m->values != NULL) bits = (uint64_t)(int64_t)number;
    const bool is_text = m->message != NULL || m->type->wire == SYN__ET_WIRE_LEN;
    const bool is_default = is_text ? text.bytes == 0 && m->message == NULL : bits == 0;
    if (status == SYN_OK && is_text && (m->is_repeated || !is_default)) {
        syn__et_put_str(out, m->number, (syn__str){text.data != NULL ? text.data : "", text.bytes});
    } else if (status == SYN_OK && (m->is_repeated || !is_default)) {
        syn__et_put_tag(out, m->number, m->type->wire);
        syn__et_put_bits(out, m->type, bits);
    }
    out->failed = out->failed || text.failed;
    syn__buf_free(&text);
    return status;
}

/* Appends a field whose key was just read. */
static syn_status read_added(reader *r, const syn__et_member *m, syn__buf *out) {
    if (r->strict && holds(out, m->number)) return twice(r);
    if (syn_json_next(&r->json) == SYN_JSON_ERROR) return syn__et_json_broken(r);
    if (r->json.type == SYN_JSON_NULL) return SYN_OK;
    if (!m->is_repeated) return parse_element(r, m, out);
    if (r->json.type != SYN_JSON_ARRAY_BEGIN)
        return syn_json_fail(&r->json, "%s must be an array", m->name);
    if (m->message == NULL && m->values == NULL)
        return syn__et_parse_list(&r->json, m->type, m->number, out);
    while (syn_json_next(&r->json) != SYN_JSON_ARRAY_END) {
        if (r->json.type == SYN_JSON_ERROR) return syn__et_json_broken(r);
        SYN_TRY(parse_element(r, m, out));
    }
    return SYN_OK;
}

static syn_status read_object(reader *r, const syn__et_message *m, syn__buf *out) {
    syn__et_member member;
    if (r->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->json, "this must be an object");
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        if (syn__et_member_named(m, key_of(r), &member)) SYN_TRY(read_added(r, &member, out));
        else SYN_TRY(syn__et_json_unknown(r));
    }
    return r->json.type == SYN_JSON_ERROR ? syn__et_json_broken(r) : SYN_OK;
}

/* Copies the fields that the record lacks to the arena, where the message's other strings are, and
   frees `fields`. */
static syn_status keep_added(reader *r, syn_status status, syn__buf *fields, syn__str *out) {
    if (status == SYN_OK && fields->failed) status = syn__et_json_no_memory(r);
    if (status == SYN_OK && fields->bytes != 0)
        status = copy(r, (syn__str){fields->data, fields->bytes}, out);
    syn__buf_free(fields);
    return status;
}

/* ---- Members of records ---- */

static syn_status read_ids(reader *r, const syn__et_member *m, int which) {
    if (syn_json_next(&r->json) == SYN_JSON_NULL) return SYN_OK;
    if (r->json.type == SYN_JSON_ERROR) return syn__et_json_broken(r);
    if (r->json.type != SYN_JSON_ARRAY_BEGIN)
        return syn_json_fail(&r->json, "dependencies must be an array of ids");
    while (syn_json_next(&r->json) != SYN_JSON_ARRAY_END) {
        uint64_t id = 0;
        if (r->json.type == SYN_JSON_ERROR) return syn__et_json_broken(r);
        SYN_TRY(parse_number(r, m->type, &id));
        SYN_TRY(
            syn_grow(&r->ids[which], &r->ids_cap[which], r->n_ids[which] + 1, sizeof id, r->err));
        r->ids[which][r->n_ids[which]++] = id;
    }
    return SYN_OK;
}

static syn_status read_io_member(reader *r, const syn__et_message *m, uint32_t *seen,
                                 syn__et_io *io, syn__buf *added) {
    syn__et_member part;
    if (!syn__et_member_named(m, key_of(r), &part)) return syn__et_json_unknown(r);
    if (syn__et_is_extra_field(SYN__ET_RECORD_IO, part.number)) return read_added(r, &part, added);
    const int which = part.number == SYN__ET_IOINFO_VALUES   ? 0
                      : part.number == SYN__ET_IOINFO_SHAPES ? 1
                                                             : 2;
    SYN_TRY(once(r, seen, part.number));
    return read_text(r, part.name, &io->text[which]);
}

static syn_status read_io(reader *r, const syn__et_member *m, syn__et_io *io) {
    syn__buf added = {0};
    uint32_t seen = 0;
    syn_status status = SYN_OK;
    if (syn_json_next(&r->json) == SYN_JSON_NULL) return SYN_OK;
    if (r->json.type == SYN_JSON_ERROR) return syn__et_json_broken(r);
    if (r->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->json, "inputs and outputs must be objects");
    io->present = true;
    while (status == SYN_OK && syn_json_next(&r->json) == SYN_JSON_KEY)
        status = read_io_member(r, m->message, &seen, io, &added);
    if (r->json.type == SYN_JSON_ERROR) status = syn__et_json_broken(r);
    return keep_added(r, status, &added, &io->added);
}

/* ---- Attributes ---- */

/* Reads {"values":[...]}. */
static syn_status read_list(reader *r, const syn__et_member *m, syn__et_attr *a) {
    syn__et_member values;
    uint32_t seen = 0;
    r->scratch.bytes = 0;
    SYN_TRY(syn_json_expect(&r->json, SYN_JSON_OBJECT_BEGIN, "a list"));
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        if (!syn__et_member_named(m->message, key_of(r), &values)) {
            SYN_TRY(syn__et_json_unknown(r));
            continue;
        }
        SYN_TRY(once(r, &seen, 0));
        SYN_TRY(syn_json_expect(&r->json, SYN_JSON_ARRAY_BEGIN, "a list's values"));
        SYN_TRY(syn__et_parse_list(&r->json, values.type, values.number, &r->scratch));
    }
    if (r->json.type == SYN_JSON_ERROR) return syn__et_json_broken(r);
    if (r->scratch.failed) return syn__et_json_no_memory(r);
    return copy(r, (syn__str){r->scratch.data, r->scratch.bytes}, &a->data);
}

static syn_status read_value(reader *r, const syn__et_member *m, syn__et_attr *a) {
    if (a->field != SYN__ET_NONE) return syn_json_fail(&r->json, "an attribute has two values");
    a->field = m->number;
    if (m->message != NULL) return read_list(r, m, a);
    if (syn_json_next(&r->json) == SYN_JSON_ERROR) return syn__et_json_broken(r);
    r->scratch.bytes = 0;
    SYN_TRY(syn__et_parse_scalar(&r->json, m->type, &a->bits, &r->scratch));
    if (r->scratch.failed) return syn__et_json_no_memory(r);
    return copy(r, (syn__str){r->scratch.data, r->scratch.bytes}, &a->data);
}

static syn_status read_attr_member(reader *r, uint32_t *seen, syn__et_attr *a, syn__buf *added) {
    const syn__et_message *m = syn__et_message_of(SYN__ET_RECORD_ATTR);
    syn__et_member member;
    if (!syn__et_member_named(m, key_of(r), &member)) return syn__et_json_unknown(r);
    if (syn__et_type_of(member.number) != NULL) return read_value(r, &member, a);
    if (syn__et_is_extra_field(SYN__ET_RECORD_ATTR, member.number))
        return read_added(r, &member, added);
    const bool is_name = member.number == SYN__ET_ATTRIBUTE_PROTO_NAME;
    SYN_TRY(once(r, seen, is_name));
    return is_name ? read_text(r, "name", &a->name) : read_text(r, "docString", &a->doc);
}

static syn_status read_attr(reader *r) {
    syn__et_attr a = {.name = {"", 0}, .doc = {"", 0}, .data = {"", 0}};
    syn__buf added = {0};
    uint32_t seen = 0;
    syn_status status = SYN_OK;
    if (r->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->json, "an attribute must be an object");
    while (status == SYN_OK && syn_json_next(&r->json) == SYN_JSON_KEY)
        status = read_attr_member(r, &seen, &a, &added);
    if (r->json.type == SYN_JSON_ERROR) status = syn__et_json_broken(r);
    SYN_TRY(keep_added(r, status, &added, &a.added));
    SYN_TRY(syn_grow(&r->attrs, &r->attrs_cap, r->n_attrs + 1, sizeof a, r->err));
    r->attrs[r->n_attrs++] = a;
    return SYN_OK;
}

static syn_status read_attrs(reader *r) {
    if (syn_json_next(&r->json) == SYN_JSON_NULL) return SYN_OK;
    if (r->json.type == SYN_JSON_ERROR) return syn__et_json_broken(r);
    if (r->json.type != SYN_JSON_ARRAY_BEGIN)
        return syn_json_fail(&r->json, "attr must be an array");
    while (syn_json_next(&r->json) != SYN_JSON_ARRAY_END) {
        if (r->json.type == SYN_JSON_ERROR) return syn__et_json_broken(r);
        SYN_TRY(read_attr(r));
    }
    return SYN_OK;
}

/* ---- Messages ---- */

static void begin_message(reader *r) {
    syn__arena_reset(&r->arena);
    r->n_ids[0] = r->n_ids[1] = r->n_attrs = 0;
    r->message.bytes = r->wire.bytes = r->added.bytes = 0;
    r->has_wire = false;
}

static syn_status read_wire(reader *r) {
    SYN_TRY(syn_json_expect(&r->json, SYN_JSON_STRING, SYN__ET_JSON_WIRE));
    if (!syn__et_parse_base64((syn__str){r->json.text, r->json.text_bytes}, &r->wire))
        return syn_json_fail(&r->json, SYN__ET_JSON_WIRE " must be bytes in base64");
    r->has_wire = true;
    return r->wire.failed ? syn__et_json_no_memory(r) : SYN_OK;
}

/* Reads a member that is not in the schema. "@wire" is read if strict; all other members are
   unknown. */
static syn_status read_unsupported(reader *r, uint32_t *seen) {
    if (!r->strict || !syn__str_is(key_of(r), SYN__ET_JSON_WIRE)) return syn__et_json_unknown(r);
    SYN_TRY(once(r, seen, 0));
    return read_wire(r);
}

static syn_status read_node_member(reader *r, const syn__et_message *m, uint32_t *seen,
                                   syn__et_node *n) {
    syn__et_member member;
    if (!syn__et_member_named(m, key_of(r), &member)) return read_unsupported(r, seen);
    if (syn__et_is_extra_field(SYN__ET_RECORD_NODE, member.number))
        return read_added(r, &member, &r->added);
    SYN_TRY(once(r, seen, member.number));
    switch (member.number) {
    case SYN__ET_NODE_ID:
        return read_number(r, member.type, &n->id);
    case SYN__ET_NODE_NAME:
        return read_text(r, "name", &n->name);
    case SYN__ET_NODE_TYPE:
        return read_type(r, &member, &n->type);
    case SYN__ET_NODE_CTRL_DEPS:
        return read_ids(r, &member, 0);
    case SYN__ET_NODE_DATA_DEPS:
        return read_ids(r, &member, 1);
    case SYN__ET_NODE_START_TIME_MICROS:
        return read_number(r, member.type, &n->start_micros);
    case SYN__ET_NODE_DURATION_MICROS:
        return read_number(r, member.type, &n->duration_micros);
    case SYN__ET_NODE_INPUTS:
        return read_io(r, &member, &n->io[0]);
    case SYN__ET_NODE_OUTPUTS:
        return read_io(r, &member, &n->io[1]);
    default:
        return read_attrs(r);
    }
}

/* Checks for errors after a message's last member. */
static syn_status end_message(reader *r) {
    if (r->json.type == SYN_JSON_ERROR) return syn__et_json_broken(r);
    return r->added.failed ? syn__et_json_no_memory(r) : SYN_OK;
}

syn_status syn__et_json_read_node(reader *r) {
    static const syn__et_io none = {.text = {{"", 0}, {"", 0}, {"", 0}}};
    const syn__et_message *m = syn__et_message_of(SYN__ET_RECORD_NODE);
    syn__et_node node = {.name = {"", 0}, .io = {none, none}};
    uint32_t seen = 0;
    if (r->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->json, "a node must be an object");
    begin_message(r);
    while (syn_json_next(&r->json) == SYN_JSON_KEY) SYN_TRY(read_node_member(r, m, &seen, &node));
    SYN_TRY(end_message(r));
    node.ctrl = r->ids[0];
    node.n_ctrl = r->n_ids[0];
    node.data = r->ids[1];
    node.n_data = r->n_ids[1];
    node.attrs = r->attrs;
    node.n_attrs = r->n_attrs;
    node.added = (syn__str){r->added.data, r->added.bytes};
    syn__et_put_node(&r->message, &node);
    return r->message.failed ? syn__et_json_no_memory(r) : SYN_OK;
}

static syn_status read_meta_member(reader *r, const syn__et_message *m, uint32_t *seen,
                                   syn__et_meta *meta) {
    syn__et_member member;
    if (!syn__et_member_named(m, key_of(r), &member)) return read_unsupported(r, seen);
    if (syn__et_is_extra_field(SYN__ET_RECORD_META, member.number))
        return read_added(r, &member, &r->added);
    SYN_TRY(once(r, seen, member.number));
    if (member.number == SYN__ET_GLOBAL_METADATA_ATTR) return read_attrs(r);
    return read_text(r, "version", &meta->version);
}

syn_status syn__et_json_read_meta(reader *r) {
    const syn__et_message *m = syn__et_message_of(SYN__ET_RECORD_META);
    syn__et_meta meta = {.version = {"", 0}};
    uint32_t seen = 0;
    if (r->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->json, "metadata must be an object");
    begin_message(r);
    while (syn_json_next(&r->json) == SYN_JSON_KEY) SYN_TRY(read_meta_member(r, m, &seen, &meta));
    SYN_TRY(end_message(r));
    meta.attrs = r->attrs;
    meta.n_attrs = r->n_attrs;
    meta.added = (syn__str){r->added.data, r->added.bytes};
    syn__et_put_meta(&r->message, &meta);
    return r->message.failed ? syn__et_json_no_memory(r) : SYN_OK;
}

void syn__et_json_reader_free(reader *r) {
    syn_free(r->ids[0]);
    syn_free(r->ids[1]);
    syn_free(r->attrs);
    syn__buf_free(&r->scratch);
    syn__buf_free(&r->message);
    syn__buf_free(&r->wire);
    syn__buf_free(&r->added);
    syn__arena_free(&r->arena);
    syn_json_free(&r->json);
}
