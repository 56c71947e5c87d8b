/* Tests the parts of the WordPiece tokenizer: properties of code points, splitting of words, and
   reading of vocab.txt. The expected values are HuggingFace's, or come from a direct
   implementation. */
#include "models/tokenizer/wordpiece_private.h"

#include "models/tokenizer/tokenizer_cache_private.h"
#include "models/tokenizer/tokenizer_unicode_private.h"
#include "syntorch/base/memory.h"
#include "tests/support/random.h"
#include "tests/support/test.h"
#include "tests/support/tokenizer_fixture.h"
#include "tests/support/tokenizers.h"

#ifdef SYN_HAVE_UTF8PROC

static syn__wordpiece *read_text(const char *data) {
    syn_error err = {0};
    syn__wordpiece *wp;
    if (syn__wordpiece_read(&wp, "vocab.txt", data, strlen(data), &err) != SYN_OK)
        fprintf(stderr, "%s\n", err.text);
    return wp;
}

/* Results of the normalizer and the pre-tokenizer for each code point, alone and between combining
   marks of other classes, in all modes of the fixture. */
static void classes_of_all_code_points(void) {
    static const bool modes[5][3] = {{true, true, true},
                                     {false, false, true},
                                     {true, false, true},
                                     {false, true, true},
                                     {true, true, false}};
    if (!char_unicode_is_known()) SKIP("utf8proc has a Unicode version other than 14 to 17");
    syn_tokenizer *tok[5];
    for (int m = 0; m < 5; m++)
        CHECK((tok[m] = words_alone(modes[m][0], modes[m][1], modes[m][2])) != NULL);
    FILE *f = fixture_open("wordpiece_fixture.txt");
    CHECK(f != NULL);
    fixture_line line;
    unsigned blocks = 0;
    while (fixture_next(f, &line)) {
        if (strcmp(line.kind, "class") != 0) continue;
        const unsigned first = (unsigned)strtoul(line.rest, NULL, 16);
        blocks++;
        /* Most blocks from U+40000 on are skipped, because nothing up to U+DFFFF is assigned. */
        const unsigned few = TEST_REDUCED ? 32 : first < 0x40000 ? 1 : 8;
        if (first > 0x3000 && first / 4096 % few != 0) continue;
        for (int m = 0; m < 5; m++) {
            uint64_t hash = fnv_begin();
            for (unsigned c = first; c < first + 4096; c++) {
                char text[32], utf8[4];
                if (c >= 0xd800 && c < 0xe000) continue;
                const size_t n = syn_utf8_encode(c, utf8);
                memcpy(text, "a", 1);
                memcpy(text + 1, utf8, n);
                memcpy(text + 1 + n, "b x\xe3\x80\xae", 6);
                memcpy(text + 7 + n, utf8, n);
                memcpy(text + 7 + 2 * n, "\xe1\xae\xaa\xe3\x80\xae", 6);
                hash = hash_words(hash, tok[m], text, 13 + 2 * n);
            }
            char got[4];
            CHECK_MSG(strncmp(fnv_short(hash, got), line.numbers + 1 + 4 * m, 3) == 0,
                      "mode %d of U+%04X and on differs", m, first);
        }
    }
    fclose(f);
    CHECK_INT(blocks, 272);
    for (int m = 0; m < 5; m++) syn_tokenizer_free(tok[m]);
}

/* A direct implementation of the rule: for every end of the piece, compare with every token. */
static size_t cut_naively(const syn__wordpiece *wp, const char *word, size_t n, int32_t *ids) {
    size_t elems = 0;
    for (size_t pos = 0, end; pos < n; pos = end) {
        int32_t id = -1;
        for (end = n; end > pos && id < 0;) {
            char want[128];
            const size_t want_bytes = (size_t)snprintf(want, sizeof want, "%s%.*s", pos ? "##" : "",
                                                       (int)(end - pos), word + pos);
            for (int32_t t = 0; t < wp->vocab_elems; t++)
                if (wp->begin[t + 1] - wp->begin[t] == want_bytes &&
                    memcmp(wp->bytes + wp->begin[t], want, want_bytes) == 0)
                    id = t; /* if tokens are equal, the last one is used */
            end -= id < 0;
        }
        if (id < 0) {
            ids[0] = wp->unk;
            return 1;
        }
        ids[elems++] = id;
    }
    return elems;
}

