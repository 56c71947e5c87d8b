/* Stores added tokens in a hash table, and finds the longest matches in a text by narrowing a range
   of the sorted tokens. */
#include "models/tokenizer/tokenizer_added_private.h"

#include "models/tokenizer/bpe_private.h"

#include "syntorch/base/memory.h"

#include <string.h>

/* ---- the tokens ---- */

/* Returns the slot of a text, or the free slot where it can be inserted. */
static uint32_t *find_slot(const syn__added *added, const char *text, size_t bytes) {
    const size_t mask = added->n_slots - 1;
    for (size_t i = syn__bpe_hash(text, bytes) & mask;; i = (i + 1) & mask) {
        const uint32_t at = added->slots[i];
        const syn__added_token *t = at ? &added->tokens[at - 1] : NULL;
        if (!t || (t->bytes == bytes && memcmp(t->text, text, bytes) == 0)) return &added->slots[i];
    }
}

const syn__added_token *syn__added_find(const syn__added *added, const char *text, size_t bytes) {
    const uint32_t at = added->n_slots ? *find_slot(added, text, bytes) : 0;
    return at ? &added->tokens[at - 1] : NULL;
}

/* Makes space for one more token in the table. */
static syn_status reserve(syn__added *added, syn_error *err) {
    const size_t slots = syn__bpe_slots(added->n + 1);
    if (slots <= added->n_slots) return SYN_OK;
    uint32_t *old = added->slots;
    added->slots = syn_calloc(2 * slots, sizeof *added->slots);
    if (!added->slots) {
        added->slots = old;
        return SYN_FAIL_NOMEM(err, 2 * slots * sizeof *old, "added tokens");
    }
    added->n_slots = 2 * slots;
    syn_free(old);
    for (size_t i = 0; i < added->n; i++)
        *find_slot(added, added->tokens[i].text, added->tokens[i].bytes) = (uint32_t)i + 1;
    return SYN_OK;
}

syn_status syn__added_put(syn__added *added, const char *text, size_t bytes,
                          syn__added_token **token, syn_error *err) {
    const syn__added_token *old = syn__added_find(added, text, bytes);
    if (old) {
        *token = &added->tokens[old - added->tokens];
        return SYN_OK;
    }
    SYN_TRY(reserve(added, err));
    SYN_TRY(syn_grow(&added->tokens, &added->cap, added->n + 1, sizeof *added->tokens, err));
    char *copy = syn_strndup(text, bytes);
    if (!copy) return SYN_FAIL_NOMEM(err, bytes, "an added token");
    *find_slot(added, text, bytes) = (uint32_t)added->n + 1;
    *token = &added->tokens[added->n++];
    **token = (syn__added_token){.text = copy,
                                 .bytes = bytes,
                                 .found = copy,
                                 .found_bytes = bytes,
                                 .shown = copy,
                                 .shown_bytes = bytes,
                                 .given = -1,
                                 .id = -1};
    return SYN_OK;
}

/* Whether token a sorts before token b, by id or by `found`. */
static bool less(const syn__added *added, bool by_id, uint32_t a, uint32_t b) {
    const syn__added_token *x = &added->tokens[a], *y = &added->tokens[b];
    if (by_id) return x->id < y->id;
    const size_t both = x->found_bytes < y->found_bytes ? x->found_bytes : y->found_bytes;
    const int c = memcmp(x->found, y->found, both);
    return c != 0 ? c < 0 : x->found_bytes < y->found_bytes;
}

/* For a heap sort. qsort cannot be used, because its comparison function gets no context
   argument. */
static void sift(const syn__added *added, bool by_id, uint32_t *at, size_t n, size_t i) {
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && less(added, by_id, at[child], at[child + 1])) child++;
        if (!less(added, by_id, at[i], at[child])) return;
        const uint32_t t = at[i];
        at[i] = at[child];
        at[child] = t;
    }
}

