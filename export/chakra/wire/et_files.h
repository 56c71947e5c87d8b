/* Finds and names the files of a set of execution traces: <prefix>.<rank>.et and
   <prefix>.comm_group.json. */
#ifndef EXPORT_ET_FILES_H
#define EXPORT_ET_FILES_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__ET_MAX_FILE_BYTES ((size_t)1 << 36) /* maximum size of a file that is read */

typedef struct syn__et_file {
    char *path;
    int32_t rank; /* -1: not in the name */
} syn__et_file;

typedef struct syn__et_files {
    syn__et_file *list; /* sorted by rank */
    size_t n, cap;
    bool is_set;  /* the files were found by their prefix */
    char *groups; /* the group file next to the first file; NULL: none */
} syn__et_files;

/* Lists the files of the given paths. A single path that is not a file is a prefix, and all files
   <path>.<rank>.et are listed. Otherwise the paths themselves are listed. Their ranks come from
   their names if every name has a rank and all ranks differ, otherwise from the order of the
   paths. */
syn_status syn__et_files_open(syn__et_files *files, const char *const *paths, size_t n,
                              syn_error *err) SYN_MUST_USE;
/* Finds all ranks of the prefix, the first `prefix_bytes` bytes of `path`. */
syn_status syn__et_files_of_prefix(syn__et_files *files, const char *path, size_t prefix_bytes,
                                   syn_error *err) SYN_MUST_USE;
void syn__et_files_close(syn__et_files *files);
/* For "prefix.12.et" returns rank 12 and the prefix's length; for other names -1. */
int32_t syn__et_rank_of(const char *path, size_t *prefix_bytes);
/* The length of the prefix in "prefix.12.et", "prefix.et" or "prefix". */
size_t syn__et_prefix_bytes(const char *path);
/* Sets *out to the path of the group file that belongs to a rank's file, or to NULL if it does not
   exist or `path` is not named like a rank's file. The caller frees *out. */
syn_status syn__et_group_file_of(const char *path, char **out, syn_error *err) SYN_MUST_USE;

/* ---- Names of a set to be written ---- */

typedef struct syn__et_names {
    char *path; /* the prefix, with space for a suffix */
    size_t prefix_bytes;
} syn__et_names;

syn_status syn__et_names_open(syn__et_names *names, const char *prefix,
                              syn_error *err) SYN_MUST_USE;
void syn__et_names_close(syn__et_names *names);
/* Return the path of a rank's file or of the group file, which is valid until the next call. */
const char *syn__et_rank_path(syn__et_names *names, uint32_t rank);
const char *syn__et_group_path(syn__et_names *names);
/* Removes parts of an older set with the same prefix: its group file, so that the old set is
   visibly incomplete, and the files of ranks beyond the new world size, which readers would take
   for part of the new set. */
syn_status syn__et_remove_old_set(syn__et_names *names, uint32_t world_size,
                                  syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
