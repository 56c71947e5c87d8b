/* Files as text in memory: mapped, read whole, or unpacked. */
#ifndef EXPORT_FILE_TEXT_H
#define EXPORT_FILE_TEXT_H

#include "export/text/loose_json.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The content of a file, unpacked if it is gzip (by its first bytes, whatever the name), followed
   by SYN__LOOSE_PADDING bytes of NUL. A plain file is mapped, so its text costs no memory once
   given back. */
typedef struct syn__file_text {
    const char *name; /* the caller's, in sentences */
    const char *data;
    size_t bytes;
    size_t mapped_bytes; /* 0: data is allocated */
    size_t given_back;
    bool packed;
    bool cut; /* packed, and damaged or ending too early: data is what could be unpacked */
} syn__file_text;

/* Gzip may unpack to max_unpacked_bytes; 0: to 200 times its size (a megabyte in any case), and to
   16 GiB: recordings are far from either. */
syn_status syn__file_text_open(syn__file_text *file, const char *path, uint64_t max_unpacked_bytes,
                               syn_error *err) SYN_MUST_USE;
/* As on a machine with so much memory, for tests. */
syn_status syn__file_text_open_within(syn__file_text *file, const char *path, uint64_t memory_bytes,
                                      uint64_t max_unpacked_bytes, syn_error *err) SYN_MUST_USE;
/* A copy of memory, for tests. */
syn_status syn__file_text_memory(syn__file_text *file, const char *name, const char *data,
                                 size_t bytes, syn_error *err) SYN_MUST_USE;
#define SYN__FILE_TEXT_STEP ((size_t)4 << 20)
/* The text before `upto` is not needed soon: its pages are given back, in multiples of
   SYN__FILE_TEXT_STEP; they return when touched.
   `upto` at the text's begin: another pass over it starts. */
void syn__file_text_done(syn__file_text *file, const char *upto);
void syn__file_text_close(syn__file_text *file);

#ifdef __cplusplus
}
#endif
#endif
