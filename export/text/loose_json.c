/* The lenient JSON parser; see loose_json.h. */
#include "export/text/loose_json.h"

#include "syntorch/base/utf8.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* If quotes in a string are not escaped, the quote that ends the string is searched for in this
   many bytes after the first quote. */
#define QUOTE_REACH 4096
/* The same for a string that contains unescaped JSON. */
#define JSON_REACH (1 << 16)
/* Limit of the total number of bytes that these searches read, as a multiple of the text's size. */
#define AHEAD_MAX 8

void syn__loose_init(syn__loose *l, const char *data, size_t bytes) {
    memset(l, 0, sizeof *l);
    l->begin = l->cur = data;
    l->end = data + bytes;
    if (bytes >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0) l->cur += 3;
}

static void count(syn__loose *l, syn__loose_fault fault, const char *at) {
    if (l->faults[fault].count++ == 0) l->faults[fault].first = (size_t)(at - l->begin);
}

static bool stop(syn__loose *l, const char *at, const char *why) {
    l->cur = at < l->end ? at : l->end;
    l->cut = at >= l->end;
    l->broken = true;
    l->why = l->cut ? "the text ends here" : why;
    return false;
}

/* Skips white space. Control characters between values count as white space. Stops at the NUL after
   the text. */
static inline const char *past_space(const char *p, const char *end) {
    while ((unsigned char)*p <= ' ' && p < end) p++;
    return p;
}

char syn__loose_peek(syn__loose *l) {
    l->cur = past_space(l->cur, l->end);
    return l->cur < l->end ? *l->cur : '\0';
}

/* Returns the first byte at or after p that is a quote, a backslash or a control character; this
   may be the NUL after the text. Sets *foreign to a nonzero value if there is a non-ASCII byte
   before it. */
static inline const char *next_special(const char *p, unsigned *foreign) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), low = _mm_set1_epi8(31);
    for (;; p += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
        const unsigned high = (unsigned)_mm_movemask_epi8(x);
        const __m128i hit =
            _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash)),
                         _mm_cmpeq_epi8(_mm_min_epu8(x, low), x));
        const unsigned mask = (unsigned)_mm_movemask_epi8(hit);
        *foreign |= high & (mask - 1) & ~mask; /* only bytes before the first hit */
        if (mask != 0) return p + __builtin_ctz(mask);
    }
#else
    for (; *p != '"' && *p != '\\' && (unsigned char)*p >= ' '; p++)
        *foreign |= (unsigned char)*p & 0x80u;
    return p;
#endif
}

/* Counts a fault if the string is not UTF-8. */
static void check_utf8(syn__loose *l, const char *p, const char *end) {
    while (p < end) {
        const size_t n = syn_utf8_char_bytes(p, (size_t)(end - p));
        if (n == 0) {
            count(l, SYN__LOOSE_UTF8, p);
            return;
        }
        p += n;
    }
}

/* Returns the first unescaped quote at or after p, which is in a string; the end of the text if
   there is none. */
static inline const char *find_quote(syn__loose *l, const char *p) {
    const char *const begin = p;
    unsigned foreign = 0;
    for (;;) {
        p = next_special(p, &foreign);
        if (*p == '"' && p < l->end) {
            if (foreign != 0) check_utf8(l, begin, p);
            return p;
        }
        if (p >= l->end) return l->end;
        if (*p == '\\') {
            l->escaped = true;
            p += 2;
            if (p > l->end) return l->end;
        } else {
            count(l, SYN__LOOSE_CONTROL, p++);
        }
    }
}

typedef enum place { IN_KEY, IN_VALUE, ANYWHERE } place;

static bool ends_value(char c) {
    return c == ',' || c == '}' || c == ']';
}

/* Whether the text at `behind`, right after a quote, can follow a string. If two quotes are
   adjacent at the end of a value, as in "step "3"", the second one closes the string. */
