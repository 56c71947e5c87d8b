/* Converts tokens of node-link JSON to typed values; see nodelink_values.h. */
#include "export/nodelink/nodelink_values.h"

#include "syntorch/base/memory.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EXACT_F64 9007199254740992.0 /* 2^53: integers up to here are exact doubles */

#define SYN_X(id, name) name,
static const char *const class_names[] = {SYN_DEP_LIST(SYN_X)};
#undef SYN_X
static const char *const role_names[] = {"param", "input", "state"};

#define N_CLASSES (sizeof class_names / sizeof class_names[0])

static syn_status out_of_memory(syn__nodelink_file *r) {
    return SYN_FAIL(r->found.err, SYN_E_NOMEM, "out of memory while reading %s (%zu bytes)",
                    r->found.name, r->found.bytes);
}

/* Copies the text of the last token, which is a string or a key. */
static syn_status keep_text(syn__nodelink_file *r, const char *what, const char **out) {
    if (memchr(r->json.text, '\0', r->json.text_bytes) != NULL)
        return syn_json_fail(&r->json, "%s must not contain the character U+0000", what);
    *out = syn__arena_text(&r->found.arena, (syn__str){r->json.text, r->json.text_bytes});
    return *out != NULL ? SYN_OK : out_of_memory(r);
}

syn_status syn__take_text(syn__nodelink_file *r, const char *what, const char **out) {
    if (r->json.type != SYN_JSON_STRING)
        return syn_json_fail(&r->json, "%s must be a string", what);
    return keep_text(r, what, out);
}

/* Also accepts "4096.0", because some programs convert integers to floats. */
syn_status syn__take_i64(syn__nodelink_file *r, const char *what, int64_t min, int64_t max,
                         int64_t *out) {
    const syn_json *json = &r->json;
    int64_t value = 0;
    bool ok = json->type == SYN_JSON_NUMBER;
    if (ok && json->is_integer) {
        value = json->integer;
    } else if (ok && fabs(json->number) <= MAX_EXACT_F64 && floor(json->number) == json->number) {
        value = (int64_t)json->number;
    } else {
        ok = false;
    }
    if (!ok || value < min || value > max)
        return syn_json_fail(&r->json, "%s must be an integer from %lld to %lld", what,
                             (long long)min, (long long)max);
    *out = value;
    return SYN_OK;
}

syn_status syn__take_u64(syn__nodelink_file *r, const char *what, uint64_t *out) {
    int64_t small = 0;
    if (r->json.type == SYN_JSON_NUMBER && !r->json.is_integer &&
        r->json.text[strspn(r->json.text, "0123456789")] == '\0') { /* larger than int64 */
        errno = 0;
        const unsigned long long big = strtoull(r->json.text, NULL, 10);
        if (errno != 0)
            return syn_json_fail(&r->json, "%s must be below 2^64, not %.40s", what, r->json.text);
        *out = big;
        return SYN_OK;
    }
    SYN_TRY(syn__take_i64(r, what, 0, INT64_MAX, &small));
    *out = (uint64_t)small;
    return SYN_OK;
}

/* Parses decimal digits without sign or leading zeros. Returns their end; NULL if there are none or
   the value exceeds max. */
static const char *parse_number(const char *p, uint64_t max, uint64_t *out) {
    uint64_t value = 0;
    if (*p < '0' || *p > '9' || (*p == '0' && p[1] >= '0' && p[1] <= '9')) return NULL;
    for (; *p >= '0' && *p <= '9'; p++) {
        const uint64_t digit = (uint64_t)(*p - '0');
        if (value > (max - digit) / 10) return NULL;
        value = value * 10 + digit;
    }
    *out = value;
    return p;
}

syn_status syn__take_key(syn__nodelink_file *r, const char *what, int64_t min, int64_t max,
                         int64_t *out) {
    syn_json *json = &r->json;
    const bool minus = json->text[0] == '-';
    uint64_t size = 0;
    const char *p = parse_number(json->text + minus, INT64_MAX, &size);
    *out = minus ? -(int64_t)size : (int64_t)size;
    if (p != NULL && p == json->text + json->text_bytes && *out >= min && *out <= max)
        return SYN_OK;
    return syn_json_fail(json, "%s must be an integer from %lld to %lld, not \"%.40s\"", what,
                         (long long)min, (long long)max, json->text);
}

/* Whether the text is "g1.3", a meeting node of a group, or "end". */
static bool is_derived(const char *text) {
    uint64_t number;
    if (strcmp(text, "end") == 0) return true;
    const char *p = text[0] == 'g' ? parse_number(text + 1, UINT32_MAX, &number) : NULL;
    if (p != NULL && *p == '.') p = parse_number(p + 1, UINT32_MAX, &number);
    else p = NULL;
    return p != NULL && *p == '\0';
}

