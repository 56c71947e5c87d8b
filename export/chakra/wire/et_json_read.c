#include "export/chakra/wire/et_json_read.h"

#include "syntorch/base/memory.h"

typedef syn__et_json_reader reader;

syn_status syn__et_json_broken(const reader *r) {
    return r->err != NULL && r->err->code != SYN_OK ? r->err->code : SYN_E_FORMAT;
}

syn_status syn__et_json_no_memory(const reader *r) {
    return SYN_FAIL_NOMEM(r->err, r->message.cap, "a node");
}

static bool key_is(const reader *r, const char *camel, const char *snake) {
    const syn__str key = {r->json.text, r->json.text_bytes};
    if (key.bytes == 0 || *key.text != *camel) return false; /* both begin alike */
    return syn__str_is(key, camel) || syn__str_is(key, snake);
}

syn_status syn__et_json_unknown(reader *r) {
    if (r->strict)
        return syn_json_fail(&r->json, "there is no member \"%.60s\" here", r->json.text);
    return syn_json_skip(&r->json) ? SYN_OK : syn__et_json_broken(r);
}

/* Notes that the member with that number, whose key was just read, is there. */
static syn_status once(reader *r, uint32_t *seen, unsigned number) {
    if (r->strict && (*seen >> number & 1) != 0)
        return syn_json_fail(&r->json, "the member \"%.60s\" is there twice", r->json.text);
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

/* ---- Values. null stands for a field's default. ---- */

static syn_status read_text(reader *r, const char *what, syn__str *out) {
    const syn_json_type type = syn_json_next(&r->json);
    if (type == SYN_JSON_ERROR) return syn__et_json_broken(r);
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type != SYN_JSON_STRING) return syn_json_fail(&r->json, "%s must be a string", what);
    return copy(r, (syn__str){r->json.text, r->json.text_bytes}, out);
}

static syn_status parse_number(reader *r, uint32_t field, uint64_t *out) {
    if (r->json.type == SYN_JSON_NULL) return SYN_OK;
    r->scratch.bytes = 0;
    return syn__et_parse_scalar(&r->json, field, out, &r->scratch);
}

static syn_status read_number(reader *r, uint32_t field, uint64_t *out) {
    if (syn_json_next(&r->json) == SYN_JSON_ERROR) return syn__et_json_broken(r);
    return parse_number(r, field, out);
}

static syn_status read_type(reader *r, uint32_t *out) {
    if (syn_json_next(&r->json) == SYN_JSON_ERROR) return syn__et_json_broken(r);
    if (r->json.type != SYN_JSON_STRING) {
        uint64_t v = 0;
        SYN_TRY(parse_number(r, SYN__ET_INT32, &v));
        *out = (uint32_t)v;
        return SYN_OK;
    }
    for (*out = 0; *out < SYN__ET_NODE_TYPES; ++*out) {
        if (strcmp(r->json.text, syn__et_node_type_name(*out)) == 0) return SYN_OK;
    }
    return syn_json_fail(&r->json, "there is no node type \"%.60s\"", r->json.text);
}

static syn_status read_ids(reader *r, int which) {
    if (syn_json_next(&r->json) == SYN_JSON_NULL) return SYN_OK;
    if (r->json.type == SYN_JSON_ERROR) return syn__et_json_broken(r);
    if (r->json.type != SYN_JSON_ARRAY_BEGIN)
        return syn_json_fail(&r->json, "dependencies must be an array of ids");
    while (syn_json_next(&r->json) != SYN_JSON_ARRAY_END) {
        uint64_t id = 0;
        if (r->json.type == SYN_JSON_ERROR) return syn__et_json_broken(r);
        SYN_TRY(parse_number(r, SYN__ET_UINT64, &id));
        SYN_TRY(
            syn_grow(&r->ids[which], &r->ids_cap[which], r->n_ids[which] + 1, sizeof id, r->err));
        r->ids[which][r->n_ids[which]++] = id;
    }
    return SYN_OK;
}