static void sort(const syn__added *added, bool by_id, uint32_t *at, size_t n) {
    for (size_t i = n / 2; i-- > 0;) sift(added, by_id, at, n, i);
    for (size_t left = n; left > 1; left--) {
        const uint32_t t = at[0];
        at[0] = at[left - 1];
        at[left - 1] = t;
        sift(added, by_id, at, left - 1, 0);
    }
}

/* Returns bit number `pair` of a bitmap. */
static bool has_pair(const uint8_t pairs[8192], unsigned pair) {
    return pairs[pair >> 3] >> (pair & 7) & 1;
}

static void note_begin(syn__added *added, int k, const syn__added_token *t) {
    const unsigned first = (unsigned char)t->found[0];
    const bool alone = t->found_bytes == 1; /* any byte may follow */
    const unsigned from = alone ? 0 : (unsigned char)t->found[1], to = alone ? 255 : from;
    added->begins[k][first] = true;
    for (unsigned second = from; second <= to; second++) {
        const unsigned pair = first << 8 | second;
        added->pairs[k][pair >> 3] |= (uint8_t)(1u << (pair & 7));
    }
}

syn_status syn__added_index(syn__added *added, syn_error *err) {
    uint32_t **const lists[] = {&added->sorted[0], &added->sorted[1], &added->by_id};
    for (int k = 0; k < 3; k++) {
        *lists[k] = syn_malloc(added->n * sizeof **lists[k]);
        if (!*lists[k]) return SYN_FAIL_NOMEM(err, added->n * sizeof **lists[k], "added tokens");
    }
    for (size_t i = 0; i < added->n; i++) {
        const syn__added_token *t = &added->tokens[i];
        const int k = t->normalized;
        added->by_id[i] = (uint32_t)i;
        added->sorted[k][added->n_sorted[k]++] = (uint32_t)i;
        note_begin(added, k, t);
        added->any_single_word |= t->single_word;
    }
    for (int k = 0; k < 2; k++) sort(added, false, added->sorted[k], added->n_sorted[k]);
    sort(added, true, added->by_id, added->n);
    return SYN_OK;
}

