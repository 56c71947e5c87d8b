/* Reads, writes and hashes configuration files, using tables that map keys to members
   (settings.h). */
#include "syntorch/base/settings.h"

#include <stdio.h>
#include <string.h>

#include "syntorch/base/intern.h"
#include "syntorch/base/number.h"
#include "syntorch/base/utf8.h"

/* ---- Error messages ---- */

void syn__settings_copy(const char *text, size_t bytes, char *out, size_t out_bytes) {
    size_t used = 0;
    for (size_t at = 0; at < bytes;) {
        const size_t n = syn_utf8_char_bytes(text + at, bytes - at);
        const bool plain = n > 0 && (unsigned char)text[at] >= 0x20 && text[at] != 0x7F;
        const size_t put = plain ? n : 1;
        if (used + put >= out_bytes) break;
        memcpy(out + used, plain ? text + at : "?", put);
        used += put;
        at += n > 0 ? n : 1;
    }
    out[used] = '\0';
}

const char *syn__settings_shown(const syn__settings *s, char buf[64]) {
    syn__settings_copy(s->json.text, s->json.text_bytes, buf, 64);
    return buf;
}

bool syn__settings_text_is(const syn__settings *s, const char *text) {
    return strlen(text) == s->json.text_bytes &&
           memcmp(s->json.text, text, s->json.text_bytes) == 0;
}

static syn_status fail_args(syn__settings *s, const char *fmt, va_list args) {
    char what[384];
    vsnprintf(what, sizeof what, fmt, args);
    s->named = true;
    return syn_json_fail(&s->json, "%s", what);
}

syn_status syn__settings_fail(syn__settings *s, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const syn_status status = fail_args(s, fmt, args);
    va_end(args);
    return status;
}

/* The index of the key's row; n_rows if there is none. */
static size_t find_row(const syn__setting_table *table, const char *key, size_t key_bytes) {
    size_t i = 0;
    while (i < table->n_rows && (strlen(table->rows[i].key) != key_bytes ||
                                 memcmp(table->rows[i].key, key, key_bytes) != 0))
        i++;
    return i;
}

const char *syn__settings_key(const syn__settings *s, const syn__setting_table *table,
                              size_t offset) {
    for (size_t i = 0; i < table->n_rows; i++)
        if (table->rows[i].offset == offset && (s->top.set >> i & 1u) != 0)
            return table->rows[i].key;
    return NULL;
}

syn_status syn__settings_fail_at(syn__settings *s, const syn__setting_table *table, const char *key,
                                 const char *fmt, ...) {
    const size_t row = find_row(table, key, strlen(key));
    if (row < table->n_rows && s->top.at[row] != NULL) {
        /* the parser reports this position */
        s->json.cur = s->top.at[row];
        s->json.type = SYN_JSON_END;
    }
    va_list args;
    va_start(args, fmt);
    const syn_status status = fail_args(s, fmt, args);
    va_end(args);
    return status;
}

/* Describes the last token for the end of an error message: "..., not <token>". */
static const char *found(const syn__settings *s, char buf[64]) {
    switch (s->json.type) {
    case SYN_JSON_NUMBER:
        snprintf(buf, 64, "%.40s%s", s->json.text, s->json.text_bytes > 40 ? "..." : "");
        return buf;
    case SYN_JSON_STRING:
        buf[0] = '"';
        syn__settings_copy(s->json.text, s->json.text_bytes, buf + 1, 41);
        memcpy(buf + strlen(buf), "\"", 2);
        return buf;
    case SYN_JSON_BOOL:
        return s->json.boolean ? "true" : "false";
    case SYN_JSON_OBJECT_BEGIN:
        return "an object";
    case SYN_JSON_ARRAY_BEGIN:
        return "an array";
    default:
        return "null";
    }
}

size_t syn__settings_enter(syn__settings *s, const char *key) {
    const size_t used = strlen(s->path);
    snprintf(s->path + used, sizeof s->path - used, "%s%.40s", used != 0 ? "." : "", key);
    return used;
}

void syn__settings_leave(syn__settings *s, size_t path_bytes) {
    s->path[path_bytes] = '\0';
}

/* ---- Values; each function takes the token that was just read ---- */

