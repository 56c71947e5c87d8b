/* Decides which elements dropout zeroes. The decision depends only on (seed, sample, row, column),
   so it is the same in every op and at every SIMD level (ops/simd.h). The backward pass therefore
   recomputes masks instead of saving them, and masks do not depend on how a batch or tensor is
   sharded over ranks. `column` is the index in the last dimension, and `row` is the number of the
   row within the sample. For attention, row = head * T + query and column = key. */
#ifndef OPS_DROPOUT_H
#define OPS_DROPOUT_H

#include "ops/hash.h"

/* The generator of one row. */
typedef struct syn_dropout_row {
    uint32_t start, salt; /* 64 hash bits of (seed, sample, row) */
    int32_t limit;        /* an element is zeroed if its hash is below the limit */
    float keep;           /* factor of the other elements: 1 / (1 - p) */
} syn_dropout_row;

/* p must be in [0, 1). */
SYN_ANYWHERE syn_dropout_row syn__dropout_row(double p, uint64_t seed, int32_t sample,
                                              int64_t row) {
    const uint64_t of_sample = syn__counter_hash(seed, (uint32_t)sample);
    const uint64_t key = syn__counter_hash(of_sample, (uint64_t)row);
    const syn_dropout_row d = {(uint32_t)key, (uint32_t)(key >> 32), (int32_t)(p * 0x1p32 - 0x1p31),
                               (float)(1.0 / (1.0 - p))};
    return d;
}

/* Multipliers of MurmurHash3's finalizer (Appleby 2011). syn__drops hashes start + column with
   them, in 32 bits. `salt` is mixed in between the two rounds, so that rows with nearby starts get
   different masks. */
#define SYN__DROP_FIRST  0x85ebca6bu
#define SYN__DROP_SECOND 0xc2b2ae35u

SYN_ANYWHERE bool syn__drops(const syn_dropout_row *d, uint32_t column) {
    uint32_t x = d->start + column;
    x = (x ^ (x >> 16)) * SYN__DROP_FIRST ^ d->salt;
    x = (x ^ (x >> 13)) * SYN__DROP_SECOND;
    return (int32_t)x < d->limit;
}

#endif
