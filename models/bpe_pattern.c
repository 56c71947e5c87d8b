/* GPT-2's pre-tokenizer, by PCRE2. The pattern (encoder.py of github.com/openai/gpt-2):
     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
#include "models/bpe_private.h"

#include "syntorch/memory.h"

#include <stdlib.h>
#include <string.h>

#ifdef SYN_HAVE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Unicode's White_Space (PropList.txt), what \s means to HuggingFace and tiktoken. PCRE2's own \s
   has U+180E besides. */
#define SPACE                                                                                   \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
    "\\x{205f}\\x{3000}"
/* Letters and numbers that Unicode 15 and 16 added (UnicodeData.txt). With them a PCRE2 that knows
   Unicode 14 (10.40) to 16 cuts every text as tokenizers 0.23 and tiktoken 0.14 do, which know
   Unicode 16. */
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
/* What \w means to HuggingFace: besides letters the marks, decimal digits, letterlike numbers and
   symbols, connecting punctuation and joiners; with those that Unicode 15 and 16 added. */
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
static const char word_text[] = "[" WORD "]";
/* Possessive where nothing follows that could ask for a shorter match. */
static const char pattern_text[] = "'(?:[sdmt]|ll|ve|re)"
                                   "| ?[" LETTER "]++| ?[" NUMBER "]++"
                                   "| ?[^" SPACE LETTER NUMBER "]++"
                                   "|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]++";

struct syn__bpe_pattern {
    pcre2_general_context *general;
    pcre2_code *code, *word; /* word: NULL until it is asked for */
    bool has_jit;
};

static void *give_memory(PCRE2_SIZE bytes, void *unused) {
    (void)unused;
    return syn_malloc(bytes);
}

static void take_memory(void *ptr, void *unused) {
    (void)unused;
    syn_free(ptr);
}

/* Turns a PCRE2 error into a sentence. */
static syn_status pcre2_failed(int code, const char *what, syn_error *err) {
    char text[128];
    if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAPLIMIT ||
        code == PCRE2_ERROR_HEAP_FAILED)
        return SYN_FAIL(err, SYN_E_NOMEM, "out of memory: %s", what);
    if (pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text) < 0) text[0] = '\0';
    return SYN_FAIL(err, SYN_E_UNSUPPORTED, "%s failed in PCRE2: %s (code %d)", what, text, code);
}

static syn_status compile(const syn__bpe_pattern *p, const char *text, pcre2_code **code,
                          syn_error *err) {
    static const char what[] = "compiling the word pattern";
    int failed = PCRE2_ERROR_NOMEMORY;
    PCRE2_SIZE offset;
    pcre2_compile_context *context = p->general ? pcre2_compile_context_create(p->general) : NULL;
    if (context != NULL)
        *code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &failed, &offset, context);
    pcre2_compile_context_free(context);
    return *code != NULL ? SYN_OK : pcre2_failed(failed, what, err);
}

syn_status syn__bpe_pattern_new(syn__bpe_pattern **out, syn_error *err) {
    *out = NULL;
    syn__bpe_pattern *p = syn_calloc(1, sizeof *p);
    if (p == NULL) return SYN_FAIL_NOMEM(err, sizeof *p, "compiling the word pattern");
    p->general = pcre2_general_context_create(give_memory, take_memory, NULL);
    const syn_status status = compile(p, pattern_text, &p->code, err);
    if (status != SYN_OK) {
        syn__bpe_pattern_free(p);
        return status;
    }
    /* Without executable memory (or on other processors) matching is interpreted: slower, the same
       words. */
    p->has_jit = pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == 0;
    *out = p;
    return SYN_OK;
}

syn_status syn__bpe_pattern_add_words(syn__bpe_pattern *pattern, syn_error *err) {
    return pattern->word ? SYN_OK : compile(pattern, word_text, &pattern->word, err);
}

