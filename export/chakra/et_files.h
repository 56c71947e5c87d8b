/* Which files make up a set of execution traces: <prefix>.<rank>.et and <prefix>.comm_group.json.
 */
#ifndef EXPORT_ET_FILES_H
#define EXPORT_ET_FILES_H

#include "syntorch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__ET_FILE_BYTES ((size_t)1 << 36) /* the longest file that is read */

typedef struct syn__et_file {
    char *path;
    int32_t rank; /* -1: the name does not tell */
} syn__et_file;

typedef struct syn__et_files {
    syn__et_file *list; /* by rank */
    size_t n, cap;
    bool is_set;     /* found by prefix */
    bool has_groups; /* the file `groups` exists */
    char *groups;    /* of the first file's prefix; NULL: it has none */
} syn__et_files;

/* A path that is no file, alone, is taken for a prefix: its ranks are looked for in the folder.
   Otherwise the files named; ranks come from the names if those differ, else from the order. */
syn_status syn__et_files_open(syn__et_files *files, const char *const *paths, size_t n,
                              syn_error *err) SYN_MUST_USE;
void syn__et_files_close(syn__et_files *files);

#ifdef __cplusplus
}
#endif
#endif
