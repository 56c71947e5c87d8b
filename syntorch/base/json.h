/* A strict pull parser for JSON (RFC 8259): the caller asks for one token at a time. The document
   is in a buffer. The parser does not recurse, builds no tree, and allocates only a buffer for
   strings and numbers. Nesting is limited to SYN_JSON_DEPTH. Errors give the position as
   line:column. */
#ifndef SYNTORCH_JSON_H
#define SYNTORCH_JSON_H

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN_JSON_DEPTH 128

typedef enum syn_json_type {
    SYN_JSON_ERROR,
    SYN_JSON_END,          /* end of the document */
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
    /* About the last token: */
    syn_json_type type;
    /* KEY, STRING: the unescaped UTF-8 text; NUMBER: the number as written. NUL-terminated, and
       valid until the next call. */
    const char *text;
    size_t text_bytes; /* length; the text may contain NUL characters (from \u0000) */
    double number;     /* NUMBER */
    int64_t integer;   /* NUMBER, if is_integer */
    bool is_integer;   /* NUMBER: written without fraction or exponent, and fits in int64 */
    bool boolean;      /* BOOL */
    int depth;         /* number of objects and arrays that are open after this token */
    /* Private: */
    const char *name, *begin, *cur, *end;
    char *scratch;
    size_t scratch_cap;
    uint8_t stack[SYN_JSON_DEPTH];
    int state;
    syn_error *err;
} syn_json;

/* Starts reading `bytes` bytes at `data`, which must outlive the parser. Error messages begin with
   `name`, such as a file name, and are stored in *err. Invalid UTF-8 in strings is an error. */
void syn_json_init(syn_json *json, const char *name, const char *data, size_t bytes,
                   syn_error *err);
/* Reads the next token and returns its type. After an error it always returns SYN_JSON_ERROR. */
syn_json_type syn_json_next(syn_json *json);
/* Skips what belongs to the last token: after OBJECT_BEGIN or ARRAY_BEGIN the rest of the object or
   array, after KEY its value, after a scalar nothing. Returns false on error. */
bool syn_json_skip(syn_json *json);
/* Fails with an error message that begins with the position of the last token ("file.json:3:14:
   what"). Afterwards syn_json_next returns SYN_JSON_ERROR. */
syn_status syn_json_fail(syn_json *json, const char *fmt, ...) SYN_PRINTF(2, 3);
/* Reads the next token and fails unless it has the type `type`. The error names `what` ("n_layer
   must be an integer"). */
syn_status syn_json_expect(syn_json *json, syn_json_type type, const char *what) SYN_MUST_USE;
/* Reads the next token and fails unless it is an integer in [min, max]. The error names `what` and
   both bounds. */
syn_status syn_json_expect_i64(syn_json *json, const char *what, int64_t min, int64_t max,
                               int64_t *out) SYN_MUST_USE;
void syn_json_free(syn_json *json);

#ifdef __cplusplus
}
#endif
#endif
