/* Matrix products of the CPU backend: OpenBLAS where the build has it, else plain
   loops. Row-major f32. */
#ifndef OPS_BLAS_H
#define OPS_BLAS_H

#include "syntorch/base/types.h"

SYN_API_BEGIN

/* Whether the build has OpenBLAS. */
bool syn_blas_found(void);
/* c (m, n) = a (m, k) b (k, n) + beta c. transpose_a: a is stored (k, m), likewise b. ld: elements
   from row to row as stored. m = 1 takes the matrix-vector product, which does not
   pack the weights. */
void syn_blas_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                   const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                   int64_t ldc);
/* Makes sure that `callers` threads can multiply at once. OpenBLAS gives each a buffer of 128 MiB
   of address space and tries for ever when it cannot; this fails with SYN_E_NOMEM instead. */
syn_status syn_blas_reserve(int callers, syn_error *err) SYN_MUST_USE;
/* Threads of one product. OpenBLAS has one pool for the process: ranks in one process use one
   thread each. */
void syn_blas_set_threads(int threads);
int syn_blas_threads(void);
/* "OpenBLAS 0.3.21 (Cooperlake kernels, 2 threads)"; returns buf. */
const char *syn_blas_describe(char *buf, size_t buf_bytes);
/* The name of an environment variable that decides the kernel or its blocking, or NULL. */
const char *syn_blas_forced_by(void);
/* Name (for OPENBLAS_CORETYPE, read when the library is loaded) of kernels that this processor runs
   and that are wider than those OpenBLAS chose, or NULL when it chose well. OpenBLAS 0.3.21 falls
   back to SSE3 kernels, 15 times slower, on processors newer than itself. */
const char *syn_blas_better_core(void);

SYN_API_END
#endif