static syn_status read_io(reader *r, syn__et_io *io) {
    static const char *const names[] = {"values", "shapes", "types"};
    uint32_t seen = 0;
    if (syn_json_next(&r->json) == SYN_JSON_NULL) return SYN_OK;
    if (r->json.type == SYN_JSON_ERROR) return syn__et_json_broken(r);
    if (r->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->json, "inputs and outputs must be objects");
    io->present = true;
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        unsigned part = 0;
        while (part < 3 && !key_is(r, names[part], names[part])) part++;
        if (part == 3) {
            SYN_TRY(syn__et_json_unknown(r));
            continue;
        }
        SYN_TRY(once(r, &seen, part));
        SYN_TRY(read_text(r, names[part], &io->text[part]));
    }
    return r->json.type == SYN_JSON_ERROR ? syn__et_json_broken(r) : SYN_OK;
}

/* ---- Attributes ---- */

/* {"values":[...]} */
static syn_status read_list(reader *r, syn__et_attr *a) {
    uint32_t seen = 0;
    r->scratch.bytes = 0;
    SYN_TRY(syn_json_expect(&r->json, SYN_JSON_OBJECT_BEGIN, "a list"));
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        if (!key_is(r, "values", "values")) {
            SYN_TRY(syn__et_json_unknown(r));
            continue;
        }
        SYN_TRY(once(r, &seen, 0));
        SYN_TRY(syn_json_expect(&r->json, SYN_JSON_ARRAY_BEGIN, "a list's values"));
        SYN_TRY(syn__et_parse_list(&r->json, a->field, &r->scratch));
    }
    if (r->json.type == SYN_JSON_ERROR) return syn__et_json_broken(r);
    if (r->scratch.failed) return syn__et_json_no_memory(r);
    return copy(r, (syn__str){r->scratch.data, r->scratch.bytes}, &a->data);
}

static syn_status read_value(reader *r, uint32_t field, syn__et_attr *a) {
    if (a->field != SYN__ET_NONE) return syn_json_fail(&r->json, "an attribute has two values");
    a->field = field;
    if (syn__et_is_list(field)) return read_list(r, a);
    if (syn_json_next(&r->json) == SYN_JSON_ERROR) return syn__et_json_broken(r);
    r->scratch.bytes = 0;
    SYN_TRY(syn__et_parse_scalar(&r->json, field, &a->bits, &r->scratch));
    if (r->scratch.failed) return syn__et_json_no_memory(r);
    return copy(r, (syn__str){r->scratch.data, r->scratch.bytes}, &a->data);
}

static syn_status read_attr_member(reader *r, uint32_t *seen, syn__et_attr *a) {
    const uint32_t field = syn__et_field_by_name((syn__str){r->json.text, r->json.text_bytes});
    if (field != SYN__ET_NONE) return read_value(r, field, a);
    const bool is_name = key_is(r, "name", "name");
    if (!is_name && !key_is(r, "docString", "doc_string")) return syn__et_json_unknown(r);
    SYN_TRY(once(r, seen, is_name));
    return is_name ? read_text(r, "name", &a->name) : read_text(r, "docString", &a->doc);
}

static syn_status read_attr(reader *r) {
    syn__et_attr a = {{"", 0}, {"", 0}, SYN__ET_NONE, 0, {"", 0}};
    uint32_t seen = 0;
    if (r->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->json, "an attribute must be an object");
    while (syn_json_next(&r->json) == SYN_JSON_KEY) SYN_TRY(read_attr_member(r, &seen, &a));
    if (r->json.type == SYN_JSON_ERROR) return syn__et_json_broken(r);
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
    r->message.bytes = r->wire.bytes = 0;
    r->has_wire = false;
}

