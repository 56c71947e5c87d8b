/* Builds a byte-pair encoder from a vocabulary and merges. GPT-2 and later models spell bytes as
   printable characters: bytes 33..126, 161..172 and 174..255 as the code points of the same
   numbers, and the other 68 bytes, in order, as U+0100..U+0143 (bytes_to_unicode in encoder.py of
   github.com/openai/gpt-2). */
#include "models/tokenizer/bpe_private.h"

#include "syntorch/base/memory.h"
#include "syntorch/base/utf8.h"

#include <stdio.h>
#include <string.h>

#define META       "\xe2\x96\x81" /* U+2581, SentencePiece's mark for a space */
#define META_BYTES 3

/* ---- GPT-2's spelling of bytes ---- */

static unsigned spelled(unsigned char byte) {
    if (byte <= 32) return 0x100u + byte;
    if (byte >= 127 && byte <= 160) return 0x100u + 33 + byte - 127;
    return byte == 173 ? 0x100u + 67 : byte;
}

/* Returns the byte that a code point spells, or -1. */
static int unspelled(unsigned c) {
    if (c >= 0x100)
        return c <= 0x120   ? (int)c - 0x100
               : c <= 0x142 ? (int)c - 0x121 + 127
               : c == 0x143 ? 173
                            : -1;
    return spelled((unsigned char)c) == c ? (int)c : -1;
}

size_t syn__bpe_spell(unsigned char byte, char out[4]) {
    return syn_utf8_encode(spelled(byte), out);
}

bool syn__bpe_unspell(const char *text, size_t bytes, char *out, size_t *out_bytes) {
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        unsigned c = (unsigned char)text[i];
        if (c >= 0xc2 && c <= 0xc5 && i + 1 < bytes)
            c = (c & 0x1f) << 6 | ((unsigned char)text[++i] & 0x3f); /* UTF-8 of two bytes */
        else if (c >= 0x80) c = UINT16_MAX;
        const int byte = unspelled(c);
        if (byte < 0) {
            memcpy(out, text, bytes);
            *out_bytes = bytes;
            return false;
        }
        out[used++] = (char)byte;
    }
    *out_bytes = used;
    return true;
}

static int32_t find_byte(const syn__vocab *vocab, unsigned char byte) {
    char text[4];
    return syn__vocab_find(vocab, text, syn__bpe_spell(byte, text));
}

bool syn__bpe_has_bytes(const syn__vocab *vocab) {
    for (unsigned b = 0; b < 256; b++)
        if (find_byte(vocab, (unsigned char)b) < 0) return false;
    return true;
}

/* ---- tokens ---- */

static syn_status find_bytes(syn__bpe *bpe, const syn__vocab *vocab, const char *name,
                             syn_error *err) {
    for (unsigned b = 0; b < 256; b++) {
        bpe->byte_id[b] = find_byte(vocab, (unsigned char)b);
        if (bpe->byte_id[b] < 0)
            return SYN_FAIL(err, SYN_E_FORMAT,
                            "%s: no token for the byte 0x%02x (spelled U+%04X): a byte-level "
                            "vocabulary needs a token for each of the 256 bytes",
                            name, b, spelled((unsigned char)b));
    }
    return SYN_OK;
}

/* Whether some characters become no token at all. The characters before and after such a character
   may then merge. */
static bool drops_chars(const syn__bpe *bpe) {
    if (bpe->rules.unk >= 0) return false;
    for (unsigned b = 0; b < 256; b++)
        if (bpe->byte_id[b] < 0) return true;
    return false;
}

static void find_chars(syn__bpe *bpe, const syn__vocab *vocab) {
    char text[8];
    for (unsigned b = 0; b < 256; b++) {
        const int n = snprintf(text, sizeof text, "<0x%02X>", b);
        bpe->byte_id[b] = bpe->rules.byte_fallback ? syn__vocab_find(vocab, text, (size_t)n) : -1;
    }
    for (unsigned c = 0; c < 128; c++) {
        text[0] = (char)c;
        bpe->ascii_id[c] = syn__vocab_find(vocab, text, 1);
    }
    bpe->cuts = !bpe->rules.ignore_merges && syn__vocab_find(vocab, META, META_BYTES) >= 0 &&
                !drops_chars(bpe);
}

