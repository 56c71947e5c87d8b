/* f32 matrix products: OpenBLAS, or plain loops without it. OpenBLAS is loaded when it is first
   used, because it starts a thread for each core, which programs that multiply nothing should not
   have. No other file includes cblas.h. */
#include "ops/blas.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "syntorch/base/memory.h"

#ifdef SYN_HAVE_OPENBLAS
#include <cblas.h>
#include <dlfcn.h>
#include <sys/resource.h>

/* The functions of OpenBLAS that this file calls. */
static struct {
    void (*sgemm)(enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, enum CBLAS_TRANSPOSE, blasint m,
                  blasint n, blasint k, float alpha, const float *a, blasint lda, const float *b,
                  blasint ldb, float beta, float *c, blasint ldc);
    void (*sgemv)(enum CBLAS_ORDER, enum CBLAS_TRANSPOSE, blasint m, blasint n, float alpha,
                  const float *a, blasint lda, const float *x, blasint incx, float beta, float *y,
                  blasint incy);
    void (*set_num_threads)(int);
    int (*get_num_threads)(void);
    char *(*get_config)(void);
    char *(*get_corename)(void);
} blas;

static char failure[64]; /* why OpenBLAS was not loaded; empty: it was */

/* Whether the address space is limited (ulimit -v). */
static bool is_limited(void) {
    struct rlimit space;
    return getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY;
}

const char *syn_blas_forced_by(void) {
    static const char *const names[] = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return names[i];
    }
    return NULL;
}

#ifdef SYN_OPENBLAS_LIBRARY

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

/* The core with the widest kernels for this processor, if they are wider than those of `core`;
   otherwise NULL. */
static const char *better_core(const char *core) {
#if defined(__x86_64__)
    const int bits = core_bits(core);
    if (bits < 512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (bits < 256 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    (void)core;
    return NULL;
}

/* Loads OpenBLAS and sets `blas`. Returns the library, or NULL after setting `failure`. */
static void *load_library(void) {
    static const struct {
        const char *name;
        void *function;
    } functions[] = {{"cblas_sgemm", &blas.sgemm},
                     {"cblas_sgemv", &blas.sgemv},
                     {"openblas_set_num_threads", &blas.set_num_threads},
                     {"openblas_get_num_threads", &blas.get_num_threads},
                     {"openblas_get_config", &blas.get_config},
                     {"openblas_get_corename", &blas.get_corename}};
    void *library = dlopen(SYN_OPENBLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) library = dlopen(SYN_OPENBLAS_PATH, RTLD_NOW | RTLD_LOCAL);
    if (!library) snprintf(failure, sizeof failure, SYN_OPENBLAS_LIBRARY " cannot be loaded");
    for (size_t i = 0; library && i < sizeof functions / sizeof functions[0]; i++) {
        void *function = dlsym(library, functions[i].name);
        if (!function) {
            snprintf(failure, sizeof failure, SYN_OPENBLAS_LIBRARY " has no %s", functions[i].name);
            dlclose(library);
            return NULL;
        }
        memcpy(functions[i].function, &function, sizeof function);
    }
    return library;
}

/* Loads OpenBLAS again with the kernels of `core`, since it reads the variable only when it is
   loaded. Keeps it as it is if another part of the process uses it, too. */
static void load_again(void *library, const char *core) {
    dlclose(library);
    if (dlopen(SYN_OPENBLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)) return;
    setenv("OPENBLAS_CORETYPE", core, 1);
    (void)load_library();
    unsetenv("OPENBLAS_CORETYPE");
}

static void load(void) {
    static const char threads[] = "OPENBLAS_NUM_THREADS";
    const char *value = getenv(threads);
    char *given = value ? strdup(value) : NULL;
    /* Each thread allocates 128 MiB when it starts, and retries forever if it cannot get them. */
    const bool limited = is_limited();
    if (limited) setenv(threads, "1", 1);
    void *library = load_library();
    const char *core = library && !syn_blas_forced_by() ? better_core(blas.get_corename()) : NULL;
    if (core) load_again(library, core);
    if (limited && given) setenv(threads, given, 1);
    else if (limited) unsetenv(threads);
    free(given);
}

#else

/* OpenBLAS is a static library. */
static void load(void) {
    blas.sgemm = cblas_sgemm;
    blas.sgemv = cblas_sgemv;
    blas.set_num_threads = openblas_set_num_threads;
    blas.get_num_threads = openblas_get_num_threads;
    blas.get_config = openblas_get_config;
    blas.get_corename = openblas_get_corename;
}

#endif

bool syn_blas_found(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return !failure[0];
}

/* Dimensions of CBLAS are int, so products with larger m or n are split. Callers reject a larger k,
   because the leading dimension would not fit in an int, either (check_lengths in op_product.c). */
enum { BLAS_MAX = 1 << 30 };

static void blas_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                      const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                      float *c, int64_t ldc) {
    if (m > BLAS_MAX || n > BLAS_MAX) {
        const bool rows = m > n;
        const int64_t half = (rows ? m : n) / 2;
        const float *a2 = rows ? a + (transpose_a ? half : half * lda) : a;
        const float *b2 = rows ? b : b + (transpose_b ? half * ldb : half);
        blas_gemm(transpose_a, transpose_b, rows ? half : m, rows ? n : half, k, a, lda, b, ldb,
                  beta, c, ldc);
        blas_gemm(transpose_a, transpose_b, rows ? m - half : m, rows ? n : n - half, k, a2, lda,
                  b2, ldb, beta, c + (rows ? half * ldc : half), ldc);
        return;
    }
    if (m == 1 && !transpose_a) {
        blas.sgemv(CblasRowMajor, transpose_b ? CblasNoTrans : CblasTrans,
                   (int)(transpose_b ? n : k), (int)(transpose_b ? k : n), 1.0f, b, (int)ldb, a, 1,
                   beta, c, 1);
        return;
    }
    blas.sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
               transpose_b ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, 1.0f, a, (int)lda,
               b, (int)ldb, beta, c, (int)ldc);
}

