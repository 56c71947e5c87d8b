/* Internals of the safetensors reader, shared by models/safetensors*.c and their tests. */
#ifndef MODELS_SAFETENSORS_PRIVATE_H
#define MODELS_SAFETENSORS_PRIVATE_H

#include "models/weights/safetensors.h"
#include "syntorch/base/intern.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The reference implementation's limit on the header; ours on an index too. */
#define SYN__SAFETENSORS_HEADER_BYTES 100000000u
#define SYN__SAFETENSORS_METADATA     "__metadata__"

typedef struct syn__safetensors_file {
    char *name;       /* without folders */
    const char *data; /* the whole file */
    size_t bytes;
    void *map;  /* NULL: data are the caller's */
    char *text; /* names and metadata of its header, each with a NUL */
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

/* An index's weight_map: the entries are the names, in order. */
typedef struct syn__safetensors_index {
    syn_intern names, files;
    uint32_t *file_of; /* id in files of each name */
    size_t file_of_cap;
} syn__safetensors_index;

/* An element type of the format. */
typedef struct syn__safetensors_dtype {
    const char *name;
    int bits;
    int dtype; /* syn_dtype or -1 */
} syn__safetensors_dtype;
const syn__safetensors_dtype *syn__safetensors_dtype_of(syn_dtype dtype);

/* Reads and checks the header of a file whose data are set; appends its tensors and metadata.
   `path` begins the error sentences. */
syn_status syn__safetensors_read_header(syn_safetensors *st, syn__safetensors_file *file,
                                        const char *path, syn_error *err) SYN_MUST_USE;
/* Reads an index's JSON; file names must have no folder. Free it after a failure too. */
syn_status syn__safetensors_read_index(syn__safetensors_index *index, const char *path,
                                       const char *json, size_t bytes, syn_error *err) SYN_MUST_USE;
void syn__safetensors_index_free(syn__safetensors_index *index);
/* One file from memory, which must outlive *out: for tests. */
syn_status syn__safetensors_open_memory(syn_safetensors **out, const char *path, const void *data,
                                        size_t bytes, syn_error *err) SYN_MUST_USE;

/* A tensor's or file's name for an error sentence: its beginning, control characters as '?'. */
#define SYN__SAFETENSORS_SHOWN 100
const char *syn__safetensors_shown(const char *name, char buf[SYN__SAFETENSORS_SHOWN]);

#ifdef __cplusplus
}
#endif
#endif