static bool may_follow(const syn__loose *l, const char *behind, place where) {
    const char *p = past_space(behind, l->end);
    if (p >= l->end) return true;
    if (*p == ':') return where != IN_VALUE;
    if (where == IN_KEY) return false;
    if (*p == '"') return p != behind || (p + 1 < l->end && !ends_value(p[1]));
    return ends_value(*p) || *p == '{' || *p == '[';
}

/* Handles a string that consists of unescaped JSON, whose opening bracket is at p. Returns the
   quote right after the closing bracket, or NULL if the string does not seem to end there. */
static const char *past_json(syn__loose *l, const char *p) {
    const char *const begin = p, *end = l->end - p > JSON_REACH ? p + JSON_REACH : l->end;
    size_t depth = 0;
    bool quoted = false;
    for (; p < end; p++) {
        if (*p == '"') quoted = !quoted;
        if (quoted) continue;
        if (*p == '{' || *p == '[') depth++;
        if (*p != '}' && *p != ']') continue;
        if (--depth == 0) break;
    }
    l->ahead += (size_t)(p - begin);
    return p + 1 < end && p[1] == '"' && may_follow(l, p + 2, IN_VALUE) ? p + 1 : NULL;
}

/* Handles unescaped quotes in a string: the string extends to the next quote that can end it, but
   not beyond the start or end of an object. Returns that quote, or `quote` if none is found. */
static const char *past_quotes(syn__loose *l, const char *begin, const char *quote, place where) {
    if (may_follow(l, quote + 1, where)) return quote;
    if (l->ahead / AHEAD_MAX > (size_t)(l->end - l->begin)) return quote;
    if (where != IN_KEY && (*begin == '{' || *begin == '[')) {
        const char *behind = past_json(l, begin);
        if (behind != NULL) return count(l, SYN__LOOSE_QUOTE, quote), behind;
    }
    const char *p = quote;
    while (p < l->end && p - quote < QUOTE_REACH) {
        const char *from = p + 1;
        p = find_quote(l, from);
        l->ahead += (size_t)(p - from);
        if (memchr(from, '{', (size_t)(p - from)) || memchr(from, '}', (size_t)(p - from))) break;
        if (p < l->end && may_follow(l, p + 1, where)) return count(l, SYN__LOOSE_QUOTE, quote), p;
    }
    return quote;
}

/* Returns the end of the string whose text begins at p: its closing quote, or the end of the
   text. */
static inline const char *string_end(syn__loose *l, const char *p, place where) {
    const char *quote = find_quote(l, p);
    const char next = quote < l->end ? quote[1] : '\0';
    const bool usual = where == IN_KEY ? next == ':' : ends_value(next);
    if (usual || quote >= l->end || (where == ANYWHERE && next == ':')) return quote;
    return past_quotes(l, p, quote, where);
}

/* ---- Numbers and words ---- */

static inline bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Whether the number or name that ended at p is clearly the whole value. Commas between elements
   may be missing, so another value may follow an element. After the value of a member only a key
   can follow, so there "80 GB" is one word. */
static inline bool is_whole_word(const syn__loose *l, const char *p, bool at_member) {
    if (*p == ',' && at_member && syn__loose_in_word(p[1])) return false; /* 1,5: a decimal comma */
    if (ends_value(*p)) return true;
    p = past_space(p, l->end);
    return ends_value(*p) || p >= l->end ||
           (!at_member && (*p == '[' || *p == '"' || syn__loose_in_word(*p)));
}

/* Returns the end of the number at p if it has no exponent, as is the case for most numbers;
   otherwise p. */
static inline const char *past_number(const char *p) {
    const char *q = p + (*p == '-');
    const char *const digits = q;
    while (is_digit(*q)) q++;
    if (q == digits) return p;
    if (*q == '.' && is_digit(q[1])) {
        for (q++; is_digit(*q);) q++;
    }
    return syn__loose_in_word(*q) ? p : q;
}

