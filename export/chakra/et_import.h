/* Readers for callers that know which of Chakra's formats a file has. The readers of other formats
   are in export.h. */
#ifndef EXPORT_ET_IMPORT_H
#define EXPORT_ET_IMPORT_H

#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads all files <prefix>.<rank>.et, and <prefix>.comm_group.json if it exists. */
syn_status syn__et_import_set(syn_graph **out, const char *prefix, size_t prefix_bytes,
                              syn_error *err) SYN_MUST_USE;
/* Reads the content of one file. Its groups come from its trace set or from the file itself. */
syn_status syn__et_import_file(syn_graph **out, const char *path, const char *data, size_t bytes,
                               syn_error *err) SYN_MUST_USE;
/* Reads Chakra's JSON form from memory. */
syn_status syn__et_import_chakra(syn_graph **out, const char *name, const char *data, size_t bytes,
                                 syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
