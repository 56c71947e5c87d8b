/* Reads a graph from any of our formats, told apart by content. */
#include <stdio.h>

#include "export/et_graph.h"
#include "syntorch/memory.h"

#define MAX_FILE_BYTES ((size_t)1 << 36)

typedef enum content { CONTENT_ET, CONTENT_NODE_LINK, CONTENT_CHAKRA } content;

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

/* Chakra's form has "ranks" at the top and no nodes there. Broken JSON is told by the reader that
 * then meets it. */
static content json_content(const char *path, const char *data, size_t bytes) {
    syn_json json;
    content found = CONTENT_NODE_LINK;
    syn_json_init(&json, path, data, bytes, NULL);
    if (syn_json_next(&json) == SYN_JSON_OBJECT_BEGIN) {
        while (syn_json_next(&json) == SYN_JSON_KEY) {
            if (strcmp(json.text, "ranks") == 0) found = CONTENT_CHAKRA;
            if (strcmp(json.text, "nodes") == 0) found = CONTENT_NODE_LINK;
            const bool told = found == CONTENT_CHAKRA || strcmp(json.text, "nodes") == 0;
            if (told || !syn_json_skip(&json)) break;
        }
    }
    syn_json_free(&json);
    return found;
}

static syn_status import_content(syn_graph **out, const char *path, const char *data, size_t bytes,
                                 syn_error *err) {
    if (!is_json(data, bytes)) return syn__et_import_file(out, path, data, bytes, err);
    if (json_content(path, data, bytes) == CONTENT_CHAKRA)
        return syn__et_import_chakra(out, path, data, bytes, err);
    return syn_import_json_memory(out, path, data, bytes, err);
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
