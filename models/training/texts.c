/* Tokenizes samples in parallel and concatenates them in order; reads and writes the file that
 * caches them. See texts.h. */
#include "models/training/texts.h"

#include <string.h>

#include "syntorch/base/intern.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/sink.h"

struct syn_texts {
    int64_t n;
    int64_t *begins; /* n + 1 entries: the ids of sample i are begins[i] to begins[i + 1] - 1 */
    int32_t *firsts; /* n entries: see syn_text.first */
    int32_t *ids;
};

void syn_texts_free(syn_texts *t) {
    if (!t) return;
    syn_free(t->begins);
    syn_free(t->firsts);
    syn_free(t->ids);
    syn_free(t);
}

int64_t syn_texts_count(const syn_texts *t) {
    return t->n;
}

int64_t syn_texts_tokens(const syn_texts *t) {
    return t->begins[t->n];
}

syn_text syn_texts_get(const syn_texts *t, int64_t i) {
    const int64_t at = t->begins[i];
    return (syn_text){t->ids + at, (int32_t)(t->begins[i + 1] - at), t->firsts[i]};
}

static syn_status new_texts(syn_texts **out, int64_t n, syn_error *err) {
    syn_texts *t = syn_calloc(1, sizeof *t);
    if (t) {
        t->n = n;
        t->begins = syn_calloc((size_t)n + 1, sizeof *t->begins);
        t->firsts = syn_calloc((size_t)n, sizeof *t->firsts);
    }
    *out = t;
    if (t && t->begins && t->firsts) return SYN_OK;
    syn_texts_free(t);
    *out = NULL;
    return SYN_FAIL_NOMEM(err, (size_t)n * 12, "samples");
}

/* ---- one sample ---- */

#define PIECE 64 /* samples per task of a worker */

struct job {
    const syn_squad *squad;
    const syn_tokenizer *tok;
    const syn_texts_options *how;
    syn_texts *texts;
    int32_t cls, sep;
    bool roberta; /* the tokenizer is BPE: two separators between texts, and all types are 0 */
    struct piece {
        int32_t *ids;
        size_t n, cap;
        syn_error err;
    } * pieces;
};

static syn_status put(struct piece *p, const int32_t *ids, size_t n) {
    SYN_TRY(syn_grow(&p->ids, &p->cap, p->n + n, sizeof *ids, &p->err));
    if (n > 0) memcpy(p->ids + p->n, ids, n * sizeof *ids);
    p->n += n;
    return SYN_OK;
}

static syn_status encode(const struct job *j, const char *text, size_t bytes, int32_t **ids,
                         size_t *n, syn_error *err) {
    syn_encoding plain = {.ids = NULL};
    *ids = NULL;
    if (!j->roberta) return syn_tokenizer_encode(j->tok, text, bytes, ids, n, err);
    SYN_TRY(syn_tokenizer_encode_text(j->tok, text, bytes, false, &plain, err));
    *ids = plain.ids;
    *n = plain.n;
    plain.ids = NULL;
    syn_encoding_free(&plain);
    return SYN_OK;
}

/* Tokenizes question, `between` and context as one text. */
static syn_status encode_joined(const struct job *j, const syn_squad_entry *e, const char *between,
                                int32_t **ids, size_t *n, syn_error *err) {
    const size_t middle = strlen(between), bytes = e->question_bytes + middle + e->context_bytes;
    char *text = syn_malloc(bytes + 1);
    *ids = NULL;
    if (!text) return SYN_FAIL_NOMEM(err, bytes, "a text");
    memcpy(text, e->question, e->question_bytes);
    memcpy(text + e->question_bytes, between, middle);
    memcpy(text + e->question_bytes + middle, e->context, e->context_bytes);
    const syn_status s = encode(j, text, bytes, ids, n, err);
    syn_free(text);
    return s;
}

static syn_status add_single(const struct job *j, struct piece *p, const syn_squad_entry *e,
                             int32_t *first) {
    const bool framed = j->how->form == SYN_TEXTS_JOINED;
    const size_t most = (size_t)j->how->max_tokens - (framed ? 2 : 0);
    int32_t *ids;
    size_t n = 0;
    syn_status s = encode_joined(j, e, framed ? " [SEP] " : " ", &ids, &n, &p->err);
    if (n > most) n = most;
    if (s == SYN_OK && framed) s = put(p, &j->cls, 1);
    if (s == SYN_OK) s = put(p, ids, n);
    if (s == SYN_OK && framed) s = put(p, &j->sep, 1);
    *first = (int32_t)(n + (framed ? 2 : 0));
    syn_free(ids);
    return s;
}

/* Truncates a pair of *a and *b ids to `most` ids in total, like "longest_first" of the tokenizers
 * library. The longer part is truncated, but not below the length of the shorter one. If that is
 * not enough, each part gets half of `most`; an odd token goes to the part that was longer, or to
 * the second part if they were equal. */
