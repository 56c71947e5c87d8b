/* f32 matrix products for the CPU backend, row-major: OpenBLAS if the build has it and its library
   is installed, otherwise plain loops. The first call of any of these functions except
   syn_blas_forced_by loads OpenBLAS. On processors that OpenBLAS does not know, this changes the
   environment for a moment (OPENBLAS_CORETYPE), so no other thread may then read it. */
#ifndef OPS_BLAS_H
#define OPS_BLAS_H

#include "syntorch/base/types.h"

SYN_API_BEGIN

/* Whether OpenBLAS is in use. */
bool syn_blas_found(void);
/* c (m, n) = a (m, k) b (k, n) + beta c. transpose_a: a is stored as (k, m); transpose_b: b is
   stored as (n, k). lda, ldb, ldc: row strides as stored, in elements. m = 1 uses the
   matrix-vector product, which does not pack b. */
void syn_blas_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                   const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                   int64_t ldc);
/* Checks that `callers` threads can multiply at the same time. OpenBLAS needs 128 MiB of address
   space for each thread, and retries forever if it cannot get them. This function fails with
   SYN_E_NOMEM instead. */
syn_status syn_blas_reserve(int callers, syn_error *err) SYN_MUST_USE;
/* Number of threads of one product. OpenBLAS has one thread pool per process, so ranks that share
   a process use one thread each. The default is OpenBLAS's own, or 1 if the address space is
   limited. */
void syn_blas_set_threads(int threads);
int syn_blas_threads(void);
/* Writes "OpenBLAS 0.3.21 (Cooperlake kernels, 2 threads)" and returns buf. */
const char *syn_blas_describe(char *buf, size_t buf_bytes);
/* Name of the environment variable that overrides OpenBLAS's kernel or blocking, or NULL. Without
   it, OpenBLAS is loaded again with the kernels for this processor's vector width if it has chosen
   narrower ones. On processors that it does not know, OpenBLAS 0.3.21 chooses SSE3 kernels, which
   are 15 times slower. */
const char *syn_blas_forced_by(void);

SYN_API_END
#endif
