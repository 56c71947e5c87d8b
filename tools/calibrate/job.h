/* Runs small models, and single ops, on this machine and records how long each of their ops
   takes. */
#ifndef TOOLS_JOB_H
#define TOOLS_JOB_H

#include "models/config.h"
#include "syntorch/backend.h"
#include "tools/calibrate/timed_ops.h"

enum { JOB_SHAPES = 4 };

typedef struct job {
    int64_t layers, hidden, vocabulary; /* of a GPT with heads of 64 */
    struct job_shape {
        int64_t batch, tokens, new_tokens; /* new_tokens 0: a training step */
    } shapes[JOB_SHAPES]; /* run one after the other, all of the same kind; ends at batch 0 */
    syn_dtype dtype;
    syn_device device;
    /* threads: per rank; ranks are tensor-parallel, in training data-parallel. */
    int32_t ranks, threads;
    int steps; /* number of measured runs or training steps, after one that is not measured */
    bool record_work; /* count pieces of device work, which takes time */
    /* Sizes of all-reduces, as exponents of 2, and their increment. */
    int first_bits, last_bits, more_bits;
    syn_status before; /* over MPI: status of this rank's preparations, exchanged with all ranks */
} job;

/* The shortest step of each kind that ran, measured as a whole, without work between steps. */
typedef struct job_times {
    double prefill_ns, decode_ns, training_ns;
} job_times;

/* Runs the model and adds the op times of rank 0 to *ops. times: may be NULL. */
syn_status job_run(const job *what, timed_ops *ops, job_times *times, syn_error *err) SYN_MUST_USE;
/* Runs y = a + b on f32 tensors with that many elements, and adds its times. */
syn_status job_add(const job *what, int64_t elements, timed_ops *ops, syn_error *err) SYN_MUST_USE;
/* Runs all-reduces in f32 at growing sizes, until those of one size take more than 0.2 s in total.
   The ranks are `what->ranks` threads or, if a launcher started this process as one of several, MPI
   processes; then every process calls it, and rank 0 gets the op times and *ranks. If `before` is a
   failure on any rank, nothing is measured: the lowest such rank returns its own `before` and
   leaves *err unchanged, and all others return SYN_E_COMM. */
syn_status job_all_reduce(const job *what, timed_ops *ops, int32_t *ranks,
                          syn_error *err) SYN_MUST_USE;

#endif
