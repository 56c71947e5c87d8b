/* Speed of the GPT-2 tokenizer: loading, English text, one very long word. Each figure beside its
 * limit. */
#include "models/tokenizer.h"

#include "syntorch/json.h"
#include "syntorch/memory.h"
#include "syntorch/sink.h"
#include "tests/tokenizer_fixture.h"

#include <time.h>

#define REPEATS    5
#define TEXT_BYTES ((size_t)8 << 20)

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The contexts and questions of SQuAD, one a line. */
static bool squad_text(const char *data_folder, text_buffer *text) {
    char path[4096], *data;
    size_t bytes;
    syn_error err = {0};
    snprintf(path, sizeof path, "%s/squad/dev-v1.1-excerpt.json", data_folder);
    if (syn_read_file(path, (size_t)1 << 26, &data, &bytes, &err) != SYN_OK) return false;
    syn_json json;
    syn_json_init(&json, path, data, bytes, &err);
    bool wanted = false;
    for (syn_json_type t; (t = syn_json_next(&json)) != SYN_JSON_END && t != SYN_JSON_ERROR;) {
        if (wanted && t == SYN_JSON_STRING) {
            text_add(text, json.text, json.text_bytes);
            text_adds(text, "\n");
        }
        wanted = t == SYN_JSON_KEY &&
                 (strcmp(json.text, "context") == 0 || strcmp(json.text, "question") == 0);
    }
    const bool ok = json.type == SYN_JSON_END;
    syn_json_free(&json);
    syn_free(data);
    return ok;
}

/* Best time of encoding, in seconds; negative after a failure. */
static double time_encode(const syn_tokenizer *tok, const char *text, size_t bytes, size_t *elems) {
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        int32_t *ids;
        const double start = now_s();
        if (syn_tokenizer_encode(tok, text, bytes, &ids, elems, NULL) != SYN_OK) return -1;
        const double took = now_s() - start;
        if (took < best) best = took;
        syn_free(ids);
    }
    return best;
}

static double time_load(syn_tokenizer **tok, const char *folder) {
    double best = 1e9;
    *tok = NULL;
    for (int i = 0; i < REPEATS; i++) {
        syn_tokenizer_free(*tok);
        syn_error err = {0};
        const double start = now_s();
        if (syn_tokenizer_load(tok, folder, &err) != SYN_OK) {
            fprintf(stderr, "%s\n", err.text);
            return -1;
        }
        const double took = now_s() - start;
        if (took < best) best = took;
    }
    return best;
}

static int verdict(bool good) {
    puts(good ? "ok" : "MISSED");
    return !good;
}

int main(void) {
    const char *data = getenv("SYN_SHARED_DATA");
    char folder[4096];
    text_buffer line = {0}, text = {0};
    if (data == NULL || !squad_text(data, &line)) {
        puts("tokenizer: skipped, SYN_SHARED_DATA has no text");
        return 0;
    }
    snprintf(folder, sizeof folder, "%s/gpt2", data);
    syn_tokenizer *tok;
    const double load_s = time_load(&tok, folder);
    if (load_s < 0) return 1;
    printf("tokenizer: GPT-2 vocabulary loaded in %.1f ms (limit 100 ms) ", 1e3 * load_s);
    int missed = verdict(load_s <= 0.1);

    while (text.bytes < TEXT_BYTES) text_add(&text, line.data, line.bytes);
    size_t elems = 0;
    const double text_s = time_encode(tok, text.data, text.bytes, &elems);
    const double rate = (double)text.bytes / text_s / 1e6;
    printf("tokenizer: English text at %.1f MB/s, %.2f million ids/s (limit 20 MB/s) ", rate,
           (double)elems / text_s / 1e6);
    missed += verdict(rate >= 20);

    memset(text.data, 'a', 1000000);
    const double run_s = time_encode(tok, text.data, 1000000, &elems);
    printf("tokenizer: a word of 1 MB in %.3f s (limit 1 s) ", run_s);
    missed += verdict(run_s >= 0 && run_s <= 1);
    syn_tokenizer_free(tok);
    free(line.data);
    free(text.data);
    return missed != 0;
}
