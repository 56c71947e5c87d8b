/* Inside of sink.c and sink_files.c, and what tests and checksums need of them. */
#ifndef SYNTORCH_SINK_PRIVATE_H
#define SYNTORCH_SINK_PRIVATE_H

#include "syntorch/base/checksum.h"
#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Test instrument: sinks behave as where files without a name, or names for them, are not
   supported. Process-wide. */
void syn__sink_pretend(bool no_unnamed, bool no_link);

/* From now on `sum`, which outlives the sink, takes what is written to the file, as it is written:
   complete when the sink is closed. */
void syn__sink_sum(syn_sink *sink, syn__checksum *sum);

/* syn_read_file on a machine with that much memory. */
syn_status syn__read_file(const char *path, size_t max_bytes, uint64_t memory_bytes, char **out,
                          size_t *out_bytes, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
