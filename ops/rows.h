/* Kernels of one row of f32, once for each level of ops/simd.h, and how rows are spread over the
   workers. Input and output of a kernel may be the same. An element's result depends on the row
   alone, not on where it lies, so that a row of independent elements may be cut anywhere. */
#ifndef OPS_ROWS_H
#define OPS_ROWS_H

#include "ops/simd.h"
#include "syntorch/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*syn_unary_row)(const float *x, float *y, int64_t n);
typedef void (*syn_binary_row)(const float *a, const float *b, float *y, int64_t n);

/* The kernels; X(name, parameters). scale_mask: x * scale + mask (NULL: none) for the first
   `visible` elements, then -infinity. */
#define SYN__ROW_KERNELS(X)                                                                   \
    X(gelu_tanh, (const float *x, float *y, int64_t n))                                       \
    X(gelu_erf, (const float *x, float *y, int64_t n))                                        \
    X(tanh, (const float *x, float *y, int64_t n))                                            \
    X(softmax, (const float *x, float *y, int64_t n))                                         \
    X(add, (const float *a, const float *b, float *y, int64_t n))                             \
    X(mul, (const float *a, const float *b, float *y, int64_t n))                             \
    X(scale, (const float *x, float factor, float *y, int64_t n))                             \
    X(scale_mask,                                                                             \
      (const float *x, const float *mask, float scale, int64_t visible, float *y, int64_t n)) \
    X(layernorm,                                                                              \
      (const float *x, const float *weight, const float *bias, double eps, float *y, int64_t n))

typedef struct syn_row_kernels {
#define X(name, parameters) void(*name) parameters;
    SYN__ROW_KERNELS(X)
#undef X
} syn_row_kernels;

/* A level's table, of its functions row_gelu_tanh, ...: one that is missing is named
   by the compiler. */
#define SYN__ROW_ENTRY(name, parameters) .name = row_##name,
#define SYN__ROW_TABLE \
    { SYN__ROW_KERNELS(SYN__ROW_ENTRY) }

/* The kernels of a level that runs here (syn_simd_runs). */
const syn_row_kernels *syn__row_kernels_at(syn_simd level);
/* Of syn_simd_level(). */
const syn_row_kernels *syn__row_kernels(void);

extern const syn_row_kernels syn__rows_scalar, syn__rows_avx2, syn__rows_avx512;

/* Elements worth a thread of their own: of what takes a nanosecond or so each, and of
   what moves only. */
enum { SYN__GRAIN_MATH = 8192, SYN__GRAIN_MOVE = 32768 };

/* Calls f for every row of input 0, whose place in the (dense) output it is also given: `first` is
   the row's first element in row-major order. Rows are spread over the workers, at least about
   `grain` elements a piece. joined: f may be given several rows as one, or parts of one. */
typedef void (*syn_each_row)(const syn_call *c, const float *in, float *out, int64_t n,
                             int64_t first);
void syn__each_row(const syn_call *c, syn_each_row f, int64_t grain, bool joined);

#ifdef __cplusplus
}
#endif
#endif
