/* Rewrites patterns for PCRE2. Character classes are replaced by their contents if PCRE2's Unicode
   version or definition of a class would split texts differently. */
#include "models/tokenizer/tokenizer_regex_private.h"

#include "syntorch/base/memory.h"

#include <stdlib.h>
#include <string.h>

#ifdef SYN_HAVE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Unicode's White_Space (PropList.txt), which is \s in HuggingFace and tiktoken. PCRE2's own \s
   also contains U+180E. */
#define SPACE                                                                                   \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
    "\\x{205f}\\x{3000}"
/* Letters and numbers, including those added in Unicode 15 and 16 (UnicodeData.txt). With these
   classes, PCRE2 versions with Unicode 14 (PCRE2 10.40) to 16 split every text like tokenizers 0.23
   and tiktoken 0.14, which use Unicode 16. */
#define LETTER                                                                                     \
    "a-zA-Z\\p{L}\\x{1c89}\\x{1c8a}\\x{a7cb}-\\x{a7cd}\\x{a7da}-\\x{a7dc}\\x{105c0}-\\x{105f3}"    \
    "\\x{10d4a}-\\x{10d65}\\x{10d6f}-\\x{10d85}\\x{10ec2}-\\x{10ec4}\\x{1123f}\\x{11240}"          \
    "\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}\\x{113d3}" \
    "\\x{11bc0}-\\x{11be0}\\x{11f02}\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}"          \
    "\\x{13441}-\\x{13446}\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}\\x{16d40}-\\x{16d6c}"         \
    "\\x{18cff}\\x{1b132}\\x{1b155}\\x{1df25}-\\x{1df2a}\\x{1e030}-\\x{1e06d}\\x{1e4d0}-\\x{"      \
    "1e4eb}"                                                                                       \
    "\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"
#define NUMBER                                                                                \
    "0-9\\p{N}\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{" \
    "11f59}"                                                                                  \
    "\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1d2c0}-\\x{1d2d3}"    \
    "\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}"
/* \w in HuggingFace: letters, marks, decimal digits, letterlike numbers and symbols, connecting
   punctuation and joiners, including those added in Unicode 15 and 16. */
#define WORD                                                                                  \
    LETTER                                                                                    \
    "\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}"   \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"                                              \
    "\\x{897}\\x{cf3}\\x{ece}\\x{10d40}-\\x{10d49}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}" \
    "\\x{11241}\\x{113b8}-\\x{113c0}\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}"                \
    "\\x{113cc}-\\x{113d0}\\x{113d2}\\x{113e1}\\x{113e2}\\x{116d0}-\\x{116e3}"                \
    "\\x{11bf0}-\\x{11bf9}\\x{11f00}\\x{11f01}\\x{11f03}\\x{11f34}-\\x{11f3a}"                \
    "\\x{11f3e}-\\x{11f42}\\x{11f50}-\\x{11f5a}\\x{13440}\\x{13447}-\\x{13455}"               \
    "\\x{1611e}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}\\x{1e08f}"               \
    "\\x{1e4ec}-\\x{1e4f9}\\x{1e5ee}\\x{1e5ef}\\x{1e5f1}-\\x{1e5fa}"
/* Decimal digits, including those added in Unicode 15 and 16. */
#define DIGIT                                                                                  \
    "0-9\\p{Nd}\\x{10d40}-\\x{10d49}\\x{116d0}-\\x{116e3}\\x{11bf0}-\\x{11bf9}\\x{11f50}-\\x{" \
    "11f59}\\x{16130}-\\x{16139}\\x{16d70}-\\x{16d79}\\x{1ccf0}-\\x{1ccf9}"                    \
    "\\x{1e4f0}-\\x{1e4f9}\\x{1e5f1}-\\x{1e5fa}"

