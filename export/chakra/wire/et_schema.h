/* A second reader of execution traces, which shares nothing with ours:
   protobuf-c's generated code. */
#ifndef EXPORT_ET_SCHEMA_H
#define EXPORT_ET_SCHEMA_H

#include "syntorch/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Has protobuf-c read every message of a file's content; *canonical: it packs each to the same
   bytes. SYN_E_UNSUPPORTED in a build without protobuf-c. */
syn_status syn__et_schema_check(const char *name, const char *data, size_t bytes, bool *canonical,
                                syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
