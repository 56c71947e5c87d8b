/* The JSON parser (json.h). */
#include "syntorch/base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/number.h"
#include "syntorch/base/utf8.h"

/* The values of json->state: what may come next. After a failure, the state is the negated
   status. */
enum {
    WANT_VALUE,
    WANT_VALUE_OR_END, /* after [ */
    WANT_KEY,
    WANT_KEY_OR_END, /* after { */
    WANT_COLON,
    WANT_COMMA_OR_END,
    WANT_NOTHING /* end of the document */
};

enum { IN_ARRAY, IN_OBJECT };

/* ---- Errors ---- */

/* Finds the line and column of `at`, which count from 1. Columns count characters, not bytes. */
static void position(const syn_json *json, const char *at, size_t *line, size_t *column) {
    *line = *column = 1;
    for (const char *p = json->begin; p < at; p++) {
        if (*p == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)*p & 0xC0u) != 0x80u) {
            ++*column;
        }
    }
}

static void fail_with(syn_json *json, syn_status code) {
    json->type = SYN_JSON_ERROR;
    json->state = -(int)code;
}

static syn_json_type fail_at(syn_json *json, const char *at, const char *what) {
    size_t line, column;
    position(json, at, &line, &column);
    (void)SYN_FAIL(json->err, SYN_E_FORMAT, "%.200s:%zu:%zu: %s", json->name, line, column, what);
    fail_with(json, SYN_E_FORMAT);
    return SYN_JSON_ERROR;
}

/* Fails with "expected a value, not 'x'", where x is the character at `at`. */
static syn_json_type fail_unexpected(syn_json *json, const char *at, const char *wanted) {
    char what[128];
    const unsigned char c = at < json->end ? (unsigned char)*at : 0;
    if (at == json->end)
        snprintf(what, sizeof what, "expected %s, but the document ends here", wanted);
    else if (c > 0x20 && c < 0x7F) snprintf(what, sizeof what, "expected %s, not '%c'", wanted, c);
    else snprintf(what, sizeof what, "expected %s, not the byte 0x%02X", wanted, c);
    return fail_at(json, at, what);
}

/* The start of the last token, which ends at cur. A string's opening quote is found by going
   backwards: each quote inside the string follows a backslash, and the opening quote does not. */
static const char *token_start(const syn_json *json) {
    const char *p = json->cur;
    switch (json->type) {
    case SYN_JSON_NUMBER:
        return p - json->text_bytes;
    case SYN_JSON_BOOL:
        return p - (json->boolean ? 4 : 5);
    case SYN_JSON_NULL:
        return p - 4;
    case SYN_JSON_OBJECT_BEGIN:
    case SYN_JSON_OBJECT_END:
    case SYN_JSON_ARRAY_BEGIN:
    case SYN_JSON_ARRAY_END:
        return p - 1;
    case SYN_JSON_KEY:
    case SYN_JSON_STRING:
        break;
    default:
        return p;
    }
    do p--;
    while (p[-1] != '"' || (p - 1 > json->begin && p[-2] == '\\'));
    return p - 1;
}

syn_status syn_json_fail(syn_json *json, const char *fmt, ...) {
    if (json->state < 0) return (syn_status)-json->state;
    char what[384];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    (void)fail_at(json, token_start(json), what);
    return SYN_E_FORMAT;
}

/* ---- Strings ---- */

static bool reserve_scratch(syn_json *json, size_t bytes) {
    const syn_status status = syn_grow(&json->scratch, &json->scratch_cap, bytes, 1, json->err);
    if (status != SYN_OK) fail_with(json, status);
    return status == SYN_OK;
}

/* Appends bytes to the *used bytes in scratch, and leaves space for a NUL. */
static bool append(syn_json *json, size_t *used, const char *data, size_t bytes) {
    if (!reserve_scratch(json, *used + bytes + 1)) return false;
    memcpy(json->scratch + *used, data, bytes);
    *used += bytes;
    return true;
}

/* The end of the longest run of characters at p that are not escaped. */
static const char *plain_end(const char *p, const char *end) {
    while (p < end) {
        const unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\' || c < 0x20) break;
        const size_t n = c < 0x80 ? 1 : syn_utf8_char_bytes(p, (size_t)(end - p));
        if (n == 0) break;
        p += n;
    }
    return p;
}

