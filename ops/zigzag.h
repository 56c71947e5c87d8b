/* The pieces of sequences that are divided among n ranks: a sequence has 2 n pieces of equal
   length, and rank r has the pieces r and 2 n - 1 - r. Private to ops/, shared with the CUDA
   kernels. */
#ifndef OPS_ZIGZAG_H
#define OPS_ZIGZAG_H

#include "syntorch/op.h"

/* Returns the place of piece number `piece` in a dense `whole`, (..., S, ...) with S at dimension
   `axis`, or in `parts`, (n, ..., S/n, ...), the tokens of all ranks. */
static inline syn_operand syn__piece_of_whole(const syn_operand *whole, int axis, int64_t piece,
                                              int64_t length, int64_t elem_bytes) {
    syn_operand o = *whole;
    o.spec.dims[axis] = length;
    o.data = (char *)o.data + piece * length * o.strides[axis] * elem_bytes;
    return o;
}

static inline syn_operand syn__piece_of_parts(const syn_operand *parts, int axis, int64_t piece,
                                              int64_t length, int64_t elem_bytes) {
    syn_operand o = *parts;
    const int64_t ranks = parts->spec.dims[0], second = piece >= ranks;
    const int64_t rank = second ? 2 * ranks - 1 - piece : piece;
    for (int d = 1; d < parts->spec.rank; d++) {
        o.spec.dims[d - 1] = parts->spec.dims[d];
        o.strides[d - 1] = parts->strides[d];
    }
    o.spec.rank--;
    o.spec.dims[axis] = length;
    const int64_t at = rank * parts->strides[0] + second * length * o.strides[axis];
    o.data = (char *)o.data + at * elem_bytes;
    return o;
}

#endif