syn_status syn__bpe_new(syn__bpe **out, const syn__vocab *vocab, const syn__bpe_rules *rules,
                        const char *name, syn_error *err) {
    size_t used = 0, bytes;
    syn__bpe *bpe = *out = syn_calloc(1, sizeof *bpe);
    if (bpe == NULL) return SYN_FAIL_NOMEM(err, sizeof *bpe, "a tokenizer");
    bpe->rules = *rules;
    bpe->vocab_elems = (int32_t)vocab->elems;
    bpe->bytes = syn_malloc(vocab->text_bytes);
    bpe->begin = syn_malloc((vocab->elems + 1) * sizeof *bpe->begin);
    if (bpe->bytes == NULL || bpe->begin == NULL)
        return SYN_FAIL_NOMEM(err, vocab->text_bytes, "the tokens of a vocabulary");
    for (size_t id = 0; id < vocab->elems; id++) {
        const char *text = syn__vocab_text(vocab, id, &bytes);
        bpe->begin[id] = (uint32_t)used;
        if (rules->by_chars) memcpy(bpe->bytes + used, text, bytes);
        else (void)syn__bpe_unspell(text, bytes, bpe->bytes + used, &bytes);
        used += bytes;
    }
    bpe->begin[vocab->elems] = (uint32_t)used;
    SYN_TRY(syn__bpe_reserve(bpe, 0, err));
    if (!rules->by_chars) return find_bytes(bpe, vocab, name, err);
    find_chars(bpe, vocab);
    return SYN_OK;
}

/* ---- merges ---- */

syn_status syn__bpe_reserve(syn__bpe *bpe, size_t merges, syn_error *err) {
    const size_t slots = syn__bpe_slots(merges);
    if (bpe->pairs != NULL && slots <= bpe->pair_mask + 1) return SYN_OK;
    syn__bpe_pair *old = bpe->pairs;
    const size_t old_slots = old == NULL ? 0 : bpe->pair_mask + 1;
    syn__bpe_pair *pairs = syn_malloc(slots * sizeof *pairs);
    if (pairs == NULL)
        return SYN_FAIL_NOMEM(err, slots * sizeof *pairs, "the merges of a vocabulary");
    bpe->pairs = pairs;
    bpe->pair_mask = slots - 1;
    for (size_t i = 0; i < slots; i++) pairs[i] = (syn__bpe_pair){UINT64_MAX, SYN__BPE_NO_RANK, -1};
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].rank != SYN__BPE_NO_RANK)
            *syn__bpe_find_pair(bpe, (int32_t)(old[i].key >> 32), (int32_t)old[i].key) = old[i];
    syn_free(old);
    return SYN_OK;
}

/* Returns the id of a token. If there is no such token, returns -1 and sets `why`. */
static int32_t token(const syn__vocab *vocab, const char *text, size_t bytes,
                     char why[SYN__BPE_WHY_BYTES]) {
    char shown[SYN__QUOTE_BYTES];
    const int32_t id = syn__vocab_find(vocab, text, bytes);
    if (id < 0)
        snprintf(why, SYN__BPE_WHY_BYTES, "the token \"%s\" is not in the vocabulary",
                 syn__quote(shown, text, bytes));
    return id;
}

static bool ends_in(const char *text, size_t bytes, const char *end, size_t end_bytes) {
    return bytes >= end_bytes && memcmp(text + bytes - end_bytes, end, end_bytes) == 0;
}

/* If this merge may join text to a following U+2581, records the byte that the text ends in. If the
   left token may stand for other text (an unknown token or a byte token), the text may end in any
   byte, so words are not split at all. */
static void note_glue(syn__bpe *bpe, const char *left, size_t left_bytes, const char *right,
                      size_t right_bytes) {
    if (right_bytes < META_BYTES || memcmp(right, META, META_BYTES) != 0) return;
    bpe->glues[(unsigned char)left[left_bytes - 1]] = true;
    const int32_t unk = bpe->rules.unk;
    if (unk >= 0 && ends_in(left, left_bytes, bpe->bytes + bpe->begin[unk],
                            bpe->begin[unk + 1] - bpe->begin[unk]))
        bpe->cuts = false;
    if (bpe->rules.byte_fallback && ends_in(left, left_bytes, ">", 1)) bpe->cuts = false;
}

