/* Bytes packed. */
#ifndef EXPORT_FILE_TEXT_DEFLATE_H
#define EXPORT_FILE_TEXT_DEFLATE_H

#include "export/text/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends `data` in zlib's format (RFC 1950). *packed false, and nothing appended: this
   build is without zlib. */
syn_status syn__deflate(syn__buf *out, bool *packed, const void *data, size_t bytes,
                        syn_error *err) SYN_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
