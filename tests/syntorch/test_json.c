/* Tests the JSON reader against RFC 8259: what it must accept and reject, the contents of tokens,
   and error positions. */
#include "tests/support/test.h"

#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"

/* Reads to the end or an error. Returns the last token's type and sets *tokens to the number of
   tokens. */
static syn_json_type read_all(const char *data, size_t bytes, syn_error *err, size_t *tokens) {
    syn_json json;
    syn_json_init(&json, "t.json", data, bytes, err);
    syn_json_type type;
    *tokens = 0;
    while ((type = syn_json_next(&json)) > SYN_JSON_END) ++*tokens;
    /* Further calls must return the same type. */
    if (syn_json_next(&json) != type) type = (syn_json_type)-1;
    syn_json_free(&json);
    return type;
}

/* Reads a heap copy of exactly the text's size, so that AddressSanitizer detects a read past its
   end. */
static syn_json_type read_exact(const char *data, size_t bytes, syn_error *err) {
    size_t tokens;
    char *copy = (char *)malloc(bytes != 0 ? bytes : 1);
    if (copy == NULL) abort();
    if (bytes != 0) memcpy(copy, data, bytes);
    const syn_json_type type = read_all(copy, bytes, err, &tokens);
    free(copy);
    return type;
}

static void accepts(void) {
    static const char *const good[] = {"0",
                                       "-0",
                                       "1",
                                       "-1.5e-3",
                                       "1E+2",
                                       "1e22",
                                       "true",
                                       "false",
                                       "null",
                                       "\"\"",
                                       "[]",
                                       "{}",
                                       " \t\r\n[ ] \n",
                                       "[1]",
                                       "[1,2]",
                                       "[[],[[]]]",
                                       "{\"\":0}",
                                       "{\"a\":{\"b\":[null]}}",
                                       "{\"a\":1,\"a\":2}",
                                       "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
                                       "\"\\u0000\\u00e9\\u20AC\"",
                                       "\"\\uD83D\\uDE00\"",
                                       "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"",
                                       "\"\x7F\"",
                                       "\"\xEF\xBF\xBF\"",
                                       "[1e-400]",
                                       "[123456789012345678901234567890]",
                                       "[0e1,0.0,-0.0]",
                                       "{\"a\" : 1 , \"b\" : [ 2 , 3 ] }",
                                       "\"\\\\\"",
                                       "\"/\""};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        syn_error err = {0};
        CHECK_MSG(read_exact(good[i], strlen(good[i]), &err) == SYN_JSON_END, "%s: %s", good[i],
                  err.text);
        CHECK_INT(err.code, SYN_OK);
    }
}

static void refuses(void) {
    static const char *const bad[] = {"",
                                      " ",
                                      "[",
                                      "]",
                                      "{",
                                      "}",
                                      "[1",
                                      "[1,",
                                      "[1,]",
                                      "[,1]",
                                      "[1 2]",
                                      "[1,,2]",
                                      "{\"a\"",
                                      "{\"a\":",
                                      "{\"a\":1",
                                      "{\"a\":1,",
                                      "{\"a\":1,}",
                                      "{,}",
                                      "{a:1}",
                                      "{'a':1}",
                                      "{1:1}",
                                      "{\"a\" 1}",
                                      "{\"a\",1}",
                                      "{\"a\":1 \"b\":2}",
                                      "[1}",
                                      "{\"a\":1]",
                                      "1 2",
                                      "[] []",
                                      "{}x",
                                      "tru",
                                      "True",
                                      "truex",
                                      "nul",
                                      "falsy",
                                      "NaN",
                                      "Infinity",
                                      "-Infinity",
                                      "undefined",
                                      "+1",
                                      "01",
                                      "-01",
                                      "-",
                                      "1.",
                                      ".5",
                                      "1e",
                                      "1e+",
                                      "0x10",
                                      "1.5.2",
                                      "--1",
                                      "1-1",
                                      "1e1000",
                                      "-1e1000",
                                      "\"",
                                      "\"a",
                                      "\"\\",
                                      "\"\\\"",
                                      "\"\\x\"",
                                      "\"\\u\"",
                                      "\"\\u12\"",
                                      "\"\\u12G4\"",
                                      "\"\\uD83D\"",
                                      "\"\\uDE00\"",
                                      "\"\\uD83Dx\"",
                                      "\"\\uD83D\\n\"",
                                      "\"\\uD83D\\u0041\"",
                                      "\"\\uD83D\\uD83D\"",
                                      "\"\\uD83D\\uDE\"",
                                      "\"a\nb\"",
                                      "\"\t\"",
                                      "\"\x01\"",
                                      "\"\x80\"",
                                      "\"\xC3\"",
                                      "\"\xC0\x80\"",
                                      "\"\xED\xA0\x80\"",
                                      "\"\xF5\x80\x80\x80\"",
                                      "\"\xE2\x82\"",
                                      "\xEF\xBB\xBF[]",
                                      "[1]\x0C",
                                      "\xC2\xA0[]",
                                      "// c\n1",
                                      "/* c */1",
                                      "[1] // c",
                                      "\\u0031",
                                      "\"\\\n\"",
                                      "[\"a\":1]",
                                      "[:]",
                                      ":",
                                      ",",
                                      "\"a\":1",
                                      "{\"a\"::1}",
                                      "{\"a\":}",
                                      "-a",
                                      "-.1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        syn_error err = {0};
        CHECK_MSG(read_exact(bad[i], strlen(bad[i]), &err) == SYN_JSON_ERROR, "%s", bad[i]);
        CHECK_INT(err.code, SYN_E_FORMAT);
        CHECK_MSG(strncmp(err.text, "t.json:", 7) == 0, "%s", err.text);
    }
    syn_error err = {0};
    CHECK_INT(read_exact("1\0", 2, &err), SYN_JSON_ERROR); /* a NUL does not end the text */
    err = (syn_error){0};
    CHECK_INT(read_exact("\"a\0b\"", 5, &err), SYN_JSON_ERROR);
    err = (syn_error){0};
    CHECK_INT(read_exact("\"\\\0\"", 4, &err), SYN_JSON_ERROR);
    err = (syn_error){0};
    CHECK_INT(read_exact(NULL, 0, &err), SYN_JSON_ERROR);
}

