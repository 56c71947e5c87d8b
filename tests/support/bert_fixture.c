/* Implements bert_fixture.h with the library's JSON reader. */
#include "tests/support/bert_fixture.h"
#include "tests/support/files.h"

/* Reads one number, or all numbers of nested arrays in order, and appends them to `out`. */
static bool bfix_read(bfix *f, syn_json *json, bfix_numbers *out) {
    const int depth = json->depth;
    int cap = 0;
    if (f->n_lists == 256) return false;
    double **list = &f->lists[f->n_lists++];
    *out = (bfix_numbers){NULL, 0};
    do {
        const syn_json_type type = syn_json_next(json);
        if (type == SYN_JSON_ERROR || type == SYN_JSON_END || type == SYN_JSON_KEY) return false;
        if (type != SYN_JSON_NUMBER) continue;
        if (out->n == cap) {
            cap = cap ? 2 * cap : 16;
            out->v = (double *)realloc(*list, (size_t)cap * sizeof **list);
            if (!out->v) abort();
            *list = out->v;
        }
        out->v[out->n++] = json->number;
    } while (json->depth > depth);
    return true;
}

static bool bfix_folders(syn_json *json, bfix_batch *batch) {
    const int depth = json->depth;
    int n = 0;
    do {
        const syn_json_type type = syn_json_next(json);
        if (type == SYN_JSON_ERROR || type == SYN_JSON_END || n == 4) return false;
        if (type == SYN_JSON_STRING)
            snprintf(batch->checkpoints[n++], sizeof batch->checkpoints[0], "%s", json->text);
    } while (json->depth > depth);
    return true;
}

/* The list that stores the numbers of a key; NULL if the key is ignored. */
static bfix_numbers *bfix_place(bfix *f, const char *key) {
    bfix_batch *b = f->n_batches > 0 ? &f->batches[f->n_batches - 1] : NULL;
    bfix_word *w = b && b->n_words > 0 ? &b->words[b->n_words - 1] : NULL;
    if (!b) return NULL;
#define BFIX_KEY(holder, name) \
    if (strcmp(key, #name) == 0) return (holder) ? &(holder)->name : NULL
    BFIX_KEY(b, tokens);
    BFIX_KEY(b, mask);
    BFIX_KEY(b, types);
    BFIX_KEY(b, hidden);
    BFIX_KEY(b, pooled);
    BFIX_KEY(b, nsp);
    BFIX_KEY(b, mlm_ids);
    BFIX_KEY(b, mlm_some);
    BFIX_KEY(b, greedy);
    BFIX_KEY(w, row);
    BFIX_KEY(w, position);
    BFIX_KEY(w, margin);
    BFIX_KEY(w, stride);
    BFIX_KEY(w, logits);
    BFIX_KEY(w, top_ids);
    BFIX_KEY(w, top_logits);
    BFIX_KEY(w, min);
    BFIX_KEY(w, sum);
    BFIX_KEY(w, sum_of_squares);
#undef BFIX_KEY
    return NULL;
}

static bool bfix_document(syn_json *json, bfix *f, const char *first_key) {
    for (;;) {
        const syn_json_type type = syn_json_next(json);
        if (type == SYN_JSON_END) return true;
        if (type == SYN_JSON_ERROR) return false;
        if (type != SYN_JSON_KEY) continue;
        if (strcmp(json->text, first_key) == 0 && ++f->n_batches > BFIX_BATCHES) return false;
        if (strcmp(json->text, "checkpoints") == 0) {
            if (f->n_batches == 0 || !bfix_folders(json, &f->batches[f->n_batches - 1]))
                return false;
            continue;
        }
        /* A bfix_word begins at the key "row" in BERT's fixtures. GPT's fixture has
           one word, which follows "greedy". */
        if ((strcmp(json->text, "row") == 0 || strcmp(json->text, "greedy") == 0) &&
            (f->n_batches == 0 || ++f->batches[f->n_batches - 1].n_words > 4))
            return false;
        bfix_numbers *to = bfix_place(f, json->text);
        if (to && !bfix_read(f, json, to)) return false;
    }
}

bool bfix_open(bfix *f, const char *file, const char *first_key) {
    const char *path = reference_path("%s", file);
    size_t bytes;
    syn_error err = {0};
    syn_json json;
    char *data = file_bytes(path, &bytes);
    memset(f, 0, sizeof *f);
    if (data == NULL) return false;
    syn_json_init(&json, path, data, bytes, &err);
    const bool ok = bfix_document(&json, f, first_key);
    syn_json_free(&json);
    free(data);
    if (!ok) fprintf(stderr, "%s: unexpected contents. %s\n", path, err.text);
    return ok;
}

void bfix_free(bfix *f) {
    for (int i = 0; i < f->n_lists; i++) free(f->lists[i]);
    memset(f, 0, sizeof *f);
}

int64_t bfix_rows(const bfix_batch *b) {
    return b->nsp.n / 2;
}

int64_t bfix_columns(const bfix_batch *b) {
    return b->nsp.n ? b->tokens.n / bfix_rows(b) : 0;
}
