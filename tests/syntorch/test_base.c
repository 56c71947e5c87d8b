/* Tests of syntorch/base: status and errors, memory, types, number text and UTF-8. */
#include "tests/support/random.h"
#include "tests/support/test.h"

#include <float.h>
#include <locale.h>
#include <stdint.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/number.h"
#include "syntorch/base/types.h"
#include "syntorch/base/utf8.h"

/* ---- Status ---- */

static syn_status fails(syn_error *err) {
    return SYN_FAIL(err, SYN_E_SHAPE, "want %d", 7);
}

static syn_status forwards(syn_error *err) {
    SYN_TRY(fails(err));
    return SYN_OK;
}

static void first_error_wins(void) {
    syn_error err = {0};
    CHECK_INT(forwards(&err), SYN_E_SHAPE);
    CHECK_INT(err.code, SYN_E_SHAPE);
    CHECK_STR(err.text, "want 7");
    CHECK(err.file != NULL && strstr(err.file, "test_base.c") != NULL && err.line > 0);
    CHECK_INT(SYN_FAIL(&err, SYN_E_IO, "later"), SYN_E_IO);
    CHECK_STR(err.text, "want 7");
    CHECK_INT(err.code, SYN_E_SHAPE);
    CHECK_INT(SYN_FAIL(NULL, SYN_E_IO, "nobody listens"), SYN_E_IO);
}

static void status_names(void) {
    CHECK_STR(syn_status_name(SYN_OK), "ok");
    CHECK_STR(syn_status_name(SYN_E_NOMEM), "out of memory");
    CHECK_STR(syn_status_name(SYN_E_UNSUPPORTED), "not supported");
    CHECK(syn_status_name((syn_status)1000) != NULL);
    CHECK(syn_status_name((syn_status)-1) != NULL);
}

/* A truncated message ends in "..." and never splits a UTF-8 character. */
static void long_errors_are_cut(void) {
    char text[1200];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'a', shift);
        for (size_t i = shift; i + 3 < sizeof text; i += 3) memcpy(text + i, "\xE2\x82\xAC", 4);
        syn_error err = {0};
        (void)SYN_FAIL(&err, SYN_E_INVALID, "%s", text);
        const size_t n = strlen(err.text);
        CHECK(n < sizeof err.text && n >= sizeof err.text - 5);
        CHECK_STR(err.text + n - 3, "...");
        CHECK(syn_utf8_valid(err.text, n));
    }
    syn_error err = {0};
    memset(text, 'b', 511);
    text[511] = '\0';
    (void)SYN_FAIL(&err, SYN_E_INVALID, "%s", text);
    CHECK_STR(err.text, text); /* exactly as long as allowed */
}

/* ---- Memory ---- */

static void sizes_do_not_overflow(void) {
    size_t s = 5;
    CHECK(syn_mul_size(SIZE_MAX / 2, 2, &s) && s == SIZE_MAX - 1);
    CHECK(!syn_mul_size(SIZE_MAX / 2 + 1, 2, &s) && s == SIZE_MAX - 1);
    CHECK(syn_mul_size(SIZE_MAX, 0, &s) && s == 0);
    CHECK(syn_add_size(SIZE_MAX - 1, 1, &s) && s == SIZE_MAX);
    CHECK(!syn_add_size(SIZE_MAX, 1, &s) && s == SIZE_MAX);
    int64_t i = 5;
    CHECK(syn_mul_i64(INT64_MAX, 1, &i) && i == INT64_MAX);
    CHECK(!syn_mul_i64(INT64_MAX, 2, &i) && i == INT64_MAX);
    CHECK(!syn_mul_i64((int64_t)1 << 32, (int64_t)1 << 31, &i));
    CHECK(syn_mul_i64(0, INT64_MAX, &i) && i == 0);
    CHECK(!syn_mul_i64(-1, 2, &i) && !syn_mul_i64(2, -1, &i) && i == 0);
}

static void empty_allocations_are_unique(void) {
    void *p[4] = {syn_malloc(0), syn_calloc(0, 8), syn_calloc(8, 0), syn_aligned_malloc(0)};
    for (size_t i = 0; i < 4; i++) {
        CHECK(p[i] != NULL);
        for (size_t k = 0; k < i; k++) CHECK(p[i] != p[k]);
    }
    p[0] = syn_realloc(p[0], 0);
    CHECK(p[0] != NULL);
    for (size_t i = 0; i < 3; i++) syn_free(p[i]);
    syn_aligned_free(p[3]);
    syn_free(NULL);
    syn_aligned_free(NULL);
}

