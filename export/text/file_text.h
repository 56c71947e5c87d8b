/* Loads the text of a file into memory: maps it, reads it as a whole, or decompresses it. */
#ifndef EXPORT_FILE_TEXT_H
#define EXPORT_FILE_TEXT_H

#include "export/text/loose_json.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The content of a file, followed by SYN__LOOSE_PADDING bytes of NUL. gzip files are detected by
   their first bytes, not by their names, and decompressed. Other regular files are mapped, so that
   text that syn__file_text_done has released uses no memory. */
typedef struct syn__file_text {
    const char *name; /* owned by the caller; used in error messages */
    const char *data;
    size_t bytes;
    size_t mapped_bytes; /* 0: data is allocated, not mapped */
    size_t released_bytes;
    bool packed;
    bool cut; /* the file is compressed, but damaged or truncated: `data` is the part that could be
                 decompressed */
} syn__file_text;

/* Opens the file; "-" is standard input. max_unpacked_bytes limits the size of decompressed gzip
   input. 0: the limit is 200 times the compressed size (but at least 1 MiB), and at most 16 GiB;
   profiler traces stay far below both limits. */
syn_status syn__file_text_open(syn__file_text *file, const char *path, uint64_t max_unpacked_bytes,
                               syn_error *err) SYN_MUST_USE;
/* The same, but assumes that the machine has memory_bytes of memory; for tests. */
syn_status syn__file_text_open_within(syn__file_text *file, const char *path, uint64_t memory_bytes,
                                      uint64_t max_unpacked_bytes, syn_error *err) SYN_MUST_USE;
/* Makes the text from a copy of `data`, for tests. */
syn_status syn__file_text_memory(syn__file_text *file, const char *name, const char *data,
                                 size_t bytes, syn_error *err) SYN_MUST_USE;
#define SYN__FILE_TEXT_STEP ((size_t)4 << 20)
/* Releases the memory of the text before `upto`, in multiples of SYN__FILE_TEXT_STEP. Call it for
   text that is not needed soon. Released pages are read again when they are accessed. If `upto` is
   the start of the text, the next call releases from the start again. */
void syn__file_text_done(syn__file_text *file, const char *upto);
void syn__file_text_close(syn__file_text *file);

#ifdef __cplusplus
}
#endif
#endif
