/* Kernels for one row of f32, one set per SIMD level (ops/simd.h), and helpers that distribute rows
   over the workers. A kernel's output may be its input. An element's result does not depend on its
   position in memory, so rows of independent elements can be split anywhere. */
#ifndef OPS_ROWS_H
#define OPS_ROWS_H

#include "ops/dropout.h"
#include "ops/simd.h"
#include "syntorch/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*syn_unary_row)(const float *x, float *y, int64_t n);
typedef void (*syn_binary_row)(const float *a, const float *b, float *y, int64_t n);

/* AdamW (Loshchilov and Hutter 2019) with g = scale * gradient: m = beta1 m + rest1 g, v = beta2 v
   + rest2 g^2, p = shrink p - rate m / (root sqrt(v) + eps).
   rest1 = 1 - beta1 and rest2 = 1 - beta2, computed in double (in float, 1 - 0.999f is off by
   1.3e-5); rate = learning rate / (1 - beta1^t); root = 1 / sqrt(1 - beta2^t); shrink = 1 -
   learning rate * weight decay. */
typedef struct syn_adamw {
    float scale, beta1, rest1, beta2, rest2, eps, rate, root, shrink;
} syn_adamw;

/* The list of kernels: X(name, parameters).
   exp_sum: the largest element, and the sum of exp(x - largest); -infinity and 0 for n = 0.
   exp_scale: scale * exp(x - shift).
   softmax_log: scale * softmax(x), and the logarithm of the sum of all exp(x).
   layernorm_grad, rmsnorm_grad: add to dweight and dbias. square_sum: adds to *sum.
   swiglu: silu(gate) * up. swiglu_clamped: see syn_swiglu_clamped.
   angles: for n frequencies, factor * cos(a) and sine_factor * sin(a) of the angle a = position *
   frequency, rounded to float and below 2^20.
   rotate: rotates the pairs x[i], x[n + i] by n such angles.
   scale_mask: x * scale + mask (NULL: none) for the first `visible` elements, then -infinity.
   dropout: dropout of a row's elements from `column` on.
   widen, narrow: convert from and to f16 or bf16 (syn_half_widen); x and y must not overlap. */
#define SYN__ROW_KERNELS(X)                                                                        \
    X(gelu_tanh, (const float *x, float *y, int64_t n))                                            \
    X(gelu_erf, (const float *x, float *y, int64_t n))                                             \
    X(tanh, (const float *x, float *y, int64_t n))                                                 \
    X(relu, (const float *x, float *y, int64_t n))                                                 \
    X(gelu_tanh_grad, (const float *x, const float *dy, float *dx, int64_t n))                     \
    X(gelu_erf_grad, (const float *x, const float *dy, float *dx, int64_t n))                      \
    X(tanh_grad, (const float *y, const float *dy, float *dx, int64_t n))                          \
    X(silu, (const float *x, float *y, int64_t n))                                                 \
    X(silu_grad, (const float *x, const float *dy, float *dx, int64_t n))                          \
    X(swiglu, (const float *gate, const float *up, float *y, int64_t n))                           \
    X(swiglu_grad,                                                                                 \
      (const float *gate, const float *up, const float *dy, float *dgate, float *dup, int64_t n))  \
    X(swiglu_clamped,                                                                              \
      (const float *gate, const float *up, float alpha, float limit, float *y, int64_t n))         \
    X(swiglu_clamped_grad, (const float *gate, const float *up, const float *dy, float alpha,      \
                            float limit, float *dgate, float *dup, int64_t n))                     \
    X(softmax, (const float *x, float *y, int64_t n))                                              \
    X(softmax_grad, (const float *y, const float *dy, float *dx, int64_t n))                       \
    X(exp_sum, (const float *x, float *max, float *sum, int64_t n))                                \
    X(exp_scale, (const float *x, float shift, float scale, float *y, int64_t n))                  \
    X(softmax_log, (const float *x, float scale, float *log_sum, float *y, int64_t n))             \
    X(add, (const float *a, const float *b, float *y, int64_t n))                                  \
    X(mul, (const float *a, const float *b, float *y, int64_t n))                                  \
    X(scale, (const float *x, float factor, float *y, int64_t n))                                  \
    X(dropout, (const float *x, const syn_dropout_row *how, uint32_t column, float *y, int64_t n)) \
    X(scale_mask,                                                                                  \
      (const float *x, const float *mask, float scale, int64_t visible, float *y, int64_t n))      \
    X(layernorm,                                                                                   \
      (const float *x, const float *weight, const float *bias, double eps, float *y, int64_t n))   \
    X(layernorm_grad, (const float *x, const float *weight, const float *dy, double eps,           \
                       float *dx, float *dweight, float *dbias, int64_t n))                        \
    X(rmsnorm, (const float *x, const float *weight, double eps, float *y, int64_t n))             \
    X(rmsnorm_grad, (const float *x, const float *weight, const float *dy, double eps, float *dx,  \
                     float *dweight, int64_t n))                                                   \
    X(angles, (const float *frequencies, float position, float factor, float sine_factor,          \
               float *cosines, float *sines, int64_t n))                                           \
    X(rotate, (const float *x, const float *cosines, const float *sines, float *y, int64_t n))     \
    X(square_sum, (const float *x, double *sum, int64_t n))                                        \
    X(adamw, (float *p, float *m, float *v, const float *g, const syn_adamw *how, int64_t n))      \
    X(widen, (const uint16_t *x, syn_dtype dtype, float *y, int64_t n))                            \
    X(narrow, (const float *x, syn_dtype dtype, uint16_t *y, int64_t n))

