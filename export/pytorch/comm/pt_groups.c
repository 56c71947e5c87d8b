/* Collects the process groups that one rank knows. There are four sources, from most to least
   reliable: process_group:init nodes of the host trace, distributedInfo of the device trace,
   kernels, and record_param_comms. Groups are identified by name. If a list of ranks contradicts a
   more reliable source, it is ignored and the contradiction is counted. */
#include <stdlib.h>

#include "export/pytorch/comm/pt_groups.h"
#include "export/pytorch/read/pt_names.h"
#include "export/pytorch/read/pt_notes.h"
#include "export/pytorch/read/pt_scan.h"
#include "export/pytorch/read/pt_tensors.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/types.h"

#define MAX_UNPACKED 4 /* maximum levels of JSON strings in which a description may be nested */

enum { FROM_NOWHERE, FROM_CALL, FROM_DEVICE, FROM_HOST };

/* A group as one source describes it. Unknown values are negative or empty. */
typedef struct described {
    syn__str name, desc, ranks;
    int64_t size, start, stride, backend;
    int source;
} described;

/* ---- The table ---- */

static uint64_t name_key(syn__str name) {
    return syn_hash(name.text, name.bytes, 0);
}

static syn_status put(syn__pt_group_finder *f, syn__pt_map *map, uint64_t key, uint32_t value) {
    uint32_t *at = syn__pt_map_put(map, key);
    if (at == NULL) return SYN_FAIL_NOMEM(f->err, sizeof key, "the table of process groups");
    *at = value;
    return SYN_OK;
}

static const char *keep_text(syn__pt_group_finder *f, syn__str text) {
    if (text.bytes == 0) return "";
    char *out = (char *)syn__arena_get(&f->rank->arena, text.bytes + 1);
    if (out == NULL) return NULL;
    out[syn__loose_decode(text, out)] = '\0';
    return out;
}

static syn_status add(syn__pt_group_finder *f, const described *d, uint32_t *index) {
    syn__pt_rank *r = f->rank;
    const size_t n = r->n_groups;
    SYN_TRY(syn_grow(&r->groups, &r->groups_cap, n + 1, sizeof *r->groups, f->err));
    SYN_TRY(syn_grow(&f->last, &f->last_cap, n + 1, sizeof *f->last, f->err));
    SYN_TRY(syn_grow(&f->source, &f->source_cap, n + 1, sizeof *f->source, f->err));
    SYN_TRY(syn_grow(&f->clash, &f->clash_cap, n + 1, sizeof *f->clash, f->err));
    syn__pt_group *g = &r->groups[n];
    memset(g, 0, sizeof *g);
    g->name = keep_text(f, d->name);
    g->desc = keep_text(f, d->desc);
    if (g->name == NULL || g->desc == NULL)
        return SYN_FAIL_NOMEM(f->err, d->name.bytes + d->desc.bytes, "a process group's name");
    memset(&f->last[n], 0, sizeof *f->last);
    f->source[n] = FROM_NOWHERE;
    f->clash[n] = 0;
    *index = (uint32_t)n;
    SYN_TRY(put(f, &f->names, name_key(d->name), *index));
    r->n_groups++;
    return SYN_OK;
}

/* ---- Ranks ---- */

