/* Threads that share one rank's kernels: the only pool a rank has, so that nothing spins against
   anything else. Idle threads spin for a moment, since the next kernel is usually
   near, then sleep. */
#ifndef SYNTORCH_WORKERS_H
#define SYNTORCH_WORKERS_H

#include "syntorch/base/status.h"

SYN_API_BEGIN

typedef struct syn_workers syn_workers;

#define SYN_WORKERS_MAX 256

/* `threads` threads in all, the caller of syn_workers_run among them. */
syn_status syn_workers_new(syn_workers **out, int threads, syn_error *err) SYN_MUST_USE;
void syn_workers_free(syn_workers *workers);
int syn_workers_count(const syn_workers *workers); /* NULL: 1 */

/* Calls task(arg, i, worker) once for each i in [0, n), on any thread and in any order; worker is
   in [0, count). Returns when all are done. What a task computes must not depend on `worker`, which
   is for scratch memory: results are then the same in every run. NULL workers: the caller does all.
   One caller at a time, and not from within a task. */
typedef void (*syn_worker_task)(void *arg, int64_t i, int worker);
void syn_workers_run(syn_workers *workers, int64_t n, syn_worker_task task, void *arg);

/* Calls range(arg, begin, end, worker) for pieces of [0, n) of at least `grain` elements each (but
   for n < grain), at most one piece a thread. The cut depends on n, grain and the number
   of threads alone. */
typedef void (*syn_worker_range)(void *arg, int64_t begin, int64_t end, int worker);
void syn_workers_ranges(syn_workers *workers, int64_t n, int64_t grain, syn_worker_range range,
                        void *arg);

SYN_API_END
#endif
