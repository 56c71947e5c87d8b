/* Kernels of fused attention and its gradient for one head, one set per SIMD level (ops/simd.h).
   They compute softmax(scale q k' + mask) v for a tile of queries without storing the matrix of
   scores. */
#ifndef OPS_ATTENTION_H
#define OPS_ATTENTION_H

#include "ops/dropout.h"
#include "ops/simd.h"
#include "syntorch/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One head and a tile of its queries. Rows are dense; row strides are in elements and arbitrary. */
typedef struct syn_attention_tile {
    const float *q; /* (queries, depth) */
    /* (keys, depth) of `dtype`, which is f32, f16 or bf16. attend_grad requires f32. */
    const void *k, *v;
    syn_dtype dtype;
    const float *mask; /* (keys), added to the scores of every query; NULL: none */
    float *out;        /* (queries, depth) */
    float *log_sum;    /* (queries), log-sum-exp of the scores; NULL: not needed */
    int64_t q_stride, k_stride, v_stride, out_stride;
    int64_t queries, keys, depth; /* queries <= the kernels' tile; depth: head_dim */
    int64_t visible;              /* keys that query 0 sees, at most `keys`; may be negative */
    int64_t step;                 /* more keys that each following query sees: 1 (causal) or 0 */
    int64_t window; /* a query sees only the last `window` of these; 0: all, otherwise step is 1 */
    float scale;
    /* Dropout of the softmax weights, one entry per query; NULL: none. The weights that remain are
       multiplied by `keep`. */
    const syn_dropout_row *drop;
    uint32_t column; /* dropout column of key 0 */
    /* Aligned to a cache line, of scratch_floats(depth, keys) or grad_scratch_floats floats. */
    float *scratch;
} syn_attention_tile;

/* Gradients for a tile of queries. dk and dv get this tile's contribution. A NULL gradient is not
   computed. */
typedef struct syn_attention_grad_tile {
    /* With `out` and `log_sum` as attend computed them; queries <= the kernels' grad_tile. */
    syn_attention_tile of;
    const float *dout; /* (queries, depth) */
    int64_t dout_stride;
    float *dq; /* (queries, depth) */
    int64_t dq_stride;
    bool add; /* add to dq instead of overwriting it */
    /* (keys, depth), added to. Rows are dk_stride apart, a multiple of SYN__ATTEND_PAD, and the
       padding between them is overwritten. */
    float *dk, *dv;
    int64_t dk_stride;
} syn_attention_grad_tile;
#define SYN__ATTEND_PAD 16

typedef struct syn_attention_kernels {
    int64_t tile; /* largest number of queries per call */
    size_t (*scratch_floats)(int64_t depth, int64_t keys);
    void (*attend)(const syn_attention_tile *a);
    int64_t grad_tile;
    size_t (*grad_scratch_floats)(int64_t depth, int64_t keys);
    void (*attend_grad)(const syn_attention_grad_tile *g);
} syn_attention_kernels;
/* Defines a level's table from functions with these names. */
#define SYN__ATTENTION_TABLE                                                                      \
    {                                                                                             \
        .tile = TILE, .scratch_floats = scratch_floats, .attend = attend, .grad_tile = GRAD_TILE, \
        .grad_scratch_floats = grad_scratch_floats, .attend_grad = attend_grad                    \
    }

/* The kernels of a level, which must be supported (syn_simd_supported). */
const syn_attention_kernels *syn__attention_kernels_at(syn_simd level);

extern const syn_attention_kernels syn__attention_scalar, syn__attention_avx2,
    syn__attention_avx512;

/* End of the keys that query i sees: 0 to a->keys. */
static inline int64_t syn__visible_end(const syn_attention_tile *a, int64_t i) {
    const int64_t n = a->visible + i * a->step;
    return n < 0 ? 0 : n < a->keys ? n : a->keys;
}

/* First key that query i sees, because of the window: 0 to a->keys. */
static inline int64_t syn__first_visible_key(const syn_attention_tile *a, int64_t i) {
    const int64_t n = a->window > 0 ? a->visible + i * a->step - a->window : 0;
    return n < 0 ? 0 : n < a->keys ? n : a->keys;
}

#ifdef __cplusplus
}
#endif
#endif
