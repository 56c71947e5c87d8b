/* Tests the values of the tolerant reader: numbers are compared with the C library's results, and
   strings with those of the strict reader. */
#include <errno.h>
#include <inttypes.h>

#include "export/text/loose_json.h"
#include "syntorch/base/json.h"
#include "tests/support/random.h"
#include "tests/support/test.h"

static uint64_t seed = 1;

static unsigned pick(unsigned n) {
    return random_u32(&seed) % n;
}

/* A random number like those in traces: some digits, some decimal places, and sometimes an
   exponent. */
static size_t random_number(char *out) {
    size_t n = 0;
    const unsigned whole = 1 + pick(pick(4) == 0 ? 24 : 16);
    if (pick(4) == 0) out[n++] = '-';
    for (unsigned i = 0; i < whole; i++) out[n++] = (char)('0' + (i == 0 ? 1 + pick(9) : pick(10)));
    if (pick(6) == 0) n -= whole - 1, out[n - 1] = '0';
    if (pick(3) != 0) {
        const unsigned places = 1 + pick(pick(4) == 0 ? 24 : 6);
        const char fill = pick(8) == 0 ? '0' : '\0';
        out[n++] = '.';
        for (unsigned i = 0; i < places; i++) out[n++] = fill ? fill : (char)('0' + pick(10));
    }
    if (pick(8) == 0)
        n += (size_t)sprintf(out + n, "%c%s%u", pick(2) ? 'e' : 'E', pick(2) ? "-" : "", pick(40));
    out[n] = '\0';
    return n;
}

/* The text in a buffer without a NUL after it, because slices have none. */
static syn__str slice(const char *text, size_t bytes) {
    static char buf[200];
    memcpy(buf, text, bytes);
    memset(buf + bytes, '7', 30);
    return (syn__str){buf, bytes};
}

static void doubles(void) {
    for (int i = 0; i < 200000; i++) {
        char text[160];
        const size_t n = random_number(text);
        double got = 0;
        bool integer = false;
        CHECK_MSG(syn__loose_double(slice(text, n), &got, &integer), "%s", text);
        const double want = strtod(text, NULL);
        CHECK_MSG(memcmp(&got, &want, sizeof got) == 0, "%s: %.17g, want %.17g", text, got, want);
        CHECK_MSG(integer == (strpbrk(text, ".eE") == NULL), "%s", text);
    }
    static const char *const hard[] = {"9007199254740993",
                                       "9007199254740992.5",
                                       "9007199254740993.5",
                                       "0.1",
                                       "1e23",
                                       "8.5e-7",
                                       "1844674407370955161.6",
                                       "9999999999999999999",
                                       "18446744073709551615",
                                       "0.000000000000000001",
                                       "-0.0",
                                       "-0",
                                       "1700000000123456.789",
                                       "4503599627370496.500000000000001",
                                       "1e400",
                                       "1e-400",
                                       "2.2250738585072011e-308"};
    for (size_t i = 0; i < sizeof hard / sizeof hard[0]; i++) {
        double got = 0;
        bool integer;
        const double want = strtod(hard[i], NULL);
        CHECK_MSG(syn__loose_double(slice(hard[i], strlen(hard[i])), &got, &integer), "%s",
                  hard[i]);
        CHECK_MSG(memcmp(&got, &want, sizeof got) == 0, "%s: %.17g", hard[i], got);
    }
}

/* Integers exactly halfway between two doubles near 2^53 .. 2^59, and numbers slightly above and
   below them. */
static void halfway(void) {
    for (int i = 0; i < 20000; i++) {
        const unsigned places = 1 + pick(3);
        uint64_t unit = 1;
        for (unsigned k = 0; k < places; k++) unit *= 10;
        /* Doubles of this size are 2^shift apart. */
        const unsigned shift = 1 + pick(7);
        const uint64_t even = ((UINT64_C(1) << 52) + pick(1u << 30)) << shift;
        const uint64_t half = even + (UINT64_C(1) << (shift - 1));
        if (half > UINT64_MAX / 2) continue;
        const int64_t off = (int64_t)pick(3) - 1;
        char text[64];
        const int n = snprintf(text, sizeof text, "%" PRIu64 ".%0*d", off < 0 ? half - 1 : half,
                               (int)places, off < 0 ? (int)unit - 1 : (int)off);
        double got = 0;
        bool integer;
        CHECK(syn__loose_double(slice(text, (size_t)n), &got, &integer));
        const double want = strtod(text, NULL);
        CHECK_MSG(memcmp(&got, &want, sizeof got) == 0, "%s: %.17g, want %.17g", text, got, want);
    }
}

static void integers(void) {
    for (int i = 0; i < 100000; i++) {
        char text[160];
        const size_t n = random_number(text);
        const bool whole = strpbrk(text, ".eE") == NULL;
        int64_t s = 0;
        uint64_t u = 0;
        errno = 0;
        const long long want = strtoll(text, NULL, 10);
        const bool fits = whole && errno == 0;
        CHECK_MSG(syn__loose_i64(slice(text, n), &s) == fits, "%s", text);
        if (fits) CHECK_MSG(s == want, "%s: %" PRId64, text, s);
        errno = 0;
        const unsigned long long more = strtoull(text, NULL, 10);
        const bool ufits = whole && errno == 0 && (*text != '-' || fits);
        CHECK_MSG(syn__loose_u64(slice(text, n), &u) == ufits, "%s", text);
        if (ufits) CHECK_MSG(u == more, "%s: %" PRIu64, text, u);
    }
    static const char *const not_one[] = {"", "-", "+1", "1x", " 1", "0x1", "1.", "--1", "nan"};
    for (size_t i = 0; i < sizeof not_one / sizeof not_one[0]; i++) {
        int64_t s = 0;
        uint64_t u = 0;
        const syn__str text = slice(not_one[i], strlen(not_one[i]));
        CHECK_MSG(!syn__loose_i64(text, &s) && !syn__loose_u64(text, &u), "%s", not_one[i]);
    }
    int64_t s = 0;
    uint64_t u = 0;
    CHECK(syn__loose_i64(syn__str_of("-9223372036854775808"), &s) && s == INT64_MIN);
    CHECK(!syn__loose_i64(syn__str_of("9223372036854775808"), &s));
    CHECK(syn__loose_u64(syn__str_of("18446744073709551615"), &u) && u == UINT64_MAX);
    CHECK(!syn__loose_u64(syn__str_of("18446744073709551616"), &u));
    CHECK(!syn__loose_u64(syn__str_of("-9223372036854775809"), &u));
}

