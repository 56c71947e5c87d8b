/* Tests the way from SQuAD files to batches: token ids are compared with those of transformers
   (texts.json, written by reference/make_texts_fixture.py). Also tests rejected files, the cache
   file of token ids, and masking. */
#include "models/training/batches.h"

#include "ops/ops.h"
#include "syntorch/base/json.h"
#include "syntorch/base/memory.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

static syn_squad *read_squad(const char *path) {
    syn_error err = {0};
    syn_squad *squad = NULL;
    NEED_OK(syn_squad_read(&squad, &path, 1, &err), err);
    return squad;
}

/* ---- files ---- */

#define PARAGRAPH(x) "{\"data\": [{\"title\": \"t\", \"paragraphs\": [" x "]}]}"
#define QUESTION(x)  PARAGRAPH("{\"context\": \"c\", \"qas\": [" x "]}")
#define REST         "\"data\": [{\"paragraphs\": [{\"context\": \"c\", \"qas\": [" WHOLE "]}]}]}"
#define WHOLE        "{\"question\": \"q\", \"id\": \"1\", \"answers\": []}"

static const struct {
    const char *text;
    /* Part of the expected message; NULL: the file is accepted and has one question. */
    const char *says;
} files[] = {
    {QUESTION(WHOLE), NULL},
    {PARAGRAPH("{\"qas\": [" WHOLE "], \"context\": \"c\"}"), NULL},
    {"{\"version\": \"1.1\", \"more\": [{}], \"data\": [{\"paragraphs\": [{\"qas\": [" WHOLE "],"
     " \"context\": \"c\", \"more\": 1}]}, {\"paragraphs\": []}]}",
     NULL},
    {"", "the document ends here"},
    {"{", "the document ends here"},
    {"[]", "a SQuAD file must be an object with \"data\""},
    {"{}", "a SQuAD file must be an object with \"data\""},
    {"{\"data\": []}", "has no question"},
    {QUESTION(""), "has no question"},
    {"{\"data\": {}}", "\"data\" must be"},
    {"{\"version\": 1.0, " REST, NULL}, /* the version is not used, so it may have any value */
    {"{\"version\": \"KorQuAD_v1.0_train\", " REST, NULL},
    {"{\"version\": null, " REST, NULL},
    {"{\"version\": 2, \"data\": []}", "has no question"},
    {"{\"data\": [[]]}", "an article must be an object"},
    {"{\"data\": [{\"title\": 1}]}", "the article has no \"paragraphs\""},
    {PARAGRAPH("1"), "a paragraph must be an object"},
    {PARAGRAPH("{\"qas\": []}"), "the paragraph has no \"context\""},
    {PARAGRAPH("{\"context\": \"c\"}"), "the paragraph has no \"qas\""},
    {PARAGRAPH("{\"context\": 7, \"qas\": []}"), "\"context\" must be"},
    {QUESTION("null"), "a question must be an object"},
    {QUESTION("{\"answers\": []}"), "the question has no \"question\""},
    {QUESTION("{\"question\": \"q\"}"), NULL}, /* answers are not used, so they may be missing */
    {QUESTION("{\"question\": \"q\", \"answers\": {\"text\": [\"a\"]}}"), NULL},
    {QUESTION("{\"question\": \"q\", \"answers\": null}"), NULL},
    {QUESTION(WHOLE) "x", "expected the end of"},
    {"{\"data\": [], \"data\": []}", "\"data\" appears twice"},
    {"{\"data\": [{\"paragraphs\": [], \"paragraphs\": []}]}", "\"paragraphs\" appears twice"},
    {PARAGRAPH("{\"context\": \"c\", \"context\": \"d\", \"qas\": []}"),
     "\"context\" appears twice"},
    {PARAGRAPH("{\"context\": \"c\", \"qas\": [], \"qas\": []}"), "\"qas\" appears twice"},
    {QUESTION("{\"question\": \"q\", \"question\": \"r\", \"answers\": []}"),
     "\"question\" appears twice"},
    {"\x1f\x8b\x08", "squad.json is compressed with gzip; unpack it first"},
    {"\xef\xbb\xbf" QUESTION(WHOLE), "the document starts with a byte order mark; remove it"},
    {PARAGRAPH("{\"context\": \"\\ud800\", \"qas\": [" WHOLE "]}"),
     "unpaired surrogate in a string"},
    {QUESTION("{\"question\": \"q\", \"answers\": [}"), "expected"},
};