static void absurd_sizes_fail(void) {
    CHECK(syn_malloc(SIZE_MAX) == NULL);
    CHECK(syn_calloc(SIZE_MAX / 2, 4) == NULL);
    CHECK(syn_aligned_malloc(SIZE_MAX) == NULL);
    CHECK(syn_aligned_malloc(SIZE_MAX - 64) == NULL);
    CHECK(syn_strndup("", SIZE_MAX) == NULL);
}

static void copies_of_strings(void) {
    char *a = syn_strdup("abc"), *b = syn_strndup("abcdef", 2), *c = syn_strndup(NULL, 0);
    CHECK(a != NULL && b != NULL && c != NULL);
    CHECK_STR(a, "abc");
    CHECK_STR(b, "ab");
    CHECK_STR(c, "");
    syn_free(a);
    syn_free(b);
    syn_free(c);
}

static void aligned_to_a_cache_line(void) {
    for (size_t bytes = 1; bytes < 300; bytes += 37) {
        char *p = (char *)syn_aligned_malloc(bytes);
        CHECK(p != NULL && (uintptr_t)p % 64 == 0);
        memset(p, 1, bytes);
        syn_aligned_free(p);
    }
}

static void injected_failure(void) {
    const uint64_t before = syn_memory_calls();
    syn_memory_fail_after(2);
    void *a = syn_malloc(8), *b = syn_calloc(1, 8);
    void *c = syn_malloc(8), *d = syn_aligned_malloc(8), *e = syn_realloc(a, 100);
    char *f = syn_strdup("x");
    syn_memory_fail_after(SYN_MEMORY_NEVER);
    CHECK(a != NULL && b != NULL && c == NULL && d == NULL && e == NULL && f == NULL);
    CHECK_INT(syn_memory_calls() - before, 6);
    syn_free(a);
    syn_free(b);
    c = syn_malloc(8);
    CHECK(c != NULL);
    syn_free(c);
}

static void growth_keeps_elements(void) {
    uint32_t *array = NULL;
    size_t cap = 0, growths = 0;
    syn_error err = {0};
    for (uint32_t i = 0; i < 100000; i++) {
        const size_t old = cap;
        CHECK_OK(syn_grow(&array, &cap, (size_t)i + 1, sizeof *array, &err), err);
        if (cap != old) growths++;
        CHECK(cap >= 64);
        CHECK_MSG(old < 256 || cap == old || cap <= old + old / 4, "from %zu to %zu", old, cap);
        array[i] = i * 3;
    }
    for (uint32_t i = 0; i < 100000; i++) CHECK_INT(array[i], i * 3);
    /* The expected number is log(100000 / 64) / log(1.25) = 33. */
    CHECK(growths > 10 && growths < 60);
    syn_free(array);
}

static void growth_fails_cleanly(void) {
    uint64_t *array = NULL;
    size_t cap = 0;
    syn_error err = {0};
    CHECK_OK(syn_grow(&array, &cap, 3, sizeof *array, &err), err);
    array[2] = 42;
    uint64_t *const old = array;
    const size_t old_cap = cap;
    CHECK_INT(syn_grow(&array, &cap, SIZE_MAX / 4, sizeof *array, &err), SYN_E_NOMEM);
    CHECK_HAS(err.text, "out of memory");
    CHECK_INT(syn_grow(&array, &cap, SIZE_MAX, 1, NULL), SYN_E_NOMEM);
    syn_memory_fail_after(0);
    CHECK_INT(syn_grow(&array, &cap, old_cap, sizeof *array, NULL), SYN_OK);
    CHECK_INT(syn_grow(&array, &cap, old_cap + 1, sizeof *array, NULL), SYN_E_NOMEM);
    syn_memory_fail_after(SYN_MEMORY_NEVER);
    CHECK(array == old && cap == old_cap && array[2] == 42);
    syn_free(array);
}

/* ---- Types ---- */

