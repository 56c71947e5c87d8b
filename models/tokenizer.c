/* The byte tokenizer, and GPT-2's byte-level BPE put together from models/bpe_*.c. */
#include "models/tokenizer.h"

#include "models/bpe_private.h"
#include "syntorch/memory.h"
#include "syntorch/sink.h"
#include "syntorch/utf8.h"

#include <string.h>

#define MAX_TEXT_BYTES ((size_t)INT32_MAX)
/* Words that are not one token are remembered within one call, if the text is long enough to repeat
 * them. */
#define CACHE_SLOTS      4096
#define CACHE_FROM_BYTES ((size_t)16 << 10)
#define CACHE_WORD_BYTES 26
#define CACHE_WORD_IDS   8

struct syn_tokenizer {
    syn__bpe *bpe; /* NULL: bytes */
    syn__bpe_pattern *pattern;
};

/* One cache line. */
typedef struct cached_word {
    uint32_t hash;
    uint8_t bytes; /* 0 marks a free slot */
    uint8_t ids_elems;
    char text[CACHE_WORD_BYTES];
    int32_t ids[CACHE_WORD_IDS];
} cached_word;

/* State of one encode call. */
typedef struct encoder {
    const syn__bpe *bpe;
    syn__bpe_split split;
    syn__bpe_work work;
    cached_word *cache; /* direct-mapped; NULL: none */
    int32_t *ids;
    size_t ids_elems, ids_cap;
} encoder;

syn_status syn_tokenizer_open_bytes(syn_tokenizer **out, syn_error *err) {
    *out = syn_calloc(1, sizeof **out);
    return *out != NULL ? SYN_OK : SYN_FAIL_NOMEM(err, sizeof **out, "a tokenizer");
}

static syn_status join_path(char **out, const char *folder, const char *file, syn_error *err) {
    const size_t a = strlen(folder), b = strlen(file);
    *out = syn_malloc(a + b + 2);
    if (*out == NULL) return SYN_FAIL_NOMEM(err, a + b + 2, "a file name");
    memcpy(*out, folder, a);
    (*out)[a] = '/';
    memcpy(*out + a + 1, file, b + 1);
    return SYN_OK;
}

syn_status syn_tokenizer_load(syn_tokenizer **out, const char *folder, syn_error *err) {
    char *path[2] = {NULL, NULL}, *data[2] = {NULL, NULL};
    size_t bytes[2];
    *out = NULL;
    syn_tokenizer *tok = NULL;
    syn_status status = syn_tokenizer_open_bytes(&tok, err);
    if (status == SYN_OK) status = syn__bpe_pattern_new(&tok->pattern, err);
    for (int i = 0; i < 2 && status == SYN_OK; i++) {
        status = join_path(&path[i], folder, i == 0 ? "vocab.json" : "merges.txt", err);
        if (status == SYN_OK)
            status = syn_read_file(path[i], SYN__BPE_MAX_FILE_BYTES, &data[i], &bytes[i], err);
    }
    if (status == SYN_OK)
        status =
            syn__bpe_read(&tok->bpe, path[0], data[0], bytes[0], path[1], data[1], bytes[1], err);
    for (int i = 0; i < 2; i++) {
        syn_free(data[i]);
        syn_free(path[i]);
    }
    if (status == SYN_OK) *out = tok;
    else syn_tokenizer_free(tok);
    return status;
}

void syn_tokenizer_free(syn_tokenizer *tok) {
    if (tok == NULL) return;
    syn__bpe_pattern_free(tok->pattern);
    syn__bpe_free(tok->bpe);
    syn_free(tok);
}

const char *syn_tokenizer_name(const syn_tokenizer *tok) {
    return tok->bpe == NULL ? "bytes" : "gpt2-bpe";
}

int32_t syn_tokenizer_vocab_size(const syn_tokenizer *tok) {
    return tok->bpe == NULL ? 256 : tok->bpe->vocab_elems;
}

int32_t syn_tokenizer_eos(const syn_tokenizer *tok) {
    return tok->bpe == NULL ? -1 : tok->bpe->eos;
}

