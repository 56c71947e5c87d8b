/* Implements tokenizers.h: writes vocabularies to the folder of the run and loads them. */
#include "tests/support/tokenizers.h"

#include "models/tokenizer/tokenizer_private.h"
#include "models/tokenizer/tokenizer_regex_private.h"
#include "models/tokenizer/tokenizer_unicode_private.h"

#include <pthread.h>

bool regex_unicode_is_known(void) {
    char version[64];
    syn__regex_unicode(version);
    const int major = atoi(version);
    return major >= 14 && major <= 16;
}

bool char_unicode_is_known(void) {
    const int major = atoi(syn__char_unicode());
    return major >= 14 && major <= 17;
}

void put_tiny_gpt2(void) {
    text_buffer vocab = {0}, merges = {0};
    if (!tiny_files(&vocab, &merges)) exit(1);
    put_file("vocab.json", vocab.data, vocab.bytes);
    put_file("merges.txt", merges.data, merges.bytes);
    free(vocab.data);
    free(merges.data);
}

void put_tiny_bert(void) {
    put_text("vocab.txt",
             "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\nab\nA\n\xc3\xa9\ne\nE\n"
             "\xe4\xb8\xad\n\xe4\xb8\xad\xe4\xb8\xad\n");
}

syn_tokenizer *load_from(const char *folder) {
    syn_error err = {0};
    syn_tokenizer *tok;
    if (syn_tokenizer_load(&tok, folder, &err) != SYN_OK) fprintf(stderr, "%s\n", err.text);
    return tok;
}

syn_tokenizer *load_folder(void) {
    return load_from(in_folder(""));
}

syn_tokenizer *load_shared(const char *name) {
    return load_from(shared_path("%s", name));
}

syn_tokenizer *words_alone(bool lower_case, bool strip_accents, bool split_ideographs) {
    static const char *const word[] = {"false", "true"};
    char config[160];
    snprintf(config, sizeof config,
             "{\"do_lower_case\": %s, \"strip_accents\": %s, \"tokenize_chinese_chars\": %s}",
             word[lower_case], word[strip_accents], word[split_ideographs]);
    put_text("vocab.txt", "[UNK]");
    put_text("tokenizer_config.json", config);
    return load_folder();
}

static syn_status add_to_hash(syn__encoder *enc, const syn__text *word, syn_error *err) {
    uint64_t *hash = enc->user;
    size_t bytes = 0, chars = 0;
    (void)err;
    for (; bytes < word->n; bytes++)
        if (((unsigned char)word->at[bytes] & 0xc0) != 0x80 && ++chars > 100) break;
    *hash = fnv_byte(fnv_bytes(*hash, word->at, bytes), 0);
    return SYN_OK;
}

uint64_t hash_words(uint64_t hash, const syn_tokenizer *tok, const char *text, size_t bytes) {
    syn_tokenizer words = *tok;
    /* "[UNK]" in a text must be split like other text, so no added tokens. */
    words.added = (syn__added){0};
    syn__encoder enc = {.tok = &words, .take = add_to_hash, .user = &hash};
    if (syn__encoder_run(&enc, text, bytes, NULL) != SYN_OK) abort();
    syn__encoder_free(&enc);
    syn_free(enc.ids);
    return hash;
}

bool gives(const syn_tokenizer *tok, const char *text, size_t bytes, const char *list,
           const char **rest) {
    int32_t *ids;
    size_t elems;
    syn_error err = {0};
    if (syn_tokenizer_encode(tok, text, bytes, &ids, &elems, &err) != SYN_OK) return false;
    bool same = true;
    for (size_t i = 0; i < elems && same; i++) {
        char *end;
        same = strtol(list, &end, 10) == ids[i] && end != list;
        list = end;
    }
    syn_free(ids);
    *rest = list;
    return same && (strncmp(list, " /", 2) == 0 || *list == '\0');
}

bool in_four_threads(void *(*often)(void *), syn_tokenizer *tok) {
    pthread_t threads[4];
    bool ok = true;
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, often, tok) != 0) abort();
    for (int i = 0; i < 4; i++) {
        void *failed;
        ok = pthread_join(threads[i], &failed) == 0 && failed == NULL && ok;
    }
    return ok;
}

bool squad_next(syn_json *json) {
    for (syn_json_type type;
         (type = syn_json_next(json)) != SYN_JSON_END && type != SYN_JSON_ERROR;)
        if (type == SYN_JSON_KEY &&
            (strcmp(json->text, "context") == 0 || strcmp(json->text, "question") == 0))
            return syn_json_next(json) == SYN_JSON_STRING;
    return false;
}