static syn_status read_wire(reader *r) {
    SYN_TRY(syn_json_expect(&r->json, SYN_JSON_STRING, SYN__ET_JSON_WIRE));
    if (!syn__et_parse_base64((syn__str){r->json.text, r->json.text_bytes}, &r->wire))
        return syn_json_fail(&r->json, SYN__ET_JSON_WIRE " must be bytes in base64");
    r->has_wire = true;
    return r->wire.failed ? syn__et_json_no_memory(r) : SYN_OK;
}

/* A member that none of the schema's is. */
static syn_status read_other(reader *r, uint32_t *seen) {
    if (!r->strict || !key_is(r, SYN__ET_JSON_WIRE, SYN__ET_JSON_WIRE))
        return syn__et_json_unknown(r);
    SYN_TRY(once(r, seen, 0));
    return read_wire(r);
}

static syn_status read_member(reader *r, uint32_t *seen, syn__et_node *n) {
    static const char *const names[][2] = {{"id", "id"},
                                           {"name", "name"},
                                           {"type", "type"},
                                           {"ctrlDeps", "ctrl_deps"},
                                           {"dataDeps", "data_deps"},
                                           {"startTimeMicros", "start_time_micros"},
                                           {"durationMicros", "duration_micros"},
                                           {"inputs", "inputs"},
                                           {"outputs", "outputs"},
                                           {"attr", "attr"}};
    unsigned field = 1;
    while (field <= 10 && !key_is(r, names[field - 1][0], names[field - 1][1])) field++;
    if (field > 10) return read_other(r, seen);
    SYN_TRY(once(r, seen, field));
    switch (field) {
    case 1:
        return read_number(r, SYN__ET_UINT64, &n->id);
    case 2:
        return read_text(r, "name", &n->name);
    case 3:
        return read_type(r, &n->type);
    case 4:
    case 5:
        return read_ids(r, (int)field - 4);
    case 6:
        return read_number(r, SYN__ET_UINT64, &n->start_micros);
    case 7:
        return read_number(r, SYN__ET_UINT64, &n->duration_micros);
    case 8:
    case 9:
        return read_io(r, &n->io[field - 8]);
    default:
        return read_attrs(r);
    }
}

syn_status syn__et_json_read_node(reader *r) {
    static const syn__et_io none = {false, {{"", 0}, {"", 0}, {"", 0}}};
    syn__et_node node = {.name = {"", 0}, .io = {none, none}};
    uint32_t seen = 0;
    if (r->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->json, "a node must be an object");
    begin_message(r);
    while (syn_json_next(&r->json) == SYN_JSON_KEY) SYN_TRY(read_member(r, &seen, &node));
    if (r->json.type == SYN_JSON_ERROR) return syn__et_json_broken(r);
    node.ctrl = r->ids[0];
    node.n_ctrl = r->n_ids[0];
    node.data = r->ids[1];
    node.n_data = r->n_ids[1];
    node.attrs = r->attrs;
    node.n_attrs = r->n_attrs;
    syn__et_put_node(&r->message, &node);
    return r->message.failed ? syn__et_json_no_memory(r) : SYN_OK;
}

syn_status syn__et_json_read_meta(reader *r) {
    syn__et_meta meta = {.version = {"", 0}};
    uint32_t seen = 0;
    if (r->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(&r->json, "metadata must be an object");
    begin_message(r);
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        const bool is_version = key_is(r, "version", "version");
        if (!is_version && !key_is(r, "attr", "attr")) {
            SYN_TRY(read_other(r, &seen));
            continue;
        }
        SYN_TRY(once(r, &seen, is_version ? 1 : 2));
        if (is_version) SYN_TRY(read_text(r, "version", &meta.version));
        else SYN_TRY(read_attrs(r));
    }
    if (r->json.type == SYN_JSON_ERROR) return syn__et_json_broken(r);
    meta.attrs = r->attrs;
    meta.n_attrs = r->n_attrs;
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
    syn__arena_free(&r->arena);
    syn_json_free(&r->json);
}