/* Reads four hex digits; -1 if there are none. */
static int32_t hex4(const char *p, const char *end) {
    int32_t value = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const char c = p[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* Reads an escape \uXXXX; if it is a surrogate, also reads the second \uXXXX of the pair. *cur is
   at the backslash, and is moved to the end of the escape. */
static bool unicode_escape(syn_json *json, const char **cur, size_t *used) {
    const char *p = *cur, *end = json->end;
    int32_t code = hex4(p + 2, end);
    if (code < 0) return fail_at(json, p, "\\u is not followed by four hex digits"), false;
    *cur = p + 6;
    if (code >= 0xD800 && code <= 0xDFFF) {
        const bool pair = code <= 0xDBFF && end - p >= 12 && p[6] == '\\' && p[7] == 'u';
        const int32_t low = pair ? hex4(p + 8, end) : -1;
        if (low < 0xDC00 || low > 0xDFFF)
            return fail_at(json, p, "unpaired surrogate in a string"), false;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        *cur = p + 12;
    }
    char utf8[4];
    return append(json, used, utf8, syn_utf8_encode((unsigned)code, utf8));
}

static bool escape(syn_json *json, const char **cur, size_t *used) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *p = *cur;
    if (p + 1 < json->end && p[1] == 'u') return unicode_escape(json, cur, used);
    const char *at = p + 1 < json->end && p[1] != '\0' ? strchr(from, p[1]) : NULL;
    if (at == NULL) {
        (void)fail_at(json, p,
                      p + 1 < json->end ? "unknown escape in a string"
                                        : "the document ends inside a string");
        return false;
    }
    *cur = p + 2;
    return append(json, used, &to[at - from], 1);
}

/* Reads the string that starts at cur. */
static bool read_string(syn_json *json) {
    const char *p = json->cur + 1;
    size_t used = 0;
    for (;;) {
        const char *stop = plain_end(p, json->end);
        if (!append(json, &used, p, (size_t)(stop - p))) return false;
        p = stop;
        if (p == json->end) {
            (void)fail_at(json, json->cur, "unterminated string");
            return false;
        }
        if (*p == '"') break;
        if (*p != '\\') {
            (void)fail_at(json, p,
                          (unsigned char)*p < 0x20 ? "a string has an unescaped control character"
                                                   : "a string is not valid UTF-8");
            return false;
        }
        if (!escape(json, &p, &used)) return false;
    }
    json->scratch[used] = '\0';
    json->text = json->scratch;
    json->text_bytes = used;
    json->cur = p + 1;
    return true;
}

/* ---- Numbers and words ---- */

static bool in_number(char c) {
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/* Reads "-?[0-9]+". Returns false if the integer does not fit in int64. */
static bool read_integer(const char *p, const char *end, int64_t *out) {
    const bool negative = *p == '-';
    const uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    uint64_t value = 0;
    for (p += negative; p < end; p++) {
        if (*p < '0' || *p > '9') return false;
        const uint64_t digit = (uint64_t)(*p - '0');
        if (value > (limit - digit) / 10) return false;
        value = value * 10 + digit;
    }
    *out = !negative ? (int64_t)value : value == 0 ? 0 : -(int64_t)(value - 1) - 1;
    return true;
}

static syn_json_type read_number(syn_json *json) {
    const char *p = json->cur;
    while (p < json->end && in_number(*p)) p++;
    const size_t bytes = (size_t)(p - json->cur);
    size_t used = 0;
    if (!append(json, &used, json->cur, bytes)) return SYN_JSON_ERROR;
    json->scratch[used] = '\0';
    json->integer = 0;
    json->is_integer = read_integer(json->scratch, json->scratch + bytes, &json->integer);
    if (!syn_number_parse(json->scratch, bytes, &json->number))
        return fail_at(json, json->cur, "this is not a JSON number");
    if (!isfinite(json->number)) return fail_at(json, json->cur, "this number is too large");
    json->text = json->scratch;
    json->text_bytes = bytes;
    json->cur = p;
    return SYN_JSON_NUMBER;
}

static syn_json_type read_word(syn_json *json) {
    static const struct {
        const char *word;
        size_t bytes;
        syn_json_type type;
    } words[] = {
        {"true", 4, SYN_JSON_BOOL}, {"false", 5, SYN_JSON_BOOL}, {"null", 4, SYN_JSON_NULL}};
    const size_t left = (size_t)(json->end - json->cur);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (left < words[i].bytes || memcmp(json->cur, words[i].word, words[i].bytes) != 0)
            continue;
        json->cur += words[i].bytes;
        json->boolean = i == 0;
        return words[i].type;
    }
    return fail_unexpected(json, json->cur, "a value");
}

/* ---- Parser ---- */

void syn_json_init(syn_json *json, const char *name, const char *data, size_t bytes,
                   syn_error *err) {
    memset(json, 0, sizeof *json);
    json->name = name;
    json->begin = json->cur = bytes != 0 ? data : "";
    json->end = json->begin + bytes;
    json->state = WANT_VALUE;
    json->err = err;
}

static void skip_space(syn_json *json) {
    const char *p = json->cur;
    while (p < json->end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
    json->cur = p;
}

static void value_is_over(syn_json *json) {
    json->state = json->depth == 0 ? WANT_NOTHING : WANT_COMMA_OR_END;
}

static syn_json_type open_nested(syn_json *json, bool object) {
    if (json->depth == SYN_JSON_DEPTH)
        return fail_at(json, json->cur, "objects and arrays are nested more than 128 deep");
    json->stack[json->depth++] = object ? IN_OBJECT : IN_ARRAY;
    json->state = object ? WANT_KEY_OR_END : WANT_VALUE_OR_END;
    json->cur++;
    return object ? SYN_JSON_OBJECT_BEGIN : SYN_JSON_ARRAY_BEGIN;
}

static syn_json_type close_nested(syn_json *json) {
    json->cur++;
    const bool object = json->stack[--json->depth] == IN_OBJECT;
    value_is_over(json);
    return object ? SYN_JSON_OBJECT_END : SYN_JSON_ARRAY_END;
}

static syn_json_type read_value(syn_json *json) {
    const char c = *json->cur;
    if (c == '{' || c == '[') return open_nested(json, c == '{');
    syn_json_type type;
    if (c == '"') type = read_string(json) ? SYN_JSON_STRING : SYN_JSON_ERROR;
    else if (c == '-' || (c >= '0' && c <= '9')) type = read_number(json);
    else type = read_word(json);
    if (type != SYN_JSON_ERROR) value_is_over(json);
    return type;
}

static syn_json_type read_key(syn_json *json) {
    if (!read_string(json)) return SYN_JSON_ERROR;
    json->state = WANT_COLON;
    return SYN_JSON_KEY;
}

/* Reads the comma or colon before the next token. Returns false and sets *type on error, or if an
   object or array ends here instead. */
static bool read_separator(syn_json *json, syn_json_type *type) {
    const bool object = json->depth > 0 && json->stack[json->depth - 1] == IN_OBJECT;
    const char c = json->cur < json->end ? *json->cur : '\0';
    const int state = json->state;
    *type = SYN_JSON_ERROR;
    if (state == WANT_COLON) {
        if (c != ':') return fail_unexpected(json, json->cur, "':' after a key"), false;
        json->state = WANT_VALUE;
    } else if (state == WANT_COMMA_OR_END && c == ',') {
        json->state = object ? WANT_KEY : WANT_VALUE;
    } else if (state == WANT_VALUE || state == WANT_KEY) {
        return true;
    } else if (c == (object ? '}' : ']')) {
        *type = close_nested(json);
        return false;
    } else if (state == WANT_COMMA_OR_END) {
        return fail_unexpected(json, json->cur, object ? "',' or '}'" : "',' or ']'"), false;
    } else { /* before the first value or key there is no separator */
        return true;
    }
    json->cur++;
    skip_space(json);
    return true;
}

static syn_json_type read_token(syn_json *json) {
    static const char bom[] = "\xEF\xBB\xBF";
    if (json->cur == json->begin && json->end - json->begin >= 3 && memcmp(json->cur, bom, 3) == 0)
        return fail_at(json, json->cur, "the document starts with a byte order mark; remove it");
    skip_space(json);
    if (json->state == WANT_NOTHING) {
        if (json->cur == json->end) return SYN_JSON_END;
        return fail_unexpected(json, json->cur, "the end of the document");
    }
    syn_json_type type;
    if (!read_separator(json, &type)) return type;
    const bool key = json->state == WANT_KEY || json->state == WANT_KEY_OR_END;
    if (json->cur == json->end || (key && *json->cur != '"'))
        return fail_unexpected(json, json->cur,
                               json->state == WANT_KEY          ? "a key in quotes"
                               : json->state == WANT_KEY_OR_END ? "a key in quotes or '}'"
                                                                : "a value");
    return key ? read_key(json) : read_value(json);
}

syn_json_type syn_json_next(syn_json *json) {
    if (json->state >= 0) json->type = read_token(json);
    return json->type;
}

bool syn_json_skip(syn_json *json) {
    if (json->type == SYN_JSON_KEY) (void)syn_json_next(json);
    if (json->type != SYN_JSON_OBJECT_BEGIN && json->type != SYN_JSON_ARRAY_BEGIN)
        return json->type != SYN_JSON_ERROR;
    const int outside = json->depth - 1;
    while (json->depth > outside) {
        if (syn_json_next(json) == SYN_JSON_ERROR) return false;
    }
    return true;
}

static const char *type_text(syn_json_type type) {
    static const char *const names[] = {
        "an error", "the document's end", "an object", "an object's end",
        "an array", "an array's end",     "a key",     "a string",
        "a number", "true or false",      "null"};
    return names[(size_t)type];
}

syn_status syn_json_expect(syn_json *json, syn_json_type type, const char *what) {
    const syn_json_type got = syn_json_next(json);
    if (got == type && got != SYN_JSON_ERROR) return SYN_OK;
    if (got == SYN_JSON_ERROR) return (syn_status)-json->state;
    return syn_json_fail(json, "%s must be %s, not %s", what, type_text(type), type_text(got));
}

syn_status syn_json_expect_i64(syn_json *json, const char *what, int64_t min, int64_t max,
                               int64_t *out) {
    const syn_json_type got = syn_json_next(json);
    if (got == SYN_JSON_ERROR) return (syn_status)-json->state;
    if (got == SYN_JSON_NUMBER && json->is_integer && json->integer >= min &&
        json->integer <= max) {
        *out = json->integer;
        return SYN_OK;
    }
    return syn_json_fail(json, "%s must be an integer from %" PRId64 " to %" PRId64 ", not %.40s",
                         what, min, max, got == SYN_JSON_NUMBER ? json->text : type_text(got));
}

void syn_json_free(syn_json *json) {
    syn_free(json->scratch);
    json->scratch = NULL;
    json->scratch_cap = 0;
}