static syn__loose_kind word_kind(syn__loose *l, syn__str s) {
    const char c = *s.text == '-' || *s.text == '+' ? s.text[1] : *s.text;
    double value;
    bool integer;
    if (is_digit(c) || c == '.') {
        if (!syn__loose_double(s, &value, &integer)) count(l, SYN__LOOSE_NO_VALUE, s.text);
        return SYN__LOOSE_NUMBER;
    }
    if (syn__str_is(s, "NaN") || syn__str_is(s, "Infinity") || syn__str_is(s, "-Infinity"))
        count(l, SYN__LOOSE_BARE_WORD, s.text);
    else if (!syn__str_is(s, "true") && !syn__str_is(s, "false") && !syn__str_is(s, "null"))
        count(l, SYN__LOOSE_NO_VALUE, s.text);
    return SYN__LOOSE_WORD;
}

/* Reads the number or word at p and sets *end to its end. Returns NONE if there is none. */
static syn__loose_kind bare(syn__loose *l, const char *p, bool at_member, const char **end) {
    const char *q = *end = past_number(p);
    if (q != p && is_whole_word(l, q, at_member)) return SYN__LOOSE_NUMBER;
    while (syn__loose_in_word(*q)) q++; /* stops at the NUL after the text */
    *end = q;
    if (q > p && is_whole_word(l, q, at_member))
        return word_kind(l, (syn__str){p, (size_t)(q - p)});
    *end = syn__loose_word_end(p, l->end, at_member);
    if (*end == p) return SYN__LOOSE_NONE;
    if (*end == q) return word_kind(l, (syn__str){p, (size_t)(q - p)});
    count(l, SYN__LOOSE_NO_VALUE, p);
    return SYN__LOOSE_WORD;
}

static inline syn__loose_kind scalar(syn__loose *l, const char *p, syn__str *text) {
    const bool at_member = l->at_member;
    l->at_member = false;
    text->text = p;
    if (*p == '"' && p < l->end) {
        l->escaped = false;
        const char *quote = string_end(l, p + 1, IN_VALUE);
        if (quote >= l->end) return (void)stop(l, l->end, NULL), SYN__LOOSE_NONE;
        text->text = p + 1;
        text->bytes = (size_t)(quote - p - 1);
        l->cur = quote + 1;
        return SYN__LOOSE_STRING;
    }
    if (at_member && (*p == ',' || *p == '}') && p < l->end) {
        count(l, SYN__LOOSE_NO_VALUE, p);
        text->bytes = 0;
        l->cur = p;
        return SYN__LOOSE_WORD;
    }
    const char *q = p;
    const syn__loose_kind kind = p < l->end ? bare(l, p, at_member, &q) : SYN__LOOSE_NONE;
    if (q >= l->end || kind == SYN__LOOSE_NONE)
        return (void)stop(l, q, "a value is missing here"), SYN__LOOSE_NONE;
    text->bytes = (size_t)(q - p);
    l->cur = q;
    return kind;
}

syn__loose_kind syn__loose_value(syn__loose *l, syn__str *text) {
    text->text = l->cur;
    text->bytes = 0;
    if (l->broken) return SYN__LOOSE_NONE;
    const char *p = past_space(l->cur, l->end);
    if ((*p == '{' || *p == '[') && p < l->end) {
        text->text = p;
        text->bytes = 1;
        l->cur = p + 1;
        l->fresh = true;
        l->at_member = false;
        return *p == '{' ? SYN__LOOSE_OBJECT : SYN__LOOSE_ARRAY;
    }
    l->fresh = false;
    return scalar(l, p, text);
}