/* Every proper prefix of a document that ends in a bracket is rejected. */
static void truncated(void) {
    const char doc[] =
        "{\"a\": [1.5e3, true, null, \"x\\u00e9\\uD83D\\uDE00\xE2\x82\xAC\"], \"b\": {}}";
    for (size_t n = 0; n < sizeof doc - 1; n++) {
        syn_error err = {0};
        CHECK_MSG(read_exact(doc, n, &err) == SYN_JSON_ERROR, "%zu", n);
    }
    syn_error err = {0};
    CHECK_INT(read_exact(doc, sizeof doc - 1, &err), SYN_JSON_END);
}

static void tokens_hold_their_values(void) {
    const char doc[] = " {\"a\\n\" : [ -12, 2.5e1, \"x\\u0000y\", false ], \"\" : null} ";
    syn_error err = {0};
    syn_json j;
    syn_json_init(&j, "t.json", doc, sizeof doc - 1, &err);
    CHECK_INT(syn_json_next(&j), SYN_JSON_OBJECT_BEGIN);
    CHECK_INT(j.depth, 1);
    CHECK_INT(syn_json_next(&j), SYN_JSON_KEY);
    CHECK_STR(j.text, "a\n");
    CHECK_INT(j.text_bytes, 2);
    CHECK_INT(syn_json_next(&j), SYN_JSON_ARRAY_BEGIN);
    CHECK_INT(j.depth, 2);
    CHECK_INT(syn_json_next(&j), SYN_JSON_NUMBER);
    CHECK(j.is_integer && j.integer == -12 && j.number == -12.0);
    CHECK_STR(j.text, "-12");
    CHECK_INT(syn_json_next(&j), SYN_JSON_NUMBER);
    CHECK(!j.is_integer && j.number == 25.0);
    CHECK_STR(j.text, "2.5e1");
    CHECK_INT(syn_json_next(&j), SYN_JSON_STRING);
    CHECK(j.text_bytes == 3 && memcmp(j.text, "x\0y", 4) == 0);
    CHECK_INT(syn_json_next(&j), SYN_JSON_BOOL);
    CHECK(!j.boolean);
    CHECK_INT(syn_json_next(&j), SYN_JSON_ARRAY_END);
    CHECK_INT(j.depth, 1);
    CHECK_INT(syn_json_next(&j), SYN_JSON_KEY);
    CHECK_INT(j.text_bytes, 0);
    CHECK_STR(j.text, "");
    CHECK_INT(syn_json_next(&j), SYN_JSON_NULL);
    CHECK_INT(syn_json_next(&j), SYN_JSON_OBJECT_END);
    CHECK_INT(j.depth, 0);
    CHECK_INT(syn_json_next(&j), SYN_JSON_END);
    CHECK_INT(syn_json_next(&j), SYN_JSON_END);
    syn_json_free(&j);
    CHECK_INT(err.code, SYN_OK);
}

static void escapes(void) {
    const char doc[] =
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\uD83D\\uDE00\\uDBFF\\uDFFF\"";
    syn_json j;
    syn_json_init(&j, "t.json", doc, sizeof doc - 1, NULL);
    CHECK_INT(syn_json_next(&j), SYN_JSON_STRING);
    CHECK_STR(j.text, "\"\\/\b\f\n\r\tA\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF");
    syn_json_free(&j);
}