/* Nanoseconds are computed from the digits, not from the rounded double. */
static void micros(void) {
    for (int i = 0; i < 100000; i++) {
        char text[80];
        const uint64_t whole = pick(2) ? pick(1000) : (uint64_t)pick(1u << 30) << pick(20);
        const unsigned places = pick(7), fraction = pick(1000000);
        int n = snprintf(text, sizeof text, "%s%" PRIu64, pick(5) ? "" : "-", whole);
        if (places > 0) n += snprintf(text + n, sizeof text - (size_t)n, ".%06u", fraction);
        if (places > 0) n -= 6 - (int)places;
        text[n] = '\0';
        int64_t want = (int64_t)whole * 1000 + (places > 0 ? fraction / 1000 : 0);
        if (places == 1) want = (int64_t)whole * 1000 + fraction / 100000 * 100;
        if (places == 2) want = (int64_t)whole * 1000 + fraction / 10000 * 10;
        if (*text == '-') want = -want;
        double us = 0;
        int64_t ns = 0;
        bool integer = false;
        CHECK_MSG(syn__loose_micros(slice(text, (size_t)n), &us, &ns, &integer), "%s", text);
        CHECK_MSG(ns == want, "%s: %" PRId64 ", want %" PRId64, text, ns, want);
        CHECK_MSG(us == strtod(text, NULL) && integer == (places == 0), "%s: %.17g", text, us);
    }
    double us;
    int64_t ns;
    bool integer;
    CHECK(!syn__loose_micros(syn__str_of("9223372036854776"), &us, &ns, &integer));
    CHECK(syn__loose_micros(syn__str_of("9223372036854775.807"), &us, &ns, &integer));
    CHECK(ns == INT64_MAX);
    CHECK(!syn__loose_micros(syn__str_of("9223372036854775.808"), &us, &ns, &integer));
    CHECK(!syn__loose_micros(syn__str_of("1e300"), &us, &ns, &integer));
    CHECK(syn__loose_micros(syn__str_of("1.5e3"), &us, &ns, &integer) && ns == 1500000);
    CHECK(!syn__loose_micros(syn__str_of("NaN"), &us, &ns, &integer));
    CHECK(!syn__loose_micros(syn__str_of(""), &us, &ns, &integer));
}

static void strings(void) {
    static const char *const parts[] = {"a",
                                        "\xC3\xA9",
                                        "\xF0\x9F\x98\x80",
                                        "\\n",
                                        "\\\"",
                                        "\\\\",
                                        "\\/",
                                        "\\b",
                                        "\\f",
                                        "\\r",
                                        "\\u0041",
                                        "\\u00e9",
                                        "\\u20AC",
                                        "\\ud83d\\ude00",
                                        "\\t",
                                        "0123456789abcdef",
                                        "\\u0000"};
    for (int i = 0; i < 20000; i++) {
        char text[400] = "\"", got[400];
        for (unsigned k = pick(12); k > 0; k--)
            strcat(text, parts[pick(sizeof parts / sizeof parts[0])]);
        strcat(text, "\"");
        syn_error err = {0};
        syn_json json;
        syn_json_init(&json, "test", text, strlen(text), &err);
        CHECK(syn_json_next(&json) == SYN_JSON_STRING);
        const size_t n = syn__loose_decode((syn__str){text + 1, strlen(text) - 2}, got);
        CHECK_MSG(n == json.text_bytes && memcmp(got, json.text, n) == 0, "%s", text);
        syn_json_free(&json);
    }
}

static void damaged_strings(void) {
    static const char *const texts[][2] = {
        {"a\\", "a\\"},
        {"\\u12", "\\u12"},
        {"\\u", "\\u"},
        {"\\u00g1", "\\u00g1"},
        {"\\uD83D\\uDE0", "\xEF\xBF\xBD\\uDE0"},
        {"\\x41", "\\x41"},
        {"C:\\dir\\x.py", "C:\\dir\\x.py"},
        {"\\'", "'"},
        {"\\ud83d", "\xEF\xBF\xBD"},
        {"\\ude00\\ud83d", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\\ud83d\\u0041", "\xEF\xBF\xBD"
                           "A"},
        {"a\xFF"
         "b",
         "a?b"},
        {"\xC3", "?"},
        {"\xED\xA0\x80", "???"},
        {"a\nb", "a\nb"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char out[100];
        const size_t bytes = strlen(texts[i][0]);
        char *exact = malloc(bytes);
        CHECK(exact != NULL);
        memcpy(exact, texts[i][0], bytes);
        const size_t n = syn__loose_decode((syn__str){exact, bytes}, out);
        out[n] = '\0';
        CHECK_STR(out, texts[i][1]);
        CHECK(n <= bytes);
        free(exact);
    }
}

static const test_case cases[] = {
    {"doubles", doubles}, {"halfway", halfway}, {"integers", integers},
    {"micros", micros},   {"strings", strings}, {"damaged_strings", damaged_strings},
};
TEST_MAIN(cases)