/* Random tokens of a few letters, one of which has two bytes. */
static void cutting_takes_the_longest(void) {
    static const char *const letters[] = {"a", "b", "\xc3\xa6", "c"};
    uint64_t rng = 77;
    size_t unknown = 0, several = 0;
    for (int round = 0; round < TEST_ROUNDS(30); round++) {
        text_buffer vocab = {0};
        text_adds(&vocab, "[UNK]\n");
        for (int t = 0; t < 40; t++) {
            if (random_u32(&rng) % 2) text_adds(&vocab, "##");
            for (uint32_t left = random_u32(&rng) % 5 + 1; left > 0; left--)
                text_adds(&vocab, letters[random_u32(&rng) % 4]);
            text_adds(&vocab, "\n");
        }
        syn__wordpiece *wp = read_text(vocab.data);
        CHECK(wp != NULL);
        for (int k = 0; k < 300; k++) {
            text_buffer word = {0};
            int32_t want[100], got[100];
            for (uint32_t left = random_u32(&rng) % 20 + 1; left > 0; left--)
                text_adds(&word, letters[random_u32(&rng) % 3]);
            const size_t want_elems = cut_naively(wp, word.data, word.bytes, want);
            const size_t got_elems = syn__wordpiece_cut(wp, word.data, word.bytes, got);
            CHECK_MSG(got_elems == want_elems && memcmp(got, want, got_elems * sizeof *got) == 0,
                      "round %d: %s", round, word.data);
            unknown += got[0] == 0;
            several += got_elems > 2;
            free(word.data);
        }
        syn__wordpiece_free(wp);
        free(vocab.data);
    }
    CHECK(unknown > 500 && several > 500); /* both cases must have occurred */
}

/* Lines must get the same ids as in HuggingFace's BertTokenizer. */
static void lines_are_ids(void) {
    static const struct {
        const char *data, *token; /* every line after [UNK] */
        int32_t id, lines;
    } good[] = {
        {"[UNK]\nab\n", "ab", 1, 2},
        {"[UNK]\nab", "ab", 1, 2},
        {"[UNK]\r\nab\r\n", "ab", 1, 2},
        {"[UNK] \t\v\f \nab\xc2\xa0\xe3\x80\x80\xe2\x80\x8a\xe2\x80\xa8\xc2\x85\n", "ab", 1, 2},
        /* U+200B is not white space, so it belongs to the token. */
        {"[UNK]\nab\xe2\x80\x8b\n", "ab", -1, 2},
        {"[UNK]\nab\x1c\n", "ab", -1, 2},
        {"[UNK]\n\n\nab\n\n", "ab", 3, 5},
        {"[UNK]\nab\nb\nab\n", "ab", 3, 4},
        {"[UNK]\n ab\n", "ab", -1, 2},
        {"[UNK]\n##ab\n", "ab", -1, 2},
        {"[UNK]\n##\n", "##", 1, 2},
        {"[UNK]\na\rb\n", "a\rb", 1, 2},
        {"a\nab\n[UNK]", "ab", 1, 3},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        syn__wordpiece *wp = read_text(good[i].data);
        CHECK(wp != NULL);
        CHECK_INT(wp->vocab_elems, good[i].lines);
        const size_t n = strlen(good[i].token);
        CHECK_MSG(syn__wordpiece_find(wp, good[i].token, n, syn__bpe_hash(good[i].token, n)) ==
                      good[i].id,
                  "case %zu", i);
        CHECK_INT(wp->unk, i == 12 ? 2 : 0);
        syn__wordpiece_free(wp);
    }
}

