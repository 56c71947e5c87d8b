/* Damaged JSON values made valid: what is valid stays byte for byte, what is not is changed at its
   place. Built on the forgiving reader, which decides what was meant. */
#ifndef EXPORT_JSON_FIX_H
#define EXPORT_JSON_FIX_H

#include "export/text/loose_json.h"

#ifdef __cplusplus
extern "C" {
#endif

/* id, what was met (plural), what was done with it. */
#define SYN__FIX_LIST(X)                                                                           \
    X(EXTRA_COMMA, "commas too many", "removed")                                                   \
    X(MISSING_COMMA, "commas missing", "inserted")                                                 \
    X(CONTROL, "raw control characters within strings", "escaped")                                 \
    X(SPACE, "control characters between values", "removed")                                       \
    X(QUOTE, "quotes not escaped within strings", "escaped")                                       \
    X(ESCAPE, "backslashes that escape nothing", "escaped")                                        \
    X(SURROGATE, "halves of surrogate pairs", "replaced by U+FFFD")                                \
    X(UTF8, "bytes that are not UTF-8", "replaced by U+FFFD")                                      \
    X(WORD, "words that JSON lacks (NaN, N/A, ...), or missing values",                            \
      "null, true or false written instead")                                                       \
    X(NUMBER, "numbers in a form that JSON lacks", "rewritten, or put in quotes")                  \
    X(BROKEN, "values that cannot be read", "left out")                                            \
    X(TRUNCATED, "values that the file's end cuts off", "left out, open brackets closed")          \
    X(OBJECTS, "JSON objects in one file", "the last complete one written, or what --object says") \
    X(MERGED, "JSON objects in one file", "their lists put together")                              \
    X(AROUND, "texts before or behind the JSON", "left out")

typedef enum syn__fix_kind {
#define SYN_X(id, met, done) SYN__FIX_##id,
    SYN__FIX_LIST(SYN_X)
#undef SYN_X
        SYN__FIX_KINDS
} syn__fix_kind;

typedef struct syn__fix_note {
    uint64_t count;
    size_t first; /* byte offset of the first one */
} syn__fix_note;

typedef struct syn__fix {
    syn__loose loose;
    const char *mark; /* what stands before it is in `out`, or was left out */
    syn__buf out;     /* empty as long as the text from an earlier mark on is valid */
    char *open;       /* the brackets open within the value at hand */
    size_t open_cap;
    syn__fix_note notes[SYN__FIX_KINDS];
} syn__fix;

void syn__fix_count(syn__fix *fix, syn__fix_kind kind, const char *at);
/* `bytes` of `with` in place of the text between `from` (at or behind the mark) and `to`. */
void syn__fix_change(syn__fix *fix, const char *from, const char *to, const char *with,
                     size_t bytes);
/* The white space and commas between two values; `comma`: one belongs there. */
void syn__fix_gap(syn__fix *fix, const char *from, const char *to, bool comma);
/* A key at which the reader's syn__loose_member arrived, and its colon. */
void syn__fix_key(syn__fix *fix, syn__str key);
/* The value at hand. False: the reader is broken, or fix->out.failed. */
bool syn__fix_value(syn__fix *fix);
void syn__fix_free(syn__fix *fix);
/* What was met, and what was done. */
const char *syn__fix_met(syn__fix_kind kind);
const char *syn__fix_done(syn__fix_kind kind);

#ifdef __cplusplus
}
#endif
#endif
