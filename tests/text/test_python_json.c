/* Tests JSON in the forms that Python writes: compared with Python's own output
   (tests/reference/python_fixture.txt), and on damaged, truncated and deeply nested text. */
#include "export/text/python_json.h"

#include "syntorch/base/memory.h"
#include "tests/support/random.h"
#include "tests/support/test.h"
#include "tests/support/tokenizer_fixture.h"

#define LINE_BYTES 65536

static bool read_line(FILE *f, char *line) {
    if (fgets(line, LINE_BYTES, f) == NULL) return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

/* Copies the text to a buffer of exactly its size, so that sanitizers detect reads outside of
   it. */
static syn__str exact(const char *text, size_t bytes) {
    char *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL) abort();
    memcpy(copy, text, bytes);
    return (syn__str){copy, bytes};
}

static const char *as_text(syn__buf *buf) {
    syn__buf_put(buf, "", 1);
    return buf->data != NULL ? buf->data : "";
}

/* The JSON value as Python's str() writes it; valid until the next call. */
static const char *str(const char *json) {
    static syn__buf buf;
    const syn__str text = exact(json, strlen(json));
    buf.bytes = 0;
    syn__python_text(&buf, text);
    free((void *)(uintptr_t)text.text);
    return as_text(&buf);
}

static const char *dump(const char *json, unsigned level) {
    static syn__buf buf;
    const syn__str text = exact(json, strlen(json));
    buf.bytes = 0;
    syn__python_json(&buf, text, level);
    free((void *)(uintptr_t)text.text);
    return as_text(&buf);
}

static void as_python_writes(void) {
    static char json[LINE_BYTES], want[LINE_BYTES], boxed[LINE_BYTES + 2];
    FILE *f = fixture_open("python_fixture.txt");
    unsigned n = 0;
    CHECK(f != NULL && read_line(f, json));
    for (; read_line(f, json); n++) {
        snprintf(boxed, sizeof boxed, "[%s]", json);
        CHECK(read_line(f, want));
        CHECK_STR(str(boxed), want);
        CHECK(read_line(f, want));
        for (char *p = want; (p = strchr(p, '\t')) != NULL;) *p = '\n';
        CHECK_STR(dump(boxed, 0), want);
    }
    CHECK(n > 150);
    fclose(f);
}

static void printable_as_in_python(void) {
    static char line[LINE_BYTES];
    FILE *f = fixture_open("python_fixture.txt");
    uint64_t hash = 0;
    CHECK(f != NULL && read_line(f, line));
    fclose(f);
    for (uint32_t c = 0x80; c < 0x110000; c++) hash = hash * 31 + syn__python_printable(c);
    snprintf(line + 32, 64, "printable %llu", (unsigned long long)hash);
    CHECK_STR(line, line + 32);
}

static void one_value_after_another(void) {
    const char *const json = " [1,\"]\"] , {\"a\" : [ ]}x";
    const char *const end = json + strlen(json);
    syn__buf buf = {0};
    const char *p = syn__python_text_next(&buf, json, end);
    CHECK_INT(p - json, 8);
    CHECK_STR(as_text(&buf), "[1, ']']");
    CHECK(syn__python_text_next(&buf, p, end) == p + 1); /* a comma is not a value */
    buf.bytes = 0;
    p = syn__python_json_next(&buf, p + 2, end, 2);
    CHECK_INT(end - p, 1);
    CHECK_STR(as_text(&buf), "{\n            \"a\": []\n        }");
    syn__buf_free(&buf);
}

static void lines_and_levels(void) {
    syn__buf buf = {0};
    syn__python_line(&buf, 0);
    syn__python_line(&buf, 5);
    CHECK_STR(as_text(&buf), "\n\n                    ");
    syn__buf_free(&buf);
    CHECK_STR(dump("[1,[],{}]", 1), "[\n        1,\n        [],\n        {}\n    ]");
}

