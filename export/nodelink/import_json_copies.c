/* Reads the ranks that a node-link file stores as references to identical ranks:
   {"rank":3,"of":0,"nodes":[{"id":"r3.o1","attributes":{"first_row":18849}}]}. */
#include "export/nodelink/nodelink_values.h"
#include "syntorch/base/memory.h"

#include <string.h>

static size_t here(const syn__nodelink_file *r) {
    return (size_t)(r->json.cur - r->json.begin);
}

/* Reads an op of such a rank, whose BEGIN has been read. */
static syn_status read_change(syn__nodelink_file *r) {
    syn_json *json = &r->json;
    syn__found *found = &r->found;
    syn_node node = {0};
    syn__found_change change = {.at = here(r)};
    if (json->type != SYN_JSON_OBJECT_BEGIN)
        return syn_json_fail(json, "an op of a copy must be an object");
    while (syn_json_next(json) == SYN_JSON_KEY) {
        const bool id = strcmp(json->text, "id") == 0;
        if (!id && strcmp(json->text, "attributes") != 0) {
            if (!syn_json_skip(json)) return json->err->code;
            continue;
        }
        syn_json_next(json);
        if (id) SYN_TRY(syn__take_ref(r, "id", &change.id));
        else SYN_TRY(syn__keep_attributes(r, &node));
    }
    if (json->type == SYN_JSON_ERROR) return json->err->code;
    change.attributes = node.attributes;
    change.n_attributes = node.n_attributes;
    SYN_TRY(syn_grow(&found->changes, &found->changes_cap, found->n_changes + 1,
                     sizeof *found->changes, found->err));
    found->changes[found->n_changes++] = change;
    return SYN_OK;
}

static syn_status read_changes(syn__nodelink_file *r) {
    syn_json *json = &r->json;
    if (syn_json_next(json) != SYN_JSON_ARRAY_BEGIN)
        return syn_json_fail(json, "the nodes of a copy must be a list");
    while (syn_json_next(json) != SYN_JSON_ARRAY_END) {
        if (json->type == SYN_JSON_ERROR) return json->err->code;
        SYN_TRY(read_change(r));
    }
    return SYN_OK;
}

static syn_status read_copy_member(syn__nodelink_file *r, syn__found_copy *copy) {
    syn_json *json = &r->json;
    int64_t rank = 0;
    int32_t *to = strcmp(json->text, "rank") == 0 ? &copy->rank
                  : strcmp(json->text, "of") == 0 ? &copy->of
                                                  : NULL;
    if (strcmp(json->text, "nodes") == 0) return read_changes(r);
    if (to == NULL) return syn_json_skip(json) ? SYN_OK : json->err->code;
    syn_json_next(json);
    SYN_TRY(syn__take_i64(r, "a rank", 0, INT32_MAX - 1, &rank));
    *to = (int32_t)rank;
    return SYN_OK;
}

static syn_status read_copy(syn__nodelink_file *r) {
    syn_json *json = &r->json;
    syn__found *found = &r->found;
    syn__found_copy copy = {.rank = -1, .of = -1, .first_change = found->n_changes, .at = here(r)};
    if (json->type != SYN_JSON_OBJECT_BEGIN) return syn_json_fail(json, "a copy must be an object");
    while (syn_json_next(json) == SYN_JSON_KEY) SYN_TRY(read_copy_member(r, &copy));
    if (json->type == SYN_JSON_ERROR) return json->err->code;
    if (copy.rank < 0 || copy.of < 0)
        return syn__found_fail(found, copy.at, "a copy needs \"rank\" and \"of\"");
    copy.n_changes = found->n_changes - copy.first_change;
    SYN_TRY(syn_grow(&found->copies, &found->copies_cap, found->n_copies + 1, sizeof *found->copies,
                     found->err));
    found->copies[found->n_copies++] = copy;
    return SYN_OK;
}

syn_status syn__read_copies(syn__nodelink_file *r) {
    syn_json *json = &r->json;
    if (syn_json_next(json) != SYN_JSON_ARRAY_BEGIN)
        return syn_json_fail(json, "copies must be a list");
    while (syn_json_next(json) != SYN_JSON_ARRAY_END) {
        if (json->type == SYN_JSON_ERROR) return json->err->code;
        SYN_TRY(read_copy(r));
    }
    return SYN_OK;
}
