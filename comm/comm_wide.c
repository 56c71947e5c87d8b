/* Conversion to and from wider dtypes, for transports that cannot reduce every dtype. */
#include "comm/comm_internal.h"
#include "syntorch/base/half.h"

#include <string.h>

syn_dtype syn__wide_dtype(syn_dtype dtype, syn_reduce reduce) {
    if (syn_dtype_is_half(dtype)) return SYN_F32;
    return dtype == SYN_I32 && reduce == SYN_REDUCE_AVG ? SYN_I64 : dtype;
}

void syn__wide_load(const void *in, size_t at, void *wide, size_t n_elems, syn_dtype dtype,
                    syn_reduce reduce) {
    const size_t elem_bytes = syn_dtype_bytes(dtype);
    if (syn_dtype_is_half(dtype)) syn_half_widen((const uint16_t *)in + at, wide, n_elems, dtype);
    else if (syn__wide_dtype(dtype, reduce) == dtype)
        memcpy(wide, (const char *)in + at * elem_bytes, n_elems * elem_bytes);
    else
        for (size_t i = 0; i < n_elems; i++) ((int64_t *)wide)[i] = ((const int32_t *)in)[at + i];
}

void syn__wide_divide(void *wide, size_t n_elems, syn_dtype dtype, int32_t by) {
    if (dtype == SYN_F32)
        for (size_t i = 0; i < n_elems; i++) ((float *)wide)[i] /= (float)by;
    if (dtype == SYN_I64)
        for (size_t i = 0; i < n_elems; i++) ((int64_t *)wide)[i] /= by;
}

void syn__wide_store(const void *wide, void *out, size_t at, size_t n_elems, syn_dtype dtype,
                     syn_reduce reduce) {
    const size_t elem_bytes = syn_dtype_bytes(dtype);
    if (syn_dtype_is_half(dtype)) syn_half_narrow(wide, (uint16_t *)out + at, n_elems, dtype);
    else if (syn__wide_dtype(dtype, reduce) == dtype)
        memcpy((char *)out + at * elem_bytes, wide, n_elems * elem_bytes);
    else
        for (size_t i = 0; i < n_elems; i++)
            ((int32_t *)out)[at + i] = (int32_t)((const int64_t *)wide)[i];
}