syn_status syn_blas_reserve(int callers, syn_error *err) {
    /* For each thread: OpenBLAS's buffer of 128 MiB, the stack, and the heap, whose alignment
       doubles its size. */
    enum { BUFFER_BYTES = (129 + 8 + 128) << 20, MOST = 256 };
    void *probe[MOST];
    int n = 0;
    if (!syn_blas_found() && is_limited())
        return SYN_FAIL(err, SYN_E_NOMEM, "%s within the limit on the address space (ulimit -v)",
                        failure);
    if (!syn_blas_found()) return SYN_OK;
    if (callers > MOST) callers = MOST;
    while (n < callers && (probe[n] = syn_malloc(BUFFER_BYTES)) != NULL) n++;
    for (int i = 0; i < n; i++) syn_free(probe[i]);
    if (n == callers) return SYN_OK;
    return SYN_FAIL_NOMEM(err, (size_t)callers * BUFFER_BYTES, "OpenBLAS's buffers");
}

void syn_blas_set_threads(int threads) {
    if (syn_blas_found()) blas.set_num_threads(threads > 0 ? threads : 1);
}

int syn_blas_threads(void) {
    return syn_blas_found() ? blas.get_num_threads() : 1;
}

const char *syn_blas_describe(char *buf, size_t buf_bytes) {
    if (!syn_blas_found()) {
        snprintf(buf, buf_bytes, "plain loops (%s)", failure);
        return buf;
    }
    /* The configuration starts with "OpenBLAS 0.3.21 ..."; the first two words are the name. */
    const char *config = blas.get_config();
    int words = 0, length = 0;
    while (config[length] && words < 2)
        if (config[length++] == ' ') words++;
    const int threads = blas.get_num_threads();
    snprintf(buf, buf_bytes, "%.*s(%s kernels, %d thread%s)", length, config, blas.get_corename(),
             threads, threads == 1 ? "" : "s");
    return buf;
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

#endif

static void plain_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                       const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                       float *c, int64_t ldc) {
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

void syn_blas_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                   const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                   int64_t ldc) {
#ifdef SYN_HAVE_OPENBLAS
    if (syn_blas_found()) {
        blas_gemm(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
        return;
    }
#endif
    plain_gemm(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
}
