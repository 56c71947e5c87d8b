/* Small models that run on this machine: how long each of their ops took. */
#ifndef TOOLS_JOB_H
#define TOOLS_JOB_H

#include "models/config.h"
#include "syntorch/backend.h"
#include "tools/calibrate/timed_ops.h"

enum { JOB_SHAPES = 4 };

typedef struct job {
    int64_t layers, hidden, vocabulary;
    struct job_shape {
        int64_t batch, tokens, new_tokens; /* new_tokens 0: a training step */
    } shapes[JOB_SHAPES];                  /* one after the other, either kind; batch 0: no more */
    syn_dtype dtype;
    syn_device device;
    int32_t ranks, threads; /* threads of each rank; ranks share layers, in training texts */
    int steps;              /* measured, after one that is not: runs, or training steps */
    bool keep_work;         /* counts pieces of the device's work, which takes time */
    int first_bits, last_bits, more_bits; /* elements of sums over ranks: powers of two */
    syn_status before; /* over MPI: how this rank's preparations went; all ranks learn of it */
} job;

/* The shortest step of the kind that ran, all of it, with nothing between steps. */
typedef struct job_times {
    double prefill_ns, decode_ns, training_ns;
} job_times;

/* Adds what rank 0's ops took. times: NULL for not. */
syn_status job_run(const job *what, timed_ops *ops, job_times *times, syn_error *err) SYN_MUST_USE;
/* y = a + b of so many elements of f32: its op. */
syn_status job_add(const job *what, int64_t elements, timed_ops *ops, syn_error *err) SYN_MUST_USE;
/* All-reduces of f32, until those of one size take longer than 0.2 s, among `what->ranks`
   threads or, if a launcher started this process as one of several, over MPI. There every process
   calls it, and rank 0 has the ops. If `before` is a failure on some rank, nothing is measured: the
   lowest such rank gets its own `before` back, with *err unchanged, and all others SYN_E_COMM. */
syn_status job_all_reduce(const job *what, timed_ops *ops, int32_t *ranks,
                          syn_error *err) SYN_MUST_USE;

#endif