static void integers(void) {
    static const struct {
        const char *text;
        bool is_integer;
        int64_t integer;
        double number;
    } want[] = {{"0", true, 0, 0},
                {"-0", true, 0, 0},
                {"9223372036854775807", true, INT64_MAX, 9223372036854775807.0},
                {"-9223372036854775808", true, INT64_MIN, -9223372036854775808.0},
                {"9223372036854775808", false, 0, 9223372036854775808.0},
                {"-9223372036854775809", false, 0, -9223372036854775808.0},
                {"18446744073709551616", false, 0, 18446744073709551616.0},
                {"1.0", false, 0, 1},
                {"1e3", false, 0, 1000}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        syn_json j;
        syn_json_init(&j, "t.json", want[i].text, strlen(want[i].text), NULL);
        CHECK_INT(syn_json_next(&j), SYN_JSON_NUMBER);
        CHECK_MSG(j.is_integer == want[i].is_integer, "%s", want[i].text);
        if (j.is_integer) CHECK_INT(j.integer, want[i].integer);
        CHECK(j.number == want[i].number);
        syn_json_free(&j);
    }
}

static void depth_is_limited(void) {
    char doc[2 * SYN_JSON_DEPTH + 3];
    const size_t n = SYN_JSON_DEPTH;
    syn_error err = {0};
    memset(doc, '[', n);
    memset(doc + n, ']', n);
    CHECK_INT(read_exact(doc, 2 * n, &err), SYN_JSON_END);
    memset(doc, '[', n + 1);
    memset(doc + n + 1, ']', n + 1);
    CHECK_INT(read_exact(doc, 2 * n + 2, &err), SYN_JSON_ERROR);
    CHECK_STR(err.text, "t.json:1:129: objects and arrays are nested more than 128 deep");
}

static void errors_point_at_the_place(void) {
    static const struct {
        const char *doc, *text;
    } want[] = {
        {"{\n  \"a\": 1,\n  \"b\" 2\n}", "t.json:3:7: expected ':' after a key, not '2'"},
        {"[\"\xE2\x82\xAC\", x]", "t.json:1:7: expected a value, not 'x'"},
        {"[1,\n", "t.json:2:1: expected a value, but the document ends here"},
        {"[1}", "t.json:1:3: expected ',' or ']', not '}'"},
        {"{\"a\":1]", "t.json:1:7: expected ',' or '}', not ']'"},
        {"{]", "t.json:1:2: expected a key in quotes or '}', not ']'"},
        {"{\"a\":1,}", "t.json:1:8: expected a key in quotes, not '}'"},
        {"[]\x01", "t.json:1:3: expected the end of the document, not the byte 0x01"},
        {"[\"ab", "t.json:1:2: unterminated string"},
        {"[01]", "t.json:1:2: this is not a JSON number"},
        {"[1e999]", "t.json:1:2: this number is too large"},
        {"\xEF\xBB\xBF[]", "t.json:1:1: the document starts with a byte order mark; remove it"},
        {"[\"a\\q\"]", "t.json:1:4: unknown escape in a string"},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        syn_error err = {0};
        CHECK_INT(read_exact(want[i].doc, strlen(want[i].doc), &err), SYN_JSON_ERROR);
        CHECK_STR(err.text, want[i].text);
    }
}

/* An error that the caller reports has the position of the token that it is about. */
static void callers_errors(void) {
    static const struct {
        const char *doc;
        int tokens; /* number of tokens to read before the error is reported */
        int column;
    } want[] = {{"  123", 1, 3},
                {"[true]", 2, 2},
                {"[false ]", 2, 2},
                {"[ null]", 2, 3},
                {"[\"abc\"]", 2, 2},
                {"[\"a\\\"b\\\\\" ]", 2, 2},
                {"[\"\\\\\\\"\"]", 2, 2},
                {"{\"a\":\"\"}", 3, 6},
                {"{\"\\\"\" : 1}", 2, 2},
                {" []", 2, 3},
                {" {}", 1, 2},
                {"1  ", 2, 4}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        syn_error err = {0};
        syn_json j;
        char text[64];
        syn_json_init(&j, "t.json", want[i].doc, strlen(want[i].doc), &err);
        for (int k = 0; k < want[i].tokens; k++) CHECK(syn_json_next(&j) != SYN_JSON_ERROR);
        CHECK_INT(syn_json_fail(&j, "bad %d", 5), SYN_E_FORMAT);
        snprintf(text, sizeof text, "t.json:1:%d: bad 5", want[i].column);
        CHECK_STR(err.text, text);
        CHECK_INT(syn_json_next(&j), SYN_JSON_ERROR);
        syn_json_free(&j);
    }
}

