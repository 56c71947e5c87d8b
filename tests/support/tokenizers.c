#include "tests/support/tokenizers.h"

#include <pthread.h>

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
