/* A pool of threads that run a rank's kernels. All kernels of a rank share one pool, so that they
   do not compete for cores. Idle threads spin for a moment, because the next kernel usually follows
   soon, and then sleep. */
#ifndef SYNTORCH_WORKERS_H
#define SYNTORCH_WORKERS_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

typedef struct syn_workers syn_workers;

#define SYN_WORKERS_MAX 256

/* Creates a pool. `threads`: the number of threads, including the caller of syn_workers_run. */
syn_status syn_workers_new(syn_workers **out, int threads, syn_error *err) SYN_MUST_USE;
void syn_workers_free(syn_workers *workers);
int syn_workers_count(const syn_workers *workers); /* 1 if workers is NULL */

/* Calls task(arg, i, worker) once for each i in [0, n), on any thread and in any order, and returns
   when all calls are done. `worker` is the number of the thread, in [0, syn_workers_count), and
   selects scratch memory. Results must not depend on it, so that every run has the same results.
   workers NULL: the caller runs all tasks. Only one thread at a time may call this function. A task
   may not call it. */
typedef void (*syn_worker_task)(void *arg, int64_t i, int worker);
void syn_workers_run(syn_workers *workers, int64_t n, syn_worker_task task, void *arg);

/* Divides [0, n) into pieces, at most one per thread, and calls range(arg, begin, end, worker) for
   each. A piece has at least `grain` elements, unless n < grain. The division depends only on n,
   grain and the number of threads. */
typedef void (*syn_worker_range)(void *arg, int64_t begin, int64_t end, int worker);
void syn_workers_ranges(syn_workers *workers, int64_t n, int64_t grain, syn_worker_range range,
                        void *arg);

SYN_API_END
#endif
