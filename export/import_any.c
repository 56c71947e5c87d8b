/* Reads a graph from any of our formats, told apart by content. */
#include <stdio.h>

#include "export/et_graph.h"
#include "syntorch/memory.h"

#define MAX_FILE_BYTES ((size_t)1 << 36)

#define HEAD_BYTES 4096 /* of a file, looked through for what it is */
#define READ_HERE  "node-link JSON, Chakra JSON and Chakra .et traces are read"

typedef enum content {
    CONTENT_NODE_LINK,
    CONTENT_CHAKRA,
    CONTENT_TIMELINE,
    CONTENT_PYTORCH,
    CONTENT_GROUPS
} content;

static size_t skip_space(const char *data, size_t bytes, size_t at) {
    while (at < bytes && memchr(" \t\r\n", data[at], 4) != NULL) at++;
    return at;
}

/* JSON begins with an object's or array's bracket; so may an .et, whose first byte is a length:
   then protobuf's tags follow, never a quote or bracket. */
static bool is_json(const char *data, size_t bytes) {
    size_t at = skip_space(data, bytes, 0);
    if (at == bytes || (data[at] != '{' && data[at] != '[')) return false;
    at = skip_space(data, bytes, at + 1);
    return at == bytes || memchr("\"{}[]", data[at], 5) != NULL;
}

static bool is_number(const char *text) {
    if (*text == '\0') return false;
    while (*text >= '0' && *text <= '9') text++;
    return *text == '\0';
}

/* By the keys at the top: Chakra's form has "ranks" and no nodes; PyTorch's has the "schema" before
   its "nodes"; groups are arrays under numbers. Broken JSON is told by the reader that then meets
   it. */
static content json_content(const char *path, const char *data, size_t bytes) {
    syn_json json;
    content found = CONTENT_NODE_LINK;
    bool told = false, schema = false;
    syn_json_init(&json, path, data, bytes, NULL);
    if (syn_json_next(&json) == SYN_JSON_OBJECT_BEGIN) {
        while (!told && syn_json_next(&json) == SYN_JSON_KEY) {
            const bool nodes = strcmp(json.text, "nodes") == 0;
            const bool number = is_number(json.text);
            told = true;
            if (strcmp(json.text, "schema") == 0) schema = true;
            if (strcmp(json.text, "ranks") == 0) found = CONTENT_CHAKRA;
            else if (strcmp(json.text, "traceEvents") == 0) found = CONTENT_TIMELINE;
            else if (nodes) found = schema ? CONTENT_PYTORCH : CONTENT_NODE_LINK;
            else if (number) found = CONTENT_GROUPS;
            else if (!syn_json_skip(&json)) break;
            else told = false;
        }
    }
    syn_json_free(&json);
    return found;
}

static syn_status import_json_content(syn_graph **out, const char *path, const char *data,
                                      size_t bytes, syn_error *err) {
    switch (json_content(path, data, bytes)) {
    case CONTENT_CHAKRA:
        return syn__et_import_chakra(out, path, data, bytes, err);
    case CONTENT_TIMELINE:
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%.200s is a Chrome timeline (traceEvents), which has no graph; " READ_HERE,
                        path);
    case CONTENT_PYTORCH:
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%.200s is a PyTorch execution trace, which is not read here; " READ_HERE,
                        path);
    case CONTENT_GROUPS:
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "%.200s lists the groups of a set of traces; name one of its .et files or "
                        "their common prefix instead",
                        path);
    default:
        return syn_import_json_memory(out, path, data, bytes, err);
    }
}

static bool head_has(const char *data, size_t bytes, const char *word) {
    const size_t n = strlen(word), end = bytes < HEAD_BYTES ? bytes : HEAD_BYTES;
    for (size_t i = 0; i + n <= end; i++) {
        if (memcmp(data + i, word, n) == 0) return true;
    }
    return false;
}

/* What a file of another kind is, with what follows from it; NULL if it may be ours. An .et may
   begin with '<' as a length too, but then a tag follows, never a letter, '?' or '!'. */
static const char *foreign_content(const char *data, size_t bytes) {
    if (bytes >= 4 && memcmp(data, "\x89PNG", 4) == 0) return "a PNG picture, not a graph";
    size_t at = bytes >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    at = skip_space(data, bytes, at);
    if (bytes - at < 2 || data[at] != '<') return NULL;
    const char c = data[at + 1];
    if (c != '?' && c != '!' && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z')) return NULL;
    if (head_has(data, bytes, "<graphml")) return "GraphML, which is written but not read";
    if (head_has(data, bytes, "<svg")) return "an SVG picture, not a graph";
    return "XML, which is not read";
}

static syn_status import_content(syn_graph **out, const char *path, const char *data, size_t bytes,
                                 syn_error *err) {
    const char *foreign = foreign_content(data, bytes);
    if (foreign != NULL)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED, "%.200s is %s; " READ_HERE, path, foreign);
    if (is_json(data, bytes)) return import_json_content(out, path, data, bytes, err);
    return syn__et_import_file(out, path, data, bytes, err);
}

/* The set <path>.<rank>.et, if there is one. */
static bool is_prefix(const char *path) {
    char name[4096];
    const int bytes = snprintf(name, sizeof name, "%s.0.et", path);
    FILE *f = bytes > 0 && (size_t)bytes < sizeof name ? fopen(name, "rb") : NULL;
    if (f == NULL) return false;
    fclose(f);
    f = fopen(path, "rb");
    if (f == NULL) return true;
    fclose(f);
    return false;
}

syn_status syn_import_any(syn_graph **out, const char *path, syn_error *err) {
    char *data;
    size_t bytes;
    *out = NULL;
    if (is_prefix(path)) return syn__et_import_set(out, path, strlen(path), err);
    SYN_TRY(syn_read_file(path, MAX_FILE_BYTES, &data, &bytes, err));
    const syn_status status = import_content(out, path, data, bytes, err);
    syn_free(data);
    return status;
}
