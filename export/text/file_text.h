/* Loads files as text in memory: mapped, read as a whole, or decompressed. */
#ifndef EXPORT_FILE_TEXT_H
#define EXPORT_FILE_TEXT_H

#include "export/text/loose_json.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The content of a file, followed by SYN__LOOSE_PADDING bytes of NUL. gzip files, which are
   detected by their first bytes and not by name, are decompressed. Other files are mapped, so that
   text released by syn__file_text_done uses no memory. */
typedef struct syn__file_text {
    const char *name; /* owned by the caller; used in error messages */
    const char *data;
    size_t bytes;
    size_t mapped_bytes; /* 0: data is allocated, not mapped */
    size_t given_back;
    bool packed;
    bool cut; /* compressed, and damaged or truncated: data is the part that could be
                 decompressed */
} syn__file_text;

/* max_unpacked_bytes limits the size of decompressed gzip input; 0: 200 times the compressed size
   (at least 1 MiB) and 16 GiB, both far above what profiler traces reach. */
syn_status syn__file_text_open(syn__file_text *file, const char *path, uint64_t max_unpacked_bytes,
                               syn_error *err) SYN_MUST_USE;
/* The same, but the machine is assumed to have memory_bytes of memory. For tests. */
syn_status syn__file_text_open_within(syn__file_text *file, const char *path, uint64_t memory_bytes,
                                      uint64_t max_unpacked_bytes, syn_error *err) SYN_MUST_USE;
/* Makes the text from a copy of `data`, for tests. */
syn_status syn__file_text_memory(syn__file_text *file, const char *name, const char *data,
                                 size_t bytes, syn_error *err) SYN_MUST_USE;
#define SYN__FILE_TEXT_STEP ((size_t)4 << 20)
/* Releases the pages of the text before `upto`, in multiples of SYN__FILE_TEXT_STEP, because it is
   not needed soon. Released pages are read again when they are accessed. If `upto` is the start of
   the text, the next call releases from the start again. */
void syn__file_text_done(syn__file_text *file, const char *upto);
void syn__file_text_close(syn__file_text *file);

#ifdef __cplusplus
}
#endif
#endif
