/* Packed products with AVX-512: packed_body.h, compiled with the flags of that level. */
#include "ops/packed_body.h"

#if SYN_LANES == 16
int64_t syn__packed_buffer_floats_avx512(const syn_product *p) {
    return buffer_floats(p);
}

void syn__packed_avx512(const syn_product *p, float *memory) {
    packed(p, memory);
}
#endif
