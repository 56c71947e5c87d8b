/* Tests the text that sinks write (text, numbers, escapes), and sinks to memory. */
#include "tests/support/test.h"

#include <stdint.h>

#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"

/* Checks the text that `statement` writes to a memory sink. */
#define WRITTEN(statement, want)                                                                \
    do {                                                                                        \
        syn_error e = {0};                                                                      \
        syn_sink *sink;                                                                         \
        size_t bytes;                                                                           \
        CHECK_OK(syn_sink_open_memory(&sink, &e), e);                                           \
        statement;                                                                              \
        const char *data = syn_sink_data(sink, &bytes);                                         \
        const bool same =                                                                       \
            data != NULL && bytes == sizeof(want) - 1 && memcmp(data, want, sizeof(want)) == 0; \
        if (!same) fprintf(stderr, "wrote \"%s\"\n", data != NULL ? data : "nothing");          \
        const bool closed = syn_sink_close(sink, true, &e) == SYN_OK;                           \
        CHECK_MSG(same &&closed, "want \"%s\"", want);                                          \
    } while (0)

static void plain_writes(void) {
    WRITTEN((void)0, "");
    WRITTEN(syn_sink_text(sink, "ab"); syn_sink_char(sink, 'c'), "abc");
    WRITTEN(syn_sink_write(sink, "a\0b", 3), "a\0b");
    WRITTEN(syn_sink_printf(sink, "%d %s", 5, "x"), "5 x");
}

static void numbers(void) {
    WRITTEN(syn_sink_u64(sink, 0), "0");
    WRITTEN(syn_sink_u64(sink, UINT64_MAX), "18446744073709551615");
    WRITTEN(syn_sink_i64(sink, INT64_MIN), "-9223372036854775808");
    WRITTEN(syn_sink_i64(sink, INT64_MAX), "9223372036854775807");
    WRITTEN(syn_sink_i64(sink, -1), "-1");
    WRITTEN(syn_sink_double(sink, 0.1), "0.1");
    WRITTEN(syn_sink_double(sink, 3), "3");
    WRITTEN(syn_sink_double(sink, 1e-5), "1e-05");
    WRITTEN(syn_sink_double(sink, (double)NAN), "null");
    WRITTEN(syn_sink_double(sink, -HUGE_VAL), "null");
}

#define BAD "\xEF\xBF\xBD"

/* Invalid UTF-8 is replaced in the same way as by Python's decode("utf-8", "replace"). */
static void json_strings(void) {
    WRITTEN(syn_sink_json_string(sink, ""), "\"\"");
    WRITTEN(syn_sink_json_string(sink, "a\"b\\c/d"), "\"a\\\"b\\\\c/d\"");
    WRITTEN(syn_sink_json_string(sink, "\b\t\n\v\f\r\x01\x1F\x7F"),
            "\"\\b\\t\\n\\u000b\\f\\r\\u0001\\u001f\x7F\"");
    WRITTEN(syn_sink_json_string(sink, "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
    WRITTEN(syn_sink_json_string(sink, "a\xFF\xC3"), "\"a" BAD BAD "\"");
    WRITTEN(syn_sink_json_string(sink, "~\xE4\xBD"
                                       "a"),
            "\"~" BAD "a\"");
    WRITTEN(syn_sink_json_string(sink, "\xF0\x9F\x98\xF0\x9F"), "\"" BAD BAD "\"");
    WRITTEN(syn_sink_json_string(sink, "\xE0\x9F\xBF"), "\"" BAD BAD BAD "\"");
    WRITTEN(syn_sink_json_string(sink, "\xED\xA0\x80"), "\"" BAD BAD BAD "\"");
    WRITTEN(syn_sink_json_string(sink, "\xE2(\xA1"), "\"" BAD "(" BAD "\"");
    /* An encoded surrogate is three invalid bytes. */
    WRITTEN(syn_sink_json_string(sink, "\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

static void xml_text(void) {
    WRITTEN(syn_sink_xml_text(sink, ""), "");
    WRITTEN(syn_sink_xml_text(sink, "a<b>&\"c\"'d'"), "a&lt;b&gt;&amp;&quot;c&quot;&#39;d&#39;");
    WRITTEN(syn_sink_xml_text(sink, "]]>\t\n\r"), "]]&gt;&#9;&#10;&#13;");
    WRITTEN(syn_sink_xml_text(sink, "a\x01\x1F\x62"), "a\xEF\xBF\xBD\xEF\xBF\xBD\x62");
    WRITTEN(syn_sink_xml_text(sink, "\xC3\xA9\xF0\x9F\x98\x80"), "\xC3\xA9\xF0\x9F\x98\x80");
    WRITTEN(syn_sink_xml_text(sink, "\xEF\xBF\xBE\xEF\xBF\xBF\xEF\xBF\xBC"),
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBC"); /* U+FFFE and U+FFFF are not allowed in XML */
    WRITTEN(syn_sink_xml_text(sink, "\x80z"), "\xEF\xBF\xBDz");
}

static void memory_grows(void) {
    syn_error err = {0};
    syn_sink *sink;
    char long_text[3000];
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    CHECK_OK(syn_sink_open_memory(&sink, &err), err);
    for (int i = 0; i < 10000; i++) syn_sink_i64(sink, i % 10);
    syn_sink_printf(sink, "%s", long_text); /* longer than the buffer of syn_sink_printf */
    size_t bytes = 0;
    const char *data = syn_sink_data(sink, &bytes);
    CHECK(data != NULL);
    CHECK_INT(bytes, 12999);
    CHECK_INT(strlen(data), 12999);
    for (int i = 0; i < 10000; i++) CHECK_INT(data[i], '0' + i % 10);
    CHECK_INT(syn_sink_bytes(sink), bytes);
    CHECK_OK(syn_sink_close(sink, false, &err), err);
}

static void memory_sink_out_of_memory(void) {
    syn_error err = {0};
    syn_sink *sink;
    CHECK_OK(syn_sink_open_memory(&sink, &err), err);
    syn_memory_fail_after(0);
    for (int i = 0; i < 1000; i++) syn_sink_text(sink, "0123456789");
    syn_memory_fail_after(SYN_MEMORY_NEVER);
    CHECK_INT(syn_sink_status(sink), SYN_E_NOMEM);
    CHECK(syn_sink_data(sink, NULL) == NULL);
    syn_sink_text(sink, "more");
    CHECK_INT(syn_sink_close(sink, true, &err), SYN_E_NOMEM);
    CHECK_HAS(err.text, "out of memory");
}

static const test_case cases[] = {
    {"plain_writes", plain_writes}, {"numbers", numbers},
    {"json_strings", json_strings}, {"xml_text", xml_text},
    {"memory_grows", memory_grows}, {"memory_sink_out_of_memory", memory_sink_out_of_memory},
};
TEST_MAIN(cases)