typedef struct syn_row_kernels {
#define X(name, parameters) void(*name) parameters;
    SYN__ROW_KERNELS(X)
#undef X
} syn_row_kernels;

/* Defines a level's table from its functions row_gelu_tanh, ...; the compiler reports missing
   ones. */
#define SYN__ROW_ENTRY(name, parameters) .name = row_##name,
#define SYN__ROW_TABLE \
    { SYN__ROW_KERNELS(SYN__ROW_ENTRY) }

/* The kernels of a level, which must be supported (syn_simd_supported). */
const syn_row_kernels *syn__row_kernels_at(syn_simd level);
/* The kernels of syn_simd_level(). */
const syn_row_kernels *syn__row_kernels(void);

extern const syn_row_kernels syn__rows_scalar, syn__rows_avx2, syn__rows_avx512;

/* The number of elements from which a separate thread pays off: for ops that take about a
   nanosecond per element, and for copies. */
enum { SYN__GRAIN_MATH = 8192, SYN__GRAIN_MOVE = 32768 };

/* Kernels compute in f32. Rows of f16 and bf16 are converted to an f32 buffer (`buffer`), processed
   there, and rounded once. Rows of f32 are used in place. */

/* Elements in a buffer on the stack, which fits the L1 cache. For rows that can be split
   anywhere. */
enum { SYN__PIECE = 2048 };
static inline bool syn__is_f32(const syn_operand *o) {
    return o->spec.dtype == SYN_F32;
}
/* Returns the n elements of `o` that begin at element `at` of its storage: in place, or converted
   to `buffer`. */
const float *syn__load_row(const syn_operand *o, int64_t at, int64_t n, float *buffer);
/* The same for elements that are `step` apart. Unless step is 1, they are copied to `buffer`. */
const float *syn__load_strided(const syn_operand *o, int64_t at, int64_t step, int64_t n,
                               float *buffer);
/* Returns where a kernel must write such elements: in place, or in `buffer`, which syn__store_row
   then rounds to `o`. */
float *syn__row_dest(const syn_operand *o, int64_t at, float *buffer);
void syn__store_row(const syn_operand *o, int64_t at, int64_t n, const float *buffer);
/* The same for elements that are `step` apart. */
void syn__store_strided(const syn_operand *o, int64_t at, int64_t step, int64_t n,
                        const float *buffer);
/* Allocates a buffer of `floats` floats per worker in the call's scratch memory. Worker w's buffer
   is at buffers + w * syn__padded_floats(floats). floats 0: *buffers becomes NULL. */
syn_status syn__worker_buffers(const syn_call *c, int64_t floats, float **buffers) SYN_MUST_USE;
/* Rounds up to whole cache lines, so that workers do not share one. */
static inline int64_t syn__padded_floats(int64_t floats) {
    return (floats + 31) / 32 * 32;
}

/* Calls f for every row of input 0, using all workers. A task has about `grain` elements or more.
   first: row-major index of the row's first element, which is also its index in the dense output.
   joined: f may get several rows as one row, or a part of a row. Fails if there is no memory for
   the buffers of 16-bit rows. */
typedef void (*syn_each_row)(const syn_call *c, const float *in, float *out, int64_t n,
                             int64_t first);
syn_status syn__each_row(const syn_call *c, syn_each_row f, int64_t grain, bool joined);

#ifdef __cplusplus
}
#endif
#endif
