/* Parses model.safetensors.index.json, which gives the file of each tensor. The index is untrusted
   input: it can only name files in its own folder. */
#include <string.h>

#include "models/weights/safetensors_private.h"
#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"

#define SHOWN SYN__SAFETENSORS_SHOWN

void syn__safetensors_index_free(syn__safetensors_index *index) {
    syn_intern_free(&index->names);
    syn_intern_free(&index->files);
    syn_free(index->file_of);
    memset(index, 0, sizeof *index);
}

/* Whether the last string is the name of a file in the index's own folder. */
static bool is_file_name(const syn_json *json) {
    return json->text_bytes > 0 && strlen(json->text) == json->text_bytes &&
           !strchr(json->text, '/') && !strchr(json->text, '\\') && strcmp(json->text, ".") != 0 &&
           strcmp(json->text, "..") != 0;
}

static syn_status read_entry(syn__safetensors_index *index, syn_json *json, syn_error *err) {
    char shown[SHOWN];
    uint32_t name, file;
    if (strlen(json->text) != json->text_bytes)
        return syn_json_fail(json, "a string must not contain the character U+0000");
    const size_t n = index->names.n_entries;
    SYN_TRY(syn_intern_put(&index->names, json->text, json->text_bytes, &name, err));
    if (index->names.n_entries == n)
        return syn_json_fail(json, "'%s' appears twice", syn__safetensors_shown(json->text, shown));
    SYN_TRY(syn_json_expect(json, SYN_JSON_STRING, "the file of a tensor"));
    if (!is_file_name(json))
        return syn_json_fail(json, "\"%s\" is not the name of a file in the index's folder",
                             syn__safetensors_shown(json->text, shown));
    SYN_TRY(syn_intern_put(&index->files, json->text, json->text_bytes, &file, err));
    SYN_TRY(syn_grow(&index->file_of, &index->file_of_cap, index->names.n_entries,
                     sizeof *index->file_of, err));
    index->file_of[name] = file;
    return SYN_OK;
}

static syn_status read_map(syn__safetensors_index *index, syn_json *json, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "\"weight_map\""));
    while (syn_json_next(json) == SYN_JSON_KEY) SYN_TRY(read_entry(index, json, err));
    if (json->type != SYN_JSON_OBJECT_END) return err->code;
    if (index->names.n_entries == 0) return syn_json_fail(json, "\"weight_map\" is empty");
    return SYN_OK;
}

/* Skips all keys except weight_map. Metadata such as total_size is not always correct. */
static syn_status read_document(syn__safetensors_index *index, syn_json *json, syn_error *err) {
    bool seen = false;
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "the index"));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        const bool map = strcmp(json->text, "weight_map") == 0;
        if (map && seen) return syn_json_fail(json, "\"weight_map\" appears twice");
        seen = seen || map;
        if (map) SYN_TRY(read_map(index, json, err));
        else if (!syn_json_skip(json)) return err->code;
    }
    if (json->type != SYN_JSON_OBJECT_END) return err->code;
    if (!seen) return syn_json_fail(json, "the index has no \"weight_map\"");
    return syn_json_next(json) == SYN_JSON_END ? SYN_OK : err->code;
}

syn_status syn__safetensors_read_index(syn__safetensors_index *index, const char *path,
                                       const char *json, size_t bytes, syn_error *err) {
    syn_error first = {.code = SYN_OK}; /* the JSON reader needs an empty error */
    syn_json reader;
    memset(index, 0, sizeof *index);
    syn_json_init(&reader, path, json, bytes, &first);
    const syn_status status = read_document(index, &reader, &first);
    syn_json_free(&reader);
    return status == SYN_OK ? SYN_OK : SYN_FAIL(err, first.code, "%s", first.text);
}
