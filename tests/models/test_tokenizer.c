/* Tests the interface of tokenizers with GPT-2's: ids are compared with HuggingFace's, decoding
   must return the bytes of the text, and errors are tested. */
#include "models/tokenizer/tokenizer.h"

#include "models/tokenizer/bpe_private.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"
#include "tests/support/random.h"
#include "tests/support/test.h"
#include "tests/support/tokenizer_fixture.h"
#include "tests/support/tokenizers.h"

/* Encodes a text, decodes the ids, and compares the result with the text. The caller frees the
   ids. */
static bool round_trip(const syn_tokenizer *tok, const char *text, size_t bytes, int32_t **ids,
                       size_t *elems) {
    syn_error err = {0};
    char *back;
    size_t back_bytes;
    if (syn_tokenizer_encode(tok, text, bytes, ids, elems, &err) != SYN_OK ||
        syn_tokenizer_decode(tok, *ids, *elems, &back, &back_bytes, &err) != SYN_OK) {
        fprintf(stderr, "%s\n", err.text);
        return false;
    }
    const bool same = back_bytes == bytes && memcmp(back, text, bytes) == 0 && back[bytes] == '\0';
    syn_free(back);
    return same && *elems <= bytes;
}

static void bytes_are_ids(void) {
    syn_error err = {0};
    syn_tokenizer *tok;
    CHECK_OK(syn_tokenizer_open_bytes(&tok, &err), err);
    CHECK_STR(syn_tokenizer_name(tok), "bytes");
    CHECK_INT(syn_tokenizer_kind_of(tok), SYN_TOKENIZER_BYTES);
    CHECK_INT(syn_tokenizer_vocab_size(tok), 256);
    CHECK_INT(syn_tokenizer_eos(tok), -1);
    uint64_t rng = 7;
    for (size_t n = 0; n < 600; n += 1 + n / 8) {
        char text[600];
        for (size_t i = 0; i < n; i++) text[i] = (char)random_u32(&rng);
        int32_t *ids;
        size_t elems;
        CHECK(round_trip(tok, text, n, &ids, &elems));
        CHECK_INT(elems, n);
        for (size_t i = 0; i < n; i++) CHECK_INT(ids[i], (unsigned char)text[i]);
        syn_free(ids);
    }
    char *text;
    size_t bytes;
    const char *token = syn_tokenizer_token(tok, 200, &bytes);
    CHECK(bytes == 1 && *token == (char)200 && syn_tokenizer_token(tok, 256, &bytes) == NULL);
    const int32_t outside[] = {65, 256}, negative[] = {-1};
    CHECK_INT(syn_tokenizer_decode(tok, outside, 2, &text, &bytes, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "id 256 at position 1 is not one of the 256 tokens");
    CHECK_INT(syn_tokenizer_decode(tok, negative, 1, &text, &bytes, NULL), SYN_E_INVALID);
    CHECK(text == NULL);
    syn_tokenizer_free(tok);
    syn_tokenizer_free(NULL);
}

#ifdef SYN_HAVE_PCRE2

/* If every byte has a token, unk_token is never needed, so it may be missing in the vocabulary.
   HuggingFace's tokenizers library also accepts such a file. */
static void unk_token_of_bytes(void) {
    char json[8192], spelled[4];
    const char *rest;
    size_t used = 0;
    for (unsigned b = 0; b < 256; b++) {
        const size_t bytes = syn__bpe_spell((unsigned char)b, spelled);
        const bool escaped = bytes == 1 && (spelled[0] == '"' || spelled[0] == '\\');
        used += (size_t)snprintf(json + used, sizeof json - used, "%s\"%s%.*s\": %u", b ? ", " : "",
                                 escaped ? "\\" : "", (int)bytes, spelled, b);
    }
    char file[9000];
    snprintf(file, sizeof file,
             "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
             "\"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", "
             "\"unk_token\": \"<unk>\", \"vocab\": {%s}, \"merges\": []}}",
             json);
    put_text("tokenizer.json", file);
    syn_tokenizer *tok = load_folder();
    CHECK(tok != NULL);
    CHECK(gives(tok, "a\u00e9", 3, " 97 195 169", &rest));
    syn_tokenizer_free(tok);
}

static syn_tokenizer *load_tiny(void) {
    put_tiny_gpt2();
    return load_folder();
}

/* Every line of this kind must give the fixture's ids. Returns the number of lines, or 0 after a
   difference. */
static size_t match_fixture(const syn_tokenizer *tok, const char *kind) {
    static long want[1 << 14];
    size_t lines = 0, elems;
    FILE *f = fixture_open("tokenizer_fixture.txt");
    fixture_line line;
    while (f != NULL && fixture_next(f, &line)) {
        if (strcmp(line.kind, kind) != 0) continue;
        const size_t want_elems = fixture_numbers(line.numbers, want, 1 << 14);
        int32_t *ids = NULL;
        bool same =
            round_trip(tok, line.text, line.text_bytes, &ids, &elems) && elems == want_elems;
        for (size_t i = 0; same && i < elems; i++) same = ids[i] == want[i];
        syn_free(ids);
        lines++;
        if (same) continue;
        fprintf(stderr, "the ids differ: %s %s\n", kind, line.rest);
        lines = 0;
        break;
    }
    if (f != NULL) fclose(f);
    return lines;
}

static void tiny_vocabulary(void) {
    syn_tokenizer *tok = load_tiny();
    CHECK(tok != NULL);
    CHECK_STR(syn_tokenizer_name(tok), "gpt2-bpe");
    /* Two of the 37 merges give the same token, "abc". */
    CHECK_INT(syn_tokenizer_vocab_size(tok), 256 + 36 + 1);
    CHECK_INT(syn_tokenizer_eos(tok), 256 + 36);
    CHECK(match_fixture(tok, "tiny") > 300);
    syn_tokenizer_free(tok);
}

static void gpt2_vocabulary(void) {
    if (!have_shared_data()) SKIP("SYN_SHARED_DATA is not set");
    syn_tokenizer *tok = load_shared("gpt2");
    CHECK(tok != NULL);
    CHECK_INT(syn_tokenizer_vocab_size(tok), 50257);
    CHECK_INT(syn_tokenizer_eos(tok), 50256);
    CHECK(match_fixture(tok, "gpt2") > 300);
    syn_tokenizer_free(tok);
}

/* Compares the next "squad" line. Prints a difference and returns false if there is one. */
static bool match_squad(FILE *f, const syn_tokenizer *tok, const syn_json *json) {
    fixture_line line;
    do
        if (!fixture_next(f, &line)) return false;
    while (strcmp(line.kind, "squad") != 0);
    int32_t *ids = NULL;
    size_t elems;
    char *hash_text;
    const bool same = round_trip(tok, json->text, json->text_bytes, &ids, &elems) &&
                      elems == strtoul(line.rest, &hash_text, 10) &&
                      fnv_ids(fnv_begin(), ids, elems) == strtoull(hash_text, NULL, 16);
    syn_free(ids);
    if (!same) fprintf(stderr, "the ids differ: %s\n", json->text);
    return same;
}

static void squad_text(void) {
    if (!have_shared_data()) SKIP("SYN_SHARED_DATA is not set");
    static const char *const names[] = {"squad/train-v1.1-excerpt.json",
                                        "squad/dev-v1.1-excerpt.json"};
    syn_tokenizer *tok = load_shared("gpt2");
    FILE *f = fixture_open("tokenizer_fixture.txt");
    CHECK(tok != NULL && f != NULL);
    size_t texts = 0;
    for (int i = 0; i < 2; i++) {
        size_t bytes;
        syn_error err = {0};
        char *data = file_bytes(shared_path("%s", names[i]), &bytes);
        CHECK(data != NULL);
        syn_json json;
        syn_json_init(&json, names[i], data, bytes, &err);
        for (; squad_next(&json); texts++) CHECK(match_squad(f, tok, &json));
        CHECK_MSG(json.type == SYN_JSON_END, "%s", err.text);
        syn_json_free(&json);
        free(data);
    }
    CHECK_INT(texts, 1188);
    fclose(f);
    syn_tokenizer_free(tok);
}

/* The ids must be HuggingFace's and decode to the text. */
static void random_texts(void) {
    if (!have_shared_data()) SKIP("SYN_SHARED_DATA is not set");
    syn_tokenizer *tok = load_shared("gpt2");
    FILE *f = fixture_open("random_fixture.txt");
    CHECK(tok != NULL && f != NULL);
    char line[32], got[4];
    for (uint32_t i = 0; i < RANDOM_TEXTS; i++) {
        text_buffer text = {0};
        int32_t *ids;
        size_t elems;
        text_add_random(&text, i);
        CHECK(fgets(line, sizeof line, f) != NULL);
        CHECK_MSG(round_trip(tok, text.data, text.bytes, &ids, &elems), "text %u", i);
        CHECK_MSG(strncmp(fnv_short(fnv_ids(fnv_begin(), ids, elems), got), line, 3) == 0,
                  "the ids of text %u differ: %s", i, text.data);
        syn_free(ids);
        free(text.data);
    }
    CHECK(fgets(line, sizeof line, f) == NULL);
    fclose(f);
    syn_tokenizer_free(tok);
}

static void tokens_and_their_names(void) {
    syn_tokenizer *tok = load_tiny();
    CHECK(tok != NULL);
    size_t bytes;
    CHECK_INT(syn_tokenizer_kind_of(tok), SYN_TOKENIZER_BPE);
    CHECK_INT(syn_tokenizer_special(tok, "<|endoftext|>"), 256 + 36);
    CHECK_INT(syn_tokenizer_special(tok, "[MASK]"), -1);
    /* This is a token, but not a special token. */
    CHECK_INT(syn_tokenizer_special(tok, "hello"), -1);
    const char *token = syn_tokenizer_token(tok, 256 + 3, &bytes);
    CHECK(bytes == 5 && memcmp(token, "hello", 5) == 0);
    token = syn_tokenizer_token(tok, 0, &bytes);
    CHECK(bytes == 1 && *token == 0);
    CHECK(syn_tokenizer_token(tok, 256 + 37, &bytes) == NULL && bytes == 0);
    CHECK(syn_tokenizer_token(tok, -1, &bytes) == NULL);
    int32_t *ids, *types;
    syn_error err = {0};
    CHECK_INT(syn_tokenizer_encode_pair(tok, "a", 1, NULL, 0, &ids, &types, &bytes, &err),
              SYN_E_INVALID);
    CHECK_HAS(err.text, "(gpt2-bpe) lacks [CLS] or [SEP]");
    syn_tokenizer_free(tok);
}

/* Random characters from all of Unicode, between letters that can be merged. */
static size_t random_text(uint64_t *rng, char *text, size_t max) {
    size_t n = 0;
    while (n + 16 < max) {
        unsigned c = random_u32(rng);
        const unsigned kind = c % 8;
        c >>= 8;
        if (kind < 5) text[n++] = "hello wab \n'123!"[c % 16];
        else if (kind == 5 && c % 64 == 0) n += (size_t)sprintf(text + n, "<|endoftext|>");
        else {
            c %= kind == 6 ? 0x800 : 0x110000;
            if (c >= 0xd800 && c < 0xe000) continue;
            n += syn_utf8_encode(c, text + n);
        }
    }
    return n;
}

/* Decoding returns the text. A long text, for which the word cache is used, must give the ids of
   its parts one after the other. */
static void any_utf8_round_trips(void) {
    enum { MAX = 40000 };
    syn_tokenizer *tok = load_tiny();
    CHECK(tok != NULL);
    char *text = malloc(MAX);
    CHECK(text != NULL);
    uint64_t rng = 4242;
    for (int round = 0; round < 60; round++) {
        const size_t bytes = random_text(&rng, text, round < 50 ? 20 + (size_t)round * 20 : MAX);
        int32_t *ids = NULL, *part = NULL;
        size_t elems, part_elems, at = 0;
        CHECK(round_trip(tok, text, bytes, &ids, &elems));
        /* A word never extends across a special token, so the ids are those of the pieces one after
           the other. */
        for (size_t from = 0, to; from < bytes; from = to) {
            const char *special = NULL;
            for (to = from; to < bytes && special == NULL; to++)
                if (strncmp(text + to, "<|endoftext|>", bytes - to < 13 ? bytes - to : 13) == 0 &&
                    bytes - to >= 13)
                    special = text + to--;
            if (special != NULL && to == from) to = from + 13;
            CHECK(round_trip(tok, text + from, to - from, &part, &part_elems));
            CHECK(at + part_elems <= elems);
            CHECK(memcmp(part, ids + at, part_elems * sizeof *ids) == 0);
            at += part_elems;
            syn_free(part);
        }
        CHECK_INT(at, elems);
        syn_free(ids);
    }
    free(text);
    syn_tokenizer_free(tok);
}

/* A repeated line must have the same ids as one short line. The word cache is used only for long
   texts. */
static void cache_changes_nothing(void) {
    static const char line[] = "abcab heheheh xyyxyx caf\xc3\xa9\xc3\xa9 12312 wwabab\n";
    enum { LINES = 2000 };
    syn_tokenizer *tok = load_tiny();
    CHECK(tok != NULL);
    const size_t bytes = sizeof line - 1;
    char *text = malloc(LINES * bytes);
    CHECK(text != NULL);
    for (size_t i = 0; i < LINES; i++) memcpy(text + i * bytes, line, bytes);
    int32_t *one, *all;
    size_t one_elems, all_elems;
    CHECK(round_trip(tok, line, bytes, &one, &one_elems));
    CHECK(round_trip(tok, text, LINES * bytes, &all, &all_elems));
    CHECK_INT(all_elems, LINES * one_elems);
    for (size_t i = 0; i < LINES; i++)
        CHECK(memcmp(all + i * one_elems, one, one_elems * sizeof *one) == 0);
    syn_free(one);
    syn_free(all);
    free(text);
    syn_tokenizer_free(tok);
}

typedef struct hashed_word {
    uint32_t hash;
    char text[9];
} hashed_word;

static int by_hash(const void *a, const void *b) {
    const hashed_word *x = a, *y = b;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* The word cache must distinguish two words that have the same hash and occur alternately. */
static void equal_hashes_are_distinguished(void) {
    enum { WORDS = 1 << 18, REPEATS = 2000 };
    syn_tokenizer *tok = load_tiny();
    hashed_word *words = calloc(WORDS, sizeof *words);
    CHECK(tok != NULL && words != NULL);
    uint64_t rng = 31337;
    for (size_t i = 0; i < WORDS; i++) {
        for (int k = 0; k < 8; k++) words[i].text[k] = (char)('a' + random_u32(&rng) % 26);
        words[i].hash = syn__bpe_hash(words[i].text, 8);
    }
    qsort(words, WORDS, sizeof *words, by_hash);
    size_t pairs = 0; /* about 2^36 / 2 / 2^32 = 8 pairs are expected */
    for (size_t i = 0; i + 1 < WORDS; i++) {
        if (words[i].hash != words[i + 1].hash || strcmp(words[i].text, words[i + 1].text) == 0)
            continue;
        text_buffer text = {0};
        for (int k = 0; k < REPEATS; k++) {
            text_adds(&text, words[i + (size_t)(k & 1)].text);
            text_adds(&text, "\n");
        }
        int32_t *ids;
        size_t elems;
        CHECK(round_trip(tok, text.data, text.bytes, &ids, &elems));
        syn_free(ids);
        free(text.data);
        pairs++;
    }
    CHECK(pairs > 0);
    free(words);
    syn_tokenizer_free(tok);
}

static void bad_utf8_is_refused(void) {
    static const struct {
        const char *text;
        size_t bytes, offset;
    } bad[] = {
        {"\x80", 1, 0},
        {"abc\xff", 4, 3},
        {"hello world\xc3", 12, 11},        /* a truncated character */
        {"12345678\xc0\xaf", 10, 8},        /* an overlong encoding */
        {"\xe4\xb8\xad\xed\xa0\x80", 6, 3}, /* a surrogate */
        {"ab\xf4\x90\x80\x80", 6, 2},       /* above U+10FFFF */
        {"<|endoftext|>a\xe2\x82", 16, 14},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xf0\x9f\x98z", 38, 34},
    };
    syn_tokenizer *tok = load_tiny();
    CHECK(tok != NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        syn_error err = {0};
        int32_t *ids;
        size_t elems;
        char want[64];
        snprintf(want, sizeof want, "not valid UTF-8 at byte offset %zu ", bad[i].offset);
        CHECK_INT(syn_tokenizer_encode(tok, bad[i].text, bad[i].bytes, &ids, &elems, &err),
                  SYN_E_INVALID);
        CHECK_HAS(err.text, want);
        CHECK(ids == NULL && elems == 0);
    }
    /* Ids that end inside a character decode to the character's first bytes. */
    const int32_t half[] = {0xe2, 0x82};
    char *text;
    size_t bytes;
    syn_error err = {0};
    CHECK_OK(syn_tokenizer_decode(tok, half, 2, &text, &bytes, &err), err);
    CHECK(bytes == 2 && memcmp(text, "\xe2\x82", 3) == 0);
    syn_free(text);
    syn_tokenizer_free(tok);
}

static void missing_and_oversized_files(void) {
    syn_error err = {0};
    syn_tokenizer *tok;
    CHECK_INT(syn_tokenizer_load(&tok, "/nonexistent/folder", &err), SYN_E_IO);
    CHECK_HAS(err.text, "/nonexistent/folder is not a folder with a tokenizer");
    CHECK(tok == NULL);
    const char *path = in_folder("merges.txt");
    put_tiny_gpt2();
    remove_all(path);
    syn_error missing = {0};
    CHECK_INT(syn_tokenizer_load(&tok, in_folder(""), &missing), SYN_E_IO);
    CHECK_HAS(missing.text, "merges.txt");
    FILE *f = fopen(path, "wb"); /* a sparse file with more than 64 MiB */
    CHECK(f != NULL);
    CHECK(fseek(f, 64L << 20, SEEK_SET) == 0 && fputc('\n', f) == '\n' && fclose(f) == 0);
    syn_error large = {0};
    CHECK(syn_tokenizer_load(&tok, in_folder(""), &large) != SYN_OK);
    CHECK_HAS(large.text, "merges.txt");
}

/* The text is long enough for the word cache and has a word that needs heap memory. */
static syn_status load_and_use(void *text, syn_error *err) {
    const size_t length = strlen(text);
    syn_tokenizer *tok;
    int32_t *ids = NULL;
    char *back = NULL;
    size_t elems, bytes;
    SYN_TRY(syn_tokenizer_load(&tok, in_folder(""), err));
    syn_status status = syn_tokenizer_encode(tok, text, length, &ids, &elems, err);
    if (status == SYN_OK) status = syn_tokenizer_decode(tok, ids, elems, &back, &bytes, err);
    if (status == SYN_OK && (bytes != length || memcmp(back, text, length) != 0))
        status = SYN_E_INVALID;
    syn_free(back);
    syn_free(ids);
    syn_tokenizer_free(tok);
    return status;
}

static void every_allocation_may_fail(void) {
    static const char words[] = "hello abcab<|endoftext|> \xc3\xa9 ";
    static char text[17000];
    memset(text, 'a', sizeof text - 1);
    memcpy(text, words, sizeof words - 1);
    text[200] = ' ';
    put_tiny_gpt2();
    CHECK(test_without_memory(load_and_use, text) > 20);
}

static void *encode_often(void *arg) {
    const syn_tokenizer *tok = arg;
    static const char text[] = "hello world, abcab 12312 caf\xc3\xa9<|endoftext|>";
    for (int i = 0; i < 300; i++) {
        int32_t *ids = NULL;
        size_t elems;
        const bool same = round_trip(tok, text, sizeof text - 1, &ids, &elems);
        syn_free(ids);
        if (!same) return arg;
    }
    return NULL;
}

static void threads_share_a_tokenizer(void) {
    syn_tokenizer *tok = load_tiny();
    CHECK(tok != NULL);
    CHECK(in_four_threads(encode_often, tok));
    syn_tokenizer_free(tok);
}

#else

static void without_pcre2_a_sentence(void) {
    syn_error err = {0};
    syn_tokenizer *tok;
    put_tiny_gpt2();
    CHECK_INT(syn_tokenizer_load(&tok, in_folder(""), &err), SYN_E_UNSUPPORTED);
    CHECK_HAS(err.text, "libpcre2-dev");
    CHECK(tok == NULL);
}

#endif

/* Characters without a token. With an unk_token, they separate the characters around them. Without
   one, they are removed before merging. The expected ids are those of tokenizers 0.23.3. */
static void unknown_characters(void) {
    static const struct {
        const char *model, *text, *ids;
    } rows[] = {
        {"\"unk_token\": null", "\u2581\ufb03\u2581", " 2"},
        {"\"unk_token\": null", "a\u2581\u00e9\u00e9\u2581a\u2581", " 1 2 3"},
        {"\"unk_token\": null", "a\ufb03\u2581\ufb03", " 3"},
        {"\"unk_token\": null, \"byte_fallback\": true", "\u2581\ufb03\u2581", " 2"},
        {"\"unk_token\": \"<u>\"", "\u2581\ufb03\u2581", " 0 4 0"},
        {"\"unk_token\": \"<u>\"", "a\u2581\u00e9\u00e9\u2581a\u2581", " 3 4 4 0 3"},
        {"\"unk_token\": \"<u>\", \"fuse_unk\": true", "a\u2581\u00e9\u00e9\u2581a\u2581",
         " 3 4 0 3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char json[400];
        const char *rest;
        snprintf(json, sizeof json,
                 "{\"model\": {\"type\": \"BPE\", %s, \"vocab\": {\"\u2581\": 0, \"a\": 1, "
                 "\"\u2581\u2581\": 2, \"a\u2581\": 3, \"<u>\": 4, \"<0xC3>\": 5}, "
                 "\"merges\": [[\"\u2581\", \"\u2581\"], [\"a\", \"\u2581\"]]}}",
                 rows[i].model);
        put_text("tokenizer.json", json);
        syn_tokenizer *tok = load_folder();
        CHECK(tok != NULL);
        CHECK_MSG(gives(tok, rows[i].text, strlen(rows[i].text), rows[i].ids, &rest), "row %zu", i);
        syn_tokenizer_free(tok);
    }
}

static const test_case cases[] = {
    {"bytes are ids", bytes_are_ids},
    {"unknown characters", unknown_characters},
#ifdef SYN_HAVE_PCRE2
    {"unk token of bytes", unk_token_of_bytes},
    {"tiny vocabulary", tiny_vocabulary},
    {"gpt2 vocabulary", gpt2_vocabulary},
    {"squad text", squad_text},
    {"random texts", random_texts},
    {"tokens and their names", tokens_and_their_names},
    {"any utf8 round trips", any_utf8_round_trips},
    {"cache changes nothing", cache_changes_nothing},
    {"equal hashes are told apart", equal_hashes_are_distinguished},
    {"bad utf8 is refused", bad_utf8_is_refused},
    {"missing and oversized files", missing_and_oversized_files},
    {"every allocation may fail", every_allocation_may_fail},
    {"threads share a tokenizer", threads_share_a_tokenizer},
#else
    {"without pcre2 a sentence", without_pcre2_a_sentence},
#endif
};

TEST_MAIN(cases)
