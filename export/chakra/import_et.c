/* Imports Chakra execution traces: a single file, or a set with its groups. */
#include "export/chakra/et_build.h"
#include "export/chakra/et_import.h"
#include "export/chakra/wire/et_files.h"
#include "export/export.h"
#include "syntorch/base/memory.h"

static syn_status add_file(syn__et_builder *b, uint32_t rank, const char *path, syn_error *err) {
    char *data;
    size_t bytes;
    SYN_TRY(syn_read_file(path, SYN__ET_MAX_FILE_BYTES, &data, &bytes, err));
    const syn_status status = syn__et_builder_add(b, rank, path, data, bytes, true, err);
    syn_free(data);
    return status;
}

/* Finishes the builder, also if `status` is a failure. */
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

/* path NULL: there is no group file. */
static syn_status read_groups(syn__et_builder *b, const char *path, syn_error *err) {
    char *data;
    size_t bytes;
    if (path == NULL) return SYN_OK;
    SYN_TRY(syn_read_file(path, SYN__ET_MAX_FILE_BYTES, &data, &bytes, err));
    const syn_status status = syn__et_builder_groups(b, path, data, bytes, err);
    syn_free(data);
    return status;
}

static syn_status read_set(const syn__et_files *files, syn_graph **out, syn_error *err) {
    syn__et_builder *b;
    int32_t *ranks = (int32_t *)syn_malloc(files->n * sizeof *ranks);
    if (ranks == NULL)
        return SYN_FAIL_NOMEM(err, files->n * sizeof *ranks, "the ranks of a trace set");
    for (size_t i = 0; i < files->n; i++) ranks[i] = files->list[i].rank;
    syn_status status = syn__et_builder_new(&b, ranks, (uint32_t)files->n, err);
    syn_free(ranks);
    if (status != SYN_OK) return status;
    status = read_groups(b, files->groups, err);
    for (uint32_t i = 0; i < files->n && status == SYN_OK; i++)
        status = add_file(b, i, files->list[i].path, err);
    return finish(b, status, out, err);
}

syn_status syn__et_import_set(syn_graph **out, const char *prefix, size_t prefix_bytes,
                              syn_error *err) {
    syn__et_files files;
    *out = NULL;
    SYN_TRY(syn__et_files_of_prefix(&files, prefix, prefix_bytes, err));
    const syn_status status = read_set(&files, out, err);
    syn__et_files_close(&files);
    return status;
}

syn_status syn__et_import_file(syn_graph **out, const char *path, const char *data, size_t bytes,
                               syn_error *err) {
    size_t prefix_bytes;
    int32_t rank = syn__et_peek_rank(data, bytes);
    char *groups;
    syn__et_builder *b;
    if (rank < 0) rank = syn__et_rank_of(path, &prefix_bytes);
    if (rank < 0) rank = 0;
    SYN_TRY(syn__et_group_file_of(path, &groups, err));
    syn_status status = syn__et_builder_new(&b, &rank, 1, err);
    if (status == SYN_OK) {
        status = read_groups(b, groups, err);
        if (status == SYN_OK) status = syn__et_builder_add(b, 0, path, data, bytes, true, err);
        status = finish(b, status, out, err);
    }
    syn_free(groups);
    return status;
}

syn_status syn_import_et(syn_graph **out, const char *path, bool all_ranks, syn_error *err) {
    size_t prefix_bytes, bytes;
    char *data;
    *out = NULL;
    if (all_ranks && syn__et_rank_of(path, &prefix_bytes) >= 0)
        return syn__et_import_set(out, path, prefix_bytes, err);
    SYN_TRY(syn_read_file(path, SYN__ET_MAX_FILE_BYTES, &data, &bytes, err));
    const syn_status status = syn__et_import_file(out, path, data, bytes, err);
    syn_free(data);
    return status;
}
