/* A lenient pull parser for JSON written by programs that crashed, as PyTorch traces often are. It
   returns values as undecoded slices of the text, and parses inside an object or array only if the
   caller asks for it. It accepts trailing, doubled and missing commas, control characters and
   unescaped quotes in strings, bytes that are not UTF-8, bare words (NaN, None, N/A, -nan(ind)) and
   missing values, and counts each of them. Damage that it cannot skip sets `broken`;
   syn__loose_resume then finds the next element of an array.

   Text that our programs or people write is read by the strict parser of syntorch/base/json.h. */
#ifndef EXPORT_LOOSE_JSON_H
#define EXPORT_LOOSE_JSON_H

#include "export/text/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SYN__LOOSE_PADDING 64 /* readable bytes after the text; the first is NUL */

typedef enum syn__loose_kind {
    SYN__LOOSE_NONE, /* no value; `broken` is set */
    SYN__LOOSE_OBJECT,
    SYN__LOOSE_ARRAY,
    SYN__LOOSE_STRING,
    SYN__LOOSE_NUMBER,
    SYN__LOOSE_WORD /* true, false, null, NaN, -Infinity, N/A, ...; "" for a member without value */
} syn__loose_kind;

/* Kinds of damage that the parser accepts. */
typedef enum syn__loose_fault {
    SYN__LOOSE_EXTRA_COMMA,
    SYN__LOOSE_MISSING_COMMA,
    SYN__LOOSE_CONTROL,   /* a control character in a string */
    SYN__LOOSE_QUOTE,     /* an unescaped quote in a string */
    SYN__LOOSE_UTF8,      /* a string with bytes that are not UTF-8 */
    SYN__LOOSE_BARE_WORD, /* NaN, Infinity, -Infinity: not JSON, but accepted by Python */
    SYN__LOOSE_NO_VALUE,  /* another bare word, a number that is not valid JSON, or a missing
                             value */
    SYN__LOOSE_FAULTS
} syn__loose_fault;

typedef struct syn__loose_count {
    uint64_t count;
    size_t first; /* byte offset of the first occurrence */
} syn__loose_count;

typedef struct syn__loose {
    const char *begin, *end, *cur;
    bool broken;     /* stays set until syn__loose_resume */
    bool cut;        /* the text ended within a value */
    bool fresh;      /* the parser is right after an opening bracket */
    bool escaped;    /* the last string contains a backslash */
    bool at_member;  /* the parser is at the value of a member, which may be missing */
    const char *why; /* if broken: the reason, as part of a message */
    size_t ahead;    /* total number of bytes searched for the ends of strings with unescaped
                        quotes; this total is limited */
    syn__loose_count faults[SYN__LOOSE_FAULTS];
} syn__loose;

/* `data` must outlive the parser and be followed by SYN__LOOSE_PADDING readable bytes. */
void syn__loose_init(syn__loose *l, const char *data, size_t bytes);
/* Skips white space and returns the next byte; NUL at the end of the text. */
char syn__loose_peek(syn__loose *l);
/* Reads the current value. For a scalar, *text is its text (for a string, without the quotes), and
   the parser moves past the value. For an object or array, *text is the opening bracket, and the
   parser moves past that bracket. */
syn__loose_kind syn__loose_value(syn__loose *l, syn__str *text);
/* Reads the key of the next member of the open object and moves to its value. Returns false if the
   object is closed or the parser is broken. */
bool syn__loose_member(syn__loose *l, syn__str *key);
/* Moves to the next element of the open array. Returns false if there is none. */
bool syn__loose_element(syn__loose *l);
/* Skips the current value of any kind. *text (text may be NULL) is the whole value, including
   quotes. */
syn__loose_kind syn__loose_skip(syn__loose *l, syn__str *text);
/* Recovers after the parser broke within an element of an array of objects: moves to the next
   object, at or after `from`, whose first key is first_key, and clears `broken`. Such an object is
   found by its text: a brace, white space, and first_key in quotes. Returns false if there is none;
   the parser is then at the end. */
bool syn__loose_resume(syn__loose *l, const char *from, syn__str first_key);

/* Recovers after the parser broke outside of that array: moves to the value of the next member
   `key`, at or after `from`, whose value is an array. */
bool syn__loose_resume_list(syn__loose *l, const char *from, syn__str key);

/* Whether c ends a bare word because it may belong to the values around the word. A word can
   contain such characters only if they are balanced within it, as in dim3{1, 1}. */
static inline bool syn__loose_ends_word(char c) {
    return c == '"' || c == '{' || c == '}' || ((unsigned char)c < ' ' && c != '\t');
}
/* Whether c occurs in numbers, JSON words and names. */
static inline bool syn__loose_in_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '+' || c == '_';
}
/* Returns the end of the bare word at p (p < end). A bare word is anything that is not a string,
   object or array. It ends before a comma, a closing bracket or brace, the end of the line, a key,
   an object, or white space before one of these. Commas within balanced (), [], {}, <> and ''
   belong to the word, as in device(type='cuda', index=0). at_member: the word is the value of a
   member, after which only a key can follow. The word then also includes strings that are not keys,
   and commas before a letter or digit, as in 1,5. */
const char *syn__loose_word_end(const char *p, const char *end, bool at_member);

/* Initializes a parser for the text of a value, which should be an array, and moves past the
   opening bracket. Returns false if it is not an array or the text is empty. */
bool syn__loose_open_array(syn__loose *l, syn__str text);
/* Returns the value of the member `key` in the text of an object, including quotes; bytes is 0 if
   there is none. */
syn__str syn__loose_find(syn__str object, const char *key);

static inline size_t syn__loose_at(const syn__loose *l) {
    return (size_t)(l->cur - l->begin);
}

/* Decodes the text of a string into `out`, which needs text.bytes bytes, and returns the length.
   Escapes are resolved, and surrogate pairs joined. Lone surrogates become U+FFFD, and bytes that
   are not UTF-8 become "?". Backslashes that escape nothing are kept. */
size_t syn__loose_decode(syn__str text, char *out);
/* Returns the value of four hexadecimal digits at p; -1 if they are not hexadecimal digits. */
int32_t syn__loose_hex4(const char *p, const char *end);
/* Decodes the escape \uXXXX whose four digits begin at *p and moves *p past it. A lone surrogate is
   returned as it is. Without four digits, *p does not move and the result is U+FFFD. */
uint32_t syn__loose_unicode(const char **p, const char *end);
/* Parses a text that is one decimal integer. Returns false if it is not, or if the value does not
   fit the type. syn__loose_u64 returns negative values in two's complement. */
bool syn__loose_i64(syn__str text, int64_t *out);
bool syn__loose_u64(syn__str text, uint64_t *out);
/* Parses a number as a double, correctly rounded. *integer: it has no fraction and no exponent. */
bool syn__loose_double(syn__str text, double *out, bool *integer);
/* Parses a number of microseconds. Sets *us and *integer like syn__loose_double, and *ns to the
   whole nanoseconds, truncated. Also returns false if the nanoseconds do not fit int64. */
bool syn__loose_micros(syn__str text, double *us, int64_t *ns, bool *integer);

#ifdef __cplusplus
}
#endif
#endif
