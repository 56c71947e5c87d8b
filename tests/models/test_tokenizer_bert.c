/* Tests the interface of BERT's tokenizer. Ids, pairs and decoded texts are compared with
   HuggingFace's. Also tests which tokenizer a folder contains, and errors. */
#include "models/tokenizer/tokenizer.h"

#include "syntorch/base/memory.h"
#include "tests/support/test.h"
#include "tests/support/tokenizer_fixture.h"
#include "tests/support/tokenizers.h"

#ifdef SYN_HAVE_UTF8PROC

/* Loads the shared vocabulary of bert-base-uncased with and without lower-casing. */
static bool load_both(syn_tokenizer *tok[2]) {
    size_t bytes;
    char *vocab = file_bytes(shared_path("bert/vocab.txt"), &bytes);
    tok[0] = load_shared("bert");
    put_file("vocab.txt", vocab, bytes);
    put_text("tokenizer_config.json", "{\"do_lower_case\": false}");
    tok[1] = load_folder();
    free(vocab);
    return tok[0] != NULL && tok[1] != NULL;
}

static void readable_texts(void) {
    if (!have_shared_data()) SKIP("SYN_SHARED_DATA is not set");
    syn_tokenizer *tok[2];
    CHECK(load_both(tok));
    FILE *f = fixture_open("wordpiece_fixture.txt");
    CHECK(f != NULL);
    fixture_line line;
    size_t texts = 0;
    while (fixture_next(f, &line)) {
        if (strcmp(line.kind, "text") != 0) continue;
        const char *rest;
        CHECK_MSG(gives(tok[0], line.text, line.text_bytes, line.numbers, &rest), "uncased %s",
                  line.rest);
        CHECK_MSG(gives(tok[1], line.text, line.text_bytes, rest + 2, &rest), "cased %s",
                  line.rest);
        texts++;
    }
    CHECK(texts > 130);
    fclose(f);
    for (int i = 0; i < 2; i++) syn_tokenizer_free(tok[i]);
}

static void pairs_and_texts_of_ids(void) {
    if (!have_shared_data()) SKIP("SYN_SHARED_DATA is not set");
    syn_tokenizer *tok = load_shared("bert");
    FILE *f = fixture_open("wordpiece_fixture.txt");
    CHECK(tok != NULL && f != NULL);
    fixture_line line;
    size_t pairs = 0, texts = 0;
    while (fixture_next(f, &line)) {
        long want[1024];
        int32_t *ids, *types, got[1024];
        size_t n;
        syn_error err = {0};
        if (strcmp(line.kind, "pair") == 0) {
            static char second[1 << 12];
            const char *hex = line.numbers + 1;
            const size_t digits = strcspn(hex, " ");
            const bool none = strncmp(hex, "none ", 5) == 0;
            const size_t bytes = none ? 0 : fixture_unhex(hex, digits, second);
            CHECK_OK(syn_tokenizer_encode_pair(tok, line.text, line.text_bytes,
                                               none ? NULL : second, bytes, &ids, &types, &n, &err),
                     err);
            CHECK_INT(fixture_numbers(hex + digits, want, 1024), n);
            for (size_t i = 0; i < n; i++) CHECK_INT(ids[i], want[i]);
            CHECK_INT(fixture_numbers(strchr(hex, '/') + 1, want, 1024), n);
            for (size_t i = 0; i < n; i++) CHECK_INT(types[i], want[i]);
            syn_free(ids);
            syn_free(types);
            pairs++;
        } else if (strcmp(line.kind, "back") == 0) {
            char *text;
            n = fixture_numbers(line.numbers, want, 1024);
            for (size_t i = 0; i < n; i++) got[i] = (int32_t)want[i];
            size_t bytes;
            CHECK_OK(syn_tokenizer_decode(tok, got, n, &text, &bytes, &err), err);
            CHECK_MSG(bytes == line.text_bytes && memcmp(text, line.text, bytes) == 0 &&
                          text[bytes] == '\0',
                      "%s", text);
            syn_free(text);
            texts++;
        }
    }
    CHECK(pairs == 7 && texts > 15);
    fclose(f);
    syn_tokenizer_free(tok);
}

