/* Tests the thread pool: every task runs once, ranges have neither gaps nor overlaps, a round may
   start while the threads spin or while they sleep, and threads may be unavailable. */
#include "syntorch/base/memory.h"
#include "syntorch/base/workers.h"
#include "tests/support/test.h"

#include <stdatomic.h>
#include <time.h>

#define MOST 1000

struct counts {
    atomic_int of[MOST]; /* number of calls per task or element */
    int workers;
    atomic_int bad;
};

static void count_task(void *arg, int64_t i, int worker) {
    struct counts *c = arg;
    atomic_fetch_add(&c->of[i], 1);
    if (worker < 0 || worker >= c->workers) atomic_fetch_add(&c->bad, 1);
}

static void count_range(void *arg, int64_t begin, int64_t end, int worker) {
    struct counts *c = arg;
    if (begin >= end) atomic_fetch_add(&c->bad, 1);
    for (int64_t i = begin; i < end; i++) count_task(arg, i, worker);
}

static bool all_are(struct counts *c, int64_t n, int want) {
    bool ok = atomic_load(&c->bad) == 0;
    for (int64_t i = 0; i < MOST; i++) ok = ok && atomic_load(&c->of[i]) == (i < n ? want : 0);
    return ok;
}

static void each_task_once(void) {
    static const int64_t lengths[] = {0, 1, 2, 3, 7, 64, MOST};
    for (int threads = 1; threads <= 5; threads++) {
        syn_error err = {0};
        syn_workers *w = NULL;
        CHECK_OK(syn_workers_new(&w, threads, &err), err);
        CHECK_INT(syn_workers_count(w), threads);
        for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
            struct counts c = {.workers = threads};
            for (int round = 0; round < 50; round++) syn_workers_run(w, lengths[l], count_task, &c);
            CHECK_MSG(all_are(&c, lengths[l], 50), "%d threads, %lld tasks", threads,
                      (long long)lengths[l]);
        }
        syn_workers_free(w);
    }
}

static void ranges_cover(void) {
    static const int64_t grains[] = {0, 1, 10, 333, MOST, 5 * MOST};
    for (int threads = 0; threads <= 4; threads++) { /* 0 means no pool */
        syn_error err = {0};
        syn_workers *w = NULL;
        if (threads > 0) CHECK_OK(syn_workers_new(&w, threads, &err), err);
        for (size_t g = 0; g < sizeof grains / sizeof grains[0]; g++)
            for (int64_t n = 0; n <= MOST; n = n < 9 ? n + 1 : n * 3 + 1) {
                struct counts c = {.workers = threads > 0 ? threads : 1};
                syn_workers_ranges(w, n, grains[g], count_range, &c);
                CHECK_MSG(all_are(&c, n, 1), "%d threads, %lld elements, grain %lld", threads,
                          (long long)n, (long long)grains[g]);
            }
        syn_workers_free(w);
    }
}

struct pieces {
    atomic_int n;
    int64_t least;
};

static void note_range(void *arg, int64_t begin, int64_t end, int worker) {
    struct pieces *p = arg;
    (void)worker;
    atomic_fetch_add(&p->n, 1);
    if (end - begin < p->least) p->least = -1; /* a piece must not be shorter than the grain */
}

static void pieces_are_not_too_small(void) {
    syn_error err = {0};
    syn_workers *w = NULL;
    CHECK_OK(syn_workers_new(&w, 4, &err), err);
    static const struct {
        int64_t n, grain;
        int pieces;
    } cuts[] = {{100, 25, 4}, {100, 26, 3}, {100, 51, 1}, {100, 1, 4}, {3, 1, 3}, {5, 10, 1}};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        struct pieces p = {.least = cuts[i].n < cuts[i].grain ? 0 : cuts[i].grain};
        syn_workers_ranges(w, cuts[i].n, cuts[i].grain, note_range, &p);
        CHECK_INT(atomic_load(&p.n), cuts[i].pieces);
        CHECK(p.least >= 0);
    }
    syn_workers_free(w);
}

/* Slow tasks make threads and the caller fall asleep. All of them must wake up. */
static void slow_task(void *arg, int64_t i, int worker) {
    const struct timespec pause = {0, i == 0 ? 0 : 2000000};
    (void)worker;
    nanosleep(&pause, NULL);
    atomic_fetch_add((atomic_int *)arg, 1);
}

static void sleepers_wake(void) {
    syn_error err = {0};
    syn_workers *w = NULL;
    atomic_int done = 0;
    CHECK_OK(syn_workers_new(&w, 3, &err), err);
    for (int round = 0; round < 20; round++) {
        const struct timespec pause = {0, round % 2 ? 3000000 : 0};
        nanosleep(&pause, NULL);
        syn_workers_run(w, 3, slow_task, &done);
        CHECK_INT(atomic_load(&done), 3 * (round + 1));
    }
    syn_workers_free(w);
}

static void failures(void) {
    syn_error err = {0};
    syn_workers *w = NULL;
    CHECK(syn_workers_new(&w, 0, &err) == SYN_E_INVALID);
    CHECK_HAS(err.text, "0 threads requested; 1 to 256 are supported");
    for (uint64_t n = 0; n < 4; n++) {
        err.code = SYN_OK;
        syn_memory_fail_after(n);
        const syn_status s = syn_workers_new(&w, 3, &err);
        syn_memory_fail_after(SYN_MEMORY_NEVER);
        CHECK(s == SYN_E_NOMEM);
    }
}

static const test_case cases[] = {
    {"each_task_once", each_task_once},
    {"ranges_cover", ranges_cover},
    {"pieces_are_not_too_small", pieces_are_not_too_small},
    {"sleepers_wake", sleepers_wake},
    {"failures", failures},
};

TEST_MAIN(cases)
