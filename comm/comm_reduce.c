/* Reduction kernels. They work block by block: the blocks of all inputs are accumulated in a buffer
   that stays in the L1 cache. The last step writes the result to two outputs at the same time, and
   the other outputs are copied from these. If the result needs further processing, the last step
   writes it to the buffer instead.
   Inner loops have a constant trip count, so that compilers vectorise them at any optimisation
   level. They must not be unrolled before vectorisation, because conditional expressions would then
   remain branches. */
#include "comm/comm_internal.h"
#include "syntorch/base/half.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define BLOCK        1024 /* elements */
#define LANES        16
#define STREAM_BYTES (2U << 20) /* outputs of at least this size do not fit in an L2 cache */

typedef union block {
    float f32[BLOCK];
    uint32_t u32[BLOCK];
    uint64_t u64[BLOCK];
} block;

/* Each function is compiled twice: for the baseline instructions, and for AVX2, which is used if
   the processor supports it. The results are bitwise equal. */
#define ROLLED _Pragma("GCC unroll 1")
#define INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__)
#define WIDE        __attribute__((target("avx2")))
#define RUNS_WIDE() __builtin_cpu_supports("avx2")
#else
#define WIDE
#define RUNS_WIDE() false
#endif

/* Replaces memcpy, which would use the baseline's vectors. */
typedef unsigned char chunk __attribute__((vector_size(32), aligned(1), may_alias));

INLINE void store(void *to, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes / sizeof(chunk); i++) ((chunk *)to)[i] = ((const chunk *)from)[i];
}

/* to[i] = also[i] = a[i] op b[i]. `also` may be NULL, and both may equal a or b. Integers use
   unsigned arithmetic, so they wrap. */
#define DEFINE_FOLD(NAME, T, EXPR)                                       \
    INLINE void NAME(T *to, T *also, const T *a, const T *b, size_t n) { \
        size_t i = 0;                                                    \
        for (; i + LANES <= n; i += LANES) {                             \
            T r[LANES];                                                  \
            ROLLED for (int j = 0; j < LANES; j++) {                     \
                const T x = a[i + (size_t)j], y = b[i + (size_t)j];      \
                r[j] = EXPR;                                             \
            }                                                            \
            store(to + i, r, sizeof r);                                  \
            if (also != NULL) store(also + i, r, sizeof r);              \
        }                                                                \
        for (; i < n; i++) {                                             \
            const T x = a[i], y = b[i], r = EXPR;                        \
            to[i] = r;                                                   \
            if (also != NULL) also[i] = r;                               \
        }                                                                \
    }

/* y != y detects NaN, which min and max preserve. */
DEFINE_FOLD(f32_sum, float, x + y)
DEFINE_FOLD(f32_prod, float, x *y)
DEFINE_FOLD(f32_min, float, (y < x || y != y) ? y : x)
DEFINE_FOLD(f32_max, float, (y > x || y != y) ? y : x)
DEFINE_FOLD(u32_sum, uint32_t, x + y)
DEFINE_FOLD(u32_prod, uint32_t, x *y)
DEFINE_FOLD(i32_min, uint32_t, (int32_t)y < (int32_t)x ? y : x)
DEFINE_FOLD(i32_max, uint32_t, (int32_t)y > (int32_t)x ? y : x)
DEFINE_FOLD(u64_sum, uint64_t, x + y)
DEFINE_FOLD(u64_prod, uint64_t, x *y)
DEFINE_FOLD(i64_min, uint64_t, (int64_t)y < (int64_t)x ? y : x)
DEFINE_FOLD(i64_max, uint64_t, (int64_t)y > (int64_t)x ? y : x)

/* The kernel for MIN, MAX or PROD; all other reductions are sums. */
typedef void fold(void *to, void *also, const void *a, const void *b, size_t n, syn_reduce reduce);

#define DEFINE_FOLDS(NAME, MIN, MAX, PROD, SUM)                                                \
    INLINE void NAME(void *to, void *also, const void *a, const void *b, size_t n,             \
                     syn_reduce reduce) {                                                      \
        if (reduce == SYN_REDUCE_MIN) MIN(to, also, a, b, n);                                  \
        else if (reduce == SYN_REDUCE_MAX) MAX(to, also, a, b, n);                             \
        else if (reduce == SYN_REDUCE_PROD) PROD(to, also, a, b, n);                           \
        else SUM(to, also, a, b, n);                                                           \
    }                                                                                          \
    static void NAME##_baseline(void *to, void *also, const void *a, const void *b, size_t n,  \
                                syn_reduce reduce) {                                           \
        NAME(to, also, a, b, n, reduce);                                                       \
    }                                                                                          \
    WIDE static void NAME##_wide(void *to, void *also, const void *a, const void *b, size_t n, \
                                 syn_reduce reduce) {                                          \
        NAME(to, also, a, b, n, reduce);                                                       \
    }

DEFINE_FOLDS(fold_f32, f32_min, f32_max, f32_prod, f32_sum)
DEFINE_FOLDS(fold_i32, i32_min, i32_max, u32_prod, u32_sum)
DEFINE_FOLDS(fold_i64, i64_min, i64_max, u64_prod, u64_sum)

