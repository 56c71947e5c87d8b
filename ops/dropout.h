/* Which elements dropout takes: a function of (seed, sample, row, column) alone, the same in every
   op and at every level of ops/simd.h. So masks are made again in the backward pass, and are equal
   for every way to cut a batch or a tensor among ranks. `row` and `column` (the index in the last
   dimension) count within the sample: attention's row is head * T + query, its column the key. */
#ifndef OPS_DROPOUT_H
#define OPS_DROPOUT_H

#include "ops/hash.h"

/* One row's generator. */
typedef struct syn_dropout_row {
    uint32_t start, twist; /* 64 bits of (seed, sample, row) */
    int32_t limit;         /* below it an element goes */
    float keep;            /* what the others are multiplied with: 1 / (1 - p) */
} syn_dropout_row;

/* p in [0, 1). */
SYN_ANYWHERE syn_dropout_row syn__dropout_row(double p, uint64_t seed, int32_t sample,
                                              int64_t row) {
    const uint64_t of_sample = syn__counter_hash(seed, (uint32_t)sample);
    const uint64_t key = syn__counter_hash(of_sample, (uint64_t)row);
    const syn_dropout_row d = {(uint32_t)key, (uint32_t)(key >> 32), (int32_t)(p * 0x1p32 - 0x1p31),
                               (float)(1.0 / (1.0 - p))};
    return d;
}

/* The row's start + column through multiplications and shifts of 32 bits, with the constants of
   MurmurHash3's last step (Appleby 2011); the second half of the key comes in between, so that rows
   whose starts lie near each other differ. */
#define SYN__DROP_FIRST  0x85ebca6bu
#define SYN__DROP_SECOND 0xc2b2ae35u

SYN_ANYWHERE bool syn__drops(const syn_dropout_row *d, uint32_t column) {
    uint32_t x = d->start + column;
    x = (x ^ (x >> 16)) * SYN__DROP_FIRST ^ d->twist;
    x = (x ^ (x >> 13)) * SYN__DROP_SECOND;
    return (int32_t)x < d->limit;
}

#endif
