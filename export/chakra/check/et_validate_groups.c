/* Checks the group file, {"<id>": [ranks...]}. */
#include <inttypes.h>
#include <stdlib.h>

#include "export/chakra/check/et_validate.h"
#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"

/* ASTRA-sim's message tags are (id * 1e6 + count) mod 5e8, so they wrap around for ids of at least
   500. */
#define MAX_IDS 500

static const syn__finding_location whole_set = {-1, false, 0, SYN__ET_NO_OFFSET};

/* Whether the key is a decimal integer above 0. Ignores the last digits of very long keys, so that
   the id is at most 2^63. */
static bool good_key(const char *text, uint64_t *id) {
    *id = 0;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p < '0' || *p > '9') return false;
        if (*id < UINT64_MAX / 20) *id = *id * 10 + (uint64_t)(*p - '0');
    }
    return *id != 0;
}

static void check_key(syn_validator *v, const char *key) {
    uint64_t id;
    if (!good_key(key, &id))
        syn__report_finding(v, SYN_FINDING_GROUPS, whole_set,
                            "the group's key '%.60s' is not an integer above 0", key);
    else if (id >= MAX_IDS)
        syn__report_finding(v, SYN_FINDING_GROUP_ID, whole_set,
                            "the group's id %.60s must be below %d", key, MAX_IDS);
}

static int compare_ranks(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Checks that each member occurs once and is a rank of the set. */
static syn_status check_members(syn_validator *v, const char *key, const syn__checked_group *g,
                                syn_error *err) {
    for (size_t i = 0; i < g->n_members; i++) {
        if (v->world == 0 || (uint32_t)g->members[i] < v->world) continue;
        syn__report_finding(v, SYN_FINDING_GROUPS, whole_set,
                            "group %.60s has the member %" PRId32 ", but there are %" PRIu32
                            " ranks",
                            key, g->members[i], v->world);
        break;
    }
    if (g->n_members < 2) return SYN_OK;
    const size_t bytes = g->n_members * sizeof *g->members;
    int32_t *sorted = (int32_t *)syn_malloc(bytes);
    if (sorted == NULL) return SYN_FAIL_NOMEM(err, bytes, "a group's ranks");
    memcpy(sorted, g->members, bytes);
    qsort(sorted, g->n_members, sizeof *sorted, compare_ranks);
    for (size_t i = 1; i < g->n_members; i++) {
        if (sorted[i] != sorted[i - 1]) continue;
        syn__report_finding(v, SYN_FINDING_GROUPS, whole_set,
                            "group %.60s has the member %" PRId32 " twice", key, sorted[i]);
        break;
    }
    syn_free(sorted);
    return SYN_OK;
}

/* Fails with SYN_E_FORMAT and the JSON reader's message if this is not a list of ranks. */
static syn_status read_members(syn_json *json, syn__checked_group *g, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_ARRAY_BEGIN, "a group's ranks"));
    while (syn_json_next(json) != SYN_JSON_ARRAY_END) {
        if (json->type == SYN_JSON_ERROR) return SYN_E_FORMAT;
        if (json->type != SYN_JSON_NUMBER || !json->is_integer || json->integer < 0 ||
            json->integer > INT32_MAX)
            return syn_json_fail(json, "a group's ranks must be integers of at least 0");
        SYN_TRY(syn_grow(&g->members, &g->members_cap, g->n_members + 1, sizeof *g->members, err));
        g->members[g->n_members++] = (int32_t)json->integer;
    }
    return SYN_OK;
}

static syn_status read_group(syn_validator *v, syn_json *json, syn_error *err) {
    uint32_t group;
    check_key(v, json->text);
    SYN_TRY(syn__checked_group_of(v, json->text, json->text_bytes, &group, err));
    syn__checked_group *g = &v->groups[group];
    const char *key = syn__checked_group_name(v, group);
    if (g->listed)
        syn__report_finding(v, SYN_FINDING_GROUPS, whole_set, "group %.60s appears twice", key);
    g->listed = true;
    v->lists_zero = v->lists_zero || strcmp(key, "0") == 0;
    g->n_members = 0;
    SYN_TRY(read_members(json, g, err));
    return check_members(v, key, g, err);
}

static syn_status read_groups(syn_validator *v, syn_json *json, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "the file's content"));
    while (syn_json_next(json) == SYN_JSON_KEY) SYN_TRY(read_group(v, json, err));
    if (json->type == SYN_JSON_ERROR) return SYN_E_FORMAT;
    return syn_json_next(json) == SYN_JSON_ERROR ? SYN_E_FORMAT : SYN_OK;
}

syn_status syn_validator_groups(syn_validator *v, const char *name, const char *data, size_t bytes,
                                syn_error *err) {
    syn_json json;
    syn_error problem = {0};
    v->has_group_file = true;
    syn_json_init(&json, name, data, bytes, &problem);
    const syn_status status = read_groups(v, &json, &problem);
    syn_json_free(&json);
    if (status == SYN_E_FORMAT) {
        syn__report_finding(v, SYN_FINDING_GROUPS, whole_set, "%s", problem.text);
        return SYN_OK;
    }
    return status == SYN_OK ? SYN_OK : SYN_FAIL(err, status, "%s", problem.text);
}