static void cut_pair(size_t *a, size_t *b, size_t most) {
    size_t *shorter = *a > *b ? b : a, *longer = *a > *b ? a : b;
    if (*a + *b <= most) return;
    *longer = most - (*shorter < most ? *shorter : most);
    if (*longer >= *shorter) return;
    *shorter = most / 2;
    *longer = most - *shorter;
}

/* Types of RoBERTa are those of the first text, as its tokenizer has them. */
static syn_status add_pair(const struct job *j, struct piece *p, const syn_squad_entry *e,
                           int32_t *first) {
    int32_t *a, *b = NULL;
    size_t n_a = 0, n_b = 0;
    const int32_t between[2] = {j->sep, j->sep};
    const size_t n_between = j->roberta ? 2 : 1;
    syn_status s = encode(j, e->question, e->question_bytes, &a, &n_a, &p->err);
    if (s == SYN_OK) s = encode(j, e->context, e->context_bytes, &b, &n_b, &p->err);
    cut_pair(&n_a, &n_b, (size_t)j->how->max_tokens - 2 - n_between);
    if (s == SYN_OK) s = put(p, &j->cls, 1);
    if (s == SYN_OK) s = put(p, a, n_a);
    if (s == SYN_OK) s = put(p, between, n_between);
    if (s == SYN_OK) s = put(p, b, n_b);
    if (s == SYN_OK) s = put(p, &j->sep, 1);
    *first = (int32_t)(n_a + 2 + (j->roberta ? n_b + 2 : 0));
    syn_free(a);
    syn_free(b);
    return s;
}

static void do_piece(void *arg, int64_t i, int worker) {
    const struct job *j = arg;
    struct piece *p = &j->pieces[i];
    syn_texts *t = j->texts;
    const int64_t end = (i + 1) * PIECE < t->n ? (i + 1) * PIECE : t->n;
    (void)worker;
    for (int64_t k = i * PIECE; k < end; k++) {
        const syn_squad_entry e = syn_squad_get(j->squad, (size_t)k);
        const size_t before = p->n;
        const bool pair = j->how->form == SYN_TEXTS_PAIR;
        if ((pair ? add_pair : add_single)(j, p, &e, &t->firsts[k]) != SYN_OK) {
            const syn_error why = p->err;
            p->err.code = SYN_OK;
            (void)SYN_FAIL(&p->err, why.code, "question %lld: %s", (long long)k + 1, why.text);
            return;
        }
        t->begins[k + 1] = (int64_t)(p->n - before);
    }
}

/* ---- all samples ---- */

/* Concatenates the pieces. Fails with the error of the first piece that failed. */
static syn_status join(struct job *j, int64_t n_pieces, syn_error *err) {
    syn_texts *t = j->texts;
    size_t n = 0;
    for (int64_t i = 0; i < n_pieces; i++) {
        const syn_error *e = &j->pieces[i].err;
        if (e->code != SYN_OK) return SYN_FAIL(err, e->code, "%s", e->text);
        n += j->pieces[i].n;
    }
    if (!(t->ids = syn_malloc(n * sizeof *t->ids))) return SYN_FAIL_NOMEM(err, n * 4, "samples");
    n = 0;
    for (int64_t i = 0; i < n_pieces; i++) {
        const struct piece *p = &j->pieces[i];
        if (p->n > 0) memcpy(t->ids + n, p->ids, p->n * sizeof *p->ids);
        n += p->n;
    }
    for (int64_t i = 0; i < t->n; i++) t->begins[i + 1] += t->begins[i];
    return SYN_OK;
}

static syn_status check(struct job *j, syn_error *err) {
    const bool framed = j->how->form != SYN_TEXTS_PLAIN;
    j->roberta = framed && syn_tokenizer_kind_of(j->tok) == SYN_TOKENIZER_BPE;
    const int64_t pair = j->roberta ? 5 : 4;
    const int64_t least = j->how->form == SYN_TEXTS_PAIR ? pair : framed ? 3 : 1;
    if (j->how->max_tokens < least || j->how->max_tokens > INT32_MAX)
        return SYN_FAIL(err, SYN_E_INVALID, "samples of at most %lld tokens have no space for text",
                        (long long)j->how->max_tokens);
    if (!framed) return SYN_OK;
    j->cls = syn_tokenizer_bert_special(j->tok, "[CLS]");
    j->sep = syn_tokenizer_bert_special(j->tok, "[SEP]");
    return j->cls >= 0 && j->sep >= 0
               ? SYN_OK
               : SYN_FAIL(err, SYN_E_INVALID, "the vocabulary lacks [CLS] or [SEP]");
}

