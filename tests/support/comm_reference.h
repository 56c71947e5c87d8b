/* Naive reductions that the communicator tests compare with: one element at a time,
   halves through doubles. */
#ifndef TESTS_COMM_REFERENCE_H
#define TESTS_COMM_REFERENCE_H

#include "syntorch/base/types.h"

#include <math.h>
#include <string.h>

/* sign, exponent, fraction, by IEEE 754's definition: f16 has 5 and 10 bits, bf16 8 and 7. */
double reference_widen(uint16_t h, syn_dtype dtype);

/* Nearest representable value, ties to even. */
uint16_t reference_narrow(double v, syn_dtype dtype);

/* Values between -8 and 8 with fractions; integers likewise, some large. */
void reference_fill(void *to, size_t n_elems, syn_dtype dtype, uint64_t seed);

/* out[i] = reduction over k, in order, of ins[k][offset + i]. */
void reference_reduce(const void *const *ins, int32_t n_ins, size_t offset, void *out,
                      size_t n_elems, syn_dtype dtype, syn_reduce reduce);

#endif
