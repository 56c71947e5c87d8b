/* Tests the tolerant JSON reader: what it reads, which errors it skips and counts, and where it
   stops. */
#include "export/text/loose_json.h"
#include "tests/support/test.h"

#include <inttypes.h>

/* A text in a buffer of exactly its size plus the padding, so that sanitizers detect reads beyond
   it. */
typedef struct copy {
    char *data;
    syn__loose l;
} copy;

static bool copy_of(copy *c, const char *text, size_t bytes) {
    c->data = malloc(bytes + SYN__LOOSE_PADDING);
    if (c->data == NULL) return false;
    memcpy(c->data, text, bytes);
    memset(c->data + bytes, 0, SYN__LOOSE_PADDING);
    syn__loose_init(&c->l, c->data, bytes);
    return true;
}

/* ---- A text form of everything that is read ---- */

/* Everything that was read is written as text: objects as {k=v,}, arrays as [v,], strings as 's',
   words as *w. "!" or "~" marks the place where reading stopped. */

typedef struct plain {
    char text[4096];
    size_t n;
} plain;

static void add(plain *p, const char *text, size_t bytes) {
    if (p->n + bytes >= sizeof p->text) return;
    memcpy(p->text + p->n, text, bytes);
    p->text[p->n += bytes] = '\0';
}

static void read_all(copy *c, plain *p) {
    syn__loose *l = &c->l;
    char open[64];
    int depth = 0;
    p->n = 0;
    p->text[0] = '\0';
    do {
        syn__str text;
        const syn__loose_kind kind = syn__loose_value(l, &text);
        const bool nested = kind == SYN__LOOSE_OBJECT || kind == SYN__LOOSE_ARRAY;
        if (kind == SYN__LOOSE_STRING) add(p, "'", 1);
        if (kind == SYN__LOOSE_WORD) add(p, "*", 1);
        add(p, text.text, text.bytes);
        if (kind == SYN__LOOSE_STRING) add(p, "'", 1);
        if (!nested && depth > 0 && !l->broken) add(p, ",", 1);
        if (nested && depth < 63) open[depth++] = *text.text;
        while (!l->broken && depth > 0) {
            const bool object = open[depth - 1] == '{';
            syn__str key = {"", 0};
            if (object ? syn__loose_member(l, &key) : syn__loose_element(l)) {
                if (object) add(p, key.text, key.bytes);
                if (object) add(p, "=", 1);
                break;
            }
            if (!l->broken) add(p, object ? "}" : "]", 1);
            if (!l->broken) depth--;
        }
    } while (!l->broken && depth > 0);
    if (l->broken) add(p, l->cut ? "~" : "!", 1);
}

static void reads(const char *text, const char *want, syn__loose_fault fault, uint64_t faults,
                  size_t first) {
    copy c;
    plain p;
    CHECK(copy_of(&c, text, strlen(text)));
    read_all(&c, &p);
    CHECK_MSG(strcmp(p.text, want) == 0, "%s: \"%s\", want \"%s\"", text, p.text, want);
    for (int i = 0; i < SYN__LOOSE_FAULTS; i++) {
        const uint64_t n = faults > 0 && i == (int)fault ? faults : 0;
        CHECK_MSG(c.l.faults[i].count == n, "%s: fault %d: %" PRIu64 ", want %" PRIu64, text, i,
                  c.l.faults[i].count, n);
    }
    if (faults > 0)
        CHECK_MSG(c.l.faults[fault].first == first, "%s: first at %zu", text,
                  c.l.faults[fault].first);
    CHECK_MSG(c.l.broken == (c.l.why != NULL), "%s", text);
    free(c.data);
}