/* The same for kinds of letters, and marks. */
#define UPPER "\\p{Lu}\\x{1c89}\\x{a7cb}-\\x{a7cc}\\x{a7da}\\x{a7dc}\\x{10d50}-\\x{10d65}"
#define LOWER "\\p{Ll}\\x{1c8a}\\x{a7cd}\\x{a7db}\\x{10d70}-\\x{10d85}\\x{1df25}-\\x{1df2a}"
#define MODIFIER                                                            \
    "\\p{Lm}\\x{10d4e}\\x{10d6f}\\x{16d40}-\\x{16d42}\\x{16d6b}-\\x{16d6c}" \
    "\\x{1e030}-\\x{1e06d}\\x{1e4eb}"
#define OTHER                                                                            \
    "\\p{Lo}\\x{105c0}-\\x{105f3}\\x{10d4a}-\\x{10d4d}\\x{10d4f}\\x{10ec2}-\\x{10ec4}"   \
    "\\x{1123f}-\\x{11240}\\x{11380}-\\x{11389}\\x{1138b}\\x{1138e}"                     \
    "\\x{11390}-\\x{113b5}\\x{113b7}\\x{113d1}\\x{113d3}\\x{11bc0}-\\x{11be0}\\x{11f02}" \
    "\\x{11f04}-\\x{11f10}\\x{11f12}-\\x{11f33}\\x{1342f}\\x{13441}-\\x{13446}"          \
    "\\x{13460}-\\x{143fa}\\x{16100}-\\x{1611d}\\x{16d43}-\\x{16d6a}\\x{18cff}"          \
    "\\x{1b132}\\x{1b155}\\x{1e4d0}-\\x{1e4ea}\\x{1e5d0}-\\x{1e5ed}\\x{1e5f0}\\x{2b739}" \
    "\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"
#define MARK                                                                             \
    "\\p{M}\\x{897}\\x{cf3}\\x{ece}\\x{10d69}-\\x{10d6d}\\x{10efc}-\\x{10eff}\\x{11241}" \
    "\\x{113b8}-\\x{113c0}\\x{113c2}\\x{113c5}\\x{113c7}-\\x{113ca}"                     \
    "\\x{113cc}-\\x{113d0}\\x{113d2}\\x{113e1}-\\x{113e2}\\x{11f00}-\\x{11f01}"          \
    "\\x{11f03}\\x{11f34}-\\x{11f3a}\\x{11f3e}-\\x{11f42}\\x{11f5a}\\x{13440}"           \
    "\\x{13447}-\\x{13455}\\x{1611e}-\\x{1612f}\\x{1e08f}\\x{1e4ec}-\\x{1e4ef}"          \
    "\\x{1e5ee}-\\x{1e5ef}"

struct syn__regex {
    pcre2_general_context *general;
    pcre2_code *code;
    bool has_jit;
};

struct syn__match {
    pcre2_general_context *general;
    pcre2_match_data *data;
};

static void *give_memory(PCRE2_SIZE bytes, void *unused) {
    (void)unused;
    return syn_malloc(bytes);
}

static void take_memory(void *ptr, void *unused) {
    (void)unused;
    syn_free(ptr);
}

/* Reports a PCRE2 error. */
static syn_status pcre2_failed(int code, const char *what, syn_error *err) {
    char text[128];
    if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAPLIMIT ||
        code == PCRE2_ERROR_HEAP_FAILED)
        return SYN_FAIL(err, SYN_E_NOMEM, "out of memory: %s", what);
    if (pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text) < 0) text[0] = '\0';
    return SYN_FAIL(err, SYN_E_UNSUPPORTED, "%s failed in PCRE2: %s (code %d)", what, text, code);
}

/* ---- rewriting patterns ---- */

typedef struct writer {
    const char *in;
    size_t bytes, at;
    char *out;
    size_t n, cap;
    bool in_class, of_file;
    syn_error *err;
} writer;

