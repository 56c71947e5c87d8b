/* Division by a number that the host knows, for indices of which most are below 2^31. */
#ifndef OPS_CUDA_DIVISOR_H
#define OPS_CUDA_DIVISOR_H

#include "ops/hash.h"

/* Of n below 2^31 the quotient is (the upper half of n * magic + n) >> shift (Granlund and
   Montgomery 1994). */
typedef struct syn_divisor {
    int64_t by;
    uint32_t magic, shift;
} syn_divisor;

/* by 0: for no index at all. */
static inline syn_divisor syn_divisor_of(int64_t by) {
    syn_divisor d = {by, 0, 31}; /* quotients of those are 0 */
    if (by < 1 || by > INT32_MAX) return d;
    d.shift = 0;
    while (((int64_t)1 << d.shift) < by) d.shift++;
    const uint64_t past = ((uint64_t)1 << d.shift) - (uint64_t)by;
    d.magic = (uint32_t)((past << 32) / (uint64_t)by + 1);
    return d;
}

/* n from 0. */
SYN_ANYWHERE int64_t syn_quotient(int64_t n, syn_divisor d) {
    if (n > INT32_MAX) return n / d.by;
    const uint32_t small = (uint32_t)n;
    return ((uint32_t)((uint64_t)small * d.magic >> 32) + small) >> d.shift;
}

#endif