static void dtypes(void) {
    static const struct {
        syn_dtype dtype;
        const char *name;
        size_t bytes;
    } want[] = {{SYN_F32, "f32", 4},
                {SYN_F16, "f16", 2},
                {SYN_BF16, "bf16", 2},
                {SYN_I32, "i32", 4},
                {SYN_I64, "i64", 8}};
    CHECK_INT(SYN_DTYPE_COUNT, 5);
    for (size_t i = 0; i < 5; i++) {
        syn_dtype parsed;
        CHECK_STR(syn_dtype_name(want[i].dtype), want[i].name);
        CHECK_INT(syn_dtype_bytes(want[i].dtype), want[i].bytes);
        CHECK(syn_dtype_parse(want[i].name, &parsed) && parsed == want[i].dtype);
    }
    syn_dtype parsed = SYN_I64;
    CHECK(!syn_dtype_parse("f64", &parsed) && !syn_dtype_parse("", &parsed) && parsed == SYN_I64);
    CHECK_STR(syn_dtype_name(SYN_DTYPE_COUNT), "?");
    CHECK_INT(syn_dtype_bytes((syn_dtype)-1), 0);
}

static void other_names(void) {
    CHECK_STR(syn_phase_name(SYN_PHASE_PREFILL), "prefill");
    CHECK_STR(syn_phase_name(SYN_PHASE_OPTIMIZER), "optimizer");
    CHECK_STR(syn_reduce_name(SYN_REDUCE_PROD), "prod");
    CHECK_STR(syn_reduce_name((syn_reduce)-1), "?");
    CHECK_STR(syn_comm_kind_name(SYN_COMM_REDUCE_SCATTER), "reduce_scatter");
}

static void specs(void) {
    char buf[SYN_SPEC_TEXT];
    const syn_spec a = {SYN_F32, 3, {2, 8, 64}}, scalar = {SYN_I64, 0, {0}};
    const syn_spec empty = {SYN_BF16, 2, {0, 1000}};
    CHECK(syn_spec_valid(&a) && syn_spec_valid(&scalar) && syn_spec_valid(&empty));
    CHECK_INT(syn_spec_elems(&a), 1024);
    CHECK_INT(syn_spec_bytes(&a), 4096);
    CHECK_INT(syn_spec_elems(&scalar), 1);
    CHECK_INT(syn_spec_bytes(&scalar), 8);
    CHECK_INT(syn_spec_elems(&empty), 0);
    CHECK_STR(syn_spec_text(&a, buf, sizeof buf), "f32[2,8,64]");
    CHECK_STR(syn_spec_text(&scalar, buf, sizeof buf), "i64[]");
    CHECK_STR(syn_spec_text(&empty, buf, sizeof buf), "bf16[0,1000]");
    CHECK_STR(syn_spec_text(&a, buf, 6), "f32[2");
    CHECK_STR(syn_spec_text(&a, buf, 1), "");
    syn_spec b = a;
    CHECK(syn_spec_equal(&a, &b));
    b.dims[2] = 65;
    CHECK(!syn_spec_equal(&a, &b));
    b = a;
    b.dtype = SYN_I32;
    CHECK(!syn_spec_equal(&a, &b));
}

