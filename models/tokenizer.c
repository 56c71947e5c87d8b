/* What all tokenizers have in common, and the byte tokenizer. */
#include "models/tokenizer.h"

#include "models/tokenizer_private.h"
#include "syntorch/memory.h"
#include "syntorch/utf8.h"

#include <string.h>

#define MAX_TEXT_BYTES ((size_t)INT32_MAX)

syn_status syn_tokenizer_open_bytes(syn_tokenizer **out, syn_error *err) {
    *out = syn_calloc(1, sizeof **out);
    if (*out == NULL) return SYN_FAIL_NOMEM(err, sizeof **out, "a tokenizer");
    for (int b = 0; b < 256; b++) (*out)->bytes[b] = (char)b;
    return SYN_OK;
}

void syn_tokenizer_free(syn_tokenizer *tok) {
    if (tok == NULL) return;
    syn__bpe_pattern_free(tok->pattern);
    syn__bpe_free(tok->bpe);
    syn__wordpiece_free(tok->wordpiece);
    syn_free(tok);
}

syn_tokenizer_kind syn_tokenizer_kind_of(const syn_tokenizer *tok) {
    return tok->kind;
}

const char *syn_tokenizer_name(const syn_tokenizer *tok) {
    static const char *const names[] = {"bytes", "gpt2-bpe", "bert-wordpiece"};
    return names[tok->kind];
}

int32_t syn_tokenizer_vocab_size(const syn_tokenizer *tok) {
    switch (tok->kind) {
    case SYN_TOKENIZER_BPE:
        return tok->bpe->vocab_elems;
    case SYN_TOKENIZER_WORDPIECE:
        return tok->wordpiece->vocab_elems;
    default:
        return 256;
    }
}

static int32_t added_id(const syn__bpe *bpe, const char *text) {
    const syn__added_token *t = syn__added_find(&bpe->added, text, strlen(text));
    return t ? t->id : -1;
}

int32_t syn_tokenizer_added(const syn_tokenizer *tok) {
    return tok->kind == SYN_TOKENIZER_BPE ? tok->bpe->vocab_elems - tok->bpe->base_elems : 0;
}

int32_t syn_tokenizer_bos(const syn_tokenizer *tok) {
    return tok->kind == SYN_TOKENIZER_BPE ? tok->bpe->frame.bos : -1;
}

int32_t syn_tokenizer_special(const syn_tokenizer *tok, const char *text) {
    if (tok->kind == SYN_TOKENIZER_BPE) return added_id(tok->bpe, text);
    for (size_t i = 0; tok->kind == SYN_TOKENIZER_WORDPIECE && i < SYN__WORDPIECE_SPECIALS; i++)
        if (strcmp(text, syn__wordpiece_special(i)) == 0) return tok->wordpiece->special[i];
    return -1;
}

int32_t syn_tokenizer_eos(const syn_tokenizer *tok) {
    return syn_tokenizer_special(tok, SYN__BPE_END_OF_TEXT);
}

const char *syn_tokenizer_token(const syn_tokenizer *tok, int32_t id, size_t *bytes) {
    *bytes = 0;
    if (id < 0 || id >= syn_tokenizer_vocab_size(tok)) return NULL;
    if (tok->kind == SYN_TOKENIZER_BYTES) {
        *bytes = 1;
        return tok->bytes + id;
    }
    const bool is_bpe = tok->kind == SYN_TOKENIZER_BPE;
    const uint32_t *begin = (is_bpe ? tok->bpe->begin : tok->wordpiece->begin) + id;
    *bytes = begin[1] - begin[0];
    return (is_bpe ? tok->bpe->bytes : tok->wordpiece->bytes) + begin[0];
}

static syn_status encode_bytes(const char *text, size_t bytes, int32_t **ids, size_t *ids_elems,
                               syn_error *err) {
    *ids = syn_malloc(bytes * sizeof **ids);
    if (*ids == NULL) return SYN_FAIL_NOMEM(err, bytes * sizeof **ids, "the ids of a text");
    for (size_t i = 0; i < bytes; i++) (*ids)[i] = (unsigned char)text[i];
    *ids_elems = bytes;
    return SYN_OK;
}

