/* Row kernels with AVX2: rows_body.h, compiled with the flags of that level. */
#include "ops/rows_body.h"

#if SYN_LANES > 0
const syn_row_kernels syn__rows_avx2 = SYN__ROW_TABLE;
#endif
