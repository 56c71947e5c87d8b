/* Allocates OpenBLAS's buffers. */
#include <sys/resource.h>
#include <time.h>

#include "ops/blas.h"
#include "syntorch/base/thread.h"
#include "tools/cli.h"

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Multiplies matrices until the time in *until. The matrices are too large for OpenBLAS's kernels
   for small products, which do not allocate a buffer. */
static void *multiply(void *until) {
    enum { N = 128 };
    static const float zeros[N * N];
    float out[N * N];
    do syn_blas_gemm(false, false, N, N, N, zeros, N, zeros, N, 0, out, N);
    while (now_ns() < *(const int64_t *)until);
    return NULL;
}

void cli_take_blas_buffers(int callers) {
    enum { MOST = 64 };
    struct rlimit space;
    pthread_t threads[MOST];
    int started = 0;
    int64_t until = 0;
    if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY) return;
    if (callers > MOST) callers = MOST;
    /* OpenBLAS reuses a buffer for the next caller, so it allocates several only for concurrent
       calls. All of these threads call OpenBLAS in a loop, so that soon all calls run at the same
       time. */
    if (callers > 1) until = now_ns() + 50000000 + (int64_t)callers * 10000000;
    while (started < callers - 1 && syn__thread_start(&threads[started], multiply, &until) == 0)
        started++;
    multiply(&until);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
}
