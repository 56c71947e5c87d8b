/* Sorts with a radix sort, least significant digit first. Digits that are the same in all keys are
   skipped. This is true of most digits of times. */
#include "export/pytorch/read/pt_sort.h"

#include "syntorch/base/memory.h"

#define DIGIT_BITS 11
#define DIGITS     6
#define VALUES     ((size_t)1 << DIGIT_BITS)
#define MAX_RECORD 256

typedef struct tables {
    uint32_t count[DIGITS][VALUES];
} tables;

static void distribute(const uint64_t *keys, const uint32_t *order, uint64_t *to_keys,
                       uint32_t *to_order, size_t n, uint32_t *count, int shift) {
    uint32_t sum = 0;
    for (size_t v = 0; v < VALUES; v++) {
        const uint32_t here = count[v];
        count[v] = sum;
        sum += here;
    }
    for (size_t i = 0; i < n; i++) {
        const uint32_t at = count[keys[i] >> shift & (VALUES - 1)]++;
        to_keys[at] = keys[i];
        to_order[at] = order[i];
    }
}

syn_status syn__pt_sort(uint64_t *keys, size_t n, uint32_t **order, syn_error *err) {
    const size_t bytes = n * (sizeof *keys + 2 * sizeof **order) + sizeof(tables);
    uint64_t *more_keys = syn_malloc(n * sizeof *more_keys);
    uint32_t *more_order = syn_malloc(n * sizeof *more_order);
    tables *t = syn_calloc(1, sizeof *t);
    *order = syn_malloc(n * sizeof **order);
    syn_status s = SYN_OK;
    if (!more_keys || !more_order || !t || !*order) {
        syn_free(*order);
        *order = NULL;
        s = SYN_FAIL_NOMEM(err, bytes, "sorted events");
    } else {
        uint64_t *from = keys, *to = more_keys;
        uint32_t *from_order = *order, *to_order = more_order;
        for (size_t i = 0; i < n; i++) {
            from_order[i] = (uint32_t)i;
            for (int d = 0; d < DIGITS; d++)
                t->count[d][keys[i] >> (d * DIGIT_BITS) & (VALUES - 1)]++;
        }
        for (int d = 0; d < DIGITS && n > 0; d++) {
            const int shift = d * DIGIT_BITS;
            if (t->count[d][from[0] >> shift & (VALUES - 1)] == n) continue;
            distribute(from, from_order, to, to_order, n, t->count[d], shift);
            uint64_t *const keys_now = to;
            uint32_t *const order_now = to_order;
            to = from, to_order = from_order;
            from = keys_now, from_order = order_now;
        }
        if (from_order != *order) memcpy(*order, from_order, n * sizeof **order);
    }
    syn_free(t);
    syn_free(more_keys);
    syn_free(more_order);
    return s;
}

void syn__pt_permute(void *records, size_t record_bytes, uint32_t *order, size_t n) {
    char *const base = records, held[MAX_RECORD];
    for (size_t i = 0; i < n; i++) {
        if (order[i] == i) continue;
        memcpy(held, base + i * record_bytes, record_bytes);
        size_t at = i;
        for (;;) { /* follow a cycle of the permutation */
            const size_t from = order[at];
            order[at] = (uint32_t)at;
            if (from == i) break;
            memcpy(base + at * record_bytes, base + from * record_bytes, record_bytes);
            at = from;
        }
        memcpy(base + at * record_bytes, held, record_bytes);
    }
}
