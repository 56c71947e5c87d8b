/* Character properties from utf8proc, corrected to match HuggingFace's tokenizers library (0.23).
   The library's categories are from Unicode 8, its combining classes and decompositions from
   Unicode 9, and its lower case from Unicode 17. The tables below are correct for utf8proc versions
   with Unicode 14 (utf8proc 2.7) to 17 (utf8proc 2.11). tests/reference/make_wordpiece_tables.py
   generates them. */
#include "models/tokenizer/tokenizer_unicode_private.h"

#include "syntorch/base/memory.h"

#ifdef SYN_HAVE_UTF8PROC
#include <utf8proc.h>

typedef struct range {
    uint32_t first, last;
} range;

/* Newer marks, punctuation and format characters, which HuggingFace treats as letters. */
static const range plain[] = {
    {0x05c8, 0x05c9},   {0x061d, 0x061d},   {0x07fd, 0x07fd},   {0x0890, 0x08e2},
    {0x09fd, 0x09fe},   {0x0a76, 0x0a76},   {0x0afa, 0x0aff},   {0x0b53, 0x0b55},
    {0x0c04, 0x0c3c},   {0x0c77, 0x0c77},   {0x0c84, 0x0c84},   {0x0d00, 0x0d00},
    {0x0d3b, 0x0d3c},   {0x0d81, 0x0d81},   {0x0eba, 0x0eba},   {0x0ece, 0x0ece},
    {0x180f, 0x1886},   {0x1abf, 0x1af0},   {0x1b4e, 0x1b4f},   {0x1b7d, 0x1b7f},
    {0x1df6, 0x1dfb},   {0x2e43, 0x2e63},   {0xa82c, 0xa82c},   {0xa8c5, 0xa8c5},
    {0xa8ff, 0xa8ff},   {0xa9bd, 0xa9bd},   {0x10d24, 0x10f89}, {0x11070, 0x11074},
    {0x110c2, 0x110cd}, {0x111cf, 0x111cf}, {0x1123e, 0x11241}, {0x1133b, 0x1133b},
    {0x113bb, 0x1145e}, {0x11660, 0x1166c}, {0x116b9, 0x116b9}, {0x1182f, 0x11fff},
    {0x12ff1, 0x1612f}, {0x16d6d, 0x16f4f}, {0x16fe2, 0x16fe4}, {0x1cf00, 0x1d128},
    {0x1d25b, 0x1d25c}, {0x1e000, 0x1e6f5}, {0x1e944, 0x1e95f},
};
/* Characters that have no decomposition and combining class 0 in HuggingFace. */
static const range starters[] = {
    {0x05c8, 0x05c9},   {0x07fd, 0x07fd},   {0x0897, 0x08d3},   {0x09fe, 0x09fe},
    {0x0c3c, 0x0c3c},   {0x0d3b, 0x0d3c},   {0x0eba, 0x0eba},   {0x1715, 0x1715},
    {0x1abf, 0x1af0},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0x105c9, 0x105e4},
    {0x10d24, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x11383, 0x113d0},
    {0x1145e, 0x1145e}, {0x11839, 0x11a99}, {0x11d42, 0x1612f}, {0x16d68, 0x16ff1},
    {0x1d127, 0x1d128}, {0x1d250, 0x1d281}, {0x1e08f, 0x1e6f5},
};
/* Characters that are not marks for HuggingFace's normalizer StripAccents. */
static const range no_marks[] = {
    {0x05c8, 0x05c9},   {0x07fd, 0x07fd},   {0x0897, 0x08d3},   {0x09fe, 0x09fe},
    {0x0afa, 0x0aff},   {0x0b53, 0x0b55},   {0x0c04, 0x0c3c},   {0x0cf3, 0x0d00},
    {0x0d3b, 0x0d3c},   {0x0d81, 0x0d81},   {0x0eba, 0x0eba},   {0x0ece, 0x0ece},
    {0x1715, 0x1715},   {0x180f, 0x180f},   {0x1abf, 0x1af0},   {0x1cf7, 0x1cf7},
    {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0xa8ff, 0xa8ff},   {0x10d24, 0x10f85},
    {0x11070, 0x11074}, {0x110c2, 0x110c2}, {0x11145, 0x11146}, {0x111c9, 0x111c9},
    {0x111ce, 0x111cf}, {0x11241, 0x11241}, {0x1133b, 0x1133b}, {0x113b8, 0x113e2},
    {0x1145e, 0x1145e}, {0x1182c, 0x11b67}, {0x11d31, 0x1612f}, {0x16f4f, 0x16f4f},
    {0x16f7f, 0x16f87}, {0x16fe4, 0x16ff1}, {0x1cf00, 0x1d128}, {0x1d250, 0x1d281},
    {0x1e08f, 0x1e6f5},
};
/* Characters that have no compatibility decomposition in HuggingFace. */
static const range no_compat[] = {
    {0x0558, 0x0558},   {0x058b, 0x058c},   {0x209d, 0x209f},   {0x32ff, 0x32ff},
    {0xa7f1, 0xa7f4},   {0xab69, 0xab69},   {0x105c9, 0x107bf}, {0x11383, 0x113c8},
    {0x11938, 0x1ccf9}, {0x1d6a6, 0x1d6a6}, {0x1df95, 0x1e06d}, {0x1f16c, 0x1f16c},
    {0x1fbf0, 0x1fbf9},
};
/* Capital letters added in Unicode 16 and 17. */
static const struct {
    range from;
    uint32_t to;
} lower[] = {
    {{0x1c89, 0x1c89}, 0x1c8a},    {{0xa7cb, 0xa7cb}, 0x0264}, {{0xa7cc, 0xa7cc}, 0xa7cd},
    {{0xa7ce, 0xa7ce}, 0xa7cf},    {{0xa7d2, 0xa7d2}, 0xa7d3}, {{0xa7d4, 0xa7d4}, 0xa7d5},
    {{0xa7da, 0xa7da}, 0xa7db},    {{0xa7dc, 0xa7dc}, 0x019b}, {{0x10d50, 0x10d65}, 0x10d70},
    {{0x16ea0, 0x16eb8}, 0x16ebb},
};
/* Blocks of Chinese characters, as in google-research/bert, except U+2B820..2B91F, which
   HuggingFace omits by mistake. */
