/* The tokens of a value's text: lists of ranks, tensors, descriptions of groups. */
#ifndef EXPORT_PT_SCAN_H
#define EXPORT_PT_SCAN_H

#include "export/text/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads JSON and Python's repr of it alike, without nesting: commas, colons and space
   are passed over. */
typedef struct syn__pt_scan {
    const char *cur, *end;
    bool is_key; /* the last string or word stands before a colon */
} syn__pt_scan;

syn__pt_scan syn__pt_scan_of(syn__str text);
/* The next token: '[', ']', '{', '}', 's' a string (without quotes, undecoded), 'w' a number or
   word; 0 at the end. */
char syn__pt_scan_next(syn__pt_scan *scan, syn__str *text);
/* Over the rest of the bracket that was just read. */
void syn__pt_scan_leave(syn__pt_scan *scan);
/* The integer that a token is; false for anything else. */
bool syn__pt_scan_i64(syn__str text, int64_t *out);

#ifdef __cplusplus
}
#endif
#endif