bool syn__bpe_put_merge(syn__bpe *bpe, const syn__vocab *vocab, const char *left, size_t left_bytes,
                        const char *right, size_t right_bytes, char why[SYN__BPE_WHY_BYTES],
                        const syn__bpe_pair **known) {
    why[0] = '\0';
    const int32_t a = token(vocab, left, left_bytes, why);
    const int32_t b = a < 0 ? -1 : token(vocab, right, right_bytes, why);
    if (b < 0) return false;
    memcpy(vocab->joined, left, left_bytes);
    memcpy(vocab->joined + left_bytes, right, right_bytes);
    const int32_t id = token(vocab, vocab->joined, left_bytes + right_bytes, why);
    if (id < 0) return false;
    syn__bpe_pair *pair = syn__bpe_find_pair(bpe, a, b);
    *known = pair;
    if (pair->rank != SYN__BPE_NO_RANK) return false;
    pair->key = (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
    pair->rank = (uint32_t)bpe->n_pairs++;
    pair->id = id;
    if (bpe->rules.by_chars) note_glue(bpe, left, left_bytes, right, right_bytes);
    return true;
}

/* ---- words ---- */

/* Whether a token is a word that needs no merging: merging its bytes gives the same token, or
   ignore_merges is set. */
static syn_status is_word(const syn__bpe *bpe, const syn__vocab *vocab, syn__bpe_work *work,
                          int32_t id, int32_t *ids, bool *is, syn_error *err) {
    const char *text = bpe->bytes + bpe->begin[id];
    const size_t bytes = bpe->begin[id + 1] - bpe->begin[id];
    size_t left;
    if (bpe->rules.ignore_merges) {
        size_t spelled_bytes;
        const char *as_file = syn__vocab_text(vocab, (size_t)id, &spelled_bytes);
        *is = bpe->rules.by_chars ||
              syn__bpe_unspell(as_file, spelled_bytes, vocab->joined, &spelled_bytes);
        return SYN_OK;
    }
    SYN_TRY(syn__bpe_merge(bpe, work, text, bytes, ids, &left, err));
    *is = left == 1 && ids[0] == id;
    return SYN_OK;
}

/* Adds the tokens of a single character or, if `longer`, the other tokens. Tokens of a single
   character must be added first, because merging starts from them. */
static syn_status make_words(syn__bpe *bpe, const syn__vocab *vocab, bool longer,
                             syn__bpe_work *work, int32_t **ids, size_t *cap, syn_error *err) {
    for (int32_t id = 0; id < bpe->vocab_elems; id++) {
        const char *text = bpe->bytes + bpe->begin[id];
        const size_t bytes = bpe->begin[id + 1] - bpe->begin[id];
        bool is = true;
        if (longer == (syn_utf8_char_bytes(text, bytes) == bytes)) continue;
        SYN_TRY(syn_grow(ids, cap, bytes, sizeof **ids, err));
        if (longer || !bpe->rules.by_chars) SYN_TRY(is_word(bpe, vocab, work, id, *ids, &is, err));
        if (!is) continue;
        const uint32_t hash = syn__bpe_hash(text, bytes);
        *syn__bpe_find_word(bpe, text, bytes, hash) = (syn__bpe_word){hash, id};
    }
    return SYN_OK;
}

syn_status syn__bpe_finish(syn__bpe *bpe, const syn__vocab *vocab, syn_error *err) {
    const size_t slots = syn__bpe_slots((size_t)bpe->vocab_elems);
    bpe->words = syn_malloc(slots * sizeof *bpe->words);
    if (bpe->words == NULL)
        return SYN_FAIL_NOMEM(err, slots * sizeof *bpe->words, "the words of a vocabulary");
    bpe->word_mask = slots - 1;
    for (size_t i = 0; i < slots; i++) bpe->words[i] = (syn__bpe_word){0, -1};
    syn__bpe_work work = {0};
    int32_t *ids = NULL;
    size_t cap = 0;
    syn_status status = make_words(bpe, vocab, false, &work, &ids, &cap, err);
    if (status == SYN_OK) status = make_words(bpe, vocab, true, &work, &ids, &cap, err);
    syn_free(ids);
    syn__bpe_work_free(&work);
    return status;
}

void syn__bpe_free(syn__bpe *bpe) {
    if (bpe == NULL) return;
    syn_free(bpe->bytes);
    syn_free(bpe->begin);
    syn_free(bpe->pairs);
    syn_free(bpe->words);
    syn_free(bpe);
}