static syn_status take_number(syn__settings *s, double min, double max, double *out) {
    char buf[64], low[SYN_NUMBER_TEXT], high[SYN_NUMBER_TEXT];
    const double value = s->json.number;
    if (s->json.type == SYN_JSON_NUMBER && value >= min && value <= max) {
        *out = value;
        return SYN_OK;
    }
    syn_number_text(min, low);
    syn_number_text(max, high);
    return syn__settings_fail(s, "\"%s\" must be a number from %s to %s, not %s", s->path, low,
                              high, found(s, buf));
}

syn_status syn__settings_number(syn__settings *s, double min, double max, double *out) {
    if (syn_json_next(&s->json) == SYN_JSON_ERROR) return s->error.code;
    return take_number(s, min, max, out);
}

static syn_status take_integer(syn__settings *s, const syn__setting *row, int64_t *out) {
    char buf[64];
    const int64_t min = (int64_t)row->min, max = (int64_t)row->max, value = s->json.integer;
    if (s->json.type == SYN_JSON_NUMBER && s->json.is_integer && value >= min && value <= max) {
        *out = value;
        return SYN_OK;
    }
    return syn__settings_fail(s, "\"%s\" must be an integer from %lld to %lld, not %s", s->path,
                              (long long)min, (long long)max, found(s, buf));
}

static syn_status take_name(syn__settings *s, char out[SYN__SETTING_NAME_BYTES]) {
    char buf[64];
    if (s->json.type != SYN_JSON_STRING)
        return syn__settings_fail(s, "\"%s\" must be a string, not %s", s->path, found(s, buf));
    const size_t bytes = s->json.text_bytes;
    bool plain = bytes > 0 && bytes < SYN__SETTING_NAME_BYTES;
    for (size_t i = 0; plain && i < bytes; i++)
        plain = (unsigned char)s->json.text[i] >= 0x20 && s->json.text[i] != 0x7F;
    if (!plain)
        return syn__settings_fail(s,
                                  "\"%s\" must be a string of 1 to %d bytes without control "
                                  "characters",
                                  s->path, SYN__SETTING_NAME_BYTES - 1);
    memcpy(out, s->json.text, bytes + 1);
    return SYN_OK;
}

/* Writes the choices as "a, b or c", as many as fit. */
static void list_choices(const syn__setting_choice *choices, char *buf, size_t buf_bytes) {
    size_t used = 0;
    for (const syn__setting_choice *c = choices; c->text && used < buf_bytes; c++) {
        const char *before = c == choices ? "" : c[1].text ? ", " : " or ";
        const int n = snprintf(buf + used, buf_bytes - used, "%s%s", before, c->text);
        used += n > 0 ? (size_t)n : 0;
    }
}

static syn_status take_choice(syn__settings *s, const syn__setting *row, int32_t *out) {
    char shown[64], known[160];
    if (s->json.type != SYN_JSON_STRING)
        return syn__settings_fail(s, "\"%s\" must be a string", s->path);
    for (const syn__setting_choice *c = row->choices; c->text; c++) {
        if (!syn__settings_text_is(s, c->text)) continue;
        *out = c->value;
        return SYN_OK;
    }
    list_choices(row->choices, known, sizeof known);
    return syn__settings_fail(s, "\"%s\" must be %s, not \"%s\"", s->path, known,
                              syn__settings_shown(s, shown));
}

typedef union scalar {
    double f64;
    int64_t i64;
    int32_t i32;
    bool boolean;
    char name[SYN__SETTING_NAME_BYTES];
} scalar;

/* Size of a scalar row's member; 0 for other rows. */
static size_t scalar_bytes(syn__setting_type type) {
    switch (type) {
    case SYN__SETTING_F64:
        return sizeof(double);
    case SYN__SETTING_I64:
        return sizeof(int64_t);
    case SYN__SETTING_I32:
    case SYN__SETTING_CHOICE:
        return sizeof(int32_t);
    case SYN__SETTING_BOOL:
        return sizeof(bool);
    case SYN__SETTING_NAME:
        return SYN__SETTING_NAME_BYTES;
    default:
        return 0;
    }
}