static void invalid_specs(void) {
    const int64_t big = (int64_t)1 << 31;
    const syn_spec bad[] = {{SYN_DTYPE_COUNT, 1, {1}},
                            {-1, 1, {1}},
                            {SYN_F32, -1, {0}},
                            {SYN_F32, 7, {1, 1, 1, 1, 1, 1}},
                            {SYN_F32, 2, {2, -1}},
                            {SYN_F32, 1, {2, 3}},     /* a nonzero dimension after the last one */
                            {SYN_F32, 2, {big, big}}, /* 2^62 elements of 4 bytes overflow */
                            {SYN_F32, 3, {big, big, big}},
                            {SYN_F32, 3, {0, INT64_MAX, 2}},
                            {SYN_F16, 1, {INT64_MAX / 2 + 1}}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_MSG(!syn_spec_valid(&bad[i]), "%zu", i);
    const syn_spec largest = {SYN_F16, 1, {INT64_MAX / 2}};
    CHECK(syn_spec_valid(&largest));
    CHECK(syn_spec_bytes(&largest) == (uint64_t)INT64_MAX - 1);
    /* The text of a valid spec is never longer than SYN_SPEC_TEXT. */
    char buf[SYN_SPEC_TEXT];
    const int64_t m = INT64_MAX / 2;
    const syn_spec longest = {SYN_BF16, 6, {m, 1, 1, 1, 1, 1}};
    CHECK(syn_spec_valid(&longest));
    CHECK_STR(syn_spec_text(&longest, buf, sizeof buf), "bf16[4611686018427387903,1,1,1,1,1]");
}

/* ---- Numbers and UTF-8 ---- */

static bool text_of(double value, const char *want) {
    char buf[SYN_NUMBER_TEXT];
    const size_t n = syn_number_text(value, buf);
    if (n == strlen(buf) && strcmp(buf, want) == 0) return true;
    fprintf(stderr, "got %s, want %s\n", buf, want);
    return false;
}

static void numbers_as_text(void) {
    CHECK(text_of(0.1, "0.1") && text_of(1e-5, "1e-05") && text_of(3, "3") && text_of(0, "0"));
    CHECK(text_of(-0.0, "-0.0") && text_of(-2.5, "-2.5") && text_of(1234.567, "1234.567"));
    CHECK(text_of(0.5, "0.5") && text_of(0.001, "0.001") && text_of(-100, "-100"));
    CHECK(text_of(0.30000000000000004, "0.30000000000000004"));
    CHECK(text_of(1e22, "1e+22") && text_of(9007199254740993.0, "9007199254740992"));
    CHECK(text_of(5e-324, "5e-324"));
    /* Powers of two for which another text of the same length is closer. Python's repr gives the
       same texts as ours. */
    CHECK(text_of(0x1p-24, "5.960464477539063e-08") && text_of(0x1p-44, "5.684341886080802e-14"));
    CHECK(text_of(-0x1p89, "-6.189700196426902e+26") && text_of(0x1p122, "5.316911983139664e+36"));
    CHECK(text_of(1.7976931348623157e308, "1.7976931348623157e+308"));
    CHECK(text_of((double)NAN, "nan") && text_of(HUGE_VAL, "inf") && text_of(-HUGE_VAL, "-inf"));
}

/* All kinds of doubles, and times with few decimals, are the same after conversion to text and
   back. Both strtod and syn_number_parse read the text. */
static void numbers_round_trip(void) {
    uint64_t state = 1;
    for (int i = 0; i < 200000; i++) {
        const uint64_t bits = random_u64(&state);
        double value, mine;
        memcpy(&value, &bits, sizeof value);
        if (i % 2) value = (double)(bits >> 12) / (i % 4 == 1 ? 1000.0 : 1e6);
        if (!isfinite(value)) continue;
        char buf[SYN_NUMBER_TEXT];
        const size_t n = syn_number_text(value, buf);
        CHECK_MSG(strtod(buf, NULL) == value, "%s is not %.17g", buf, value);
        CHECK_MSG(syn_number_parse(buf, n, &mine) && mine == value, "%s is not %.17g", buf, mine);
        /* If 15 digits are enough, the text is not longer than that of %.15g. */
        char shortest[SYN_NUMBER_TEXT];
        snprintf(shortest, sizeof shortest, "%.15g", value);
        if (strtod(shortest, NULL) == value)
            CHECK_MSG(n <= strlen(shortest), "%s %s", buf, shortest);
    }
}

static void numbers_parse(void) {
    static const char *const good[] = {"0",
                                       "-0",
                                       "1",
                                       "-1.5",
                                       "1e5",
                                       "1E+5",
                                       "1.25e-3",
                                       "123456789012345678901234567890",
                                       "0.1",
                                       "179769313486231570000000000000000000000e270",
                                       "2.2250738585072011e-308",
                                       "4.9e-324",
                                       "2e-324",
                                       "9007199254740993",
                                       "0.000000000000000000000000000000000000012345",
                                       "1e400",
                                       "1e-400",
                                       "9223372036854775808",
                                       "8.41e21",
                                       "1e99999999999999999999"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        double got = -1;
        CHECK_MSG(syn_number_parse(good[i], strlen(good[i]), &got), "%s", good[i]);
        CHECK_MSG(got == strtod(good[i], NULL), "%s gave %.17g", good[i], got);
    }
    static const char *const bad[] = {"",   "-",   "+1",  "01",    "-01",   "1.",
                                      ".5", "1e",  "1e+", "0x10",  "1.5.2", "1 ",
                                      " 1", "nan", "inf", "1e5.5", "--1",   "1-1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double got;
        CHECK_MSG(!syn_number_parse(bad[i], strlen(bad[i]), &got), "%s", bad[i]);
    }
}

/* Numbers with thousands of digits. 1 + 2^-53 lies exactly halfway between two doubles and is
   rounded to even, which is 1. If any later digit is nonzero, even the last one, it is rounded
   up. */
static void long_numbers_round_right(void) {
    static char text[5000];
    const char half[] = "1.00000000000000011102230246251565404236316680908203125";
    double got;
    memset(text, '0', sizeof text);
    memcpy(text, half, sizeof half - 1);
    CHECK(syn_number_parse(text, 4999, &got) && got == 1.0);
    text[4998] = '1';
    CHECK(syn_number_parse(text, 4999, &got) && got == 1.0 + DBL_EPSILON);
    memset(text, '0', sizeof text);
    text[1] = '.';
    text[4990] = '7'; /* the number is now 7e-4989 */
    CHECK(syn_number_parse(text, 4999, &got) && got == 0.0);
    memcpy(text + 4991, "e4990", 5);
    CHECK(syn_number_parse(text, 4996, &got) && got == 70.0);
}

/* A locale with a decimal comma has no effect. */
static void numbers_ignore_the_locale(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "ps_AF"};
    const char *set = NULL;
    for (size_t i = 0; i < 4 && set == NULL; i++) set = setlocale(LC_NUMERIC, names[i]);
    if (set == NULL) SKIP("no locale with a decimal comma is installed");
    double got = 0;
    const bool right = text_of(0.1, "0.1") && text_of(1.0 / 3, "0.3333333333333333") &&
                       syn_number_parse("1234567.8901234567891e-3", 24, &got);
    setlocale(LC_NUMERIC, "C");
    CHECK(right && got == 1234567.8901234567891e-3);
}

