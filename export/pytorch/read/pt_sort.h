/* Stable sorting of many records by 64-bit keys, in linear time. */
#ifndef EXPORT_PT_SORT_H
#define EXPORT_PT_SORT_H

#include <string.h>

#include "syntorch/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* *order (freed by the caller) lists the indices of keys ascending, equal ones as they stood. The
   keys are left in any order. */
syn_status syn__pt_sort(uint64_t *keys, size_t n, uint32_t **order, syn_error *err) SYN_MUST_USE;

/* Puts record order[i] at place i. The order is used up. */
void syn__pt_permute(void *records, size_t record_bytes, uint32_t *order, size_t n);

/* Keys that sort as their values do. */
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
