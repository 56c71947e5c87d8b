/* Tests GPT-2's tokenizer with the files that may be in the folder of its vocabulary (added tokens,
   configuration). Ids are compared with HuggingFace's (reference/added_fixture.txt). Also tests
   rejected and damaged files, and out-of-memory errors. */
#include "models/tokenizer/tokenizer_private.h"

#include "syntorch/base/memory.h"
#include "tests/support/test.h"
#include "tests/support/tokenizer_fixture.h"
#include "tests/support/tokenizers.h"

#ifdef SYN_HAVE_PCRE2

/* Prepares a folder that contains only the tiny vocabulary. */
static void begin_folder(void) {
    clear_folder();
    put_tiny_gpt2();
}

/* Writes the file of a "file" line: the line has the name, then the contents. */
static void put_line(const fixture_line *line) {
    char name[64];
    const size_t n = strcspn(line->rest, " ");
    snprintf(name, sizeof name, "%.*s", (int)n, line->rest);
    put_text(name, line->rest + n + 1);
}

static bool same_sizes(const syn_tokenizer *tok, const char *numbers) {
    long want[3];
    return fixture_numbers(numbers, want, 3) == 3 && syn_tokenizer_vocab_size(tok) == want[0] &&
           syn_tokenizer_added(tok) == want[1] && syn_tokenizer_bos(tok) == want[2];
}

/* ---- HuggingFace's ids ---- */

static void every_folder_of_the_fixture(void) {
    FILE *f = fixture_open("added_fixture.txt");
    fixture_line line;
    syn_tokenizer *tok = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    int folders = 0, texts = 0, number = -1;
    CHECK(f != NULL);
    while (fixture_next(f, &line) && strcmp(line.kind, "word") != 0) {
        if (strcmp(line.kind, "case") == 0) {
            number = atoi(line.rest);
            begin_folder(); /* this function also reads lines of another fixture */
        } else if (strcmp(line.kind, "file") == 0) {
            put_line(&line);
        } else if (strcmp(line.kind, "size") == 0) {
            syn_tokenizer_free(tok);
            tok = load_folder();
            CHECK_MSG(tok && same_sizes(tok, line.rest), "folder %d: %s", number, line.rest);
            folders++;
        } else if (strcmp(line.kind, "text") == 0) {
            long want[256];
            const size_t want_n = fixture_numbers(line.numbers, want, 256);
            syn_error err = {0};
            syn_free(ids);
            CHECK_OK(syn_tokenizer_encode(tok, line.text, line.text_bytes, &ids, &n, &err), err);
            bool same = n == want_n;
            for (size_t i = 0; same && i < n; i++) same = ids[i] == want[i];
            CHECK_MSG(same, "folder %d: %s", number, line.rest);
            texts++;
        } else if (strcmp(line.kind, "back") == 0) {
            char *text;
            size_t bytes;
            syn_error err = {0};
            CHECK_OK(syn_tokenizer_decode(tok, ids, n, &text, &bytes, &err), err);
            CHECK_MSG(bytes == line.text_bytes && memcmp(text, line.text, bytes) == 0,
                      "folder %d: %s", number, line.rest);
            syn_free(text);
        }
    }
    CHECK(folders > 65 && texts > 400);
    syn_free(ids);
    syn_tokenizer_free(tok);
    fclose(f);
}

typedef struct finder {
    syn__regex *regex;
    syn__match *match;
} finder;

static char word_or_not(void *user, const char *character, size_t bytes) {
    const finder *f = user;
    return syn__regex_is_at(f->regex, f->match, character, bytes, 0) ? 'W' : 'O';
}

static void words_of_all_code_points(void) {
    if (!regex_unicode_is_known()) SKIP("PCRE2 has a Unicode version other than 14, 15 or 16");
    FILE *f = fixture_open("added_fixture.txt");
    syn__regex *regex;
    syn__match *match;
    syn_error err = {0};
    fixture_line line;
    int blocks = 0;
    CHECK(f != NULL);
    CHECK_OK(syn__regex_new(&regex, "\\w", 2, false, &err), err);
    CHECK_OK(syn__match_new(&match, &err), err);
    while (fixture_next(f, &line)) {
        if (strcmp(line.kind, "word") != 0) continue;
        const unsigned first = (unsigned)strtoul(line.rest, NULL, 16);
        const uint64_t hash = fnv_points(first, word_or_not, &(finder){regex, match});
        CHECK_MSG(hash == strtoull(line.numbers, NULL, 16), "words of U+%04X and on differ", first);
        blocks++;
    }
    CHECK_INT(blocks, 0x110);
    syn__regex_free(regex);
    syn__match_free(match);
    fclose(f);
}

/* ---- Errors ---- */

#define CONFIG "tokenizer_config.json"

