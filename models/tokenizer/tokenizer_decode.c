/* Decodes ids. Each decoder transforms a list of texts; at first the texts are the tokens. */
#include "models/tokenizer/tokenizer_private.h"

#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* A list of texts: text i is at[end[i - 1] .. end[i]). */
typedef struct row {
    char *at;
    size_t *end;
    size_t bytes, n, cap, end_cap;
} row;

static syn_status add(row *r, const char *text, size_t bytes, syn_error *err) {
    SYN_TRY(syn_grow(&r->at, &r->cap, r->bytes + bytes + 1, 1, err));
    if (bytes > 0) memcpy(r->at + r->bytes, text, bytes);
    r->bytes += bytes;
    return SYN_OK;
}

/* Ends the current text. */
static syn_status close_text(row *r, syn_error *err) {
    if (r->n == r->end_cap) SYN_TRY(syn_grow(&r->end, &r->end_cap, r->n + 1, sizeof *r->end, err));
    r->end[r->n++] = r->bytes;
    return SYN_OK;
}

static const char *text_of(const row *r, size_t i, size_t *bytes) {
    const size_t begin = i == 0 ? 0 : r->end[i - 1];
    *bytes = r->end[i] - begin;
    return r->at ? r->at + begin : ""; /* at is NULL if all texts are empty */
}

static void row_free(row *r) {
    syn_free(r->at);
    syn_free(r->end);
}

static bool begins(const char *text, size_t bytes, const char *with, size_t with_bytes) {
    return bytes >= with_bytes && memcmp(text, with, with_bytes) == 0;
}

/* ---- decoders ---- */

/* Joins the bytes of all tokens into one text. */
static syn_status decode_bytes(const syn_tokenizer *tok, const row *in, row *out, syn_error *err) {
    for (size_t i = 0; i < in->n; i++) {
        size_t bytes, n;
        const char *text = text_of(in, i, &bytes);
        SYN_TRY(add(out, text, bytes, err));
        if (tok->spells) continue; /* already bytes */
        char *to = out->at + out->bytes - bytes;
        (void)syn__bpe_unspell(text, bytes, to, &n);
        out->bytes -= bytes - n;
    }
    return close_text(out, err);
}

/* Replaces every occurrence in the last text of out, which begins at `begin`. */
static void replace_all(row *out, size_t begin, const char *what, const char *with) {
    const size_t n = strlen(what), m = strlen(with); /* m < n */
    size_t used = begin;
    for (size_t i = begin; i < out->bytes;) {
        if (begins(out->at + i, out->bytes - i, what, n)) {
            memcpy(out->at + used, with, m);
            used += m;
            i += n;
        } else {
            out->at[used++] = out->at[i++];
        }
    }
    out->bytes = used;
}

/* Removes superfluous spaces from BERT's output. */
static void clean_up(row *out, size_t begin) {
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        replace_all(out, begin, pairs[i][0], pairs[i][1]);
}

static syn_status decode_wordpiece(const syn__step *step, const row *in, row *out, syn_error *err) {
    for (size_t i = 0; i < in->n; i++) {
        size_t bytes;
        const char *text = text_of(in, i, &bytes);
        const size_t before = out->bytes;
        const bool is_continuation = begins(text, bytes, step->text, step->text_bytes);
        if (i > 0 && !is_continuation) SYN_TRY(add(out, " ", 1, err));
        const size_t skip = i > 0 && is_continuation ? step->text_bytes : 0;
        SYN_TRY(add(out, text + skip, bytes - skip, err));
        if (step->cleanup) clean_up(out, before);
        SYN_TRY(close_text(out, err));
    }
    return SYN_OK;
}

/* Replaces marks by spaces. Removes the marks of the first token, unless the scheme is "never". */
static syn_status decode_meta(const syn__step *step, const row *in, row *out, syn_error *err) {
    for (size_t i = 0; i < in->n; i++) {
        size_t bytes;
        const char *text = text_of(in, i, &bytes);
        const bool goes = i == 0 && step->scheme != SYN__NEVER;
        for (size_t at = 0, n; at < bytes; at += n) {
            const bool is_mark = begins(text + at, bytes - at, step->text, step->text_bytes);
            n = is_mark ? step->text_bytes : 1;
            if (!is_mark) SYN_TRY(add(out, text + at, 1, err));
            else if (!goes) SYN_TRY(add(out, " ", 1, err));
        }
        SYN_TRY(close_text(out, err));
    }
    return SYN_OK;
}

static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Returns the byte of a text such as "<0x61>", or -1 for other texts. Like HuggingFace, accepts a
   plus sign before a single digit. */