static void expectations(void) {
    const char doc[] = "{\"n\": 12, \"f\": 1.5, \"s\": \"x\"}";
    syn_error err = {0};
    syn_json j;
    int64_t n = 0;
    syn_json_init(&j, "t.json", doc, sizeof doc - 1, &err);
    CHECK_OK(syn_json_expect(&j, SYN_JSON_OBJECT_BEGIN, "the config"), err);
    CHECK_INT(syn_json_next(&j), SYN_JSON_KEY);
    CHECK_OK(syn_json_expect_i64(&j, "n", 12, 12, &n), err);
    CHECK_INT(n, 12);
    CHECK_INT(syn_json_next(&j), SYN_JSON_KEY);
    CHECK_INT(syn_json_expect_i64(&j, "f", 1, 100, &n), SYN_E_FORMAT);
    CHECK_STR(err.text, "t.json:1:16: f must be an integer from 1 to 100, not 1.5");
    CHECK_INT(syn_json_expect(&j, SYN_JSON_KEY, "anything"), SYN_E_FORMAT);
    syn_json_free(&j);

    err = (syn_error){0};
    syn_json_init(&j, "t.json", "\"x\"", 3, &err);
    CHECK_INT(syn_json_expect(&j, SYN_JSON_ARRAY_BEGIN, "the list"), SYN_E_FORMAT);
    CHECK_STR(err.text, "t.json:1:1: the list must be an array, not a string");
    syn_json_free(&j);

    err = (syn_error){0};
    syn_json_init(&j, "t.json", "13", 2, &err);
    CHECK_INT(syn_json_expect_i64(&j, "n", 1, 12, &n), SYN_E_FORMAT);
    CHECK_STR(err.text, "t.json:1:1: n must be an integer from 1 to 12, not 13");
    syn_json_free(&j);

    err = (syn_error){0};
    syn_json_init(&j, "t.json", "[", 1, &err);
    CHECK_INT(syn_json_next(&j), SYN_JSON_ARRAY_BEGIN);
    CHECK_INT(syn_json_expect_i64(&j, "n", 1, 12, &n), SYN_E_FORMAT);
    CHECK_HAS(err.text, "the document ends here");
    syn_json_free(&j);
}

static void skipping(void) {
    const char doc[] =
        "{\"a\": {\"x\": [1, {\"y\": []}]}, \"b\": [[1], 2], \"c\": 3, \"d\": \"s\"}";
    for (int by_key = 0; by_key < 2; by_key++) {
        syn_error err = {0};
        syn_json j;
        char keys[8] = "";
        syn_json_init(&j, "t.json", doc, sizeof doc - 1, &err);
        CHECK_INT(syn_json_next(&j), SYN_JSON_OBJECT_BEGIN);
        while (syn_json_next(&j) == SYN_JSON_KEY) {
            strcat(keys, j.text);
            if (!by_key) (void)syn_json_next(&j);
            CHECK(syn_json_skip(&j));
            CHECK_INT(j.depth, 1);
        }
        CHECK_STR(keys, "abcd");
        CHECK_INT(j.type, SYN_JSON_OBJECT_END);
        CHECK_INT(syn_json_next(&j), SYN_JSON_END);
        syn_json_free(&j);
    }
    syn_error err = {0};
    syn_json j;
    syn_json_init(&j, "t.json", "[[1,", 4, &err);
    CHECK_INT(syn_json_next(&j), SYN_JSON_ARRAY_BEGIN);
    CHECK(!syn_json_skip(&j));
    CHECK_INT(err.code, SYN_E_FORMAT);
    syn_json_free(&j);
}

static syn_status read_long_text(void *unused, syn_error *err) {
    (void)unused;
    char doc[400];
    size_t tokens;
    memset(doc, 'x', sizeof doc);
    memcpy(doc, "[1,\"\\n", 6);
    memcpy(doc + sizeof doc - 2, "\"]", 2);
    return read_all(doc, sizeof doc, err, &tokens) == SYN_JSON_END ? SYN_OK : err->code;
}

static void out_of_memory(void) {
    CHECK(test_without_memory(read_long_text, NULL) >= 2);
}

static const test_case cases[] = {
    {"accepts", accepts},
    {"refuses", refuses},
    {"truncated", truncated},
    {"tokens_hold_their_values", tokens_hold_their_values},
    {"escapes", escapes},
    {"integers", integers},
    {"depth_is_limited", depth_is_limited},
    {"errors_point_at_the_place", errors_point_at_the_place},
    {"callers_errors", callers_errors},
    {"expectations", expectations},
    {"skipping", skipping},
    {"out_of_memory", out_of_memory},
};
TEST_MAIN(cases)
