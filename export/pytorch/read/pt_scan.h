/* A tokenizer for the text of values: lists of ranks, tensors, descriptions of groups. */
#ifndef EXPORT_PT_SCAN_H
#define EXPORT_PT_SCAN_H

#include "export/text/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The position in a text, which may be JSON or the output of Python's repr. The tokenizer does not
   track nesting, and skips commas, colons and white space. */
typedef struct syn__pt_scan {
    const char *cur, *end;
    bool is_key; /* whether a colon follows the last string or word */
} syn__pt_scan;

syn__pt_scan syn__pt_scan_of(syn__str text);
/* Returns the class of the next token: '[', ']', '{' or '}'; 's' for a string; 'w' for a number or
   word; 0 at the end. *text: the token; for a string, the text between its quotes, not decoded. */
char syn__pt_scan_next(syn__pt_scan *scan, syn__str *text);
/* Skips the rest of the list or object whose opening bracket was just read. */
void syn__pt_scan_leave(syn__pt_scan *scan);
/* Parses a token as an integer. Returns false if it is no integer. */
bool syn__pt_scan_i64(syn__str text, int64_t *out);

#ifdef __cplusplus
}
#endif
#endif
