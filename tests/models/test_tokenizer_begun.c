/* Tests incremental decoding, that is, decoding while ids are still being generated. Text that was
   returned must never change, and the last call must return the whole text. */
#include "models/tokenizer/tokenizer_private.h"
#include "tests/support/files.h"
#include "tests/support/random.h"
#include "tests/support/test.h"

#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"

enum { IDS = 60, ROUNDS = 300 };

static uint64_t random_below(uint64_t *state, uint64_t n) {
    return n ? random_u64(state) % n : 0;
}

/* Random ids from the whole vocabulary, or from a few ids, so that tokens of single bytes are often
   adjacent. */
static size_t some_ids(uint64_t seed, int32_t vocab, int32_t *ids) {
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    const int32_t few = seed % 3 == 0 ? vocab : seed % 3 == 1 && vocab > 300 ? 300 : 12;
    const int32_t first = few == vocab ? 0 : (int32_t)random_below(&state, (uint64_t)(vocab - few));
    const size_t n = 1 + (size_t)random_below(&state, IDS);
    for (size_t i = 0; i < n; i++) ids[i] = first + (int32_t)random_below(&state, (uint64_t)few);
    return n;
}

static bool is_byte(const syn_tokenizer *tok, int32_t id) {
    size_t bytes;
    const char *text = syn_tokenizer_token(tok, id, &bytes);
    return bytes == 6 && memcmp(text, "<0x", 3) == 0;
}

/* Whether the decoded text of the first i ids grows with i and is always a prefix of the whole
   text. With `soon`, bytes may be held back only while the rest of their character is missing. */
static bool grows(const syn_tokenizer *tok, const int32_t *ids, size_t n, bool soon,
                  size_t *total) {
    char *whole, *text;
    size_t bytes, whole_bytes, before = 0;
    if (syn_tokenizer_decode(tok, ids, n, &whole, &whole_bytes, NULL) != SYN_OK) return false;
    bool good = true;
    for (size_t i = 0; i <= n && good; i++) {
        if (syn_tokenizer_decode_begun(tok, ids, i, &text, &bytes, NULL) != SYN_OK) return false;
        good = bytes >= before && bytes <= whole_bytes && memcmp(text, whole, bytes) == 0 &&
               text[bytes] == '\0';
        before = bytes;
        syn_free(text);
    }
    *total += before;
    if (soon && syn_utf8_valid(whole, whole_bytes) && !is_byte(tok, ids[n - 1]))
        good = good && (before == whole_bytes || *total == 0);
    syn_free(whole);
    return good;
}

static void check_kind(const syn_tokenizer *tok, const char *name, bool flows) {
    int32_t ids[IDS];
    size_t total = 0;
    bool good = true;
    for (uint64_t seed = 0; seed < ROUNDS && good; seed++) {
        const size_t n = some_ids(seed, syn_tokenizer_vocab_size(tok), ids);
        good = grows(tok, ids, n, true, &total);
        CHECK_MSG(good, "%s: the text of %zu ids changes (seed %d)", name, n, (int)seed);
    }
    CHECK_MSG((total > 0) == flows, "%s: %zu bytes came early", name, total);
}

static void every_kind(void) {
    static const char *const names[] = {"bert_cased", "bert_uncased", "glued",         "gpt2",
                                        "llama2",     "llama2_meta",  "llama3",        "mistral",
                                        "odd_bpe",    "odd_bytes",    "odd_wordpiece", "qwen"};
    syn_tokenizer *tok;
    syn_error err = {0};
    CHECK_OK(syn_tokenizer_open_bytes(&tok, &err), err);
    check_kind(tok, "bytes", true);
    syn_tokenizer_free(tok);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const syn_status s =
            syn_tokenizer_load(&tok, reference_path("tokenizers/%s", names[i]), &err);
        if (s == SYN_E_UNSUPPORTED) SKIP("built without PCRE2 or utf8proc");
        CHECK_OK(s, err);
        /* A Replace decoder after Fuse needs the whole text. */
        check_kind(tok, names[i], strcmp(names[i], "odd_wordpiece") != 0);
        syn_tokenizer_free(tok);
    }
}

