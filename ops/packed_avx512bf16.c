/* Packed products with bf16 dot products: packed_body.h, compiled with AVX512-BF16. */
#include "ops/packed_body.h"

#if SYN_LANES == 16
int64_t syn__packed_buffer_floats_avx512bf16(const syn_product *p) {
    return buffer_floats(p);
}

void syn__packed_avx512bf16(const syn_product *p, float *memory) {
    packed(p, memory);
}
#endif
