/* Reads and writes tensors in the safetensors format (github.com/huggingface/safetensors,
   "Format"): 8 bytes with the length of a JSON header, the header, then the tensors' bytes without
   gaps. A checkpoint is one such file, or several such files and an index. Files are memory-mapped
   and fully validated when opened. An open checkpoint is immutable: any number of threads may use
   it. If a file is truncated while it is open, the program gets a bus error, as with every mapped
   file. */
#ifndef MODELS_SAFETENSORS_H
#define MODELS_SAFETENSORS_H

#include "syntorch/base/sink.h"
#include "syntorch/base/types.h"

SYN_API_BEGIN

typedef struct syn_safetensors syn_safetensors;

#define SYN_SAFETENSORS_RANK 8 /* maximum number of dimensions of a tensor in a file */

typedef struct syn_safetensors_tensor {
    const char *name;       /* UTF-8 without NUL, otherwise arbitrary */
    const char *dtype_name; /* as in the file: "F32", "BOOL", "F8_E4M3" */
    int dtype;              /* syn_dtype; -1 if the library has no such dtype */
    int rank;
    int64_t dims[SYN_SAFETENSORS_RANK];
    int64_t elems;
    const void *data; /* row-major, little-endian, not aligned */
    uint64_t bytes;
    const char *file; /* name of its file, without folders */
} syn_safetensors_tensor;

/* Opens a file, an index ("*.json", with its files in the same folder), or a folder with
   model.safetensors or else model.safetensors.index.json. */
syn_status syn_safetensors_open(syn_safetensors **out, const char *path,
                                syn_error *err) SYN_MUST_USE;
void syn_safetensors_free(syn_safetensors *st);

/* Tensors are numbered in the order of their file names and, within a file, of the positions of
   their bytes. */
size_t syn_safetensors_count(const syn_safetensors *st);
const syn_safetensors_tensor *syn_safetensors_get(const syn_safetensors *st, size_t i);
/* The tensor with that name; NULL if there is none. Takes about log2(count) comparisons. */
const syn_safetensors_tensor *syn_safetensors_find(const syn_safetensors *st, const char *name);

/* The entries of `__metadata__`, sorted by key. If several files have the same key, the first
   file's value is used. */
size_t syn_safetensors_metadata_count(const syn_safetensors *st);
const char *syn_safetensors_metadata(const syn_safetensors *st, size_t i, const char **key);

/* Tells the operating system that `bytes` bytes at `data`, within a tensor, are not needed for now,
   so that they no longer count as this process's resident memory. They can still be read, at the
   cost of page faults. */
void syn_safetensors_release(const syn_safetensors *st, const void *data, size_t bytes);

/* ---- Writing: first the header with all tensors, then their bytes in the same order. ---- */

typedef struct syn_safetensors_entry {
    const char *name;
    syn_spec spec;
} syn_safetensors_entry;

/* State of a file being written; filled in by syn_safetensors_write_header. */
typedef struct syn_safetensors_writer {
    syn_sink *sink;
    uint64_t left_bytes;
} syn_safetensors_writer;

/* Writes the header, with the metadata {"format": "pt"} that transformers requires. The header is
   padded with spaces so that the data begins at a multiple of 64 bytes. Names must be UTF-8 and
   unique. Each tensor must begin at a multiple of its element size, as PyTorch's reader requires,
   so list f32 tensors before f16 tensors. */
syn_status syn_safetensors_write_header(syn_safetensors_writer *writer, syn_sink *sink,
                                        const syn_safetensors_entry *entries, size_t n_entries,
                                        syn_error *err) SYN_MUST_USE;
/* Writes the next bytes of the data, split in any way. Fails if there are more than announced. */
syn_status syn_safetensors_write_data(syn_safetensors_writer *writer, const void *data,
                                      size_t bytes, syn_error *err) SYN_MUST_USE;
/* Fails if bytes are missing. The caller closes the sink, which reports write errors. */
syn_status syn_safetensors_write_end(const syn_safetensors_writer *writer,
                                     syn_error *err) SYN_MUST_USE;

SYN_API_END
#endif
