/* A strict pull reader for JSON (RFC 8259) over a buffer: no recursion, no tree, no allocation
   except for strings with escapes. Depth is limited to SYN_JSON_DEPTH. Positions in
   errors are line:column. */
#ifndef SYNTORCH_JSON_H
#define SYNTORCH_JSON_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN_JSON_DEPTH 128

typedef enum syn_json_type {
    SYN_JSON_ERROR,
    SYN_JSON_END,          /* the document is over */
    SYN_JSON_OBJECT_BEGIN, /* then KEY, value, KEY, value ..., OBJECT_END */
    SYN_JSON_OBJECT_END,
    SYN_JSON_ARRAY_BEGIN,
    SYN_JSON_ARRAY_END,
    SYN_JSON_KEY,
    SYN_JSON_STRING,
    SYN_JSON_NUMBER,
    SYN_JSON_BOOL,
    SYN_JSON_NULL
} syn_json_type;

typedef struct syn_json {
    /* of the last token */
    syn_json_type type;
    const char *text;  /* KEY, STRING: unescaped UTF-8, NUL-terminated, valid until the next call;
                          NUMBER: its characters, NUL-terminated likewise */
    size_t text_bytes; /* may contain NUL characters (from \u0000) */
    double number;     /* NUMBER */
    int64_t integer;   /* NUMBER, if is_integer */
    bool is_integer;   /* written without fraction or exponent and within int64 */
    bool boolean;      /* BOOL */
    int depth;         /* open objects and arrays, after this token */
    /* private */
    const char *name, *begin, *cur, *end;
    char *scratch;
    size_t scratch_cap;
    uint8_t stack[SYN_JSON_DEPTH];
    int state;
    syn_error *err;
} syn_json;

/* Starts reading `bytes` bytes at `data`, which must outlive the reader; `name` (a file name)
   begins the error sentences. Invalid UTF-8 in strings is an error. Errors go to err. */
void syn_json_init(syn_json *json, const char *name, const char *data, size_t bytes,
                   syn_error *err);
/* The next token; after an error always SYN_JSON_ERROR. */
syn_json_type syn_json_next(syn_json *json);
/* Call right after syn_json_next returned an OBJECT_BEGIN or ARRAY_BEGIN (skips to its end), a KEY
   (skips its value), or a scalar (does nothing). False on error. */
bool syn_json_skip(syn_json *json);
/* Reports `what` at the current position ("file.json:3:14: what"), marks the reader failed. */
syn_status syn_json_fail(syn_json *json, const char *fmt, ...) SYN_PRINTF(2, 3);
/* Next token must be of `type`, else an error naming `what` is reported ("n_layer must
   be an integer"). */
syn_status syn_json_expect(syn_json *json, syn_json_type type, const char *what) SYN_MUST_USE;
/* Next token must be an integer within [min, max]; the error names `what` and both bounds. */
syn_status syn_json_expect_i64(syn_json *json, const char *what, int64_t min, int64_t max,
                               int64_t *out) SYN_MUST_USE;
void syn_json_free(syn_json *json);

#ifdef __cplusplus
}
#endif
#endif
