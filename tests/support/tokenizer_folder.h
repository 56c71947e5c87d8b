/* Shared by the tests that load tokenizers: a folder of this run to load from, and the texts of
 * SQuAD.
 */
#ifndef TESTS_TOKENIZER_FOLDER_H
#define TESTS_TOKENIZER_FOLDER_H

#include "models/tokenizer.h"
#include "syntorch/json.h"
#include "syntorch/memory.h"
#include "syntorch/sink.h"
#include "tests/support/tokenizer_fixture.h"

#include <dirent.h>
#include <unistd.h>

static char folder[512]; /* under TMPDIR */

static inline bool make_folder(void) {
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.400s/syn_tokenizer_XXXXXX", tmp != NULL ? tmp : "/tmp");
    return mkdtemp(folder) != NULL;
}

static inline const char *in_folder(const char *name) {
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static inline bool write_file(const char *name, const char *data, size_t bytes) {
    FILE *f = fopen(in_folder(name), "wb");
    if (f == NULL) return false;
    const bool ok = fwrite(data, 1, bytes, f) == bytes;
    return fclose(f) == 0 && ok;
}

static inline bool write_text(const char *name, const char *text) {
    return write_file(name, text, strlen(text));
}

static inline void empty_folder(void) {
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
        if (e->d_name[0] != '.') (void)unlink(in_folder(e->d_name));
    if (dir != NULL) closedir(dir);
}

static inline void remove_folder(void) {
    empty_folder();
    (void)rmdir(folder);
}

/* NULL, after saying why, if it cannot. */
static inline syn_tokenizer *load(const char *from) {
    syn_error err = {0};
    syn_tokenizer *tok;
    if (syn_tokenizer_load(&tok, from, &err) != SYN_OK) fprintf(stderr, "%s\n", err.text);
    return tok;
}

/* A vocabulary of BERT with all special tokens; [UNK] is 1, the first letter 5. */
static const char tiny[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\nab\nA\n\xc3\xa9\ne\nE\n"
    "\xe4\xb8\xad\n\xe4\xb8\xad\xe4\xb8\xad\n";

/* Whether the ids of a text are those of a list in decimal; *rest is what follows the list. */
static inline bool gives(const syn_tokenizer *tok, const char *text, size_t bytes, const char *list,
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

/* A folder of the shared data, "gpt2" or "bert". */
static inline syn_tokenizer *load_shared(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("SYN_SHARED_DATA"), name);
    return load(path);
}

/* A file of the shared data, to be freed with syn_free, or NULL. */
static inline char *read_shared(const char *name, size_t *bytes) {
    char path[4096], *data = NULL;
    syn_error err = {0};
    snprintf(path, sizeof path, "%s/%s", getenv("SYN_SHARED_DATA"), name);
    if (syn_read_file(path, (size_t)1 << 26, &data, bytes, &err) != SYN_OK)
        fprintf(stderr, "%s\n", err.text);
    return data;
}

/* Goes on to the next "context" or "question"; false at the end or after an error. */
static inline bool squad_next(syn_json *json) {
    for (syn_json_type type;
         (type = syn_json_next(json)) != SYN_JSON_END && type != SYN_JSON_ERROR;)
        if (type == SYN_JSON_KEY &&
            (strcmp(json->text, "context") == 0 || strcmp(json->text, "question") == 0))
            return syn_json_next(json) == SYN_JSON_STRING;
    return false;
}

#endif
