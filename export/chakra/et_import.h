/* Readers for callers that know which of Chakra's formats a file has; export.h has
   those for all. */
#ifndef EXPORT_ET_IMPORT_H
#define EXPORT_ET_IMPORT_H

#include "syntorch/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All files <prefix>.<rank>.et, with <prefix>.comm_group.json if it is there. */
syn_status syn__et_import_set(syn_graph **out, const char *prefix, size_t prefix_bytes,
                              syn_error *err) SYN_MUST_USE;
/* One file's content; its groups are those of its set, or those it lists itself. */
syn_status syn__et_import_file(syn_graph **out, const char *path, const char *data, size_t bytes,
                               syn_error *err) SYN_MUST_USE;
/* Chakra's JSON form from memory. */
syn_status syn__et_import_chakra(syn_graph **out, const char *name, const char *data, size_t bytes,
                                 syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