syn_status syn__take_ref(syn__nodelink_file *r, const char *what, syn__found_ref *out) {
    const syn_json *json = &r->json;
    uint64_t rank = 0, number = 0;
    const char *p = NULL;
    char kind = 0;
    if (json->type == SYN_JSON_STRING && is_derived(json->text)) {
        *out = (syn__found_ref){.kind = 'g'};
        return SYN_OK;
    }
    if (json->type == SYN_JSON_STRING && json->text[0] == 'r')
        p = parse_number(json->text + 1, INT32_MAX, &rank);
    if (p != NULL && p[0] == '.' && (p[1] == 'o' || p[1] == 't')) {
        kind = p[1];
        p = parse_number(p + 2, UINT64_MAX, &number);
    } else {
        p = NULL;
    }
    if (p == NULL || p != json->text + json->text_bytes)
        return syn_json_fail(&r->json, "%s must be like \"r0.o12\" (op) or \"r0.t7\" (tensor)",
                             what);
    *out = (syn__found_ref){number, (int32_t)rank, kind};
    return SYN_OK;
}

syn_status syn__take_name(syn__nodelink_file *r, const char *key, const char *const *names,
                          size_t n_names, int32_t *out) {
    for (size_t i = 0; r->json.type == SYN_JSON_STRING && i < n_names; i++) {
        if (strcmp(r->json.text, names[i]) != 0) continue;
        *out = (int32_t)i;
        return SYN_OK;
    }
    if (r->json.type != SYN_JSON_STRING) return syn_json_fail(&r->json, "%s must be a string", key);
    return syn_json_fail(&r->json, "unknown %s \"%.60s\" (valid: %s, %s, ...)", key, r->json.text,
                         names[0], names[1]);
}

/* Parses "a|b" to bits 1 << index in names. Returns false if a name is unknown. */
static bool parse_set(const char *text, const char *const *names, size_t n_names, uint32_t *out) {
    uint32_t bits = 0;
    for (const char *p = text;; p++) {
        const size_t len = strcspn(p, "|");
        size_t i = 0;
        while (i < n_names && (strlen(names[i]) != len || memcmp(names[i], p, len) != 0)) i++;
        if (i == n_names) return false;
        bits |= 1u << i;
        p += len;
        if (*p == '\0') break;
    }
    *out = bits;
    return true;
}

syn_status syn__take_role(syn__nodelink_file *r, uint32_t *out) {
    *out = 0;
    if (r->json.type == SYN_JSON_STRING &&
        (strcmp(r->json.text, "activation") == 0 || parse_set(r->json.text, role_names, 3, out)))
        return SYN_OK;
    return syn_json_fail(&r->json, "role must be activation, param, input or state");
}

syn_status syn__take_edge_kind(syn__nodelink_file *r, uint32_t *out) {
    if (r->json.type == SYN_JSON_STRING) {
        if (strcmp(r->json.text, "input") == 0) *out = SYN__EDGE_INPUT;
        else if (strcmp(r->json.text, "output") == 0) *out = SYN__EDGE_OUTPUT;
        else if (!parse_set(r->json.text, class_names, N_CLASSES, out)) *out = 0;
        if (*out != 0) return SYN_OK;
    }
    return syn_json_fail(&r->json, "an edge's kind must be input, output, or classes of dependency "
                                   "such as \"control\" or \"data|stream\"");
}

syn_status syn__take_shape(syn__nodelink_file *r, syn_spec *spec) {
    syn_json *json = &r->json;
    if (json->type != SYN_JSON_ARRAY_BEGIN)
        return syn_json_fail(json, "shape must be a list of integers");
    spec->rank = 0;
    while (syn_json_next(json) != SYN_JSON_ARRAY_END) {
        if (json->type == SYN_JSON_ERROR) return json->err->code;
        if (spec->rank == SYN_MAX_RANK)
            return syn_json_fail(json, "a shape has at most %d dimensions", SYN_MAX_RANK);
        SYN_TRY(syn__take_i64(r, "a dimension", 0, INT64_MAX, &spec->dims[spec->rank]));
        spec->rank++;
    }
    return SYN_OK;
}

syn_status syn__take_shard(syn__nodelink_file *r, syn_shard *shard) {
    syn_json *json = &r->json;
    int *const into[] = {&shard->axis, &shard->parts, &shard->index, &shard->count};
    size_t n = 0;
    if (json->type != SYN_JSON_ARRAY_BEGIN)
        return syn_json_fail(json, "a shard must be a list of four integers");
    while (syn_json_next(json) != SYN_JSON_ARRAY_END) {
        int64_t value = 0;
        if (json->type == SYN_JSON_ERROR) return json->err->code;
        if (n == 4) break;
        SYN_TRY(syn__take_i64(r, "a number of a shard", 0, INT32_MAX, &value));
        *into[n++] = (int)value;
    }
    if (n < 4 || json->type != SYN_JSON_ARRAY_END)
        return syn_json_fail(json, "a shard must be a list of four integers");
    return SYN_OK;
}