static int fallback_byte(const char *text, size_t bytes) {
    if (bytes != 6 || !begins(text, bytes, "<0x", 3) || text[5] != '>') return -1;
    const int high = text[3] == '+' ? 0 : hex(text[3]), low = hex(text[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Consecutive bytes become one text if they are valid UTF-8. Otherwise each byte becomes U+FFFD. */
static syn_status put_bytes(row *out, size_t begin, syn_error *err) {
    const size_t n = out->bytes - begin;
    if (n == 0) return SYN_OK;
    if (syn_utf8_valid(out->at + begin, n)) return close_text(out, err);
    out->bytes = begin;
    for (size_t i = 0; i < n; i++) {
        SYN_TRY(add(out, REPLACEMENT, strlen(REPLACEMENT), err));
        SYN_TRY(close_text(out, err));
    }
    return SYN_OK;
}

static syn_status decode_fallback(const row *in, row *out, syn_error *err) {
    size_t begin = 0; /* first of the consecutive bytes */
    for (size_t i = 0; i < in->n; i++) {
        size_t bytes;
        const char *text = text_of(in, i, &bytes);
        const int byte = fallback_byte(text, bytes);
        if (byte >= 0) {
            const char one = (char)byte;
            SYN_TRY(add(out, &one, 1, err));
            continue;
        }
        SYN_TRY(put_bytes(out, begin, err));
        SYN_TRY(add(out, text, bytes, err));
        SYN_TRY(close_text(out, err));
        begin = out->bytes;
    }
    return put_bytes(out, begin, err);
}

/* Removes the step's text up to `start` times at the beginning of each token and up to `stop` times
   at its end. */
static syn_status decode_strip(const syn__step *step, const row *in, row *out, syn_error *err) {
    for (size_t i = 0; i < in->n; i++) {
        const size_t n = step->text_bytes;
        size_t bytes;
        const char *text = text_of(in, i, &bytes);
        for (size_t k = 0; k < step->start && begins(text, bytes, step->text, n); k++) {
            text += n;
            bytes -= n;
        }
        for (size_t k = 0; k < step->stop && bytes >= n; k++) {
            if (memcmp(text + bytes - n, step->text, n) != 0) break;
            bytes -= n;
        }
        SYN_TRY(add(out, text, bytes, err));
        SYN_TRY(close_text(out, err));
    }
    return SYN_OK;
}

static syn_status decode_replace(const syn__step *step, syn__match *match, const row *in, row *out,
                                 syn_error *err) {
    for (size_t i = 0; i < in->n; i++) {
        size_t bytes;
        const char *text = text_of(in, i, &bytes);
        for (size_t at = 0, begin, end; at < bytes; at = end) {
            SYN_TRY(syn__step_find(step, match, text, bytes, at, &begin, &end, err));
            SYN_TRY(add(out, text + at, begin - at, err));
            if (begin < end) SYN_TRY(add(out, step->text, step->text_bytes, err));
        }
        SYN_TRY(close_text(out, err));
    }
    return SYN_OK;
}

static syn_status apply(const syn_tokenizer *tok, const syn__step *step, syn__match *match,
                        const row *in, row *out, syn_error *err) {
    switch (step->kind) {
    case SYN__DECODE_BYTES:
        return decode_bytes(tok, in, out, err);
    case SYN__DECODE_WORDPIECE:
        return decode_wordpiece(step, in, out, err);
    case SYN__DECODE_META:
        return decode_meta(step, in, out, err);
    case SYN__DECODE_FALLBACK:
        return decode_fallback(in, out, err);
    case SYN__DECODE_STRIP:
        return decode_strip(step, in, out, err);
    case SYN__DECODE_REPLACE:
        return decode_replace(step, match, in, out, err);
    default: /* fuse */
        SYN_TRY(add(out, in->at, in->bytes, err));
        return close_text(out, err);
    }
}

/* ---- running the decoders ---- */

const char *syn__token_shown(const syn_tokenizer *tok, int32_t id, size_t *bytes) {
    const syn__added_token *t = syn__added_by_id(&tok->added, id);
    if (t != NULL) {
        *bytes = t->shown_bytes;
        return t->shown;
    }
    if (tok->wordpiece != NULL) return syn__wordpiece_text(tok->wordpiece, id, bytes);
    *bytes = tok->bpe->begin[id + 1] - tok->bpe->begin[id];
    return tok->bpe->bytes + tok->bpe->begin[id];
}

static syn_status decode(const syn_tokenizer *tok, const int32_t *ids, size_t n, syn__match *match,
                         row rows[2], size_t *last, syn_error *err) {
    for (size_t i = 0; i < n; i++) {
        size_t bytes;
        const char *text = syn__token_shown(tok, ids[i], &bytes);
        if (tok->decoders.n == 0 && i > 0) SYN_TRY(add(&rows[0], " ", 1, err));
        SYN_TRY(add(&rows[0], text, bytes, err));
        SYN_TRY(close_text(&rows[0], err));
    }
    for (size_t i = 0; i < tok->decoders.n; i++) {
        row *const out = &rows[1 - *last];
        out->bytes = out->n = 0;
        SYN_TRY(apply(tok, &tok->decoders.at[i], match, &rows[*last], out, err));
        *last = 1 - *last;
    }
    return add(&rows[*last], "", 0, err); /* reserves the NUL at the end */
}

syn_status syn__decode(const syn_tokenizer *tok, const int32_t *ids, size_t n, char **text,
                       size_t *text_bytes, syn_error *err) {
    row rows[2] = {{0}, {0}};
    syn__match *match = NULL;
    size_t last = 0;
    syn_status status = syn__match_new(&match, err);
    if (status == SYN_OK) status = decode(tok, ids, n, match, rows, &last, err);
    syn__match_free(match);
    if (status == SYN_OK) {
        rows[last].at[rows[last].bytes] = '\0';
        *text = rows[last].at;
        *text_bytes = rows[last].bytes;
        rows[last].at = NULL;
    }
    row_free(&rows[0]);
    row_free(&rows[1]);
    return status;
}

/* ---- incremental decoding ---- */

/* Whether the decoded text stays the same when ids are appended. It does under two conditions:
   until a decoder joins the texts, each text comes from a single token or from consecutive bytes;
   and the decoders after that change only the beginning of the joined text. */
static bool stays(const syn__steps *decoders, bool *joins_bytes) {
    bool joined = false, differs = false; /* differs: the first token is decoded in another way than
                                             later tokens */
    *joins_bytes = false;
    for (size_t i = 0; i < decoders->n; i++) {
        const syn__step *const step = &decoders->at[i];
        switch (step->kind) {
        case SYN__DECODE_WORDPIECE:
            if (joined || *joins_bytes) return false;
            differs = true;
            break;
        case SYN__DECODE_META:
        case SYN__DECODE_REPLACE:
            if (joined) return false;
            break;
        case SYN__DECODE_FALLBACK:
            if (joined || differs || *joins_bytes) return false;
            *joins_bytes = true;
            break;
        case SYN__DECODE_STRIP:
            if (joined && step->stop > 0) return false;
            break;
        case SYN__DECODE_BYTES: /* later tokens decide whether a joined text spells bytes */
            if (joined) return false;
            joined = true;
            break;
        default: /* fuse */
            joined = true;
        }
    }
    return true;
}

/* Whether the decoders before ByteFallback convert the token to a byte. */
static syn_status is_byte(const syn_tokenizer *tok, int32_t id, syn__match *match, row rows[2],
                          bool *out, syn_error *err) {
    size_t bytes, last = 0;
    const char *text = syn__token_shown(tok, id, &bytes);
    rows[0].bytes = rows[0].n = 0;
    SYN_TRY(add(&rows[0], text, bytes, err));
    SYN_TRY(close_text(&rows[0], err));
    for (size_t i = 0; tok->decoders.at[i].kind != SYN__DECODE_FALLBACK; i++, last = 1 - last) {
        rows[1 - last].bytes = rows[1 - last].n = 0;
        SYN_TRY(apply(tok, &tok->decoders.at[i], match, &rows[last], &rows[1 - last], err));
    }
    text = text_of(&rows[last], 0, &bytes);
    *out = fallback_byte(text, bytes) >= 0;
    return SYN_OK;
}

syn_status syn__decode_settled(const syn_tokenizer *tok, const int32_t *ids, size_t *n,
                               syn_error *err) {
    bool joins_bytes, byte = true;
    if (!stays(&tok->decoders, &joins_bytes)) *n = 0;
    if (*n == 0 || !joins_bytes) return SYN_OK;
    row rows[2] = {{0}, {0}};
    syn__match *match = NULL;
    syn_status status = syn__match_new(&match, err);
    while (status == SYN_OK && *n > 0) {
        status = is_byte(tok, ids[*n - 1], match, rows, &byte, err);
        if (!byte) break;
        --*n;
    }
    syn__match_free(match);
    row_free(&rows[0]);
    row_free(&rows[1]);
    return status;
}
