/* Functions common to all tokenizers, and the byte tokenizer. */
#include "models/tokenizer/tokenizer.h"

#include "models/tokenizer/tokenizer_private.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"

#include <string.h>

#define MAX_TEXT_BYTES ((size_t)INT32_MAX)

syn_status syn_tokenizer_open_bytes(syn_tokenizer **out, syn_error *err) {
    *out = syn_calloc(1, sizeof **out);
    if (*out == NULL) return SYN_FAIL_NOMEM(err, sizeof **out, "a tokenizer");
    for (int b = 0; b < 256; b++) (*out)->bytes[b] = (char)b;
    (*out)->name = "bytes";
    (*out)->vocab_elems = 256;
    (*out)->bos = (*out)->eos = -1;
    return SYN_OK;
}

void syn_tokenizer_free(syn_tokenizer *tok) {
    if (tok == NULL) return;
    syn__added_free(&tok->added);
    syn__steps_free(&tok->normalizers);
    syn__steps_free(&tok->cuts);
    syn__steps_free(&tok->decoders);
    syn__steps_free(&tok->trims);
    syn__bpe_free(tok->bpe);
    syn__wordpiece_free(tok->wordpiece);
    syn__composer_free(tok->composer);
    syn__regex_free(tok->word);
    syn_free(tok);
}

syn_tokenizer_kind syn_tokenizer_kind_of(const syn_tokenizer *tok) {
    return tok->kind;
}

const char *syn_tokenizer_name(const syn_tokenizer *tok) {
    return tok->name;
}

int32_t syn_tokenizer_vocab_size(const syn_tokenizer *tok) {
    return tok->vocab_elems;
}

int32_t syn_tokenizer_added(const syn_tokenizer *tok) {
    if (tok->kind == SYN_TOKENIZER_BYTES) return 0;
    return tok->vocab_elems - (tok->bpe ? tok->bpe->vocab_elems : tok->wordpiece->vocab_elems);
}

int32_t syn_tokenizer_special(const syn_tokenizer *tok, const char *text) {
    const syn__added_token *t = syn__added_find(&tok->added, text, strlen(text));
    return t ? t->id : -1;
}

int32_t syn_tokenizer_bert_special(const syn_tokenizer *tok, const char *text) {
    static const char *const names[][2] = {{"[CLS]", "<s>"},
                                           {"[SEP]", "</s>"},
                                           {"[MASK]", "<mask>"},
                                           {"[PAD]", "<pad>"},
                                           {"[UNK]", "<unk>"}};
    for (size_t i = 0; tok->kind == SYN_TOKENIZER_BPE && i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i][0]) == 0) return syn_tokenizer_special(tok, names[i][1]);
    return syn_tokenizer_special(tok, text);
}

int32_t syn_tokenizer_bos(const syn_tokenizer *tok) {
    return tok->bos;
}

int32_t syn_tokenizer_eos(const syn_tokenizer *tok) {
    return tok->eos;
}

const char *syn_tokenizer_token(const syn_tokenizer *tok, int32_t id, size_t *bytes) {
    *bytes = 0;
    if (id < 0 || id >= tok->vocab_elems) return NULL;
    if (tok->kind != SYN_TOKENIZER_BYTES) return syn__token_shown(tok, id, bytes);
    *bytes = 1;
    return tok->bytes + id;
}

static bool is_spelled(const syn_tokenizer *tok, int32_t id) {
    return tok->kind != SYN_TOKENIZER_BYTES && tok->spells && !syn__added_by_id(&tok->added, id);
}

syn_status syn_tokenizer_piece(const syn_tokenizer *tok, int32_t id, char **piece, size_t *bytes,
                               syn_error *err) {
    size_t n;
    const char *text = syn_tokenizer_token(tok, id, &n);
    const syn__added_token *added = text ? syn__added_by_id(&tok->added, id) : NULL;
    *piece = NULL;
    *bytes = 0;
    if (text == NULL)
        return SYN_FAIL(err, SYN_E_INVALID, "id %d is not one of the %d tokens", (int)id,
                        (int)tok->vocab_elems);
    if (added) {
        text = added->text;
        n = added->bytes;
    }
    char *out = *piece = syn_malloc(2 * n + 1);
    if (out == NULL) return SYN_FAIL_NOMEM(err, 2 * n + 1, "the text of a token");
    for (size_t i = 0; i < n; i++) {
        char spelled[4] = {text[i]};
        const size_t k = is_spelled(tok, id) ? syn__bpe_spell((unsigned char)text[i], spelled) : 1;
        memcpy(out + *bytes, spelled, k);
        *bytes += k;
    }
    out[*bytes] = '\0';
    return SYN_OK;
}