const syn__added_token *syn__added_by_id(const syn__added *added, int32_t id) {
    size_t low = 0, high = added->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const syn__added_token *t = &added->tokens[added->by_id[middle]];
        if (t->id == id) return t;
        if (t->id < id) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

void syn__added_free(syn__added *added) {
    for (size_t i = 0; i < added->n; i++) {
        syn__added_token *t = &added->tokens[i];
        if (t->shown != t->found) syn_free(t->shown);
        if (t->found != t->text) syn_free(t->found);
        syn_free(t->text);
    }
    syn_free(added->by_id);
    syn_free(added->tokens);
    syn_free(added->slots);
    syn_free(added->sorted[0]);
    syn_free(added->sorted[1]);
    *added = (syn__added){0};
}

/* ---- search ---- */

/* Returns the first of the tokens at[low .. high) whose byte number `depth` is at least `byte`. All
   these tokens have the same first `depth` bytes. A token of exactly `depth` bytes sorts first. */
static size_t first_from(const syn__added *added, const uint32_t *at, size_t low, size_t high,
                         size_t depth, unsigned byte) {
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const syn__added_token *t = &added->tokens[at[middle]];
        if (t->found_bytes <= depth || (unsigned char)t->found[depth] < byte) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Returns the longest token at the beginning of the text; NULL if there is none. Narrows the range
   of sorted tokens byte by byte, so the time is the match's length times the logarithm of the
   number of tokens. */
static const syn__added_token *longest_at(const syn__added *added, int k, const char *text,
                                          size_t bytes) {
    const uint32_t *at = added->sorted[k];
    const syn__added_token *best = NULL;
    size_t low = 0, high = added->n_sorted[k];
    for (size_t depth = 0; depth < bytes && low < high; depth++) {
        const unsigned byte = (unsigned char)text[depth];
        low = first_from(added, at, low, high, depth, byte);
        high = first_from(added, at, low, high, depth, byte + 1);
        if (low < high && added->tokens[at[low]].found_bytes == depth + 1)
            best = &added->tokens[at[low]];
    }
    return best;
}

static const syn__added_token *next_match(const syn__added *added, int k, const char *text,
                                          size_t bytes, size_t *pos) {
    if (added->n_sorted[k] == 0) return NULL;
    for (; *pos < bytes; ++*pos) {
        const unsigned first = (unsigned char)text[*pos];
        if (!added->begins[k][first]) continue;
        if (*pos + 1 < bytes &&
            !has_pair(added->pairs[k], first << 8 | (unsigned char)text[*pos + 1]))
            continue;
        const syn__added_token *t = longest_at(added, k, text + *pos, bytes - *pos);
        if (t) return t;
    }
    return NULL;
}

/* Length in bytes of the white space character (Unicode's White_Space) at the beginning of a text;
   0 if there is none. */
static size_t space_bytes(const char *text, size_t bytes) {
    const unsigned char *p = (const unsigned char *)text;
    if (bytes > 0 && (p[0] == ' ' || (p[0] >= '\t' && p[0] <= '\r'))) return 1;
    if (bytes > 1 && p[0] == 0xc2 && (p[1] == 0x85 || p[1] == 0xa0)) return 2;
    if (bytes < 3) return 0;
    const unsigned c = (unsigned)p[0] << 16 | (unsigned)p[1] << 8 | p[2];
    const bool is_space = c == 0xe19a80 || (c >= 0xe28080 && c <= 0xe2808a) || c == 0xe280a8 ||
                          c == 0xe280a9 || c == 0xe280af || c == 0xe2819f || c == 0xe38080;
    return is_space ? 3 : 0;
}

/* The beginning of the character before `pos`, which must be > 0. */
static size_t before(const char *text, size_t pos) {
    do pos--;
    while (pos > 0 && ((unsigned char)text[pos] & 0xc0) == 0x80);
    return pos;
}

static size_t strip_left(const char *text, size_t pos) {
    while (pos > 0) {
        const size_t last = before(text, pos);
        if (space_bytes(text + last, pos - last) != pos - last) break;
        pos = last;
    }
    return pos;
}

static size_t strip_right(const char *text, size_t bytes, size_t pos) {
    for (size_t n; (n = space_bytes(text + pos, bytes - pos)) > 0;) pos += n;
    return pos;
}

static syn_status put(syn__added_pieces *pieces, size_t begin, size_t end, int32_t id,
                      syn_error *err) {
    SYN_TRY(syn_grow(&pieces->at, &pieces->cap, pieces->n + 1, sizeof *pieces->at, err));
    pieces->at[pieces->n++] = (syn__added_piece){begin, end, id};
    return SYN_OK;
}

syn_status syn__added_cut(const syn__added *added, bool normalized, const char *text, size_t bytes,
                          syn__is_word *is_word, const void *user, syn__added_pieces *pieces,
                          syn_error *err) {
    size_t done = 0, pos = 0;
    const syn__added_token *t;
    pieces->n = 0;
    while ((t = next_match(added, normalized, text, bytes, &pos)) != NULL) {
        size_t begin = pos, end = pos + t->found_bytes;
        pos = end; /* even if this match is rejected */
        if (t->single_word && ((begin > 0 && is_word(user, text, bytes, before(text, begin))) ||
                               (end < bytes && is_word(user, text, bytes, end))))
            continue;
        if (t->lstrip) {
            begin = strip_left(text, begin);
            if (begin < done) begin = done;
        }
        if (t->rstrip) end = strip_right(text, bytes, end);
        if (done < begin) SYN_TRY(put(pieces, done, begin, -1, err));
        if (begin < end) SYN_TRY(put(pieces, begin, end, t->id, err));
        done = end;
    }
    return done < bytes ? put(pieces, done, bytes, -1, err) : SYN_OK;
}