/* Converts the value of a scalar row to the bytes of its member. */
static syn_status take_scalar(syn__settings *s, const syn__setting *row, scalar *out) {
    char buf[64];
    int64_t integer = 0;
    memset(out, 0, sizeof *out);
    switch (row->type) {
    case SYN__SETTING_F64:
        SYN_TRY(take_number(s, row->min, row->max, &out->f64));
        out->f64 *= row->scale;
        return SYN_OK;
    case SYN__SETTING_I64:
        return take_integer(s, row, &out->i64);
    case SYN__SETTING_I32:
        SYN_TRY(take_integer(s, row, &integer));
        out->i32 = (int32_t)integer;
        return SYN_OK;
    case SYN__SETTING_BOOL:
        if (s->json.type != SYN_JSON_BOOL)
            return syn__settings_fail(s, "\"%s\" must be true or false, not %s", s->path,
                                      found(s, buf));
        out->boolean = s->json.boolean;
        return SYN_OK;
    case SYN__SETTING_CHOICE:
        return take_choice(s, row, &out->i32);
    default:
        return take_name(s, out->name);
    }
}

/* ---- Objects ---- */

/* Whether two scalar rows set the same member. Rows of groups may have the same offset without
   setting the same members. */
static bool same_member(const syn__setting *a, const syn__setting *b) {
    return a->offset == b->offset && a->type == b->type && a->type != SYN__SETTING_GROUP &&
           a->type != SYN__SETTING_CUSTOM;
}

/* The index of another row that has set the same member; `row` if there is none. */
static size_t other_name(const syn__setting_table *table, const syn__setting_marks *marks,
                         size_t row) {
    for (size_t i = 0; i < table->n_rows; i++) {
        if (i != row && (marks->set >> i & 1u) != 0 &&
            same_member(&table->rows[i], &table->rows[row]))
            return i;
    }
    return row;
}

static syn_status read_object(syn__settings *s, const syn__setting_table *table, char *target,
                              syn__setting_marks *marks);

static syn_status read_value(syn__settings *s, const syn__setting_table *table, size_t index,
                             char *target, syn__setting_marks *marks) {
    const syn__setting *row = &table->rows[index];
    char *member = target + row->offset;
    if (row->type == SYN__SETTING_CUSTOM) {
        marks->set |= (uint64_t)1 << index;
        return row->read(s, member);
    }
    if (syn_json_next(&s->json) == SYN_JSON_ERROR) return s->error.code;
    if (s->json.type == SYN_JSON_NULL && (row->flags & SYN__SETTING_NONE) != 0) {
        marks->set |= (uint64_t)1 << index;
        *(int64_t *)member = -1;
        return SYN_OK;
    }
    if (s->json.type == SYN_JSON_NULL && (row->flags & SYN__SETTING_NULLABLE) != 0) return SYN_OK;
    marks->at[index] = s->json.cur - (s->json.type == SYN_JSON_NUMBER ? s->json.text_bytes : 0);
    if (row->type == SYN__SETTING_GROUP) {
        syn__setting_marks inner = {0};
        marks->set |= (uint64_t)1 << index;
        return read_object(s, row->group, member, &inner);
    }
    scalar value;
    const size_t bytes = scalar_bytes(row->type);
    SYN_TRY(take_scalar(s, row, &value));
    const size_t other = other_name(table, marks, index);
    if (other != index && memcmp(member, &value, bytes) != 0)
        return syn__settings_fail(s, "\"%s\" contradicts its synonym \"%s\"", row->key,
                                  table->rows[other].key);
    memcpy(member, &value, bytes);
    marks->set |= (uint64_t)1 << index;
    return SYN_OK;
}

/* Lists as many keys of a table as fit, then "..." if some are missing. */
static void list_keys(const syn__setting_table *table, char *buf, size_t buf_bytes) {
    size_t used = 0;
    for (size_t i = 0; i < table->n_rows; i++) {
        const char *key = table->rows[i].key, *before = i != 0 ? ", " : "";
        const size_t more = strlen(before) + strlen(key);
        const bool last = i + 1 == table->n_rows;
        if (used + more + (last ? 0 : strlen(", ...")) >= buf_bytes) {
            snprintf(buf + used, buf_bytes - used, ", ...");
            return;
        }
        snprintf(buf + used, buf_bytes - used, "%s%s", before, key);
        used += more;
    }
}

static syn_status unknown_key(syn__settings *s, const syn__setting_table *table, const char *key) {
    char known[256] = "";
    const char *quote = s->path[0] != '\0' ? "\"" : "";
    const char *in = s->path[0] != '\0' ? " in " : "";
    if (table->ignore_unknown)
        return syn__settings_fail(s,
                                  "unknown key \"%s\"%s%s%s%s: it may change the model in an "
                                  "unsupported way; remove it if it has no effect",
                                  key, in, quote, s->path, quote);
    list_keys(table, known, sizeof known);
    return syn__settings_fail(s, "unknown key \"%s\"%s%s%s%s; valid keys are %s", key, in, quote,
                              s->path, quote, known);
}

