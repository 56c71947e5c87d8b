/* Speed of the tokenizers of GPT-2 and BERT: loading, English text, one very long word. Each figure
   beside its limit. */
#include "models/tokenizer.h"

#include "syntorch/memory.h"
#include "tests/support/tokenizer_folder.h"

#include <time.h>

#define REPEATS    5
#define TEXT_BYTES ((size_t)8 << 20)
#define WORD_BYTES 1000000
#ifdef SYN_HAVE_PCRE2
#define HAVE_BPE true
#else
#define HAVE_BPE false
#endif
#ifdef SYN_HAVE_UTF8PROC
#define HAVE_WORDPIECE true
#else
#define HAVE_WORDPIECE false
#endif

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The contexts and questions of SQuAD, one a line. */
static bool squad_text(text_buffer *text) {
    static const char name[] = "squad/dev-v1.1-excerpt.json";
    size_t bytes;
    syn_error err = {0};
    char *data = getenv("SYN_SHARED_DATA") != NULL ? read_shared(name, &bytes) : NULL;
    if (data == NULL) return false;
    syn_json json;
    syn_json_init(&json, name, data, bytes, &err);
    while (squad_next(&json)) {
        text_add(text, json.text, json.text_bytes);
        text_adds(text, "\n");
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

/* Best time of loading a folder of the shared data; negative after a failure. */
static double time_load(syn_tokenizer **tok, const char *name) {
    double best = 1e9;
    *tok = NULL;
    for (int i = 0; i < REPEATS; i++) {
        syn_tokenizer_free(*tok);
        const double start = now_s();
        *tok = load_shared(name);
        if (*tok == NULL) return -1;
        const double took = now_s() - start;
        if (took < best) best = took;
    }
    return best;
}

static int verdict(bool good) {
    puts(good ? "ok" : "MISSED");
    return !good;
}

/* Returns how many limits were missed. */
static int measure(const char *what, const char *name, double load_limit_s, const text_buffer *text,
                   const char *word) {
    syn_tokenizer *tok;
    const double load_s = time_load(&tok, name);
    if (load_s < 0) return 1;
    printf("%s: vocabulary loaded in %.1f ms (limit %.0f ms) ", what, 1e3 * load_s,
           1e3 * load_limit_s);
    int missed = verdict(load_s <= load_limit_s);

    size_t elems = 0;
    const double text_s = time_encode(tok, text->data, text->bytes, &elems);
    const double rate = (double)text->bytes / text_s / 1e6;
    printf("%s: English text at %.1f MB/s, %.2f million ids/s (limit 20 MB/s) ", what, rate,
           (double)elems / text_s / 1e6);
    missed += verdict(rate >= 20);

    const double run_s = time_encode(tok, word, WORD_BYTES, &elems);
    printf("%s: a word of 1 MB in %.3f s (limit 1 s) ", what, run_s);
    missed += verdict(run_s >= 0 && run_s <= 1);
    syn_tokenizer_free(tok);
    return missed;
}

int main(void) {
    int missed = 0;
    text_buffer line = {0}, text = {0}, word = {0};
    if (!squad_text(&line)) {
        puts("tokenizer: skipped, SYN_SHARED_DATA has no text");
        return 0;
    }
    while (text.bytes < TEXT_BYTES) text_add(&text, line.data, line.bytes);
    while (word.bytes < WORD_BYTES) text_adds(&word, "a");
    if (HAVE_BPE) missed += measure("gpt2-bpe", "gpt2", 0.1, &text, word.data);
    if (HAVE_WORDPIECE) missed += measure("bert-wordpiece", "bert", 0.05, &text, word.data);
    free(line.data);
    free(text.data);
    free(word.data);
    return missed != 0;
}