static void valid(void) {
    static const char *const texts[][2] = {
        {"{}", "{}"},
        {" [ ] ", "[]"},
        {"{\"a\": 1, \"b\" : [ -2.5e3 ,\"x\" ], \"c\":{\"d\":null,\"e\":true}}",
         "{a=1,b=[-2.5e3,'x',]c={d=*null,e=*true,}}"},
        {"[\"a\\\"b\\\\\",\"\\\\\\\"\",\"\",\"{[,]}:\"]", "['a\\\"b\\\\','\\\\\\\"','','{[,]}:',]"},
        {"{\"a\\\"\":\"\"}", "{a\\\"='',}"},
        {"[[[]],{\"a\":[{}]}]", "[[[]]{a=[{}]}]"},
        {"\xEF\xBB\xBF{\"a\":1}", "{a=1,}"},
        {"{\"a\"\n:\t1\r\n}", "{a=1,}"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        reads(texts[i][0], texts[i][1], 0, 0, 0);
}

static void faults(void) {
    reads("[1,]", "[1,]", SYN__LOOSE_EXTRA_COMMA, 1, 2);
    reads("[,1]", "[1,]", SYN__LOOSE_EXTRA_COMMA, 1, 1);
    reads("[1,,2 , ,3]", "[1,2,3,]", SYN__LOOSE_EXTRA_COMMA, 2, 2);
    reads("{\"a\":1,}", "{a=1,}", SYN__LOOSE_EXTRA_COMMA, 1, 6);
    reads("{,\"a\":1,,\"b\":2}", "{a=1,b=2,}", SYN__LOOSE_EXTRA_COMMA, 2, 1);
    reads("[1 2]", "[1,2,]", SYN__LOOSE_MISSING_COMMA, 1, 3);
    reads("[{}{}[]]", "[{}{}[]]", SYN__LOOSE_MISSING_COMMA, 2, 3);
    reads("[\"a\" \"b\"]", "['a','b',]", SYN__LOOSE_MISSING_COMMA, 1, 5);
    reads("{\"a\":1 \"b\":2\n\"c\":3}", "{a=1,b=2,c=3,}", SYN__LOOSE_MISSING_COMMA, 2, 7);
    reads("{\"a\":\"x\"\n\"b\":2}", "{a='x',b=2,}", SYN__LOOSE_MISSING_COMMA, 1, 9);
    reads("[\"a\x01z\nb\"]", "['a\x01z\nb',]", SYN__LOOSE_CONTROL, 2, 3);
    reads("[1,NaN,-Infinity,true]", "[1,*NaN,*-Infinity,*true,]", SYN__LOOSE_BARE_WORD, 2, 3);
    reads("{\"a\":Infinity}", "{a=*Infinity,}", SYN__LOOSE_BARE_WORD, 1, 5);
    reads("[\"say \"x\" now\",1]", "['say \"x\" now',1,]", SYN__LOOSE_QUOTE, 1, 6);
    reads("[\"say \"x\"\",1]", "['say \"x\"',1,]", SYN__LOOSE_QUOTE, 1, 6);
    reads("{\"a\":\"\"x\"\"}", "{a='\"x\"',}", SYN__LOOSE_QUOTE, 1, 6);
    reads("\"say \"x\"\"", "'say \"x\"'", SYN__LOOSE_QUOTE, 1, 5);
    reads("[\"a\"\"b\"]", "['a','b',]", SYN__LOOSE_MISSING_COMMA, 1, 4);
    reads("{\"a\":\"[{\"b\": 1}]\",\"c\":2}", "{a='[{\"b\": 1}]',c=2,}", SYN__LOOSE_QUOTE, 1, 8);
    reads("{\"a\":\"[{\"b\": \"x\", \"c\": [\"}\"]}]\",\"d\":2}",
          "{a='[{\"b\": \"x\", \"c\": [\"}\"]}]',d=2,}", SYN__LOOSE_QUOTE, 1, 8);
    reads("{\"a \"b\" c\":2}", "{a \"b\" c=2,}", SYN__LOOSE_QUOTE, 1, 4);
}

/* Words that printf, Python and Kineto write in place of missing values. */
static void words(void) {
    static const char *const texts[] = {"N/A",
                                        "nan",
                                        "-nan(ind)",
                                        "1.#QNAN",
                                        "-1.#IND",
                                        "1.#INF00e+00",
                                        "inf",
                                        "None",
                                        "undefined",
                                        "<unknown>",
                                        "0x7f..",
                                        "0x7FFE12",
                                        "???",
                                        "#N/A",
                                        "(null)",
                                        "cuda:0",
                                        "<built-in method f of type object at 0x7f10>",
                                        "device(type='cuda', index=0)",
                                        "torch.Size([2, 3])",
                                        "(1, 2)",
                                        "std::vector<int, A<b>>",
                                        "'it is, or not'",
                                        "dim3{1, 1, 1}",
                                        "A{{1}, B{}} x",
                                        "f(x) { return 1; }",
                                        "\xE2\x88\x9E"};
    char text[400];
    copy c;
    syn__str s;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *form = i % 2 ? "{\"a\": %s , \"b\": [%s,%s],\"c\":%s}"
                                 : "{\"a\":%s,\"b\":[%s, %s ],\"c\":%s\n}";
        const char *w = texts[i];
        const int n = snprintf(text, sizeof text, form, w, w, w, w);
        CHECK(copy_of(&c, text, (size_t)n));
        CHECK(syn__loose_value(&c.l, &s) == SYN__LOOSE_OBJECT && syn__loose_member(&c.l, &s));
        const syn__loose_kind kind = syn__loose_value(&c.l, &s);
        CHECK_MSG((kind == SYN__LOOSE_WORD || kind == SYN__LOOSE_NUMBER) && syn__str_is(s, w),
                  "%s: %.*s", w, (int)s.bytes, s.text);
        CHECK_MSG(syn__loose_member(&c.l, &s) && syn__str_is(s, "b"), "%s", w);
        CHECK(syn__loose_skip(&c.l, &s) == SYN__LOOSE_ARRAY);
        CHECK_MSG(syn__loose_member(&c.l, &s) && syn__str_is(s, "c"), "%s", w);
        CHECK_MSG(syn__loose_skip(&c.l, &s) == kind && syn__str_is(s, w), "%s", w);
        CHECK(!syn__loose_member(&c.l, &s) && !c.l.broken && c.l.cur == c.l.end);
        for (int k = 0; k < SYN__LOOSE_FAULTS; k++)
            CHECK_MSG(c.l.faults[k].count == (k == SYN__LOOSE_NO_VALUE ? 4u : 0u),
                      "%s: %d: %" PRIu64, w, k, c.l.faults[k].count);
        free(c.data);
    }
    reads("{\"a\":not told,\"b\":80 GB}", "{a=*not told,b=*80 GB,}", SYN__LOOSE_NO_VALUE, 2, 5);
    reads("{\"a\":-,\"b\":[1.2.3,12:30:05]}", "{a=*-,b=[1.2.3,*12:30:05,]}", SYN__LOOSE_NO_VALUE, 3,
          5);
    reads("{\"a\":f32[2, 3],\"b\":1}", "{a=*f32[2, 3],b=1,}", SYN__LOOSE_NO_VALUE, 1, 5);
    reads("{\"a\":,\"b\": }", "{a=*,b=*,}", SYN__LOOSE_NO_VALUE, 2, 5);
    reads("{\"a\":f(1,\"b\":2}", "{a=*f(1,b=2,}", SYN__LOOSE_NO_VALUE, 1, 5);
    reads("{\"a\":1,5,\"b\":x{\"y\", 2},\"c\":x=\"y\",\"d\":x \"y\"}",
          "{a=*1,5,b=*x{\"y\", 2},c=*x=\"y\",d=*x \"y\",}", SYN__LOOSE_NO_VALUE, 4, 5);
    reads("{\"a\":1\"b\":true \"c\" :2}", "{a=1,b=*true,c=2,}", SYN__LOOSE_MISSING_COMMA, 2, 6);
    /* An object whose beginning was lost does not become part of the word before it. */
    CHECK(copy_of(&c, "{\"a\":12{\"b\":3}}", 16));
    CHECK(syn__loose_value(&c.l, &s) == SYN__LOOSE_OBJECT && syn__loose_member(&c.l, &s));
    CHECK(syn__loose_value(&c.l, &s) == SYN__LOOSE_NUMBER && syn__str_is(s, "12"));
    free(c.data);
    reads("[1e5,-2.5E-3,[1e-05,null,true],{\"a\":false}]",
          "[1e5,-2.5E-3,[1e-05,*null,*true,]{a=*false,}]", 0, 0, 0);
    const char skipped[] = "[[1e5,-2.5E-3,[1e-05,null,true],{\"a\":false}],{\"b\":,\"c\": },NaN]";
    CHECK(copy_of(&c, skipped, sizeof skipped - 1));
    CHECK(syn__loose_skip(&c.l, &s) == SYN__LOOSE_ARRAY && s.bytes == sizeof skipped - 1);
    CHECK(c.l.faults[SYN__LOOSE_NO_VALUE].count == 2 &&
          c.l.faults[SYN__LOOSE_BARE_WORD].count == 1);
    CHECK_INT(c.l.faults[SYN__LOOSE_BARE_WORD].first, sizeof skipped - 5);
    free(c.data);
}

static void foreign_bytes(void) {
    reads("[\"caf\xC3\xA9\",\"\xF0\x9F\x98\x80\"]", "['caf\xC3\xA9','\xF0\x9F\x98\x80',]", 0, 0, 0);
    reads("[\"caf\xE9\",\"\xC3\",\"\xC0\xAF\\\"\xFF\"]", "['caf\xE9','\xC3','\xC0\xAF\\\"\xFF',]",
          SYN__LOOSE_UTF8, 3, 5);
    reads("{\"\xED\xA0\x80\":1}", "{\xED\xA0\x80=1,}", SYN__LOOSE_UTF8, 1, 2);
    reads("[\"a\",\"a sixteen-byte on\",\"\xC3\xA9\"]", "['a','a sixteen-byte on','\xC3\xA9',]", 0,
          0, 0);
}

static void cut_off(void) {
    static const char whole[] = "{\"ab\": [1, \"c\\\"d\", {\"e\": null}], \"f\": 2.5}";
    for (size_t n = 0; n + 1 < sizeof whole - 1; n++) {
        copy c;
        plain p;
        CHECK(copy_of(&c, whole, n));
        read_all(&c, &p);
        CHECK_MSG(c.l.broken && c.l.cut, "%zu bytes: %s", n, p.text);
        CHECK(c.l.why != NULL && c.l.cur == c.l.end);
        free(c.data);
    }
}

static void damage_stops(void) {
    reads("[1}", "[1,!", 0, 0, 0);
    reads("{\"a\":1]", "{a=1,!", 0, 0, 0);
    reads("{\"a\" 1}", "{!", 0, 0, 0);
    reads("{\"a\":]", "{a=!", 0, 0, 0);
    reads("[:1]", "[!", 0, 0, 0);
    /* A string does not extend past the end of its object. */
    reads("[{\"a\"}, {\"b\": 1}]", "[{!", 0, 0, 0);
    reads("[{\"a\":\"b\" <}, {\"c\": \"d\"}]", "[{a='b',!", SYN__LOOSE_MISSING_COMMA, 1, 10);
    copy c;
    plain p;
    CHECK(copy_of(&c, "[:xy, 1]", 8));
    read_all(&c, &p);
    syn__str text;
    /* After this error, all further reads fail. */
    CHECK(c.l.broken && !c.l.cut && !syn__loose_element(&c.l) && !syn__loose_member(&c.l, &text));
    CHECK(syn__loose_value(&c.l, &text) == SYN__LOOSE_NONE);
    CHECK(syn__loose_skip(&c.l, &text) == SYN__LOOSE_NONE && text.bytes == 0);
    CHECK_INT(syn__loose_at(&c.l), 1);
    free(c.data);
}

/* Reads a string of `length` letters with `mark` after the first `at` of them: as an element, as a
   key, and skipped. */
static void check_place(const char *mark, size_t length, size_t at) {
    char text[400], inner[160];
    const size_t bytes = strlen(mark);
    copy c;
    syn__str s;
    memset(inner, 'x', sizeof inner);
    memcpy(inner + at, mark, bytes);
    inner[length + bytes] = '\0';
    const int n = snprintf(text, sizeof text, "[\"%s\",{\"%s\":2}]", inner, inner);
    CHECK(copy_of(&c, text, (size_t)n));
    CHECK(syn__loose_skip(&c.l, &s) == SYN__LOOSE_ARRAY);
    CHECK(s.bytes == (size_t)n && c.l.cur == c.l.end);
    syn__loose_init(&c.l, c.data, (size_t)n);
    CHECK(syn__loose_value(&c.l, &s) == SYN__LOOSE_ARRAY && syn__loose_element(&c.l));
    CHECK(syn__loose_value(&c.l, &s) == SYN__LOOSE_STRING);
    CHECK_MSG(syn__str_is(s, inner), "%s", text);
    CHECK_INT(c.l.escaped, *mark == '\\');
    CHECK(syn__loose_element(&c.l) && syn__loose_value(&c.l, &s) == SYN__LOOSE_OBJECT);
    CHECK(syn__loose_member(&c.l, &s) && syn__str_is(s, inner));
    CHECK_INT(c.l.escaped, *mark == '\\');
    CHECK(syn__loose_peek(&c.l) == '2');
    for (int i = 0; i < SYN__LOOSE_FAULTS; i++) CHECK_INT(c.l.faults[i].count, 0);
    free(c.data);
}

/* Quotes, backslashes and brackets at every position of a string that is longer than several SIMD
   vectors. */
static void every_place(void) {
    static const char *const marks[] = {"\\\"", "\\\\", "{", "]", ",", ":", "\\u0022", "\xC3\xA9"};
    for (size_t m = 0; m < sizeof marks / sizeof marks[0]; m++)
        for (size_t length = 0; length < 70; length++)
            for (size_t at = 0; at <= length; at++) check_place(marks[m], length, at);
}

static void skipping(void) {
    static const char text[] = "{\"a\": {\"b\": [1, {}]} , \"c\":\"d\" ,\"e\": -1.5}";
    copy c;
    syn__str s;
    CHECK(copy_of(&c, text, sizeof text - 1));
    CHECK(syn__loose_value(&c.l, &s) == SYN__LOOSE_OBJECT && syn__str_is(s, "{"));
    CHECK(syn__loose_member(&c.l, &s) && syn__str_is(s, "a"));
    CHECK(syn__loose_skip(&c.l, &s) == SYN__LOOSE_OBJECT);
    CHECK(syn__str_is(s, "{\"b\": [1, {}]}"));
    CHECK(syn__loose_member(&c.l, &s) && syn__str_is(s, "c"));
    CHECK(syn__loose_skip(&c.l, &s) == SYN__LOOSE_STRING && syn__str_is(s, "\"d\""));
    CHECK(syn__loose_member(&c.l, &s) && syn__str_is(s, "e"));
    CHECK(syn__loose_skip(&c.l, &s) == SYN__LOOSE_NUMBER && syn__str_is(s, "-1.5"));
    CHECK(!syn__loose_member(&c.l, &s) && !c.l.broken && c.l.cur == c.l.end);
    CHECK(syn__loose_peek(&c.l) == '\0');
    free(c.data);
    /* The reader does not read past the end of the value. */
    CHECK(copy_of(&c, "{\"a\":{}}", 8));
    c.l.end = c.data + 5;
    CHECK(syn__loose_value(&c.l, &s) == SYN__LOOSE_OBJECT && syn__loose_member(&c.l, &s));
    CHECK(syn__loose_value(&c.l, &s) == SYN__LOOSE_NONE && c.l.cut);
    free(c.data);
    CHECK(copy_of(&c, "{}", 2));
    c.l.end = c.data + 1;
    CHECK(syn__loose_value(&c.l, &s) == SYN__LOOSE_OBJECT);
    CHECK(!syn__loose_member(&c.l, &s) && c.l.broken && c.l.cut);
    free(c.data);
}

static void deep(void) {
    const size_t n = 1000000;
    char *text = malloc(2 * n);
    copy c;
    syn__str s;
    CHECK(text != NULL);
    for (size_t i = 0; i < n; i++) text[i] = '[', text[n + i] = ']';
    CHECK(copy_of(&c, text, 2 * n));
    CHECK(syn__loose_skip(&c.l, &s) == SYN__LOOSE_ARRAY && s.bytes == 2 * n);
    syn__loose_init(&c.l, c.data, 2 * n - 1);
    CHECK(syn__loose_skip(&c.l, &s) == SYN__LOOSE_NONE && c.l.broken && c.l.cut);
    syn__loose_init(&c.l, c.data, 2 * n);
    for (size_t i = 0; i < n; i++) {
        CHECK(i == 0 || syn__loose_element(&c.l));
        CHECK(syn__loose_value(&c.l, &s) == SYN__LOOSE_ARRAY);
    }
    for (size_t i = 0; i < n; i++) CHECK(!syn__loose_element(&c.l) && !c.l.broken);
    CHECK(c.l.cur == c.l.end);
    free(c.data);
    free(text);
}

static void resuming(void) {
    static const char text[] =
        "[{\"id\": 1, <}, {\"name\": \"id\"}, { \"id\" : 2}, {\"ids\": 3}, {\n\"id\":4}]";
    const syn__str id = {"id", 2};
    copy c;
    syn__str s;
    CHECK(copy_of(&c, text, sizeof text - 1));
    CHECK(syn__loose_value(&c.l, &s) == SYN__LOOSE_ARRAY && syn__loose_element(&c.l));
    CHECK(syn__loose_value(&c.l, &s) == SYN__LOOSE_OBJECT && syn__loose_member(&c.l, &s));
    CHECK(syn__loose_skip(&c.l, NULL) == SYN__LOOSE_NUMBER);
    CHECK(!syn__loose_member(&c.l, &s) && c.l.broken && !c.l.cut);
    CHECK(syn__loose_resume(&c.l, c.data + 2, id) && !c.l.broken);
    CHECK_INT(syn__loose_at(&c.l), strstr(text, "{ \"id\"") - text);
    CHECK(syn__loose_element(&c.l) && syn__loose_skip(&c.l, &s) == SYN__LOOSE_OBJECT);
    CHECK(syn__str_is(s, "{ \"id\" : 2}"));
    for (int i = 0; i < SYN__LOOSE_FAULTS; i++) CHECK_INT(c.l.faults[i].count, 0);
    CHECK(syn__loose_resume(&c.l, c.l.cur, id));
    CHECK_INT(syn__loose_at(&c.l), strstr(text, "{\n") - text);
    c.l.broken = true;
    CHECK(!syn__loose_resume(&c.l, c.l.cur + 1, id) && c.l.cur == c.l.end);
    /* The key is cut off at the end of the text. */
    CHECK(!syn__loose_resume(&c.l, c.data, syn__str_of("id\":4}] and more")));
    for (size_t n = 0; n < 7; n++) {
        copy d;
        CHECK(copy_of(&d, "{ \"id\"", n));
        CHECK_INT(syn__loose_resume(&d.l, d.data, id), n == 6);
        free(d.data);
    }
    free(c.data);
}

static const test_case cases[] = {
    {"valid", valid},
    {"faults", faults},
    {"words", words},
    {"foreign_bytes", foreign_bytes},
    {"cut_off", cut_off},
    {"skipping", skipping},
    {"damage_stops", damage_stops},
    {"every_place", every_place},
    {"deep", deep},
    {"resuming", resuming},
};
TEST_MAIN(cases)
