/* Finds the files of a trace set, and names the files of a new one. */
#include "export/chakra/wire/et_files.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"

#define SUFFIX_BYTES 32 /* fits the longest suffix: ".comm_group.json" */

int32_t syn__et_rank_of(const char *name, size_t *prefix_bytes) {
    const size_t bytes = strlen(name);
    *prefix_bytes = 0;
    if (bytes < 6 || strcmp(name + bytes - 3, ".et") != 0) return -1;
    size_t from = bytes - 3;
    while (from > 0 && name[from - 1] >= '0' && name[from - 1] <= '9') from--;
    const size_t digits = bytes - 3 - from;
    const bool leading_zero = digits > 1 && name[from] == '0';
    if (digits == 0 || digits > 9 || leading_zero || from < 2 || name[from - 1] != '.') return -1;
    *prefix_bytes = from - 1;
    return (int32_t)strtol(name + from, NULL, 10);
}

size_t syn__et_prefix_bytes(const char *path) {
    size_t bytes = strlen(path), prefix_bytes;
    if (syn__et_rank_of(path, &prefix_bytes) >= 0) return prefix_bytes;
    return bytes > 3 && strcmp(path + bytes - 3, ".et") == 0 ? bytes - 3 : bytes;
}

static syn_status add(syn__et_files *files, const char *path, int32_t rank, syn_error *err) {
    SYN_TRY(syn_grow(&files->list, &files->cap, files->n + 1, sizeof *files->list, err));
    char *copy = syn_strdup(path);
    if (copy == NULL) return SYN_FAIL_NOMEM(err, strlen(path) + 1, "a file name");
    files->list[files->n++] = (syn__et_file){copy, rank};
    return SYN_OK;
}

static int compare(const void *a, const void *b) {
    const syn__et_file *x = (const syn__et_file *)a, *y = (const syn__et_file *)b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Fails with the reason why neither the file nor ranks of a set were found. */
static syn_status fail_none(const char *prefix, int folder_code, syn_error *err) {
    struct stat info;
    const int code = stat(prefix, &info) != 0 && errno != ENOENT ? errno : folder_code;
    if (code != 0 && code != ENOENT)
        return SYN_FAIL(err, SYN_E_IO, "cannot read %.300s: %s", prefix, strerror(code));
    return SYN_FAIL(err, SYN_E_IO, "neither the file %.200s nor the set %.200s.<rank>.et exists",
                    prefix, prefix);
}

/* Adds the files <prefix>.<rank>.et in `dir`. `path` begins with the prefix, of prefix_bytes bytes,
   and has space for SUFFIX_BYTES more. */
static syn_status add_ranks(syn__et_files *files, char *path, size_t prefix_bytes, DIR *dir,
                            syn_error *err) {
    const char *slash = strrchr(path, '/');
    const char *base = slash == NULL ? path : slash + 1;
    const size_t base_bytes = prefix_bytes - (size_t)(base - path);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        size_t bytes;
        const int32_t rank = syn__et_rank_of(e->d_name, &bytes);
        if (rank < 0 || bytes != base_bytes || memcmp(e->d_name, base, base_bytes) != 0) continue;
        snprintf(path + prefix_bytes, SUFFIX_BYTES, ".%" PRId32 ".et", rank);
        const syn_status status = add(files, path, rank, err);
        path[prefix_bytes] = '\0';
        SYN_TRY(status);
    }
    return SYN_OK;
}

syn_status syn__et_files_of_prefix(syn__et_files *files, const char *prefix, size_t bytes,
                                   syn_error *err) {
    *files = (syn__et_files){.is_set = true};
    char *path = (char *)syn_malloc(bytes + SUFFIX_BYTES);
    if (path == NULL) return SYN_FAIL_NOMEM(err, bytes + SUFFIX_BYTES, "a file name");
    memcpy(path, prefix, bytes);
    path[bytes] = '\0';
    char *slash = strrchr(path, '/');
    const char saved = slash == NULL ? '\0' : slash[1];
    if (slash != NULL) slash[1] = '\0';
    DIR *dir = opendir(slash == NULL ? "." : path);
    const int code = dir == NULL ? errno : 0;
    if (slash != NULL) slash[1] = saved;
    syn_status status = SYN_OK;
    if (dir != NULL) {
        status = add_ranks(files, path, bytes, dir, err);
        (void)closedir(dir);
    }
    if (status == SYN_OK && files->n == 0) status = fail_none(path, code, err);
    if (files->n > 1) qsort(files->list, files->n, sizeof *files->list, compare);
    if (status == SYN_OK) status = syn__et_group_file_of(files->list[0].path, &files->groups, err);
    syn_free(path);
    if (status != SYN_OK) syn__et_files_close(files);
    return status;
}

