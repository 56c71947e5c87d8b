/* A tokenizer for the text of a value: lists of ranks, tensors, descriptions of groups. */
#ifndef EXPORT_PT_SCAN_H
#define EXPORT_PT_SCAN_H

#include "export/text/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads both JSON and Python's repr. It does not track nesting, and skips commas, colons and white
   space. */
typedef struct syn__pt_scan {
    const char *cur, *end;
    bool is_key; /* the last string or word is followed by a colon */
} syn__pt_scan;

syn__pt_scan syn__pt_scan_of(syn__str text);
/* Returns the next token: '[', ']', '{', '}', 's' for a string (without quotes, undecoded), 'w' for
   a number or word; 0 at the end. */
char syn__pt_scan_next(syn__pt_scan *scan, syn__str *text);
/* Skips the rest of the bracket that was just read. */
void syn__pt_scan_leave(syn__pt_scan *scan);
/* Parses a token as an integer. Returns false if it is not one. */
bool syn__pt_scan_i64(syn__str text, int64_t *out);

#ifdef __cplusplus
}
#endif
#endif
