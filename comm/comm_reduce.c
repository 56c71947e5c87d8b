/* Reduction kernels. Work goes block by block: a block of each input is folded into an accumulator
   that stays in the first-level cache, then written to every output. Inner loops have a constant
   trip count so that compilers vectorise them at any optimisation level. */
#include "comm/comm_internal.h"
#include "syntorch/half.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define BLOCK        1024 /* elements */
#define LANES        16
#define STREAM_BYTES (2U << 20) /* of each output: more than stays in a second-level cache */

typedef union block {
    float f32[BLOCK];
    uint32_t u32[BLOCK];
    uint64_t u64[BLOCK];
} block;

/* to[i] = a[i] op b[i]. Unsigned arithmetic for integers: they wrap. */
#define DEFINE_FOLD(NAME, T, EXPR)                                  \
    static void NAME(T *to, const T *a, const T *b, size_t n) {     \
        size_t i = 0;                                               \
        for (; i + LANES <= n; i += LANES) {                        \
            T r[LANES];                                             \
            for (int j = 0; j < LANES; j++) {                       \
                const T x = a[i + (size_t)j], y = b[i + (size_t)j]; \
                r[j] = EXPR;                                        \
            }                                                       \
            memcpy(to + i, r, sizeof r);                            \
        }                                                           \
        for (; i < n; i++) {                                        \
            const T x = a[i], y = b[i];                             \
            to[i] = EXPR;                                           \
        }                                                           \
    }

/* y != y: not a number, which min and max keep. */
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

static void fold_f32(float *to, const float *a, const float *b, size_t n, syn_reduce reduce) {
    switch (reduce) {
    case SYN_REDUCE_MIN:
        f32_min(to, a, b, n);
        break;
    case SYN_REDUCE_MAX:
        f32_max(to, a, b, n);
        break;
    case SYN_REDUCE_PROD:
        f32_prod(to, a, b, n);
        break;
    default:
        f32_sum(to, a, b, n);
    }
}

static void fold_i32(uint32_t *to, const uint32_t *a, const uint32_t *b, size_t n,
                     syn_reduce reduce) {
    switch (reduce) {
    case SYN_REDUCE_MIN:
        i32_min(to, a, b, n);
        break;
    case SYN_REDUCE_MAX:
        i32_max(to, a, b, n);
        break;
    case SYN_REDUCE_PROD:
        u32_prod(to, a, b, n);
        break;
    default:
        u32_sum(to, a, b, n);
    }
}

static void fold_i64(uint64_t *to, const uint64_t *a, const uint64_t *b, size_t n,
                     syn_reduce reduce) {
    switch (reduce) {
    case SYN_REDUCE_MIN:
        i64_min(to, a, b, n);
        break;
    case SYN_REDUCE_MAX:
        i64_max(to, a, b, n);
        break;
    case SYN_REDUCE_PROD:
        u64_prod(to, a, b, n);
        break;
    default:
        u64_sum(to, a, b, n);
    }
}

static void divide_f32(float *acc, size_t n, int32_t n_ins) {
    const float by = (float)n_ins;
    for (size_t i = 0; i < n; i++) acc[i] /= by;
}

typedef struct job {
    const void *const *ins;
    int32_t n_ins;
    syn_dtype dtype;
    syn_reduce reduce;
} job;

static void reduce_f32(const job *j, size_t at, size_t n, block *acc) {
    const float *first = (const float *)j->ins[0] + at;
    for (int32_t k = 1; k < j->n_ins; k++)
        fold_f32(acc->f32, k == 1 ? first : acc->f32, (const float *)j->ins[k] + at, n, j->reduce);
    if (j->reduce == SYN_REDUCE_AVG) divide_f32(acc->f32, n, j->n_ins);
}

static void reduce_16(const job *j, size_t at, size_t n, block *acc) {
    float wide[BLOCK];
    syn_half_widen((const uint16_t *)j->ins[0] + at, acc->f32, n, j->dtype);
    for (int32_t k = 1; k < j->n_ins; k++) {
        syn_half_widen((const uint16_t *)j->ins[k] + at, wide, n, j->dtype);
        fold_f32(acc->f32, acc->f32, wide, n, j->reduce);
    }
    if (j->reduce == SYN_REDUCE_AVG) divide_f32(acc->f32, n, j->n_ins);
    uint16_t narrow[BLOCK];
    syn_half_narrow(acc->f32, narrow, n, j->dtype);
    memcpy(acc, narrow, n * sizeof narrow[0]);
}

static void average_i32(const job *j, size_t at, size_t n, block *acc) {
    for (size_t i = 0; i < n; i++) {
        int64_t sum = 0;
        for (int32_t k = 0; k < j->n_ins; k++) sum += ((const int32_t *)j->ins[k])[at + i];
        acc->u32[i] = (uint32_t)(sum / j->n_ins);
    }
}

static void reduce_i32(const job *j, size_t at, size_t n, block *acc) {
    const uint32_t *first = (const uint32_t *)j->ins[0] + at;
    for (int32_t k = 1; k < j->n_ins; k++)
        fold_i32(acc->u32, k == 1 ? first : acc->u32, (const uint32_t *)j->ins[k] + at, n,
                 j->reduce);
}

static void reduce_i64(const job *j, size_t at, size_t n, block *acc) {
    const uint64_t *first = (const uint64_t *)j->ins[0] + at;
    for (int32_t k = 1; k < j->n_ins; k++)
        fold_i64(acc->u64, k == 1 ? first : acc->u64, (const uint64_t *)j->ins[k] + at, n,
                 j->reduce);
    if (j->reduce == SYN_REDUCE_AVG)
        for (size_t i = 0; i < n; i++) acc->u64[i] = (uint64_t)((int64_t)acc->u64[i] / j->n_ins);
}

/* Copies without first reading the lines of `to` from memory, which is worth a third of the time
   when they are not in any cache. end_stores makes such stores visible before whatever
   is stored next. */
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
    const job j = {ins, n_ins, dtype, reduce};
    const size_t elem_bytes = syn_dtype_bytes(dtype), end = begin + n_elems;
    const bool stream = n_outs == n_ins && n_elems * elem_bytes >= STREAM_BYTES;
    block acc;
    for (size_t at = begin; at < end; at += BLOCK) {
        const size_t n = end - at < BLOCK ? end - at : BLOCK;
        const void *result = &acc;
        if (n_ins == 1) result = (const char *)ins[0] + at * elem_bytes;
        else if (dtype == SYN_F32) reduce_f32(&j, at, n, &acc);
        else if (dtype == SYN_F16 || dtype == SYN_BF16) reduce_16(&j, at, n, &acc);
        else if (dtype == SYN_I32 && reduce == SYN_REDUCE_AVG) average_i32(&j, at, n, &acc);
        else if (dtype == SYN_I32) reduce_i32(&j, at, n, &acc);
        else reduce_i64(&j, at, n, &acc);
        for (int32_t o = 0; o < n_outs; o++) {
            char *out = (char *)outs[o] + at * elem_bytes;
            if (out == result) continue;
            if (stream && outs[o] != ins[o]) store_past_caches(out, result, n * elem_bytes);
            else memcpy(out, result, n * elem_bytes);
        }
    }
    if (stream) end_stores();
}