syn_status syn__settings_empty(syn__settings *s, bool *empty) {
    const syn_json_type type = syn_json_next(&s->json);
    *empty = type == SYN_JSON_NULL || (type == SYN_JSON_BOOL && !s->json.boolean) ||
             (type == SYN_JSON_NUMBER && s->json.number == 0) ||
             (type == SYN_JSON_STRING && s->json.text_bytes == 0);
    if (type == SYN_JSON_OBJECT_BEGIN) *empty = syn_json_next(&s->json) == SYN_JSON_OBJECT_END;
    if (type == SYN_JSON_ARRAY_BEGIN) *empty = syn_json_next(&s->json) == SYN_JSON_ARRAY_END;
    return s->json.type == SYN_JSON_ERROR ? s->error.code : SYN_OK;
}

static const syn__setting_restricted *find_refused(const syn__settings *s,
                                                   const syn__setting_table *table) {
    for (const syn__setting_restricted *r = table->refused; r && r->key; r++)
        if (syn__settings_text_is(s, r->key)) return r;
    return NULL;
}

/* Reads an entry whose key has no row. */
static syn_status read_unknown(syn__settings *s, const syn__setting_table *table) {
    const syn__setting_restricted *refused = find_refused(s, table);
    const char *at = s->json.cur;
    char key[64];
    (void)syn__settings_shown(s, key);
    if (table->ignore_unknown && !refused) return syn_json_skip(&s->json) ? SYN_OK : s->error.code;
    if (refused) {
        bool empty = false;
        const int depth = s->json.depth; /* larger than before if the value is a list or object that
                                            is not empty */
        SYN_TRY(syn__settings_empty(s, &empty));
        const bool number = s->json.type == SYN_JSON_NUMBER && s->json.depth == depth;
        if (empty || (number && s->json.number == refused->neutral)) return SYN_OK;
        s->json.cur = at; /* position of the error */
        s->json.type = SYN_JSON_END;
    }
    return unknown_key(s, table, key);
}

static syn_status read_entry(syn__settings *s, const syn__setting_table *table, char *target,
                             syn__setting_marks *marks) {
    const size_t row = find_row(table, s->json.text, s->json.text_bytes);
    if (row == table->n_rows) return read_unknown(s, table);
    const uint64_t bit = (uint64_t)1 << row;
    const size_t outer = syn__settings_enter(s, table->rows[row].key);
    if ((marks->seen & bit) != 0) return syn__settings_fail(s, "\"%s\" appears twice", s->path);
    marks->seen |= bit;
    SYN_TRY(read_value(s, table, row, target, marks));
    syn__settings_leave(s, outer); /* not called after a failure, because the error message may need
                                      the path */
    return SYN_OK;
}

static syn_status check_required(syn__settings *s, const syn__setting_table *table,
                                 const syn__setting_marks *marks) {
    for (size_t i = 0; i < table->n_rows; i++) {
        const syn__setting *row = &table->rows[i];
        if ((row->flags & SYN__SETTING_REQUIRED) == 0 || (marks->set >> i & 1u) != 0 ||
            other_name(table, marks, i) != i)
            continue;
        char also[160] = "";
        size_t used = 0;
        for (size_t k = i + 1; k < table->n_rows && used < sizeof also; k++) {
            if (!same_member(&table->rows[k], row)) continue;
            const int n =
                snprintf(also + used, sizeof also - used, " or \"%s\"", table->rows[k].key);
            used += n > 0 ? (size_t)n : 0;
        }
        return syn__settings_fail(s, "%s%s%s lacks \"%s\"%s", s->path[0] != '\0' ? "\"" : "",
                                  s->path[0] != '\0' ? s->path : "the file",
                                  s->path[0] != '\0' ? "\"" : "", row->key, also);
    }
    return SYN_OK;
}

/* Reads an object after its first token. The depth of the recursion is limited by the tables, not
   by the file. */
