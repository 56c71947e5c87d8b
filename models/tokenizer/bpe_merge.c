/* The merging of byte-pair encoding: short words by scanning all pairs, long words with a heap of
   pairs over a linked list of tokens. */
#include "models/tokenizer/bpe_private.h"

#include "syntorch/base/memory.h"

#include <string.h>

/* Up to this length, scanning all pairs for the lowest rank is faster than a heap. */
#define SHORT_WORD 48

uint32_t syn__bpe_hash(const char *text, size_t bytes) {
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t hash = (uint64_t)bytes * odd;
    uint64_t part;
    for (; bytes > 8; text += 8, bytes -= 8) {
        memcpy(&part, text, 8);
        hash = (hash ^ part) * odd;
        hash ^= hash >> 32;
    }
    if (bytes >= 4) {
        uint32_t low, high; /* may overlap */
        memcpy(&low, text, 4);
        memcpy(&high, text + bytes - 4, 4);
        part = (uint64_t)high << 32 | low;
    } else if (bytes > 0) {
        part = (uint64_t)(unsigned char)text[0] | (uint64_t)(unsigned char)text[bytes / 2] << 8 |
               (uint64_t)(unsigned char)text[bytes - 1] << 16;
    } else {
        part = 0;
    }
    hash = (hash ^ part) * odd;
    return (uint32_t)(hash >> 32);
}

size_t syn__bpe_slots(size_t elems) {
    size_t slots = 16;
    while (slots / 2 < elems) slots *= 2;
    return slots;
}

syn__bpe_pair *syn__bpe_find_pair(const syn__bpe *bpe, int32_t left, int32_t right) {
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = (size_t)(hash >> 32) & bpe->pair_mask;
    while (bpe->pairs[i].key != key && bpe->pairs[i].rank != SYN__BPE_NO_RANK)
        i = (i + 1) & bpe->pair_mask;
    return &bpe->pairs[i];
}

syn__bpe_word *syn__bpe_find_word(const syn__bpe *bpe, const char *word, size_t bytes,
                                  uint32_t hash) {
    for (size_t i = hash & bpe->word_mask;; i = (i + 1) & bpe->word_mask) {
        syn__bpe_word *slot = &bpe->words[i];
        if (slot->id < 0) return slot;
        const uint32_t begin = bpe->begin[slot->id];
        if (slot->hash == hash && bpe->begin[slot->id + 1] - begin == bytes &&
            memcmp(bpe->bytes + begin, word, bytes) == 0)
            return slot;
    }
}

/* Merges ids[0..n) in place and returns the number of ids left. */
static size_t merge_short(const syn__bpe *bpe, int32_t *ids, size_t n) {
    const syn__bpe_pair *pair[SHORT_WORD]; /* pair[i] merges ids[i] and ids[i + 1] */
    for (size_t i = 0; i + 1 < n; i++) pair[i] = syn__bpe_find_pair(bpe, ids[i], ids[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (pair[i]->rank < pair[best]->rank) best = i;
        if (pair[best]->rank == SYN__BPE_NO_RANK) break;
        ids[best] = pair[best]->id;
        n--;
        for (size_t i = best + 1; i < n; i++) {
            ids[i] = ids[i + 1];
            pair[i - 1] = pair[i];
        }
        if (best > 0) pair[best - 1] = syn__bpe_find_pair(bpe, ids[best - 1], ids[best]);
        if (best + 1 < n) pair[best] = syn__bpe_find_pair(bpe, ids[best], ids[best + 1]);
    }
    return n;
}

/* Heap entries are ordered by rank, then by position. An entry is outdated if the pair at its
   position has another rank by now. */
static uint64_t heap_entry(uint32_t rank, uint32_t pos) {
    return (uint64_t)rank << 32 | pos;
}

static void heap_sink(uint64_t *heap, size_t n, size_t i) {
    const uint64_t entry = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= entry) break;
        heap[i] = heap[child];
    }
    heap[i] = entry;
}

