/* Tests which tokenizer a folder contains, and how its configuration files change the ids. */
#include "models/tokenizer/tokenizer.h"

#include "syntorch/base/memory.h"
#include "tests/support/test.h"
#include "tests/support/tokenizer_fixture.h"
#include "tests/support/tokenizers.h"

#ifdef SYN_HAVE_UTF8PROC

/* How settings of tokenizer_config.json change the ids of "A \xc3\xa9 \xc3\x89 <two
   ideographs>". */
static const struct {
    const char *config, *ids; /* ids NULL: the file is rejected */
    const char *sentence;
} configs[] = {
    {"{}", " 5 12 12 14 14", ""},
    {"{\"do_lower_case\": true, \"strip_accents\": null}", " 5 12 12 14 14", ""},
    {"{\"do_lower_case\": false}", " 10 11 1 14 14", ""},
    {"{\"strip_accents\": false}", " 5 11 11 14 14", ""},
    {"{\"strip_accents\": true, \"do_lower_case\": false}", " 10 12 13 14 14", ""},
    {"{\"tokenize_chinese_chars\": false}", " 5 12 12 15", ""},
    {"{\"tokenizer_class\": \"BertTokenizerFast\"}", " 5 12 12 14 14", ""},
    {"{\"tokenizer_class\": \"DistilBertTokenizer\"}", " 5 12 12 14 14", ""},
    {"{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}", " 5 12 12 14 14", ""},
    {"{\"tokenizer_class\": null, \"pad_token\": null}", " 5 12 12 14 14", ""},
    {"{\"mask_token\": {\"lstrip\": [true, {}], \"content\": \"[MASK]\"}, \"x\": [{}, 1],"
     " \"added_tokens_decoder\": {\"0\": {\"content\": \"[PAD]\", \"special\": true}}}",
     " 5 12 12 14 14", ""},
    {"{\"do_lower_case\": null}", NULL, "tokenizer_config.json:1:19: do_lower_case must be"},
    {"{\"do_lower_case\": \"no\"}", NULL, "do_lower_case must be"},
    {"{\"strip_accents\": 1}", NULL, "strip_accents must be true, false or null"},
    {"{\"unk_token\": \"<unk>\"}", NULL, "unk_token is \"<unk>\"; only \"[UNK]\" is supported"},
    {"{\"cls_token\": {\"content\": \"<s>\"}}", NULL, "cls_token is \"<s>\""},
    {"{\"sep_token\": 7}", NULL, "sep_token must be a string"},
    {"{\"added_tokens_decoder\": {\"9\": {\"content\": \"ab\"}}}", NULL,
     "the added token \"ab\" is not supported"},
    {"{\"added_tokens_decoder\": []}", NULL, "added_tokens_decoder"},
    {"{\"additional_special_tokens\": [\"ab\"]}", NULL, "the added token \"ab\" is not supported"},
    {"{\"extra_special_tokens\": {\"x\": \"ab\"}}", NULL, "the added token \"ab\" is not"},
    {"{\"additional_special_tokens\": [{\"content\"", NULL, "tokenizer_config.json:1:"},
    {"{\"additional_special_tokens\": 1}", NULL, "special tokens must be a list"},
    {"{\"image_token\": \"<i>\"}", NULL, "the added token \"<i>\" is not supported"},
    {"{\"additional_special_tokens\": [\"[MASK]\", null], \"bos_token\": \"[CLS]\","
     " \"extra_special_tokens\": {}, \"add_bos_token\": false, \"y_token\": [{}]}",
     " 5 12 12 14 14", ""},
    {"{\"tokenizer_class\": \"EsmTokenizer\"}", NULL,
     "the tokenizer_class \"EsmTokenizer\" is not supported; only GPT2Tokenizer and BertTokenizer"},
    {"{\"tokenizer_class\": \"BertTokenizerFaster\"}", NULL, "is not supported"},
    {"{\"tokenizer_class\": \"GPT2Tokenizer\"}", NULL,
     ""}, /* the folder has no vocab.json, or the library was built without PCRE2 */
    {"{\"tokenizer_class\": [\"BertTokenizer\"]}", NULL, "tokenizer_class must be a string"},
    {"[]", NULL, "the configuration must be an object"},
    {"{\"do_lower_case\": true", NULL, "tokenizer_config.json:1:"},
    {"{\"unk_token\": {\"content\"", NULL, "tokenizer_config.json:1:"},
    {"{\"unk_token\": {\"a\": {\"b", NULL, "tokenizer_config.json:1:"},
    {"{\"added_tokens_decoder\": {\"0\": ", NULL, "tokenizer_config.json:1:"},
    {"{} {}", NULL, "tokenizer_config.json:1:"},
    {"", NULL, "tokenizer_config.json"},
};

static void settings_of_wordpiece(void) {
    static const char text[] = "A \xc3\xa9 \xc3\x89 \xe4\xb8\xad\xe4\xb8\xad";
    put_tiny_bert();
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        syn_error err = {0};
        syn_tokenizer *tok;
        const char *rest;
        put_text("tokenizer_config.json", configs[i].config);
        const syn_status status = syn_tokenizer_load(&tok, in_folder(""), &err);
        if (configs[i].ids != NULL) {
            CHECK_MSG(status == SYN_OK, "%s: %s", configs[i].config, err.text);
            CHECK_MSG(gives(tok, text, sizeof text - 1, configs[i].ids, &rest), "%s",
                      configs[i].config);
        } else {
            CHECK_MSG(status != SYN_OK && tok == NULL, "%s", configs[i].config);
            CHECK_HAS(err.text, configs[i].sentence);
            CHECK(syn_tokenizer_load(&tok, in_folder(""), NULL) == status);
        }
        syn_tokenizer_free(tok);
    }
}