static void files_are_read_or_refused(void) {
    for (size_t i = 0; i < COUNT(files); i++) {
        const char *path = put_text("squad.json", files[i].text);
        syn_error err = {0};
        syn_squad *squad = NULL;
        const syn_status s = syn_squad_read(&squad, &path, 1, &err);
        if (files[i].says) {
            CHECK_INT(syn_squad_read(&squad, &path, 1, NULL), SYN_E_FORMAT);
            CHECK_MSG(s == SYN_E_FORMAT, "%s: %s", files[i].text, err.text);
            CHECK_HAS(err.text, "squad.json");
            CHECK_HAS(err.text, files[i].says);
            continue;
        }
        CHECK_OK(s, err);
        CHECK_INT(syn_squad_count(squad), 1);
        const syn_squad_entry e = syn_squad_get(squad, 0);
        CHECK_STR(e.question, "q");
        CHECK_STR(e.context, "c");
        syn_squad_free(squad);
    }
}

static void what_is_not_there(void) {
    const char *const paths[2] = {put_text("a.json", QUESTION(WHOLE)), in_folder("none.json")};
    syn_error err = {0};
    syn_squad *squad = NULL;
    CHECK_INT(syn_squad_read(&squad, paths, 2, &err), SYN_E_IO);
    CHECK_HAS(err.text, "none.json");
    err.code = SYN_OK;
    CHECK_INT(syn_squad_read(&squad, paths, 0, &err), SYN_E_INVALID);
    CHECK(squad == NULL);
}

/* A string on a line of 8 MiB. */
static void long_lines(void) {
    enum { BYTES = 8 << 20 };
    static const char begin[] = "{\"data\":[{\"paragraphs\":[{\"qas\":[" WHOLE "],\"context\":\"";
    static const char end[] = "\"}]}]}";
    char *text = syn_malloc(sizeof begin + BYTES + sizeof end);
    NEED(text, "out of memory");
    memcpy(text, begin, sizeof begin - 1);
    memset(text + sizeof begin - 1, 'x', BYTES);
    memcpy(text + sizeof begin - 1 + BYTES, end, sizeof end);
    syn_squad *squad = read_squad(put_text("long.json", text));
    syn_free(text);
    CHECK_INT(syn_squad_get(squad, 0).context_bytes, BYTES);
    syn_squad_free(squad);
}

/* ---- Token ids ---- */

#if defined SYN_HAVE_PCRE2 && defined SYN_HAVE_UTF8PROC
#define HAVE_TOKENIZERS 1
#else
#define HAVE_TOKENIZERS 0
#endif

enum { PLAIN, PAIR, JOINED, KINDS, MAX_IDS = 512, MAX_CASES = 128 };

/* One line of texts.json. */
struct expected {
    int64_t max;
    int32_t ids[KINDS][MAX_IDS], types[MAX_IDS];
    int n[KINDS], n_types;
};

static void read_ids(syn_json *json, int32_t *ids, int *n) {
    NEED(syn_json_next(json) == SYN_JSON_ARRAY_BEGIN, "no list of ids");
    while (syn_json_next(json) == SYN_JSON_NUMBER) {
        NEED(*n < MAX_IDS, "too many ids");
        ids[(*n)++] = (int32_t)json->integer;
    }
}

