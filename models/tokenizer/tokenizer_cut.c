/* Pre-tokenizers: each splits or changes a text and passes every part to the next pre-tokenizer.
   The last one passes them to the model. */
#include "models/tokenizer/tokenizer_private.h"

#include "syntorch/base/memory.h"

#include <string.h>

/* The state of a pre-tokenizer that splits. It holds back one part, which may have to be joined to
   the next. */
typedef struct cutter {
    syn__encoder *enc;
    size_t step; /* the next pre-tokenizer */
    const syn__text *in;
    syn__behavior behavior;
    bool holds, held_match, last_match;
    size_t held_begin, held_end;
} cutter;

static syn_status hand_on(cutter *c, size_t begin, size_t end, syn_error *err) {
    if (begin == end) return SYN_OK;
    const syn__text part = syn__text_part(c->in, begin, end);
    return syn__encode_cut(c->enc, c->step, &part, err);
}

static syn_status release(cutter *c, syn_error *err) {
    if (!c->holds) return SYN_OK;
    c->holds = false;
    return hand_on(c, c->held_begin, c->held_end, err);
}

/* Handles the next range of the text, which is a match of the pattern or lies between matches. */
static syn_status take(cutter *c, size_t begin, size_t end, bool is_match, syn_error *err) {
    bool joins = false;
    if (begin == end || (c->behavior == SYN__REMOVED && is_match)) return SYN_OK;
    if (c->behavior == SYN__REMOVED || c->behavior == SYN__ISOLATED)
        return hand_on(c, begin, end, err);
    if (c->behavior == SYN__CONTIGUOUS) joins = c->held_match == is_match;
    if (c->behavior == SYN__WITH_PREVIOUS) joins = is_match && !c->last_match;
    if (c->behavior == SYN__WITH_NEXT) joins = c->held_match && !is_match;
    c->last_match = is_match;
    if (c->holds && joins) {
        c->held_end = end;
        return c->behavior == SYN__CONTIGUOUS ? SYN_OK : release(c, err);
    }
    SYN_TRY(release(c, err));
    c->holds = true;
    c->held_match = is_match;
    c->held_begin = begin;
    c->held_end = end;
    return SYN_OK;
}

static syn_status split(syn__encoder *enc, const syn__step *step, size_t next, const syn__text *in,
                        syn_error *err) {
    cutter c = {.enc = enc, .step = next, .in = in, .behavior = step->behavior};
    for (size_t at = 0, begin, end; at < in->n; at = end) {
        SYN_TRY(syn__step_find(step, enc->match, in->at, in->n, at, &begin, &end, err));
        SYN_TRY(take(&c, at, begin, step->invert, err));
        SYN_TRY(take(&c, begin, end, !step->invert, err));
    }
    return release(&c, err);
}

/* ---- splitting by character class ---- */

enum { OTHER, SPACE, PUNCTUATION };

/* Classes of ASCII characters. */
static const uint8_t ascii_class[128] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2,
    2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2,
    2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 0,
};

/* The class of the character at *at; advances *at past it. */
static int class_at(const syn__text *in, size_t *at) {
    const unsigned char first = (unsigned char)in->at[*at];
    if (first < 128) {
        ++*at;
        return ascii_class[first];
    }
    const uint32_t c = syn__char_read(in->at, at);
    if (syn__char_is_space(c)) return SPACE;
    return syn__char_kind_of(c) == SYN__CHAR_PUNCTUATION ? PUNCTUATION : OTHER;
}

/* Splits a text at the characters of a class. */
static syn_status split_class(syn__encoder *enc, int class, syn__behavior behavior, size_t next,
                              const syn__text *in, syn_error *err) {
    cutter c = {.enc = enc, .step = next, .in = in, .behavior = behavior};
    size_t done = 0;
    for (size_t at = 0, end = 0; at < in->n; at = end) {
        if (class_at(in, &end) != class) continue;
        SYN_TRY(take(&c, done, at, false, err));
        SYN_TRY(take(&c, at, end, true, err));
        done = end;
    }
    SYN_TRY(take(&c, done, in->n, false, err));
    return release(&c, err);
}

/* Removes white space and isolates punctuation. */
static syn_status split_bert(syn__encoder *enc, size_t next, const syn__text *in, syn_error *err) {
    cutter c = {.enc = enc, .step = next, .in = in, .behavior = SYN__ISOLATED};
    size_t done = 0;
    for (size_t at = 0, end = 0; at < in->n; at = end) {
        const int class = class_at(in, &end);
        if (class == OTHER) continue;
        SYN_TRY(hand_on(&c, done, at, err));
        if (class == PUNCTUATION) SYN_TRY(hand_on(&c, at, end, err));
        done = end;
    }
    return hand_on(&c, done, in->n, err);
}