#endif

#ifdef SYN_HAVE_UTF8PROC

/* Files of older versions. They are used unless tokenizer_config.json lists the added tokens. */
static void older_files_of_wordpiece(void) {
    static const struct {
        const char *file, *text, *sentence; /* expected message; NULL: accepted */
    } rows[] = {
        {"added_tokens.json", "{\"[MASK]\": 4}", NULL},
        {"added_tokens.json", "{\"ab\": 9}", "the added token \"ab\" is not supported"},
        {"special_tokens_map.json", "{\"mask_token\": {\"content\": \"[MASK]\"}}", NULL},
        {"special_tokens_map.json", "{\"mask_token\": \"<mask>\"}", "mask_token is \"<mask>\""},
        {"special_tokens_map.json", "{\"additional_special_tokens\": [\"ab\"]}", "\"ab\" is not"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int listed = 0; listed < 2; listed++) {
            syn_error err = {0};
            syn_tokenizer *tok;
            clear_folder();
            put_tiny_bert();
            put_text(rows[i].file, rows[i].text);
            if (listed) put_text("tokenizer_config.json", "{\"added_tokens_decoder\": {}}");
            const syn_status status = syn_tokenizer_load(&tok, in_folder(""), &err);
            CHECK_MSG((status == SYN_OK) == (listed || !rows[i].sentence), "%s", rows[i].text);
            if (status != SYN_OK) CHECK_HAS(err.text, rows[i].sentence);
            syn_tokenizer_free(tok);
        }
}

#endif

#if defined SYN_HAVE_UTF8PROC && defined SYN_HAVE_PCRE2

/* Tests which of the two tokenizers in a folder is loaded. */
static void a_folder_of_both(void) {
    static const struct {
        /* File contents (NULL: no such file), and name of the loaded tokenizer (NULL: rejected). */
        const char *tokenizer_config, *config, *name;
    } folders[] = {
        {NULL, NULL, NULL},
        {"{}", "{}", NULL},
        {"{\"tokenizer_class\": \"BertTokenizer\"}", NULL, "bert-wordpiece"},
        {"{\"tokenizer_class\": \"GPT2TokenizerFast\"}", NULL, "gpt2-bpe"},
        {"{\"tokenizer_class\": \"GPT2Tokenizer\", \"unk_token\": \"x\"}", "{", "gpt2-bpe"},
        {NULL, "{\"model_type\": \"bert\"}", "bert-wordpiece"},
        {NULL, "{\"layers\": [1, {}], \"model_type\": \"gpt2\"}", "gpt2-bpe"},
        {"{\"model_type\": \"gpt2\"}", NULL, NULL},
        {"{\"tokenizer_class\": \"TokenizersBackend\"}", "{\"model_type\": \"gpt2\"}", "gpt2-bpe"},
        {"{\"tokenizer_class\": \"BertTokenizer\"}", "{\"model_type\": \"gpt2\"}",
         "bert-wordpiece"},
        {NULL, "{\"model_type\": \"t5\"}", NULL},
        {NULL, "{\"model_type\": \"\"}", NULL},
    };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        syn_error err = {0};
        syn_tokenizer *tok;
        clear_folder();
        put_tiny_bert();
        put_tiny_gpt2();
        if (folders[i].tokenizer_config != NULL)
            put_text("tokenizer_config.json", folders[i].tokenizer_config);
        if (folders[i].config != NULL) put_text("config.json", folders[i].config);
        const syn_status status = syn_tokenizer_load(&tok, in_folder(""), &err);
        if (folders[i].name != NULL) {
            CHECK_MSG(status == SYN_OK, "case %zu: %s", i, err.text);
            CHECK_STR(syn_tokenizer_name(tok), folders[i].name);
        } else {
            CHECK_INT(status, SYN_E_FORMAT);
            CHECK_HAS(err.text, "has two tokenizers");
        }
        syn_tokenizer_free(tok);
    }
    remove_all(in_folder("merges.txt")); /* a vocab.json without a merges.txt is ignored */
    remove_all(in_folder("config.json"));
    syn_tokenizer *tok = load_folder();
    CHECK(tok != NULL);
    CHECK_STR(syn_tokenizer_name(tok), "bert-wordpiece");
    syn_tokenizer_free(tok);
}

#endif

static void empty_and_oversized(void) {
    syn_error err = {0}, large = {0};
    syn_tokenizer *tok;
    CHECK_INT(syn_tokenizer_load(&tok, in_folder(""), &err), SYN_E_IO);
    CHECK_HAS(err.text, " is not a folder with a tokenizer: it lacks tokenizer.json, vocab.json");
    CHECK(tok == NULL);
    FILE *f = fopen(in_folder("vocab.txt"), "wb"); /* a sparse file with one line of 2 GB */
    CHECK(f != NULL);
    CHECK(fputs("[UNK]\n", f) >= 0 && fseek(f, 2147483647L, SEEK_SET) == 0);
    CHECK(fputc('a', f) == 'a' && fclose(f) == 0);
    CHECK(syn_tokenizer_load(&tok, in_folder(""), &large) != SYN_OK);
#ifdef SYN_HAVE_UTF8PROC
    CHECK_HAS(large.text, "vocab.txt: it is longer than 16777216 bytes");
#endif
}

static const test_case cases[] = {
#ifdef SYN_HAVE_UTF8PROC
    {"settings of wordpiece", settings_of_wordpiece},
    {"older files of wordpiece", older_files_of_wordpiece},
#endif
#if defined SYN_HAVE_UTF8PROC && defined SYN_HAVE_PCRE2
    {"a folder of both", a_folder_of_both},
#endif
    {"empty and oversized", empty_and_oversized},
};

TEST_MAIN(cases)
