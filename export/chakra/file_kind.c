/* Recognizes files by their first bytes or first JSON keys. */
#include "export/chakra/file_kind.h"

#include <string.h>

#include "export/chakra/chakra_json.h"
#include "syntorch/base/json.h"

#define HEAD_BYTES 4096 /* number of bytes at the start of a file that are searched */

static const struct {
    const char *what, *hint;
} kinds[SYN__FILE_KINDS] = {
#define SYN_X(id, what, hint) {what, hint},
    SYN__FILE_KIND_LIST(SYN_X)
#undef SYN_X
};

const char *syn__file_kind_text(syn__file_kind kind) {
    return kinds[kind].what;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t skip_space(const char *data, size_t bytes, size_t at) {
    while (at < bytes && is_space(data[at])) at++;
    return at;
}

static bool begins(const char *data, size_t bytes, const char *head, size_t head_bytes) {
    return bytes >= head_bytes && memcmp(data, head, head_bytes) == 0;
}

/* ---- Signatures ---- */

/* safetensors: eight bytes of header length, then a JSON object. */
static bool is_safetensors(const char *data, size_t bytes) {
    uint64_t header = 0;
    if (bytes < 10 || data[8] != '{' || (data[9] != '"' && data[9] != '}')) return false;
    for (int i = 7; i >= 0; i--) header = header << 8 | (unsigned char)data[i];
    return header >= 2 && header <= bytes - 8;
}

static syn__file_kind kind_by_signature(const char *data, size_t bytes) {
    static const struct {
        syn__file_kind kind;
        size_t bytes;
        char head[8];
    } signatures[] = {
        {SYN__FILE_PNG, 4, "\x89PNG"},       {SYN__FILE_JPEG, 3, "\xFF\xD8\xFF"},
        {SYN__FILE_PDF, 5, "%PDF-"},         {SYN__FILE_ELF, 4, "\x7F\x45LF"},
        {SYN__FILE_GZIP, 3, "\x1F\x8B\x08"}, {SYN__FILE_ZIP, 4, "PK\x03\x04"},
        {SYN__FILE_NPY, 6, "\x93NUMPY"},
    };
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++)
        if (begins(data, bytes, signatures[i].head, signatures[i].bytes)) return signatures[i].kind;
    return is_safetensors(data, bytes) ? SYN__FILE_SAFETENSORS : SYN__FILE_OTHER;
}

/* ---- XML ---- */

static bool head_has(const char *data, size_t bytes, const char *word) {
    const size_t n = strlen(word), end = bytes < HEAD_BYTES ? bytes : HEAD_BYTES;
    for (size_t i = 0; i + n <= end; i++) {
        if (memcmp(data + i, word, n) == 0) return true;
    }
    return false;
}

/* An .et can also begin with '<' as a length, but then the next byte is a protobuf tag, which is
   never a letter, '?' or '!'. */
static syn__file_kind kind_by_tag(const char *data, size_t bytes, size_t at) {
    if (bytes - at < 2 || data[at] != '<') return SYN__FILE_OTHER;
    const char c = data[at + 1];
    if (c != '?' && c != '!' && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z'))
        return SYN__FILE_OTHER;
    if (head_has(data, bytes, "<graphml")) return SYN__FILE_GRAPHML;
    if (head_has(data, bytes, "<svg")) return SYN__FILE_SVG;
    if (head_has(data, bytes, "<html") || head_has(data, bytes, "<HTML")) return SYN__FILE_HTML;
    return SYN__FILE_XML;
}

/* ---- JSON ---- */

/* JSON starts with a bracket, but so can an .et, whose first byte is a length. In an .et, the next
   byte is a protobuf tag, which is never a quote or bracket. */
static bool is_json(const char *data, size_t bytes, size_t at) {
    if (at == bytes || (data[at] != '{' && data[at] != '[')) return false;
    at = skip_space(data, bytes, at + 1);
    return (at == bytes || memchr("\"{}[]", data[at], 5) != NULL) &&
           syn_chakra_is_json(data, bytes);
}

static bool is_number(const char *text) {
    if (*text == '\0') return false;
    while (*text >= '0' && *text <= '9') text++;
    return *text == '\0';
}

/* Decides by the top-level keys: Chakra's JSON has "ranks" and no "nodes"; PyTorch's has "schema"
   before "nodes"; group lists have numbers as keys. */
static syn__file_kind kind_by_key(const char *key, bool schema) {
    if (strcmp(key, "ranks") == 0) return SYN__FILE_CHAKRA_JSON;
    if (strcmp(key, "traceEvents") == 0) return SYN__FILE_TIMELINE;
    if (strcmp(key, "nodes") == 0) return schema ? SYN__FILE_PYTORCH : SYN__FILE_NODE_LINK;
    return is_number(key) ? SYN__FILE_GROUPS : SYN__FILE_JSON;
}

static syn__file_kind kind_by_keys(const char *data, size_t bytes) {
    syn_json json;
    syn__file_kind found = SYN__FILE_JSON;
    bool schema = false;
    syn_json_init(&json, "", data, bytes, NULL);
    if (syn_json_next(&json) == SYN_JSON_OBJECT_BEGIN) {
        while (found == SYN__FILE_JSON && syn_json_next(&json) == SYN_JSON_KEY) {
            found = kind_by_key(json.text, schema);
            schema = schema || strcmp(json.text, "schema") == 0;
            if (found == SYN__FILE_JSON && !syn_json_skip(&json)) break;
        }
    }
    syn_json_free(&json);
    return found;
}

/* ---- Text ---- */

static bool begins_with_word(const char *data, size_t bytes, size_t at, const char *word) {
    const size_t n = strlen(word);
    if (!begins(data + at, bytes - at, word, n)) return false;
    return at + n == bytes || is_space(data[at + n]) || data[at + n] == '{';
}

static syn__file_kind kind_by_characters(const char *data, size_t bytes, size_t at) {
    const size_t end = bytes < HEAD_BYTES ? bytes : HEAD_BYTES;
    if (at == bytes) return SYN__FILE_OTHER;
    /* An .et contains protobuf tags and lengths, many of which are control characters. */
    for (size_t i = at; i < end; i++)
        if (((unsigned char)data[i] < ' ' && !is_space(data[i])) || data[i] == '\x7F')
            return SYN__FILE_OTHER;
    if (begins_with_word(data, bytes, at, "digraph") || begins_with_word(data, bytes, at, "strict"))
        return SYN__FILE_DOT;
    return SYN__FILE_TEXT;
}

/* ---- All kinds ---- */

syn__file_kind syn__file_kind_of(const char *data, size_t bytes) {
    syn__file_kind kind = kind_by_signature(data, bytes);
    if (kind != SYN__FILE_OTHER) return kind;
    size_t at = begins(data, bytes, "\xEF\xBB\xBF", 3) ? 3 : 0;
    at = skip_space(data, bytes, at);
    if (is_json(data, bytes, at)) return kind_by_keys(data, bytes);
    kind = kind_by_tag(data, bytes, at);
    return kind != SYN__FILE_OTHER ? kind : kind_by_characters(data, bytes, at);
}

syn_status syn__require_et(const char *name, const char *data, size_t bytes, syn_error *err) {
    const syn__file_kind kind = syn__file_kind_of(data, bytes);
    if (kind == SYN__FILE_OTHER) return SYN_OK;
    return SYN_FAIL(err, SYN_E_UNSUPPORTED, "%.300s is %s, not a Chakra execution trace%s", name,
                    kinds[kind].what, kinds[kind].hint);
}
