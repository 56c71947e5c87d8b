/* Reads the ranks that a node-link file stores as references to identical ranks:
   {"rank":3,"of":0,"groups":{"1":2},"peers":{"8":11},"shards":{"0/2":1},"tensors":{"12":0},
   "nodes":[{"id":"r3.o1","attributes":{"first_row":18849}}]}. */
#include "export/nodelink/nodelink_values.h"
#include "syntorch/base/memory.h"

#include <stdio.h>
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

/* The values of a map from integers to integers. */
typedef struct map_range {
    const char *key, *what;
    int64_t min, max;
} map_range;

/* Reads the key "0/4", which is shard 0 of 4. */
static syn_status take_shard(syn__nodelink_file *r, int64_t *out) {
    const char *text = r->json.text;
    int index = 0, count = 0, bytes = 0;
    if (text[strspn(text, "0123456789/")] == '\0' && strlen(text) < 20 &&
        sscanf(text, "%9d/%9d%n", &index, &count, &bytes) == 2 &&
        (size_t)bytes == r->json.text_bytes && index < count) {
        *out = syn__shard_name(index, count);
        return SYN_OK;
    }
    return syn_json_fail(&r->json, "a shard must be like \"0/4\" (shard 0 of 4), not \"%.40s\"",
                         text);
}

/* Reads the next entry of a map, whose key has been read. */
static syn_status read_pair(syn__nodelink_file *r, const map_range *range, int64_t *from,
                            int64_t *to) {
    if (strcmp(range->key, "shards") == 0) SYN_TRY(take_shard(r, from));
    else SYN_TRY(syn__take_key(r, range->what, range->min, range->max, from));
    if (syn_json_next(&r->json) == SYN_JSON_ERROR) return r->json.err->code;
    return syn__take_i64(r, range->what, range->min, range->max, to);
}

static syn_status begin_map(syn__nodelink_file *r, const char *key) {
    syn_json *json = &r->json;
    if (syn_json_next(json) == SYN_JSON_OBJECT_BEGIN) return SYN_OK;
    return syn_json_fail(json, "the %s of a copy must be an object", key);
}

static syn_status read_names(syn__nodelink_file *r, syn__name_kind kind, const map_range *range) {
    syn__found *found = &r->found;
    SYN_TRY(begin_map(r, range->key));
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        syn__renamed name = {.kind = kind};
        SYN_TRY(read_pair(r, range, &name.from, &name.to));
        SYN_TRY(syn_grow(&found->names, &found->names_cap, found->n_names + 1, sizeof *found->names,
                         found->err));
        found->names[found->n_names++] = name;
    }
    return r->json.type == SYN_JSON_ERROR ? r->json.err->code : SYN_OK;
}

static syn_status read_tensors(syn__nodelink_file *r) {
    static const map_range range = {"tensors", "a tensor or its shard", 0, INT32_MAX};
    syn__found *found = &r->found;
    SYN_TRY(begin_map(r, range.key));
    while (syn_json_next(&r->json) == SYN_JSON_KEY) {
        int64_t tensor = 0, index = 0;
        SYN_TRY(read_pair(r, &range, &tensor, &index));
        SYN_TRY(syn_grow(&found->shards, &found->shards_cap, found->n_shards + 1,
                         sizeof *found->shards, found->err));
        found->shards[found->n_shards++] = (syn__found_shard){(uint64_t)tensor, (int32_t)index};
    }
    return r->json.type == SYN_JSON_ERROR ? r->json.err->code : SYN_OK;
}

static syn_status read_copy_member(syn__nodelink_file *r, syn__found_copy *copy) {
    static const map_range names[SYN__NAME_KINDS] = {
        {"groups", "a group's id", 1, UINT32_MAX},
        {"peers", "a peer", 0, INT32_MAX - 1},
        {"tags", "a tag", INT32_MIN, INT32_MAX},
        {"shards", "a shard", 0, INT32_MAX},
    };
    syn_json *json = &r->json;
    int64_t rank = 0;
    int32_t *to = strcmp(json->text, "rank") == 0 ? &copy->rank
                  : strcmp(json->text, "of") == 0 ? &copy->of
                                                  : NULL;
    if (strcmp(json->text, "nodes") == 0) return read_changes(r);
    if (strcmp(json->text, "tensors") == 0) return read_tensors(r);
    for (int kind = 0; kind < SYN__NAME_KINDS; kind++)
        if (strcmp(json->text, names[kind].key) == 0)
            return read_names(r, (syn__name_kind)kind, &names[kind]);
    if (to == NULL) return syn_json_skip(json) ? SYN_OK : json->err->code;
    syn_json_next(json);
    SYN_TRY(syn__take_i64(r, "a rank", 0, INT32_MAX - 1, &rank));
    *to = (int32_t)rank;
    return SYN_OK;
}

static syn_status read_copy(syn__nodelink_file *r) {
    syn_json *json = &r->json;
    syn__found *found = &r->found;
    syn__found_copy copy = {.rank = -1,
                            .of = -1,
                            .first_change = found->n_changes,
                            .first_name = found->n_names,
                            .first_shard = found->n_shards,
                            .at = here(r)};
    if (json->type != SYN_JSON_OBJECT_BEGIN) return syn_json_fail(json, "a copy must be an object");
    while (syn_json_next(json) == SYN_JSON_KEY) SYN_TRY(read_copy_member(r, &copy));
    if (json->type == SYN_JSON_ERROR) return json->err->code;
    if (copy.rank < 0 || copy.of < 0)
        return syn__found_fail(found, copy.at, "a copy needs \"rank\" and \"of\"");
    copy.n_changes = found->n_changes - copy.first_change;
    copy.n_names = found->n_names - copy.first_name;
    copy.n_shards = found->n_shards - copy.first_shard;
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
