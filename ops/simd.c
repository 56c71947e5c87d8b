/* Detects which SIMD levels this processor and this build support. */
#include "ops/simd.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[SYN_SIMD_COUNT] = {"scalar", "avx2", "avx512", "avx512bf16"};

const char *syn_simd_name(syn_simd level) {
    return level < SYN_SIMD_COUNT ? names[level] : "?";
}

bool syn_simd_supported(syn_simd level) {
#if defined(__x86_64__) && !defined(SYN_DOUBLE)
    if (level == SYN_SIMD_AVX2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); /* then also F16C */
    if (level == SYN_SIMD_AVX512)
        return syn_simd_supported(SYN_SIMD_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#ifdef SYN_HAVE_AVX512_BF16
    if (level == SYN_SIMD_AVX512_BF16)
        return syn_simd_supported(SYN_SIMD_AVX512) && __builtin_cpu_supports("avx512bf16");
#endif
#endif
    return level == SYN_SIMD_SCALAR;
}

bool syn_simd_bf16_dot_is_faster(void) {
#if defined(__x86_64__)
    return !__builtin_cpu_is("intel");
#else
    return true;
#endif
}

static syn_simd choose(void) {
    syn_simd best = SYN_SIMD_SCALAR;
    const char *wanted = getenv("SYNTORCH_SIMD");
    for (syn_simd l = SYN_SIMD_SCALAR; l < SYN_SIMD_COUNT; l++) {
        if (!syn_simd_supported(l)) continue;
        best = l;
        if (wanted && strcmp(wanted, names[l]) == 0) return l;
    }
    return best;
}

syn_simd syn_simd_level(void) {
    /* Computed once, because it cannot change while the process runs. */
    static atomic_int known; /* level + 1; 0: not computed yet */
    int level = atomic_load_explicit(&known, memory_order_relaxed);
    if (level == 0) {
        level = (int)choose() + 1;
        atomic_store_explicit(&known, level, memory_order_relaxed);
    }
    return (syn_simd)(level - 1);
}