static void squad_text(void) {
    if (!have_shared_data()) SKIP("SYN_SHARED_DATA is not set");
    syn_tokenizer *tok[2];
    CHECK(load_both(tok));
    FILE *f = fixture_open("wordpiece_fixture.txt");
    CHECK(f != NULL);
    fixture_line line;
    size_t texts = 0;
    while (fixture_next(f, &line)) {
        if (strcmp(line.kind, "file") != 0) continue;
        char name[256];
        size_t bytes;
        syn_error err = {0};
        snprintf(name, sizeof name, "squad/%s", line.rest);
        char *data = file_bytes(shared_path("%s", name), &bytes);
        CHECK(data != NULL);
        syn_json json;
        syn_json_init(&json, name, data, bytes, &err);
        for (; squad_next(&json); texts++) {
            char got[64], hash[4];
            int used = 0;
            CHECK(fixture_next(f, &line) && strcmp(line.kind, "squad") == 0);
            for (int i = 0; i < 2; i++) {
                int32_t *ids;
                size_t elems;
                CHECK_OK(
                    syn_tokenizer_encode(tok[i], json.text, json.text_bytes, &ids, &elems, &err),
                    err);
                used += snprintf(got + used, sizeof got - (size_t)used, "%s%zu %s", i ? " " : "",
                                 elems, fnv_short(fnv_ids(fnv_begin(), ids, elems), hash));
                syn_free(ids);
            }
            CHECK_STR(got, line.rest);
        }
        CHECK_MSG(json.type == SYN_JSON_END, "%s", err.text);
        syn_json_free(&json);
        free(data);
    }
    CHECK_INT(texts, 1188);
    fclose(f);
    for (int i = 0; i < 2; i++) syn_tokenizer_free(tok[i]);
}

/* Compares the ids. Most words of these texts are [UNK], so the words before they are split into
   tokens are also compared. */
static void random_texts(void) {
    if (!have_shared_data()) SKIP("SYN_SHARED_DATA is not set");
    if (!char_unicode_is_known()) SKIP("utf8proc has a Unicode version other than 14 to 17");
    syn_tokenizer *tok[2];
    syn_tokenizer *words[2];
    CHECK(load_both(tok));
    for (int i = 0; i < 2; i++) CHECK((words[i] = words_alone(i == 0, i == 0, true)) != NULL);
    FILE *f = fixture_open("random_fixture.txt");
    CHECK(f != NULL);
    char line[32], got[4];
    for (uint32_t i = 0; i < RANDOM_TEXTS; i++) {
        text_buffer text = {0};
        text_add_random(&text, i);
        CHECK(fgets(line, sizeof line, f) != NULL);
        for (int k = 0; k < 2; k++) {
            int32_t *ids;
            size_t elems;
            CHECK(syn_tokenizer_encode(tok[k], text.data, text.bytes, &ids, &elems, NULL) ==
                  SYN_OK);
            uint64_t hash = fnv_ids(fnv_begin(), ids, elems);
            syn_free(ids);
            CHECK(elems <= text.bytes);
            hash = hash_words(hash, words[k], text.data, text.bytes);
            CHECK_MSG(strncmp(fnv_short(hash, got), line + 3 + 3 * k, 3) == 0,
                      "text %u differs, %s: %s", i, k == 0 ? "uncased" : "cased", text.data);
        }
        free(text.data);
    }
    fclose(f);
    for (int i = 0; i < 2; i++) {
        syn_tokenizer_free(words[i]);
        syn_tokenizer_free(tok[i]);
    }
}