static const range ideographs[] = {
    {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
    {0x2a700, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f},
};

/* Whether the sorted ranges contain a code point. */
static bool within(const range *ranges, size_t elems, uint32_t c) {
    size_t low = 0;
    while (elems > 0) {
        const size_t half = elems / 2;
        if (c > ranges[low + half].last) {
            low += half + 1;
            elems -= half + 1;
        } else if (c >= ranges[low + half].first) {
            return true;
        } else {
            elems = half;
        }
    }
    return false;
}
#define WITHIN(ranges, c) within((ranges), sizeof(ranges) / sizeof *(ranges), (c))

syn_status syn__char_ready(syn_error *err) {
    (void)err;
    return SYN_OK;
}

const char *syn__char_unicode(void) {
    return utf8proc_unicode_version();
}

static syn__char_kind ascii_kind(uint32_t c) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') return SYN__CHAR_SPACE;
    if (c < ' ' || c == 0x7f) return SYN__CHAR_DROPPED;
    const bool word = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    return word ? SYN__CHAR_LETTER : SYN__CHAR_PUNCTUATION;
}

syn__char_kind syn__char_kind_of(uint32_t c) {
    if (c < 0x80) return ascii_kind(c);
    if (WITHIN(ideographs, c)) return SYN__CHAR_IDEOGRAPH;
    if (c == 0x166d || c == 0x111c9) return SYN__CHAR_PUNCTUATION; /* in Unicode 8 */
    if (c == 0xfffd) return SYN__CHAR_DROPPED;
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    syn__char_kind kind = SYN__CHAR_LETTER; /* also of unassigned code points */
    if (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO)
        kind = SYN__CHAR_PUNCTUATION;
    else if (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP)
        return SYN__CHAR_SPACE;
    else if (category >= UTF8PROC_CATEGORY_CC) kind = SYN__CHAR_DROPPED;
    return kind != SYN__CHAR_LETTER && WITHIN(plain, c) ? SYN__CHAR_LETTER : kind;
}