static const struct {
    const char *file, *text, *sentence;
} refused[] = {
    {CONFIG, "{\"split_special_tokens\": true}", "split_special_tokens is not supported"},
    {CONFIG, "{\"tokenizer_class\": \"RobertaTokenizer\"}",
     "the tokenizer_class \"RobertaTokenizer\" is not supported for vocab.json and merges.txt"},
    {CONFIG, "{\"tokenizer_class\": \"BertTokenizer\"}", "\"BertTokenizer\" is not supported"},
    {CONFIG, "{\"added_tokens_decoder\": {\"300\": {\"content\": \"<x>\"}}}",
     "the added token \"<x>\" has the id 300, but the next free one is 293"},
    {CONFIG, "{\"added_tokens_decoder\": {\"5\": {\"content\": \"hello\"}}}",
     "\"hello\" has the id 5, but its id in the vocabulary is"},
    {CONFIG,
     "{\"added_tokens_decoder\": {\"293\": {\"content\": \"<x>\"}, \"294\": {\"content\": "
     "\"<x>\"}}}",
     "the added token \"<x>\" has two ids, 293 and 294"},
    {CONFIG, "{\"added_tokens_decoder\": {\"x\": {\"content\": \"<x>\"}}}", "\"x\" is not the id"},
    {CONFIG, "{\"added_tokens_decoder\": {\"99999999999\": {\"content\": \"<x>\"}}}",
     "is not the id"},
    {CONFIG, "{\"added_tokens_decoder\": {\"293\": \"<x>\"}}", "must be an object with"},
    {CONFIG, "{\"added_tokens_decoder\": {\"293\": {\"lstrip\": true}}}", "has no \"content\""},
    {CONFIG, "{\"added_tokens_decoder\": {\"293\": {\"content\": \"<x>\", \"lstrip\": 1}}}",
     "lstrip"},
    {CONFIG, "{\"added_tokens_decoder\": []}", "added_tokens_decoder"},
    {CONFIG, "{\"add_bos_token\": 1}", "add_bos_token must be"},
    {CONFIG, "{\"bos_token\": 7}", "bos_token must be a string, an object or null"},
    {CONFIG, "{\"additional_special_tokens\": \"<x>\"}", "must be a list of tokens"},
    {CONFIG, "[]", "the configuration must be an object"},
    {CONFIG, "{", "tokenizer_config.json:1:"},
    {"added_tokens.json", "{\"<x>\": 295}", "the next free one is 293"},
    {"added_tokens.json", "{\"<x>\": \"293\"}", "the id of an added token must be"},
    {"added_tokens.json", "{\"<x>\": -1}", "the id of an added token must be"},
    {"special_tokens_map.json", "{\"pad_token\": []}", "pad_token must be a string"},
    {"tokenizer.json", "{\"model\": {\"vocab\": {\"a\": 0}}}",
     "vocab.json has 293 tokens, but tokenizer.json has 1"},
    {"tokenizer.json", "{\"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"a\", 1]}}",
     "the post_processor \"BertProcessing\" lacks cls or sep"},
    {"tokenizer.json", "{\"post_processor\": {\"type\": \"Other\"}}",
     "the post_processor \"Other\" is not supported"},
    {"tokenizer.json",
     "{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "
     "{\"id\": \"x\"}}], \"pair\": [], \"special_tokens\": {}}}",
     "the template's token \"x\" is not among special_tokens"},
    {"tokenizer.json",
     "{\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": "
     "\"A\"}}, {\"Sequence\": {\"id\": \"A\"}}], "
     "\"pair\": []}}",
     "the template has the text twice"},
    {"tokenizer.json", "{\"post_processor\": 1}", "post_processor is not an object"},
    {"tokenizer.json", "{\"added_tokens\": {}}", "added_tokens must be a list of tokens"},
};

static void what_is_not_done_is_refused(void) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        syn_error err = {0};
        syn_tokenizer *tok;
        begin_folder();
        put_text(refused[i].file, refused[i].text);
        const syn_status status = syn_tokenizer_load(&tok, in_folder(""), &err);
        CHECK_MSG(status != SYN_OK && tok == NULL, "%s", refused[i].text);
        CHECK_HAS(err.text, refused[i].sentence);
        CHECK(syn_tokenizer_load(&tok, in_folder(""), NULL) == status);
    }
    begin_folder();
    put_text(CONFIG, "{\"tokenizer_class\": \"TokenizersBackend\"}");
    syn_tokenizer *tok = load_folder();
    CHECK(tok != NULL);
    syn_tokenizer_free(tok);
    put_text("tokenizer.json", "{}");
    syn_error err = {0};
    CHECK(syn_tokenizer_load(&tok, in_folder(""), &err) ==
          SYN_E_FORMAT); /* tokenizer.json is now used instead */
    CHECK_HAS(err.text, "tokenizer.json has no model with vocab");
}

/* ---- Damaged files ---- */

