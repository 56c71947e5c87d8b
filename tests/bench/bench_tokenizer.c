/* Measures the tokenizers of GPT-2 and BERT, and small tokenizers of each kind of tokenizer.json:
   loading, English text, and one very long word. Prints CPU time, which other programs affect less,
   with the limit of each figure. */
#include "models/tokenizer/tokenizer.h"

#include "syntorch/base/memory.h"
#include "tests/support/bench.h"
#include "tests/support/tokenizers.h"

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

/* The contexts and questions of SQuAD, one per line. */
static bool squad_text(text_buffer *text) {
    static const char name[] = "squad/dev-v1.1-excerpt.json";
    size_t bytes;
    syn_error err = {0};
    char *data = have_shared_data() ? file_bytes(shared_path("%s", name), &bytes) : NULL;
    if (data == NULL) return false;
    syn_json json;
    syn_json_init(&json, name, data, bytes, &err);
    while (squad_next(&json)) {
        text_add(text, json.text, json.text_bytes);
        text_adds(text, "\n");
    }
    const bool ok = json.type == SYN_JSON_END;
    syn_json_free(&json);
    free(data);
    return ok;
}

/* The shortest time of encoding in seconds; negative after a failure. */
static double time_encode(const syn_tokenizer *tok, const char *text, size_t bytes, size_t *elems) {
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        int32_t *ids;
        const double start = cpu_s();
        if (syn_tokenizer_encode(tok, text, bytes, &ids, elems, NULL) != SYN_OK) return -1;
        const double took = cpu_s() - start;
        if (took < best) best = took;
        syn_free(ids);
    }
    return best;
}

/* The shortest time of loading a folder in seconds; negative after a failure. */
static double time_load(syn_tokenizer **tok, const char *folder) {
    double best = 1e9;
    *tok = NULL;
    for (int i = 0; i < REPEATS; i++) {
        syn_tokenizer_free(*tok);
        const double start = cpu_s();
        *tok = load_from(folder);
        if (*tok == NULL) return -1;
        const double took = cpu_s() - start;
        if (took < best) best = took;
    }
    return best;
}

static void measure(const char *name, const char *folder, double load_limit_ms,
                    const text_buffer *text, const char *word) {
    syn_tokenizer *tok;
    const double load_s = time_load(&tok, folder);
    if (load_s < 0) die("a vocabulary cannot be loaded");
    printf("%s\n", name);
    line("vocabulary loaded", 1e3 * load_s, "ms", load_limit_ms, true);
    size_t elems = 0;
    const double text_s = time_encode(tok, text->data, text->bytes, &elems);
    printf("  %.2f million ids/s\n", (double)elems / text_s / 1e6);
    line("English text", (double)text->bytes / text_s / 1e6, "MB/s", 20, false);
    const double word_s = time_encode(tok, word, WORD_BYTES, &elems);
    if (text_s < 0 || word_s < 0) die("a text cannot be encoded");
    line("a word of 1 MB", word_s, "s", 1, true);
    syn_tokenizer_free(tok);
}

static const char *const kinds[] = {"llama3",      "qwen",    "gpt2",         "llama2",
                                    "llama2_meta", "mistral", "bert_uncased", "bert_cased"};

int main(void) {
    text_buffer lines = {0}, text = {0}, word = {0};
    if (!squad_text(&lines)) {
        puts("skipped: SYN_SHARED_DATA has no text");
        return 0;
    }
    while (text.bytes < TEXT_BYTES) text_add(&text, lines.data, lines.bytes);
    while (word.bytes < WORD_BYTES) text_adds(&word, "a");
    if (HAVE_BPE) measure("gpt2", shared_path("gpt2"), 100, &text, word.data);
    if (HAVE_WORDPIECE) measure("bert", shared_path("bert"), 50, &text, word.data);
    for (size_t i = 0; HAVE_BPE && HAVE_WORDPIECE && i < sizeof kinds / sizeof *kinds; i++)
        measure(kinds[i], reference_path("tokenizers/%s", kinds[i]), 50, &text, word.data);
    free(lines.data);
    free(text.data);
    free(word.data);
    return missed != 0;
}