/* U+20AC as three byte tokens, and as one token. */
static void bytes_wait_for_others(void) {
    static const char euro[] = "\xe2\x82\xac";
    const int32_t ids[] = {'a', 0xe2, 0x82, 0xac, 0x82, 0xe2, 'b'};
    static const char *const want[] = {"",
                                       "a",
                                       "a",
                                       "a",
                                       "a\xe2\x82\xac",
                                       "a\xe2\x82\xac\x82",
                                       "a\xe2\x82\xac\x82",
                                       ("a\xe2\x82\xac\x82\xe2"
                                        "b")};
    syn_tokenizer *tok;
    syn_error err = {0};
    char *text;
    size_t bytes;
    CHECK_OK(syn_tokenizer_open_bytes(&tok, &err), err);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        CHECK_OK(syn_tokenizer_decode_begun(tok, ids, i, &text, &bytes, &err), err);
        CHECK_STR(text, want[i]);
        CHECK_INT(bytes, strlen(want[i]));
        syn_free(text);
    }
    CHECK_INT(syn_tokenizer_decode_begun(tok, (const int32_t[]){256}, 1, &text, &bytes, &err),
              SYN_E_INVALID);
    CHECK_HAS(err.text, "id 256 at position 0 is not one of the 256 tokens");
    syn_tokenizer_free(tok);
    const syn_status s = syn_tokenizer_load(&tok, reference_path("tokenizers/llama2"), &err);
    if (s == SYN_E_UNSUPPORTED) SKIP("built without PCRE2 or utf8proc");
    CHECK_OK(s, err);
    int32_t parts[5], n = 0; /* the ids of "<0xE2>", ... and of the whole character */
    for (int i = 0; i < 3; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned char)euro[i]);
        for (int32_t id = 0; id < syn_tokenizer_vocab_size(tok); id++) {
            const char *token = syn_tokenizer_token(tok, id, &bytes);
            if (bytes == 6 && memcmp(token, name, 6) == 0) parts[n++] = id;
        }
    }
    CHECK_INT(n, 3);
    int32_t *plain;
    size_t n_plain;
    CHECK_OK(syn_tokenizer_encode(tok, "a", 1, &plain, &n_plain, &err), err);
    parts[3] = plain[n_plain - 1];
    syn_free(plain);
    for (size_t i = 0; i <= 4; i++) {
        CHECK_OK(syn_tokenizer_decode_begun(tok, parts, i, &text, &bytes, &err), err);
        CHECK_INT(bytes == 0, i < 4);
        if (i == 4) CHECK(memcmp(text, euro, 3) == 0);
        syn_free(text);
    }
    syn_tokenizer_free(tok);
}

/* Writes a tokenizer.json with tokens that some decoder treats specially, and with random decoders
   in any order. */
static void put_decoders(uint64_t *state, char *json, size_t json_bytes) {
    static const char *const kinds[] = {
        "{\"type\": \"ByteLevel\"}",
        "{\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": true}",
        "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"always\"}",
        "{\"type\": \"ByteFallback\"}",
        "{\"type\": \"Fuse\"}",
        "{\"type\": \"Strip\", \"content\": \"a\", \"start\": 1, \"stop\": 0}",
        "{\"type\": \"Strip\", \"content\": \" \", \"start\": 2, \"stop\": 1}",
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \"_\"}, \"content\": \" \"}",
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \"ab\"}, \"content\": \"<0x41>\"}",
    };
    const uint64_t n = 1 + random_below(state, 5);
    size_t used = (size_t)snprintf(
        json, json_bytes,
        "{\"model\": {\"type\": \"BPE\", \"byte_fallback\": true, \"merges\": [], \"vocab\": {"
        "\"a\": 0, \"b\": 1, \"_\": 2, \"_a\": 3, \" \": 4, \"##b\": 5, \"<0xE2>\": 6, "
        "\"<0x82>\": 7, \"<0xAC>\": 8, \"<0x41>\": 9, \"<0x\": 10, \"41>\": 11, \".\": 12, "
        "\"ab\": 13, \"\u00e2\": 14, \"\u0124\": 15, \"\u00ac\": 16}}, \"decoder\": "
        "{\"type\": \"Sequence\", \"decoders\": [");
    for (uint64_t i = 0; i < n; i++)
        used += (size_t)snprintf(json + used, json_bytes - used, "%s%s", i ? ", " : "",
                                 kinds[random_below(state, sizeof kinds / sizeof *kinds)]);
    snprintf(json + used, json_bytes - used, "]}}");
}

static void any_decoders(void) {
    uint64_t state = 7;
    int flowed = 0;
    for (int round = 0; round < 1500; round++) {
        char json[2000];
        int32_t ids[IDS];
        size_t total = 0;
        syn_error err = {0};
        syn_tokenizer *tok = NULL;
        put_decoders(&state, json, sizeof json);
        CHECK_OK(syn_tokenizer_open_bytes(&tok, &err), err);
        const syn_status s = syn__tok_open_data(tok, "x", json, strlen(json), &err);
        if (s == SYN_E_UNSUPPORTED) {
            syn_tokenizer_free(tok);
            SKIP("built without PCRE2");
        }
        CHECK_OK(s, err);
        bool good = true;
        for (int k = 0; k < 8 && good; k++) {
            const size_t n = 1 + (size_t)random_below(&state, 12);
            for (size_t i = 0; i < n; i++) ids[i] = (int32_t)random_below(&state, 17);
            good = grows(tok, ids, n, false, &total);
        }
        CHECK_MSG(good, "texts change: %s", json);
        flowed += total > 0;
        syn_tokenizer_free(tok);
    }
    CHECK(flowed > 200 && flowed < 1500);
}

static const test_case cases[] = {
    {"every kind", every_kind},
    {"any decoders", any_decoders},
    {"bytes wait for others", bytes_wait_for_others},
};
TEST_MAIN(cases)
