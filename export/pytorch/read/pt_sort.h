/* Sorts large arrays by 64-bit keys, stably and in linear time. */
#ifndef EXPORT_PT_SORT_H
#define EXPORT_PT_SORT_H

#include <string.h>

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets *order to the indices of the keys in ascending order of key. Equal keys keep their order.
   The caller frees *order. The contents of `keys` are undefined afterwards. */
syn_status syn__pt_sort(uint64_t *keys, size_t n, uint32_t **order, syn_error *err) SYN_MUST_USE;

/* Moves record order[i] to position i. Destroys `order`. */
void syn__pt_permute(void *records, size_t record_bytes, uint32_t *order, size_t n);

/* Convert values to keys that have the same order as the values. */
static inline uint64_t syn__pt_double_key(double v) {
    uint64_t bits;
    v += 0.0; /* -0 becomes 0 */
    memcpy(&bits, &v, sizeof bits);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}
static inline uint64_t syn__pt_i64_key(int64_t v) {
    return (uint64_t)v ^ (uint64_t)1 << 63;
}

#ifdef __cplusplus
}
#endif
#endif
