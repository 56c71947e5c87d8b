/* Buffered output to a file or to memory.
   A file has no name while it is written, and gets its name in syn_sink_close. On file systems that
   do not support this, it has a temporary name in the same folder. If the program fails or is
   killed, or the disk is full, a file that already had the name stays unchanged.
   Writers need not check every call: the first error is remembered, and syn_sink_close reports
   it. */
#ifndef SYNTORCH_SINK_H
#define SYNTORCH_SINK_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

typedef struct syn_sink syn_sink;

/* Opens a sink for the file `path`. "-" is standard output, which is written directly. */
syn_status syn_sink_open_file(syn_sink **out, const char *path, syn_error *err) SYN_MUST_USE;
/* Opens a sink in memory. Read it with syn_sink_data before closing it. */
syn_status syn_sink_open_memory(syn_sink **out, syn_error *err) SYN_MUST_USE;

void syn_sink_write(syn_sink *sink, const void *data, size_t bytes);
void syn_sink_text(syn_sink *sink, const char *text);
void syn_sink_char(syn_sink *sink, char c);
void syn_sink_printf(syn_sink *sink, const char *fmt, ...) SYN_PRINTF(2, 3);
void syn_sink_u64(syn_sink *sink, uint64_t value); /* in decimal */
void syn_sink_i64(syn_sink *sink, int64_t value);
/* Writes the shortest decimal that reads back as the same double ("0.1", "1e-05", "3"). NaN and
   infinities become "null", because JSON has no such numbers. */
void syn_sink_double(syn_sink *sink, double value);
/* Writes a JSON string with quotes and escapes. Bytes that are not UTF-8 become U+FFFD. */
void syn_sink_json_string(syn_sink *sink, const char *text);
/* The same for `bytes` bytes, which may include NULs. */
void syn_sink_json_text(syn_sink *sink, const char *text, size_t bytes);
/* Writes text as XML content or attribute value. Control characters that XML does not allow become
   U+FFFD. */
void syn_sink_xml_text(syn_sink *sink, const char *text);

/* Number of bytes written so far. */
uint64_t syn_sink_bytes(const syn_sink *sink);
/* The contents of a memory sink, NUL-terminated and owned by the sink; NULL after an error. */
const char *syn_sink_data(const syn_sink *sink, size_t *bytes);
/* The first error so far; SYN_OK if there was none. */
syn_status syn_sink_status(const syn_sink *sink);

/* Flushes, checks for errors, gives the file its name, and frees the sink. If there was an error,
   or `keep` is false, the file is discarded instead. Returns the first error, but SYN_OK if `keep`
   is false. sink may be NULL. */
syn_status syn_sink_close(syn_sink *sink, bool keep, syn_error *err);

/* Whether `path` exists. True even for a dangling link or a file without read permission; reading
   it reports the problem. Does not open the file, because opening a pipe may block. */
bool syn_file_exists(const char *path);
/* Creates the folder `path` and its missing parents. */
syn_status syn_make_folder(const char *path, syn_error *err) SYN_MUST_USE;
/* Creates the folder of files whose names begin with `prefix`: out/new for "out/new/trace", and no
   folder for "trace". */
syn_status syn_make_prefix_folder(const char *prefix, syn_error *err) SYN_MUST_USE;
/* The name of an input in messages: `path`, or "standard input" for "-". */
const char *syn_input_name(const char *path);
/* Reads a whole file of at most max_bytes, or standard input for the path "-", into a
   NUL-terminated buffer, which the caller frees with syn_free. Fails for sockets, Git LFS pointers,
   devices other than terminals and /dev/null, and pipes that no process writes to. A file must also
   fit in the machine's memory, and a pipe in half of it. */
syn_status syn_read_file(const char *path, size_t max_bytes, char **out, size_t *out_bytes,
                         syn_error *err) SYN_MUST_USE;
/* Whether a file that begins with `data` is a Git LFS pointer to a file that was not fetched. */
bool syn_is_lfs_pointer(const char *data, size_t bytes);

SYN_API_END
#endif