static syn_status put(writer *w, const char *text, size_t bytes) {
    SYN_TRY(syn_grow(&w->out, &w->cap, w->n + bytes + 1, 1, w->err));
    memcpy(w->out + w->n, text, bytes);
    w->n += bytes;
    w->out[w->n] = '\0';
    return SYN_OK;
}

static syn_status puts_all(writer *w, const char *text) {
    return put(w, text, strlen(text));
}

/* Copies the next `bytes` bytes of the pattern. */
static syn_status take(writer *w, size_t bytes) {
    SYN_TRY(put(w, w->in + w->at, bytes));
    w->at += bytes;
    return SYN_OK;
}

static bool follows(const writer *w, const char *text) {
    const size_t n = strlen(text);
    return w->bytes - w->at >= n && memcmp(w->in + w->at, text, n) == 0;
}

static syn_status refuse(const writer *w, const char *what, size_t bytes) {
    return SYN_FAIL(w->err, SYN_E_UNSUPPORTED,
                    "the regular expression \"%.*s\" is not supported because of %s \"%.*s\" at "
                    "byte %zu",
                    w->bytes < 200 ? (int)w->bytes : 200, w->in, what,
                    bytes < w->bytes - w->at ? (int)bytes : (int)(w->bytes - w->at), w->in + w->at,
                    w->at);
}

/* Character classes and their replacements. */
static const struct {
    const char *name, *chars;
    bool outside; /* the class is the complement of `chars` */
} classes[] = {
    {"\\p{L}", LETTER, false},     {"\\P{L}", LETTER, true},     {"\\p{N}", NUMBER, false},
    {"\\P{N}", NUMBER, true},      {"\\s", SPACE, false},        {"\\S", SPACE, true},
    {"\\w", WORD, false},          {"\\W", WORD, true},          {"\\d", DIGIT, false},
    {"\\D", DIGIT, true},          {"\\p{Lu}", UPPER, false},    {"\\p{Ll}", LOWER, false},
    {"\\p{Lt}", "\\p{Lt}", false}, {"\\p{Lm}", MODIFIER, false}, {"\\p{Lo}", OTHER, false},
    {"\\p{M}", MARK, false}};

/* In a case-insensitive pattern, PCRE2 treats classes of upper- or lowercase letters
   differently. */
static bool is_cased(const char *name) {
    return strncmp(name, "\\p{L", 4) == 0 && strchr("ult", name[4]);
}

static bool ignores_case(const writer *w) {
    for (size_t i = 0; w->bytes - i >= 3; i++)
        if (memcmp(w->in + i, "(?i", 3) == 0) return true;
    return false;
}

static syn_status write_escape(writer *w) {
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (!follows(w, classes[i].name)) continue;
        if (w->in_class && classes[i].outside) return refuse(w, "the class", 6);
        if (w->of_file && (classes[i].name[1] | 32) == 'w') return refuse(w, "the class", 2);
        if (is_cased(classes[i].name) && ignores_case(w)) return refuse(w, "the class", 6);
        w->at += strlen(classes[i].name);
        if (!w->in_class) SYN_TRY(puts_all(w, classes[i].outside ? "[^" : "["));
        SYN_TRY(puts_all(w, classes[i].chars));
        return w->in_class ? SYN_OK : puts_all(w, "]");
    }
    const unsigned char c = w->at + 1 < w->bytes ? (unsigned char)w->in[w->at + 1] : 0;
    const bool is_word = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    if (c == 'r' || c == 'n' || c == 't' || (c > ' ' && c < 0x7f && !is_word)) return take(w, 2);
    return refuse(w, "the escape", 6);
}

static syn_status write_class(writer *w) {
    SYN_TRY(take(w, follows(w, "[^") ? 2 : 1));
    if (follows(w, "]")) return refuse(w, "the class", 2);
    w->in_class = true;
    while (w->at < w->bytes && w->in[w->at] != ']') {
        if (w->in[w->at] == '[' || follows(w, "&&")) return refuse(w, "the class", 2);
        SYN_TRY(w->in[w->at] == '\\' ? write_escape(w) : take(w, 1));
    }
    w->in_class = false;
    return w->at < w->bytes ? take(w, 1) : refuse(w, "the class without", 1);
}

