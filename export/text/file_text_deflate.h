/* Compression with zlib. */
#ifndef EXPORT_FILE_TEXT_DEFLATE_H
#define EXPORT_FILE_TEXT_DEFLATE_H

#include "export/text/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends `data` compressed in zlib's format (RFC 1950). If the build has no zlib, sets *packed to
   false and appends nothing. */
syn_status syn__deflate(syn__buf *out, bool *packed, const void *data, size_t bytes,
                        syn_error *err) SYN_MUST_USE;
/* Appends `data` as a gzip file (RFC 1952), compressed fast. Fails with SYN_E_UNSUPPORTED if the
   build has no zlib. */
syn_status syn__gzip(syn__buf *out, const void *data, size_t bytes, syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
