/* A set of input files. Prevents a program from overwriting one of its inputs, whatever path leads
   to the file. */
#ifndef EXPORT_INPUT_FILES_H
#define EXPORT_INPUT_FILES_H

#include <sys/types.h>

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct syn__input_file {
    dev_t device;
    ino_t file;
} syn__input_file;

typedef struct syn__input_files {
    syn__input_file *list;
    size_t n, cap;
} syn__input_files;

/* Adds a file; "-" is standard input. NULL, and anything that does not exist or is not a regular
   file, is ignored. */
syn_status syn__input_files_add(syn__input_files *inputs, const char *path,
                                syn_error *err) SYN_MUST_USE;
/* Fails with SYN_E_INVALID if `output` is one of the files, even through a link. */
syn_status syn__input_files_keep(const syn__input_files *inputs, const char *output,
                                 syn_error *err) SYN_MUST_USE;
void syn__input_files_free(syn__input_files *inputs);

#ifdef __cplusplus
}
#endif
#endif
