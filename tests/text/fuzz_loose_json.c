/* Fuzz target for the tolerant JSON reader: it reads only its text, always finishes, and returns
   slices of the text. The decoder and the number parsers must accept any bytes. The first input
   byte selects which values are skipped. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "export/text/loose_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEPTH 512

typedef struct walk {
    syn__loose l;
    char open[DEPTH];
    size_t depth;
    syn__str first_key;
    char *scratch; /* a buffer of the text's size */
} walk;

static void need(bool cond) {
    if (!cond) abort();
}

static void check_slice(const walk *w, syn__str s) {
    need(s.text >= w->l.begin && s.text <= w->l.end);
    need(s.bytes <= (size_t)(w->l.end - s.text));
}

static void check_state(const walk *w, const char *before) {
    need(w->l.cur >= before && w->l.cur <= w->l.end);
    need(!w->l.cut || w->l.broken);
    need(!w->l.broken || w->l.why != NULL);
}

/* Decodes a copy of exactly the slice's size, so that sanitizers detect reads beyond it. */
static void check_text(syn__str s, char *scratch) {
    char *exact = malloc(s.bytes > 0 ? s.bytes : 1);
    int64_t i, ns;
    uint64_t u;
    double d;
    bool integer;
    if (exact == NULL) return;
    memcpy(exact, s.text, s.bytes);
    const syn__str copy = {exact, s.bytes};
    need(syn__loose_decode(copy, scratch) <= s.bytes);
    (void)syn__loose_i64(copy, &i);
    (void)syn__loose_u64(copy, &u);
    (void)syn__loose_double(copy, &d, &integer);
    (void)syn__loose_micros(copy, &d, &ns, &integer);
    free(exact);
}

static void take_value(walk *w, bool skip) {
    syn__str s;
    const char *before = w->l.cur;
    if (skip || w->depth == DEPTH) {
        syn__loose_skip(&w->l, &s);
    } else {
        const syn__loose_kind kind = syn__loose_value(&w->l, &s);
        need((kind == SYN__LOOSE_NONE) == w->l.broken);
        if (kind == SYN__LOOSE_OBJECT || kind == SYN__LOOSE_ARRAY) {
            need(s.bytes == 1);
            w->open[w->depth++] = *s.text;
        } else if (kind != SYN__LOOSE_NONE) {
            check_text(s, w->scratch);
        }
    }
    check_slice(w, s);
    check_state(w, before);
}

/* Moves from the current value to the next one, out of arrays and objects that end there. Returns
   false at the end of the text. */
static bool next_value(walk *w) {
    while (w->depth > 0 && !w->l.broken) {
        syn__str key;
        const char *before = w->l.cur;
        const bool object = w->open[w->depth - 1] == '{';
        const bool more = object ? syn__loose_member(&w->l, &key) : syn__loose_element(&w->l);
        check_state(w, before);
        if (more && object) {
            check_slice(w, key);
            if (w->first_key.bytes == 0) w->first_key = key;
        }
        if (more) return true;
        if (!w->l.broken) w->depth--;
    }
    return false;
}

static void walk_all(walk *w, unsigned skips) {
    const char *from = w->l.begin;
    for (unsigned n = 1;; n++) {
        do take_value(w, skips > 0 && n % 8 == skips);
        while (next_value(w));
        if (!w->l.broken) return;
        /* Resumes in an array of objects, as the trace readers do. */
        if (!syn__loose_resume(&w->l, from, w->first_key)) break;
        need(!w->l.broken && *w->l.cur == '{' && w->l.cur >= from);
        from = w->l.cur + 1;
        w->open[0] = '[';
        w->depth = 1;
    }
    need(w->l.cur == w->l.end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > 1 << 14) return 0;
    const unsigned skips = data[0] & 7;
    const size_t bytes = size - 1;
    char *text = malloc(bytes + SYN__LOOSE_PADDING);
    walk w = {.scratch = malloc(size), .first_key = {"", 0}};
    if (text != NULL && w.scratch != NULL) {
        memcpy(text, data + 1, bytes);
        memset(text + bytes, 0, SYN__LOOSE_PADDING);
        syn__loose_init(&w.l, text, bytes);
        walk_all(&w, skips);
    }
    free(text);
    free(w.scratch);
    return 0;
}