/* Adds the given files, sorted by rank. The ranks come from the file names if every name has a rank
   and all ranks differ; otherwise the files are numbered from 0 in the given order. */
static syn_status take_named(syn__et_files *files, const char *const *paths, size_t n,
                             syn_error *err) {
    size_t unused;
    bool named = true;
    for (size_t i = 0; i < n; i++) {
        SYN_TRY(add(files, paths[i], syn__et_rank_of(paths[i], &unused), err));
        named = named && files->list[i].rank >= 0;
    }
    if (n == 1) return SYN_OK;
    if (n > INT32_MAX) return SYN_FAIL(err, SYN_E_INVALID, "too many files");
    qsort(files->list, n, sizeof *files->list, compare);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(files->list[i].path, files->list[i - 1].path) == 0)
            return SYN_FAIL(err, SYN_E_INVALID, "the file %.300s is given twice",
                            files->list[i].path);
        named = named && files->list[i].rank != files->list[i - 1].rank;
    }
    for (size_t i = 0; i < n && !named; i++) {
        syn_free(files->list[i].path);
        files->list[i] = (syn__et_file){syn_strdup(paths[i]), (int32_t)i};
        if (files->list[i].path == NULL)
            return SYN_FAIL_NOMEM(err, strlen(paths[i]) + 1, "a file name");
    }
    return SYN_OK;
}

syn_status syn__et_files_open(syn__et_files *files, const char *const *paths, size_t n,
                              syn_error *err) {
    *files = (syn__et_files){0};
    if (n == 0) return SYN_FAIL(err, SYN_E_INVALID, "no file was given");
    if (n == 1 && strcmp(paths[0], "-") != 0 && !syn_file_exists(paths[0]))
        return syn__et_files_of_prefix(files, paths[0], strlen(paths[0]), err);
    syn_status status = take_named(files, paths, n, err);
    if (status == SYN_OK) status = syn__et_group_file_of(files->list[0].path, &files->groups, err);
    if (status != SYN_OK) syn__et_files_close(files);
    return status;
}

void syn__et_files_close(syn__et_files *files) {
    for (size_t i = 0; i < files->n; i++) syn_free(files->list[i].path);
    syn_free(files->list);
    syn_free(files->groups);
    *files = (syn__et_files){0};
}

/* ---- Names ---- */

#define GROUPS ".comm_group.json"

syn_status syn__et_group_file_of(const char *path, char **out, syn_error *err) {
    size_t bytes;
    *out = NULL;
    if (syn__et_rank_of(path, &bytes) < 0) return SYN_OK;
    char *name = (char *)syn_malloc(bytes + sizeof GROUPS);
    if (name == NULL) return SYN_FAIL_NOMEM(err, bytes + sizeof GROUPS, "a file name");
    memcpy(name, path, bytes);
    memcpy(name + bytes, GROUPS, sizeof GROUPS);
    if (syn_file_exists(name)) *out = name;
    else syn_free(name);
    return SYN_OK;
}

syn_status syn__et_names_open(syn__et_names *names, const char *prefix, syn_error *err) {
    const size_t bytes = strlen(prefix);
    *names = (syn__et_names){(char *)syn_malloc(bytes + SUFFIX_BYTES), bytes};
    if (names->path == NULL) return SYN_FAIL_NOMEM(err, bytes + SUFFIX_BYTES, "a file name");
    memcpy(names->path, prefix, bytes);
    return SYN_OK;
}

void syn__et_names_close(syn__et_names *names) {
    syn_free(names->path);
    *names = (syn__et_names){0};
}

const char *syn__et_rank_path(syn__et_names *names, uint32_t rank) {
    snprintf(names->path + names->prefix_bytes, SUFFIX_BYTES, ".%" PRIu32 ".et", rank);
    return names->path;
}

const char *syn__et_group_path(syn__et_names *names) {
    memcpy(names->path + names->prefix_bytes, GROUPS, sizeof GROUPS);
    return names->path;
}

static syn_status remove_file(const char *path, syn_error *err) {
    if (unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR) return SYN_OK;
    return SYN_FAIL(err, SYN_E_IO, "cannot replace the older set: cannot remove %s: %s", path,
                    strerror(errno));
}

syn_status syn__et_remove_old_set(syn__et_names *names, uint32_t world_size, syn_error *err) {
    syn__et_files old;
    SYN_TRY(remove_file(syn__et_group_path(names), err));
    if (syn__et_files_of_prefix(&old, names->path, names->prefix_bytes, NULL) != SYN_OK)
        return SYN_OK; /* there is no older set */
    syn_status s = SYN_OK;
    for (size_t i = 0; i < old.n && s == SYN_OK; i++)
        if ((uint32_t)old.list[i].rank >= world_size) s = remove_file(old.list[i].path, err);
    syn__et_files_close(&old);
    return s;
}
