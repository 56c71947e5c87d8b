/* Tests the JSON reader on whole documents: random mutations of a small one, and a real one of 1 MB
   (GPT-2's vocabulary). */
#include "tests/support/files.h"
#include "tests/support/random.h"
#include "tests/support/test.h"

#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"

/* Writes the document's tokens as compact JSON. Returns false if the reader rejects the
   document. */
static bool rewrite(const char *data, size_t bytes, syn_sink *sink) {
    syn_json j;
    syn_json_type type, before = SYN_JSON_OBJECT_BEGIN;
    syn_json_init(&j, "t.json", data, bytes, NULL);
    for (; (type = syn_json_next(&j)) > SYN_JSON_END; before = type) {
        const bool opened = before == SYN_JSON_OBJECT_BEGIN || before == SYN_JSON_ARRAY_BEGIN;
        const bool closes = type == SYN_JSON_OBJECT_END || type == SYN_JSON_ARRAY_END;
        if (before == SYN_JSON_KEY) syn_sink_char(sink, ':');
        else if (!opened && !closes) syn_sink_char(sink, ',');
        switch (type) {
        case SYN_JSON_OBJECT_BEGIN:
            syn_sink_char(sink, '{');
            break;
        case SYN_JSON_OBJECT_END:
            syn_sink_char(sink, '}');
            break;
        case SYN_JSON_ARRAY_BEGIN:
            syn_sink_char(sink, '[');
            break;
        case SYN_JSON_ARRAY_END:
            syn_sink_char(sink, ']');
            break;
        case SYN_JSON_KEY:
        case SYN_JSON_STRING:
            syn_sink_json_string(sink, j.text);
            break;
        case SYN_JSON_NUMBER:
            syn_sink_text(sink, j.text);
            break;
        case SYN_JSON_BOOL:
            syn_sink_text(sink, j.boolean ? "true" : "false");
            break;
        default:
            syn_sink_text(sink, "null");
            break;
        }
    }
    syn_json_free(&j);
    return type == SYN_JSON_END;
}

/* Changes a few bytes of a document. If the reader accepts the result, writing and reading it again
   must give the same document. */
static void mutations(void) {
    static const char doc[] = "{\"nodes\": [{\"id\": 1, \"op\": \"linear\", \"t\": -1.5e-3, \"s\": "
                              "\"\\u00e9\\uD83D\\uDE00\"},"
                              " {\"id\": 22, \"ok\": true, \"no\": false, \"z\": null, \"e\": [[], "
                              "{}]}], \"v\": \"\xE2\x82\xAC\"}";
    static const char letters[] = "{}[]:,\"\\u0123456789eE+-.truefalsn \n\x80\xE2\x1F";
    uint64_t state = 12345;
    int accepted = 0;
    for (int round = 0; round < 30000; round++) {
        char copy[sizeof doc];
        memcpy(copy, doc, sizeof doc);
        for (uint32_t k = random_u32(&state) % 4 + 1; k > 0; k--)
            copy[random_u32(&state) % (sizeof doc - 1)] =
                letters[random_u32(&state) % (sizeof letters - 1)];
        syn_sink *once, *twice;
        CHECK_INT(syn_sink_open_memory(&once, NULL), SYN_OK);
        CHECK_INT(syn_sink_open_memory(&twice, NULL), SYN_OK);
        const bool good = rewrite(copy, sizeof doc - 1, once);
        size_t n = 0, m = 0;
        const char *a = syn_sink_data(once, &n);
        const bool again = !good || rewrite(a, n, twice);
        const char *b = syn_sink_data(twice, &m);
        const bool same = again && (!good || (n == m && memcmp(a, b, n) == 0));
        accepted += good;
        (void)syn_sink_close(once, true, NULL);
        (void)syn_sink_close(twice, true, NULL);
        CHECK_MSG(same, "%s", copy);
    }
    /* If fewer were accepted, the test would cover little more than rejections. */
    CHECK_MSG(accepted > 1000, "%d", accepted);
}

/* GPT-2's vocabulary has 50257 different ids, which begin at 0. One of them is checked by name. */
static void real_vocabulary(void) {
    if (!have_shared_data()) SKIP("SYN_SHARED_DATA is not set");
    const char *path = shared_path("gpt2/vocab.json");
    size_t bytes;
    syn_error err = {0};
    char *text = file_bytes(path, &bytes);
    CHECK(text != NULL);
    static bool seen[50257];
    int n = 0, end_of_text = -1;
    syn_json j;
    syn_json_init(&j, path, text, bytes, &err);
    CHECK_OK(syn_json_expect(&j, SYN_JSON_OBJECT_BEGIN, "the vocabulary"), err);
    while (syn_json_next(&j) == SYN_JSON_KEY) {
        const bool is_end = strcmp(j.text, "<|endoftext|>") == 0;
        int64_t id = -1;
        CHECK_OK(syn_json_expect_i64(&j, "an id", 0, 50256, &id), err);
        CHECK(!seen[id]);
        seen[id] = true;
        n++;
        if (is_end) end_of_text = (int)id;
    }
    CHECK_INT(j.type, SYN_JSON_OBJECT_END);
    CHECK_INT(syn_json_next(&j), SYN_JSON_END);
    CHECK_INT(n, 50257);
    CHECK_INT(end_of_text, 50256);
    syn_json_free(&j);
    free(text);
}

static const test_case cases[] = {
    {"mutations", mutations},
    {"real_vocabulary", real_vocabulary},
};
TEST_MAIN(cases)