bool syn__char_is_mark(uint32_t c) {
    if (c < 0x300) return false;
    if (c == 0x1734 || c == 0x1171e) return true; /* in Unicode 8 */
    return utf8proc_category((utf8proc_int32_t)c) == UTF8PROC_CATEGORY_MN && c != 0x111c9 &&
           !WITHIN(plain, c);
}

unsigned syn__char_combining(uint32_t c) {
    if (c < 0x300) return 0;
    const utf8proc_property_t *property = utf8proc_get_property((utf8proc_int32_t)c);
    return property->combining_class == 0 || WITHIN(starters, c)
               ? 0
               : (unsigned)property->combining_class;
}

size_t syn__char_decompose(uint32_t c, uint32_t out[4]) {
    utf8proc_int32_t buffer[4];
    int unused = 0;
    out[0] = c;
    if (c < 0xc0) return 1;
    const utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)c, buffer, 4, UTF8PROC_DECOMPOSE, &unused);
    if (n < 1 || n > 4 || (n == 1 && buffer[0] == (utf8proc_int32_t)c) || WITHIN(starters, c))
        return 1;
    for (utf8proc_ssize_t i = 0; i < n; i++) out[i] = (uint32_t)buffer[i];
    return (size_t)n;
}

bool syn__char_is_any_mark(uint32_t c) {
    if (c < 0x300) return false;
    if (c == 0x1cf2 || c == 0x1cf3) return true; /* in Unicode 9 */
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME &&
           !WITHIN(no_marks, c);
}

size_t syn__char_decompose_compat(uint32_t c, uint32_t out[SYN__CHAR_MAX]) {
    utf8proc_int32_t buffer[SYN__CHAR_MAX];
    int unused = 0;
    out[0] = c;
    if (c < 0xa0) return 1;
    const utf8proc_ssize_t n = utf8proc_decompose_char(
        (utf8proc_int32_t)c, buffer, SYN__CHAR_MAX, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, &unused);
    if (n < 1 || n > SYN__CHAR_MAX || WITHIN(no_compat, c)) return 1;
    for (utf8proc_ssize_t i = 0; i < n; i++) out[i] = (uint32_t)buffer[i];
    return (size_t)n;
}

