/* Readers of GPT-2's vocab.json and merges.txt. Both spell bytes as printable characters: the
   bytes 33..126, 161..172 and 174..255 as the code point of that number, the 68 others in order as
   U+0100..U+0143 (bytes_to_unicode in encoder.py of github.com/openai/gpt-2). */
#include "models/bpe_private.h"

#include "syntorch/json.h"
#include "syntorch/memory.h"
#include "syntorch/utf8.h"

#include <string.h>

#define ALPHABET_END   0x144 /* code points below may spell a byte */
#define QUOTE_BYTES    48
#define NOT_SPELLED    (-1)
#define VERSION_HEADER "#version"

/* The tokens as the file spells them, in file order. */
typedef struct spelling {
    const char *name;
    char *text;
    size_t text_bytes, text_cap;
    uint32_t *end; /* entry i is text[end[i - 1] .. end[i]) */
    int32_t *id;
    size_t elems, end_cap, id_cap;
    uint32_t *slot; /* hash table of entry + 1, 0 marks a free slot */
    size_t slot_mask;
    uint32_t *by_id; /* entry of an id */
} spelling;

static void spelling_free(spelling *sp) {
    syn_free(sp->text);
    syn_free(sp->end);
    syn_free(sp->id);
    syn_free(sp->slot);
    syn_free(sp->by_id);
}

static const char *entry_text(const spelling *sp, size_t entry, size_t *bytes) {
    const uint32_t begin = entry == 0 ? 0 : sp->end[entry - 1];
    *bytes = sp->end[entry] - begin;
    return sp->text + begin;
}

