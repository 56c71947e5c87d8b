/* Fused attention of one head, once for each level of ops/simd.h: softmax(scale q k' + mask) v for
   a few queries at a time, without the matrix of scores. */
#ifndef OPS_ATTENTION_H
#define OPS_ATTENTION_H

#include "ops/simd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A head and some of its queries. Rows are dense and their strides, in elements, arbitrary; the
   rows of `out` lie one after another. */
typedef struct syn_attend {
    const float *q, *k, *v; /* (queries, depth), (keys, depth), (keys, depth) */
    const float *mask;      /* (keys), added to every query's scores; NULL: none */
    float *out;             /* (queries, depth) */
    int64_t q_stride, k_stride, v_stride;
    int64_t queries, keys, depth; /* queries <= the kernels' tile */
    int64_t visible;              /* keys that query 0 sees, at most `keys`; may be negative */
    int64_t step;                 /* how many more each next query sees: 1 (causal) or 0 */
    float scale;
    float *scratch; /* as many floats as the kernels ask for, on a cache line */
} syn_attend;

typedef struct syn_attention_kernels {
    int64_t tile; /* most queries of a call */
    size_t (*scratch_floats)(int64_t depth, int64_t keys);
    void (*attend)(const syn_attend *a);
} syn_attention_kernels;
/* A level's table, of its own TILE, scratch_floats and attend. */
#define SYN__ATTENTION_TABLE \
    { .tile = TILE, .scratch_floats = scratch_floats, .attend = attend }

/* The kernels of a level that runs here (syn_simd_runs). */
const syn_attention_kernels *syn__attention_kernels_at(syn_simd level);

extern const syn_attention_kernels syn__attention_scalar, syn__attention_avx2,
    syn__attention_avx512;

/* How many keys query number i sees: 0 to a->keys. */
static inline int64_t syn__visible_keys(const syn_attend *a, int64_t i) {
    const int64_t n = a->visible + i * a->step;
    return n < 0 ? 0 : n < a->keys ? n : a->keys;
}

#ifdef __cplusplus
}
#endif
#endif