size_t syn__char_lower(uint32_t c, uint32_t out[2]) {
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    if (c == 0x130) { /* SpecialCasing.txt */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    for (size_t i = 0; c >= lower[0].from.first && i < sizeof lower / sizeof *lower; i++) {
        const range from = lower[i].from;
        if (c >= from.first && c <= from.last) out[0] = lower[i].to + (c - from.first);
    }
    return 1;
}

/* ---- composition ---- */

#define HANGUL_FIRST  0xac00u
#define HANGUL_COUNT  11172u
#define LEAD_FIRST    0x1100u
#define VOWEL_FIRST   0x1161u
#define TAIL_FIRST    0x11a7u
#define LAST_COMPOSED 0x2fa1du

typedef struct composed {
    uint32_t first, second, whole; /* whole 0: free slot */
} composed;

struct syn__composer {
    composed *slots; /* hash table, at most half full */
    size_t mask;
};

static composed *find_composed(const syn__composer *composer, uint32_t a, uint32_t b) {
    const uint64_t key = (uint64_t)a << 32 | b;
    size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & composer->mask;
    while (composer->slots[i].whole != 0 &&
           (composer->slots[i].first != a || composer->slots[i].second != b))
        i = (i + 1) & composer->mask;
    return &composer->slots[i];
}

/* Composes the parts by Unicode's rules. Returns 0 if the result is not a single character. */
static uint32_t composed_of(const uint32_t *parts, size_t n) {
    utf8proc_int32_t buffer[4];
    for (size_t i = 0; i < n; i++) buffer[i] = (utf8proc_int32_t)parts[i];
    return utf8proc_normalize_utf32(buffer, (utf8proc_ssize_t)n,
                                    UTF8PROC_COMPOSE | UTF8PROC_STABLE) == 1
               ? (uint32_t)buffer[0]
               : 0;
}

/* Finds the two code points that compose to c. The first may be a composed character, too. Returns
   false if c is excluded from composition. */
static bool pair_of(uint32_t c, uint32_t pair[2]) {
    uint32_t parts[4];
    if (utf8proc_get_property((utf8proc_int32_t)c)->decomp_type != 0) return false;
    const size_t n = syn__char_decompose(c, parts);
    if (n < 2 || composed_of(parts, n) != c) return false;
    pair[0] = composed_of(parts, n - 1);
    pair[1] = parts[n - 1];
    return pair[0] != 0;
}

syn_status syn__composer_new(syn__composer **out, syn_error *err) {
    const size_t slots = 4096;
    syn__composer *composer = *out = syn_calloc(1, sizeof *composer);
    if (composer) composer->slots = syn_calloc(slots, sizeof *composer->slots);
    if (!composer || !composer->slots) {
        syn_free(composer);
        *out = NULL;
        return SYN_FAIL_NOMEM(err, slots * sizeof(composed), "composed characters");
    }
    composer->mask = slots - 1;
    for (uint32_t c = 0xc0, pair[2]; c <= LAST_COMPOSED; c++) {
        if (c - HANGUL_FIRST < HANGUL_COUNT || !pair_of(c, pair)) continue;
        *find_composed(composer, pair[0], pair[1]) = (composed){pair[0], pair[1], c};
    }
    return SYN_OK;
}

void syn__composer_free(syn__composer *composer) {
    if (composer == NULL) return;
    syn_free(composer->slots);
    syn_free(composer);
}

uint32_t syn__composer_find(const syn__composer *composer, uint32_t a, uint32_t b) {
    if (a - LEAD_FIRST < 19 && b - VOWEL_FIRST < 21)
        return HANGUL_FIRST + ((a - LEAD_FIRST) * 21 + (b - VOWEL_FIRST)) * 28;
    if (a - HANGUL_FIRST < HANGUL_COUNT && (a - HANGUL_FIRST) % 28 == 0 && b - TAIL_FIRST - 1 < 27)
        return a + (b - TAIL_FIRST);
    return find_composed(composer, a, b)->whole;
}

#else /* without utf8proc */

syn_status syn__char_ready(syn_error *err) {
    return SYN_FAIL(
        err, SYN_E_UNSUPPORTED,
        "this build has no BERT tokenizer because utf8proc was missing: install the package "
        "libutf8proc-dev and build again, or use the byte tokenizer");
}

const char *syn__char_unicode(void) {
    return "";
}

syn__char_kind syn__char_kind_of(uint32_t c) {
    (void)c;
    return SYN__CHAR_LETTER;
}

bool syn__char_is_mark(uint32_t c) {
    (void)c;
    return false;
}

bool syn__char_is_any_mark(uint32_t c) {
    (void)c;
    return false;
}

unsigned syn__char_combining(uint32_t c) {
    (void)c;
    return 0;
}

size_t syn__char_decompose_compat(uint32_t c, uint32_t out[SYN__CHAR_MAX]) {
    out[0] = c;
    return 1;
}

syn_status syn__composer_new(syn__composer **out, syn_error *err) {
    *out = NULL;
    return syn__char_ready(err);
}

void syn__composer_free(syn__composer *composer) {
    (void)composer;
}

uint32_t syn__composer_find(const syn__composer *composer, uint32_t a, uint32_t b) {
    (void)composer, (void)a, (void)b;
    return 0;
}

size_t syn__char_decompose(uint32_t c, uint32_t out[4]) {
    out[0] = c;
    return 1;
}

size_t syn__char_lower(uint32_t c, uint32_t out[2]) {
    out[0] = c;
    return 1;
}
#endif
