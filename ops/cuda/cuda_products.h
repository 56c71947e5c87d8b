/* Matrix products: by cuBLASLt, by kernels of this library for few rows, and by a plain kernel for
   products that cuBLASLt does not support. */
#ifndef OPS_CUDA_CUDA_PRODUCTS_H
#define OPS_CUDA_CUDA_PRODUCTS_H

#include "ops/cuda/cuda.h"

/* out (m, n) = op(x) op(w) + bias, or out += op(x) op(w), for each of `batch` entries. Matrices are
   row-major. Dimensions, row strides and steps between entries are in elements. */
typedef struct syn__product {
    int64_t m, n, k, batch;
    const void *x, *w, *bias; /* bias (n) of out's dtype, or NULL */
    void *out;
    int64_t ldx, ldw; /* row strides of x and w as stored; out's is n */
    int64_t x_step, w_step, out_step;
    syn_dtype x_dtype, w_dtype, out_dtype;
    bool transpose_x, transpose_w, add;
} syn__product;

/* ---- cuda_cublas.cu ---- */

/* cuBLASLt state of a context. */
typedef struct syn__cuda_blas {
    struct syn__plan *plans; /* descriptions and algorithms of all products so far */
    void *workspace;         /* as large as the plans so far require, at most most_workspace
                                bytes */
    size_t workspace_bytes, most_workspace;
    bool tf32; /* SYNTORCH_CUDA_TF32=1: f32 products use TF32, which has 11 bits of precision */
} syn__cuda_blas;
syn_status syn__cuda_blas_open(syn__cuda_blas *p, int capability, syn_error *err) SYN_MUST_USE;
void syn__cuda_blas_close(syn__cuda_blas *p);
/* Runs a product of operands of one dtype with cuBLASLt. *done false: cuBLASLt does not support
   it. */
syn_status syn__product_cublas(const syn_call *c, const syn__product *p, bool *done) SYN_MUST_USE;

/* ---- cuda_few_rows.cu ---- */

/* Whether syn__product_few_rows supports the product: at most 4 rows, so that the time to read w
   dominates. */
bool syn__product_has_few_rows(const syn__product *p);
syn_status syn__product_few_rows(const syn_call *c, const syn__product *p) SYN_MUST_USE;

#endif
