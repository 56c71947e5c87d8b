/* Reads Chakra execution traces: one file, or a whole set with its groups. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "export/chakra/et_graph.h"
#include "syntorch/memory.h"

#define MAX_FILE_BYTES ((size_t)1 << 36)
#define SUFFIX_BYTES   32 /* ".2147483647.et", ".comm_group.json" */

/* Splits "folder/prefix.12.et": bytes of the prefix, and the rank. False for any other name. */
static bool split_path(const char *path, size_t *prefix_bytes, int32_t *rank) {
    const size_t bytes = strlen(path);
    if (bytes < 5 || strcmp(path + bytes - 3, ".et") != 0) return false;
    size_t from = bytes - 3;
    uint64_t v = 0, unit = 1;
    while (from > 0 && path[from - 1] >= '0' && path[from - 1] <= '9' && unit < 10000000000u) {
        v += (uint64_t)(path[--from] - '0') * unit;
        unit *= 10;
    }
    if (from == bytes - 3 || from < 2 || path[from - 1] != '.' || v >= INT32_MAX) return false;
    if (path[from] == '0' && from + 1 != bytes - 3) return false;
    *prefix_bytes = from - 1;
    *rank = (int32_t)v;
    return true;
}

static syn_status add_file(syn__et_builder *b, uint32_t rank, const char *path, syn_error *err) {
    char *data;
    size_t bytes;
    SYN_TRY(syn_read_file(path, MAX_FILE_BYTES, &data, &bytes, err));
    const syn_status status = syn__et_builder_add(b, rank, path, data, bytes, true, err);
    syn_free(data);
    return status;
}

/* Ends building in any case. */
static syn_status finish(syn__et_builder *b, syn_status status, syn_graph **out, syn_error *err) {
    const syn_status finished = syn__et_builder_finish(b, status == SYN_OK ? out : NULL, err);
    return status != SYN_OK ? status : finished;
}

/* ---- From memory ---- */

static syn_status import_memory(syn_graph **out, const char *name, const char *data, size_t bytes,
                                int32_t rank, syn_error *err) {
    syn__et_builder *b;
    *out = NULL;
    SYN_TRY(syn__et_builder_new(&b, &rank, 1, err));
    return finish(b, syn__et_builder_add(b, 0, name, data, bytes, true, err), out, err);
}

syn_status syn_import_et_memory(syn_graph **out, const char *name, const char *data, size_t bytes,
                                syn_error *err) {
    const int32_t rank = syn__et_peek_rank(data, bytes);
    return import_memory(out, name, data, bytes, rank < 0 ? 0 : rank, err);
}

/* ---- From files ---- */

typedef struct set {
    char *path; /* of any of its files: room for the prefix and a suffix */
    size_t path_bytes, prefix_bytes;
    int32_t *ranks;
    size_t n_ranks, ranks_cap;
} set;

static const char *path_of(set *s, int32_t rank) {
    snprintf(s->path + s->prefix_bytes, s->path_bytes - s->prefix_bytes, ".%" PRId32 ".et", rank);
    return s->path;
}

static const char *group_path(set *s) {
    snprintf(s->path + s->prefix_bytes, s->path_bytes - s->prefix_bytes, ".comm_group.json");
    return s->path;
}

