/* The rules of meta_dtype. They are separate because both programs use them. */
#include "tools/meta_dtype.h"

syn_dtype meta_dtype(const meta_run *run) {
    const double *peaks = run->hw->peak_flops_per_ns;
    if (run->hw->multiprocessors <= 0) return SYN_F32;
    if (run->published != NULL)
        return *run->published == SYN_F16 && !run->has_f16 ? SYN_BF16 : *run->published;
    if (!run->chosen) return SYN_F32;
    if (peaks[SYN_BF16] > 0) return SYN_BF16;
    return run->has_f16 && peaks[SYN_F16] > 0 ? SYN_F16 : SYN_F32;
}