syn_status syn_texts_new(syn_texts **out, const syn_squad *squad, const syn_tokenizer *tok,
                         const syn_texts_options *how, syn_workers *workers, syn_error *err) {
    const int64_t n = (int64_t)syn_squad_count(squad), n_pieces = (n + PIECE - 1) / PIECE;
    struct job j = {.squad = squad, .tok = tok, .how = how};
    SYN_TRY(check(&j, err));
    SYN_TRY(new_texts(&j.texts, n, err));
    j.pieces = syn_calloc((size_t)n_pieces, sizeof *j.pieces);
    syn_status s = SYN_OK;
    if (!j.pieces) s = SYN_FAIL_NOMEM(err, (size_t)n_pieces * sizeof *j.pieces, "samples");
    if (s == SYN_OK) syn_workers_run(workers, n_pieces, do_piece, &j);
    if (s == SYN_OK) s = join(&j, n_pieces, err);
    for (int64_t i = 0; j.pieces && i < n_pieces; i++) syn_free(j.pieces[i].ids);
    syn_free(j.pieces);
    if (s == SYN_OK) *out = j.texts;
    else syn_texts_free(j.texts);
    return s;
}

/* ---- cache file: header, begins, firsts, ids, in this machine's byte order ---- */

static const char magic[8] = "SYNTEXT";

struct header {
    char magic[8];
    uint64_t key, hash; /* hash: of everything after the header */
    int64_t n, tokens;
};

uint64_t syn_texts_key(const syn_squad *squad, uint64_t tokenizer, const syn_texts_options *how) {
    const int64_t options[3] = {1, how->form, how->max_tokens}; /* 1: version of the file format */
    uint64_t key = syn_hash(options, sizeof options, tokenizer);
    for (size_t i = 0; i < syn_squad_count(squad); i++) {
        const syn_squad_entry e = syn_squad_get(squad, i);
        key = syn_hash(e.question, e.question_bytes + 1, key); /* with the NUL, as a separator */
        key = syn_hash(e.context, e.context_bytes + 1, key);
    }
    return key;
}

static uint64_t hash_of(const syn_texts *t) {
    uint64_t h = syn_hash(t->begins, (size_t)(t->n + 1) * sizeof *t->begins, 0);
    h = syn_hash(t->firsts, (size_t)t->n * sizeof *t->firsts, h);
    return syn_hash(t->ids, (size_t)syn_texts_tokens(t) * sizeof *t->ids, h);
}

syn_status syn_texts_save(const syn_texts *t, const char *path, uint64_t key, syn_error *err) {
    struct header h = {.key = key, .hash = hash_of(t), .n = t->n, .tokens = syn_texts_tokens(t)};
    syn_sink *sink;
    memcpy(h.magic, magic, sizeof magic);
    SYN_TRY(syn_sink_open_file(&sink, path, err));
    syn_sink_write(sink, &h, sizeof h);
    syn_sink_write(sink, t->begins, (size_t)(t->n + 1) * sizeof *t->begins);
    syn_sink_write(sink, t->firsts, (size_t)t->n * sizeof *t->firsts);
    syn_sink_write(sink, t->ids, (size_t)h.tokens * sizeof *t->ids);
    return syn_sink_close(sink, true, err);
}

/* Whether a file with this header must have `bytes` bytes in total. */
static bool fits(const struct header *h, size_t bytes) {
    const int64_t most = (int64_t)(bytes / sizeof(int32_t));
    if (h->n < 0 || h->n > most || h->tokens < 0 || h->tokens > most) return false;
    return bytes == sizeof *h + (size_t)(h->n + 1) * 8 + (size_t)h->n * 4 + (size_t)h->tokens * 4;
}

static const char *take(void *to, const char *from, size_t bytes) {
    memcpy(to, from, bytes);
    return from + bytes;
}

static syn_status parse(syn_texts **out, const char *data, size_t bytes, uint64_t key,
                        syn_error *err) {
    struct header h;
    syn_texts *t;
    if (bytes < sizeof h) return SYN_OK;
    const char *at = take(&h, data, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.key != key || !fits(&h, bytes))
        return SYN_OK;
    SYN_TRY(new_texts(&t, h.n, err));
    if (!(t->ids = syn_malloc((size_t)h.tokens * sizeof *t->ids))) {
        syn_texts_free(t);
        return SYN_FAIL_NOMEM(err, (size_t)h.tokens * sizeof *t->ids, "samples");
    }
    at = take(t->begins, at, (size_t)(h.n + 1) * sizeof *t->begins);
    at = take(t->firsts, at, (size_t)h.n * sizeof *t->firsts);
    (void)take(t->ids, at, (size_t)h.tokens * sizeof *t->ids);
    if (syn_texts_tokens(t) == h.tokens && hash_of(t) == h.hash) *out = t;
    else syn_texts_free(t);
    return SYN_OK;
}

syn_status syn_texts_load(syn_texts **out, const char *path, uint64_t key, syn_error *err) {
    char *data;
    size_t bytes;
    *out = NULL;
    if (!syn_file_exists(path)) return SYN_OK;
    SYN_TRY(syn_read_file(path, SIZE_MAX - 1, &data, &bytes, err));
    const syn_status s = parse(out, data, bytes, key, err);
    syn_free(data);
    return s;
}
