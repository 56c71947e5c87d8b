/* Fast division of indices by a divisor that is known on the host. It avoids 64-bit division for
   indices below 2^31; most indices are. */
#ifndef OPS_CUDA_DIVISOR_H
#define OPS_CUDA_DIVISOR_H

#include "ops/hash.h"

/* For n < 2^31 the quotient is (the upper 32 bits of n * magic + n) >> shift (Granlund and
   Montgomery 1994). */
typedef struct syn_divisor {
    int64_t by;
    uint32_t magic, shift;
} syn_divisor;

/* If `by` is 0, the result must not be used for a division. */
static inline syn_divisor syn_divisor_of(int64_t by) {
    syn_divisor d = {by, 0, 31}; /* for by < 1 and by > INT32_MAX: quotients of small n are 0 */
    if (by < 1 || by > INT32_MAX) return d;
    d.shift = 0;
    while (((int64_t)1 << d.shift) < by) d.shift++;
    const uint64_t past = ((uint64_t)1 << d.shift) - (uint64_t)by;
    d.magic = (uint32_t)((past << 32) / (uint64_t)by + 1);
    return d;
}

/* n must be >= 0. */
SYN_ANYWHERE int64_t syn_quotient(int64_t n, syn_divisor d) {
    if (n > INT32_MAX) return n / d.by;
    const uint32_t small = (uint32_t)n;
    return ((uint32_t)((uint64_t)small * d.magic >> 32) + small) >> d.shift;
}

#endif
