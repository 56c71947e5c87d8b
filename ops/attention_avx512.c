/* Fused attention with AVX-512: attention_body.h, compiled with the flags of that level. */
#include "ops/attention_body.h"
#include "ops/attention_grad_body.h"

#if SYN_LANES > 0
const syn_attention_kernels syn__attention_avx512 = SYN__ATTENTION_TABLE;
#endif
