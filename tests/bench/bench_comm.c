/* Measures the all-reduce (f32, sum) of two ranks. In-process ranks are compared with the memory
   limit measured in the same run, and with MPI if the library was built with it. To measure the
   limit, two threads each read half of both inputs and write half of both outputs, with plain or
   streaming stores, whichever are faster. They synchronize only at the beginning and the end. */
#include "comm/comm.h"
#include "syntorch/base/memory.h"
#include "tests/support/comm_calls.h"

#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

extern char **environ;

static const size_t sizes[] = {4096, 1U << 20, 100U << 20}; /* in bytes */
static const int repeats[] = {20000, 400, 15};
enum { N_SIZES = 3, N_RUNS = 7 };

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

typedef struct bench {
    bool in_place;
    double us[N_SIZES]; /* each is the best of N_RUNS mean times */
} bench;

static syn_status bench_rank(syn_comm *comm, void *arg, syn_error *err) {
    bench *b = arg;
    const int32_t ranks[] = {0, 1};
    syn_group *group = NULL;
    SYN_TRY(syn_comm_open_group(comm, 1, "pair", ranks, 2, &group, err));
    for (int s = 0; s < N_SIZES; s++) {
        const size_t n = sizes[s] / sizeof(float);
        float *in = syn_aligned_malloc(sizes[s]), *out = syn_aligned_malloc(sizes[s]);
        if (in == NULL || out == NULL) return SYN_FAIL_NOMEM(err, sizes[s], "a buffer");
        memset(in, 0, sizes[s]);
        memset(out, 0, sizes[s]);
        double best = 1e30;
        for (int run = 0; run < N_RUNS; run++) {
            SYN_TRY(run_barrier(comm, group, err));
            const double begin = now_us();
            for (int i = 0; i < repeats[s]; i++)
                SYN_TRY(run_all_reduce(comm, group, in, b->in_place ? in : out, n, SYN_F32,
                                       SYN_REDUCE_SUM, err));
            const double us = (now_us() - begin) / repeats[s];
            if (us < best) best = us;
        }
        syn_aligned_free(in);
        syn_aligned_free(out);
        if (comm->rank == 0) b->us[s] = best;
    }
    return SYN_OK;
}

typedef struct half {
    const float *a, *b;
    float *x, *y;
    size_t begin, end;
    bool stream;
    int repeats;
    pthread_barrier_t *meet;
    double from_us, to_us;
} half;

static void plain(const float *restrict a, const float *restrict b, float *restrict x,
                  float *restrict y, size_t n) {
    for (size_t i = 0; i < n; i++) x[i] = y[i] = a[i] + b[i];
}

static void streaming(const float *a, const float *b, float *x, float *y, size_t n) {
#if defined(__SSE2__)
    for (size_t i = 0; i < n; i += 4) {
        const __m128 sum = _mm_add_ps(_mm_load_ps(a + i), _mm_load_ps(b + i));
        _mm_stream_ps(x + i, sum);
        if (y != x) _mm_stream_ps(y + i, sum);
    }
    _mm_sfence();
#else
    plain(a, b, x, y, n);
#endif
}

static void *run_half(void *arg) {
    half *h = arg;
    const size_t n = h->end - h->begin;
    pthread_barrier_wait(h->meet);
    h->from_us = now_us();
    for (int i = 0; i < h->repeats; i++) {
        (h->stream ? streaming : plain)(h->a + h->begin, h->b + h->begin, h->x + h->begin,
                                        h->y + h->begin, n);
        __asm__ volatile("" ::: "memory");
    }
    h->to_us = now_us();
    return NULL;
}

/* The microseconds of one pass, best of N_RUNS. in_place: the outputs are the inputs. */
static double bound_us(int s, bool stream, bool in_place) {
    const size_t n = sizes[s] / sizeof(float);
    float *buffers[4];
    for (int i = 0; i < 4; i++) {
        buffers[i] = syn_aligned_malloc(sizes[s]);
        memset(buffers[i], 0, sizes[s]);
    }
    double best = 1e30;
    for (int run = 0; run < N_RUNS; run++) {
        pthread_barrier_t meet;
        pthread_t thread[2];
        half h[2];
        pthread_barrier_init(&meet, NULL, 2);
        for (int t = 0; t < 2; t++) {
            h[t] = (half){.a = buffers[0],
                          .b = buffers[1],
                          .x = buffers[in_place ? 0 : 2],
                          .y = buffers[in_place ? 1 : 3],
                          .begin = t == 0 ? 0 : n / 2,
                          .end = t == 0 ? n / 2 : n,
                          .stream = stream,
                          .repeats = repeats[s],
                          .meet = &meet};
            if (pthread_create(&thread[t], NULL, run_half, &h[t]) != 0) exit(1);
        }
        for (int t = 0; t < 2; t++) pthread_join(thread[t], NULL);
        const double from = h[0].from_us < h[1].from_us ? h[0].from_us : h[1].from_us;
        const double to = h[0].to_us > h[1].to_us ? h[0].to_us : h[1].to_us;
        if ((to - from) / repeats[s] < best) best = (to - from) / repeats[s];
        pthread_barrier_destroy(&meet);
    }
    for (int i = 0; i < 4; i++) syn_aligned_free(buffers[i]);
    return best;
}

static void print_row(const char *name, const double *us) {
    printf("%-28s %12.2f us %12.1f us %12.0f us\n", name, us[0], us[1], us[2]);
}

static int bench_mpi(void) {
    syn_comm *comm = NULL;
    syn_error err = {0};
    bench b = {.in_place = false};
    syn_status status = syn_comm_mpi_new(&comm, NULL, &err);
    if (status == SYN_OK) status = bench_rank(comm, &b, &err);
    if (status != SYN_OK) {
        fprintf(stderr, "%s\n", err.text);
        if (comm != NULL) comm->ops->abort(comm, err.text);
        return 1;
    }
    if (comm->rank == 0) print_row("mpi", b.us);
    fflush(stdout);
    syn_comm_close(comm);
    return 0;
}

static void spawn_mpi(char *program) {
    char *argv[] = {"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", program, NULL};
    pid_t child = 0;
    int status = 0;
    fflush(stdout);
    if (!syn_mpi_built() || posix_spawnp(&child, "mpirun", NULL, NULL, argv, environ) != 0 ||
        waitpid(child, &status, 0) != child || status != 0)
        printf("mpi: not available\n");
}

int main(int argc, char **argv) {
    (void)argc;
    if (syn_mpi_launched(NULL, NULL)) return bench_mpi();
    printf("all-reduce of 2 ranks, f32 sum %9s %15s %15s\n", "4 KB", "1 MB", "100 MB");
    for (int in_place = 0; in_place < 2; in_place++) {
        double bound[N_SIZES];
        bench b = {.in_place = in_place};
        syn_error err = {0};
        for (int s = 0; s < N_SIZES; s++) {
            const double p = bound_us(s, false, in_place), q = bound_us(s, true, in_place);
            bound[s] = p < q ? p : q;
        }
        if (syn_local_run(2, bench_rank, &b, &err) != SYN_OK) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        print_row(in_place ? "local, in place" : "local", b.us);
        print_row("  memory bound", bound);
        printf("  of the bound               %11.0f %% %12.0f %% %12.0f %%\n",
               100 * bound[0] / b.us[0], 100 * bound[1] / b.us[1], 100 * bound[2] / b.us[2]);
    }
    spawn_mpi(argv[0]);
    return 0;
}