static void heap_push(uint64_t *heap, size_t *n, uint64_t entry) {
    size_t i = (*n)++;
    for (; i > 0 && heap[(i - 1) / 2] > entry; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = entry;
}

static uint64_t heap_pop(uint64_t *heap, size_t *n) {
    const uint64_t top = heap[0];
    heap[0] = heap[--*n];
    if (*n > 0) heap_sink(heap, *n, 0);
    return top;
}

static syn_status work_reserve(syn__bpe_work *work, size_t elems, syn_error *err) {
    if (elems <= work->elems) return SYN_OK;
    size_t bytes;
    if (elems >= UINT32_MAX || !syn_mul_size(elems, 2 * sizeof(uint64_t), &bytes))
        return SYN_FAIL(err, SYN_E_INVALID, "a word of %zu bytes is too long to tokenize", elems);
    syn__bpe_work_free(work);
    work->heap = syn_malloc(bytes);
    work->links = syn_malloc(elems * 3 * sizeof(uint32_t));
    if (work->heap == NULL || work->links == NULL) {
        syn__bpe_work_free(work);
        return SYN_FAIL_NOMEM(err, bytes, "the merges of a long word");
    }
    work->elems = elems;
    return SYN_OK;
}

/* Like merge_short, but with a heap of pairs over a linked list of tokens. A token's position is
   the index of its first symbol. The heap never has more than 2n entries: it starts with n - 1, and
   each merge removes one entry and adds at most two. */
static size_t merge_long(const syn__bpe *bpe, const syn__bpe_work *work, int32_t *ids, uint32_t n) {
    uint64_t *heap = work->heap;
    uint32_t *next = work->links, *prev = next + n, *rank = prev + n;
    size_t heap_elems = 0;
    for (uint32_t i = 0; i < n; i++) {
        next[i] = i + 1;
        prev[i] = i - 1; /* wraps around for i = 0, where it is never read */
        rank[i] = i + 1 < n ? syn__bpe_find_pair(bpe, ids[i], ids[i + 1])->rank : SYN__BPE_NO_RANK;
        if (rank[i] != SYN__BPE_NO_RANK) heap[heap_elems++] = heap_entry(rank[i], i);
    }
    for (size_t i = heap_elems / 2; i-- > 0;) heap_sink(heap, heap_elems, i);
    while (heap_elems > 0) {
        const uint64_t top = heap_pop(heap, &heap_elems);
        const uint32_t pos = (uint32_t)top, gone = next[pos];
        if (rank[pos] != (uint32_t)(top >> 32)) continue;
        ids[pos] = syn__bpe_find_pair(bpe, ids[pos], ids[gone])->id;
        rank[gone] = rank[pos] = SYN__BPE_NO_RANK;
        next[pos] = next[gone];
        if (next[pos] < n) {
            prev[next[pos]] = pos;
            rank[pos] = syn__bpe_find_pair(bpe, ids[pos], ids[next[pos]])->rank;
            if (rank[pos] != SYN__BPE_NO_RANK)
                heap_push(heap, &heap_elems, heap_entry(rank[pos], pos));
        }
        if (pos > 0) {
            const uint32_t before = prev[pos];
            rank[before] = syn__bpe_find_pair(bpe, ids[before], ids[pos])->rank;
            if (rank[before] != SYN__BPE_NO_RANK)
                heap_push(heap, &heap_elems, heap_entry(rank[before], before));
        }
    }
    size_t left = 0;
    for (uint32_t i = 0; i < n; i = next[i]) ids[left++] = ids[i];
    return left;
}

/* The id of the token of a single character; -1 if there is none. */
static int32_t char_id(const syn__bpe *bpe, const char *text, size_t bytes) {
    if (bytes == 1) return bpe->ascii_id[(unsigned char)text[0]];
    return syn__bpe_find_word(bpe, text, bytes, syn__bpe_hash(text, bytes))->id;
}

/* Writes the fallback tokens of a character's bytes. Returns false if one is missing. */
static bool fall_back(const syn__bpe *bpe, const char *text, size_t bytes, int32_t *ids) {
    for (size_t i = 0; i < bytes; i++) {
        ids[i] = bpe->byte_id[(unsigned char)text[i]];
        if (ids[i] < 0) return false;
    }
    return true;
}

typedef struct symbols {
    int32_t *ids;
    uint32_t *bytes; /* or NULL */
    size_t n;
} symbols;

static void put_symbol(symbols *s, int32_t id, size_t bytes) {
    if (s->bytes != NULL) s->bytes[s->n] = (uint32_t)bytes;
    s->ids[s->n++] = id;
}

/* As in HuggingFace, the token of an unknown character is held back until the next known or unknown
   character, or the end of the word. If characters with byte-fallback tokens follow the unknown
   character, their tokens therefore come first. */
static void split_chars(const syn__bpe *bpe, const char *word, size_t bytes, symbols *s) {
    size_t unknown = 0; /* bytes of unknown characters whose token is not written yet */
    for (size_t at = 0, step; at < bytes; at += step) {
        const unsigned char first = (unsigned char)word[at];
        step = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        const int32_t id = char_id(bpe, word + at, step);
        if (id >= 0) {
            if (unknown) put_symbol(s, bpe->rules.unk, unknown);
            unknown = 0;
            put_symbol(s, id, step);
        } else if (bpe->rules.byte_fallback && fall_back(bpe, word + at, step, s->ids + s->n)) {
            for (size_t i = 0; i < step; i++) put_symbol(s, s->ids[s->n], 1);
        } else if (bpe->rules.unk >= 0) {
            if (unknown && !bpe->rules.fuse_unk) put_symbol(s, bpe->rules.unk, unknown);
            unknown = bpe->rules.fuse_unk ? unknown + step : step;
        }
    }
    if (unknown) put_symbol(s, bpe->rules.unk, unknown);
}

size_t syn__bpe_split(const syn__bpe *bpe, const char *word, size_t bytes, int32_t *ids,
                      uint32_t *id_bytes) {
    symbols s = {ids, id_bytes, 0};
    if (bpe->rules.by_chars) {
        split_chars(bpe, word, bytes, &s);
        return s.n;
    }
    for (size_t i = 0; i < bytes; i++) put_symbol(&s, bpe->byte_id[(unsigned char)word[i]], 1);
    return s.n;
}

syn_status syn__bpe_merge(const syn__bpe *bpe, syn__bpe_work *work, const char *word, size_t bytes,
                          int32_t *ids, size_t *ids_elems, syn_error *err) {
    const size_t n = syn__bpe_split(bpe, word, bytes, ids, NULL);
    if (n <= SHORT_WORD) {
        *ids_elems = merge_short(bpe, ids, n);
        return SYN_OK;
    }
    SYN_TRY(work_reserve(work, n, err));
    *ids_elems = merge_long(bpe, work, ids, (uint32_t)n);
    return SYN_OK;
}

void syn__bpe_work_free(syn__bpe_work *work) {
    syn_free(work->heap);
    syn_free(work->links);
    *work = (syn__bpe_work){0};
}
