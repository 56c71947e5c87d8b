/* Tests string slices, growing buffers and arenas. */
#include <stddef.h>

#include "export/text/arena.h"
#include "syntorch/base/memory.h"
#include "tests/support/test.h"

static void test_slices(void) {
    const syn__str s = {"aten::add_ or not", 10}; /* the slice is "aten::add_" */
    CHECK(syn__str_is(s, "aten::add_") && !syn__str_is(s, "aten::add"));
    CHECK(syn__str_begins(s, "aten::") && !syn__str_begins(s, "aten::add_ "));
    CHECK(syn__str_has(s, "add_") && !syn__str_has(s, "or"));
    /* The match begins within a partial match that fails. */
    CHECK(syn__str_has(syn__str_of("aaab"), "aab"));
    CHECK(syn__str_is_utf8(syn__str_of("eight bytes and \xC3\xA9")));
    CHECK(!syn__str_is_utf8(syn__str_of("eight bytes and \xC3")));
}

static void test_growing(void) {
    syn__buf buf = {0};
    for (int i = 0; i < 1000; i++) syn__buf_put(&buf, "0123456789", 10);
    CHECK_INT(buf.bytes, 10000);
    CHECK(!buf.failed && memcmp(buf.data + 9990, "0123456789", 10) == 0);
    syn_memory_fail_after(0);
    syn__buf_put(&buf, buf.data, 10000);
    syn_memory_fail_after(SYN_MEMORY_NEVER);
    CHECK(buf.failed);
    /* After a failure nothing is appended, because a gap in the text would go unnoticed. */
    syn__buf_put(&buf, "x", 1);
    CHECK_INT(buf.bytes, 10000);
    syn__buf_free(&buf);
    CHECK(buf.data == NULL && !buf.failed);
}

/* Pieces of all sizes keep their content, however many are allocated after them. */
static void test_pieces(void) {
    syn__arena arena = {0};
    unsigned char *pieces[300];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 300; i++) {
            pieces[i] = syn__arena_get(&arena, i * i);
            CHECK(pieces[i] != NULL && (uintptr_t)pieces[i] % _Alignof(max_align_t) == 0);
            memset(pieces[i], (int)i, i * i);
        }
        for (size_t i = 0; i < 300; i++)
            for (size_t k = 0; k < i * i; k++) CHECK_INT(pieces[i][k], i & 255);
        syn__arena_reset(&arena);
    }
    const uint64_t before = syn_memory_calls();
    CHECK(syn__arena_get(&arena, 1000) != NULL); /* taken from the block that the reset kept */
    CHECK_INT(syn_memory_calls(), before);
    CHECK(syn__arena_get(&arena, SIZE_MAX) == NULL);
    syn_memory_fail_after(0);
    CHECK(syn__arena_get(&arena, (size_t)1 << 24) == NULL);
    syn_memory_fail_after(SYN_MEMORY_NEVER);
    syn__arena_free(&arena);
}

static void test_texts(void) {
    syn__arena arena = {0};
    const char *good = "caf\xC3\xA9";
    CHECK_STR(syn__arena_copy(&arena, good), good);
    CHECK_STR(syn__arena_text(&arena, (syn__str){good, 3}), "caf");
    CHECK_STR(syn__arena_text(&arena, (syn__str){"a\0b", 3}), "a\xEF\xBF\xBD"
                                                              "b");
    CHECK(syn__arena_utf8(&arena, syn__str_of(good)).text == good);
    const syn__str repaired = syn__arena_utf8(&arena, syn__str_of("a\xFF\xC3\xA9\xE2\x82"));
    CHECK_STR(repaired.text, "a\xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD");
    CHECK_INT(repaired.bytes, strlen(repaired.text));
    syn__arena_free(&arena);
}

static const test_case cases[] = {
    {"slices", test_slices},
    {"growing", test_growing},
    {"pieces", test_pieces},
    {"texts", test_texts},
};

TEST_MAIN(cases)
