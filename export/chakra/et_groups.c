/* Reads the process groups of execution traces, from GlobalMetadata ("pg.<id>") and from
   comm_group.json, and checks that both agree. */
#include <inttypes.h>
#include <stdlib.h>

#include "export/chakra/et_attr.h"
#include "export/chakra/et_build.h"
#include "syntorch/base/memory.h"

void syn__et_extend_world(syn__et_builder *b, int32_t rank) {
    if (rank >= b->min_world_size && rank < SYN_MAX_WORLD) b->min_world_size = rank + 1;
}

static size_t position_of(const syn__et_builder *b, uint64_t id) {
    size_t low = 0, high = b->n_groups;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (b->groups[middle].id < id) low = middle + 1;
        else high = middle;
    }
    return low;
}

syn__et_group *syn__et_find_group(syn__et_builder *b, uint64_t id) {
    const size_t at = position_of(b, id);
    return at < b->n_groups && b->groups[at].id == id ? &b->groups[at] : NULL;
}

static syn_status check_ranks(const char *where, uint32_t id, const int32_t *ranks, size_t n,
                              syn_error *err) {
    if (n == 0) return SYN_FAIL(err, SYN_E_FORMAT, "%.200s: group %" PRIu32 " is empty", where, id);
    int32_t max = -1;
    for (size_t i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= SYN_MAX_WORLD)
            return SYN_FAIL(err, SYN_E_FORMAT, "%.200s: group %" PRIu32 " has the invalid rank %d",
                            where, id, (int)ranks[i]);
        if (ranks[i] > max) max = ranks[i];
    }
    /* One bit per rank number detects repeats. The bits need at most 2 MiB, even for a small group
       with large rank numbers. */
    unsigned char *seen = (unsigned char *)syn_calloc((size_t)max / 8 + 1, 1);
    if (seen == NULL) return SYN_FAIL_NOMEM(err, (size_t)max / 8 + 1, "a group");
    size_t i = 0;
    for (; i < n; i++) {
        const unsigned bit = 1u << (ranks[i] & 7);
        if (seen[ranks[i] / 8] & bit) break;
        seen[ranks[i] / 8] = (unsigned char)(seen[ranks[i] / 8] | bit);
    }
    syn_free(seen);
    if (i == n) return SYN_OK;
    return SYN_FAIL(err, SYN_E_FORMAT, "%.200s: group %" PRIu32 " has rank %d twice", where, id,
                    (int)ranks[i]);
}

static int compare_ranks(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Sets *out to whether the group has the same ranks, in any order. */
static syn_status has_ranks(const syn__et_group *g, const int32_t *ranks, size_t n, bool *out,
                            syn_error *err) {
    const size_t bytes = n * sizeof *ranks;
    *out = g->n_ranks == n;
    if (!*out) return SYN_OK;
    int32_t *both[2] = {(int32_t *)syn_malloc(bytes), (int32_t *)syn_malloc(bytes)};
    if (both[0] != NULL && both[1] != NULL) {
        memcpy(both[0], g->ranks, bytes);
        memcpy(both[1], ranks, bytes);
        for (int i = 0; i < 2; i++) qsort(both[i], n, sizeof *ranks, compare_ranks);
        *out = memcmp(both[0], both[1], bytes) == 0;
    }
    const bool failed = both[0] == NULL || both[1] == NULL;
    syn_free(both[0]);
    syn_free(both[1]);
    return failed ? SYN_FAIL_NOMEM(err, 2 * bytes, "a group's ranks") : SYN_OK;
}

/* Fails unless a group in a file has the same ranks as `known`. Sets the name of `known` if it has
   none. Always replaces the ranks of `known`, because the order in metadata takes precedence over
   the order in comm_group.json. */
static syn_status agree(syn__et_group *known, const char *where, char **name, int32_t **ranks,
                        size_t n, syn_error *err) {
    bool same = known->n_ranks == n && memcmp(known->ranks, *ranks, n * sizeof **ranks) == 0;
    if (!same && known->is_listed) SYN_TRY(has_ranks(known, *ranks, n, &same, err));
    if (!same)
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "%.200s: group %" PRIu32 " has other ranks here than elsewhere in the set",
                        where, known->id);
    if (known->name == NULL) {
        known->name = *name;
        *name = NULL;
    }
    int32_t *listed = known->ranks;
    known->ranks = *ranks;
    known->is_listed = false;
    *ranks = listed;
    return SYN_OK;
}

/* Adds the group or, if a group with this id is known, checks that both are equal. Takes ownership
   of `ranks` and `name`, also on failure. */
