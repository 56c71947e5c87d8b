/* Files of tensors in the safetensors format (github.com/huggingface/safetensors, "Format"): 8
   bytes with the length of a JSON header, the header, then the tensors' bytes without holes. A
   checkpoint is one such file or several with an index. Files are mapped, not read; everything
   about them is checked at open. An open checkpoint does not change: any number of threads may use
   one. A file that is cut short while it is open ends the program with a bus error, as with every
   mapped file. */
#ifndef MODELS_SAFETENSORS_H
#define MODELS_SAFETENSORS_H

#include "syntorch/base/sink.h"
#include "syntorch/base/types.h"

SYN_API_BEGIN

typedef struct syn_safetensors syn_safetensors;

#define SYN_SAFETENSORS_RANK 8 /* dimensions of a tensor in a file, at most */

typedef struct syn_safetensors_tensor {
    const char *name;       /* UTF-8 without NUL, else any */
    const char *dtype_name; /* as the format writes it: "F32", "BOOL", "F8_E4M3" */
    int dtype;              /* syn_dtype; -1 if the library has none */
    int rank;
    int64_t dims[SYN_SAFETENSORS_RANK];
    int64_t elems;
    const void *data; /* row-major, little-endian; may lie at any address: nothing is aligned */
    uint64_t bytes;
    const char *file; /* its file's name without folders */
} syn_safetensors_tensor;

/* path: a file; an index ("*.json", its files beside it); or a folder that holds model.safetensors
   or else model.safetensors.index.json. */
syn_status syn_safetensors_open(syn_safetensors **out, const char *path,
                                syn_error *err) SYN_MUST_USE;
void syn_safetensors_free(syn_safetensors *st);

/* Tensors in the order of their bytes; those of several files file after file, by file name. */
size_t syn_safetensors_count(const syn_safetensors *st);
const syn_safetensors_tensor *syn_safetensors_get(const syn_safetensors *st, size_t i);
/* NULL if there is none. Takes about log2(count) comparisons. */
const syn_safetensors_tensor *syn_safetensors_find(const syn_safetensors *st, const char *name);

/* The pairs of `__metadata__` by key; of a key in several files that of the first. */
size_t syn_safetensors_metadata_count(const syn_safetensors *st);
const char *syn_safetensors_metadata(const syn_safetensors *st, size_t i, const char **key);

/* Tells the system that `bytes` bytes at `data`, within a tensor, are not needed for now: they
   leave this process's resident memory. Reading them again works and costs page faults. */
void syn_safetensors_release(const syn_safetensors *st, const void *data, size_t bytes);

/* ---- Writing: first what all tensors are, then their bytes in that order. ---- */

typedef struct syn_safetensors_entry {
    const char *name;
    syn_spec spec;
} syn_safetensors_entry;

/* What is still owed; filled by syn_safetensors_write_header. */
typedef struct syn_safetensors_writer {
    syn_sink *sink;
    uint64_t left_bytes;
} syn_safetensors_writer;

/* Writes the header, with the metadata {"format": "pt"} that transformers wants, and spaces behind
   it so that the tensors begin at a multiple of 64 bytes of the file. Names must be UTF-8 and
   differ; each tensor must begin at a multiple of its element's size, as PyTorch's reader wants:
   give f32 before f16. */
syn_status syn_safetensors_write_header(syn_safetensors_writer *writer, syn_sink *sink,
                                        const syn_safetensors_entry *entries, size_t n_entries,
                                        syn_error *err) SYN_MUST_USE;
/* The next bytes: of one tensor, a part of one, or several. More than were announced fail. */
syn_status syn_safetensors_write_data(syn_safetensors_writer *writer, const void *data,
                                      size_t bytes, syn_error *err) SYN_MUST_USE;
/* Fails if bytes are missing. Closing the sink, which stays the caller's, tells of its failures. */
syn_status syn_safetensors_write_end(const syn_safetensors_writer *writer,
                                     syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