/* A token for an error sentence: printable ASCII kept, other bytes as \xNN, cut if long. */
static const char *quote(char out[QUOTE_BYTES], const char *text, size_t bytes) {
    static const char hex[] = "0123456789abcdef";
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (used + 8 > QUOTE_BYTES) {
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

static syn_status read_entries(spelling *sp, syn_json *json, syn_error *err) {
    SYN_TRY(syn_json_expect(json, SYN_JSON_OBJECT_BEGIN, "the vocabulary"));
    while (syn_json_next(json) == SYN_JSON_KEY) {
        const size_t want = sp->text_bytes + json->text_bytes;
        if (json->text_bytes == 0) return syn_json_fail(json, "a token must not be empty");
        SYN_TRY(syn_grow(&sp->text, &sp->text_cap, want, 1, err));
        SYN_TRY(syn_grow(&sp->end, &sp->end_cap, sp->elems + 1, sizeof *sp->end, err));
        SYN_TRY(syn_grow(&sp->id, &sp->id_cap, sp->elems + 1, sizeof *sp->id, err));
        memcpy(sp->text + sp->text_bytes, json->text, json->text_bytes);
        int64_t id;
        SYN_TRY(syn_json_expect_i64(json, "the id of a token", 0, INT32_MAX - 1, &id));
        sp->text_bytes = want;
        sp->end[sp->elems] = (uint32_t)want;
        sp->id[sp->elems++] = (int32_t)id;
    }
    if (json->type != SYN_JSON_OBJECT_END || syn_json_next(json) != SYN_JSON_END)
        return err->code != SYN_OK ? err->code : SYN_E_FORMAT;
    return SYN_OK;
}

/* The slot of a spelling, or the free slot where it would go. */
static uint32_t *find_slot(const spelling *sp, const char *text, size_t bytes) {
    for (size_t i = syn__bpe_hash(text, bytes) & sp->slot_mask;; i = (i + 1) & sp->slot_mask) {
        if (sp->slot[i] == 0) return &sp->slot[i];
        size_t other_bytes;
        const char *other = entry_text(sp, sp->slot[i] - 1, &other_bytes);
        if (other_bytes == bytes && memcmp(other, text, bytes) == 0) return &sp->slot[i];
    }
}

/* -1 if the vocabulary lacks it. */
static int32_t find_id(const spelling *sp, const char *text, size_t bytes) {
    const uint32_t entry = *find_slot(sp, text, bytes);
    return entry == 0 ? -1 : sp->id[entry - 1];
}

/* Every id 0..n-1 once and every spelling once. */
static syn_status index_entries(spelling *sp, syn_error *err) {
    char a[QUOTE_BYTES], b[QUOTE_BYTES];
    const size_t slots = syn__bpe_slots(sp->elems);
    sp->slot_mask = slots - 1;
    sp->slot = syn_calloc(slots, sizeof *sp->slot);
    sp->by_id = syn_calloc(sp->elems, sizeof *sp->by_id);
    if (sp->slot == NULL || sp->by_id == NULL)
        return SYN_FAIL_NOMEM(err, slots * sizeof *sp->slot, "the index of a vocabulary");
    for (size_t i = 0; i < sp->elems; i++) {
        size_t bytes, other_bytes;
        const char *text = entry_text(sp, i, &bytes);
        uint32_t *slot = find_slot(sp, text, bytes);
        if (*slot != 0)
            return SYN_FAIL(err, SYN_E_FORMAT, "%s: the token \"%s\" appears twice (ids %d and %d)",
                            sp->name, quote(a, text, bytes), (int)sp->id[*slot - 1],
                            (int)sp->id[i]);
        *slot = (uint32_t)i + 1;
        if ((size_t)sp->id[i] >= sp->elems)
            return SYN_FAIL(err, SYN_E_FORMAT,
                            "%s: the id %d of \"%s\" is out of range: %zu tokens must have the ids "
                            "0 to %zu without gaps",
                            sp->name, (int)sp->id[i], quote(a, text, bytes), sp->elems,
                            sp->elems - 1);
        uint32_t *owner = &sp->by_id[sp->id[i]];
        if (*owner != 0) {
            const char *other = entry_text(sp, *owner - 1, &other_bytes);
            return SYN_FAIL(err, SYN_E_FORMAT, "%s: \"%s\" and \"%s\" have the same id %d",
                            sp->name, quote(a, other, other_bytes), quote(b, text, bytes),
                            (int)sp->id[i]);
        }
        *owner = (uint32_t)i + 1;
    }
    return SYN_OK;
}

/* alphabet[c] is the byte that code point c spells, or NOT_SPELLED; spelled[b] the code point of
   byte b. */
static void make_alphabet(int16_t alphabet[ALPHABET_END], uint16_t spelled[256]) {
    uint16_t other = 0x100;
    for (size_t c = 0; c < ALPHABET_END; c++) alphabet[c] = NOT_SPELLED;
    for (int b = 0; b < 256; b++) {
        const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        spelled[b] = itself ? (uint16_t)b : other++;
        alphabet[spelled[b]] = (int16_t)b;
    }
}

/* Writes the bytes that a token spells, or its own UTF-8 if it cannot have come from bytes; returns
   how many, never more than `bytes`. */
static size_t unspell(const int16_t alphabet[ALPHABET_END], const char *text, size_t bytes,
                      char *out) {
    size_t used = 0;
    for (size_t i = 0; i < bytes; i++) {
        unsigned c = (unsigned char)text[i];
        if (c >= 0xc2 && c <= 0xc5 && i + 1 < bytes)
            c = (c & 0x1f) << 6 | ((unsigned char)text[++i] & 0x3f); /* two bytes of UTF-8 */
        else if (c >= 0x80) c = ALPHABET_END;
        if (c >= ALPHABET_END || alphabet[c] == NOT_SPELLED) {
            memcpy(out, text, bytes);
            return bytes;
        }
        out[used++] = (char)alphabet[c];
    }
    return used;
}

/* The ids of added tokens: that of the vocabulary, or the next one. */
static syn_status number_added(syn__bpe *bpe, const spelling *sp, syn_error *err) {
    char shown[QUOTE_BYTES];
    bpe->vocab_elems = bpe->base_elems;
    for (size_t i = 0; i < bpe->added.n; i++) {
        syn__added_token *t = &bpe->added.tokens[i];
        t->id = find_id(sp, t->text, t->bytes);
        const bool is_new = t->id < 0;
        if (is_new && bpe->vocab_elems == INT32_MAX - 1)
            return SYN_FAIL(err, SYN_E_FORMAT, "%s: too many tokens are added", sp->name);
        if (is_new) t->id = bpe->vocab_elems++;
        if (t->said >= 0 && t->said != t->id)
            return SYN_FAIL(err, SYN_E_FORMAT,
                            "%s: the added token \"%s\" is said to have the id %lld, but %s %d",
                            sp->name, quote(shown, t->text, t->bytes), (long long)t->said,
                            is_new ? "the next free one is" : "the vocabulary has it as", t->id);
    }
    return SYN_OK;
}

static size_t added_bytes(const syn__bpe *bpe) {
    size_t bytes = 0;
    for (size_t i = 0; i < bpe->added.n; i++) bytes += bpe->added.tokens[i].bytes;
    return bytes;
}

/* "<|endoftext|>", where nothing says which tokens are added. */
static syn_status add_end_of_text(syn__bpe *bpe, const spelling *sp, syn_error *err) {
    static const char *const end = SYN__BPE_END_OF_TEXT;
    syn__added_token *token;
    if (find_id(sp, end, strlen(end)) >= 0)
        SYN_TRY(syn__added_put(&bpe->added, end, strlen(end), &token, err));
    return syn__added_index(&bpe->added, err);
}

/* The bytes of every token by id, and the tokens of the single bytes. */
static syn_status fill_tokens(syn__bpe *bpe, const spelling *sp, syn_error *err) {
    int16_t alphabet[ALPHABET_END];
    uint16_t spelled[256];
    make_alphabet(alphabet, spelled);
    bpe->base_elems = (int32_t)sp->elems;
    SYN_TRY(number_added(bpe, sp, err));
    const size_t all_bytes = sp->text_bytes + added_bytes(bpe);
    bpe->bytes = syn_malloc(all_bytes);
    bpe->begin = syn_malloc(((size_t)bpe->vocab_elems + 1) * sizeof *bpe->begin);
    if (bpe->bytes == NULL || bpe->begin == NULL)
        return SYN_FAIL_NOMEM(err, all_bytes, "the tokens of a vocabulary");
    size_t used = 0, bytes;
    for (size_t id = 0; id < sp->elems; id++) {
        const char *text = entry_text(sp, sp->by_id[id] - 1, &bytes);
        bpe->begin[id] = (uint32_t)used;
        used += unspell(alphabet, text, bytes, bpe->bytes + used);
    }
    for (size_t i = 0; i < bpe->added.n; i++) { /* new ones have ids in this order */
        const syn__added_token *t = &bpe->added.tokens[i];
        if (t->id < bpe->base_elems) continue;
        bpe->begin[t->id] = (uint32_t)used;
        used += unspell(alphabet, t->text, t->bytes, bpe->bytes + used);
    }
    bpe->begin[bpe->vocab_elems] = (uint32_t)used;
    for (size_t b = 0; b < 256; b++) {
        char text[4];
        bpe->byte_id[b] = find_id(sp, text, syn_utf8_encode(spelled[b], text));
        if (bpe->byte_id[b] < 0)
            return SYN_FAIL(err, SYN_E_FORMAT,
                            "%s: no token for the byte 0x%02zx (spelled U+%04X): a byte-level "
                            "vocabulary needs one for each of the 256 bytes",
                            sp->name, b, (unsigned)spelled[b]);
    }
    return SYN_OK;
}

typedef struct merges_reader {
    const char *name;
    size_t line, header_lines;
    char *joined;
    size_t joined_cap;
} merges_reader;

static syn_status unknown_token(const merges_reader *mr, const char *text, size_t bytes,
                                syn_error *err) {
    char shown[QUOTE_BYTES];
    return SYN_FAIL(err, SYN_E_FORMAT, "%s:%zu: the token \"%s\" is not in the vocabulary",
                    mr->name, mr->line, quote(shown, text, bytes));
}

/* One line, "left right". */
static syn_status read_merge(syn__bpe *bpe, const spelling *sp, merges_reader *mr, const char *line,
                             size_t bytes, syn_error *err) {
    char shown[QUOTE_BYTES];
    const char *space = memchr(line, ' ', bytes);
    const size_t left_bytes = space == NULL ? 0 : (size_t)(space - line);
    const size_t right_bytes = space == NULL ? 0 : bytes - left_bytes - 1;
    if (left_bytes == 0 || right_bytes == 0 || memchr(space + 1, ' ', right_bytes) != NULL)
        return SYN_FAIL(err, SYN_E_FORMAT,
                        "%s:%zu: \"%s\" is not a merge, which is two tokens with one space between",
                        mr->name, mr->line, quote(shown, line, bytes));
    const int32_t left = find_id(sp, line, left_bytes);
    const int32_t right = find_id(sp, space + 1, right_bytes);
    if (left < 0) return unknown_token(mr, line, left_bytes, err);
    if (right < 0) return unknown_token(mr, space + 1, right_bytes, err);
    SYN_TRY(syn_grow(&mr->joined, &mr->joined_cap, bytes, 1, err));
    memcpy(mr->joined, line, left_bytes);
    memcpy(mr->joined + left_bytes, space + 1, right_bytes);
    const int32_t id = find_id(sp, mr->joined, bytes - 1);
    if (id < 0) return unknown_token(mr, mr->joined, bytes - 1, err);
    syn__bpe_pair *pair = syn__bpe_find_pair(bpe, left, right);
    if (pair->rank != SYN__BPE_NO_RANK)
        return SYN_FAIL(err, SYN_E_FORMAT, "%s:%zu: the merge \"%s\" is already on line %zu",
                        mr->name, mr->line, quote(shown, line, bytes),
                        (size_t)pair->rank + mr->header_lines + 1);
    pair->key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    pair->rank = (uint32_t)(mr->line - mr->header_lines - 1);
    pair->id = id;
    return SYN_OK;
}

static syn_status make_pairs(syn__bpe *bpe, const char *data, size_t bytes, syn_error *err) {
    size_t lines = 1;
    for (size_t i = 0; i < bytes; i++) lines += data[i] == '\n';
    if (lines > bytes / 4 + 1) lines = bytes / 4 + 1; /* the shortest merge is "a b\n" */
    const size_t slots = syn__bpe_slots(lines);
    bpe->pairs = syn_malloc(slots * sizeof *bpe->pairs);
    if (bpe->pairs == NULL)
        return SYN_FAIL_NOMEM(err, slots * sizeof *bpe->pairs, "the merges of a vocabulary");
    bpe->pair_mask = slots - 1;
    for (size_t i = 0; i < slots; i++)
        bpe->pairs[i] = (syn__bpe_pair){UINT64_MAX, SYN__BPE_NO_RANK, -1};
    return SYN_OK;
}

/* Lines may end in CR LF, the file in blank lines; the first line may be "#version: ...". */
static syn_status read_merges(syn__bpe *bpe, const spelling *sp, const char *name, const char *data,
                              size_t bytes, syn_error *err) {
    merges_reader mr = {.name = name};
    while (bytes > 0 && (data[bytes - 1] == '\n' || data[bytes - 1] == '\r')) bytes--;
    syn_status status = make_pairs(bpe, data, bytes, err);
    for (size_t pos = 0; status == SYN_OK && pos < bytes;) {
        const char *line = data + pos, *newline = memchr(line, '\n', bytes - pos);
        size_t line_bytes = newline == NULL ? bytes - pos : (size_t)(newline - line);
        pos += line_bytes + 1;
        mr.line++;
        if (line_bytes > 0 && line[line_bytes - 1] == '\r') line_bytes--;
        if (mr.line == 1 && line_bytes >= strlen(VERSION_HEADER) &&
            memcmp(line, VERSION_HEADER, strlen(VERSION_HEADER)) == 0)
            mr.header_lines = 1;
        else status = read_merge(bpe, sp, &mr, line, line_bytes, err);
    }
    syn_free(mr.joined);
    return status;
}

/* Enters every token that merging its own bytes gives back. */
static syn_status make_words(syn__bpe *bpe, syn_error *err) {
    const size_t elems = (size_t)bpe->base_elems, slots = syn__bpe_slots(elems);
    bpe->words = syn_malloc(slots * sizeof *bpe->words);
    if (bpe->words == NULL)
        return SYN_FAIL_NOMEM(err, slots * sizeof *bpe->words, "the words of a vocabulary");
    bpe->word_mask = slots - 1;
    for (size_t i = 0; i < slots; i++) bpe->words[i] = (syn__bpe_word){0, -1};
    syn__bpe_work work = {0};
    int32_t *ids = NULL;
    size_t cap = 0, left;
    syn_status status = SYN_OK;
    for (size_t id = 0; status == SYN_OK && id < elems; id++) {
        const char *text = bpe->bytes + bpe->begin[id];
        const size_t bytes = bpe->begin[id + 1] - bpe->begin[id];
        status = syn_grow(&ids, &cap, bytes, sizeof *ids, err);
        if (status == SYN_OK) status = syn__bpe_merge(bpe, &work, text, bytes, ids, &left, err);
        if (status != SYN_OK || left != 1 || ids[0] != (int32_t)id) continue;
        const uint32_t hash = syn__bpe_hash(text, bytes);
        *syn__bpe_find_word(bpe, text, bytes, hash) = (syn__bpe_word){hash, (int32_t)id};
    }
    syn_free(ids);
    syn__bpe_work_free(&work);
    return status;
}

static syn_status read_vocab(spelling *sp, const char *data, size_t bytes, syn_error *err) {
    syn_json json;
    syn_json_init(&json, sp->name, data, bytes, err);
    const syn_status status = read_entries(sp, &json, err);
    syn_json_free(&json);
    SYN_TRY(status);
    return index_entries(sp, err);
}

syn_status syn__bpe_read(syn__bpe **out, const char *vocab_name, const char *vocab_data,
                         size_t vocab_bytes, const char *merges_name, const char *merges_data,
                         size_t merges_bytes, syn__added *added, syn_error *err) {
    *out = NULL;
    syn_error first = {.code = SYN_OK}; /* the JSON reader reports only there */
    spelling sp = {.name = vocab_name};
    syn_status status = SYN_OK;
    syn__bpe *bpe = syn_calloc(1, sizeof *bpe);
    if (bpe == NULL) status = SYN_FAIL_NOMEM(&first, sizeof *bpe, "a tokenizer");
    else bpe->frame.bos = -1;
    if (added && bpe) {
        bpe->added = *added;
        *added = (syn__added){0};
    }
    if (status == SYN_OK) status = read_vocab(&sp, vocab_data, vocab_bytes, &first);
    if (status == SYN_OK && !added) status = add_end_of_text(bpe, &sp, &first);
    if (status == SYN_OK) status = fill_tokens(bpe, &sp, &first);
    if (status == SYN_OK)
        status = read_merges(bpe, &sp, merges_name, merges_data, merges_bytes, &first);
    spelling_free(&sp);
    if (status == SYN_OK) status = make_words(bpe, &first);
    if (status == SYN_OK) {
        *out = bpe;
        return SYN_OK;
    }
    syn__bpe_free(bpe);
    if (err != NULL && err->code == SYN_OK) *err = first;
    return status;
}

void syn__bpe_free(syn__bpe *bpe) {
    if (bpe == NULL) return;
    syn__added_free(&bpe->added);
    syn_free(bpe->bytes);
    syn_free(bpe->begin);
    syn_free(bpe->pairs);
    syn_free(bpe->words);
    syn_free(bpe);
}
