/* Unicode's normal forms (Unicode Standard Annex 15). The text is processed in stretches. Stretches
   that no rule changes are copied. Every other stretch is decomposed, ordered and composed
   separately. */
#include "models/tokenizer/tokenizer_normalize_private.h"

#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"

#include <stdlib.h>
#include <string.h>

typedef struct form {
    bool compat, composes;
    uint32_t plain_below; /* code points below it do not change and are not marks */
} form;

static form form_of(syn__step_kind kind) {
    switch (kind) {
    case SYN__NORM_NFC:
        return (form){false, true, 0x300};
    case SYN__NORM_NFD:
        return (form){false, false, 0xc0};
    case SYN__NORM_NFKC:
        return (form){true, true, 0xa0};
    default:
        return (form){true, false, 0xa0};
    }
}

/* ---- decomposition ---- */

typedef struct row {
    syn__unit **at;
    size_t *cap, n;
} row;

static syn_status push(row *r, syn__unit unit, syn_error *err) {
    if (r->n == *r->cap) SYN_TRY(syn_grow(r->at, r->cap, r->n + 1, sizeof **r->at, err));
    (*r->at)[r->n++] = unit;
    return SYN_OK;
}

/* Stable sort of marks by combining class: insertion sort if there are few, otherwise counting
   sort. */
static syn_status sort_marks(syn__unit *marks, size_t n, syn_error *err) {
    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            const syn__unit u = marks[i];
            size_t at = i;
            for (; at > 0 && marks[at - 1].order > u.order; at--) marks[at] = marks[at - 1];
            marks[at] = u;
        }
        return SYN_OK;
    }
    size_t count[256] = {0};
    syn__unit *sorted = syn_malloc(n * sizeof *sorted);
    if (sorted == NULL)
        return SYN_FAIL_NOMEM(err, n * sizeof *sorted, "the marks of a word's characters");
    for (size_t i = 0; i < n; i++)
        if (marks[i].order < 255) count[marks[i].order + 1]++;
    for (size_t i = 1; i < 256; i++) count[i] += count[i - 1];
    for (size_t i = 0; i < n; i++) sorted[count[marks[i].order]++] = marks[i];
    memcpy(marks, sorted, n * sizeof *sorted);
    syn_free(sorted);
    return SYN_OK;
}

/* Decomposes in.at[begin .. end) and puts it in canonical order. */
static syn_status decompose(const form *f, const syn__text *in, size_t begin, size_t end, row *r,
                            syn_error *err) {
    size_t marks = 0; /* beginning of the current run of marks */
    r->n = 0;
    while (begin < end) {
        uint32_t parts[SYN__CHAR_MAX];
        const uint32_t c = syn__char_read(in->at, &begin);
        const size_t n =
            f->compat ? syn__char_decompose_compat(c, parts) : syn__char_decompose(c, parts);
        for (size_t i = 0; i < n; i++) {
            const unsigned order = syn__char_combining(parts[i]);
            if (order == 0) {
                if (marks < r->n) SYN_TRY(sort_marks(*r->at + marks, r->n - marks, err));
                marks = r->n + 1;
            }
            SYN_TRY(push(r, (syn__unit){parts[i], order, i > 0}, err));
        }
    }
    return marks < r->n ? sort_marks(*r->at + marks, r->n - marks, err) : SYN_OK;
}

/* ---- composition ---- */

/* Composes characters. A mark composes with the last starter, unless a mark of the same or a higher
   class is between the two. */
static syn_status compose(const syn__composer *composer, const row *in, row *out, syn_error *err) {
    size_t starter = SIZE_MAX; /* index in out */
    uint32_t last_order = 0;
    bool adjacent = false; /* nothing is between the starter and the next character */
    out->n = 0;
    for (size_t i = 0; i < in->n; i++) {
        const syn__unit u = (*in->at)[i];
        const bool may = starter != SIZE_MAX && (adjacent || last_order < u.order);
        const uint32_t whole = may ? syn__composer_find(composer, (*out->at)[starter].c, u.c) : 0;
        if (whole != 0) {
            (*out->at)[starter].c = whole;
            (*out->at)[starter].change += u.change - 1;
            continue;
        }
        if (u.order == 0) starter = out->n;
        adjacent = u.order == 0;
        last_order = u.order;
        SYN_TRY(push(out, u, err));
    }
    return SYN_OK;
}

/* ---- texts ---- */

/* Skips characters of the text. */
static size_t skip(const syn__text *in, size_t at, int32_t chars) {
    for (; chars > 0 && at < in->n; chars--) (void)syn__char_read(in->at, &at);
    return at;
}

/* Writes the result of the stretch that begins at `at`. */
static syn_status write_units(const row *r, const syn__text *in, size_t at, syn__text_buffer *out,
                              syn_error *err) {
    char utf8[4];
    for (size_t i = 0; i < r->n; i++) {
        const syn__unit u = (*r->at)[i];
        uint32_t from = 0, to = 0;
        if (in->from != NULL) {
            const size_t of = u.change > 0 ? at - (at > 0) : at;
            const bool none = (u.change > 0 && at == 0) || of >= in->n;
            from = none ? 0 : in->from[of];
            to = none ? 0 : in->to[of];
            if (u.change <= 0) at = skip(in, at, 1 - u.change);
        }
        SYN_TRY(
            syn__text_put(out, in->from != NULL, utf8, syn_utf8_encode(u.c, utf8), from, to, err));
    }
    return SYN_OK;
}

/* Finds the next stretch to process, at or after `at`. It begins with a character that is not plain
   or, for composition, with the plain character before it. */
static size_t next_stretch(const form *f, const syn__text *in, size_t at, size_t *end) {
    size_t last = at;
    for (size_t next = at; next < in->n;) {
        const size_t begin = next;
        if (in->n - next >= 8 && syn__eight_ascii(in->at + next)) {
            next += 8;
            last = next - 1;
            continue;
        }
        if (syn__char_read(in->at, &next) < f->plain_below) {
            last = begin;
            continue;
        }
        for (*end = next; *end < in->n; *end = next)
            if (syn__char_read(in->at, &next) < f->plain_below) break;
        return f->composes ? last : begin;
    }
    *end = in->n;
    return in->n;
}

syn_status syn__normal_form(syn__step_kind kind, syn__normal_work *work, const syn__text *in,
                            syn__text_buffer *out, syn_error *err) {
    const form f = form_of(kind);
    row units = {&work->units, &work->units_cap, 0},
        composed = {&work->composed, &work->composed_cap, 0};
    for (size_t at = 0, end; at < in->n; at = end) {
        const size_t stretch = next_stretch(&f, in, at, &end);
        SYN_TRY(syn__text_copy(out, in, at, stretch, err));
        if (stretch == end) break;
        SYN_TRY(decompose(&f, in, stretch, end, &units, err));
        if (f.composes) SYN_TRY(compose(work->composer, &units, &composed, err));
        SYN_TRY(write_units(f.composes ? &composed : &units, in, stretch, out, err));
    }
    return SYN_OK;
}
