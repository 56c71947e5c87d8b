/* Simple reductions that the communicator tests compare with: one element at a time, 16-bit floats
   through double. */
#ifndef TESTS_COMM_REFERENCE_H
#define TESTS_COMM_REFERENCE_H

#include "syntorch/base/types.h"

#include <math.h>
#include <string.h>

/* The value of a 16-bit float by IEEE 754's definition. f16 has 5 exponent and 10 fraction bits,
   bf16 8 and 7. */
double reference_widen(uint16_t h, syn_dtype dtype);

/* The nearest representable value, ties to even. */
uint16_t reference_narrow(double v, syn_dtype dtype);

/* Fills with values between -8 and 8: floats with fractions, integers with some large values. */
void reference_fill(void *to, size_t n_elems, syn_dtype dtype, uint64_t seed);

/* out[i] = reduction over k, in order, of ins[k][offset + i]. */
void reference_reduce(const void *const *ins, int32_t n_ins, size_t offset, void *out,
                      size_t n_elems, syn_dtype dtype, syn_reduce reduce);

#endif
