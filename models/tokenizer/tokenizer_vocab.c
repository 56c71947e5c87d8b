/* Reads a vocabulary and indexes it by text and by id. */
#include "models/tokenizer/tokenizer_vocab_private.h"

#include "models/tokenizer/bpe_private.h"
#include "syntorch/base/memory.h"

#include <string.h>

static const char *entry_text(const syn__vocab *v, size_t entry, size_t *bytes) {
    const uint32_t begin = entry == 0 ? 0 : v->end[entry - 1];
    *bytes = v->end[entry] - begin;
    return v->text + begin;
}

const char *syn__quote(char out[SYN__QUOTE_BYTES], const char *text, size_t bytes) {
    static const char hex[] = "0123456789abcdef";
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (used + 8 > SYN__QUOTE_BYTES) {
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        if (c >= ' ' && c < 0x7f) {
            out[used++] = (char)c;
            continue;
        }
        out[used++] = '\\';
        out[used++] = 'x';
        out[used++] = hex[c >> 4];
        out[used++] = hex[c & 15];
    }
    out[used] = '\0';
    return out;
}

static syn_status read_entries(syn__vocab *v, syn_json *json, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "the vocabulary"));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        const size_t want = v->text_bytes + json->text_bytes;
        if (json->text_bytes == 0) return syn_json_fail(json, "a token must not be empty");
        if (json->text_bytes > v->longest_bytes) v->longest_bytes = json->text_bytes;
        SYN_TRY(syn_grow(&v->text, &v->text_cap, want, 1, err));
        SYN_TRY(syn_grow(&v->end, &v->end_cap, v->elems + 1, sizeof *v->end, err));
        SYN_TRY(syn_grow(&v->id, &v->id_cap, v->elems + 1, sizeof *v->id, err));
        memcpy(v->text + v->text_bytes, json->text, json->text_bytes);
        int64_t id;
        SYN_TRY(syn_json_expect_i64(json, "the id of a token", 0, INT32_MAX - 1, &id));
        v->text_bytes = want;
        v->end[v->elems] = (uint32_t)want;
        v->id[v->elems++] = (int32_t)id;
    }
    if (json->type == SYN_JSON_OBJECT_END) return SYN_OK;
    return err->code != SYN_OK ? err->code : SYN_E_FORMAT;
}

/* Returns the slot of a text, or the free slot where it can be inserted. */
static uint32_t *find_slot(const syn__vocab *v, const char *text, size_t bytes) {
    for (size_t i = syn__bpe_hash(text, bytes) & v->slot_mask;; i = (i + 1) & v->slot_mask) {
        if (v->slot[i] == 0) return &v->slot[i];
        size_t other_bytes;
        const char *other = entry_text(v, v->slot[i] - 1, &other_bytes);
        if (other_bytes == bytes && memcmp(other, text, bytes) == 0) return &v->slot[i];
    }
}

int32_t syn__vocab_find(const syn__vocab *v, const char *text, size_t bytes) {
    if (bytes > v->longest_bytes) return -1;
    const uint32_t entry = *find_slot(v, text, bytes);
    return entry == 0 ? -1 : v->id[entry - 1];
}

/* Indexes the entries. Fails unless ids are 0..n-1 without repetition and texts are unique. */
static syn_status index_entries(syn__vocab *v, const char *name, syn_error *err) {
    char a[SYN__QUOTE_BYTES], b[SYN__QUOTE_BYTES];
    const size_t slots = syn__bpe_slots(v->elems);
    v->slot_mask = slots - 1;
    v->slot = syn_calloc(slots, sizeof *v->slot);
    v->by_id = syn_calloc(v->elems, sizeof *v->by_id);
    v->joined = syn_malloc(2 * v->longest_bytes);
    if (v->slot == NULL || v->by_id == NULL || v->joined == NULL)
        return SYN_FAIL_NOMEM(err, slots * sizeof *v->slot, "the index of a vocabulary");
    for (size_t i = 0; i < v->elems; i++) {
        size_t bytes, other_bytes;
        const char *text = entry_text(v, i, &bytes);
        uint32_t *slot = find_slot(v, text, bytes);
        if (*slot != 0)
            return SYN_FAIL(err, SYN_E_FORMAT, "%s: the token \"%s\" appears twice (ids %d and %d)",
                            name, syn__quote(a, text, bytes), (int)v->id[*slot - 1], (int)v->id[i]);
        *slot = (uint32_t)i + 1;
        if ((size_t)v->id[i] >= v->elems)
            return SYN_FAIL(err, SYN_E_FORMAT,
                            "%s: the id %d of \"%s\" is out of range: %zu tokens must have the ids "
                            "0 to %zu without gaps",
                            name, (int)v->id[i], syn__quote(a, text, bytes), v->elems,
                            v->elems - 1);
        uint32_t *owner = &v->by_id[v->id[i]];
        if (*owner != 0) {
            const char *other = entry_text(v, *owner - 1, &other_bytes);
            return SYN_FAIL(err, SYN_E_FORMAT, "%s: \"%s\" and \"%s\" have the same id %d", name,
                            syn__quote(a, other, other_bytes), syn__quote(b, text, bytes),
                            (int)v->id[i]);
        }
        *owner = (uint32_t)i + 1;
    }
    return SYN_OK;
}

syn_status syn__vocab_read(syn__vocab *v, const char *name, syn_json *json, syn_error *err) {
    SYN_TRY(read_entries(v, json, err));
    return index_entries(v, name, err);
}

void syn__vocab_free(syn__vocab *v) {
    syn_free(v->text);
    syn_free(v->end);
    syn_free(v->id);
    syn_free(v->slot);
    syn_free(v->by_id);
    syn_free(v->joined);
    *v = (syn__vocab){0};
}

const char *syn__vocab_text(const syn__vocab *v, size_t id, size_t *bytes) {
    return entry_text(v, v->by_id[id] - 1, bytes);
}
