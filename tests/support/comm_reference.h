/* Simple reductions, for comparison with communicators. They compute one element at a time, and
   16-bit floats in double. */
#ifndef TESTS_COMM_REFERENCE_H
#define TESTS_COMM_REFERENCE_H

#include "syntorch/base/types.h"

#include <math.h>
#include <string.h>

/* The value of a 16-bit float by IEEE 754's definition. f16 has 5 exponent and 10 fraction bits,
   bf16 8 and 7. */
double reference_widen(uint16_t h, syn_dtype dtype);

/* The 16-bit float nearest to v; ties go to even. */
uint16_t reference_narrow(double v, syn_dtype dtype);

/* Fills the buffer with values between -8 and 8. Floats have fractions; integers also have some
   large values. */
void reference_fill(void *to, size_t n_elems, syn_dtype dtype, uint64_t seed);

/* out[i] is the reduction of ins[k][offset + i] over k, in ascending order of k. */
void reference_reduce(const void *const *ins, int32_t n_ins, size_t offset, void *out,
                      size_t n_elems, syn_dtype dtype, syn_reduce reduce);

#endif