static syn_status encode_bytes(const char *text, size_t bytes, int32_t **ids, syn_error *err) {
    *ids = syn_malloc(bytes * sizeof **ids);
    if (*ids == NULL) return SYN_FAIL_NOMEM(err, bytes * sizeof **ids, "the ids of a text");
    for (size_t i = 0; i < bytes; i++) (*ids)[i] = (unsigned char)text[i];
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

static cached_word *cache_slot(const encoder *enc, uint32_t hash) {
    return &enc->cache[hash & (CACHE_SLOTS - 1)];
}

/* Appends the ids of one word; room for one id a byte is there. */
static syn_status merge_word(encoder *enc, const char *word, size_t bytes, uint32_t hash,
                             syn_error *err) {
    int32_t *ids = enc->ids + enc->ids_elems;
    size_t elems;
    const bool cacheable = enc->cache != NULL && bytes <= CACHE_WORD_BYTES;
    if (cacheable) {
        const cached_word *slot = cache_slot(enc, hash);
        if (slot->hash == hash && slot->bytes == bytes && memcmp(slot->text, word, bytes) == 0) {
            memcpy(ids, slot->ids, slot->ids_elems * sizeof *ids);
            enc->ids_elems += slot->ids_elems;
            return SYN_OK;
        }
    }
    SYN_TRY(syn__bpe_merge(enc->bpe, &enc->work, word, bytes, ids, &elems, err));
    enc->ids_elems += elems;
    if (cacheable && elems <= CACHE_WORD_IDS) {
        cached_word *slot = cache_slot(enc, hash);
        slot->hash = hash;
        slot->bytes = (uint8_t)bytes;
        slot->ids_elems = (uint8_t)elems;
        memcpy(slot->text, word, bytes);
        memcpy(slot->ids, ids, elems * sizeof *ids);
    }
    return SYN_OK;
}

/* Appends the ids of a text without special tokens. */
static syn_status encode_plain(encoder *enc, const char *text, size_t bytes, syn_error *err) {
    syn__bpe_split_set(&enc->split, text, bytes);
    for (;;) {
        size_t begin, word_bytes;
        SYN_TRY(syn__bpe_split_next(&enc->split, &begin, &word_bytes, err));
        if (word_bytes == 0) return SYN_OK;
        if (enc->ids_cap - enc->ids_elems < word_bytes)
            SYN_TRY(syn_grow(&enc->ids, &enc->ids_cap, enc->ids_elems + word_bytes,
                             sizeof *enc->ids, err));
        const char *word = text + begin;
        const uint32_t hash = syn__bpe_hash(word, word_bytes);
        const int32_t id = syn__bpe_find_word(enc->bpe, word, word_bytes, hash)->id;
        if (id >= 0) enc->ids[enc->ids_elems++] = id;
        else SYN_TRY(merge_word(enc, word, word_bytes, hash, err));
    }
}

/* Offset of the next "<|endoftext|>" from `from` on, or `bytes`. */
static size_t find_special(const encoder *enc, const char *text, size_t bytes, size_t from) {
    const size_t special_bytes = strlen(SYN__BPE_END_OF_TEXT);
    if (enc->bpe->eos < 0) return bytes;
    for (const char *at; bytes - from >= special_bytes; from = (size_t)(at - text) + 1) {
        at = memchr(text + from, '<', bytes - from - special_bytes + 1);
        if (at == NULL) break;
        if (memcmp(at, SYN__BPE_END_OF_TEXT, special_bytes) == 0) return (size_t)(at - text);
    }
    return bytes;
}

static syn_status encode_all(encoder *enc, const char *text, size_t bytes, syn_error *err) {
    SYN_TRY(syn_grow(&enc->ids, &enc->ids_cap, bytes / 4 + 1, sizeof *enc->ids, err));
    if (bytes >= CACHE_FROM_BYTES) {
        enc->cache = syn_calloc(CACHE_SLOTS, sizeof *enc->cache);
        if (enc->cache == NULL)
            return SYN_FAIL_NOMEM(err, CACHE_SLOTS * sizeof *enc->cache, "remembering words");
    }
    for (size_t pos = 0; pos < bytes;) {
        const size_t special = find_special(enc, text, bytes, pos);
        SYN_TRY(encode_plain(enc, text + pos, special - pos, err));
        pos = special;
        if (special == bytes) break;
        SYN_TRY(syn_grow(&enc->ids, &enc->ids_cap, enc->ids_elems + 1, sizeof *enc->ids, err));
        enc->ids[enc->ids_elems++] = enc->bpe->eos;
        pos += strlen(SYN__BPE_END_OF_TEXT);
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
    if (tok->bpe == NULL) {
        SYN_TRY(encode_bytes(text, text_bytes, ids, err));
        *ids_elems = text_bytes;
        return SYN_OK;
    }
    SYN_TRY(check_utf8(text, text_bytes, err));
    encoder enc = {.bpe = tok->bpe};
    syn_status status = syn__bpe_split_begin(&enc.split, tok->pattern, err);
    if (status == SYN_OK) status = encode_all(&enc, text, text_bytes, err);
    syn__bpe_split_free(&enc.split);
    syn__bpe_work_free(&enc.work);
    syn_free(enc.cache);
    if (status != SYN_OK) {
        syn_free(enc.ids);
        return status;
    }
    *ids = enc.ids;
    *ids_elems = enc.ids_elems;
    return SYN_OK;
}

/* The bytes of one token; false if there is no such id. */
static bool token_bytes(const syn_tokenizer *tok, int32_t id, const char **text, size_t *bytes) {
    if (id < 0 || id >= syn_tokenizer_vocab_size(tok)) return false;
    *text = tok->bpe == NULL ? NULL : tok->bpe->bytes + tok->bpe->begin[id];
    *bytes = tok->bpe == NULL ? 1 : tok->bpe->begin[id + 1] - tok->bpe->begin[id];
    return true;
}

syn_status syn_tokenizer_decode(const syn_tokenizer *tok, const int32_t *ids, size_t ids_elems,
                                char **text, size_t *text_bytes, syn_error *err) {
    *text = NULL;
    *text_bytes = 0;
    const char *token;
    size_t bytes, total = 1;
    for (size_t i = 0; i < ids_elems; i++) {
        if (!token_bytes(tok, ids[i], &token, &bytes))
            return SYN_FAIL(err, SYN_E_INVALID, "id %d at position %zu is not one of the %d tokens",
                            (int)ids[i], i, (int)syn_tokenizer_vocab_size(tok));
        if (!syn_add_size(total, bytes, &total))
            return SYN_FAIL(err, SYN_E_INVALID, "the text of %zu ids is too long", ids_elems);
    }
    char *out = syn_malloc(total);
    if (out == NULL) return SYN_FAIL_NOMEM(err, total, "the text of ids");
    size_t used = 0;
    for (size_t i = 0; i < ids_elems; i++) {
        (void)token_bytes(tok, ids[i], &token, &bytes);
        if (token != NULL) memcpy(out + used, token, bytes);
        else out[used] = (char)ids[i];
        used += bytes;
    }
    out[used] = '\0';
    *text = out;
    *text_bytes = used;
    return SYN_OK;
}
