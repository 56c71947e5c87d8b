#include "ops/products_body.h"

#if SYN_LANES > 0
const syn__product_kernels syn__product_avx2 = {product, MANY_BLAS};
#endif