/* ---- changing ---- */

static syn_status put_before(syn__text_buffer *out, const syn__text *in, const char *text,
                             size_t bytes, syn_error *err) {
    const bool followed = in->from != NULL;
    return syn__text_put(out, followed, text, bytes, followed ? in->from[0] : 0,
                         followed ? in->to[0] : 0, err);
}

static syn_status spell(syn__encoder *enc, size_t next, const syn__text *in, syn_error *err) {
    syn__text_buffer *out = &enc->changed[next - 1];
    const bool followed = in->from != NULL;
    char spelled[4];
    out->n = 0;
    for (size_t i = 0; i < in->n; i++) {
        const size_t n = syn__bpe_spell((unsigned char)in->at[i], spelled);
        SYN_TRY(syn__text_put(out, followed, spelled, n, followed ? in->from[i] : 0,
                              followed ? in->to[i] : 0, err));
    }
    const syn__text made = syn__text_of(out, followed, in->is_first);
    return syn__encode_cut(enc, next, &made, err);
}

static syn_status prefix(syn__encoder *enc, size_t next, const syn__text *in, syn_error *err) {
    syn__text_buffer *out = &enc->changed[next - 1];
    if (in->n == 0 || in->at[0] == ' ') return syn__encode_cut(enc, next, in, err);
    out->n = 0;
    SYN_TRY(put_before(out, in, " ", 1, err));
    SYN_TRY(syn__text_copy(out, in, 0, in->n, err));
    const syn__text made = syn__text_of(out, in->from != NULL, in->is_first);
    return syn__encode_cut(enc, next, &made, err);
}

/* Replaces each space by the mark (step->text), and prepends a mark if the scheme says so. */
static syn_status mark(const syn__step *step, const syn__text *in, syn__text_buffer *out,
                       syn_error *err) {
    const bool followed = in->from != NULL;
    const char *text = step->text;
    const size_t bytes = step->text_bytes;
    const bool has_mark = in->at[0] == ' ' || (in->n >= bytes && memcmp(in->at, text, bytes) == 0);
    out->n = 0;
    if (!has_mark && (step->scheme == SYN__ALWAYS || (step->scheme == SYN__FIRST && in->is_first)))
        SYN_TRY(put_before(out, in, text, bytes, err));
    for (size_t at = 0, end; at < in->n; at = end + 1) {
        const char *space = memchr(in->at + at, ' ', in->n - at);
        end = space ? (size_t)(space - in->at) : in->n;
        SYN_TRY(syn__text_copy(out, in, at, end, err));
        if (space == NULL) break;
        SYN_TRY(syn__text_put(out, followed, text, bytes, followed ? in->from[end] : 0,
                              followed ? in->to[end] : 0, err));
    }
    return SYN_OK;
}

static syn_status metaspace(syn__encoder *enc, const syn__step *step, size_t next,
                            const syn__text *in, syn_error *err) {
    syn__text_buffer *out = &enc->changed[next - 1];
    if (in->n == 0) return SYN_OK;
    SYN_TRY(mark(step, in, out, err));
    const syn__text made = syn__text_of(out, in->from != NULL, in->is_first);
    if (!step->split) return syn__encode_cut(enc, next, &made, err);
    const syn__step at_mark = {.kind = SYN__CUT_SPLIT,
                               .pattern = step->text,
                               .pattern_bytes = step->text_bytes,
                               .behavior = SYN__WITH_NEXT};
    return split(enc, &at_mark, next, &made, err);
}

syn_status syn__encode_cut(syn__encoder *enc, size_t at, const syn__text *in, syn_error *err) {
    if (at == enc->tok->cuts.n) return in->n > 0 ? enc->take(enc, in, err) : SYN_OK;
    const syn__step *step = &enc->tok->cuts.at[at++];
    switch (step->kind) {
    case SYN__CUT_PREFIX:
        return prefix(enc, at, in, err);
    case SYN__CUT_SPELL:
        return spell(enc, at, in, err);
    case SYN__CUT_META:
        return metaspace(enc, step, at, in, err);
    case SYN__CUT_BERT:
        return split_bert(enc, at, in, err);
    case SYN__CUT_SPACE:
        return split_class(enc, SPACE, SYN__REMOVED, at, in, err);
    case SYN__CUT_PUNCTUATION:
        return split_class(enc, PUNCTUATION, step->behavior, at, in, err);
    default:
        return split(enc, step, at, in, err);
    }
}