static syn_status read_object(syn__settings *s, const syn__setting_table *table, char *target,
                              syn__setting_marks *marks) {
    char buf[64];
    if (s->json.type != SYN_JSON_OBJECT_BEGIN)
        return syn__settings_fail(s, "%s%s%s must be an object, not %s",
                                  s->path[0] != '\0' ? "\"" : "",
                                  s->path[0] != '\0' ? s->path : "the file",
                                  s->path[0] != '\0' ? "\"" : "", found(s, buf));
    for (;;) {
        const syn_json_type type = syn_json_next(&s->json);
        if (type == SYN_JSON_ERROR) return s->error.code;
        if (type == SYN_JSON_OBJECT_END) return check_required(s, table, marks);
        SYN_TRY(read_entry(s, table, target, marks));
    }
}

void syn__settings_begin(syn__settings *s, const char *name, const char *json, size_t bytes) {
    memset(s, 0, sizeof *s);
    syn_json_init(&s->json, name, json, bytes, &s->error);
}

syn_status syn__settings_read(syn__settings *s, const syn__setting_table *table, void *target) {
    if (syn_json_next(&s->json) == SYN_JSON_ERROR) return s->error.code;
    SYN_TRY(read_object(s, table, (char *)target, &s->top));
    return syn_json_next(&s->json) == SYN_JSON_ERROR ? s->error.code : SYN_OK;
}

syn_status syn__settings_end(syn__settings *s, syn_error *err) {
    syn_json_free(&s->json);
    if (s->error.code == SYN_OK) return SYN_OK;
    if (s->error.code == SYN_E_FORMAT && !s->named && s->path[0] != '\0')
        return SYN_FAIL(err, s->error.code, "%s (in \"%s\")", s->error.text, s->path);
    return SYN_FAIL(err, s->error.code, "%s", s->error.text);
}

/* ---- Writing and hashing ---- */

static void write_scalar(const syn__setting *row, const scalar *value, syn_sink *out) {
    const syn__setting_choice *c = row->choices;
    switch (row->type) {
    case SYN__SETTING_F64:
        syn_sink_double(out, value->f64 / row->scale);
        return;
    case SYN__SETTING_I64:
        if ((row->flags & SYN__SETTING_NONE) != 0 && value->i64 < 0) syn_sink_text(out, "null");
        else syn_sink_i64(out, value->i64);
        return;
    case SYN__SETTING_I32:
        syn_sink_i64(out, value->i32);
        return;
    case SYN__SETTING_BOOL:
        syn_sink_text(out, value->boolean ? "true" : "false");
        return;
    case SYN__SETTING_CHOICE:
        while (c[1].text && c->value != value->i32) c++;
        syn_sink_json_string(out, c->text);
        return;
    default:
        syn_sink_json_string(out, value->name);
    }
}

void syn__settings_write(const syn__setting_table *table, const void *source, syn_sink *out) {
    for (size_t i = 0; i < table->n_rows; i++) {
        const syn__setting *row = &table->rows[i];
        const char *member = (const char *)source + row->offset;
        scalar value;
        if ((row->flags & SYN__SETTING_SAVED) == 0) continue;
        if (row->write) {
            row->write(out, member);
            continue;
        }
        memcpy(&value, member, scalar_bytes(row->type));
        syn_sink_printf(out, ",\n  \"%s\": ", row->key);
        write_scalar(row, &value, out);
    }
}

uint64_t syn__settings_hash(const syn__setting_table *table, const void *source, uint64_t seed) {
    uint64_t h = seed;
    for (size_t i = 0; i < table->n_rows; i++) {
        const syn__setting *row = &table->rows[i];
        const uint32_t how = row->flags & (SYN__SETTING_SAVED | SYN__SETTING_UNHASHED);
        if (how == SYN__SETTING_SAVED)
            h = syn_hash((const char *)source + row->offset, scalar_bytes(row->type), h);
    }
    return h;
}

void syn__settings_base_name(const char *path, char out[SYN__SETTING_NAME_BYTES]) {
    const char *end = path + strlen(path);
    for (;;) {
        while (end > path && end[-1] == '/') end--;
        const char *begin = end;
        while (begin > path && begin[-1] != '/') begin--;
        const size_t bytes = (size_t)(end - begin);
        if (bytes == strlen("config.json") && memcmp(begin, "config.json", bytes) == 0 &&
            begin > path + 1) {
            end = begin;
            continue;
        }
        const bool json = bytes > 5 && memcmp(end - 5, ".json", 5) == 0;
        syn__settings_copy(begin, bytes - (json ? 5 : 0), out, SYN__SETTING_NAME_BYTES);
        return;
    }
}