static syn_status check_utf8(const char *text, size_t bytes, syn_error *err) {
    for (size_t i = 0, step; i < bytes; i += step) {
        uint64_t eight;
        if (bytes - i >= 8 &&
            (memcpy(&eight, text + i, 8), (eight & UINT64_C(0x8080808080808080)) == 0)) {
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

syn_status syn_tokenizer_encode(const syn_tokenizer *tok, const char *text, size_t text_bytes,
                                int32_t **ids, size_t *ids_elems, syn_error *err) {
    *ids = NULL;
    *ids_elems = 0;
    if (text_bytes > MAX_TEXT_BYTES)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "a text of %zu bytes is too long to tokenize at once; the limit is %zu",
                        text_bytes, MAX_TEXT_BYTES);
    if (tok->kind == SYN_TOKENIZER_BYTES)
        return encode_bytes(text, text_bytes, ids, ids_elems, err);
    SYN_TRY(check_utf8(text, text_bytes, err));
    if (tok->kind == SYN_TOKENIZER_BPE)
        return syn__bpe_encode(tok->bpe, tok->pattern, text, text_bytes, ids, ids_elems, err);
    return syn__wordpiece_encode(tok->wordpiece, text, text_bytes, ids, ids_elems, err);
}

/* What syn_tokenizer_encode_pair gives, of the ids of its texts; `b` is NULL without a second. */
static syn_status join_pair(const syn_tokenizer *tok, const int32_t *a, size_t a_elems,
                            const int32_t *b, size_t b_elems, int32_t **ids, int32_t **types,
                            size_t *elems, syn_error *err) {
    /* No overflow: the parts themselves are in memory. */
    const size_t first = a_elems + 2, all = b == NULL ? first : first + b_elems + 1;
    *ids = syn_malloc(all * sizeof **ids);
    *types = syn_calloc(all, sizeof **types);
    if (*ids == NULL || *types == NULL) {
        syn_free(*ids);
        syn_free(*types);
        *ids = *types = NULL;
        return SYN_FAIL_NOMEM(err, 2 * all * sizeof **ids, "the ids of a pair of texts");
    }
    (*ids)[0] = syn_tokenizer_special(tok, "[CLS]");
    memcpy(*ids + 1, a, a_elems * sizeof **ids);
    if (b != NULL) memcpy(*ids + first, b, b_elems * sizeof **ids);
    (*ids)[first - 1] = (*ids)[all - 1] = syn_tokenizer_special(tok, "[SEP]");
    for (size_t i = first; i < all; i++) (*types)[i] = 1;
    *elems = all;
    return SYN_OK;
}

syn_status syn_tokenizer_encode_pair(const syn_tokenizer *tok, const char *a, size_t a_bytes,
                                     const char *b, size_t b_bytes, int32_t **ids, int32_t **types,
                                     size_t *elems, syn_error *err) {
    int32_t *part[2] = {NULL, NULL};
    size_t part_elems[2] = {0, 0};
    *ids = *types = NULL;
    *elems = 0;
    if (syn_tokenizer_special(tok, "[CLS]") < 0 || syn_tokenizer_special(tok, "[SEP]") < 0)
        return SYN_FAIL(err, SYN_E_INVALID,
                        "the vocabulary of the tokenizer (%s) lacks [CLS] or [SEP], which begin "
                        "and end the input of a BERT model",
                        syn_tokenizer_name(tok));
    syn_status status = syn_tokenizer_encode(tok, a, a_bytes, &part[0], &part_elems[0], err);
    if (status == SYN_OK && b != NULL)
        status = syn_tokenizer_encode(tok, b, b_bytes, &part[1], &part_elems[1], err);
    if (status == SYN_OK)
        status =
            join_pair(tok, part[0], part_elems[0], part[1], part_elems[1], ids, types, elems, err);
    syn_free(part[0]);
    syn_free(part[1]);
    return status;
}

/* The text of one id among others, written unless `out` is NULL; returns its bytes. */
static size_t put_token(const syn_tokenizer *tok, int32_t id, bool is_first, char *out) {
    size_t bytes, space = 0;
    const char *token = syn_tokenizer_token(tok, id, &bytes);
    if (tok->kind == SYN_TOKENIZER_WORDPIECE && !is_first) {
        const bool joins = bytes >= 2 && memcmp(token, "##", 2) == 0;
        token += joins ? 2 : 0;
        bytes -= joins ? 2 : 0;
        space = !joins;
    }
    if (out == NULL) return space + bytes;
    if (space > 0) *out = ' ';
    memcpy(out + space, token, bytes);
    return space + bytes;
}

syn_status syn_tokenizer_decode(const syn_tokenizer *tok, const int32_t *ids, size_t ids_elems,
                                char **text, size_t *text_bytes, syn_error *err) {
    const int32_t vocab_elems = syn_tokenizer_vocab_size(tok);
    *text = NULL;
    *text_bytes = 0;
    size_t total = 1;
    for (size_t i = 0; i < ids_elems; i++) {
        if (ids[i] < 0 || ids[i] >= vocab_elems)
            return SYN_FAIL(err, SYN_E_INVALID, "id %d at position %zu is not one of the %d tokens",
                            (int)ids[i], i, (int)vocab_elems);
        if (!syn_add_size(total, put_token(tok, ids[i], i == 0, NULL), &total))
            return SYN_FAIL(err, SYN_E_INVALID, "the text of %zu ids is too long", ids_elems);
    }
    char *out = syn_malloc(total);
    if (out == NULL) return SYN_FAIL_NOMEM(err, total, "the text of ids");
    size_t used = 0;
    for (size_t i = 0; i < ids_elems; i++) used += put_token(tok, ids[i], i == 0, out + used);
    out[used] = '\0';
    *text = out;
    *text_bytes = used;
    return SYN_OK;
}
