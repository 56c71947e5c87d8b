/* Reads the files of a tokenizer's folder, and kinds of JSON values that occur in several of
   them. */
#include "models/tokenizer/tokenizer_private.h"

#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"

#include <string.h>
#include <unistd.h>

/* ---- files ---- */

static syn_status join_path(char **out, const char *folder, const char *file, syn_error *err) {
    const size_t a = strlen(folder), b = strlen(file);
    *out = syn_malloc(a + b + 2);
    if (*out == NULL) return SYN_FAIL_NOMEM(err, a + b + 2, "a file name");
    memcpy(*out, folder, a);
    (*out)[a] = '/';
    memcpy(*out + a + 1, file, b + 1);
    return SYN_OK;
}

syn_status syn__tok_exists(bool *out, const char *folder, const char *file, syn_error *err) {
    char *path;
    SYN_TRY(join_path(&path, folder, file, err));
    *out = access(path, F_OK) == 0;
    syn_free(path);
    return SYN_OK;
}

syn_status syn__tok_read_file(const char *folder, const char *file, size_t max_bytes, char **path,
                              char **data, size_t *bytes, syn_error *err) {
    *data = NULL;
    SYN_TRY(join_path(path, folder, file, err));
    return syn_read_file(*path, max_bytes, data, bytes, err);
}

static syn_status read_entries(syn_json *json, syn__tok_entry *entry, void *user, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "the configuration"));
    while (syn_json_next(json) == SYN_JSON_KEY) SYN_TRY(entry(user, json, err));
    SYN_TRY(syn__tok_status(json, SYN_JSON_OBJECT_END, err));
    (void)syn_json_next(json);
    return syn__tok_status(json, SYN_JSON_END, err);
}

syn_status syn__tok_parse(const char *name, const char *data, size_t bytes, syn__tok_entry *entry,
                          void *user, syn_error *err) {
    syn_error first = {.code = SYN_OK}; /* the JSON reader only reports into an empty error */
    syn_json json;
    syn_json_init(&json, name, data, bytes, &first);
    const syn_status status = read_entries(&json, entry, user, &first);
    syn_json_free(&json);
    if (status != SYN_OK && err != NULL && err->code == SYN_OK) *err = first;
    return status;
}

syn_status syn__tok_read(const char *folder, const char *file, syn__tok_entry *entry, void *user,
                         syn_error *err) {
    char *path = NULL, *data = NULL;
    size_t bytes;
    bool there;
    SYN_TRY(syn__tok_exists(&there, folder, file, err));
    if (!there) return SYN_OK;
    syn_status status =
        syn__tok_read_file(folder, file, SYN__TOK_MAX_JSON_BYTES, &path, &data, &bytes, err);
    if (status == SYN_OK) status = syn__tok_parse(path, data, bytes, entry, user, err);
    syn_free(data);
    syn_free(path);
    return status;
}

/* ---- values ---- */

syn_status syn__tok_status(const syn_json *json, syn_json_type end, const syn_error *err) {
    if (json->type == end) return SYN_OK;
    return err->code != SYN_OK ? err->code : SYN_E_FORMAT;
}

syn_status syn__tok_list_end(syn_json *json, const char *what, const syn_error *err) {
    if (json->type == SYN_JSON_ARRAY_END || json->type == SYN_JSON_ERROR)
        return syn__tok_status(json, SYN_JSON_ARRAY_END, err);
    return syn_json_fail(json, "this is not one of the %s", what);
}

syn_status syn__tok_skip(syn_json *json, const syn_error *err) {
    return syn_json_skip(json) ? SYN_OK : syn__tok_status(json, SYN_JSON_END, err);
}

syn_status syn__tok_bool(syn_json *json, bool *out, const char *what) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_BOOL, what));
    *out = json->boolean;
    return SYN_OK;
}

static void copy_text(const syn_json *json, char out[SYN__TOK_NAME_BYTES]) {
    const size_t most = SYN__TOK_NAME_BYTES - 1;
    const size_t n = json->text_bytes < most ? json->text_bytes : most;
    memcpy(out, json->text, n);
    out[n] = '\0';
}

syn_status syn__tok_text(syn_json *json, char out[SYN__TOK_NAME_BYTES], const char *what,
                         syn_error *err) {
    (void)syn_json_next(json);
    return syn__tok_take_text(json, out, what, err);
}

syn_status syn__tok_take_text(syn_json *json, char out[SYN__TOK_NAME_BYTES], const char *what,
                              syn_error *err) {
    const syn_json_type type = json->type;
    out[0] = '\0';
    if (type == SYN_JSON_NULL) return SYN_OK;
    if (type == SYN_JSON_STRING) {
        copy_text(json, out);
        return SYN_OK;
    }
    if (type == SYN_JSON_ERROR) return syn__tok_status(json, SYN_JSON_END, err);
    if (type != SYN_JSON_OBJECT_BEGIN) return syn_json_fail(json, "%s must be a string", what);
    while (syn_json_next(json) == SYN_JSON_KEY) {
        if (strcmp(json->text, "content") != 0) {
            SYN_TRY(syn__tok_skip(json, err));
            continue;
        }
        SYN_TRY(syn_json_expect(json, SYN_JSON_STRING, what));
        copy_text(json, out);
    }
    return syn__tok_status(json, SYN_JSON_OBJECT_END, err);
}