static int compare(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Collects the ranks of the files of that prefix in its folder. */
static syn_status find_ranks(set *s, syn_error *err) {
    size_t folder_bytes = s->prefix_bytes;
    while (folder_bytes > 0 && s->path[folder_bytes - 1] != '/') folder_bytes--;
    const size_t base_bytes = s->prefix_bytes - folder_bytes;
    char *folder = folder_bytes == 0 ? syn_strdup(".") : syn_strndup(s->path, folder_bytes);
    if (folder == NULL) return SYN_FAIL_NOMEM(err, folder_bytes + 1, "a folder's name");
    DIR *dir = opendir(folder);
    syn_status status = SYN_OK;
    if (dir == NULL)
        status =
            SYN_FAIL(err, SYN_E_IO, "cannot read the folder %.300s: %s", folder, strerror(errno));
    for (struct dirent *e; status == SYN_OK && (e = readdir(dir)) != NULL;) {
        size_t bytes;
        int32_t rank;
        if (!split_path(e->d_name, &bytes, &rank) || bytes != base_bytes ||
            memcmp(e->d_name, s->path + folder_bytes, base_bytes) != 0)
            continue;
        status = syn_grow(&s->ranks, &s->ranks_cap, s->n_ranks + 1, sizeof *s->ranks, err);
        if (status == SYN_OK) s->ranks[s->n_ranks++] = rank;
    }
    if (dir != NULL) closedir(dir);
    syn_free(folder);
    if (s->n_ranks > 1) qsort(s->ranks, s->n_ranks, sizeof *s->ranks, compare);
    return status;
}

static syn_status read_groups(syn__et_builder *b, set *s, syn_error *err) {
    char *data;
    size_t bytes;
    const char *path = group_path(s);
    if (!syn_file_exists(path)) return SYN_OK;
    SYN_TRY(syn_read_file(path, MAX_FILE_BYTES, &data, &bytes, err));
    const syn_status status = syn__et_builder_groups(b, path, data, bytes, err);
    syn_free(data);
    return status;
}

static syn_status read_set(set *s, syn_graph **out, syn_error *err) {
    syn__et_builder *b;
    if (s->n_ranks == 0) return SYN_FAIL(err, SYN_E_IO, "there is no file %.300s", path_of(s, 0));
    SYN_TRY(syn__et_builder_new(&b, s->ranks, (uint32_t)s->n_ranks, err));
    syn_status status = read_groups(b, s, err);
    for (uint32_t i = 0; i < s->n_ranks && status == SYN_OK; i++)
        status = add_file(b, i, path_of(s, s->ranks[i]), err);
    return finish(b, status, out, err);
}

syn_status syn__et_import_set(syn_graph **out, const char *prefix, size_t prefix_bytes,
                              syn_error *err) {
    set s = {.prefix_bytes = prefix_bytes, .path_bytes = prefix_bytes + SUFFIX_BYTES};
    *out = NULL;
    s.path = (char *)syn_malloc(s.path_bytes);
    if (s.path == NULL) return SYN_FAIL_NOMEM(err, s.path_bytes, "a file name");
    memcpy(s.path, prefix, prefix_bytes);
    syn_status status = find_ranks(&s, err);
    if (status == SYN_OK) status = read_set(&s, out, err);
    syn_free(s.ranks);
    syn_free(s.path);
    return status;
}

syn_status syn__et_import_file(syn_graph **out, const char *path, const char *data, size_t bytes,
                               syn_error *err) {
    size_t prefix_bytes = 0;
    int32_t name_rank = -1, rank = syn__et_peek_rank(data, bytes);
    const bool named = split_path(path, &prefix_bytes, &name_rank);
    if (rank < 0) rank = named ? name_rank : 0;
    set s = {.prefix_bytes = prefix_bytes, .path_bytes = prefix_bytes + SUFFIX_BYTES};
    s.path = (char *)syn_malloc(s.path_bytes);
    if (s.path == NULL) return SYN_FAIL_NOMEM(err, s.path_bytes, "a file name");
    memcpy(s.path, path, prefix_bytes);
    syn__et_builder *b;
    syn_status status = syn__et_builder_new(&b, &rank, 1, err);
    if (status == SYN_OK) {
        if (named) status = read_groups(b, &s, err);
        if (status == SYN_OK) status = syn__et_builder_add(b, 0, path, data, bytes, true, err);
        status = finish(b, status, out, err);
    }
    syn_free(s.path);
    return status;
}

syn_status syn_import_et(syn_graph **out, const char *path, bool all_ranks, syn_error *err) {
    size_t prefix_bytes;
    int32_t rank;
    char *data;
    size_t bytes;
    *out = NULL;
    if (all_ranks && split_path(path, &prefix_bytes, &rank))
        return syn__et_import_set(out, path, prefix_bytes, err);
    SYN_TRY(syn_read_file(path, MAX_FILE_BYTES, &data, &bytes, err));
    const syn_status status = syn__et_import_file(out, path, data, bytes, err);
    syn_free(data);
    return status;
}
