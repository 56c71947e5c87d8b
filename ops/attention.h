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

/* One head and a tile of its queries. Each row is dense. The strides between rows are in elements
   and arbitrary. */
typedef struct syn_attention_tile {
    const float *q; /* (queries, depth) */
    /* k (keys, depth), v (keys, value_depth), of dtype f32, f16 or bf16. attend_grad requires
       f32. */
    const void *k, *v;
    syn_dtype dtype;
    const int32_t *slots; /* (keys): the rows of k and v that belong to each key; NULL: row i to key
                             i. Only for attend */
    const float *mask;    /* (keys), added to the scores of every query; NULL: none */
    float *out;           /* (queries, value_depth) */
    float *log_sum; /* (queries), log-sum-exp of the scores, with the sink; NULL: not needed */
    int64_t q_stride, k_stride, v_stride, out_stride;
    int64_t queries, keys;      /* queries <= the kernels' tile */
    int64_t depth, value_depth; /* head_dim of queries and keys, and of values */
    int64_t visible;            /* number of keys that query 0 can attend to, at most `keys`; may be
                                   negative */
    int64_t step;               /* number of additional keys for each following query: 1 (causal)
                                   or 0 */
    int64_t window; /* a query attends only to the last `window` of its keys; 0: to all. If not 0,
                       step is 1 */
    float scale;
    float cap; /* attend: scores x become cap tanh(x / cap); 0: none */
    /* A score of every query besides those of the keys. It takes its share of the softmax, but has
       no value. has_sink false: none. */
    float sink;
    bool has_sink;
    /* Dropout of the softmax weights, one entry per query; NULL: none. The weights that remain are
       multiplied by `keep`. */
    const syn_dropout_row *drop;
    uint32_t column; /* column of key 0 for dropout */
    /* Scratch memory, aligned to a cache line: scratch_floats floats for attend,
       grad_scratch_floats floats for attend_grad. */
    float *scratch;
} syn_attention_tile;

/* Gradients for a tile of queries. The tile's contributions are added to dk and dv. A gradient that
   is NULL is not computed. */
typedef struct syn_attention_grad_tile {
    /* The tile of the forward op, with `out` and `log_sum` as attend computed them. of.queries is
       at most the kernels' grad_tile. */
    syn_attention_tile of;
    const float *dout; /* (queries, value_depth) */
    int64_t dout_stride;
    float *dq; /* (queries, depth) */
    int64_t dq_stride;
    bool add; /* add to dq instead of overwriting it */
    /* (keys, depth) and (keys, value_depth), added to. Rows are dk_stride elements apart, a
       multiple of SYN__ATTEND_PAD. The padding between rows is overwritten. */
    float *dk, *dv;
    int64_t dk_stride;
} syn_attention_grad_tile;
#define SYN__ATTEND_PAD 16

typedef struct syn_attention_kernels {
    int64_t tile; /* largest number of queries per call */
    size_t (*scratch_floats)(int64_t depth, int64_t value_depth, int64_t keys);
    void (*attend)(const syn_attention_tile *a);
    int64_t grad_tile;
    size_t (*grad_scratch_floats)(int64_t depth, int64_t value_depth);
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

/* The row of k and v that belongs to key i. */
static inline int64_t syn__key_row(const syn_attention_tile *a, int64_t i) {
    return a->slots ? a->slots[i] : i;
}

/* The end of the range of keys that query i attends to: 0 to a->keys. */
static inline int64_t syn__visible_end(const syn_attention_tile *a, int64_t i) {
    const int64_t n = a->visible + i * a->step;
    return n < 0 ? 0 : n < a->keys ? n : a->keys;
}

/* The first key that query i attends to; with a window, it may be above 0. At most a->keys. */
static inline int64_t syn__first_visible_key(const syn_attention_tile *a, int64_t i) {
    const int64_t n = a->window > 0 ? a->visible + i * a->step - a->window : 0;
    return n < 0 ? 0 : n < a->keys ? n : a->keys;
}

#ifdef __cplusplus
}
#endif
#endif
