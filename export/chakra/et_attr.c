/* Converts attributes of execution traces to attributes of a syn_graph, and back. et_attr.h
   describes the attribute names. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "export/chakra/et_attr.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"

/* ---- Names and types ---- */

/* The protobuf type (oneof field) of an attribute whose graph name has no "@type" suffix. */
static uint32_t default_field(syn__str name, syn_value_type type) {
    static const struct {
        const char *name;
        uint32_t field;
    } fixed[] = {{"tensor_size", SYN__ET_UINT64},  {"comm_src", SYN__ET_INT32},
                 {"comm_dst", SYN__ET_INT32},      {"comm_tag", SYN__ET_INT32},
                 {"comm_priority", SYN__ET_INT32}, {"root", SYN__ET_INT32},
                 {"pid", SYN__ET_UINT64},          {"start_ts", SYN__ET_UINT64},
                 {"finish_ts", SYN__ET_UINT64}};
    switch (type) {
    case SYN_VALUE_F64:
        return SYN__ET_DOUBLE;
    case SYN_VALUE_BOOL:
        return SYN__ET_BOOL;
    case SYN_VALUE_TEXT:
        return SYN__ET_STRING;
    case SYN_VALUE_I64:
        break;
    }
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        if (syn__str_is(name, fixed[i].name)) return fixed[i].field;
    }
    return SYN__ET_INT64;
}

bool syn__et_parse_u64(const char *text, uint64_t *out) {
    uint64_t v = 0;
    if (*text == '\0') return false;
    for (; *text != '\0'; text++) {
        const unsigned digit = (unsigned)(unsigned char)*text - '0';
        if (digit > 9 || v > (UINT64_MAX - digit) / 10) return false;
        v = v * 10 + digit;
    }
    *out = v;
    return true;
}

/* ---- To the graph ---- */

/* Returns the text of a list or bytes in the JSON form. */
static const char *json_of(const syn__et_attr *a, syn__arena *arena) {
    syn_sink *sink;
    if (syn_sink_open_memory(&sink, NULL) != SYN_OK) return NULL;
    if (syn__et_is_list(a->field)) syn__et_json_list(sink, a->field, a->data);
    else syn__et_json_base64(sink, a->data);
    size_t bytes;
    const char *data = syn_sink_data(sink, &bytes);
    const char *out = NULL;
    /* For bytes, remove the quotes around the base64 text. */
    const size_t cut = syn__et_is_list(a->field) ? 0 : 1;
    if (data != NULL) out = syn__arena_text(arena, (syn__str){data + cut, bytes - 2 * cut});
    (void)syn_sink_close(sink, false, NULL);
    return out;
}

/* Sets the type and value of *out. Returns false if out of memory. */
static bool value_to_graph(const syn__et_attr *a, syn__arena *arena, syn_attribute *out) {
    const syn__et_type *type = a->field != SYN__ET_NONE ? syn__et_type_of(a->field) : NULL;
    char number[24];
    out->type = SYN_VALUE_TEXT;
    out->text = "";
    if (type == NULL) return true;
    if (syn__et_is_list(a->field) || type->form == SYN__ET_FORM_BYTES) {
        out->text = json_of(a, arena);
    } else if (type->form == SYN__ET_FORM_STRING) {
        out->text = syn__arena_text(arena, a->data);
    } else if (type->form == SYN__ET_FORM_FLOAT) {
        out->f64 = syn__et_float_of(type, a->bits);
        /* JSON cannot represent NaN and infinity, so the graph stores them as text. */
        if (isfinite(out->f64)) out->type = SYN_VALUE_F64;
        else out->text = isnan(out->f64) ? "NaN" : out->f64 > 0 ? "Infinity" : "-Infinity";
    } else if (!type->is_signed && a->bits > INT64_MAX) {
        snprintf(number, sizeof number, "%" PRIu64, a->bits);
        out->text = syn__arena_text(arena, syn__str_of(number));
    } else {
        out->type = type->form == SYN__ET_FORM_BOOL ? SYN_VALUE_BOOL : SYN_VALUE_I64;
        out->i64 = (int64_t)a->bits;
    }
    return out->type != SYN_VALUE_TEXT || out->text != NULL;
}

syn_status syn__et_attr_to_graph(const syn__et_attr *attr, syn__arena *arena, syn_attribute out[2],
                                 size_t *n) {
    out[0] = (syn_attribute){.name = syn__arena_text(arena, attr->name)};
    if (out[0].name == NULL || !value_to_graph(attr, arena, &out[0])) return SYN_E_NOMEM;
    const bool misread = attr->name.bytes == 0 || strchr(out[0].name, '@') != NULL ||
                         strncmp(out[0].name, "et.", 3) == 0;
    if (misread || default_field(attr->name, out[0].type) != attr->field) {
        const char *suffix = syn__et_field_name(attr->field);
        const size_t bytes = strlen(out[0].name), all = bytes + strlen(suffix) + 2;
        char *name = (char *)syn__arena_get(arena, all);
        if (name == NULL) return SYN_E_NOMEM;
        memcpy(name, out[0].name, bytes);
        name[bytes] = '@';
        memcpy(name + bytes + 1, suffix, all - bytes - 1);
        out[0].name = name;
    }
    *n = 1;
    if (attr->doc.bytes == 0) return SYN_OK;
    out[1] = (syn_attribute){.name = "@doc", .type = SYN_VALUE_TEXT};
    out[1].text = syn__arena_text(arena, attr->doc);
    *n = 2;
    return out[1].text != NULL ? SYN_OK : SYN_E_NOMEM;
}

