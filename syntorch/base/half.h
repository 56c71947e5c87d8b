/* 16-bit floats: IEEE 754 binary16 (f16) and the upper half of binary32 (bf16). */
#ifndef SYNTORCH_HALF_H
#define SYNTORCH_HALF_H

#include "syntorch/base/types.h"

SYN_API_BEGIN

/* Whether dtype is f16 or bf16. */
static inline bool syn_dtype_is_half(syn_dtype dtype) {
    return dtype == SYN_F16 || dtype == SYN_BF16;
}

/* Convert from and to `dtype`, which is SYN_F16 or SYN_BF16. Widening is exact. Narrowing rounds to
   nearest, ties to even; values that are too large become infinity. NaN stays NaN. `in` and `out`
   must not overlap. */
void syn_half_widen(const uint16_t *in, float *out, size_t n_elems, syn_dtype dtype);
void syn_half_narrow(const float *in, uint16_t *out, size_t n_elems, syn_dtype dtype);

SYN_API_END
#endif
