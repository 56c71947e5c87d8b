/* Wraps OpenBLAS, with plain loops for builds without it. No other file includes cblas.h. */
#include "ops/blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "syntorch/base/memory.h"

#ifdef SYN_HAVE_OPENBLAS
#include <cblas.h>

/* Dimensions of CBLAS are int, so products with larger m or n are split. Callers reject a larger k,
   because the leading dimension would not fit in an int, either (check_lengths in op_product.c). */
enum { BLAS_MAX = 1 << 30 };

void syn_blas_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                   const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                   int64_t ldc) {
    if (m > BLAS_MAX || n > BLAS_MAX) {
        const bool rows = m > n;
        const int64_t half = (rows ? m : n) / 2;
        const float *a2 = rows ? a + (transpose_a ? half : half * lda) : a;
        const float *b2 = rows ? b : b + (transpose_b ? half * ldb : half);
        syn_blas_gemm(transpose_a, transpose_b, rows ? half : m, rows ? n : half, k, a, lda, b, ldb,
                      beta, c, ldc);
        syn_blas_gemm(transpose_a, transpose_b, rows ? m - half : m, rows ? n : n - half, k, a2,
                      lda, b2, ldb, beta, c + (rows ? half * ldc : half), ldc);
        return;
    }
    if (m == 1 && !transpose_a) {
        cblas_sgemv(CblasRowMajor, transpose_b ? CblasNoTrans : CblasTrans,
                    (int)(transpose_b ? n : k), (int)(transpose_b ? k : n), 1.0f, b, (int)ldb, a, 1,
                    beta, c, 1);
        return;
    }
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                transpose_b ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, 1.0f, a, (int)lda,
                b, (int)ldb, beta, c, (int)ldc);
}

bool syn_blas_found(void) {
    return true;
}

syn_status syn_blas_reserve(int callers, syn_error *err) {
    /* For each thread: OpenBLAS's buffer of 128 MiB, the stack, and the heap, whose alignment
       doubles its size. */
    enum { BUFFER_BYTES = (129 + 8 + 128) << 20, MOST = 256 };
    void *probe[MOST];
    int n = 0;
    if (callers > MOST) callers = MOST;
    while (n < callers && (probe[n] = syn_malloc(BUFFER_BYTES)) != NULL) n++;
    for (int i = 0; i < n; i++) syn_free(probe[i]);
    if (n == callers) return SYN_OK;
    return SYN_FAIL_NOMEM(err, (size_t)callers * BUFFER_BYTES, "OpenBLAS's buffers");
}

void syn_blas_set_threads(int threads) {
    openblas_set_num_threads(threads > 0 ? threads : 1);
}

int syn_blas_threads(void) {
    return openblas_get_num_threads();
}

const char *syn_blas_describe(char *buf, size_t buf_bytes) {
    /* The configuration starts with "OpenBLAS 0.3.21 ..."; the first two words are the name. */
    const char *config = openblas_get_config();
    int words = 0, length = 0;
    while (config[length] && words < 2)
        if (config[length++] == ' ') words++;
    snprintf(buf, buf_bytes, "%.*s(%s kernels, %d thread%s)", length, config,
             openblas_get_corename(), openblas_get_num_threads(),
             openblas_get_num_threads() == 1 ? "" : "s");
    return buf;
}

const char *syn_blas_forced_by(void) {
    static const char *const names[] = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return names[i];
    }
    return NULL;
}

/* Vector width, in bits, of the kernels of an OpenBLAS core name. */
static int core_bits(const char *core) {
    static const char *const bits_512[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    static const char *const bits_256[] = {"Haswell",    "Zen",       "Excavator",  "Steamroller",
                                           "Piledriver", "Bulldozer", "Sandybridge"};
    for (size_t i = 0; i < sizeof bits_512 / sizeof bits_512[0]; i++)
        if (strcasecmp(core, bits_512[i]) == 0) return 512;
    for (size_t i = 0; i < sizeof bits_256 / sizeof bits_256[0]; i++)
        if (strcasecmp(core, bits_256[i]) == 0) return 256;
    return 128;
}

const char *syn_blas_better_core(void) {
#if defined(__x86_64__)
    const int bits = core_bits(openblas_get_corename());
    if (bits < 512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (bits < 256 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    return NULL;
}

#else

bool syn_blas_found(void) {
    return false;
}

syn_status syn_blas_reserve(int callers, syn_error *err) {
    (void)callers;
    (void)err;
    return SYN_OK;
}

void syn_blas_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                   const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                   int64_t ldc) {
    for (int64_t i = 0; i < m; i++) {
        float *row = c + i * ldc;
        for (int64_t j = 0; j < n; j++) row[j] = beta == 0.0f ? 0.0f : beta * row[j];
        for (int64_t p = 0; p < k; p++) {
            const float x = transpose_a ? a[p * lda + i] : a[i * lda + p];
            if (transpose_b)
                for (int64_t j = 0; j < n; j++) row[j] += x * b[j * ldb + p];
            else
                for (int64_t j = 0; j < n; j++) row[j] += x * b[p * ldb + j];
        }
    }
}

void syn_blas_set_threads(int threads) {
    (void)threads;
}

int syn_blas_threads(void) {
    return 1;
}

const char *syn_blas_describe(char *buf, size_t buf_bytes) {
    snprintf(buf, buf_bytes, "plain loops (built without OpenBLAS)");
    return buf;
}

const char *syn_blas_forced_by(void) {
    return NULL;
}

const char *syn_blas_better_core(void) {
    return NULL;
}

#endif
