/* Fused attention of one head and its gradient, once for each level of ops/simd.h:
   softmax(scale q k' + mask) v for a few queries at a time, without the matrix of scores. */
#ifndef OPS_ATTENTION_H
#define OPS_ATTENTION_H

#include "ops/dropout.h"
#include "ops/simd.h"
#include "syntorch/base/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A head and some of its queries. Rows are dense and their strides, in elements, arbitrary. */
typedef struct syn_attend {
    const float *q;    /* (queries, depth) */
    const void *k, *v; /* (keys, depth), of `dtype`: f32, f16 or bf16; for gradients f32 */
    syn_dtype dtype;
    const float *mask; /* (keys), added to every query's scores; NULL: none */
    float *out;        /* (queries, depth) */
    float *log_sum;    /* (queries): of exp of the scores; NULL: not wanted */
    int64_t q_stride, k_stride, v_stride, out_stride;
    int64_t queries, keys, depth; /* queries <= the kernels' tile */
    int64_t visible;              /* keys that query 0 sees, at most `keys`; may be negative */
    int64_t step;                 /* how many more each next query sees: 1 (causal) or 0 */
    int64_t window; /* a query sees the last so many of those; 0: all, else `step` is 1 */
    float scale;
    /* Which weights count as zero, by query; NULL: none. The others grow by `keep`. */
    const syn_dropout_row *drop;
    uint32_t column; /* of key 0 */
    float *scratch;  /* as many floats as the kernels ask for, on a cache line */
} syn_attend;

/* The gradients of such queries, and their part in those of the keys and values; what is NULL is
   not computed. */
typedef struct syn_attend_grad {
    syn_attend of; /* `out` and `log_sum` as attend left them; queries <= the kernels' grad_tile */
    const float *dout; /* (queries, depth) */
    int64_t dout_stride;
    float *dq; /* (queries, depth) */
    int64_t dq_stride;
    bool add; /* to what dq holds */
    /* (keys, depth), added to. Their rows are dk_stride apart, a multiple of SYN__ATTEND_PAD, and
       what is between them is written too. */
    float *dk, *dv;
    int64_t dk_stride;
} syn_attend_grad;
#define SYN__ATTEND_PAD 16

typedef struct syn_attention_kernels {
    int64_t tile; /* most queries of a call */
    size_t (*scratch_floats)(int64_t depth, int64_t keys);
    void (*attend)(const syn_attend *a);
    int64_t grad_tile;
    size_t (*grad_scratch_floats)(int64_t depth, int64_t keys);
    void (*attend_grad)(const syn_attend_grad *g);
} syn_attention_kernels;
/* A level's table, of functions of these names. */
#define SYN__ATTENTION_TABLE                                                                      \
    {                                                                                             \
        .tile = TILE, .scratch_floats = scratch_floats, .attend = attend, .grad_tile = GRAD_TILE, \
        .grad_scratch_floats = grad_scratch_floats, .attend_grad = attend_grad                    \
    }

/* The kernels of a level that runs here (syn_simd_runs). */
const syn_attention_kernels *syn__attention_kernels_at(syn_simd level);

extern const syn_attention_kernels syn__attention_scalar, syn__attention_avx2,
    syn__attention_avx512;

/* How many keys query number i sees: 0 to a->keys. */
static inline int64_t syn__visible_keys(const syn_attend *a, int64_t i) {
    const int64_t n = a->visible + i * a->step;
    return n < 0 ? 0 : n < a->keys ? n : a->keys;
}

/* How many of them it does not see, the first: 0 to a->keys. */
static inline int64_t syn__hidden_keys(const syn_attend *a, int64_t i) {
    const int64_t n = a->window > 0 ? a->visible + i * a->step - a->window : 0;
    return n < 0 ? 0 : n < a->keys ? n : a->keys;
}

#ifdef __cplusplus
}
#endif
#endif
