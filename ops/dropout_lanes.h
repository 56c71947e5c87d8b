/* SIMD version of ops/dropout.h: decides for SYN_LANES columns at once. */
#ifndef OPS_DROPOUT_LANES_H
#define OPS_DROPOUT_LANES_H

#include "ops/dropout.h"
#include "ops/lanes.h"

#if SYN_LANES > 0
/* syn__drops for arbitrary columns. x: start + column of each lane. */
LANE_FN vec_mask vec_drops_at(vec_int x, vec_int salt, int32_t limit) {
    x = int_mul(int_xor(x, int_shift_right(x, 16)), int_set(SYN__DROP_FIRST));
    x = int_xor(x, salt);
    x = int_mul(int_xor(x, int_shift_right(x, 13)), int_set(SYN__DROP_SECOND));
    return int_less(x, int_set((uint32_t)limit));
}

/* syn__drops for the columns column .. column + SYN_LANES - 1. */
LANE_FN vec_mask vec_drops(const syn_dropout_row *d, uint32_t column) {
    const vec_int x = int_add(int_set(d->start + column), int_lane_number());
    return vec_drops_at(x, int_set(d->salt), d->limit);
}
#endif

#endif
