/* Kernels of one row of f32, once for each level of ops/simd.h, and how rows are spread over the
   workers. Input and output of a kernel may be the same. An element's result depends on the row
   alone, not on where it lies, so that a row of independent elements may be cut anywhere. */
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

/* AdamW (Loshchilov and Hutter 2019) with g = scale * gradient: m = beta1 m + rest1 g,
   v = beta2 v + rest2 g^2, p = shrink p - rate m / (root sqrt(v) + eps), where rest1 is 1 - beta1,
   rest2 likewise (of doubles: of 0.999f it is off by 1.3e-5), rate is the learning rate /
   (1 - beta1^t), root is 1 / sqrt(1 - beta2^t) and shrink is 1 - learning rate * decay. */
typedef struct syn_adamw {
    float scale, beta1, rest1, beta2, rest2, eps, rate, root, shrink;
} syn_adamw;

/* The kernels; X(name, parameters). exp_sum: the largest, and the sum of exp(x - it); -infinity and
   0 of no elements. exp_scale: scale * exp(x - shift). softmax_log: scale * softmax(x), and the
   logarithm of the sum of all exp(x). layernorm_grad and rmsnorm_grad add to dweight and dbias,
   square_sum to *sum. swiglu: silu(gate) * up. angles: factor * cos(position * frequency) of n
   frequencies, the product rounded to float, which is below 2^20, and sine_factor * sin of it.
   turn: the pairs x[i], x[n + i] by n such angles.
   scale_mask: x * scale + mask (NULL: none) for the first `visible` elements, then -infinity.
   dropout: of a row from `column` on. widen and narrow: of f16 and bf16, see syn_half_widen; x and
   y do not overlap. */
#define SYN__ROW_KERNELS(X)                                                                        \
    X(gelu_tanh, (const float *x, float *y, int64_t n))                                            \
    X(gelu_erf, (const float *x, float *y, int64_t n))                                             \
    X(tanh, (const float *x, float *y, int64_t n))                                                 \
    X(gelu_tanh_grad, (const float *x, const float *dy, float *dx, int64_t n))                     \
    X(gelu_erf_grad, (const float *x, const float *dy, float *dx, int64_t n))                      \
    X(tanh_grad, (const float *y, const float *dy, float *dx, int64_t n))                          \
    X(silu, (const float *x, float *y, int64_t n))                                                 \
    X(silu_grad, (const float *x, const float *dy, float *dx, int64_t n))                          \
    X(swiglu, (const float *gate, const float *up, float *y, int64_t n))                           \
    X(swiglu_grad,                                                                                 \
      (const float *gate, const float *up, const float *dy, float *dgate, float *dup, int64_t n))  \
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
    X(turn, (const float *x, const float *cosines, const float *sines, float *y, int64_t n))       \
    X(square_sum, (const float *x, double *sum, int64_t n))                                        \
    X(adamw, (float *p, float *m, float *v, const float *g, const syn_adamw *how, int64_t n))      \
    X(widen, (const uint16_t *x, syn_dtype dtype, float *y, int64_t n))                            \
    X(narrow, (const float *x, syn_dtype dtype, uint16_t *y, int64_t n))

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

/* Rows of f16 and bf16 go through the kernels as f32: they are widened into room beside, computed
   there and narrowed once. Those of f32 stay where they are. */

/* Elements of room on the stack, for what may be cut anywhere: in the first cache. */
enum { SYN__PIECE = 2048 };
static inline bool syn__is_f32(const syn_operand *o) {
    return o->spec.dtype == SYN_F32;
}
/* The n elements of `o` from element `at` of its storage on: widened into `room`, or where they
   lie. */
const float *syn__row_in(const syn_operand *o, int64_t at, int64_t n, float *room);
/* The same, `step` elements apart: in `room` if that is not 1. */
const float *syn__steps_in(const syn_operand *o, int64_t at, int64_t step, int64_t n, float *room);
/* Where a kernel writes such elements: `room`, which syn__row_done then narrows, or their place. */
float *syn__row_out(const syn_operand *o, int64_t at, float *room);
void syn__row_done(const syn_operand *o, int64_t at, int64_t n, const float *room);
/* The same, `step` elements apart. */
void syn__steps_done(const syn_operand *o, int64_t at, int64_t step, int64_t n, const float *room);
/* Room for `floats` of each worker (whose is at rooms + worker * syn__room(floats)), in the call's
   scratch memory; none (NULL) where `floats` is 0. */
syn_status syn__rooms(const syn_call *c, int64_t floats, float **rooms) SYN_MUST_USE;
static inline int64_t syn__room(int64_t floats) { /* whole cache lines: workers share none */
    return (floats + 31) / 32 * 32;
}

/* Calls f for every row of input 0, whose place in the (dense) output it is also given: `first` is
   the row's first element in row-major order. Rows are spread over the workers, at least about
   `grain` elements a piece. joined: f may be given several rows as one, or parts of one. Fails
   when there is no memory for a row of 16 bits. */
typedef void (*syn_each_row)(const syn_call *c, const float *in, float *out, int64_t n,
                             int64_t first);
syn_status syn__each_row(const syn_call *c, syn_each_row f, int64_t grain, bool joined);

#ifdef __cplusplus
}
#endif
#endif