static int by_number(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static syn_status has_doubles(syn__pt_group_finder *f, const int32_t *ranks, size_t n, bool *out) {
    bool ascending = true;
    *out = false;
    for (size_t i = 1; i < n; i++) ascending = ascending && ranks[i] > ranks[i - 1];
    if (ascending) return SYN_OK;
    int32_t *sorted = (int32_t *)syn_malloc(n * sizeof *sorted);
    if (sorted == NULL) return SYN_FAIL_NOMEM(f->err, n * sizeof *sorted, "the ranks of a group");
    memcpy(sorted, ranks, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_number);
    for (size_t i = 1; i < n; i++) *out = *out || sorted[i] == sorted[i - 1];
    syn_free(sorted);
    return SYN_OK;
}

/* Reads the ranks of "[0, 1]" or {0: 0, 1: 1} (global rank: index in the group). *n is 0 if the
   list is empty, shortened ("[0, 1, ..., 7]"), or has a rank twice. */
static syn_status read_ranks(syn__pt_group_finder *f, syn__str text, int32_t **out, uint32_t *n) {
    syn__pt_scan s = syn__pt_scan_of(text);
    syn__str token;
    size_t cap = text.bytes / 2 + 1, count = 0;
    int64_t v;
    *n = 0;
    *out = (int32_t *)syn__arena_get(&f->rank->arena, cap * sizeof **out);
    if (*out == NULL) return SYN_FAIL_NOMEM(f->err, cap * sizeof **out, "the ranks of a group");
    const bool map = syn__pt_scan_next(&s, &token) == '{';
    for (char c = syn__pt_scan_next(&s, &token); c == 'w' || c == 's';
         c = syn__pt_scan_next(&s, &token)) {
        if (map && !s.is_key) continue;
        if (!syn__pt_scan_i64(token, &v) || v < 0 || v >= SYN_MAX_WORLD || count == cap)
            return SYN_OK;
        (*out)[count++] = (int32_t)v;
    }
    bool doubles;
    SYN_TRY(has_doubles(f, *out, count, &doubles));
    if (!doubles) *n = (uint32_t)count;
    return SYN_OK;
}

static syn_status count_up(syn__pt_group_finder *f, int64_t start, int64_t stride, int64_t size,
                           int32_t **out, uint32_t *n) {
    *n = 0;
    *out = NULL;
    if (size < 1 || size > SYN_MAX_WORLD || start < 0 || stride < 0 || (stride == 0 && size > 1))
        return SYN_OK;
    if (start + syn__pt_mul_i64(stride, size - 1) >= SYN_MAX_WORLD) return SYN_OK;
    const size_t bytes = (size_t)size * sizeof **out;
    *out = (int32_t *)syn__arena_get(&f->rank->arena, bytes);
    if (*out == NULL) return SYN_FAIL_NOMEM(f->err, bytes, "the ranks of a group");
    for (int64_t i = 0; i < size; i++) (*out)[i] = (int32_t)(start + i * stride);
    *n = (uint32_t)size;
    return SYN_OK;
}

static void count_clash(syn__pt_group_finder *f, uint32_t index) {
    if (f->clash[index]) return;
    f->clash[index] = 1;
    syn__pt_note_at(f->notes, SYN_PYTORCH_ANOMALY_GROUP_CONFLICT, f->rank->host_input.name,
                    SYN_PYTORCH_NO_PLACE, SYN_PYTORCH_NO_PLACE);
}

static void set_ranks(syn__pt_group_finder *f, uint32_t index, int source, int32_t *ranks,
                      uint32_t n) {
    syn__pt_group *g = &f->rank->groups[index];
    if (g->n_ranks != 0) {
        if (g->n_ranks != n || memcmp(g->ranks, ranks, n * sizeof *ranks) != 0)
            count_clash(f, index);
        if (source <= f->source[index]) return;
    }
    f->source[index] = (uint8_t)source;
    g->ranks = ranks;
    g->n_ranks = n;
    if (g->size != n && g->size != 0) count_clash(f, index);
    g->size = n;
}

static bool seen(syn__pt_group_finder *f, uint32_t index, syn__str ranks) {
    syn__str *last = &f->last[index];
    if (last->bytes == ranks.bytes && memcmp(last->text, ranks.text, ranks.bytes) == 0) return true;
    *last = ranks;
    return false;
}

/* Merges a description into a group. Ranks given as start, stride and size are used only if there
   is no list of ranks. */
static syn_status merge(syn__pt_group_finder *f, uint32_t index, const described *d) {
    int32_t *ranks;
    uint32_t n = 0;
    if (d->ranks.bytes != 0 && !seen(f, index, d->ranks)) {
        SYN_TRY(read_ranks(f, d->ranks, &ranks, &n));
        if (n != 0) set_ranks(f, index, d->source, ranks, n);
    }
    syn__pt_group *g = &f->rank->groups[index];
    if (d->source == FROM_HOST && n == 0 && syn__str_is(d->ranks, "[]")) {
        SYN_TRY(count_up(f, 0, 1, d->size, &ranks, &n)); /* "[]" means all ranks */
        if (n != 0) set_ranks(f, index, d->source, ranks, n);
        if (n != 0 && f->rank->world_size < 0) f->rank->world_size = (int32_t)n;
    }
    if (g->n_ranks == 0) {
        SYN_TRY(count_up(f, d->start, d->stride, d->size, &ranks, &n));
        if (n != 0) set_ranks(f, index, FROM_CALL, ranks, n);
    }
    if (d->size <= 0 || d->size > SYN_MAX_WORLD) return SYN_OK;
    if (g->size == 0) g->size = (uint32_t)d->size;
    else if (g->size != (uint32_t)d->size) count_clash(f, index);
    return SYN_OK;
}

/* Finds or adds a group. A group without a name is identified by its description, or by its list of
   ranks if it has no description either. */
static syn_status take_group(syn__pt_group_finder *f, described *d, uint32_t *index) {
    *index = SYN__PT_NONE;
    if (d->name.bytes == 0) d->name = d->desc;
    if (d->name.bytes == 0) d->name = d->ranks;
    if (d->name.bytes == 0) return SYN_OK;
    *index = syn__pt_map_get(&f->names, name_key(d->name));
    if (*index == SYN__PT_NONE) SYN_TRY(add(f, d, index));
    return merge(f, *index, d);
}

/* ---- Descriptions ---- */

static void clear(described *d, int source) {
    memset(d, 0, sizeof *d);
    d->size = d->start = d->stride = d->backend = -1;
    d->source = source;
}

static void set_member(syn__pt_group_finder *f, described *d, syn__str key, syn__str value) {
    int64_t v = -1;
    const bool number = syn__pt_scan_i64(value, &v) && v >= 0;
    if (syn__str_is(key, "pg_name")) d->name = value;
    else if (syn__str_is(key, "pg_id") && d->name.bytes == 0) d->name = value;
    else if (syn__str_is(key, "pg_desc")) d->desc = value;
    else if (syn__str_is(key, "ranks")) d->ranks = value;
    else if (number && syn__str_is(key, "backend_id")) d->backend = v;
    else if (number && (syn__str_is(key, "group_size") || syn__str_is(key, "pg_size"))) d->size = v;
    else if (number && v < SYN_MAX_WORLD && d->source == FROM_DEVICE) {
        if (syn__str_is(key, "rank") && f->rank->rank < 0) f->rank->rank = (int32_t)v;
        if (syn__str_is(key, "world_size") && f->rank->world_size < 0)
            f->rank->world_size = (int32_t)v;
    }
}

static syn_status take_described(syn__pt_group_finder *f, described *d) {
    uint32_t index;
    SYN_TRY(take_group(f, d, &index));
    if (d->backend >= 0 && index != SYN__PT_NONE)
        SYN_TRY(put(f, &f->backends, (uint64_t)d->backend, index));
    clear(d, d->source);
    return SYN_OK;
}

/* Reads all objects in a text that describe groups, at any depth. */
static syn_status take_groups(syn__pt_group_finder *f, syn__str text, int source) {
    syn__pt_scan s = syn__pt_scan_of(text);
    syn__str key, value;
    described d;
    clear(&d, source);
    for (char c = syn__pt_scan_next(&s, &key); c != 0; c = syn__pt_scan_next(&s, &key)) {
        if (c == '{') clear(&d, source);
        if (c == '}') SYN_TRY(take_described(f, &d));
        if (c != 's' || !s.is_key) continue;
        const syn__pt_scan before = s;
        c = syn__pt_scan_next(&s, &value);
        if ((c == '[' || c == '{') && syn__str_is(key, "ranks")) {
            syn__pt_scan_leave(&s);
            value.bytes = (size_t)(s.cur - value.text);
        }
        if (c == 's' || c == 'w' || syn__str_is(key, "ranks")) set_member(f, &d, key, value);
        else s = before;
    }
    return SYN_OK;
}

/* Reads the strings among the inputs of a process_group:init node. Each is a list of descriptions
   that was encoded as a JSON string at least once. */
static syn_status take_init(syn__pt_group_finder *f, const syn__pt_host_node *node) {
    syn__pt_scan s = syn__pt_scan_of(syn__pt_inputs(node));
    syn__str text;
    for (char c = syn__pt_scan_next(&s, &text); c != 0; c = syn__pt_scan_next(&s, &text)) {
        if (c != 's' || memchr(text.text, '{', text.bytes) == NULL) continue;
        char *plain = (char *)syn__arena_get(&f->rank->arena, text.bytes + 1);
        if (plain == NULL) return SYN_FAIL_NOMEM(f->err, text.bytes, "process groups");
        size_t bytes = syn__loose_decode(text, plain);
        for (int i = 1; i < MAX_UNPACKED && memchr(plain, '\\', bytes) != NULL; i++) {
            const syn__str again = {plain, bytes};
            char *next = (char *)syn__arena_get(&f->rank->arena, bytes + 1);
            if (next == NULL) return SYN_FAIL_NOMEM(f->err, bytes, "process groups");
            bytes = syn__loose_decode(again, next);
            plain = next;
        }
        while (bytes > 0 && *plain == '"') {
            plain++;
            bytes--;
        }
        const syn__str groups = {plain, bytes};
        SYN_TRY(take_groups(f, groups, FROM_HOST));
    }
    return SYN_OK;
}

/* ---- Interface ---- */

syn_status syn__pt_groups_open(syn__pt_group_finder *f, syn__pt_rank *rank, syn_pytorch_note *notes,
                               syn_error *err) {
    const syn__pt_host *host = &rank->host;
    memset(f, 0, sizeof *f);
    f->rank = rank;
    f->notes = notes;
    f->err = err;
    uint32_t init = SYN__PT_NONE;
    for (uint32_t i = 0; i < host->names.n_entries && init == SYN__PT_NONE; i++) {
        if (syn__pt_describes_groups(syn__pt_host_name(host, i))) init = i;
    }
    for (size_t i = 0; init != SYN__PT_NONE && i < host->n_nodes; i++) {
        if (host->nodes[i].name == init) SYN_TRY(take_init(f, &host->nodes[i]));
    }
    return take_groups(f, rank->device.distributed_info, FROM_DEVICE);
}

syn_status syn__pt_groups_find(syn__pt_group_finder *f, const syn__pt_properties *properties,
                               uint32_t *group) {
    described d = {properties->group,
                   properties->group_desc,
                   properties->group_ranks,
                   properties->group_size,
                   properties->group_start,
                   properties->group_stride,
                   -1,
                   FROM_CALL};
    if (d.name.bytes == 0 && properties->backend >= 0) {
        *group = syn__pt_map_get(&f->backends, (uint64_t)properties->backend);
        if (*group != SYN__PT_NONE) return merge(f, *group, &d);
    }
    return take_group(f, &d, group);
}

static bool is_default(const syn__pt_group *g) {
    return strcmp(g->desc, "default_pg") == 0;
}

syn_status syn__pt_groups_finish(syn__pt_group_finder *f) {
    syn__pt_rank *r = f->rank;
    for (size_t i = 0; i < r->n_groups && r->world_size < 0; i++) {
        if (is_default(&r->groups[i]) && r->groups[i].size != 0)
            r->world_size = (int32_t)r->groups[i].size;
    }
    for (size_t i = 0; i < r->n_groups; i++) {
        syn__pt_group *g = &r->groups[i];
        if (g->n_ranks != 0 || (g->size == 0 && !is_default(g))) continue;
        const int64_t size = g->size != 0 ? (int64_t)g->size : r->world_size;
        if (size != r->world_size) continue;
        SYN_TRY(count_up(f, 0, 1, size, &g->ranks, &g->n_ranks));
        g->size = g->n_ranks;
    }
    return SYN_OK;
}

void syn__pt_groups_close(syn__pt_group_finder *f) {
    syn__pt_map_free(&f->names);
    syn__pt_map_free(&f->backends);
    syn_free(f->last);
    syn_free(f->source);
    syn_free(f->clash);
}
