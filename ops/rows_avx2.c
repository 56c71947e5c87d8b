#include "ops/rows_body.h"

#if SYN_LANES > 0
const syn_row_kernels syn__rows_avx2 = {gelu_tanh, gelu_erf, tanh_row,   softmax,  add,
                                        mul,       scale,    scale_mask, layernorm};
#endif