static syn_status write_group(writer *w) {
    static const char *const known[] = {"(?:", "(?i:", "(?!", "(?="};
    if (!follows(w, "(?")) return take(w, 1);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (follows(w, known[i])) return take(w, strlen(known[i]));
    return refuse(w, "the group", 4);
}

/* Writes a repetition: "{2}", "{1,3}" or "{2,}". */
static syn_status write_repeat(writer *w) {
    size_t end = w->at + 1, digits = 0;
    for (; end < w->bytes && w->in[end] >= '0' && w->in[end] <= '9'; end++) digits++;
    if (end < w->bytes && w->in[end] == ',') end++;
    while (end < w->bytes && w->in[end] >= '0' && w->in[end] <= '9') end++;
    if (digits == 0 || end == w->bytes || w->in[end] != '}' ||
        (end + 1 < w->bytes && (w->in[end + 1] == '+' || w->in[end + 1] == '?')))
        return refuse(w, "the repetition", 8);
    return take(w, end + 1 - w->at);
}

static syn_status write_all(writer *w) {
    while (w->at < w->bytes) switch (w->in[w->at]) {
        case '\\':
            SYN_TRY(write_escape(w));
            break;
        case '[':
            SYN_TRY(write_class(w));
            break;
        case '(':
            SYN_TRY(write_group(w));
            break;
        case '{':
            SYN_TRY(write_repeat(w));
            break;
        case '^':
        case '$':
        case '\0':
            return refuse(w, "the sign", 1);
        default:
            SYN_TRY(take(w, 1));
        }
    return SYN_OK;
}

/* ---- compiling and matching ---- */

syn_status syn__regex_ready(syn_error *err) {
    (void)err;
    return SYN_OK;
}

static syn_status compile(syn__regex *regex, const writer *w, syn_error *err) {
    int failed = PCRE2_ERROR_NOMEMORY;
    PCRE2_SIZE offset;
    pcre2_compile_context *context =
        regex->general ? pcre2_compile_context_create(regex->general) : NULL;
    if (context != NULL && pcre2_set_newline(context, PCRE2_NEWLINE_LF) == 0)
        regex->code = pcre2_compile((PCRE2_SPTR)w->out, w->n, PCRE2_UTF | PCRE2_UCP, &failed,
                                    &offset, context);
    pcre2_compile_context_free(context);
    if (regex->code == NULL) return pcre2_failed(failed, "compiling a regular expression", err);
    uint32_t may_be_empty = 0;
    (void)pcre2_pattern_info(regex->code, PCRE2_INFO_MATCHEMPTY, &may_be_empty);
    if (may_be_empty)
        return SYN_FAIL(err, SYN_E_UNSUPPORTED,
                        "the regular expression \"%.*s\" is not supported because it also matches "
                        "the empty string",
                        w->bytes < 200 ? (int)w->bytes : 200, w->in);
    /* Without executable memory, or on processors that its compiler does not support, PCRE2
       interprets the pattern, which is slower but finds the same matches. */
    regex->has_jit = pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == 0;
    return SYN_OK;
}

syn_status syn__regex_new(syn__regex **out, const char *pattern, size_t bytes, bool of_file,
                          syn_error *err) {
    *out = NULL;
    writer w = {.in = pattern, .bytes = bytes, .of_file = of_file, .err = err};
    syn__regex *regex = syn_calloc(1, sizeof *regex);
    if (regex == NULL) return SYN_FAIL_NOMEM(err, sizeof *regex, "a regular expression");
    regex->general = pcre2_general_context_create(give_memory, take_memory, NULL);
    syn_status status = put(&w, "", 0);
    if (status == SYN_OK) status = write_all(&w);
    if (status == SYN_OK) status = compile(regex, &w, err);
    syn_free(w.out);
    if (status == SYN_OK) *out = regex;
    else syn__regex_free(regex);
    return status;
}