static void utf8(void) {
    static const char *const good[] = {"",
                                       "a",
                                       "\x7F",
                                       "\xC2\x80",
                                       "\xDF\xBF",
                                       "\xE0\xA0\x80",
                                       "\xED\x9F\xBF",
                                       "\xEE\x80\x80",
                                       "\xEF\xBF\xBF",
                                       "\xF0\x90\x80\x80",
                                       "\xF4\x8F\xBF\xBF",
                                       "a\xE2\x82\xAC!"};
    static const char *const bad[] = {"\x80",
                                      "\xBF",
                                      "\xC0\x80",
                                      "\xC1\xBF",
                                      "\xE0\x9F\xBF",
                                      "\xED\xA0\x80",
                                      "\xF0\x8F\xBF\xBF",
                                      "\xF4\x90\x80\x80",
                                      "\xF5\x80\x80\x80",
                                      "\xFF",
                                      "\xC2",
                                      "\xE2\x82",
                                      "\xF0\x9F\x98",
                                      "\xE2\x28\xA1",
                                      "a\xC2"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        CHECK_MSG(syn_utf8_valid(good[i], strlen(good[i])), "%zu", i);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_MSG(!syn_utf8_valid(bad[i], strlen(bad[i])), "%zu", i);
    for (unsigned c = 0; c <= 0x10FFFF; c++) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        char out[4];
        const size_t n = syn_utf8_encode(c, out);
        CHECK_MSG(syn_utf8_char_bytes(out, n) == n, "U+%04X", c);
    }
}

static const test_case cases[] = {
    {"first_error_wins", first_error_wins},
    {"status_names", status_names},
    {"long_errors_are_cut", long_errors_are_cut},
    {"sizes_do_not_overflow", sizes_do_not_overflow},
    {"empty_allocations_are_unique", empty_allocations_are_unique},
    {"absurd_sizes_fail", absurd_sizes_fail},
    {"copies_of_strings", copies_of_strings},
    {"aligned_to_a_cache_line", aligned_to_a_cache_line},
    {"injected_failure", injected_failure},
    {"growth_keeps_elements", growth_keeps_elements},
    {"growth_fails_cleanly", growth_fails_cleanly},
    {"dtypes", dtypes},
    {"other_names", other_names},
    {"specs", specs},
    {"invalid_specs", invalid_specs},
    {"numbers_as_text", numbers_as_text},
    {"numbers_round_trip", numbers_round_trip},
    {"numbers_parse", numbers_parse},
    {"long_numbers_round_right", long_numbers_round_right},
    {"numbers_ignore_the_locale", numbers_ignore_the_locale},
    {"utf8", utf8},
};
TEST_MAIN(cases)