static void bad_files_are_refused(void) {
    static const struct {
        const char *data;
        size_t bytes;
        const char *sentence;
    } bad[] = {
        {"", 0, "vocab.txt has no line [UNK]"},
        {"a\nb\n", 4, "vocab.txt has no line [UNK], the token for unknown words; its 2"},
        {"[unk]\n", 6, "has no line [UNK]"},
        {"##[UNK]\n", 8, "has no line [UNK]"},
        {"a\r[UNK]\rb", 9, "has no line [UNK]"},
        {"\0[UNK]\n", 7, "has no line [UNK]"},
        {"\xef\xbb\xbf[UNK]\na\n", 11, "vocab.txt:1: the file begins with a byte order mark"},
        {"[UNK]\na\n\xff\n", 10, "vocab.txt:3: not valid UTF-8 (byte 0xff)"},
        {"[UNK]\nab\xc3", 9, "vocab.txt:2: not valid UTF-8 (byte 0xc3)"},
        {"[UNK]\n\xed\xa0\x80\n", 10, "vocab.txt:2: not valid UTF-8 (byte 0xed)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        syn_error err = {0};
        syn__wordpiece *wp;
        CHECK_INT(syn__wordpiece_read(&wp, "vocab.txt", bad[i].data, bad[i].bytes, &err),
                  SYN_E_FORMAT);
        CHECK_HAS(err.text, bad[i].sentence);
        CHECK(wp == NULL);
        CHECK_INT(syn__wordpiece_read(&wp, "v", bad[i].data, bad[i].bytes, NULL), SYN_E_FORMAT);
    }
}

/* Reading a file that is truncated anywhere must stay within the buffer. */
static void truncated_files(void) {
    static const char data[] = "[UNK]\n##a\xe3\x80\x80\n\xc3\xa9\xe2\x80\x8a\r\n[MASK]\n";
    for (size_t cut = 0; cut < sizeof data; cut++) {
        syn__wordpiece *wp;
        char *exact = malloc(cut + 1);
        CHECK(exact != NULL);
        memcpy(exact, data, cut);
        const syn_status status = syn__wordpiece_read(&wp, "v", exact, cut, NULL);
        CHECK(status == SYN_E_FORMAT || (status == SYN_OK && cut >= 5));
        syn__wordpiece_free(wp);
        free(exact);
    }
}

/* Characters that the tokenizer removes do not change the words, but they select the code for
   non-ASCII words. */
static void both_ways_give_the_same(void) {
    syn_tokenizer *tok = words_alone(true, true, true);
    CHECK(tok != NULL);
    for (uint32_t i = 0; i < 2000; i++) {
        text_buffer text = {0}, dotted = {0};
        text_add_random(&text, i);
        for (size_t k = 0; k < text.bytes; k++) {
            text_add(&dotted, text.data + k, 1);
            if ((text.data[k] & 0x80) == 0) text_add(&dotted, "\1", 1);
        }
        CHECK_MSG(hash_words(0, tok, text.data, text.bytes) ==
                      hash_words(0, tok, dotted.data, dotted.bytes),
                  "text %u: %s", i, text.data);
        free(text.data);
        free(dotted.data);
    }
    syn_tokenizer_free(tok);
}

#else

static void without_utf8proc_a_sentence(void) {
    syn_error err = {0};
    syn_tokenizer *tok;
    put_tiny_bert();
    CHECK_INT(syn_tokenizer_load(&tok, in_folder(""), &err), SYN_E_UNSUPPORTED);
    CHECK_HAS(err.text, "libutf8proc-dev");
    CHECK_STR(syn__char_unicode(), "");
    CHECK(tok == NULL);
}

#endif

/* The word cache, which BPE also uses, stores words that fit into a slot and no others. */
static void cache_keeps_what_fits(void) {
    static const char word[] = "abcdefghijklmnopqrstuvwxyza";
    const int32_t ids[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    int32_t got[9] = {0};
    syn__cached_word *cache;
    CHECK(syn__cache_new(&cache, SYN__CACHE_FROM_BYTES - 1, NULL) == SYN_OK && cache == NULL);
    syn__cache_keep(cache, word, 3, 7, ids, 1);
    CHECK_INT(syn__cache_find(cache, word, 3, 7, got), 0);
    CHECK(syn__cache_new(&cache, SYN__CACHE_FROM_BYTES, NULL) == SYN_OK && cache != NULL);
    syn__cache_keep(cache, word, 27, 7, ids, 8);
    syn__cache_keep(cache, word, 26, 7, ids, 9);
    CHECK(cache[7].bytes == 0 && cache[8].hash == 0);
    CHECK_INT(syn__cache_find(cache, word, 27, 7, got), 0);
    CHECK_INT(syn__cache_find(cache, word, 26, 7, got), 0);
    syn__cache_keep(cache, word, 26, 7, ids, 8);
    CHECK_INT(syn__cache_find(cache, word, 26, 7, got), 8);
    CHECK(memcmp(got, ids, sizeof ids - sizeof *ids) == 0);
    CHECK_INT(syn__cache_find(cache, word, 25, 7, got), 0);
    CHECK_INT(syn__cache_find(cache, word, 26, 7 + SYN__CACHE_SLOTS, got), 0);
    CHECK_INT(syn__cache_find(cache, word + 1, 26, 7, got), 0);
    syn_free(cache);
}

static const test_case cases[] = {
    {"cache keeps what fits", cache_keeps_what_fits},
#ifdef SYN_HAVE_UTF8PROC
    {"classes of all code points", classes_of_all_code_points},
    {"cutting takes the longest", cutting_takes_the_longest},
    {"lines are ids", lines_are_ids},
    {"bad files are refused", bad_files_are_refused},
    {"truncated files", truncated_files},
    {"both ways give the same", both_ways_give_the_same},
#else
    {"without utf8proc a sentence", without_utf8proc_a_sentence},
#endif
};

TEST_MAIN(cases)