static fold *fold_of(syn_dtype dtype) {
    const bool wide = RUNS_WIDE();
    switch (dtype) {
    case SYN_I32:
        return wide ? fold_i32_wide : fold_i32_baseline;
    case SYN_I64:
        return wide ? fold_i64_wide : fold_i64_baseline;
    default: /* f32, and f16 and bf16, which were widened to f32 */
        return wide ? fold_f32_wide : fold_f32_baseline;
    }
}

typedef struct job {
    const void *const *ins;
    int32_t n_ins;
    syn_dtype dtype;
    syn_reduce reduce;
    fold *fold;
} job;

/* Reduces inputs in their own dtype. The last step writes to `to` and `also`. */
static void reduce_same(const job *j, size_t at, size_t n, block *acc, void *to, void *also) {
    const size_t offset = at * syn_dtype_bytes(j->dtype);
    const void *first = (const char *)j->ins[0] + offset;
    for (int32_t k = 1; k < j->n_ins; k++, first = acc) {
        const bool last = k == j->n_ins - 1;
        j->fold(last ? to : acc, last ? also : NULL, first, (const char *)j->ins[k] + offset, n,
                j->reduce);
    }
}

static void reduce_16(const job *j, size_t at, size_t n, block *acc) {
    float wide[BLOCK];
    syn_half_widen((const uint16_t *)j->ins[0] + at, acc->f32, n, j->dtype);
    for (int32_t k = 1; k < j->n_ins; k++) {
        syn_half_widen((const uint16_t *)j->ins[k] + at, wide, n, j->dtype);
        j->fold(acc, NULL, acc, wide, n, j->reduce);
    }
}

static void average_i32(const job *j, size_t at, size_t n, block *acc) {
    for (size_t i = 0; i < n; i++) {
        int64_t sum = 0;
        for (int32_t k = 0; k < j->n_ins; k++) sum += ((const int32_t *)j->ins[k])[at + i];
        acc->u32[i] = (uint32_t)(sum / j->n_ins);
    }
}

static void divide(const job *j, size_t n, block *acc) {
    const float by = (float)j->n_ins;
    for (size_t i = 0; i < n && j->dtype != SYN_I64; i++) acc->f32[i] /= by;
    for (size_t i = 0; i < n && j->dtype == SYN_I64; i++)
        acc->u64[i] = (uint64_t)((int64_t)acc->u64[i] / j->n_ins);
}

/* Reduces a block; the result is in acc. */
static void reduce_block(const job *j, size_t at, size_t n, block *acc) {
    const bool half = syn_dtype_is_half(j->dtype), average = j->reduce == SYN_REDUCE_AVG;
    if (j->dtype == SYN_I32 && average) {
        average_i32(j, at, n, acc);
        return;
    }
    if (half) reduce_16(j, at, n, acc);
    else reduce_same(j, at, n, acc, acc, NULL);
    if (average) divide(j, n, acc);
    if (!half) return;
    uint16_t narrow[BLOCK];
    syn_half_narrow(acc->f32, narrow, n, j->dtype);
    memcpy(acc, narrow, n * sizeof narrow[0]);
}

/* Copies with non-temporal stores, which do not read the cache lines of `to` from memory first.
   This saves a third of the time if these lines are not in any cache. end_stores orders such stores
   before all later stores. */
static void store_past_caches(void *to, const void *from, size_t bytes) {
#if defined(__SSE2__)
    if ((uintptr_t)to % 16 == 0 && bytes % 64 == 0) {
        for (size_t i = 0; i < bytes; i += 64)
            for (size_t k = i; k < i + 64; k += 16)
                _mm_stream_si128(
                    (__m128i *)(void *)((char *)to + k),
                    _mm_loadu_si128((const __m128i *)(const void *)((const char *)from + k)));
        return;
    }
#endif
    memcpy(to, from, bytes);
}

static void end_stores(void) {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

void syn__reduce(const void *const *ins, int32_t n_ins, void *const *outs, int32_t n_outs,
                 size_t begin, size_t n_elems, syn_dtype dtype, syn_reduce reduce) {
    const job j = {ins, n_ins, dtype, reduce, fold_of(dtype)};
    const size_t elem_bytes = syn_dtype_bytes(dtype), end = begin + n_elems;
    const bool stream = n_outs == n_ins && n_elems * elem_bytes >= STREAM_BYTES;
    const bool straight = !stream && reduce != SYN_REDUCE_AVG && !syn_dtype_is_half(dtype);
    block acc;
    for (size_t at = begin; at < end; at += BLOCK) {
        const size_t n = end - at < BLOCK ? end - at : BLOCK, offset = at * elem_bytes;
        const void *result = &acc;
        int32_t o = 0; /* number of outputs that have the result */
        if (n_ins == 1) {
            result = (const char *)ins[0] + offset;
        } else if (straight) {
            o = n_outs < 2 ? 1 : 2;
            result = (char *)outs[0] + offset;
            reduce_same(&j, at, n, &acc, (char *)outs[0] + offset,
                        n_outs < 2 ? NULL : (char *)outs[1] + offset);
        } else {
            reduce_block(&j, at, n, &acc);
        }
        for (; o < n_outs; o++) {
            char *out = (char *)outs[o] + offset;
            if (out == result) continue;
            if (stream && outs[o] != ins[o]) store_past_caches(out, result, n * elem_bytes);
            else memcpy(out, result, n * elem_bytes);
        }
    }
    if (stream) end_stores();
}