/* ---- From the graph ---- */

static bool integer_from_graph(const syn_attribute *a, const syn__et_type *type, uint64_t *bits) {
    int64_t v = a->i64;
    if (a->type == SYN_VALUE_TEXT) {
        const bool ok = syn__et_parse_u64(a->text, bits);
        return ok && !type->is_signed && type->bits == 64;
    }
    if (a->type == SYN_VALUE_F64) {
        if (!(fabs(a->f64) < 0x1p63) || a->f64 != floor(a->f64)) return false;
        v = (int64_t)a->f64;
    }
    *bits = (uint64_t)v;
    if (!type->is_signed && v < 0) return false;
    if (type->bits == 32 && type->is_signed) return v >= INT32_MIN && v <= INT32_MAX;
    return type->bits == 64 || v <= (int64_t)UINT32_MAX;
}

static bool float_from_graph(const syn_attribute *a, const syn__et_type *type, uint64_t *bits) {
    double value = a->type == SYN_VALUE_F64 ? a->f64 : (double)a->i64;
    if (a->type == SYN_VALUE_TEXT) {
        if (strcmp(a->text, "NaN") == 0) value = (double)NAN;
        else if (strcmp(a->text, "Infinity") == 0) value = HUGE_VAL;
        else if (strcmp(a->text, "-Infinity") == 0) value = -HUGE_VAL;
        else return false;
    }
    (void)syn__et_float_bits(type, value, bits);
    return true;
}

/* Parses the text of a list or of bytes. *ok is false if it is malformed. */
static syn_status data_from_graph(const syn_attribute *a, uint32_t field, syn__arena *arena,
                                  syn__str *out, bool *ok) {
    syn__buf buf = {0};
    syn_json json;
    *ok = false;
    if (a->type != SYN_VALUE_TEXT) return SYN_OK;
    if (syn__et_is_list(field)) {
        syn_json_init(&json, a->name, a->text, strlen(a->text), NULL);
        *ok = syn_json_next(&json) == SYN_JSON_ARRAY_BEGIN &&
              syn__et_parse_list(&json, syn__et_type_of(field), SYN__ET_INT64_LIST_VALUES, &buf) ==
                  SYN_OK;
        syn_json_free(&json);
    } else {
        *ok = syn__et_parse_base64(syn__str_of(a->text), &buf);
    }
    char *copy = buf.failed ? NULL : (char *)syn__arena_get(arena, buf.bytes);
    if (copy != NULL && buf.bytes != 0) memcpy(copy, buf.data, buf.bytes);
    *out = (syn__str){copy, buf.bytes};
    syn__buf_free(&buf);
    return copy != NULL ? SYN_OK : SYN_E_NOMEM;
}

/* Splits "name@type". Without a suffix, the field is the default of the name and value type. */
static void split_name(const syn_attribute *a, syn__str *name, uint32_t *field) {
    const char *at = strrchr(a->name, '@');
    *name = syn__str_of(a->name);
    if (at != NULL) {
        const syn__str suffix = syn__str_of(at + 1);
        const uint32_t found = syn__et_field_by_name(suffix);
        if (found != SYN__ET_NONE || syn__str_is(suffix, "none")) {
            name->bytes = (size_t)(at - a->name);
            *field = found;
            return;
        }
    }
    *field = default_field(*name, a->type);
}

static syn_status fail_value(const syn_attribute *a, uint32_t field, syn_error *err) {
    char buf[80];
    return SYN_FAIL(err, SYN_E_INVALID, "the attribute %.80s cannot be a %s: its value is %s",
                    a->name, syn__et_field_name(field), syn_attribute_text(a, buf, sizeof buf));
}

syn_status syn__et_attr_from_graph(const syn_attribute *attr, syn__arena *arena, syn__et_attr *out,
                                   syn_error *err) {
    uint32_t field;
    *out = (syn__et_attr){.doc = {"", 0}, .data = {"", 0}};
    split_name(attr, &out->name, &field);
    out->field = field;
    out->name = syn__arena_utf8(arena, out->name);
    if (out->name.text == NULL) return SYN_FAIL_NOMEM(err, strlen(attr->name), "a name");
    if (field == SYN__ET_NONE) return SYN_OK;
    const syn__et_type *type = syn__et_type_of(field);
    bool ok = true;
    if (syn__et_is_list(field) || type->form == SYN__ET_FORM_BYTES) {
        if (data_from_graph(attr, field, arena, &out->data, &ok) != SYN_OK)
            return SYN_FAIL_NOMEM(err, strlen(attr->text), "an attribute");
    } else if (type->form == SYN__ET_FORM_STRING) {
        char number[64];
        const char *text = attr->type == SYN_VALUE_TEXT
                               ? attr->text
                               : syn_attribute_text(attr, number, sizeof number);
        const char *kept = text == number ? syn__arena_text(arena, syn__str_of(text)) : text;
        if (kept != NULL) out->data = syn__arena_utf8(arena, syn__str_of(kept));
        if (kept == NULL) out->data.text = NULL;
        if (out->data.text == NULL) return SYN_FAIL_NOMEM(err, strlen(text), "an attribute");
    } else if (type->form == SYN__ET_FORM_FLOAT) {
        ok = float_from_graph(attr, type, &out->bits);
    } else if (type->form == SYN__ET_FORM_BOOL) {
        ok = attr->type == SYN_VALUE_BOOL || attr->type == SYN_VALUE_I64;
        out->bits = attr->i64 != 0;
    } else {
        ok = integer_from_graph(attr, type, &out->bits);
    }
    return ok ? SYN_OK : fail_value(attr, field, err);
}
