/* The thread pool (workers.h). Each call of syn_workers_run is a round. The caller publishes the
   task and increments `round`. All threads then take indices from the counter `next` until none are
   left. */
#include "syntorch/base/workers.h"

#include <pthread.h>
#include <stdatomic.h>

#include "syntorch/base/clock.h"
#include "syntorch/base/memory.h"
#include "syntorch/base/thread.h"

/* How long an idle thread, or a caller that waits for other threads, spins before it sleeps.
   Spinning pays because successive kernels of a decode step are only a few microseconds apart. */
#define SPIN_NS 200000

struct syn_workers {
    int threads;
    pthread_t *ids;       /* threads - 1 entries */
    int started;          /* number of threads that were started */
    atomic_uint round;    /* number of calls of syn_workers_run */
    atomic_bool quit;     /* the threads exit when the next round begins */
    atomic_int running;   /* threads that have not finished this round */
    _Atomic int64_t next; /* next index to run */
    int64_t n;
    syn_worker_task task;
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    atomic_int asleep; /* threads that sleep until `begin` */
    atomic_bool caller_asleep;
};

struct start {
    syn_workers *workers;
    int index;
};

static void pause_cpu(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void take_tasks(syn_workers *w, int worker) {
    for (;;) {
        const int64_t i = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed);
        if (i >= w->n) return;
        w->task(w->arg, i, worker);
    }
}

/* Waits until the round differs from `seen`. */
static unsigned wait_for_round(syn_workers *w, unsigned seen) {
    unsigned round;
    const uint64_t until = syn__clock_ns() + SPIN_NS;
    do {
        for (int i = 0; i < 64; i++) {
            round = atomic_load_explicit(&w->round, memory_order_acquire);
            if (round != seen) return round;
            pause_cpu();
        }
    } while (syn__clock_ns() < until);
    pthread_mutex_lock(&w->lock);
    atomic_fetch_add(&w->asleep, 1);
    while ((round = atomic_load(&w->round)) == seen) pthread_cond_wait(&w->begin, &w->lock);
    atomic_fetch_sub(&w->asleep, 1);
    pthread_mutex_unlock(&w->lock);
    return round;
}

static void *worker_main(void *arg) {
    struct start *start = arg;
    syn_workers *w = start->workers;
    const int index = start->index;
    syn_free(start);
    for (unsigned seen = 0;;) {
        seen = wait_for_round(w, seen);
        if (atomic_load(&w->quit)) return NULL;
        take_tasks(w, index);
        if (atomic_fetch_sub(&w->running, 1) == 1 && atomic_load(&w->caller_asleep)) {
            pthread_mutex_lock(&w->lock);
            pthread_cond_signal(&w->end);
            pthread_mutex_unlock(&w->lock);
        }
    }
}

/* Starts a round and wakes the threads that sleep. */
static void begin_round(syn_workers *w) {
    atomic_store(&w->running, w->started);
    atomic_fetch_add(&w->round, 1);
    if (atomic_load(&w->asleep) > 0) {
        pthread_mutex_lock(&w->lock);
        pthread_cond_broadcast(&w->begin);
        pthread_mutex_unlock(&w->lock);
    }
}

static void wait_for_end(syn_workers *w) {
    const uint64_t until = syn__clock_ns() + SPIN_NS;
    do {
        for (int i = 0; i < 64; i++) {
            if (atomic_load_explicit(&w->running, memory_order_acquire) == 0) return;
            pause_cpu();
        }
    } while (syn__clock_ns() < until);
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->caller_asleep, true);
    while (atomic_load(&w->running) != 0) pthread_cond_wait(&w->end, &w->lock);
    atomic_store(&w->caller_asleep, false);
    pthread_mutex_unlock(&w->lock);
}

void syn_workers_run(syn_workers *w, int64_t n, syn_worker_task task, void *arg) {
    if (!w || w->started == 0 || n <= 1) {
        for (int64_t i = 0; i < n; i++) task(arg, i, 0);
        return;
    }
    w->n = n;
    w->task = task;
    w->arg = arg;
    atomic_store_explicit(&w->next, 0, memory_order_relaxed);
    begin_round(w);
    take_tasks(w, 0);
    wait_for_end(w);
}

struct ranges {
    int64_t n, pieces;
    syn_worker_range range;
    void *arg;
};

/* Runs piece i of the range. Each of the first n % pieces pieces has one additional element. */
static void one_range(void *arg, int64_t i, int worker) {
    const struct ranges *r = arg;
    const int64_t each = r->n / r->pieces, longer = r->n % r->pieces;
    const int64_t begin = i * each + (i < longer ? i : longer);
    r->range(r->arg, begin, begin + each + (i < longer), worker);
}

void syn_workers_ranges(syn_workers *w, int64_t n, int64_t grain, syn_worker_range range,
                        void *arg) {
    const int64_t most = grain > 0 ? n / grain : n, count = syn_workers_count(w);
    struct ranges r = {n, most < count ? most : count, range, arg};
    if (n <= 0) return;
    if (r.pieces < 1) r.pieces = 1;
    syn_workers_run(w, r.pieces, one_range, &r);
}

static syn_status start_threads(syn_workers *w, syn_error *err) {
    for (; w->started < w->threads - 1; w->started++) {
        struct start *start = syn_malloc(sizeof *start);
        if (!start) return SYN_FAIL_NOMEM(err, sizeof *start, "a thread");
        *start = (struct start){w, w->started + 1};
        if (syn__thread_start(&w->ids[w->started], worker_main, start) != 0) {
            syn_free(start);
            return SYN_FAIL(err, SYN_E_NOMEM, "the system allows only %d threads", w->started + 1);
        }
    }
    return SYN_OK;
}

syn_status syn_workers_new(syn_workers **out, int threads, syn_error *err) {
    if (threads < 1 || threads > SYN_WORKERS_MAX)
        return SYN_FAIL(err, SYN_E_INVALID, "%d threads requested; 1 to %d are supported", threads,
                        SYN_WORKERS_MAX);
    syn_workers *w = syn_calloc(1, sizeof *w);
    if (!w) return SYN_FAIL_NOMEM(err, sizeof *w, "a thread pool");
    w->threads = threads;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->begin, NULL);
    pthread_cond_init(&w->end, NULL);
    w->ids = syn_calloc((size_t)threads, sizeof *w->ids);
    const syn_status s = w->ids ? start_threads(w, err)
                                : SYN_FAIL_NOMEM(err, (size_t)threads * sizeof *w->ids, "threads");
    if (s != SYN_OK) {
        syn_workers_free(w);
        return s;
    }
    *out = w;
    return SYN_OK;
}

void syn_workers_free(syn_workers *w) {
    if (!w) return;
    atomic_store(&w->quit, true);
    begin_round(w);
    for (int i = 0; i < w->started; i++) pthread_join(w->ids[i], NULL);
    pthread_cond_destroy(&w->end);
    pthread_cond_destroy(&w->begin);
    pthread_mutex_destroy(&w->lock);
    syn_free(w->ids);
    syn_free(w);
}

int syn_workers_count(const syn_workers *w) {
    return w ? w->started + 1 : 1;
}