/* Skips any number of commas before an element or a closing bracket. */
static const char *past_odd_commas(syn__loose *l, char closing) {
    const char *p = past_space(l->cur, l->end), *at = p;
    unsigned n = 0;
    for (; *p == ',' && p < l->end; n++) p = past_space(p + 1, l->end);
    const bool closed = *p == closing;
    if (n > 1 || (n == 1 && (l->fresh || closed))) count(l, SYN__LOOSE_EXTRA_COMMA, at);
    const bool value = !closed && *p != '}' && *p != ']' && *p != ':' && p < l->end;
    if (n == 0 && !l->fresh && value) count(l, SYN__LOOSE_MISSING_COMMA, p);
    return p;
}

/* Skips the comma before an element or a closing bracket, in the usual case that there is exactly
   one. */
static inline const char *past_commas(syn__loose *l, char closing) {
    const char *p = past_space(l->cur, l->end);
    if (*p == ',' && !l->fresh) {
        p = past_space(p + 1, l->end);
        if (*p != ',' && *p != closing && p < l->end) return p;
    }
    return past_odd_commas(l, closing);
}

bool syn__loose_member(syn__loose *l, syn__str *key) {
    if (l->broken) return false;
    const char *p = past_commas(l, '}');
    l->fresh = false;
    if (*p == '}' && p < l->end) {
        l->cur = p + 1;
        return false;
    }
    if (*p != '"' || p >= l->end) return stop(l, p, "a key is missing here");
    l->escaped = false;
    const char *quote = string_end(l, p + 1, IN_KEY);
    if (quote >= l->end) return stop(l, l->end, NULL);
    key->text = p + 1;
    key->bytes = (size_t)(quote - p - 1);
    p = past_space(quote + 1, l->end);
    if (*p != ':') return stop(l, p, "a colon is missing after the key");
    l->cur = past_space(p + 1, l->end);
    l->at_member = true;
    return true;
}

bool syn__loose_element(syn__loose *l) {
    if (l->broken) return false;
    const char *p = past_commas(l, ']');
    l->fresh = false;
    if (*p == ']' && p < l->end) {
        l->cur = p + 1;
        return false;
    }
    if (p >= l->end) return stop(l, p, NULL);
    if (*p == '}' || *p == ':') return stop(l, p, "an element is missing here");
    l->cur = p;
    return true;
}

/* Returns the first byte at or after p that is not white space, a comma, a colon or part of a plain
   number; the end of the text if there is none. */
static inline const char *next_mark(const char *p, const char *end) {
#if defined(__SSE2__)
    const __m128i plus = _mm_set1_epi8('+'), span = _mm_set1_epi8(':' - '+');
    const __m128i space = _mm_set1_epi8(' ');
    for (; p < end; p += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
        const __m128i y = _mm_sub_epi8(x, plus); /* 0 to 15 for + , - . / 0 ... 9 : */
        const __m128i plain = _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(x, space), x),
                                           _mm_cmpeq_epi8(_mm_min_epu8(y, span), y));
        const unsigned mask = (unsigned)_mm_movemask_epi8(plain) ^ 0xFFFFu;
        if (mask != 0) {
            p += __builtin_ctz(mask);
            return p < end ? p : end;
        }
    }
    return end;
#else
    while (p < end && ((unsigned char)*p <= ' ' || (*p >= '+' && *p <= ':'))) p++;
    return p;
#endif
}

/* Skips a word, or a number that is not plain. p is one of its characters, and `begin` is not after
   its start. */
static const char *past_word(syn__loose *l, const char *begin, const char *p) {
    const char *first = p, *end = p;
    while (first > begin && syn__loose_in_word(first[-1])) first--;
    (void)bare(l, first, false, &end);
    return end > p ? end : p + 1;
}

/* Skips the colon after a key, if it is at p, and counts a missing value. */
static inline const char *past_colon(syn__loose *l, const char *p) {
    if (*p != ':') return p;
    p = past_space(p + 1, l->end);
    if ((*p == ',' || *p == '}') && p < l->end) count(l, SYN__LOOSE_NO_VALUE, p);
    return p;
}