/* Reads {"f64":"inf"}, the only object allowed as an attribute's value. Sets *known to false for
   other objects. */
static syn_status take_odd_float(syn__nodelink_file *r, syn_attribute *a, bool *known) {
    syn_json *json = &r->json;
    *known = false;
    while (syn_json_next(json) == SYN_JSON_KEY) {
        const bool is_f64 = strcmp(json->text, "f64") == 0;
        syn_json_next(json);
        if (is_f64 && json->type == SYN_JSON_STRING) {
            *known = true;
            a->type = SYN_VALUE_F64;
            if (strcmp(json->text, "nan") == 0) a->f64 = (double)NAN;
            else if (strcmp(json->text, "inf") == 0) a->f64 = (double)INFINITY;
            else if (strcmp(json->text, "-inf") == 0) a->f64 = -(double)INFINITY;
            else *known = false;
        } else if (json->type == SYN_JSON_ERROR || !syn_json_skip(json)) {
            return json->err->code;
        }
    }
    return json->type == SYN_JSON_ERROR ? json->err->code : SYN_OK;
}

static syn_status take_attribute_value(syn__nodelink_file *r, syn_attribute *a, bool *known) {
    syn_json *json = &r->json;
    *known = true;
    switch (json->type) {
    case SYN_JSON_NUMBER:
        a->type = json->is_integer ? SYN_VALUE_I64 : SYN_VALUE_F64;
        if (json->is_integer) a->i64 = json->integer;
        else a->f64 = json->number;
        return SYN_OK;
    case SYN_JSON_BOOL:
        a->type = SYN_VALUE_BOOL;
        a->i64 = json->boolean;
        return SYN_OK;
    case SYN_JSON_STRING:
        a->type = SYN_VALUE_TEXT;
        return syn__take_text(r, "an attribute", &a->text);
    case SYN_JSON_OBJECT_BEGIN:
        return take_odd_float(r, a, known);
    case SYN_JSON_ERROR:
        return json->err->code;
    default:
        *known = false;
        return syn_json_skip(json) ? SYN_OK : json->err->code;
    }
}

/* Reads an object into r->attributes. Values that are lists, objects or null are skipped. */
syn_status syn__take_attributes(syn__nodelink_file *r, const char *what) {
    syn_json *json = &r->json;
    r->n_attributes = 0;
    if (json->type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(json, "%s must be an object", what);
    while (syn_json_next(json) == SYN_JSON_KEY) {
        syn_attribute a = {.type = SYN_VALUE_I64};
        bool known;
        SYN_TRY(keep_text(r, "an attribute's name", &a.name));
        syn_json_next(json);
        SYN_TRY(take_attribute_value(r, &a, &known));
        if (!known) continue;
        SYN_TRY(syn_grow(&r->attributes, &r->attributes_cap, r->n_attributes + 1,
                         sizeof *r->attributes, r->found.err));
        r->attributes[r->n_attributes++] = a;
    }
    return json->type == SYN_JSON_ERROR ? json->err->code : SYN_OK;
}

syn_status syn__keep_attributes(syn__nodelink_file *r, syn_node *node) {
    SYN_TRY(syn__take_attributes(r, "attributes"));
    if (r->n_attributes == 0) return SYN_OK;
    const size_t bytes = r->n_attributes * sizeof *r->attributes;
    syn_attribute *copy = syn__arena_get(&r->found.arena, bytes);
    if (copy == NULL) return out_of_memory(r);
    node->attributes = memcpy(copy, r->attributes, bytes);
    node->n_attributes = (uint32_t)r->n_attributes;
    return SYN_OK;
}

syn_status syn__take_positions(syn__nodelink_file *r) {
    syn_json *json = &r->json;
    r->n_positions = 0;
    if (json->type != SYN_JSON_ARRAY_BEGIN)
        return syn_json_fail(json, "positions must be a list of integers");
    while (syn_json_next(json) != SYN_JSON_ARRAY_END) {
        int64_t value = 0;
        if (json->type == SYN_JSON_ERROR) return json->err->code;
        SYN_TRY(syn__take_i64(r, "a position", 0, INT32_MAX, &value));
        SYN_TRY(syn_grow(&r->positions, &r->positions_cap, r->n_positions + 1, sizeof *r->positions,
                         r->found.err));
        r->positions[r->n_positions++] = (uint32_t)value;
    }
    return SYN_OK;
}
