/* Product kernels with AVX2: products_body.h, compiled with the flags of that level. */
#include "ops/products_body.h"

#if SYN_LANES > 0
void syn__product_avx2(const syn_product *p) {
    product(p);
}
#endif