static void damaged_text(void) {
    CHECK_STR(str("[1,,2,]"), "[1, 2]");
    CHECK_STR(str("[1 2\"a\"\"b\"[3]]"), "[1, 2, 'a', 'b', [3]]");
    CHECK_STR(str("[say \"he said \"no\" twice\",1]"), "[None, 'he said \"no\" twice', 1]");
    CHECK_STR(str("[1,2"), "[1, 2");
    CHECK_STR(str("[\"abc"), "['abc'");
    CHECK_STR(str("{\"a\":{\"b\":1]"), "{'a': {'b': 1]");
    CHECK_STR(str("[None,nan,-inf,1.2.3,0x1F,+5,-]"), "[None, nan, -inf, 1.2.3, 0x1F, +5, None]");
    CHECK_STR(str("[N/A,1.#QNAN,-nan(ind),<a, b>,undefined]"), "[None, None, None, None, None]");
    CHECK_STR(dump("[1.2.3,0x1F,+5,07,0]", 0),
              "[\n    null,\n    null,\n    null,\n    null,\n    0\n]");
    CHECK_STR(str("{\"a\":dim3{1, 1},\"b\":1,5,\"c\":x\"y\",\"d\":f[2, 3],\"e\":1 \"f\":2}"),
              "{'a': None, 'b': None, 'c': None, 'd': None, 'e': 1, 'f': 2}");
    CHECK_STR(str("{\"a\":,\"b\":N/A,\"c\": }"), "{'a': None, 'b': None, 'c': None}");
    CHECK_STR(dump("{\"a\":f(1, 2),\"b\":}", 0), "{\n    \"a\": null,\n    \"b\": null\n}");
    CHECK_STR(str("[\"a\nb\x01\",\"\\u12\",\"\\q\"]"), "['a\\nb\\x01', '\\\\u12', '\\\\q']");
    CHECK_STR(str("[\"say \"x\"\",1]"), "['say \"x\"', 1]");
    CHECK_STR(dump("\"say \"x\"\"", 0), "\"say \\\"x\\\"\"");
    CHECK_STR(str("[\"\xFF\xC3\"]"), "['\xEF\xBF\xBD\xEF\xBF\xBD']");
    CHECK_STR(str(""), "");
    CHECK_STR(dump("[1,,2,]", 0), "[\n    1,\n    2\n]");
    CHECK_STR(dump("[\"\xFF\",None]", 0), "[\n    \"\\ufffd\",\n    null\n]");
    CHECK_STR(dump("[\"\xED\xA0\x80\"]", 0), "[\n    \"\\ufffd\\ufffd\\ufffd\"\n]");
}

/* Formatting finishes for any text, including every prefix of a valid one. */
static void all_prefixes(void) {
    static char json[LINE_BYTES];
    FILE *f = fixture_open("python_fixture.txt");
    CHECK(f != NULL && read_line(f, json));
    for (unsigned n = 0; read_line(f, json); n++) {
        if (n % 3 != 0 || strlen(json) > 400) continue;
        for (size_t bytes = strlen(json); bytes-- > 0;) {
            const syn__str text = exact(json, bytes);
            syn__buf buf = {0};
            syn__python_text(&buf, text);
            syn__python_json(&buf, text, 3);
            CHECK(!buf.failed);
            syn__buf_free(&buf);
            free((void *)(uintptr_t)text.text);
        }
    }
    fclose(f);
}

static void random_bytes(void) {
    static const char alphabet[] = "[]{},:\"\\'u0019eE.-+ntl \n\x7f\xC3\xA9\xE2\x80\xA8\xF0\x9F";
    uint64_t state = 1;
    for (int round = 0; round < 20000; round++) {
        char json[64];
        size_t bytes = 0;
        for (; bytes < sizeof json; bytes++) {
            const uint32_t value = random_u32(&state);
            json[bytes] = alphabet[value % (sizeof alphabet - 1)];
            if (value >> 28 == 0) break;
        }
        const syn__str text = exact(json, bytes);
        syn__buf buf = {0};
        const char *end = text.text + text.bytes, *p = syn__python_text_next(&buf, text.text, end);
        CHECK(p >= text.text && p <= end);
        p = syn__python_json_next(&buf, text.text, end, 1);
        CHECK(p >= text.text && p <= end && !buf.failed);
        syn__buf_free(&buf);
        free((void *)(uintptr_t)text.text);
    }
}

static void deep_nesting(void) {
    const size_t depth = 20000;
    char *json = malloc(2 * depth);
    CHECK(json != NULL);
    memset(json, '[', depth);
    memset(json + depth, ']', depth);
    const syn__str text = {json, 2 * depth};
    syn__buf buf = {0};
    syn__python_text(&buf, text);
    CHECK(buf.bytes == text.bytes && memcmp(buf.data, json, buf.bytes) == 0);
    buf.bytes = 0;
    syn__python_json(&buf, text, 0);
    /* The length is linear in the depth. */
    CHECK(buf.bytes > text.bytes && buf.bytes < 3 * text.bytes);
    syn__buf_free(&buf);
    free(json);
}

static void memory_out(void) {
    const syn__str text = {"[\"a\", [1.5, \"\\u00e9\"]]", 23};
    for (uint64_t n = 0; n < 16; n++) {
        syn__buf buf = {0};
        syn_memory_fail_after(n);
        syn__python_text(&buf, text);
        syn__python_json(&buf, text, 40);
        syn__python_line(&buf, 30);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        CHECK(n > 0 || buf.failed);
        CHECK(n < 15 || !buf.failed);
        syn__buf_free(&buf);
    }
}

static const test_case cases[] = {
    {"as_python_writes", as_python_writes},
    {"printable_as_in_python", printable_as_in_python},
    {"one_value_after_another", one_value_after_another},
    {"lines_and_levels", lines_and_levels},
    {"damaged_text", damaged_text},
    {"all_prefixes", all_prefixes},
    {"random_bytes", random_bytes},
    {"deep_nesting", deep_nesting},
    {"memory_out", memory_out},
};

TEST_MAIN(cases)