void syn__regex_free(syn__regex *regex) {
    if (regex == NULL) return;
    pcre2_code_free(regex->code);
    pcre2_general_context_free(regex->general);
    syn_free(regex);
}

syn_status syn__match_new(syn__match **out, syn_error *err) {
    *out = syn_calloc(1, sizeof **out);
    if (*out == NULL) return SYN_FAIL_NOMEM(err, sizeof **out, "the match of a regular expression");
    (*out)->general = pcre2_general_context_create(give_memory, take_memory, NULL);
    if ((*out)->general) (*out)->data = pcre2_match_data_create(1, (*out)->general);
    if ((*out)->data) return SYN_OK;
    syn__match_free(*out);
    *out = NULL;
    return SYN_FAIL_NOMEM(err, 256, "the match of a regular expression");
}

void syn__match_free(syn__match *match) {
    if (match == NULL) return;
    pcre2_match_data_free(match->data);
    pcre2_general_context_free(match->general);
    syn_free(match);
}

syn_status syn__regex_find(const syn__regex *regex, syn__match *match, const char *text,
                           size_t bytes, size_t from, size_t *begin, size_t *end, syn_error *err) {
    *begin = *end = bytes;
    if (from == bytes) return SYN_OK;
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (regex->has_jit)
        rc = pcre2_jit_match(regex->code, (PCRE2_SPTR)text, bytes, from, 0, match->data, NULL);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(regex->code, (PCRE2_SPTR)text, bytes, from,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match->data, NULL);
    if (rc == PCRE2_ERROR_NOMATCH) return SYN_OK;
    if (rc < 1) return pcre2_failed(rc, "cutting a text into words", err);
    *begin = pcre2_get_ovector_pointer(match->data)[0];
    *end = pcre2_get_ovector_pointer(match->data)[1];
    return SYN_OK;
}

bool syn__regex_is_at(const syn__regex *regex, syn__match *match, const char *text, size_t bytes,
                      size_t at) {
    return pcre2_match(regex->code, (PCRE2_SPTR)text, bytes, at,
                       PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, match->data, NULL) > 0;
}

void syn__regex_unicode(char out[64]) {
    out[0] = '\0';
    (void)pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, out);
}

#else /* without PCRE2 */

syn_status syn__regex_ready(syn_error *err) {
    return SYN_FAIL(
        err, SYN_E_UNSUPPORTED,
        "this build has no GPT-2 tokenizer because PCRE2 was missing: install the package "
        "libpcre2-dev and build again, or use the byte tokenizer");
}

syn_status syn__regex_new(syn__regex **out, const char *pattern, size_t bytes, bool of_file,
                          syn_error *err) {
    (void)pattern, (void)bytes, (void)of_file;
    *out = NULL;
    return syn__regex_ready(err);
}

void syn__regex_free(syn__regex *regex) {
    (void)regex;
}

syn_status syn__match_new(syn__match **out, syn_error *err) {
    (void)err;
    *out = NULL;
    return SYN_OK;
}

void syn__match_free(syn__match *match) {
    (void)match;
}

syn_status syn__regex_find(const syn__regex *regex, syn__match *match, const char *text,
                           size_t bytes, size_t from, size_t *begin, size_t *end, syn_error *err) {
    (void)regex, (void)match, (void)text, (void)from;
    *begin = *end = bytes;
    return syn__regex_ready(err);
}

bool syn__regex_is_at(const syn__regex *regex, syn__match *match, const char *text, size_t bytes,
                      size_t at) {
    (void)regex, (void)match, (void)text, (void)bytes, (void)at;
    return false;
}

void syn__regex_unicode(char out[64]) {
    out[0] = '\0';
}
#endif