static void tokens_and_their_names(void) {
    static const char *const names[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    put_tiny_bert();
    syn_tokenizer *tok = load_folder();
    CHECK(tok != NULL);
    size_t bytes;
    CHECK_INT(syn_tokenizer_kind_of(tok), SYN_TOKENIZER_WORDPIECE);
    CHECK_STR(syn_tokenizer_name(tok), "bert-wordpiece");
    CHECK_INT(syn_tokenizer_vocab_size(tok), 16);
    CHECK_INT(syn_tokenizer_eos(tok), -1);
    for (int i = 0; i < 5; i++) CHECK_INT(syn_tokenizer_special(tok, names[i]), i);
    CHECK_INT(syn_tokenizer_special(tok, "ab"), -1);
    const char *token = syn_tokenizer_token(tok, 7, &bytes);
    CHECK(bytes == 3 && memcmp(token, "##a", 3) == 0);
    CHECK(syn_tokenizer_token(tok, 16, &bytes) == NULL && bytes == 0);
    CHECK(syn_tokenizer_token(tok, -1, &bytes) == NULL);
    char *text;
    syn_error err = {0};
    CHECK_INT(syn_tokenizer_decode(tok, (const int32_t[]){5, 16}, 2, &text, &bytes, &err),
              SYN_E_INVALID);
    CHECK_HAS(err.text, "id 16 at position 1 is not one of the 16 tokens");
    syn_tokenizer_free(tok);
    put_text("vocab.txt", "[UNK]\n[CLS]\na\n");
    tok = load_folder();
    CHECK(tok != NULL);
    int32_t *ids, *types;
    syn_error lacks = {0};
    CHECK_INT(syn_tokenizer_encode_pair(tok, "a", 1, NULL, 0, &ids, &types, &bytes, &lacks),
              SYN_E_INVALID);
    CHECK_HAS(lacks.text, "lacks [CLS] or [SEP]");
    const char *rest;
    /* "[", "SEP" and "]" are three unknown words. */
    CHECK(gives(tok, "[SEP][CLS]", 10, " 0 0 0 1", &rest));
    syn_tokenizer_free(tok);
}

static void bad_utf8_is_refused(void) {
    put_tiny_bert();
    syn_tokenizer *tok = load_folder();
    CHECK(tok != NULL);
    int32_t *ids, *types;
    size_t elems;
    syn_error err = {0}, pair = {0};
    CHECK_INT(syn_tokenizer_encode(tok, "ab \xe4\xb8 a", 7, &ids, &elems, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "not valid UTF-8 at byte offset 3 ");
    CHECK(ids == NULL && elems == 0);
    CHECK_INT(syn_tokenizer_encode_pair(tok, "ab", 2, "a\xff", 2, &ids, &types, &elems, &pair),
              SYN_E_INVALID);
    CHECK(ids == NULL && types == NULL && elems == 0);
    CHECK_HAS(pair.text, "not valid UTF-8 at byte offset 1 ");
    syn_tokenizer_free(tok);
}

/* A repeated line must have the same ids as one short line. The word cache is used only for long
   texts. */
static void cache_changes_nothing(void) {
    static const char line[] = "abab ab abba baa\xc3\xa9 e\xcc\x81 zz abababababababababababababab "
                               "aaaaaaaaaaaa [MASK]b\xe4\xb8\xad\n";
    enum { LINES = 2000 };
    put_tiny_bert();
    syn_tokenizer *tok = load_folder();
    text_buffer text = {0};
    CHECK(tok != NULL);
    for (int i = 0; i < LINES; i++) text_adds(&text, line);
    int32_t *one, *all;
    size_t one_elems, all_elems;
    CHECK(syn_tokenizer_encode(tok, line, sizeof line - 1, &one, &one_elems, NULL) == SYN_OK);
    CHECK(syn_tokenizer_encode(tok, text.data, text.bytes, &all, &all_elems, NULL) == SYN_OK);
    CHECK_INT(all_elems, LINES * one_elems);
    for (size_t i = 0; i < LINES; i++)
        CHECK(memcmp(all + i * one_elems, one, one_elems * sizeof *one) == 0);
    syn_free(one);
    syn_free(all);
    free(text.data);
    syn_tokenizer_free(tok);
}

static syn_status load_and_use(void *arg, syn_error *err) {
    const text_buffer *text = arg;
    syn_tokenizer *tok;
    int32_t *ids = NULL, *types = NULL;
    char *back = NULL;
    size_t elems, bytes;
    SYN_TRY(syn_tokenizer_load(&tok, in_folder(""), err));
    syn_status status =
        syn_tokenizer_encode_pair(tok, text->data, text->bytes, "a", 1, &ids, &types, &elems, err);
    if (status == SYN_OK) status = syn_tokenizer_decode(tok, ids, elems, &back, &bytes, err);
    if ((ids == NULL) != (types == NULL)) status = SYN_E_INVALID;
    syn_free(back);
    syn_free(ids);
    syn_free(types);
    syn_tokenizer_free(tok);
    return status;
}

static void every_allocation_may_fail(void) {
    text_buffer text = {0};
    while (text.bytes < 17000) text_adds(&text, "abab\xc3\xa9 [MASK] zz, ");
    put_tiny_bert();
    put_text("tokenizer_config.json", "{\"cls_token\": \"[\\u0043LS]\"}");
    CHECK(test_without_memory(load_and_use, &text) > 15);
    free(text.data);
}

static void *encode_often(void *arg) {
    const char *rest;
    for (int i = 0; i < 300; i++)
        if (!gives(arg, "Abab [MASK] e\xcc\x81!", 16, " 9 7 8 4 12 1", &rest)) return arg;
    return NULL;
}

static void threads_share_a_tokenizer(void) {
    put_tiny_bert();
    syn_tokenizer *tok = load_folder();
    CHECK(tok != NULL);
    CHECK(in_four_threads(encode_often, tok));
    syn_tokenizer_free(tok);
}

#else

static void without_utf8proc_a_sentence(void) {
    syn_error err = {0};
    syn_tokenizer *tok;
    put_tiny_bert();
    CHECK_INT(syn_tokenizer_load(&tok, in_folder(""), &err), SYN_E_UNSUPPORTED);
    CHECK_HAS(err.text, "libutf8proc-dev");
    CHECK(tok == NULL);
}

#endif

static const test_case cases[] = {
#ifdef SYN_HAVE_UTF8PROC
    {"readable texts", readable_texts},
    {"pairs and texts of ids", pairs_and_texts_of_ids},
    {"squad text", squad_text},
    {"random texts", random_texts},
    {"tokens and their names", tokens_and_their_names},
    {"bad utf8 is refused", bad_utf8_is_refused},
    {"cache changes nothing", cache_changes_nothing},
    {"every allocation may fail", every_allocation_may_fail},
    {"threads share a tokenizer", threads_share_a_tokenizer},
#else
    {"without utf8proc a sentence", without_utf8proc_a_sentence},
#endif
};

TEST_MAIN(cases)
