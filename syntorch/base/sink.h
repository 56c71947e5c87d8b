/* Buffered output to a file or to memory. A file is written without a name (where the file system
   cannot, under a temporary one in the same folder) and takes its place in syn_sink_close: a
   failed, killed or full-disk run leaves the old file or none. Writers need not check every call:
   the first error sticks and syn_sink_close reports it. */
#ifndef SYNTORCH_SINK_H
#define SYNTORCH_SINK_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

typedef struct syn_sink syn_sink;

/* A sink that becomes the file `path` ("-" is standard output, written directly). */
syn_status syn_sink_open_file(syn_sink **out, const char *path, syn_error *err) SYN_MUST_USE;
/* A sink into memory; read it back with syn_sink_data before closing. */
syn_status syn_sink_open_memory(syn_sink **out, syn_error *err) SYN_MUST_USE;

void syn_sink_write(syn_sink *sink, const void *data, size_t bytes);
void syn_sink_text(syn_sink *sink, const char *text);
void syn_sink_char(syn_sink *sink, char c);
void syn_sink_printf(syn_sink *sink, const char *fmt, ...) SYN_PRINTF(2, 3);
void syn_sink_u64(syn_sink *sink, uint64_t value); /* decimal */
void syn_sink_i64(syn_sink *sink, int64_t value);
/* Shortest decimal that reads back as the same double ("0.1", "1e-05", "3"); NaN and infinities
   become "null", which JSON can hold. */
void syn_sink_double(syn_sink *sink, double value);
/* A JSON string with quotes: escapes as needed, what is not UTF-8 becomes U+FFFD. */
void syn_sink_json_string(syn_sink *sink, const char *text);
/* The same of so many bytes, zeros among them. */
void syn_sink_json_text(syn_sink *sink, const char *text, size_t bytes);
/* Text for XML content or attribute values; control characters XML cannot hold become U+FFFD. */
void syn_sink_xml_text(syn_sink *sink, const char *text);

/* Bytes written so far. */
uint64_t syn_sink_bytes(const syn_sink *sink);
/* Contents of a memory sink, NUL-terminated, owned by the sink; NULL after an error. */
const char *syn_sink_data(const syn_sink *sink, size_t *bytes);
/* First error so far (SYN_OK if none). */
syn_status syn_sink_status(const syn_sink *sink);

/* Flushes, checks, renames into place, frees. On any earlier or present error, or when `keep` is
   false, removes the temporary file instead and returns the error (SYN_OK for a wanted discard).
   NULL is allowed. */
syn_status syn_sink_close(syn_sink *sink, bool keep, syn_error *err);

/* Whether something has that name: also a link to nothing, and what may not be read, so that
   whoever reads it says what is wrong. Opens nothing, for a pipe would be waited for. */
bool syn_file_exists(const char *path);
/* Creates the folder `path` and its missing parents. */
syn_status syn_make_folder(const char *path, syn_error *err) SYN_MUST_USE;
/* The same for the folder that the prefix of a set names: out/new of "out/new/trace";
   none of "trace". */
syn_status syn_make_prefix_folder(const char *prefix, syn_error *err) SYN_MUST_USE;
/* Reads a whole file (at most max_bytes) into a NUL-terminated buffer that the caller frees with
   syn_free. Refused: devices but for terminals and /dev/null, sockets, files larger than the
   machine's memory, pipes that give more than half of it or into which nobody writes, and what Git
   LFS leaves in place of a file. */
syn_status syn_read_file(const char *path, size_t max_bytes, char **out, size_t *out_bytes,
                         syn_error *err) SYN_MUST_USE;
/* Whether a file that begins so is Git LFS's pointer to one that was not fetched. */
bool syn_is_lfs_pointer(const char *data, size_t bytes);

SYN_API_END
#endif