bool syn__bpe_is_word(const void *user, const char *text, size_t bytes, size_t pos) {
    const syn__bpe_split *split = user;
    return pcre2_match(split->pattern->word, (PCRE2_SPTR)text, bytes, pos, PCRE2_NO_UTF_CHECK,
                       split->match, NULL) > 0;
}

void syn__bpe_pattern_free(syn__bpe_pattern *pattern) {
    if (pattern == NULL) return;
    pcre2_code_free(pattern->code);
    pcre2_code_free(pattern->word);
    pcre2_general_context_free(pattern->general);
    syn_free(pattern);
}

void syn__bpe_pattern_unicode(char out[64]) {
    out[0] = '\0';
    (void)pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, out);
}

syn_status syn__bpe_split_begin(syn__bpe_split *split, const syn__bpe_pattern *pattern,
                                syn_error *err) {
    *split = (syn__bpe_split){.pattern = pattern};
    split->match = pcre2_match_data_create(1, pattern->general);
    if (split->match == NULL) return SYN_FAIL_NOMEM(err, 256, "matching words");
    return SYN_OK;
}

void syn__bpe_split_free(syn__bpe_split *split) {
    pcre2_match_data_free(split->match);
    split->match = NULL;
}

void syn__bpe_split_set(syn__bpe_split *split, const char *text, size_t bytes) {
    split->text = text;
    split->bytes = bytes;
    split->pos = 0;
}

syn_status syn__bpe_split_next(syn__bpe_split *split, size_t *begin, size_t *bytes,
                               syn_error *err) {
    *begin = split->pos;
    *bytes = 0;
    if (split->pos == split->bytes) return SYN_OK;
    const PCRE2_SPTR text = (PCRE2_SPTR)split->text;
    const pcre2_code *code = split->pattern->code;
    const int rc = split->pattern->has_jit ? pcre2_jit_match(code, text, split->bytes, split->pos,
                                                             0, split->match, NULL)
                                           : pcre2_match(code, text, split->bytes, split->pos,
                                                         PCRE2_NO_UTF_CHECK, split->match, NULL);
    if (rc < 1) return pcre2_failed(rc, "cutting a text into words", err);
    split->pos = pcre2_get_ovector_pointer(split->match)[1];
    *bytes = split->pos - *begin;
    return SYN_OK;
}

#else /* no PCRE2 */

syn_status syn__bpe_pattern_new(syn__bpe_pattern **out, syn_error *err) {
    *out = NULL;
    return SYN_FAIL(
        err, SYN_E_UNSUPPORTED,
        "this build has no GPT-2 tokenizer because PCRE2 was missing: install the package "
        "libpcre2-dev and build again, or use the byte tokenizer");
}

void syn__bpe_pattern_free(syn__bpe_pattern *pattern) {
    (void)pattern;
}

syn_status syn__bpe_pattern_add_words(syn__bpe_pattern *pattern, syn_error *err) {
    (void)pattern;
    syn__bpe_pattern *none;
    return syn__bpe_pattern_new(&none, err);
}

bool syn__bpe_is_word(const void *user, const char *text, size_t bytes, size_t pos) {
    (void)user, (void)text, (void)bytes, (void)pos;
    return false;
}

void syn__bpe_pattern_unicode(char out[64]) {
    out[0] = '\0';
}

syn_status syn__bpe_split_begin(syn__bpe_split *split, const syn__bpe_pattern *pattern,
                                syn_error *err) {
    *split = (syn__bpe_split){.pattern = pattern};
    syn__bpe_pattern *none;
    return syn__bpe_pattern_new(&none, err);
}

void syn__bpe_split_free(syn__bpe_split *split) {
    (void)split;
}

void syn__bpe_split_set(syn__bpe_split *split, const char *text, size_t bytes) {
    split->text = text;
    split->bytes = bytes;
    split->pos = 0;
}

syn_status syn__bpe_split_next(syn__bpe_split *split, size_t *begin, size_t *bytes,
                               syn_error *err) {
    *begin = split->pos;
    *bytes = 0;
    syn__bpe_pattern *none;
    return syn__bpe_pattern_new(&none, err);
}
#endif
