/* A forgiving pull reader for JSON that programs wrote while they crashed: PyTorch's traces. It
   hands out values as slices of the text, undecoded; reads no deeper than it is asked to; and goes
   on behind trailing, doubled and missing commas, control characters in strings, quotes that were
   not escaped, bytes that are not UTF-8, bare words (NaN, None, N/A, -nan(ind)) and values that are
   missing. What it meets is counted. Damage that it cannot read over makes it `broken`;
   syn__loose_resume then finds the next element of an array.

   Strict where text comes from us or people write it: syntorch/base/json.h. */
#ifndef EXPORT_LOOSE_JSON_H
#define EXPORT_LOOSE_JSON_H

#include "export/text/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__LOOSE_PADDING 64 /* readable bytes behind the text, the first of them NUL */

typedef enum syn__loose_kind {
    SYN__LOOSE_NONE, /* there is no value: broken is set */
    SYN__LOOSE_OBJECT,
    SYN__LOOSE_ARRAY,
    SYN__LOOSE_STRING,
    SYN__LOOSE_NUMBER,
    SYN__LOOSE_WORD /* true, false, null, NaN, -Infinity, N/A, ...; of a member without value, "" */
} syn__loose_kind;

/* What was read over. */
typedef enum syn__loose_fault {
    SYN__LOOSE_EXTRA_COMMA,
    SYN__LOOSE_MISSING_COMMA,
    SYN__LOOSE_CONTROL,   /* a control character within a string */
    SYN__LOOSE_QUOTE,     /* a quote within a string that was not escaped */
    SYN__LOOSE_UTF8,      /* a string with bytes that are not UTF-8 */
    SYN__LOOSE_BARE_WORD, /* NaN, Infinity, -Infinity: words that JSON lacks, but Python reads */
    SYN__LOOSE_NO_VALUE,  /* any other word, a number in no form of JSON, a missing value */
    SYN__LOOSE_FAULTS
} syn__loose_fault;

typedef struct syn__loose_count {
    uint64_t count;
    size_t first; /* byte offset of the first one; of the last string for CONTROL */
} syn__loose_count;

typedef struct syn__loose {
    const char *begin, *end, *cur;
    bool broken;     /* sticks until syn__loose_resume */
    bool cut;        /* the text ended within a value */
    bool fresh;      /* directly behind an opening bracket */
    bool escaped;    /* the last string holds a backslash */
    bool at_member;  /* at the value of a member, which may be missing */
    const char *why; /* broken: part of a sentence */
    size_t ahead;    /* bytes looked at behind quotes that end no string: limited, all in all */
    syn__loose_count faults[SYN__LOOSE_FAULTS];
} syn__loose;

/* `bytes` at `data`, with SYN__LOOSE_PADDING behind them, which must outlive the reader. */
void syn__loose_init(syn__loose *l, const char *data, size_t bytes);
/* Past white space: the next byte, NUL at the end of the text. */
char syn__loose_peek(syn__loose *l);
/* The value at hand. A scalar: its text (a string without quotes), and the reader stands behind it.
   An object or array: the reader stands behind its bracket; *text is that bracket. */
syn__loose_kind syn__loose_value(syn__loose *l, syn__str *text);
/* The open object's next member: its key, and the reader stands at its value. False: the object is
   closed, or broken. */
bool syn__loose_member(syn__loose *l, syn__str *key);
/* Whether the open array has another element, at which the reader then stands. */
bool syn__loose_element(syn__loose *l);
/* Over the value at hand, whatever it is; *text (NULL allowed) is all of it, quotes included. */
syn__loose_kind syn__loose_skip(syn__loose *l, syn__str *text);
/* After breaking within an element of an array of objects: moves to the next "{" + white space +
   quote + first_key + quote at or behind `from`, no longer broken. False if there is none; the
   reader then stands at the end. */
bool syn__loose_resume(syn__loose *l, const char *from, syn__str first_key);

/* Likewise after breaking outside of that array: to the value of the next member `key` that is an
   array, at or behind `from`. */
bool syn__loose_resume_list(syn__loose *l, const char *from, syn__str key);

/* What no bare word contains, unless it is balanced and within the word: dim3{1, 1}. It may be lost
   text of the values around the word. */
static inline bool syn__loose_ends_word(char c) {
    return c == '"' || c == '{' || c == '}' || ((unsigned char)c < ' ' && c != '\t');
}
/* Of a number, a word of JSON or a name. */
static inline bool syn__loose_in_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '+' || c == '_';
}
/* The end of the bare word at p: of anything that is no string, object or array. It ends before a
   comma, a closing bracket or brace, a line's end, a key, an object, or the space before these.
   Commas within balanced (), [], {}, <> and '' belong to it: device(type='cuda', index=0). In the
   value of a member (at_member), behind which only a key may come, so do strings that are no key
   and commas before a letter or digit: 1,5. p < end. */
const char *syn__loose_word_end(const char *p, const char *end, bool at_member);

/* Begins to read a value's text, an array: the reader stands behind its bracket. False: it is none,
   or there is no text. */
bool syn__loose_open_array(syn__loose *l, syn__str text);
/* The member `key` of an object's text, quotes included; bytes 0 if it has none. */
syn__str syn__loose_find(syn__str object, const char *key);

static inline size_t syn__loose_at(const syn__loose *l) {
    return (size_t)(l->cur - l->begin);
}

/* Decodes a string's text into out (room for `text.bytes`), returns the length: escapes resolved,
   surrogate pairs joined, lone surrogates as U+FFFD, bytes that are not UTF-8 as "?". Backslashes
   that escape nothing stay. */
size_t syn__loose_decode(syn__str text, char *out);
/* The four hexadecimal digits at p; -1 if they are not. */
int32_t syn__loose_hex4(const char *p, const char *end);
/* The character of the escape \u.... whose four digits begin at *p; moves behind it. A surrogate
   without its other half stands for itself; without digits, *p stays, and it is U+FFFD. */
uint32_t syn__loose_unicode(const char **p, const char *end);
/* A decimal integer that takes up all of the text. False if it is no such thing or exceeds its
   type. Negative values are their two's complement in u64. */
bool syn__loose_i64(syn__str text, int64_t *out);
bool syn__loose_u64(syn__str text, uint64_t *out);
/* A number as a double, correctly rounded. *integer: written without fraction and exponent. */
bool syn__loose_double(syn__str text, double *out, bool *integer);
/* A number of microseconds: as syn__loose_double, and as whole nanoseconds, digits beyond cut off.
   False also if nanoseconds do not fit. */
bool syn__loose_micros(syn__str text, double *us, int64_t *ns, bool *integer);

#ifdef __cplusplus
}
#endif
#endif
