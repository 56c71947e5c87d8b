/* Writes members of JSON objects: `key`, which is all text before the value (such as ",\"dur\":"),
   and then the value. All writers of trace events share these functions. */
#ifndef EXPORT_JSON_PUT_H
#define EXPORT_JSON_PUT_H

#include "syntorch/base/sink.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NULL is written as an empty string. */
void syn__put_text(syn_sink *sink, const char *key, const char *text);
void syn__put_i64(syn_sink *sink, const char *key, int64_t value);
void syn__put_u64(syn_sink *sink, const char *key, uint64_t value);
/* Writes base_us + ns / 1000 with three decimals. ns is not negative. */
void syn__put_us(syn_sink *sink, const char *key, int64_t base_us, int64_t ns);

#ifdef __cplusplus
}
#endif
#endif