static int read_expected(struct expected *out) {
    static const char *const keys[KINDS] = {"plain", "pair", "joined"};
    syn_error err = {0};
    syn_json json;
    size_t bytes;
    int n = 0;
    char *data = file_bytes(reference_path("texts.json"), &bytes);
    NEED(data, "no texts.json");
    syn_json_init(&json, "texts.json", data, bytes, &err);
    NEED(syn_json_next(&json) == SYN_JSON_ARRAY_BEGIN, "no list of texts");
    for (; syn_json_next(&json) == SYN_JSON_OBJECT_BEGIN; n++) {
        struct expected *e = &out[n];
        NEED(n < MAX_CASES, "too many texts");
        memset(e, 0, sizeof *e);
        while (syn_json_next(&json) == SYN_JSON_KEY) {
            for (int k = 0; k < KINDS; k++)
                if (strcmp(json.text, keys[k]) == 0) read_ids(&json, e->ids[k], &e->n[k]);
            if (json.type == SYN_JSON_KEY && strcmp(json.text, "types") == 0)
                read_ids(&json, e->types, &e->n_types);
            else if (json.type == SYN_JSON_KEY)
                NEED_OK(syn_json_expect_i64(&json, "max", 1, MAX_IDS, &e->max), err);
        }
    }
    syn_json_free(&json);
    free(data);
    return n;
}

static syn_tokenizer *example_tokenizer(const char *name) {
    syn_error err = {0};
    syn_tokenizer *tok;
    NEED_OK(syn_tokenizer_load(&tok, source_path("examples/%s", name), &err), err);
    return tok;
}

static bool same_text(syn_text t, const struct expected *e, int kind) {
    if (t.n != e->n[kind] || memcmp(t.ids, e->ids[kind], (size_t)t.n * sizeof *t.ids) != 0)
        return false;
    for (int i = 0; i < t.n; i++)
        if ((i >= t.first) != (kind == PAIR && e->types[i] != 0)) return false;
    return true;
}

static void ids_are_those_of_transformers(void) {
    static struct expected all[MAX_CASES];
    if (!HAVE_TOKENIZERS) SKIP("built without PCRE2 or utf8proc");
    const int n = read_expected(all);
    syn_tokenizer *gpt = example_tokenizer("tiny-gpt2"), *bert = example_tokenizer("tiny-bert");
    syn_squad *squad = read_squad(reference_path("texts_squad.json"));
    const int64_t count = (int64_t)syn_squad_count(squad);
    CHECK(n > 0 && n % count == 0);
    for (int i = 0; i < n; i += (int)count)
        for (int kind = 0; kind < KINDS; kind++) {
            const syn_texts_options how = {(syn_texts_form)kind, all[i].max};
            syn_error err = {0};
            syn_texts *texts;
            CHECK_OK(syn_texts_new(&texts, squad, kind == PLAIN ? gpt : bert, &how, NULL, &err),
                     err);
            CHECK_INT(syn_texts_count(texts), count);
            for (int64_t k = 0; k < count; k++)
                CHECK_MSG(same_text(syn_texts_get(texts, k), &all[i + k], kind),
                          "text %d, form %d, length %d", (int)k, kind, (int)how.max_tokens);
            syn_texts_free(texts);
        }
    syn_squad_free(squad);
    syn_tokenizer_free(gpt);
    syn_tokenizer_free(bert);
}

