/* Repairs damaged JSON. Valid parts stay the same, byte for byte; invalid parts are replaced. The
   lenient parser (loose_json.h) decides what the damaged text means. */
#ifndef EXPORT_JSON_FIX_H
#define EXPORT_JSON_FIX_H

#include "export/text/loose_json.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(id, what was found (plural), how it was handled). */
#define SYN__FIX_LIST(X)                                                                           \
    X(EXTRA_COMMA, "extra commas", "removed")                                                      \
    X(MISSING_COMMA, "missing commas", "inserted")                                                 \
    X(CONTROL, "raw control characters inside strings", "escaped")                                 \
    X(SPACE, "control characters between values", "removed")                                       \
    X(QUOTE, "unescaped quotes inside strings", "escaped")                                         \
    X(ESCAPE, "backslashes that start no valid escape", "escaped")                                 \
    X(SURROGATE, "unpaired surrogates", "replaced by U+FFFD")                                      \
    X(UTF8, "bytes that are not UTF-8", "replaced by U+FFFD")                                      \
    X(WORD, "words that are not JSON (NaN, N/A, ...), or missing values",                          \
      "replaced by null, true or false")                                                           \
    X(NUMBER, "numbers that are not valid JSON", "rewritten or quoted")                            \
    X(BROKEN, "unreadable values", "omitted")                                                      \
    X(TRUNCATED, "values truncated by the end of the file", "omitted; open brackets were closed")  \
    X(OBJECTS, "JSON objects in one file", "the last complete one was written (--object chooses)") \
    X(MERGED, "JSON objects in one file", "their lists were merged")                               \
    X(AROUND, "text before or after the JSON", "omitted")

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
    const char *mark; /* position in the text; everything before it is in `out` or was omitted */
    syn__buf out;     /* repaired text; empty as long as nothing had to be changed */
    char *open;       /* stack of brackets that are open within the current value */
    size_t open_cap;
    syn__fix_note notes[SYN__FIX_KINDS];
} syn__fix;

void syn__fix_count(syn__fix *fix, syn__fix_kind kind, const char *at);
/* Replaces the text [from, to) by `with`, which has `bytes` bytes. `from` must not be before the
   mark. */
void syn__fix_change(syn__fix *fix, const char *from, const char *to, const char *with,
                     size_t bytes);
/* Repairs the white space and commas [from, to) between two values. `comma`: a comma belongs
   there. */
void syn__fix_gap(syn__fix *fix, const char *from, const char *to, bool comma);
/* Repairs a key and the colon after it. syn__loose_member(&fix->loose, ...) must have just read the
   key. */
void syn__fix_key(syn__fix *fix, syn__str key);
/* Repairs the current value. Returns false if the parser is broken or fix->out is out of memory. */
bool syn__fix_value(syn__fix *fix);
void syn__fix_free(syn__fix *fix);
/* The texts of SYN__FIX_LIST: what was found, and how it was handled. */
const char *syn__fix_met(syn__fix_kind kind);
const char *syn__fix_done(syn__fix_kind kind);

#ifdef __cplusplus
}
#endif
#endif