static syn_status check_utf8(const char *text, size_t bytes, syn_error *err) {
    for (size_t i = 0, step; i < bytes; i += step) {
        if (bytes - i >= 8 && syn__eight_ascii(text + i)) {
            step = 8;
            continue;
        }
        step = syn_utf8_char_bytes(text + i, bytes - i);
        if (step == 0)
            return SYN_FAIL(err, SYN_E_INVALID,
                            "the text is not valid UTF-8 at byte offset %zu (byte 0x%02x)", i,
                            (unsigned)(unsigned char)text[i]);
    }
    return SYN_OK;
}

static syn_status check_text(const syn_tokenizer *tok, const char *text, size_t bytes,
                             syn_error *err) {
    if (bytes > MAX_TEXT_BYTES)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "a text of %zu bytes is too long to tokenize at once; the limit is %zu",
                        bytes, MAX_TEXT_BYTES);
    return tok->kind == SYN_TOKENIZER_BYTES ? SYN_OK : check_utf8(text, bytes, err);
}

static syn_status encode_bytes(const char *text, size_t bytes, bool places, syn__encoded *out,
                               syn_error *err) {
    out->ids = syn_malloc(bytes * sizeof *out->ids);
    if (places) out->places = syn_malloc(bytes * sizeof *out->places);
    if (out->ids == NULL || (places && out->places == NULL))
        return SYN_FAIL_NOMEM(err, bytes * sizeof *out->ids, "the ids of a text");
    for (size_t i = 0; i < bytes; i++) {
        out->ids[i] = (unsigned char)text[i];
        if (places) out->places[i] = (syn__place){(uint32_t)i, (uint32_t)i + 1, 0, 0};
    }
    out->n = bytes;
    return SYN_OK;
}

static syn_status encode_plain(const syn_tokenizer *tok, const char *text, size_t bytes,
                               bool places, syn__encoded *out, syn_error *err) {
    *out = (syn__encoded){0};
    SYN_TRY(check_text(tok, text, bytes, err));
    return tok->kind == SYN_TOKENIZER_BYTES ? encode_bytes(text, bytes, places, out, err)
                                            : syn__encode_plain(tok, text, bytes, places, out, err);
}

/* ---- templates ---- */

/* Whether to use item i of a template. Without `special`, only the texts are used. */
static bool counts(const syn__template *t, size_t i, bool special) {
    return special || t->id[i] < 0;
}

static void put_text(syn_encoding *out, const syn__encoded *text, int32_t type) {
    for (size_t i = 0; i < text->n; i++) {
        const size_t at = out->n++;
        out->ids[at] = text->ids[i];
        out->types[at] = type;
        if (out->offsets == NULL) continue;
        out->offsets[at][0] = text->places[i].begin;
        out->offsets[at][1] = text->places[i].end;
    }
}

static void put_special(syn_encoding *out, int32_t id, int32_t type) {
    const size_t at = out->n++;
    out->ids[at] = id;
    out->types[at] = type;
    if (out->offsets) out->offsets[at][0] = out->offsets[at][1] = 0;
}

static syn_status fill_template(const syn__template *t, const syn__encoded texts[2], bool special,
                                bool places, syn_encoding *out, syn_error *err) {
    size_t n = 0; /* cannot overflow: the texts are in memory */
    for (size_t i = 0; i < t->n; i++)
        if (counts(t, i, special)) n += t->id[i] < 0 ? texts[-1 - t->id[i]].n : 1;
    *out = (syn_encoding){0};
    out->ids = syn_malloc(n * sizeof *out->ids);
    out->types = syn_malloc(n * sizeof *out->types);
    if (places) out->offsets = syn_malloc(n * sizeof *out->offsets);
    if (out->ids == NULL || out->types == NULL || (places && out->offsets == NULL)) {
        syn_encoding_free(out);
        return SYN_FAIL_NOMEM(err, n * sizeof *out->ids, "the ids of a text");
    }
    for (size_t i = 0; i < t->n; i++) {
        if (!counts(t, i, special)) continue;
        if (t->id[i] < 0) put_text(out, &texts[-1 - t->id[i]], t->type[i]);
        else put_special(out, t->id[i], t->type[i]);
    }
    return SYN_OK;
}

void syn_encoding_free(syn_encoding *encoding) {
    syn_free(encoding->ids);
    syn_free(encoding->types);
    syn_free(encoding->offsets);
    *encoding = (syn_encoding){0};
}

static syn_status encode(const syn_tokenizer *tok, const char *const text[2], const size_t bytes[2],
                         bool special, bool places, syn_encoding *out, syn_error *err) {
    static const syn__template alone = {{SYN__TEMPLATE_FIRST}, {0}, 1};
    const syn__template *t = tok->kind == SYN_TOKENIZER_BYTES ? &alone : &tok->single;
    syn__encoded encoded[2] = {{0}, {0}};
    *out = (syn_encoding){0};
    syn_status status = encode_plain(tok, text[0], bytes[0], places, &encoded[0], err);
    if (status == SYN_OK && text[1])
        status = encode_plain(tok, text[1], bytes[1], places, &encoded[1], err);
    if (status == SYN_OK)
        status = fill_template(text[1] ? &tok->pair : t, encoded, special, places, out, err);
    syn__encoded_free(&encoded[0]);
    syn__encoded_free(&encoded[1]);
    return status;
}