/* Skips the object or array that opens at p. */
static bool skip_nested(syn__loose *l, const char *p) {
    size_t depth = 0;
    for (;;) {
        const char *const begin = p;
        p = next_mark(p, l->end);
        if (p >= l->end) return stop(l, l->end, NULL);
        if (*p == '"') {
            p = string_end(l, p + 1, ANYWHERE);
            if (p >= l->end) return stop(l, l->end, NULL);
            p = past_colon(l, p + 1);
        } else if (*p == '{' || *p == '[') {
            depth++;
            p++;
        } else if (*p == '}' || *p == ']') {
            if (--depth == 0) {
                l->cur = p + 1;
                return true;
            }
            p++;
        } else {
            p = past_word(l, begin, p);
        }
    }
}

syn__loose_kind syn__loose_skip(syn__loose *l, syn__str *text) {
    syn__str inner = {l->cur, 0};
    syn__loose_kind kind = SYN__LOOSE_NONE;
    if (!l->broken) {
        const char *p = past_space(l->cur, l->end);
        l->fresh = false;
        if ((*p == '{' || *p == '[') && p < l->end) {
            l->at_member = false;
            if (skip_nested(l, p)) kind = *p == '{' ? SYN__LOOSE_OBJECT : SYN__LOOSE_ARRAY;
        } else {
            kind = scalar(l, p, &inner);
        }
        inner.text = p;
        inner.bytes = kind == SYN__LOOSE_NONE ? 0 : (size_t)(l->cur - p);
    }
    if (text) *text = inner;
    return kind;
}

bool syn__loose_resume(syn__loose *l, const char *from, syn__str first_key) {
    const char *p = first_key.bytes > 0 ? from : l->end;
    while (p < l->end && (p = memchr(p, '{', (size_t)(l->end - p))) != NULL) {
        const char *q = past_space(p + 1, l->end);
        if ((size_t)(l->end - q) > first_key.bytes + 1 && *q == '"' &&
            memcmp(q + 1, first_key.text, first_key.bytes) == 0 && q[first_key.bytes + 1] == '"') {
            l->cur = p;
            l->broken = l->cut = false;
            l->fresh = true; /* no comma is required before this object */
            return true;
        }
        p++;
    }
    l->cur = l->end;
    return false;
}

bool syn__loose_resume_list(syn__loose *l, const char *from, syn__str key) {
    const char *p = from;
    while (p < l->end && (p = memchr(p, '"', (size_t)(l->end - p))) != NULL) {
        const char *q = ++p;
        if ((size_t)(l->end - q) <= key.bytes || memcmp(q, key.text, key.bytes) != 0 ||
            q[key.bytes] != '"')
            continue;
        q = past_space(q + key.bytes + 1, l->end);
        if (q >= l->end || *q != ':') continue;
        q = past_space(q + 1, l->end);
        if (q >= l->end || *q != '[') continue;
        l->cur = q;
        l->broken = l->cut = l->fresh = false;
        return true;
    }
    l->cur = l->end;
    return false;
}

bool syn__loose_open_array(syn__loose *l, syn__str text) {
    syn__str at;
    if (text.bytes == 0) return false;
    syn__loose_init(l, text.text, text.bytes);
    return syn__loose_value(l, &at) == SYN__LOOSE_ARRAY;
}

syn__str syn__loose_find(syn__str object, const char *key) {
    syn__loose l;
    syn__str text = {"", 0}, at;
    syn__loose_init(&l, object.text, object.bytes);
    if (syn__loose_value(&l, &at) != SYN__LOOSE_OBJECT) return text;
    while (syn__loose_member(&l, &at)) {
        if (syn__str_is(at, key)) {
            if (syn__loose_skip(&l, &text) != SYN__LOOSE_NONE) return text;
            break;
        }
        syn__loose_skip(&l, NULL);
    }
    text.text = "";
    text.bytes = 0;
    return text;
}
