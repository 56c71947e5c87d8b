/* Internals of the safetensors reader, shared by safetensors*.c and their tests. */
#ifndef MODELS_SAFETENSORS_PRIVATE_H
#define MODELS_SAFETENSORS_PRIVATE_H

#include "models/weights/safetensors.h"
#include "syntorch/base/intern.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Largest header in bytes, as in the reference implementation. An index may not be larger,
   either. */
#define SYN__SAFETENSORS_HEADER_BYTES 100000000u
#define SYN__SAFETENSORS_METADATA     "__metadata__"

typedef struct syn__safetensors_file {
    char *name;       /* without folders */
    const char *data; /* the whole file */
    size_t bytes;
    void *map;  /* the mapping; NULL: the caller owns data */
    char *text; /* names and metadata of its header, each NUL-terminated */
} syn__safetensors_file;

typedef struct syn__safetensors_pair {
    const char *key, *value;
    size_t file;
} syn__safetensors_pair;

struct syn_safetensors {
    syn__safetensors_file *files;
    size_t n_files;
    syn_safetensors_tensor *tensors;
    size_t n_tensors, tensors_cap;
    syn__safetensors_pair *metadata;
    size_t n_metadata, metadata_cap;
    const syn_safetensors_tensor **by_name;
};

/* The weight_map of an index. `names`: names of tensors, in file order. `files`: names of files. */
typedef struct syn__safetensors_index {
    syn_intern names, files;
    uint32_t *file_of; /* for each name, the id of its file in `files` */
    size_t file_of_cap;
} syn__safetensors_index;

/* An element type of the format. */
typedef struct syn__safetensors_dtype {
    const char *name;
    int bits;
    int dtype; /* syn_dtype, or -1 */
} syn__safetensors_dtype;
const syn__safetensors_dtype *syn__safetensors_dtype_of(syn_dtype dtype);

/* Parses and validates the header of a file whose data is set. Appends its tensors and metadata to
   st. `path` is for errors. */
syn_status syn__safetensors_read_header(syn_safetensors *st, syn__safetensors_file *file,
                                        const char *path, syn_error *err) SYN_MUST_USE;
/* Parses the JSON of an index. File names must not contain folders. Free the index after a failure,
   too. */
syn_status syn__safetensors_read_index(syn__safetensors_index *index, const char *path,
                                       const char *json, size_t bytes, syn_error *err) SYN_MUST_USE;
void syn__safetensors_index_free(syn__safetensors_index *index);
/* For tests: opens one file in memory, which must outlive *out. */
syn_status syn__safetensors_open_memory(syn_safetensors **out, const char *path, const void *data,
                                        size_t bytes, syn_error *err) SYN_MUST_USE;

/* Formats the name of a tensor or file for an error message: truncates it, and replaces control
   characters by '?'. */
#define SYN__SAFETENSORS_SHOWN 100
const char *syn__safetensors_shown(const char *name, char buf[SYN__SAFETENSORS_SHOWN]);

#ifdef __cplusplus
}
#endif
#endif