/* As in the tokenizers library, there are two separators between texts, and all types are 0. */
static void pairs_of_roberta(void) {
    static const int32_t want[] = {0, 46, 1, 1, 32, 1};
    const syn_texts_options how = {SYN_TEXTS_PAIR, 9}, cut = {SYN_TEXTS_PAIR, 4};
    if (!HAVE_TOKENIZERS) SKIP("built without PCRE2 or utf8proc");
    syn_error err = {0};
    syn_tokenizer *tok;
    syn_texts *texts = NULL;
    syn_squad *squad = read_squad(put_text("squad.json", QUESTION(WHOLE)));
    NEED_OK(syn_tokenizer_load(&tok, reference_path("roberta_tokenizer"), &err), err);
    CHECK_INT(syn_tokenizer_bert_special(tok, "[MASK]"), 60);
    CHECK_INT(syn_tokenizer_bert_special(tok, "[PAD]"), 2);
    CHECK_INT(syn_tokenizer_bert_special(tok, "[ELSE]"), -1);
    NEED_OK(syn_texts_new(&texts, squad, tok, &how, NULL, &err), err);
    const syn_text t = syn_texts_get(texts, 0);
    CHECK(t.n == 6 && t.first == 6 && memcmp(t.ids, want, sizeof want) == 0);
    syn_texts_free(texts);
    CHECK_INT(syn_texts_new(&texts, squad, tok, &cut, NULL, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "at most 4 tokens");
    syn_tokenizer_free(tok);
    syn_squad_free(squad);
}

/* ---- With the byte tokenizer ---- */

/* n questions. Their contexts consist of letters of the alphabet. */
static syn_squad *letters(int n) {
    static char text[1 << 17];
    size_t at = 0;
    at += (size_t)sprintf(text, "{\"data\":[{\"paragraphs\":[");
    for (int i = 0; i < n; i++)
        at += (size_t)sprintf(text + at,
                              "%s{\"context\":\"%.*s\",\"qas\":[{\"question\":\"%c%d?\","
                              "\"answers\":[]}]}",
                              i ? "," : "", 1 + i % 26, "abcdefghijklmnopqrstuvwxyz", 'A' + i % 26,
                              i);
    sprintf(text + at, "]}]}");
    return read_squad(put_text("letters.json", text));
}

static syn_texts *plain_texts(const syn_squad *squad, int64_t max, syn_workers *workers) {
    const syn_texts_options how = {SYN_TEXTS_PLAIN, max};
    syn_error err = {0};
    syn_tokenizer *bytes;
    syn_texts *texts;
    NEED_OK(syn_tokenizer_open_bytes(&bytes, &err), err);
    NEED_OK(syn_texts_new(&texts, squad, bytes, &how, workers, &err), err);
    syn_tokenizer_free(bytes);
    return texts;
}

static bool equal_texts(const syn_texts *a, const syn_texts *b) {
    if (syn_texts_count(a) != syn_texts_count(b)) return false;
    for (int64_t i = 0; i < syn_texts_count(a); i++) {
        const syn_text x = syn_texts_get(a, i), y = syn_texts_get(b, i);
        if (x.n != y.n || x.first != y.first) return false;
        if (memcmp(x.ids, y.ids, (size_t)x.n * sizeof *x.ids) != 0) return false;
    }
    return true;
}

static void any_number_of_threads(void) {
    syn_error err = {0};
    syn_workers *workers;
    syn_squad *squad = letters(700);
    NEED_OK(syn_workers_new(&workers, 3, &err), err);
    syn_texts *one = plain_texts(squad, 20, NULL), *three = plain_texts(squad, 20, workers);
    CHECK(equal_texts(one, three));
    CHECK_INT(syn_texts_count(one), 700);
    const syn_text t = syn_texts_get(one, 27);
    CHECK_INT(t.n, 7); /* the text is "B27? ab" */
    CHECK_INT(t.ids[4], ' ');
    CHECK_INT(t.ids[6], 'b');
    CHECK_INT(syn_texts_get(one, 25).n, 20);
    syn_texts_free(one);
    syn_texts_free(three);
    syn_workers_free(workers);
    syn_squad_free(squad);
}

static void what_is_no_text(void) {
    const char *path = put_text("squad.json", QUESTION(WHOLE));
    const syn_texts_options none = {SYN_TEXTS_PLAIN, 0}, pair = {SYN_TEXTS_PAIR, 3};
    const syn_texts_options framed = {SYN_TEXTS_JOINED, 8};
    syn_error err = {0};
    syn_tokenizer *bytes;
    syn_texts *texts = NULL;
    syn_squad *squad = read_squad(path);
    NEED_OK(syn_tokenizer_open_bytes(&bytes, &err), err);
    CHECK_INT(syn_texts_new(&texts, squad, bytes, &none, NULL, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "at most 0 tokens");
    CHECK_INT(syn_texts_new(&texts, squad, bytes, &pair, NULL, NULL), SYN_E_INVALID);
    err.code = SYN_OK;
    CHECK_INT(syn_texts_new(&texts, squad, bytes, &framed, NULL, &err), SYN_E_INVALID);
    CHECK_HAS(err.text, "lacks [CLS] or [SEP]");
    syn_tokenizer_free(bytes);
    syn_squad_free(squad);
}

static syn_status all_of_it(void *arg, syn_error *err) {
    static const syn_texts_options how = {SYN_TEXTS_PLAIN, 9};
    const char *path = in_folder("squad.json"), *kept = in_folder("kept");
    syn_squad *squad = NULL;
    syn_texts *texts = NULL, *again = NULL;
    syn_status s = syn_squad_read(&squad, &path, 1, err);
    if (s == SYN_OK) s = syn_texts_new(&texts, squad, arg, &how, NULL, err);
    if (s == SYN_OK) s = syn_texts_save(texts, kept, 1, err);
    if (s == SYN_OK) s = syn_texts_load(&again, kept, 1, err);
    syn_texts_free(again);
    syn_texts_free(texts);
    syn_squad_free(squad);
    return s;
}

static void no_memory(void) {
    syn_error err = {0};
    syn_tokenizer *bytes;
    put_text("squad.json", QUESTION(WHOLE));
    NEED_OK(syn_tokenizer_open_bytes(&bytes, &err), err);
    CHECK(test_without_memory(all_of_it, bytes) > 8);
    syn_tokenizer_free(bytes);
}

/* ---- The cache file ---- */

static void kept_in_a_file(void) {
    const syn_texts_options how = {SYN_TEXTS_PLAIN, 20}, other = {SYN_TEXTS_PLAIN, 21};
    const char *path = in_folder("texts.bin");
    syn_squad *squad = letters(70), *fewer = letters(69);
    syn_texts *texts = plain_texts(squad, 20, NULL), *again;
    syn_error err = {0};
    const uint64_t key = syn_texts_key(squad, 5, &how);
    CHECK(key == syn_texts_key(squad, 5, &how));
    CHECK(key != syn_texts_key(squad, 6, &how) && key != syn_texts_key(squad, 5, &other));
    CHECK(key != syn_texts_key(fewer, 5, &how));
    CHECK_OK(syn_texts_load(&again, path, key, &err), err);
    CHECK(!again); /* the cache file does not exist yet */
    CHECK_OK(syn_texts_save(texts, path, key, &err), err);
    CHECK_OK(syn_texts_load(&again, path, key + 1, &err), err);
    CHECK(!again);
    CHECK_OK(syn_texts_load(&again, path, key, &err), err);
    CHECK(again && equal_texts(texts, again));
    syn_texts_free(again);
    syn_texts_free(texts);
    syn_squad_free(fewer);
    syn_squad_free(squad);
}

/* A damaged cache file must never yield other token ids. */
static void damaged_files(void) {
    syn_squad *squad = letters(20);
    syn_texts *texts = plain_texts(squad, 20, NULL), *again;
    syn_error err = {0};
    size_t bytes;
    CHECK_OK(syn_texts_save(texts, in_folder("texts.bin"), 7, &err), err);
    char *data = file_bytes(in_folder("texts.bin"), &bytes);
    NEED(data, "no file");
    for (size_t i = 0; i < bytes; i++) {
        data[i] ^= 4;
        CHECK_OK(syn_texts_load(&again, put_file("bad.bin", data, bytes), 7, &err), err);
        CHECK_MSG(!again, "byte %d", (int)i);
        data[i] ^= 4;
        CHECK_OK(syn_texts_load(&again, put_file("bad.bin", data, i), 7, &err), err);
        CHECK_MSG(!again, "%d bytes", (int)i);
    }
    free(data);
    syn_texts_free(texts);
    syn_squad_free(squad);
}

/* ---- Batches ---- */

static void next_tokens(void) {
    enum { T = 8, N = 3 };
    const int64_t which[N] = {1, 0, 25};
    int32_t ids[N * T], labels[N * T], types[N * T];
    float mask[N * T];
    const syn_batch out = {ids, labels, types, mask};
    syn_squad *squad = letters(30);
    syn_texts *texts = plain_texts(squad, 20, NULL);
    syn_batch_options how = {.tokens = T, .pad = 0, .causal = true};
    CHECK_INT(syn_batch_fill(&out, texts, which, N, &how), 5 + 4 + 7);
    static const char row[] = "B1? ab"; /* the text of the second sequence */
    for (int t = 0; t < T; t++) {
        CHECK_INT(ids[t], t < 6 ? row[t] : 0);
        CHECK_INT(labels[t], t < 5 ? row[t + 1] : SYN_IGNORED_TARGET);
        CHECK_INT(types[t], 0);
        CHECK(mask[t] == (t < 6 ? 0.0f : -INFINITY));
    }
    CHECK_INT(ids[2 * T + 7], 'c'); /* the text is "Z25? abc", truncated */
    CHECK_INT(labels[2 * T + 7], SYN_IGNORED_TARGET);
    how.predict_padding = true;
    CHECK_INT(syn_batch_fill(&out, texts, which, N, &how), N * (T - 1));
    CHECK_INT(labels[4], 'b');
    CHECK_INT(labels[5], 0);
    CHECK_INT(labels[6], 0);
    CHECK_INT(labels[7], SYN_IGNORED_TARGET);
    syn_texts_free(texts);
    syn_squad_free(squad);
}

/* Whether `count` of n events agree with the probability p, within five standard deviations. */
static bool about(int64_t count, int64_t n, double p) {
    return fabs((double)count - (double)n * p) <= 5 * sqrt((double)n * p * (1 - p));
}

static void hidden_words(void) {
    enum { T = 32, N = 700, PAD = 0, MASK = 1, VOCAB = 256 };
    static int32_t ids[N * T], labels[N * T];
    const syn_batch out = {.ids = ids, .labels = labels};
    const int32_t special[] = {PAD, MASK, ' ', '?'};
    syn_squad *squad = letters(N);
    syn_texts *texts = plain_texts(squad, T, NULL);
    syn_batch_options how = {.tokens = T,
                             .pad = PAD,
                             .mask = MASK,
                             .vocab = VOCAB,
                             .special = special,
                             .n_special = COUNT(special),
                             .seed = 3};
    for (int policy = SYN_MASKING_BERT; policy <= SYN_MASKING_ONLY; policy++) {
        int64_t words = 0, chosen = 0, masked = 0, kept = 0, total = 0;
        how.masking = (syn_masking)policy;
        for (int64_t i = 0; i < N; i++) {
            total += syn_batch_fill(&out, texts, &i, 1, &how);
            const syn_text text = syn_texts_get(texts, i);
            for (int t = 0; t < T; t++) {
                const int32_t id = t < text.n ? text.ids[t] : PAD;
                const bool can = id != PAD && id != ' ' && id != '?';
                words += can;
                CHECK(labels[t] == id || labels[t] == SYN_IGNORED_TARGET);
                CHECK(labels[t] == SYN_IGNORED_TARGET ? ids[t] == id : can);
                if (labels[t] == SYN_IGNORED_TARGET) continue;
                chosen++;
                masked += ids[t] == MASK;
                kept += ids[t] == id;
            }
        }
        CHECK_INT(total, chosen);
        CHECK(about(chosen, words, 0.15));
        CHECK(about(masked, chosen, 0.8));
        CHECK(about(kept, chosen, policy == SYN_MASKING_BERT ? 0.1 : 0.2));
        CHECK(policy == SYN_MASKING_BERT || masked + kept == chosen);
    }
    syn_texts_free(texts);
    syn_squad_free(squad);
}

/* In an empty row, attention may see the padding, so that nothing is divided by zero. No position
   of the row counts for the loss. */
static void rows_of_nothing(void) {
    enum { T = 8, N = 3 };
    const int64_t which[N] = {-1, 0, -1};
    int32_t ids[N * T], labels[N * T], types[N * T];
    float mask[N * T];
    const syn_batch out = {ids, labels, types, mask};
    syn_squad *squad = letters(1);
    syn_texts *texts = plain_texts(squad, 20, NULL);
    for (int kind = 0; kind < 3; kind++) {
        const syn_batch_options how = {
            .tokens = T, .pad = 9, .mask = 1, .causal = kind > 0, .predict_padding = kind > 1};
        const int64_t alone = syn_batch_fill(&(syn_batch){.ids = NULL}, texts, &which[1], 1, &how);
        CHECK_INT(syn_batch_fill(&out, texts, which, N, &how), alone);
        for (int i = 0; i < N * T; i++) {
            if (i / T == 1) continue;
            CHECK_INT(ids[i], 9);
            CHECK_INT(labels[i], SYN_IGNORED_TARGET);
            CHECK_INT(types[i], 0);
            CHECK(mask[i] == 0.0f);
        }
    }
    syn_texts_free(texts);
    syn_squad_free(squad);
}

/* The masks of a row do not depend on its position in the batch. They change with the epoch. */
static void rows_do_not_depend_on_the_batch(void) {
    enum { T = 32, N = 60 };
    static int32_t ids[N * T], one[T], labels[N * T];
    const syn_batch all = {.ids = ids, .labels = labels}, single = {.ids = one};
    int64_t which[N], changed = 0;
    syn_squad *squad = letters(N);
    syn_texts *texts = plain_texts(squad, T, NULL);
    syn_batch_options how = {.tokens = T, .mask = 1, .vocab = 256, .seed = 9};
    for (int i = 0; i < N; i++) which[i] = (i * 7) % N;
    const int64_t total = syn_batch_fill(&all, texts, which, N, &how);
    int64_t sum = 0;
    for (int i = 0; i < N; i++) {
        sum += syn_batch_fill(&single, texts, &which[i], 1, &how);
        CHECK(memcmp(one, ids + i * T, sizeof one) == 0);
    }
    CHECK_INT(sum, total);
    how.epoch = 1;
    for (int i = 0; i < N; i++) {
        (void)syn_batch_fill(&single, texts, &which[i], 1, &how);
        changed += memcmp(one, ids + i * T, sizeof one) != 0;
    }
    CHECK(changed > N / 2);
    syn_texts_free(texts);
    syn_squad_free(squad);
}

static const test_case cases[] = {
    {"files are read or refused", files_are_read_or_refused},
    {"what is not there", what_is_not_there},
    {"long lines", long_lines},
    {"ids are those of transformers", ids_are_those_of_transformers},
    {"pairs of RoBERTa", pairs_of_roberta},
    {"any number of threads", any_number_of_threads},
    {"what is no text", what_is_no_text},
    {"no memory", no_memory},
    {"kept in a file", kept_in_a_file},
    {"damaged files", damaged_files},
    {"next tokens", next_tokens},
    {"hidden words", hidden_words},
    {"rows of nothing", rows_of_nothing},
    {"rows do not depend on the batch", rows_do_not_depend_on_the_batch},
};

TEST_MAIN(cases)