syn_status syn_tokenizer_encode_text(const syn_tokenizer *tok, const char *text, size_t text_bytes,
                                     bool special, syn_encoding *out, syn_error *err) {
    const char *const texts[2] = {text, NULL};
    const size_t bytes[2] = {text_bytes, 0};
    return encode(tok, texts, bytes, special, true, out, err);
}

syn_status syn_tokenizer_encode(const syn_tokenizer *tok, const char *text, size_t text_bytes,
                                int32_t **ids, size_t *ids_elems, syn_error *err) {
    syn__encoded plain;
    syn_encoding all = {0};
    *ids = NULL;
    *ids_elems = 0;
    SYN_TRY(encode_plain(tok, text, text_bytes, false, &plain, err));
    const bool alone = tok->kind != SYN_TOKENIZER_BPE || tok->single.n == 1;
    const syn__encoded both[2] = {plain, {0}};
    if (!alone) {
        const syn_status status = fill_template(&tok->single, both, true, false, &all, err);
        syn__encoded_free(&plain);
        syn_free(all.types);
        SYN_TRY(status);
    }
    syn_free(alone ? plain.places : NULL);
    *ids = alone ? plain.ids : all.ids;
    *ids_elems = alone ? plain.n : all.n;
    return SYN_OK;
}

syn_status syn_tokenizer_encode_pair(const syn_tokenizer *tok, const char *a, size_t a_bytes,
                                     const char *b, size_t b_bytes, int32_t **ids, int32_t **types,
                                     size_t *elems, syn_error *err) {
    const char *const texts[2] = {a, b};
    const size_t bytes[2] = {a_bytes, b_bytes};
    syn_encoding out;
    *ids = *types = NULL;
    *elems = 0;
    if (tok->pair.n == 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the tokenizer (%s) lacks [CLS] or [SEP], which BERT needs around its "
                        "input, or a post_processor for pairs of texts",
                        tok->name);
    SYN_TRY(encode(tok, texts, bytes, true, false, &out, err));
    *ids = out.ids;
    *types = out.types;
    *elems = out.n;
    return SYN_OK;
}

static syn_status check_known(const syn_tokenizer *tok, const int32_t *ids, size_t ids_elems,
                              syn_error *err) {
    for (size_t i = 0; i < ids_elems; i++)
        if (ids[i] < 0 || ids[i] >= tok->vocab_elems)
            return SYN_FAIL(err, SYN_E_INVALID, "id %d at position %zu is not one of the %d tokens",
                            (int)ids[i], i, (int)tok->vocab_elems);
    return SYN_OK;
}

syn_status syn_tokenizer_decode(const syn_tokenizer *tok, const int32_t *ids, size_t ids_elems,
                                char **text, size_t *text_bytes, syn_error *err) {
    *text = NULL;
    *text_bytes = 0;
    SYN_TRY(check_known(tok, ids, ids_elems, err));
    if (tok->kind != SYN_TOKENIZER_BYTES)
        return syn__decode(tok, ids, ids_elems, text, text_bytes, err);
    *text = syn_malloc(ids_elems + 1);
    if (*text == NULL) return SYN_FAIL_NOMEM(err, ids_elems, "the text of ids");
    for (size_t i = 0; i < ids_elems; i++) (*text)[i] = (char)ids[i];
    (*text)[ids_elems] = '\0';
    *text_bytes = ids_elems;
    return SYN_OK;
}

/* Number of bytes at the end of a text that belong to an incomplete character. */
static size_t begun_character(const char *text, size_t bytes) {
    for (size_t n = 1; n <= 3 && n <= bytes; n++) {
        const unsigned char c = (unsigned char)text[bytes - n];
        if (c >= 0xC0) return n < (c >= 0xF0 ? 4u : c >= 0xE0 ? 3u : 2u) ? n : 0;
        if (c < 0x80) return 0;
    }
    return 0;
}

syn_status syn_tokenizer_decode_begun(const syn_tokenizer *tok, const int32_t *ids,
                                      size_t ids_elems, char **text, size_t *text_bytes,
                                      syn_error *err) {
    size_t settled = ids_elems;
    *text = NULL;
    *text_bytes = 0;
    SYN_TRY(check_known(tok, ids, ids_elems, err));
    if (tok->kind != SYN_TOKENIZER_BYTES) SYN_TRY(syn__decode_settled(tok, ids, &settled, err));
    SYN_TRY(syn_tokenizer_decode(tok, ids, settled, text, text_bytes, err));
    *text_bytes -= begun_character(*text, *text_bytes);
    (*text)[*text_bytes] = '\0';
    return SYN_OK;
}
