/* Internal functions of sink.c and sink_files.c, for tests and checksums. */
#ifndef SYNTORCH_SINK_PRIVATE_H
#define SYNTORCH_SINK_PRIVATE_H

#include "syntorch/base/checksum.h"
#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For tests, in the whole process. no_unnamed: sinks behave as if the file system had no files
   without a name. no_link: as if such a file could not get a name later. */
void syn__sink_simulate(bool no_unnamed, bool no_link);

/* Adds all bytes written to the file from now on to `sum`, which must outlive the sink. The
   checksum is complete when the sink is closed. */
void syn__sink_sum(syn_sink *sink, syn__checksum *sum);

/* Does what syn_read_file does on a machine with memory_bytes bytes of memory. */
syn_status syn__read_file(const char *path, size_t max_bytes, uint64_t memory_bytes, char **out,
                          size_t *out_bytes, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
