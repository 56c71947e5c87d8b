/* Which files make up a set of execution traces:
   <prefix>.<rank>.et and <prefix>.comm_group.json. */
#ifndef EXPORT_ET_FILES_H
#define EXPORT_ET_FILES_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__ET_FILE_BYTES ((size_t)1 << 36) /* the longest file that is read */

typedef struct syn__et_file {
    char *path;
    int32_t rank; /* -1: not in the name */
} syn__et_file;

typedef struct syn__et_files {
    syn__et_file *list; /* by rank */
    size_t n, cap;
    bool is_set;  /* found by prefix */
    char *groups; /* the group file beside the first; NULL: there is none */
} syn__et_files;

/* A path that is no file, alone, is taken for a prefix: its ranks are looked for in the folder.
   Otherwise the files named; ranks come from the names if those differ, else from the order. */
syn_status syn__et_files_open(syn__et_files *files, const char *const *paths, size_t n,
                              syn_error *err) SYN_MUST_USE;
/* All ranks of the first `prefix_bytes` bytes of a path. */
syn_status syn__et_files_of_prefix(syn__et_files *files, const char *path, size_t prefix_bytes,
                                   syn_error *err) SYN_MUST_USE;
void syn__et_files_close(syn__et_files *files);
/* "prefix.12.et" is rank 12 and the prefix's length; -1 for other names. */
int32_t syn__et_rank_of(const char *path, size_t *prefix_bytes);
/* The prefix's length, also of "prefix.et" and of "prefix" itself. */
size_t syn__et_prefix_bytes(const char *path);
/* The group file that belongs to a rank's file, if it exists; NULL for other
   names. The caller's. */
syn_status syn__et_groups_beside(const char *path, char **out, syn_error *err) SYN_MUST_USE;

/* ---- Names of a set that is written ---- */

typedef struct syn__et_names {
    char *path; /* the prefix, and room for a suffix */
    size_t prefix_bytes;
} syn__et_names;

syn_status syn__et_names_open(syn__et_names *names, const char *prefix,
                              syn_error *err) SYN_MUST_USE;
void syn__et_names_close(syn__et_names *names);
/* Each holds until the next call. */
const char *syn__et_rank_path(syn__et_names *names, uint32_t rank);
const char *syn__et_group_path(syn__et_names *names);
/* An older set of that name ends here: without its group file it is not complete, and the files of
   ranks beyond this world would be taken for part of the new set. */
syn_status syn__et_remove_older(syn__et_names *names, uint32_t world_size,
                                syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
