/* Reads the members of a JSON object as the cells of a row (request_csv.h). */
#include "export/text/loose_json.h"
#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"
#include "tools/requests/request_csv.h"

/* The ids of the prompt's blocks. */
static syn_status take_ids(request_row *row, syn_json *json, syn_error *err) {
    row->n_blocks = 0;
    row->has_ids = true;
    while (syn_json_next(json) == SYN_JSON_NUMBER) {
        const syn__str text = {json->text, json->text_bytes};
        uint64_t id;
        if (*json->text == '-' || !syn__loose_u64(text, &id))
            return syn_json_fail(json, "hash_ids must be whole numbers of 0 or more, not %.40s",
                                 json->text);
        SYN_TRY(
            syn_grow(&row->blocks, &row->blocks_cap, row->n_blocks + 1, sizeof *row->blocks, err));
        row->blocks[row->n_blocks++] = id;
    }
    if (json->type == SYN_JSON_ERROR) return SYN_E_FORMAT;
    return json->type == SYN_JSON_ARRAY_END ? SYN_OK
                                            : syn_json_fail(json, "hash_ids must be numbers");
}

/* Adds the member whose key was read. Members that are objects or arrays are no columns. */
static syn_status take_member(request_row *row, syn_json *json, syn__buf *scratch, syn_error *err) {
    const int32_t i = row->n;
    if (i == REQUEST_COLUMNS)
        return syn_json_fail(json, "the object has more than %d members", REQUEST_COLUMNS);
    const syn__str key = {json->text, json->text_bytes};
    if (syn__str_is(key, "hash_ids")) {
        SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_BEGIN, "hash_ids"));
        return take_ids(row, json, err);
    }
    /* Rows mostly have the same keys. */
    if (key.bytes == 0 || !syn__str_is(key, row->columns[i].name)) request_row_name(row, i, key);
    const syn_json_type type = syn_json_next(json);
    if (type == SYN_JSON_OBJECT_BEGIN || type == SYN_JSON_ARRAY_BEGIN)
        return syn_json_skip(json) ? SYN_OK : SYN_E_FORMAT;
    if (type == SYN_JSON_ERROR) return SYN_E_FORMAT;
    syn__str cell = syn__str_of(type == SYN_JSON_NULL ? "" : json->boolean ? "true" : "false");
    if (type == SYN_JSON_STRING || type == SYN_JSON_NUMBER) {
        cell = (syn__str){scratch->data + scratch->bytes, json->text_bytes};
        syn__buf_put(scratch, json->text, json->text_bytes);
    }
    row->cells[i] = cell;
    row->n = i + 1;
    return SYN_OK;
}

static syn_status take_object(request_row *row, syn_json *json, syn__buf *scratch, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "a line"));
    while (syn_json_next(json) == SYN_JSON_KEY) SYN_TRY(take_member(row, json, scratch, err));
    if (json->type == SYN_JSON_ERROR) return SYN_E_FORMAT;
    return syn_json_next(json) == SYN_JSON_END ? SYN_OK : SYN_E_FORMAT;
}

syn_status request_json_split(request_row *row, syn__str text, syn__buf *scratch, syn_error *err) {
    syn_error found = {0};
    syn_json json;
    row->n = 0;
    row->n_blocks = 0;
    scratch->bytes = 0;
    /* The cells are shorter than the line, so that none of them moves. */
    if (syn__buf_reserve(scratch, text.bytes) == NULL)
        return SYN_FAIL_NOMEM(err, text.bytes, "a line of requests");
    syn_json_init(&json, "", text.text, text.bytes, &found);
    const syn_status s = take_object(row, &json, scratch, &found);
    syn_json_free(&json);
    if (found.code == SYN_E_NOMEM) return SYN_FAIL(err, found.code, "%s", found.text);
    if (s == SYN_OK) return SYN_OK;
    /* The parser's messages begin with ":1:", the line in `text`. */
    const char *what = strncmp(found.text, ":1:", 3) == 0 ? found.text + 2 : found.text;
    return SYN_FAIL(err, s, "%.200s:%lld%s", row->name, (long long)row->line, what);
}