static syn_status put_group(syn__et_builder *b, const char *where, uint32_t id, char *name,
                            int32_t *ranks, size_t n, bool listed, syn_error *err) {
    syn__et_group *known = syn__et_find_group(b, id);
    syn_status status = SYN_OK;
    if (known != NULL) {
        status = agree(known, where, &name, &ranks, n, err);
        syn_free(name);
        syn_free(ranks);
        return status;
    }
    status = check_ranks(where, id, ranks, n, err);
    if (status == SYN_OK)
        status = syn_grow(&b->groups, &b->groups_cap, b->n_groups + 1, sizeof *b->groups, err);
    if (status != SYN_OK) {
        syn_free(name);
        syn_free(ranks);
        return status;
    }
    const size_t at = position_of(b, id);
    memmove(&b->groups[at + 1], &b->groups[at], (b->n_groups - at) * sizeof *b->groups);
    b->groups[at] =
        (syn__et_group){.id = id, .name = name, .ranks = ranks, .n_ranks = n, .is_listed = listed};
    b->n_groups++;
    for (size_t i = 0; i < n; i++) syn__et_extend_world(b, ranks[i]);
    return SYN_OK;
}

/* ---- From metadata ---- */

/* Parses "pg.12". */
static bool group_id(syn__str name, uint32_t *out) {
    uint64_t v = 0;
    if (name.bytes < 4 || name.bytes > 13 || memcmp(name.text, "pg.", 3) != 0 ||
        name.text[3] == '0')
        return false;
    for (size_t i = 3; i < name.bytes; i++) {
        const unsigned digit = (unsigned)(unsigned char)name.text[i] - '0';
        if (digit > 9) return false;
        v = v * 10 + digit;
    }
    *out = (uint32_t)v;
    return v <= UINT32_MAX;
}

syn_status syn__et_read_group_attr(syn__et_builder *b, const syn__et_index *index,
                                   const syn__et_attr *a, bool *taken, syn_error *err) {
    uint32_t id;
    int32_t *ranks;
    size_t n;
    *taken = a->field == SYN__ET_INT32_LIST && group_id(a->name, &id);
    if (!*taken) return SYN_OK;
    char *name = NULL;
    if (a->doc.bytes != 0) {
        name = syn_strndup(a->doc.text, a->doc.bytes);
        if (name == NULL) return SYN_FAIL_NOMEM(err, a->doc.bytes + 1, "a group's name");
    }
    const syn_status status = syn__et_unpack_ranks(a->data, &ranks, &n, err);
    if (status != SYN_OK) {
        syn_free(name);
        return status;
    }
    return put_group(b, index->name, id, name, ranks, n, false, err);
}

/* ---- From comm_group.json ---- */

static syn_status read_json_ranks(syn_json *json, int32_t **out, size_t *n, syn_error *err) {
    size_t cap = 0;
    SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_BEGIN, "a group's ranks"));
    while (syn_json_next(json) != SYN_JSON_ARRAY_END) {
        if (json->type == SYN_JSON_ERROR) return SYN_E_FORMAT;
        if (json->type != SYN_JSON_NUMBER || !json->is_integer || json->integer < 0 ||
            json->integer >= SYN_MAX_WORLD)
            return syn_json_fail(json, "a group's ranks must be integers from 0 to %d",
                                 SYN_MAX_WORLD - 1);
        SYN_TRY(syn_grow(out, &cap, *n + 1, sizeof **out, err));
        (*out)[(*n)++] = (int32_t)json->integer;
    }
    return SYN_OK;
}

static syn_status read_json_group(syn__et_builder *b, syn_json *json, syn_error *err) {
    int32_t *ranks = NULL;
    size_t n = 0;
    uint64_t id;
    if (!syn__et_parse_u64(json->text, &id) || id < 1 || id > UINT32_MAX)
        return syn_json_fail(json, "a group's key must be a positive integer");
    const syn_status status = read_json_ranks(json, &ranks, &n, err);
    if (status == SYN_OK) return put_group(b, json->name, (uint32_t)id, NULL, ranks, n, true, err);
    syn_free(ranks);
    return status;
}

syn_status syn__et_builder_groups(syn__et_builder *b, const char *name, const char *data,
                                  size_t bytes, syn_error *err) {
    syn_json json;
    syn_json_init(&json, name, data, bytes, err);
    syn_status status = syn_json_expect(&json, SYN_JSON_OBJECT_BEGIN, "the file's content");
    while (status == SYN_OK && syn_json_next(&json) == SYN_JSON_KEY)
        status = read_json_group(b, &json, err);
    if (status == SYN_OK && json.type == SYN_JSON_ERROR) status = SYN_E_FORMAT;
    if (status == SYN_OK && syn_json_next(&json) == SYN_JSON_ERROR) status = SYN_E_FORMAT;
    syn_json_free(&json);
    return status;
}