static const char *const whole[][2] = {
    {CONFIG, "{\"added_tokens_decoder\": {\"293\": {\"content\": \"<x>\", \"lstrip\": true, "
             "\"special\": true}, \"292\": {\"content\": \"<|endoftext|>\"}}, \"bos_token\": "
             "{\"__type\": \"AddedToken\", \"content\": \"<s>\", \"normalized\": false}, "
             "\"additional_special_tokens\": [\"<m>\", null, {\"content\": \"<n>\"}], "
             "\"extra_special_tokens\": {\"a\": \"<o>\"}, \"add_bos_token\": true, \"img_token\": "
             "\"<p>\", \"y_token\": {\"z\": [1]}}"},
    {"special_tokens_map.json", "{\"eos_token\": \"</s>\", \"pad_token\": {\"content\": \"<pad>\"},"
                                " \"extra_special_tokens\": [\"<q>\"], \"x\": {}}"},
    {"added_tokens.json", "{\"<x>\": 293, \"hello\": 259}"},
    {"tokenizer.json",
     "{\"added_tokens\": [{\"id\": 293, \"content\": \"<x>\"}], \"post_processor\": {\"type\": "
     "\"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<x>\", \"type_id\": 0}}, "
     "{\"Sequence\": {\"id\": \"A\"}}], \"pair\": [], \"special_tokens\": {\"<x>\": {\"id\": "
     "\"<x>\", \"ids\": [293], \"tokens\": [\"<x>\"]}}}, \"model\": {\"type\": \"BPE\"}}"},
};
enum { WHOLE = sizeof whole / sizeof *whole };

/* Each file is accepted as a whole. Truncated at any byte, it is rejected with a message that names
   it. */
static void cut_files(void) {
    for (int k = 0; k < WHOLE; k++) {
        const char *text = whole[k][1];
        begin_folder();
        put_text(whole[k][0], text);
        syn_tokenizer *tok = load_folder();
        CHECK_MSG(tok != NULL, "%s", whole[k][0]);
        syn_tokenizer_free(tok);
        for (size_t n = 0; n < strlen(text); n++) {
            syn_error err = {0};
            put_file(whole[k][0], text, n);
            CHECK_MSG(syn_tokenizer_load(&tok, in_folder(""), &err) != SYN_OK, "%.*s", (int)n,
                      text);
            CHECK_HAS(err.text, whole[k][0]);
        }
    }
}

static syn_status load_and_encode(void *unused, syn_error *err) {
    static const char text[] = "a <x> hello<m> b";
    (void)unused;
    syn_tokenizer *tok;
    int32_t *ids;
    size_t elems;
    SYN_TRY(syn_tokenizer_load(&tok, in_folder(""), err));
    const syn_status status = syn_tokenizer_encode(tok, text, strlen(text), &ids, &elems, err);
    syn_free(ids);
    syn_tokenizer_free(tok);
    return status;
}

static void memory_runs_out(void) {
    begin_folder();
    for (int k = 1; k < WHOLE; k++) put_text(whole[k][0], whole[k][1]);
    put_text(CONFIG, "{\"add_prefix_space\": true, \"pad_token\": {\"content\": \"ab\", "
                     "\"single_word\": true}, \"image_token\": \"<i>\"}");
    CHECK(test_without_memory(load_and_encode, NULL) > 20);
}

/* So many tokens that the table grows several times. They have common prefixes, and the text
   contains them one after the other. */
static void many_tokens(void) {
    enum { N = 3000 };
    static char config[N * 24], text[N * 12];
    size_t used = 0, bytes = 0;
    used += (size_t)sprintf(config, "{");
    for (int i = 0; i < N; i++) {
        used += (size_t)sprintf(config + used, "%s\"<%d\": %d", i ? ", " : "", i, 293 + i);
        bytes += (size_t)sprintf(text + bytes, "<%d ", i);
    }
    sprintf(config + used, "}");
    begin_folder();
    put_text("added_tokens.json", config);
    syn_tokenizer *tok = load_folder();
    int32_t *ids;
    size_t elems;
    syn_error err = {0};
    CHECK(tok != NULL);
    CHECK_INT(syn_tokenizer_added(tok), N);
    CHECK_OK(syn_tokenizer_encode(tok, text, bytes, &ids, &elems, &err), err);
    CHECK_INT(elems, 2 * N);
    for (int i = 0; i < N; i++) CHECK(ids[2 * i] == 293 + i && ids[2 * i + 1] == ' ');
    CHECK_INT(syn_tokenizer_special(tok, "<2999"), 293 + 2999);
    syn_free(ids);
    syn_tokenizer_free(tok);
}

#else

static void no_gpt2_tokenizer(void) {
    SKIP("this build has no PCRE2");
}

#endif

static const test_case cases[] = {
#ifdef SYN_HAVE_PCRE2
    {"every folder of the fixture", every_folder_of_the_fixture},
    {"words of all code points", words_of_all_code_points},
    {"what is not done is refused", what_is_not_done_is_refused},
    {"cut files", cut_files},
    {"memory runs out", memory_runs_out},
    {"too many added tokens", many_tokens},
#else
    {"no gpt2 tokenizer", no_gpt2_tokenizer},
#endif
};

TEST_MAIN(cases)
