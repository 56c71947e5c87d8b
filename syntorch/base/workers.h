/* A pool of threads that run a rank's kernels. A rank has only one pool, so its threads do not
   compete with each other. Idle threads spin for a moment, because the next kernel usually follows
   soon, and then sleep. */
#ifndef SYNTORCH_WORKERS_H
#define SYNTORCH_WORKERS_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

typedef struct syn_workers syn_workers;

#define SYN_WORKERS_MAX 256

/* `threads`: total number, including the caller of syn_workers_run. */
syn_status syn_workers_new(syn_workers **out, int threads, syn_error *err) SYN_MUST_USE;
void syn_workers_free(syn_workers *workers);
int syn_workers_count(const syn_workers *workers); /* 1 if workers is NULL */

/* Calls task(arg, i, worker) once for each i in [0, n), on any thread and in any order, and returns
   when all are done. worker is in [0, count) and selects scratch memory; results must not depend on
   it, so that they are the same in every run. workers NULL: the caller runs all tasks. Only one
   caller at a time, and not from within a task. */
typedef void (*syn_worker_task)(void *arg, int64_t i, int worker);
void syn_workers_run(syn_workers *workers, int64_t n, syn_worker_task task, void *arg);

/* Calls range(arg, begin, end, worker) for pieces of [0, n), at most one per thread. Each piece has
   at least `grain` elements, unless n < grain. The division depends only on n, grain and the number
   of threads. */
typedef void (*syn_worker_range)(void *arg, int64_t begin, int64_t end, int worker);
void syn_workers_ranges(syn_workers *workers, int64_t n, int64_t grain, syn_worker_range range,
                        void *arg);

SYN_API_END
#endif
